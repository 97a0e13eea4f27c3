"""SIGTERM ends a process in order."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def terminated_by_signal() -> Iterator[None]:
    """SIGTERM raises SystemExit in the main thread, so that `finally` and `with` clean up; only once. Another
    thread, in which a platform may run a job, gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
