"""Errors of requests that a storage elsewhere refused, or did not answer."""

from __future__ import annotations

from hoodie.errors import StorageError


class BeyondEnd(StorageError):
    """The file has no bytes where some are asked for."""


def failure(
    path: str, done: str, what: str, step: str, *, cause: str, transient: bool = False
) -> StorageError:
    """`done` is what can't be done with the path (read, written); `step` comes next."""
    return StorageError(
        f"{path[:500]} can't be {done}: {what}; {step}",
        path=path,
        cause=cause,
        **({"transient": True} if transient else {}),
    )
