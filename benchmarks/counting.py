"""What one operation asks of storages, reads, writes and takes, measured in its own process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoodie.storage import Storage
from tests.support.storages import Delegating, wrapped


@dataclass
class Cost:
    """`calls` by name; `timeline_bytes` were read whole of `.hoodie`; bytes read and written are all of the
    process. `peak_mib` is the most that the process ever had.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    calls: Counter[str] = field(default_factory=Counter)
    timeline_bytes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    peak_mib: int = 0

    @property
    def storage_calls(self) -> int:
        return sum(self.calls.values())

    def to_dict(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "storage_calls": self.storage_calls,
            "calls": dict(self.calls.most_common()),
            "timeline_bytes": self.timeline_bytes,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "peak_mib": self.peak_mib,
        }


@contextlib.contextmanager
def cost() -> Iterator[Cost]:
    """Of what is done inside; complete at its end."""
    found, lock = Cost(), threading.Lock()
    with wrapped(lambda storage: _Counting(storage, found, lock)):
        before, cpu, begin = io_bytes(), time.process_time(), time.perf_counter()
        try:
            yield found
        finally:
            found.seconds = time.perf_counter() - begin
            found.cpu_seconds = time.process_time() - cpu
            after = io_bytes()
            found.bytes_read, found.bytes_written = (after[i] - before[i] for i in (0, 1))
            found.peak_mib = _peak_kib() >> 10


class _Counting(Delegating):
    def __init__(self, inner: Storage, found: Cost, lock: threading.Lock) -> None:
        super().__init__(inner)
        self._found, self._lock = found, lock

    def ask(self, name: str, path: str, *arguments: Any) -> Any:
        answer = super().ask(name, path, *arguments)
        with self._lock:
            self._found.calls[name] += 1
            self._found.timeline_bytes += len(answer) if name == "read" else 0
        return answer


def _peak_kib() -> int:
    """Of resident memory since the program began: that of getrusage includes the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def io_bytes() -> tuple[int, int]:
    """What this process has read, and written."""
    lines = Path("/proc/self/io").read_text().splitlines()
    known = dict(line.split(": ") for line in lines)
    return int(known["rchar"]), int(known["wchar"])
