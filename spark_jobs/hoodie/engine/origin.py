"""Files that a task has read rows of, so that a refusal of rows names them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from hoodie.errors import HoodieError, InputError
from hoodie.text import plural

#: files that are named all
_NAMED = 5
_READ: ContextVar[dict[str, None] | None] = ContextVar("_READ", default=None)


@contextlib.contextmanager
def noting() -> Iterator[None]:
    """Files are noted while a task runs."""
    before = _READ.get()
    _READ.set({})
    try:
        yield
    finally:
        _READ.set(before)


def note(path: str) -> None:
    """The rows that come next are of this file."""
    read = _READ.get()
    if read is not None:
        read[path] = None


def with_files(error: HoodieError) -> HoodieError:
    """A refusal of rows with the files that were read until then, the last one first."""
    read = [*(_READ.get() or ())]
    if not read or not isinstance(error, InputError) or "file" in error.values or read[-1] in error.message:
        return error
    if len(read) > _NAMED:
        place = f"{read[-1]}, or from {plural(len(read) - 1, 'file')} before it"
    else:
        place = ", or from ".join(reversed(read))
    text = f"{error.message} (read from {place})"
    return type(error)(text, **error.values, file=read[-1])
