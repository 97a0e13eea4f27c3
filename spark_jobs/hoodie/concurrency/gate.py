"""Who may write a table, and when: the way of one writer, or of one service, to the table.

- `enter` takes the table for this process, repaired. `begin` takes the instant of a write. `publishing` is
  the context in which an instant is published. `leave` ends it all.
- The order of a commit, and so how an instant is written, is in hoodie.write.commit.
- On a storage that does not fence (`Storage.fences`), a process that sleeps inside the lock of writers at
  once past the lock's expiry may change the table when it wakes up.
- So each writer that gets the lock creates `.hoodie/.aux/inside/<instant>`, named as its heartbeat. It then
  checks that it still has the lock, and that no other writer has such a file.
- Of two writers the later one finds the file, or the earlier one finds that it has lost the lock. The later
  one waits until the other has left or the other's heartbeat has ended. The next process that enters the
  table then rolls the other's write back, and what the other publishes afterwards does not stay.
- A service that sleeps there blocks no other process, because its plan was on the timeline before.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

from hoodie.concurrency.heartbeats import ATTEMPTS, Heartbeats
from hoodie.concurrency.queue import Queue, Rank
from hoodie.concurrency.settings import CONCURRENCY_MODE, CONFLICT_RETRIES, EARLY_DETECTION, ConcurrencyMode
from hoodie.concurrency.table_lock import TableLock
from hoodie.config.key import Config
from hoodie.errors import (
    AlreadyExists,
    CommitConflict,
    ConfigError,
    ConflictError,
    Fenced,
    HoodieError,
    TableBusy,
)
from hoodie.lock import lock_for
from hoodie.lock.settings import PROVIDER
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.table.heartbeat import Heartbeat, HeartbeatFile, Work
from hoodie.table.rolled_back import published_late, published_rolled_back
from hoodie.table.settings import WAIT_MS, WAIT_PLACE
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Instant, is_time
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

FOLDER = f"{META_FOLDER}/.aux/inside"
_PAUSE_S = 0.2


@contextlib.contextmanager
def exclusive_entry(
    table: Table, heartbeats: Heartbeats, check: Callable[[], object], *, repairs: bool
) -> Iterator[None]:
    """Only one process is inside at a time. `check` raises where the lock was lost. `repairs`: this process
    rolls back what dead ones left. Raises CommitConflict where that has to be done before, and TableBusy for
    a live process that does not leave.
    """
    own = heartbeats.own[-1].instant if heartbeats.own else NO_TIME
    path = f"{table.base_path}/{FOLDER}/{own}"
    if own:
        with contextlib.suppress(AlreadyExists):  # could not be deleted before
            table.storage.create(path, b"")
    try:
        check()
        _wait(table, heartbeats, own, repairs)
        yield
    finally:
        if own:
            with contextlib.suppress(OSError, HoodieError):  # it is no one's once the heartbeat has ended
                table.storage.delete(path)


def _wait(table: Table, heartbeats: Heartbeats, own: InstantTime, repairs: bool) -> None:
    deadline = time.monotonic() + heartbeats.interval * heartbeats.misses / 1000
    while True:
        names = table.storage.names(f"{table.base_path}/{FOLDER}")
        others = {InstantTime(name) for name in names if is_time(name)} - {own}
        if not others:
            return
        beats = {beat.instant: beat for beat in heartbeats.read()}
        pending = {item.time for item in table.refresh().pending()}
        alive = dead = NO_TIME
        for name in sorted(others, key=REQUESTED.key):
            beat = beats.get(name)
            if beat is not None and heartbeats.alive(beat):
                alive = name
            elif name in pending if beat is None else not beat.service:
                dead = name
            else:
                table.storage.delete(f"{table.base_path}/{FOLDER}/{name}")
        if not alive:
            if dead and not repairs:
                raise CommitConflict(
                    f"write {dead} of {table.base_path} lost the lock while it published, and may go on; the "
                    f"next attempt rolls it back. Run this again ({CONFLICT_RETRIES.name} does so by itself)",
                    path=table.base_path,
                    instant=dead,
                )
            return
        if time.monotonic() > deadline:
            owner = beats[alive].owner
            raise TableBusy(
                f"{owner} lost the lock of {table.base_path} while it published {alive}, and is still at it; "
                "run this again when it is done, and give the lock more time before it expires",
                path=table.base_path,
                instant=alive,
                owner=owner,
            )
        time.sleep(_PAUSE_S)


T = TypeVar("T")
_EAGER = "failed writes are rolled back once their heartbeat has ended; leave it out, or set it to LAZY"
#: settings that writers at once can't have
_UNFIT = (
    ("hoodie.cleaner.policy.failed.writes", "eager", _EAGER),
    ("hoodie.clean.failed.writes.policy", "eager", _EAGER),
)
#: undoes failed writes; is given the heartbeats of dead processes
Repair = Callable[[Sequence[HeartbeatFile]], None]


class WriterGate(ABC):
    """Which of several writers of a table may begin, and which may publish. Made by `gate_for`."""

    def __init__(
        self,
        table: Table,
        config: Config,
        utc: bool,
        progress: ProgressCallback,
        extra: Mapping[str, str],
    ) -> None:
        self.heartbeats = beats = Heartbeats(table, config, extra)
        self.queue = Queue(
            table,
            beats.interval,
            beats.misses,
            config[WAIT_MS],
            progress,
            Work(extra=extra),
            config[WAIT_PLACE],
        )
        self._lock = TableLock(table, config, progress)
        self._table = table
        self._utc = utc

    #: do writers work at once
    optimistic = False

    @abstractmethod
    def enter(self, rank: Rank, repair: Repair | None, *, beside: bool, alone: bool = False) -> None:
        """Let this process begin. Without `repair` nothing of the table is changed.

        Raises ConflictError, with nothing changed, while another process is in the way; `alone`: a service,
        too. `beside`: where writers work at once, they are not in the way.
        """

    @abstractmethod
    def exit(self) -> None:
        """Take back the last `enter`."""

    @abstractmethod
    def begin(self, request: Callable[[InstantTime], bool]) -> InstantTime:
        """Take the instant of a write, after `enter`: `request` makes its requested file, and returns whether
        the name was free. Raises Fenced where the table was lost since.
        """

    @abstractmethod
    def resume(self, planned: Instant, service: str) -> None:
        """Take the planned instant of a service, which runs beside writers. Raises ConflictError while
        another process has it.
        """

    @property
    @abstractmethod
    def held(self) -> bool:
        """False once another process took this one for dead. Costs a request."""

    def publishing(self, *, repairs: bool = False) -> AbstractContextManager[None]:
        """No other writer publishes, or begins, inside the block, which is short: where a lock is configured
        it is held. Raises LockTimeout. Blocks may lie inside one another. `repairs`: it undoes failed writes.
        """
        return self._lock.taken()

    def look(self) -> None:  # noqa: B027  one writer at a time has the table as it is
        """List the table's timeline anew, inside `publishing`, before an instant or a plan is put there."""

    def check_lock(self) -> None:
        """Raises Fenced where the lock of `publishing` was lost: right before the publishing."""
        self._lock.check()

    def lost(self) -> Fenced:
        """The error of a process that another one took for dead."""
        base_path = self._table.base_path
        return Fenced(
            f"another writer took this process for dead, which worked on {base_path}; run it again",
            path=base_path,
        )

    @abstractmethod
    def leave(self, undo: Callable[[], object] | None, *, keep: bool, guard: bool) -> Exception | None:
        """Leave, whatever was entered, and `undo` what was begun; the first failure of all this.

        Without `keep` the process is known as gone before `undo`, so that its tasks make no further file;
        with it, afterwards, so that no successor begins before. `guard`: no writer begins before `undo` is
        done.
        """


