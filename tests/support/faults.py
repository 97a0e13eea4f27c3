"""A storage that fails before, in or after its n-th changing operation, by an exception or a kill."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hoodie.storage import Check, Output, Storage
from hoodie.storage.exclusive import LOCK_SUFFIX, Way
from hoodie.storage.local import LocalStorage
from tests.support import mounts
from tests.support.storages import Delegating, wrapped

T = TypeVar("T")


class InjectedFault(OSError):
    """What an injected failure raises: an error that no code handles on purpose."""


class Phase(enum.Enum):
    BEFORE = "before"
    """Nothing of the operation happens."""
    DURING = "during"
    """Half of it happens: a temporary without its target, half a data file, some of a folder's files gone."""
    AFTER = "after"
    """All of it happens, and the caller is not told."""


@dataclass(frozen=True)
class Change:
    """One changing operation. `splits`: it has a middle."""

    name: str
    path: str
    splits: bool

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


@dataclass
class Faults:
    """The plan of a failure, shared by all wrapped storages of a run, and the log of its changes.

    `at` counts changing operations from 1, or those for which `of` is true; 0 never fails. `kill`: the
    process dies. `once`: later operations work again (a hiccup); else every later change fails too (a dead
    disk), while reads still work. `pause`: no failure, but the process waits: it makes the file `holding` in
    that folder, and goes on at `go`.
    """

    at: int = 0
    phase: Phase = Phase.BEFORE
    of: Callable[[Change], bool] | None = None
    kill: bool = False
    once: bool = False
    pause: Path | None = None
    log: list[Change] = field(default_factory=list)
    tripped: bool = False
    #: the operation at which it failed
    failed: Change | None = None
    #: output files; who fails in the middle of one leaves closing it to the garbage collector, which warns
    opened: list[Output] = field(default_factory=list)

    def __str__(self) -> str:
        kind = "kill" if self.kill else "hiccup" if self.once else "dead disk"
        return f"{kind} {self.phase.value} change {self.at}: {self.failed or 'nothing'}"

    def run(self, name: str, path: str, call: Callable[[], T], half: Callable[[], None] | None = None) -> T:
        if self.tripped and not self.once:
            raise InjectedFault(f"the storage is gone: {name} {path}")
        change = Change(name, path, half is not None)
        self.log.append(change)
        mine = self._is_meant(change)
        self.failed = change if mine else self.failed
        if mine and self.phase is Phase.BEFORE:
            self.trip()
        if mine and self.phase is Phase.DURING:
            if half is not None:
                half()
            self.trip()
        result = call()
        if mine and self.phase is Phase.AFTER:
            self.trip()
        return result

    def _is_meant(self, change: Change) -> bool:
        if self.of is None:
            return len(self.log) == self.at
        return self.of(change) and sum(map(self.of, self.log)) == self.at

    def trip(self) -> None:
        if self.pause is not None:
            (self.pause / "holding").touch()
            wait_for(self.pause / "go")
            return
        self.tripped = True
        if self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise InjectedFault(f"injected: {self}")


def wait_for(path: Path, seconds: float = 60) -> None:
    """Until the file is there; TimeoutError when it never comes."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {path}")
        time.sleep(0.005)


@contextlib.contextmanager
def injected(faults: Faults) -> Iterator[Faults]:
    """Every storage that is asked for inside fails as planned."""

    try:
        with wrapped(lambda storage: FaultyStorage(storage, faults)):
            yield faults
    finally:
        for sink in faults.opened:
            sink.close()


class FaultyStorage(Delegating):
    """Wraps a local storage. A failed read is a failure before the next change, so reads always work."""

    def __init__(self, inner: Storage, faults: Faults) -> None:
        super().__init__(inner)
        self._faults = faults

    def write(self, path: str, data: bytes) -> None:
        if "/.heartbeat/" in path:
            self.inner.write(path, data)  # a beat of the timer thread would make the count depend on time
            return
        self._faults.run(
            "write", path, lambda: self.inner.write(path, data), lambda: _leave_temporary(path, data)
        )

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        half = (lambda: _leave_temporary(path, data, exclusive=True)) if data else None
        self._faults.run("create", path, lambda: self.inner.create(path, data, check), half)

    def put_if(self, path: str, data: bytes, version: str | None) -> str | None:
        if "/.heartbeat/" in path:  # as with `write`
            return self.inner.put_if(path, data, version)
        return self._faults.run(
            "put_if",
            path,
            lambda: self.inner.put_if(path, data, version),
            lambda: _leave_temporary(path, data, locked=True),
        )

    def delete(self, path: str) -> None:
        self._faults.run("delete", path, lambda: self.inner.delete(path))

    def delete_tree(self, path: str) -> None:
        half = (lambda: _delete_half(path)) if os.path.isdir(path) else None
        self._faults.run("delete_tree", path, lambda: self.inner.delete_tree(path), half)

    def make_dirs(self, path: str) -> None:
        self._faults.run("make_dirs", path, lambda: self.inner.make_dirs(path))

    def output(self, path: str, *, exclusive: bool = False) -> Output:
        def call() -> Output:
            self._faults.opened.append(self.inner.output(path, exclusive=exclusive))
            return self._faults.opened[-1]

        sink = self._faults.run("open_output", path, call)
        return _FaultySink(sink, path, self._faults)  # type: ignore[return-value]

    def sweep_partial(self, path: str, of: str = "") -> int:
        return self._faults.run("sweep_partial", path, lambda: self.inner.sweep_partial(path, of))


class _FaultySink:
    def __init__(self, inner: Output, path: str, faults: Faults) -> None:
        self._inner = inner
        self._path = path
        self._faults = faults

    def commit(self) -> None:
        try:
            self._faults.run("close_output", self._path, self._inner.commit, self._cut)
        finally:
            self._inner.close()

    def _cut(self) -> None:
        self._inner.flush()
        self._inner.truncate(self._inner.tell() // 2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def die_at(path: Path, run: Callable[[str], object], at: Callable[[Change], bool], *, nth: int = 1) -> None:
    """Run something on the table at `path` that dies at its `nth` change of this kind, as by a dead disk."""
    with contextlib.suppress(InjectedFault), injected(faults := Faults(at=nth, of=at)):
        run(str(path))
    assert faults.tripped


def _leave_temporary(path: str, data: bytes, exclusive: bool = False, locked: bool = False) -> None:
    LocalStorage()._temporary(path, data)
    if locked or (exclusive and mounts.way() is Way.LOCK):
        Path(path).with_name(f".{Path(path).name}{LOCK_SUFFIX}").touch()


def _delete_half(path: str) -> None:
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    for file in files[: (len(files) + 1) // 2]:
        os.unlink(file)
