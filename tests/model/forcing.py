"""Forced interleavings of the product: threads that stop at a place until others have run, and a judge.

A thread is an actor by its name: `BEFORE_LOCK` of its name is called before it gets the lock, and a `stop` of
its name at the file that this names. The judge replays the commits in the order of completion.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import hoodie
from hoodie.errors import HoodieError
from hoodie.lock import Holder, Lease, LockProvider
from hoodie.storage import Check
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS
from tests.model.protocol import Op, Row, replayed
from tests.support.objects import Objects

#: longer than any of these tests takes
PATIENCE_S = 60.0
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.table.name": "forced",
}
AT_ONCE = {
    **OPTIONS,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": f"{__name__}:ForcedLock",
}
TYPE = "hoodie.datasource.write.table.type"
COMPACT_NOW = {"hoodie.compact.inline.max.delta.commits": "1"}
CLUSTER_NOW = {"hoodie.clustering.inline.max.commits": "1"}
GIVING_WAY = {"hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}
NEWEST_ONLY = {
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": "1",
}
#: who may lose: to a faster one, or because it slept
LOSSES = {"commit_conflict", "fenced"}

#: by the name of a thread: called before each acquisition of its lock
BEFORE_LOCK: dict[str, Callable[[], object]] = {}
_HELD: dict[str, _ForcedLease] = {}
_GUARD = threading.Lock()


class _ForcedLease(Lease):
    def __init__(self, path: str) -> None:
        holder = Holder.here(f"thread {threading.current_thread().name}")
        super().__init__(holder=holder, token=uuid.uuid4().hex)
        self._path = path

    @property
    def held(self) -> bool:
        return _HELD.get(self._path) is self

    def release(self) -> None:
        with _GUARD:
            if self.held:
                del _HELD[self._path]


class ForcedLock(LockProvider):
    """A lock between threads, which `lose_lock` takes from its holder."""

    @property
    def name(self) -> str:
        return "forced"

    def acquire(self, timeout: float) -> Lease:
        BEFORE_LOCK.get(threading.current_thread().name, bool)()
        return super().acquire(timeout)

    def try_acquire(self) -> Lease | None:
        path = self.table.base_path
        with _GUARD:
            if path in _HELD:
                return None
            _HELD[path] = lease = _ForcedLease(path)
            return lease

    def holder(self) -> Holder | None:
        lease = _HELD.get(self.table.base_path)
        return None if lease is None else lease.holder


def reset() -> None:
    BEFORE_LOCK.clear()
    _HELD.clear()


def lose_lock() -> None:
    """The lock expires while its holder sleeps."""
    _HELD.clear()


def lose_heartbeat(path: str) -> None:
    """The heartbeats of those at work are of long ago."""
    place = Path(os.environ["HOODIE_TEST_OBJECTS"], path.partition("://")[2]) if "://" in path else Path(path)
    for beat in (place / ".hoodie/.heartbeat").iterdir():
        os.utime(beat, (1, 1))


# ------------------------------------------------------------------------------------------------
# places where a thread stops


@dataclass
class Stop:
    """Once, where `thread` creates a file whose name has an `ending`: `act` is called "before" it does, when
    it has "checked" that it may, or "after" it did.
    """

    thread: str
    ending: str | tuple[str, ...]
    act: Callable[[], object]
    when: str = "before"
    reached: bool = False

    waiting: ClassVar[list[Stop]] = []

    @classmethod
    def create(
        cls, create: Callable[[str, bytes, Check], None], path: str, data: bytes, check: Check
    ) -> None:
        name = threading.current_thread().name
        here = [each for each in cls.waiting if each.thread == name and path.endswith(each.ending)]
        stops = [each for each in here if not each.reached]

        def act(when: str) -> None:
            for each in stops:
                if each.when == when:
                    each.reached = True
                    each.act()

        def checked() -> None:
            if check is not None:
                check()
            act("checked")

        act("before")
        create(path, data, checked if stops else check)
        act("after")


class StoppingFiles(LocalStorage):
    def create(self, path: str, data: bytes, check: Check = None) -> None:
        Stop.create(super().create, path, data, check)


class StoppingObjects(Objects):
    def create(self, path: str, data: bytes, check: Check = None) -> None:
        Stop.create(super().create, path, data, check)


@contextlib.contextmanager
def stop(
    thread: str, ending: str | tuple[str, ...], act: Callable[[], object], when: str = "before"
) -> Iterator[Stop]:
    made = Stop(thread, ending, act, when)
    Stop.waiting.append(made)
    try:
        yield made
    finally:
        Stop.waiting.remove(made)


@contextlib.contextmanager
def stop_before(owner: type, name: str, thread: str, act: Callable[[], object]) -> Iterator[None]:
    """Once, where `thread` calls a method: `act` is called before it."""
    real, armed = getattr(owner, name), [True]

    def stopping(*arguments: Any, **named: Any) -> Any:
        if armed and threading.current_thread().name == thread:
            armed.clear()
            act()
        return real(*arguments, **named)

    setattr(owner, name, stopping)
    try:
        yield
    finally:
        setattr(owner, name, real)


# ------------------------------------------------------------------------------------------------
# actors


class Actor:
    """A thread that runs a function. A HoodieError is an answer; other errors are raised by `answer`."""

    def __init__(self, name: str, function: Callable[[], Any]) -> None:
        self._function = function
        self._answer: Any = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._function()
        except BaseException as error:  # noqa: BLE001  `answer` raises it
            self._answer = error
        finally:
            self.done.set()

    def answer(self) -> Any:
        assert self.done.wait(PATIENCE_S), f"{self._thread.name} has not ended"
        if isinstance(self._answer, BaseException) and not isinstance(self._answer, HoodieError):
            raise self._answer
        return self._answer


def aside(name: str, function: Callable[[], Any]) -> Any:
    """The answer of an actor, which runs to its end."""
    return Actor(name, function).answer()


def once(function: Callable[[], object]) -> Callable[[], None]:
    """Calls it the first time only."""
    left = [function]

    def call() -> None:
        if left:
            left.pop()()

    return call


# ------------------------------------------------------------------------------------------------
# the judge

Effect = Callable[[list[Row]], list[Row]]


def table(*keys: str, p: str = "p0", w: str = "") -> pa.Table:
    return pa.table({"id": list(keys), "p": [p] * len(keys), "w": [w] * len(keys)})


def keys(*names: str, p: str = "p0") -> pa.Table:
    """Without values, for deletes."""
    return table(*names, p=p).select(["id", "p"])


def effect(kind: str, value: str, *names: str, p: str = "p0") -> Effect:
    """Of a write of the model."""
    return lambda rows: replayed(rows, Op(kind, p, names), value)


def rows(path: str, **how: Any) -> list[Row]:
    """Partition, key, value."""
    found = hoodie.read_table(path, meta=False, **how).to_pylist()
    return sorted((row["p"], row["id"], row["w"]) for row in found)


def lost(answer: Any) -> bool:
    """Is the answer an error that a loser gets."""
    if isinstance(answer, HoodieError):
        assert answer.code in LOSSES, answer
        return True
    return False


def judge(path: str, seeded: list[Row], answers: dict[str, Any], effects: dict[str, Effect]) -> None:
    """Somebody has committed, and the rows are those of the committed writes in the order of completion."""
    committed = {answer.instant: name for name, answer in answers.items() if not lost(answer)}
    assert committed, answers
    timeline = Timeline.load(path)
    expected = seeded
    for instant in sorted(timeline.filter(COMMIT_ACTIONS, completed=True), key=_completion(timeline)):
        if name := committed.pop(instant.time, None):
            expected = effects[name](expected)
    assert not committed, f"acknowledged, and not on the timeline: {committed}"
    assert rows(path) == sorted(expected), answers


def _completion(timeline: Timeline) -> Callable[[Any], tuple[int, str]]:
    return lambda instant: (timeline.completion_of(instant) or 0, instant.time)
