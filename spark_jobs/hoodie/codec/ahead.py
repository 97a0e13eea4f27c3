"""One step ahead: what is read next is read while the last is used."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_T = TypeVar("_T")
_END = object()


def ahead(items: Iterator[_T]) -> Iterator[_T]:
    """The same items and errors; a thread makes the next one while the caller works on the last.

    Arrow's kernels and Parquet let go of the interpreter, so that a task which has a core to spare uses it.
    Holds one item more. Closing it waits for the item that is being made.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        coming = pool.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]  # it is no end
