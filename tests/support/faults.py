"""A storage that fails before or after its n-th changing operation: by an exception, or by killing the process."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from hoodie.storage import FileInfo, Storage

#: operations that change something; a failure at a read is a failure before the next change
CHANGES = frozenset(
    {"write", "create_if_absent", "delete", "delete_tree", "make_dirs", "open_output", "close_output", "sweep_partial"}
)


class InjectedFault(OSError):
    """What an injected failure raises: an error that no code handles."""


@dataclass
class Faults:
    """Shared by all wrapped storages of a run. `at` counts changing operations from 1; 0 never fails."""

    at: int = 0
    after: bool = False
    kill: bool = False
    count: int = 0
    log: list[str] = field(default_factory=list)
    tripped: bool = False

    def run(self, name: str, path: str, call: Any) -> Any:
        self.count += 1
        self.log.append(f"{name} {path}")
        mine = self.count == self.at
        if mine and not self.after:
            self.trip()
        result = call()
        if mine and self.after:
            self.trip()
        return result

    def trip(self) -> None:
        self.tripped = True
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise InjectedFault(f"injected at operation {self.at}: {self.log[-1]}")


class FaultyStorage:
    """Wraps a storage; once tripped by an exception, every later change fails too (a dead disk)."""

    def __init__(self, inner: Storage, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def _change(self, name: str, path: str, call: Any) -> Any:
        if self._faults.tripped:
            raise InjectedFault(f"storage is gone: {name} {path}")
        return self._faults.run(name, path, call)

    def list(self, path: str) -> list[FileInfo]:
        return self._inner.list(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def info(self, path: str) -> FileInfo | None:
        return self._inner.info(path)

    def read(self, path: str) -> bytes:
        return self._inner.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._inner.read_range(path, offset, length)

    def write(self, path: str, data: bytes) -> None:
        if "/.heartbeat/" in path and self._inner.exists(path):
            self._inner.write(path, data)  # a beat of the timer thread would make the count depend on time
            return
        self._change("write", path, lambda: self._inner.write(path, data))

    def create_if_absent(self, path: str, data: bytes) -> None:
        self._change("create_if_absent", path, lambda: self._inner.create_if_absent(path, data))

    def delete(self, path: str) -> None:
        self._change("delete", path, lambda: self._inner.delete(path))

    def delete_tree(self, path: str) -> None:
        self._change("delete_tree", path, lambda: self._inner.delete_tree(path))

    def make_dirs(self, path: str) -> None:
        self._change("make_dirs", path, lambda: self._inner.make_dirs(path))

    def open_output(self, path: str) -> BinaryIO:
        sink = self._change("open_output", path, lambda: self._inner.open_output(path))
        return _FaultySink(sink, path, self)  # type: ignore[return-value]

    def open_input(self, path: str) -> BinaryIO:
        return self._inner.open_input(path)

    def sweep_partial(self, path: str) -> int:
        return int(self._change("sweep_partial", path, lambda: self._inner.sweep_partial(path)))


class _FaultySink:
    def __init__(self, inner: BinaryIO, path: str, storage: FaultyStorage) -> None:
        self._inner = inner
        self._path = path
        self._storage = storage

    def close(self) -> None:
        if not self._inner.closed:
            self._storage._change("close_output", self._path, self._inner.close)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
