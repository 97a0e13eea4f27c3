"""Files that a task has read rows of, so that a refusal of rows names them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from hoodie.errors import HoodieError, InputError
from hoodie.text import plural

_READ: ContextVar[dict[str, None] | None] = ContextVar("_READ", default=None)


@contextlib.contextmanager
def noting() -> Iterator[None]:
    """Files are noted while a task runs."""
    _READ.set({})
    try:
        yield
    finally:
        _READ.set(None)


def note(path: str) -> None:
    """The rows that come next are of this file."""
    read = _READ.get()
    if read is not None:
        read[path] = None


def with_files(error: HoodieError) -> HoodieError:
    """A refusal of rows with the files that were read until then, the last one first."""
    read = [*(_READ.get() or ())]
    if not read or not isinstance(error, InputError) or "file" in error.values:
        return error
    others = f", or from {plural(len(read) - 1, 'file')} before it" if len(read) > 1 else ""
    text = f"{error.message} (read from {read[-1]}{others})"
    return type(error)(text, **error.values, file=read[-1])
