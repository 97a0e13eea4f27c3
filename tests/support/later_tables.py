"""Tables of versions 8 and 9 that are made here, by tests that have one for every version."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hoodie.write.settings import TABLE_VERSION


@contextlib.contextmanager
def new_tables_of(version: int) -> Iterator[None]:
    """Tables that are made meanwhile have this version by default."""
    default = TABLE_VERSION.default
    object.__setattr__(TABLE_VERSION, "default", version)
    try:
        yield
    finally:
        object.__setattr__(TABLE_VERSION, "default", default)