class ExclusiveGate(WriterGate):
    """One writer at a time: the heartbeat of the one at work keeps others away, which wait in a queue.

    A lock, where one is configured, also keeps those writers away that know nothing of heartbeats: it is held
    while failed writes are undone, around the beginning and around the publishing.

    Services run beside writers: the heartbeat of one keeps those away that work on the same instant.
    """

    def __init__(
        self,
        table: Table,
        config: Config,
        utc: bool,
        progress: ProgressCallback,
        extra: Mapping[str, str],
    ) -> None:
        super().__init__(table, config, utc, progress, extra)
        self._entered: list[Heartbeat] = []

    def enter(self, rank: Rank, repair: Repair | None, *, beside: bool, alone: bool = False) -> None:
        self.heartbeats.alone = alone
        self._entered.append(
            self.queue.turn(rank, partial(self._enter, repair), self.heartbeats.check_no_second_writer)
        )

    def exit(self) -> None:
        self.heartbeats.release(self._entered.pop())

    def begin(self, request: Callable[[InstantTime], bool]) -> InstantTime:
        """The heartbeat goes first, so that no task and no other writer sees the instant without it: that of
        `enter` where its time is after the table's newest instant, else one more.
        """
        with self.publishing():
            return self._begin(request)

    def _begin(self, request: Callable[[InstantTime], bool]) -> InstantTime:
        for _ in range(ATTEMPTS):
            last = self._table.timeline.last_time
            entered = self._entered[-1]
            heartbeat = (
                entered if last is None or REQUESTED.after(entered.instant, last) else self._announce()
            )
            # a process that took this one for dead may have looked before there was this heartbeat
            spared = heartbeat is entered and entered.young and not self._table.storage.fences
            if not spared and not entered.is_ours():
                raise self.lost()
            if request(heartbeat.instant):
                if heartbeat is not entered:
                    self.exit()
                return heartbeat.instant
            if heartbeat is not entered:
                self.heartbeats.release(heartbeat)
            self._table.refresh()
        raise self.heartbeats.no_instant()

    def resume(self, planned: Instant, service: str) -> None:
        self.heartbeats.take_over(planned, service)

    @property
    def held(self) -> bool:
        return self.heartbeats.ours

    def leave(self, undo: Callable[[], object] | None, *, keep: bool, guard: bool) -> Exception | None:
        failures: list[Exception] = []
        own, guards = list(self.heartbeats.own), list[Heartbeat]()
        if undo is not None and guard:  # a waiting process would take the instant for a dead writer's
            attempt(lambda: guards.append(self._announce()))
        for heartbeat in own:
            heartbeat.silence()
        if undo is not None and keep:
            attempt(undo, failures)
        for heartbeat in own:
            attempt(partial(heartbeat.stop, self.heartbeats.leftovers), failures)
        if undo is not None and not keep:
            attempt(undo, failures)
        for heartbeat in guards:
            attempt(heartbeat.stop, failures)
        self.heartbeats.own.clear()
        self._entered.clear()
        return failures[0] if failures else None

    def _enter(self, repair: Repair | None) -> Heartbeat:
        announced = self._announce()
        try:
            dead = self.heartbeats.check_no_second_writer()
            if repair is not None:
                with self.publishing(repairs=True):
                    repair(dead)
        except ConflictError:
            self.heartbeats.release(announced)  # a waiting process must not keep others away
            raise
        return announced

    def _announce(self) -> Heartbeat:
        return self.heartbeats.announce(partial(new_instant_time, self._table.timeline.last_time, self._utc))


