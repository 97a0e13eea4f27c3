"""Which backend does what a call asks for."""

from __future__ import annotations

from typing import Any

from hoodie.backend import BACKENDS, Backend
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend


def backend_of(session: Any) -> Backend:
    """The backend of a Spark session; of None the local one; a backend itself."""
    if isinstance(session, Backend):
        return session
    return LocalBackend() if session is None else SparkBackend(session)


def backend_for(rows: Any, session: Any) -> Backend:
    """The backend that writes the rows: the one that holds them, else that of the session."""
    for kind in BACKENDS.classes():
        if (found := kind.adopt(rows)) is not None:
            return found
    return backend_of(session)
