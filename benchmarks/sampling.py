"""Peak memory and CPU time of a process tree during one operation.

Memory of a JVM is its resident set (it shares next to nothing); memory of every other process is its
proportional set (PSS), because Spark's Python workers are forks that share pages with their daemon.  PSS is
dear and looked up only when the cheap sum of RSS is a hundredth above its last peak; the tree is looked up a
few times a second: on two cores the sampler would be a part of what it measures.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import TracebackType

import psutil  # type: ignore[import-untyped]

INTERVAL = 0.05
#: samples from one look at the tree to the next
_LOOK = 5
#: a peak that is this much higher is looked at
_HIGHER = 1.01
MIB = 1 << 20


@dataclass(frozen=True)
class Usage:
    """Peaks in MiB: the whole tree at once, the JVM alone, and the largest single Python worker process."""

    peak: float = 0.0
    peak_jvm: float = 0.0
    peak_python_worker: float = 0.0
    cpu_seconds: float = 0.0


class Sampler:
    """Context manager; samples the tree below `pid` every 50 ms; `usage` is valid after the block."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._peak = self._jvm = self._worker = 0
        self._resident = self._largest = self._samples = 0
        self._jvms: list[psutil.Process] = []
        self._others: list[psutil.Process] = []
        self._cpu_before = 0.0
        self.usage = Usage()

    def __enter__(self) -> Sampler:
        self._cpu_before = self._cpu()
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._sample()
        cpu = self._cpu() - self._cpu_before
        self.usage = Usage(self._peak / MIB, self._jvm / MIB, self._worker / MIB, cpu)

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            self._sample()

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _sample(self) -> None:
        if self._samples % _LOOK == 0:
            self._look()
        self._samples += 1
        jvm = sum(map(_rss, self._jvms))
        python = [(process, _rss(process)) for process in self._others]
        self._jvm = max(self._jvm, jvm)
        largest = max((rss for process, rss in python if self._is_worker(process)), default=0)
        resident = jvm + sum(rss for _, rss in python)
        if resident <= self._resident * _HIGHER and largest <= self._largest * _HIGHER:
            return
        self._resident, self._largest = max(self._resident, resident), max(self._largest, largest)
        shares = [(process, _pss(process, rss)) for process, rss in python]
        self._peak = max(self._peak, jvm + sum(share for _, share in shares))
        self._worker = max([self._worker, *(share for process, share in shares if self._is_worker(process))])

    def _look(self) -> None:
        """Which processes there are."""
        self._jvms, self._others = [], []
        for process in self._tree():
            try:
                if not _runs_java(process):
                    self._others.append(process)
                elif process.pid == self._root.pid or not _runs_java(process.parent()):
                    # the child of a JVM is a command on its start, which shares the JVM's memory
                    self._jvms.append(process)
            except psutil.Error:
                continue

    def _is_worker(self, process: psutil.Process) -> bool:
        return bool(process.pid != self._root.pid)

    def _cpu(self) -> float:
        total = 0.0
        for process in self._tree():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total


def _rss(process: psutil.Process) -> int:
    """Resident bytes; none of a process that ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _runs_java(process: psutil.Process | None) -> bool:
    if process is None:
        return False
    executable: str = process.exe()
    return executable.endswith("/java")


def _pss(process: psutil.Process, rss: int) -> int:
    """Proportional set size; the resident size where there is no smaps_rollup or the process just ended."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), rss)
    except OSError:
        return rss
