"""Looks at tables that end in time: a storage that hangs holds up its own table alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hoodie.errors import StorageError


class _Look:
    """One call, in a thread that nothing waits for at the end of the process."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._result: Any = None
        self._error: Exception | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:  # noqa: BLE001  raised where the result is asked for
            self._error = error
        self.done.set()

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class Bounded:
    """Calls by a key, each with `seconds` to answer. Of one key there is one at a time: who asks meanwhile
    gets its answer, and a table that hangs holds one thread.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._looks: dict[str, _Look] = {}
        self._lock = threading.Lock()

    def run(self, key: str, call: Callable[[], Any]) -> Any:
        """What `call` returns or raises; StorageError where it takes too long. The result is shared: leave it
        as it is.
        """
        with self._lock:
            look = self._looks.get(key)
            if look is None or look.done.is_set():
                look = self._looks[key] = _Look(call)
                threading.Thread(target=look.run, name=f"hoodie-look-{key}", daemon=True).start()
        if not look.done.wait(self.seconds):
            raise StorageError(
                f"table {key} did not answer within {self.seconds:g} s; check its storage", table=key
            )
        with self._lock:
            if self._looks.get(key) is look:
                del self._looks[key]
        return look.result()
