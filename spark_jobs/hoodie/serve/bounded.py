"""Looks at tables that end in time: a storage that hangs holds up its own table alone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from hoodie.errors import JobError, StorageError


class _Look:
    """One call, in a thread that nothing waits for at the end of the process; `begun`: when, by the clock
    `time.monotonic`, None while it waits for a thread.
    """

    def __init__(self, key: str, call: Callable[[], Any]) -> None:
        self.key = key
        self._call = call
        self.answer: Future[Any] = Future()
        self.begun: float | None = None

    def run(self) -> None:
        threading.current_thread().name = f"hoodie-look-{self.key}"
        try:
            result = self._call()
        except Exception as error:  # noqa: BLE001  raised where the result is asked for
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)


class Bounded:
    """Calls by a key, each with `seconds` to answer. Of one key there is one at a time: who asks meanwhile
    gets its answer, and a table that hangs holds one thread.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._looks: dict[str, _Look] = {}
        self._lock = threading.Lock()

    def run(self, key: str, call: Callable[[], Any]) -> Any:
        """What `call` returns or raises; StorageError where it takes too long, JobError where no thread can
        be started for it. The result is shared: leave it as it is.
        """
        return self.run_all({key: call}, 1)[key].result()

    def run_all(self, calls: Mapping[str, Callable[[], Any]], at_once: int) -> dict[str, Future[Any]]:
        """As `run`, what each call returns or raises. They share up to `at_once` threads: where no more can
        be started, fewer.
        """
        answers: dict[str, Future[Any]] = {}
        queue: deque[_Look] = deque()
        wake = threading.Event()
        try:
            looks = self._looks_of(calls, queue)
            own, threads = set(queue), 0
            for look in looks:
                look.answer.add_done_callback(lambda _: wake.set())
            while True:
                wake.clear()
                for look in looks:
                    if look.answer.done():
                        answers[look.key] = look.answer
                    elif self._left(look) <= 0:
                        answers[look.key] = self._too_late(look)
                        threads -= look in own  # it holds its thread
                looks = [look for look in looks if look.key not in answers]
                if not looks:
                    return answers
                while queue and threads < at_once and _started(queue, wake):
                    threads += 1
                if not threads:
                    _give_up(queue)
                wake.wait(min(map(self._left, looks)))
        finally:
            _give_up(queue)

    def _looks_of(self, calls: Mapping[str, Callable[[], Any]], queue: deque[_Look]) -> list[_Look]:
        """Looks by these keys; those that nobody has asked for yet are in the queue."""
        looks = []
        with self._lock:
            for key, call in calls.items():
                look = self._looks.get(key)
                if look is None or look.answer.done():
                    look = _Look(key, call)
                    look.answer.add_done_callback(partial(self._forget, look))
                    queue.append(look)
                    self._looks[key] = look
                looks.append(look)
        return looks

    def _forget(self, look: _Look, _: object) -> None:
        with self._lock:
            if self._looks.get(look.key) is look:
                del self._looks[look.key]

    def _left(self, look: _Look) -> float:
        """Seconds that it has left; all of them before it begins."""
        return self.seconds if look.begun is None else look.begun + self.seconds - time.monotonic()

    def _too_late(self, look: _Look) -> Future[Any]:
        message = f"table {look.key} did not answer within {self.seconds:g} s; check its storage"
        failed: Future[Any] = Future()
        failed.set_exception(StorageError(message, table=look.key))
        return failed


def _started(queue: deque[_Look], wake: threading.Event) -> bool:
    """Could a thread be started, which takes looks from the queue until it is empty?"""

    def work() -> None:
        while (look := _next(queue)) is not None:
            look.begun = time.monotonic()
            wake.set()
            look.run()

    try:
        threading.Thread(target=work, name="hoodie-look", daemon=True).start()
    except (RuntimeError, MemoryError):
        return False
    return True


def _next(queue: deque[_Look]) -> _Look | None:
    try:
        return queue.popleft()
    except IndexError:
        return None


def _give_up(queue: deque[_Look]) -> None:
    while (look := _next(queue)) is not None:
        look.answer.set_exception(
            JobError(
                f"no thread can be started to look at table {look.key}; this process has as much memory, or "
                "as many threads, as it may have",
                table=look.key,
            )
        )