class OptimisticGate(ExclusiveGate):
    """Writers at once: the lock is held while one enters and undoes failed writes, takes its instant, and
    publishes. What works without being `beside` others, such as a restore, excludes writers, and is excluded
    by them, as with one writer at a time.

    Apache Hudi's processes take instants without the lock.
    """

    optimistic = True
    _inside = False

    @contextlib.contextmanager
    def publishing(self, *, repairs: bool = False) -> Iterator[None]:
        with self._lock.taken():
            if self._table.storage.fences or self._inside:
                yield
                return
            self._inside = True
            try:
                with exclusive_entry(self._table, self.heartbeats, self._lock.check, repairs=repairs):
                    yield
            finally:
                self._inside = False

    def enter(self, rank: Rank, repair: Repair | None, *, beside: bool, alone: bool = False) -> None:
        self.heartbeats.shared = self._lock.name if beside else ""
        super().enter(rank, repair, beside=beside, alone=alone)

    def resume(self, planned: Instant, service: str) -> None:
        self.heartbeats.shared = self._lock.name
        super().resume(planned, service)

    def leave(self, undo: Callable[[], object] | None, *, keep: bool, guard: bool) -> Exception | None:
        """Under the lock, under which others undo failed writes; without it that is left to them."""
        if undo is not None:
            try:
                with self.publishing():
                    return super().leave(undo, keep=keep, guard=False)
            except (OSError, HoodieError) as error:
                return super().leave(None, keep=keep, guard=False) or error
        return super().leave(None, keep=keep, guard=guard)

    def look(self) -> None:
        """Unfinished files of the timeline go first: a process that lost the lock while it slept can't
        publish its own any more, or is on the timeline. On a storage without such files its commit may be
        there after it was rolled back: raises TableBusy.
        """
        table = self._table
        if table.refresh().has_partial():
            table.storage.sweep_partial(table.store.folder)
            table.refresh()
        if not table.storage.fences and (late := published_late(table, table.timeline)):
            raise published_rolled_back(table.base_path, late[0].time)

    def _begin(self, request: Callable[[InstantTime], bool]) -> InstantTime:
        self.look()
        self._lock.check()
        return super()._begin(request)


