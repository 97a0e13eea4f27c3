"""Reading ahead: what is used next is read while the last is used.

Arrow's kernels and Parquet let go of the interpreter, so that threads use the cores that a task has to spare.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_END = object()
#: seconds
_WORTH_S = 0.005


def prefetch(items: Iterator[_T]) -> Iterator[_T]:
    """The same items and errors; a thread makes the next one while the caller works on the last. The caller
    makes them itself as long as they take less than a thread is worth.

    Holds one item more. Closing it waits for the item that is being made.
    """
    spent = 0.0
    while spent < _WORTH_S:
        begun = time.perf_counter()
        if (item := next(items, _END)) is _END:
            return
        spent += time.perf_counter() - begun
        yield item  # type: ignore[misc]  # it is no end
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as pool:
        coming = pool.submit(next, items, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]  # it is no end


def parallel(
    sources: Iterable[Generator[_T, Any, Any]], many: int, size: Callable[[_T], int], most: int
) -> Generator[_T, None, None]:
    """The items of one source after the other, and its error; threads make those of `many` sources at once.

    A source waits once its items that are not taken yet have `most` bytes. Closing it closes the sources.
    """
    lanes: deque[_Lane[_T]] = deque()
    waiting = iter(sources)
    try:
        while True:
            while len(lanes) < many and (source := next(waiting, None)) is not None:
                lanes.append(_Lane(source, size, most))
            if not lanes:
                return
            yield from lanes[0].items()
            lanes.popleft()
    finally:
        for lane in lanes:
            lane.close()


class _Lane(Generic[_T]):
    """What a thread makes of one source, until its consumer takes it.

    A daemon: a program that ends in the middle of its reading does not wait for a thread that waits for it.
    `_close_all` ends the thread before the interpreter goes: a thread that comes back to it from Arrow aborts
    the process.
    """

    def __init__(self, source: Generator[_T, Any, Any], size: Callable[[_T], int], most: int) -> None:
        self._size = size
        self._most = most
        self._changed = threading.Condition()
        self._items: deque[tuple[_T, int]] = deque()
        self._held = 0
        self._wanted = True
        self._through = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._fill, args=(source,), name="side by side", daemon=True)
        self._thread.start()
        _LANES.add(self)

    def items(self) -> Iterator[_T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._through)
                if not self._items:
                    break
                item, size = self._items.popleft()
                self._held -= size
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        with self._changed:
            self._wanted = False
            self._changed.notify_all()
        self._thread.join()

    def _fill(self, source: Generator[_T, Any, Any]) -> None:
        try:
            with closing(source):
                for item in source:
                    if not self._put(item):
                        break
        except BaseException as error:  # noqa: BLE001  raised where the items are taken
            self._error = error
        finally:
            with self._changed:
                self._through = True
                self._changed.notify_all()

    def _put(self, item: _T) -> bool:
        """False where the items are not wanted any more."""
        size = self._size(item)
        with self._changed:
            self._changed.wait_for(
                lambda: not self._wanted or not self._items or self._held + size <= self._most
            )
            self._items.append((item, size))
            self._held += size
            self._changed.notify_all()
            return self._wanted


#: those whose threads may run
_LANES: weakref.WeakSet[_Lane[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for lane in list(_LANES):
        lane.close()
