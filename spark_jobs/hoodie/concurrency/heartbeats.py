"""The processes at work on a table: the heartbeats of one transaction, and what those of others mean for it.

Two writers exclude each other: each creates its heartbeat first and then lists the others', so that at least
one of two finds the other's. A service that runs beside writers excludes only processes with the same work,
and those that let no service run beside them: the two find each other in the same way. Whoever takes a
service's plan off the timeline has the service's heartbeat meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from hoodie.concurrency.settings import CONCURRENCY_MODE
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConfigError, ConflictError, TableBusy, TableError
from hoodie.lock.settings import PROVIDER
from hoodie.table.handle import Table
from hoodie.table.heartbeat import (
    Heartbeat,
    HeartbeatFile,
    Work,
    heartbeat_folder,
    heartbeats_of,
    read_heartbeats,
    remove_heartbeat,
)
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.instant import Action, Instant, State, is_time
from hoodie.timeline.time import InstantTime

ATTEMPTS = 20
#: of a text that another process left
_SHOWN = 200


class Heartbeats:
    """`heartbeats` are this transaction's own; `service` is its work where it runs beside writers. `alone`:
    services of others are refused, too. `shared`: the lock by which it excludes writers that it runs beside;
    "" where it refuses them. `extra`: metadata of its commits, which may name its task run.
    """

    def __init__(self, table: Table, config: Config, extra: Mapping[str, str]) -> None:
        self._table = table
        self.storage, self.base_path = table.storage, table.base_path
        self.interval = config[INTERVAL_MS]
        self.misses = config[TOLERABLE_MISSES]
        self.own: list[Heartbeat] = []
        self.service = ""
        self.alone = False
        self.shared = ""
        self.extra = extra
        #: files of a write that is done, which go with its heartbeat
        self.leftovers: list[str] = []
        #: was there something else beside the heartbeats that were looked at last: a killed run's
        self.litter = False

    @property
    def ours(self) -> bool:
        """False once another process took this one for dead."""
        return all(beat.is_ours() for beat in self.own)

    def read(self) -> list[HeartbeatFile]:
        return read_heartbeats(self._table)

    def remove(self, instant: str) -> None:
        remove_heartbeat(self._table, instant)

    def announce(self, next_time: Callable[[], InstantTime]) -> Heartbeat:
        """Start a heartbeat under an instant that no other writer has announced."""
        for _ in range(ATTEMPTS):
            with contextlib.suppress(AlreadyExists):
                return self._beat(next_time())
        raise self.no_instant()

    def release(self, heartbeat: Heartbeat) -> None:
        self.own.remove(heartbeat)
        heartbeat.stop()

    def take_over(self, planned: Instant, service: str) -> None:
        """Start the heartbeat of a service; a dead one of an earlier attempt goes. Raises ConflictError."""
        self.service = service
        heartbeat = self._take_over(planned, self._busy)
        try:
            # one that lets no service run beside it may not have seen this heartbeat
            self._check_not_alone(self.read())
        except ConflictError:
            self.release(heartbeat)
            raise

    @contextlib.contextmanager
    def excluding(self, planned: Instant) -> Iterator[None]:
        """No process executes the service's plan inside the block. Raises TableBusy where one does so."""
        before, self.service = self.service, f"rollback of {planned.action.value} {planned.time}"
        try:
            heartbeat = self._take_over(planned, partial(self._executed, planned))
        finally:
            self.service = before
        try:
            yield
        finally:
            self.release(heartbeat)

    def _take_over(self, planned: Instant, busy: Callable[[HeartbeatFile], TableBusy]) -> Heartbeat:
        """`busy`: the error beside a live process that has the plan."""
        for _ in range(ATTEMPTS):
            found = self.read()
            for beat in found:
                if beat.instant == planned.time:
                    if self.alive(beat):
                        raise busy(beat)
                    self.remove(planned.time)
                elif beat.shared and self.alive(beat) and not self._compatible(beat):
                    raise self._busy_among_others(beat)
            self._check_not_alone(found)
            with contextlib.suppress(AlreadyExists):
                return self._beat(planned.time)
        raise self.no_instant()

    def _check_not_alone(self, found: Sequence[HeartbeatFile]) -> None:
        """Raises TableBusy beside a process that lets no service run beside it."""
        own = {heartbeat.instant for heartbeat in self.own}
        for beat in found:
            if beat.alone and beat.instant not in own and self.alive(beat):
                raise self._busy(beat)

    def check_no_second_writer(self) -> list[HeartbeatFile]:
        """Heartbeats of dead writers and services; changes nothing. Raises ConflictError.

        Of two writers that begin at once both may be refused.
        """
        own = {heartbeat.instant for heartbeat in self.own}
        dead: list[HeartbeatFile] = []
        listing = self.storage.list(heartbeat_folder(self.base_path))
        self.litter = any(item.is_dir or not is_time(item.name) for item in listing)
        for beat in heartbeats_of(self.storage, listing, own):
            if not self.alive(beat):
                dead.append(beat)
            elif self.alone or not (self._compatible(beat) or self._goes_with(beat)):
                raise self._busy(beat)
        return dead

    def _goes_with(self, beat: HeartbeatFile) -> bool:
        """Is it a service, which writers may run beside: of writers at once it has to take the lock."""
        return self.of_service(beat) and not self.shared

    def _compatible(self, beat: HeartbeatFile) -> bool:
        """Is it a writer that this one may run beside: one with the same lock. Apache Hudi's say nothing.
        Raises ConfigError for one with another lock.
        """
        if self.shared and beat.shared and beat.shared != self.shared:
            raise ConfigError(
                f"{beat.owner} writes {self.base_path} under the lock {beat.shared[:_SHOWN]}, and this one "
                f"under {self.shared}: they would not exclude each other. Give all writers of a table the "
                f"same settings of {PROVIDER.name}",
                path=self.base_path,
                lock=self.shared,
                other=beat.shared[:_SHOWN],
            )
        return bool(self.shared) and (bool(beat.shared) or not beat.host)

    def alive(self, beat: HeartbeatFile) -> bool:
        return beat.alive(self.interval, self.misses)

    def of_service(self, beat: HeartbeatFile) -> bool:
        """Apache Hudi's heartbeats don't say it, the timeline does."""
        store = self._table.store
        compactions = (Action.COMPACTION, Action.LOGCOMPACTION)
        plans = (Instant(beat.instant, action, State.REQUESTED) for action in compactions)
        if beat.service or any(map(store.exists, plans)):
            return True
        clustering = Instant(beat.instant, store.layout.clustering, State.REQUESTED)
        return store.clustering_plan(clustering) is not None

    def no_instant(self) -> TableError:
        return TableError(
            f"no free instant on the timeline of {self.base_path} after {ATTEMPTS} tries; check the clock",
            path=self.base_path,
        )

    def _beat(self, time: InstantTime) -> Heartbeat:
        work = Work(service=self.service, shared=self.shared, alone=self.alone, extra=self.extra)
        heartbeat = Heartbeat(self._table, time, self.interval, self.misses, work)
        heartbeat.start()
        self.own.append(heartbeat)
        return heartbeat

    def _executed(self, planned: Instant, beat: HeartbeatFile) -> TableBusy:
        """The error of one that is to roll the plan back."""
        return TableBusy(
            f"the service {planned.action.value} {planned.time} of {self.base_path} is to be rolled "
            f"back, and {beat.owner} is executing it; wait until it is done, then write again",
            path=self.base_path,
            instant=planned.time,
            owner=beat.owner,
        )

    def _busy_among_others(self, beat: HeartbeatFile) -> TableBusy:
        """The error of a service that does not take the lock of writers at once."""
        return TableBusy(
            f"{beat.owner} writes {self.base_path} beside others, under the lock {beat.shared[:_SHOWN]}: "
            f"give {self.service} the same {CONCURRENCY_MODE.name} and {PROVIDER.name}, or wait until no "
            "writer is at work",
            path=self.base_path,
            instant=beat.instant,
            owner=beat.owner,
        )

    def _busy(self, beat: HeartbeatFile) -> TableBusy:
        wait = max(0, beat.tolerance(self.interval, self.misses) - beat.age_ms) // 1000 + 1
        other = "another process" if self.service else "another writer"
        what = f"{self.service} of {self.base_path}" if self.service else self.base_path
        return TableBusy(
            f"{other} is at work on {what}: instant {beat.instant} of {beat.owner} "
            f"beat {beat.age_ms / 1000:.0f} s ago. Wait for it to finish, or, if it is dead, for {wait} s",
            path=self.base_path,
            instant=beat.instant,
            owner=beat.owner,
        )