def gate_for(
    table: Table, config: Config, utc: bool, progress: ProgressCallback, extra: Mapping[str, str]
) -> WriterGate:
    """The gate that the settings ask for; touches nothing. `extra`: metadata of the commits. Raises
    ConfigError as `check_concurrency`.
    """
    check_concurrency(table, config)
    gate = OptimisticGate if is_optimistic(config) else ExclusiveGate
    return gate(table, config, utc, progress, extra)


def is_optimistic(config: Config) -> bool:
    """Do the settings ask for writers that work at once."""
    return config[CONCURRENCY_MODE] is not ConcurrencyMode.SINGLE_WRITER


def is_non_blocking(config: Config) -> bool:
    """Do the settings ask for writers at once of which none loses to another one's log files."""
    return config[CONCURRENCY_MODE] is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL


def check_concurrency(table: Table, config: Config) -> None:
    """Raises ConfigError for settings of concurrency that can't be followed, or exclude no other writer."""
    lock = lock_for(table, config)
    if config[EARLY_DETECTION] and is_non_blocking(config):
        raise ConfigError(
            f"{EARLY_DETECTION.name}=true looks for what {CONCURRENCY_MODE.name}="
            f"{ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL.value} allows; leave one of the two out",
            setting=EARLY_DETECTION.name,
        )
    if not is_optimistic(config):
        if config[EARLY_DETECTION]:
            raise ConfigError(
                f"{EARLY_DETECTION.name}=true is for writers at once: set {CONCURRENCY_MODE.name}="
                f"{ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL.value}, too, or leave it out",
                setting=EARLY_DETECTION.name,
            )
        return
    mode = f"{CONCURRENCY_MODE.name}={config[CONCURRENCY_MODE].value}"
    if lock is None:
        raise ConfigError(
            f"{mode} needs a lock that all writers of the table take: set {PROVIDER.name}, such as to "
            "filesystem or zookeeper, or leave the mode out and run one writer at a time",
            setting=PROVIDER.name,
        )
    for name, value, instead in _UNFIT:
        if (config.text(name) or "").strip().lower() == value:
            raise ConfigError(f"{mode} does not go with {name}={value}: {instead}", setting=name, value=value)


def attempt(action: Callable[[], T], failures: list[Exception] | None = None) -> T | None:
    """What `action` returns; None when it failed, and the failure is kept in `failures`."""
    try:
        return action()
    except (OSError, HoodieError) as error:
        if failures is not None:
            failures.append(error)
        return None
