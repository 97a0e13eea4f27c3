"""A transaction: a writer's or a service's way to the table, from the gate to the commit.

begin     create the heartbeat; fail if another writer is alive, or wait for it (concurrency.gate);
          participants begin, and drop the parts of the metadata table that can't be updated;
          roll back failed writes and sweep (write.repair); create `T.commit.requested`
inflight  create `T.inflight` with the workload profile
commit    the order of a commit (write.commit)
leave     withdraw what was not committed (write.inflight); end the heartbeats
A kill before `T.commit` leaves a pending instant, which the next writer rolls back. A kill after it leaves
markers and a heartbeat, which the next writer sweeps. The action is `deltacommit` in a merge-on-read table. A
write that replaces file groups has `replacecommit`; its requested file says that it is no clustering.

A service puts its plan on the timeline with `schedule`, which excludes writers. `resume` and `commit` execute
the plan while writers run. A kill leaves the plan, and files that the next `resume` deletes.

The heartbeat file of T says that T is alive. A process that counts T as dead removes this file first. Tasks
check it before they create a file. Writers do not remove heartbeats of services.

The timeline is listed again only where another process may have changed what the next step depends on.
Between these places a heartbeat excludes writers and plans:
- after the check for other heartbeats: the commit of a writer that ended before must not be overwritten
- after a sweep or a rollback, because they remove or add instants
- before publishing: a process that others counted as dead finds its instant missing or rolled back, and stops
- after publishing: the process may have paused, and then withdraws. Inline services begin with this listing
- in a service, after its heartbeat exists: another process may have completed the plan before
Clocks may differ by more than a heartbeat may be silent. Instants rise in any case, but people read them.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from hoodie.concurrency.conflict_resolution import ConflictChecker, unaware_writes
from hoodie.concurrency.gate import attempt, gate_for
from hoodie.concurrency.heartbeats import ATTEMPTS
from hoodie.concurrency.queue import Rank
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, CommitConflict, Fenced, TableBusy
from hoodie.hooks import CommitEvent
from hoodie.index import index_participants
from hoodie.progress import ProgressCallback, silent
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.participant import Participants
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import instant_millis, new_instant_time
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.models.clustering import RequestedReplace
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.commit import Announce, Commits, Validate
from hoodie.write.inflight import Attempt, InflightService, InflightWrite
from hoodie.write.participants.hash_rings import HashRings
from hoodie.write.participants.metadata_table import metadata_table_participant
from hoodie.write.repair import Repair
from hoodie.write.rollback import executor

_ADVICE = "Instants still rise; set the clocks right, since commits are shown with times that are not theirs"


def clock_warnings(storage: Storage, instant: InstantTime, utc: bool, config: Config) -> list[str]:
    """Of a write that has just taken its instant: how this machine's clock differs from that of the writers
    before it, and from the storage's, as far as files show it that were written. Asks the storage nothing.
    """
    limit_ms, now = config[INTERVAL_MS] * config[TOLERABLE_MISSES], time.time() * 1000
    host, found = socket.gethostname(), []
    ahead_ms = instant_millis(instant, utc) - now
    if ahead_ms > limit_ms:
        found.append(
            f"the table's instants are {ahead_ms / 1000:.0f} s ahead of the clock of {host}: it, or that of "
            f"an earlier writer, is wrong, or their time zones differ. {_ADVICE}"
        )
    off_ms = storage.now_ms() - now
    if abs(off_ms) > limit_ms:
        found.append(
            f"the clock of {host} is {abs(off_ms) / 1000:.0f} s {'behind' if off_ms > 0 else 'ahead of'} "
            f"that of the table's storage. {_ADVICE}"
        )
    return found


class Transaction:
    """A context manager: without `commit` its end withdraws what was begun, and nothing becomes visible.

    Where the storage fails for that too, the next writer repairs the table; the heartbeat has ended anyway.
    """

    def __init__(
        self,
        table: Table,
        config: Config,
        utc: bool,
        action: Action = Action.COMMIT,
        progress: ProgressCallback = silent,
        participants: Participants = (),
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """`extra`: metadata of the commits, by which heartbeats name a task run."""
        table.for_writing()
        self.table = table
        self.storage = table.storage
        self.base_path = table.base_path
        self.action = action
        self.instant = NO_TIME
        self._utc = utc
        self._config = config
        self._clocks: list[str] = []
        self._metadata_table = metadata_table_participant(config, progress)
        self._gate = gate_for(table, config, utc, progress, extra or {})
        self._commits = Commits(
            table,
            self._gate,
            (self._metadata_table, HashRings(config), *index_participants(config, table), *participants),
        )
        self._repair = Repair(self._commits, utc)
        self._taken = False
        #: why `schedule` put no plan
        self.hindrance = ""
        self._attempt: Attempt | None = None

    @property
    def rolled_back(self) -> list[str]:
        """Failed writes that were rolled back before this one."""
        return self._repair.rolled_back

    @property
    def announced(self) -> float:
        """By `time.monotonic`, when its heartbeat was made."""
        return self._gate.heartbeats.own[-1].began

    @property
    def events(self) -> list[CommitEvent]:
        """Of the instants that were completed, in their order: for the hooks, once this is left."""
        return self._commits.events

    @property
    def metadata_table_removed(self) -> bool:
        return self._metadata_table.removed

    @property
    def warnings(self) -> list[str]:
        """What was lost of the metadata table, and why; clocks that are wrong."""
        return [*self._metadata_table.warnings, *self._clocks]

    @property
    def repaired(self) -> bool:
        """Were files of earlier writes deleted: listings made before `begin` may show them."""
        return self._repair.swept

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        failure = self._leave()
        attempt = self._attempt
        committed = bool(self.events) if attempt is None else attempt.published and not attempt.open
        if failure is not None and error is None and not committed:
            raise failure

    def take(self) -> None:
        """The table for this writer, repaired, before its instant begins. Raises as `begin`.

        The timeline of `table` is up to date then, also where the table was taken before.
        """
        if self._taken:
            self.table.refresh()
            return
        self._gate.enter(Rank.WRITER, self._repair, beside=True)
        self._taken = True

    def on_publish(self, announce: Announce) -> None:
        """Call this with each instant right before it is published; it raises nothing."""
        self._commits.announce = announce

    def check_conflicts(self, conflicts: ConflictChecker) -> None:
        """Begin and commit only where no other writer has changed the same meanwhile: where writers work at
        once, before `begin`.
        """
        self._commits.conflicts = conflicts

    def confirming(self, confirm: Callable[[], None]) -> None:
        """Call this before the commit, where writers work at once under the lock: what it raises withdraws
        the attempt.
        """
        self._commits.confirm = confirm

    def rolls_back_late_commit(self) -> bool:
        """Where files are missing: does `take`, which was not called yet, take back the commit that names
        them.
        """
        return not self._taken and self._repair.late()

    def begin(self) -> None:
        """Raises ConflictError, with nothing of the table changed, when another writer lives, or when one has
        taken this for dead since `take`.
        """
        if not self._taken:
            self.take()
        requested = RequestedReplace().to_bytes() if self.action is Action.REPLACECOMMIT else b""

        def request(time: InstantTime) -> bool:
            if self._commits.conflicts is not None:
                self._commits.conflicts.begin(time)
            instant = Instant(time, self.action, State.REQUESTED)
            self._attempt, self.instant = InflightWrite(self.table, self._gate, instant), time
            try:
                begin_instant(self.table.store, instant, requested, self._check_lock)
            except AlreadyExists:
                self._attempt = None
                return False
            return True

        self._gate.begin(request)
        self._clocks = clock_warnings(self.storage, self.instant, self._utc, self._config)

    def forget(self, planned: Iterable[Instant]) -> bool:
        """Roll back pending services, with their plans, that conflict with this write: between `take` and
        `begin`. Returns whether all of them were still pending; the others are left. Raises ConflictError
        when one of them is being executed, where writers work at once a CommitConflict.
        """
        planned = list(planned)
        if not self._gate.optimistic or not planned:
            return self._repair.forget(planned)
        with self._gate.publishing():
            try:
                return self._repair.forget(planned)
            except TableBusy as error:  # the next attempt may find it done
                raise CommitConflict(error.message, **error.values) from error

    def schedule(
        self, action: Action, plan: Callable[[Timeline, InstantTime], bytes | None]
    ) -> Instant | None:
        """Put a service's plan on the timeline while no writer is at work; the instant, as requested.

        `plan` gets the repaired timeline and the new instant's time, and returns the content of the requested
        file, or None when there is nothing to do. Nothing is put, and `hindrance` says why, beside a write
        that would not see it. Raises ConflictError as `begin` does. `commit` is not for this.
        """
        self._gate.enter(Rank.SERVICE, self._repair, beside=True)
        with self._gate.publishing():
            self._gate.look()
            unaware = unaware_writes(self.table, self.table.timeline) if self._gate.optimistic else []
            if unaware and action is not Action.CLEAN:
                self.hindrance = (
                    f"write {unaware[0].time} of Apache Hudi has an instant, and has not looked at the "
                    "table yet: it would not see this plan; plan again later"
                )
                return None
            return self._schedule(action, plan)

    @property
    def _check_lock(self) -> Callable[[], None] | None:
        """Of writers at once: what is put on the timeline, is put there under the lock."""
        return self._gate.check_lock if self._gate.optimistic else None

    def _schedule(
        self, action: Action, plan: Callable[[Timeline, InstantTime], bytes | None]
    ) -> Instant | None:
        for _ in range(ATTEMPTS):
            timeline = self.table.timeline
            instant = Instant(new_instant_time(timeline.last_time, self._utc), action, State.REQUESTED)
            data = plan(timeline, instant.time)
            if data is None:
                return None
            try:
                begin_instant(self.table.store, instant, data, self._check_lock)
            except AlreadyExists:
                self.table.refresh()
                continue
            if not self._gate.optimistic and not self._gate.held:
                # a writer began meanwhile, with the table as it was without the plan; of writers at once
                # those that have it write to the file slices that it begins, and the others lose to it
                self.table.store.delete_states([instant])
                raise Fenced(
                    f"plan {instant.time} was taken back: this process was taken for dead by another writer; "
                    "run it again",
                    instant=instant.time,
                )
            return instant
        raise self._gate.heartbeats.no_instant()

    def resume(self, planned: Instant, partitions: Iterable[str]) -> None:
        """Take up a service's plan, beside writers; what an earlier attempt left in `partitions` goes first.

        Raises ConflictError when another process is executing it, or has done so. Tasks may write files under
        `instant` afterwards; leaving without `commit` leaves the plan to the next `resume`.
        """
        timeline = self.table.refresh()
        if self._metadata_table.due(self.table) or executor.planned_for(timeline, self.storage, planned.time):
            self._repair_alone()
        service = InflightService(self.table, self._gate, planned.with_state(State.INFLIGHT))
        self._gate.resume(planned, service.name)
        timeline = self.table.refresh()
        pending = timeline.pending()
        now = [item for item in pending if (item.time, item.action) == (planned.time, planned.action)]
        if not now or executor.planned_for(timeline, self.storage, planned.time):
            raise service.fenced()
        service.begin(partitions, again=now[0].state is State.INFLIGHT)
        self._attempt = service
        self.instant, self.action = planned.time, planned.action

    def claim(
        self, repair: bool = True, alone: bool = False, restoring: bool = False, beside: bool = False
    ) -> None:
        """Keep writers away until this transaction is left: for services without an instant of a write.

        The table is repaired, as by `begin`; without `repair` nothing of it is touched. `alone`: no service
        may be at work, either. `restoring` goes on with an unfinished restore, which all others have to
        wait for; failed writes are left to it. `beside`: where writers work at once, they go on, but don't
        begin or publish inside `publishing`. Raises ConflictError, with nothing changed, while a writer is at
        work.
        """
        self._repair.restoring = restoring
        self._gate.enter(Rank.SERVICE, self._repair if repair else None, beside=beside, alone=alone)

    def roll_back(self, pending: executor.PendingRollback) -> RollbackMetadata:
        """Run one rollback to its end; safe to run again after a kill anywhere inside."""
        return executor.execute(self._commits, pending)

    def complete(self, instant: Instant, metadata: Metadata, *, beside: bool = False) -> None:
        """Complete an instant whose work is done, of a clean, a restore or a savepoint, in the order of
        hoodie.write.commit. `beside`: the table was not claimed, and writers may begin. Raises AlreadyExists
        where another process has completed it.
        """
        self._commits.complete(instant.with_state(State.COMPLETED), metadata, beside=beside)

    def undo(self, instant: Instant) -> None:
        """Undo what participants prepared for an instant that was taken off the timeline."""
        self._commits.undo(instant)

    def check_claim(self) -> None:
        """Raises ConflictError when another process has taken this one for dead since `claim`, or has the
        lock of the `publishing` around this.
        """
        if not self._gate.held:
            raise self._gate.lost()
        self._gate.check_lock()

    def publishing(self) -> AbstractContextManager[None]:
        """Around what a service completes by itself; see WriterGate.publishing."""
        return self._gate.publishing()

    def prepare_metadata_table(self) -> None:
        """For what is completed beside writers: remove of the metadata table what is going to be out of date,
        and repair the table then; see `claim`.
        """
        self.table.refresh()
        if self._metadata_table.due(self.table):
            self._repair_alone()

    def detach_metadata_table(self) -> None:
        """Do without the metadata table, once the table is claimed: a restore takes back what it contains."""
        self._metadata_table.suspend(self.table)

    def reattach_metadata_table(self) -> None:
        """Make the same metadata table again. What fails is left to the next writer, with a warning."""
        self._metadata_table.resume(self.table)

    def inflight(self, profile: CommitMetadata) -> None:
        """Write the workload profile; from here on tasks may write files."""
        assert isinstance(self._attempt, InflightWrite)
        self._attempt.inflight(profile)

    def commit(
        self,
        stats: Mapping[str, Sequence[WriteStat]],
        operation: str,
        extra: Mapping[str, str],
        replaced: Mapping[str, Sequence[str]] | None = None,
        validate: Validate | None = None,
    ) -> CommitMetadata:
        """Publish, in the order of hoodie.write.commit, which says what is raised.

        `replaced`: of a replacecommit, the ids of the file groups that it replaces, by partition.
        `validate` is called with the commit before that, when its files are all there and nothing else is
        under its instant; what it raises withdraws the write, what it returns goes into its extra metadata.
        """
        assert self._attempt is not None
        metadata = self._metadata(stats, operation, extra, replaced)
        self._commits.commit(self._attempt, metadata, validate)
        published = self._commits.events[-1].metadata
        assert isinstance(published, CommitMetadata)
        return published

    def _metadata(
        self,
        stats: Mapping[str, Sequence[WriteStat]],
        operation: str,
        extra: Mapping[str, str],
        replaced: Mapping[str, Sequence[str]] | None,
    ) -> CommitMetadata:
        written = {partition: tuple(group) for partition, group in stats.items()}
        compacted = self.action in (Action.COMPACTION, Action.LOGCOMPACTION)
        if not Instant(self.instant, self.action, State.REQUESTED).replaces:
            assert not replaced
            return CommitMetadata(written, compacted, dict(extra), operation)
        groups = {partition: tuple(ids) for partition, ids in (replaced or {}).items()}
        return ReplaceCommitMetadata(
            written, compacted, dict(extra), operation, partition_to_replace_file_ids=groups
        )

    def _repair_alone(self) -> None:
        """Repair the table, and let other writers go on."""
        self._gate.enter(Rank.SERVICE, self._repair, beside=True)
        self._gate.exit()

    def _leave(self) -> Exception | None:
        """End the heartbeats, whatever fails, and withdraw an attempt that failed; the first failure."""
        open_ = self._attempt if self._attempt is not None and self._attempt.open else None
        if open_ is None:
            return self._gate.leave(None, keep=False, guard=False)
        failures: list[Exception] = []
        lost = bool(attempt(open_.lost, failures))
        failure = self._gate.leave(
            lambda: open_.withdraw(lost),
            keep=open_.of_service,
            guard=not lost and not open_.of_service,
        )
        return failures[0] if failures else failure
