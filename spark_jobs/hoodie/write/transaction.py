"""One commit, in an order that survives a kill between any two steps.

begin:   heartbeat → refuse if another writer lives, or wait for it (concurrency.queue) → drop a metadata
         table that can't be kept up to date → roll back what failed → sweep leftovers → heartbeat under the
         data instant → `T.commit.requested`
inflight: `T.inflight` with the workload profile
commit:  delete what markers name and no task reports → `T.commit`, which shows the data → markers → heartbeat
A kill before `T.commit` leaves a pending instant that the next writer rolls back; after it only markers and
a heartbeat, which the next writer sweeps. In a merge-on-read table the action is `deltacommit`; of a write
that replaces file groups it is `replacecommit`, whose requested file says that it is no clustering.

A service has its plan put on the timeline by `schedule`, which excludes writers, and is executed by `resume`,
beside writers, and `commit`. A kill leaves the plan, and files that the next `resume` deletes.

The heartbeat file of T says that T is on: who takes T for dead removes it first, before anything else of T,
and tasks look at it before they create a file. Writers let the heartbeats of services be.

The timeline is listed again where another process may have changed what the next step rests on, and nowhere
else: between these places a heartbeat keeps writers and plans away.
- Once the table is taken, after the look for other heartbeats: a writer that ended before it has published,
  and its commit must not be overwritten. Again after a sweep or a rollback, which remove or add instants.
- Before publishing: who was taken for dead finds its instant gone, or a newer rollback, and must not publish.
- After publishing: it may have slept in between, and withdraws then. Inline services begin with this listing.
- For a service, once its heartbeat is there: another process may have completed the plan before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from hoodie.concurrency.heartbeats import ATTEMPTS, Heartbeats
from hoodie.concurrency.queue import Rank
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, CommitUnknown, ConflictError, Fenced, HoodieError, StorageError
from hoodie.format.names import join
from hoodie.progress import ProgressCallback, silent
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.heartbeat import Heartbeat, HeartbeatFile, heartbeat_folder
from hoodie.table.listing import StorageListing
from hoodie.table.markers import delete_markers
from hoodie.timeline.active import (
    Timeline,
    create_instant,
    delete_instant,
    delete_states,
    instant_path,
    meta_path,
)
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.plans import RequestedReplace
from hoodie.timeline.tokens import TOKEN_KEY, token_folder
from hoodie.write import reconcile, rollback
from hoodie.write.metadata_table import drop_metadata_table, has_metadata_table

_FAILURES = (OSError, HoodieError)


class Transaction:
    """Use as a context manager: leaving it before `commit` withdraws what was begun and shows nothing.

    Where the storage fails for that too, the next writer repairs the table; the heartbeat has ended anyway.
    """

    def __init__(
        self,
        table: Table,
        config: Config,
        utc: bool,
        action: Action = Action.COMMIT,
        progress: ProgressCallback = silent,
    ) -> None:
        self.table = table
        self.storage = table.storage
        self.base_path = table.base_path
        self.action = action
        self.rolled_back: list[str] = []
        self.metadata_table_removed = False
        #: were files of earlier writes deleted: listings made before `begin` may show them
        self.repaired = False
        self._utc = utc
        self._beats = Heartbeats(table.storage, table.base_path, config, progress)
        self._taken: Heartbeat | None = None
        self.instant = ""
        self._groups: Collection[tuple[str, str]] = ()
        self._pending: Instant | None = None
        self._published = self._committed = self._restoring = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        failure = self._end()
        if failure is not None and error is None and not self._committed:
            raise failure

    def take(self) -> None:
        """The table for this writer, repaired, before its instant begins. Raises as `begin`.

        The timeline of `table` is up to date then, also where the table was taken before.
        """
        if self._taken is None:
            self._taken = self._claim(Rank.WRITER)
        else:
            self.table.refresh()

    def begin(self) -> None:
        """Raises ConflictError, with nothing of the table changed, when another writer lives, or when one has
        taken this for dead since `take`.
        """
        if self._taken is None:
            self.take()
        self._request()
        assert self._taken is not None
        self._beats.release(self._taken)

    def forget(self, planned: Iterable[Instant]) -> None:
        """Roll back pending services, plan and all, that stand in the way of this write: between `take` and
        `begin`. Raises ConflictError when one of them is being executed.
        """
        for instant in planned:
            self._beats.refuse_executed(instant)
            self._beats.remove(instant.time)
            rollback.execute(
                self.storage,
                self.base_path,
                rollback.PendingRollback.new(self.table.refresh(), instant, self._utc, forget=True),
            )
            self.rolled_back.append(instant.time)
            self.table.refresh()

    def schedule(self, action: Action, plan: Callable[[Timeline, str], bytes | None]) -> Instant | None:
        """Put a service's plan on the timeline while no writer is at work; the instant, as requested.

        `plan` is given the timeline, repaired, and the new instant's time, and gives the requested file's
        content, or None when there is nothing to do. Raises ConflictError as `begin` does. `commit` is not
        for this.
        """
        announced = self._claim()
        for _ in range(ATTEMPTS):
            timeline = self.table.timeline
            instant = Instant(new_instant_time(timeline.last_time, self._utc), action, State.REQUESTED)
            data = plan(timeline, instant.time)
            if data is None:
                return None
            try:
                create_instant(self.storage, self.base_path, instant, data)
            except AlreadyExists:
                self.table.refresh()
                continue
            if not announced.is_ours():
                # a writer began meanwhile, with the table as it was without the plan
                delete_states(self.storage, self.base_path, [instant])
                self._refuse(instant.time)
            return instant
        raise self._beats.no_instant()

    def resume(self, planned: Instant, partitions: Iterable[str]) -> None:
        """Take up a service's plan, beside writers; what an earlier attempt left in `partitions` goes first.

        Raises ConflictError when another process is executing it, or has done so. Tasks may write files under
        `instant` afterwards; leaving without `commit` leaves the plan to the next `resume`.
        """
        timeline = self.table.refresh()
        if has_metadata_table(self.table) or rollback.planned_for(timeline, self.storage, planned.time):
            self._beats.release(self._claim())
        self._beats.take_over(planned)
        if all(
            (item.time, item.action) != (planned.time, planned.action)
            for item in self.table.refresh().pending()
        ):
            self._refuse(planned.time)
        self._undo(planned.time, partitions)
        self._pending = Instant(planned.time, planned.action, State.INFLIGHT)
        self.instant, self.action = planned.time, planned.action
        with contextlib.suppress(AlreadyExists):
            create_instant(self.storage, self.base_path, self._pending)

    def claim(self, repair: bool = True, alone: bool = False, restoring: bool = False) -> None:
        """Keep writers away until this transaction is left: for services without an instant of a write.

        The table is repaired, as by `begin`; without `repair` nothing of it is touched. `alone`: no service
        may be at work, either. `restoring` goes on with an unfinished restore, which anybody else has to
        wait for; failed writes are left to it. Raises ConflictError, with nothing changed, while a writer is
        at work.
        """
        self._beats.alone = alone
        self._restoring = restoring
        self._claim(repair=repair)

    def check_claim(self) -> None:
        """Raises ConflictError when another process has taken this one for dead since `claim`."""
        self._refuse_unless_ours(self._beats.ours)

    def _refuse_unless_ours(self, ours: bool) -> None:
        if not ours:
            raise Fenced(
                f"another writer took this process for dead, which worked on {self.base_path}; run it again",
                path=self.base_path,
            )

    def drop_metadata_table(self) -> None:
        """Remove a metadata table that is going to be out of date, and repair the table then; see `claim`."""
        self.table.refresh()
        if has_metadata_table(self.table):
            self._beats.release(self._claim())

    def inflight(self, profile: CommitMetadata) -> None:
        """Write the workload profile; from here on tasks may write files."""
        assert self._pending is not None
        self._pending = self._pending.with_state(State.INFLIGHT)
        self._groups = profile.file_groups
        create_instant(self.storage, self.base_path, self._pending, profile.to_json())

    def commit(
        self,
        stats: Mapping[str, Sequence[WriteStat]],
        operation: str,
        extra: Mapping[str, str],
        replaced: Mapping[str, Sequence[str]] | None = None,
        gate: Callable[[CommitMetadata], None] | None = None,
    ) -> CommitMetadata:
        """Publish. Raises Fenced when another writer took this one for dead and rolled it back.

        `replaced`: of a replacecommit, the ids of the file groups that it takes out of sight, by partition.
        `gate` is called with the commit before that, when its files are all there and nothing else is under
        its instant; what it raises withdraws the write.
        An error means that nothing was published, but for CommitUnknown: the storage failed so that not even
        this can be seen.
        What fails after the publishing is no error: the next writer sweeps.
        """
        assert self._pending is not None
        metadata = self._metadata(stats, operation, extra, replaced)
        if self._beats.service:
            self._refuse_if_lost(self._lost())  # what seems unreported may be its successor's
        reconcile.delete_unreported(self.storage, self.base_path, self.instant, reconcile.paths(metadata))
        self._refuse_if_lost(self._lost())
        if gate is not None:
            gate(metadata)
            self._refuse_if_lost(self._lost())
        pending = self._pending
        completed = pending.with_state(State.COMPLETED)
        self._publish(completed, metadata.to_json(), repeatable=TOKEN_KEY in extra)
        if _attempt(self._superseded):
            # this process slept between looking and publishing; withdrawing takes the completed file first
            self._pending = pending
            self._refuse_if_lost(True)
        self._committed = True
        _attempt(lambda: delete_markers(self.storage, self.base_path, completed.time))
        return metadata

    def _metadata(
        self,
        stats: Mapping[str, Sequence[WriteStat]],
        operation: str,
        extra: Mapping[str, str],
        replaced: Mapping[str, Sequence[str]] | None,
    ) -> CommitMetadata:
        written = {partition: tuple(group) for partition, group in stats.items()}
        compacted = self.action is Action.COMPACTION
        if self.action is not Action.REPLACECOMMIT:
            assert not replaced
            return CommitMetadata(written, compacted, dict(extra), operation)
        groups = {partition: tuple(ids) for partition, ids in (replaced or {}).items()}
        return ReplaceCommitMetadata(
            written, compacted, dict(extra), operation, partition_to_replace_file_ids=groups
        )

    def _claim(self, rank: Rank = Rank.SERVICE, repair: bool = True) -> Heartbeat:
        """The table for this process alone, repaired if it is to be; gives the heartbeat that says so."""
        return self._beats.queue.turn(
            rank, partial(self._try_to_claim, repair), self._beats.refuse_second_writer
        )

    def _try_to_claim(self, repair: bool) -> Heartbeat:
        announced = self._beats.announce(partial(new_instant_time, self.table.timeline.last_time, self._utc))
        try:
            dead = self._beats.refuse_second_writer()
            if repair:
                self._repair(dead)
        except ConflictError:
            self._beats.release(announced)  # who waits must not stand in the way
            raise
        return announced

    def _repair(self, dead: Sequence[HeartbeatFile]) -> None:
        """Undo failed writes and sweep what killed runs left behind.

        Dead heartbeats go first, unfinished files next, and only then the timeline is read: a writer that
        wakes up finds itself refused, or has published before it is looked at. A killed run has left a
        heartbeat, something beside the heartbeats, a pending instant or an unfinished file; where there is
        none of them, nothing is swept.
        """
        swept = bool(dead) or self._beats.litter
        if swept:
            self._sweep(dead)
        elif self._beats.queue.wait_ms:  # the next one that waits sees what killed ones left in the queue
            self._beats.queue.sweep()
        # a writer that was just changing from its first to its second heartbeat may have been overlooked
        self._beats.refuse_second_writer()
        timeline = self.table.refresh()
        if not swept and (timeline.pending() or timeline.has_partial()):
            self._sweep(dead)
            timeline = self.table.refresh()
        if timeline.holds(properties.BACKUP_NAME):
            properties.recover(self.storage, self.base_path)
            self.table.read_properties()
        served = self._served(timeline, dead)
        failed = [] if self._restoring else rollback.due(timeline, self.storage, served, self._utc)
        self.metadata_table_removed |= drop_metadata_table(self.table)
        for pending in failed:
            rollback.execute(self.storage, self.base_path, pending)
            self.rolled_back.append(pending.target.time)
        if failed:
            timeline = self.table.refresh()
        swept = reconcile.sweep_attempts(self.storage, self.base_path, timeline)
        self.repaired = swept or bool(self.rolled_back)

    def _sweep(self, dead: Sequence[HeartbeatFile]) -> None:
        for beat in dead:
            if not self._beats.of_service(beat):
                self._beats.remove(beat.instant)
        for folder in (meta_path, heartbeat_folder, token_folder):
            self.storage.sweep_partial(folder(self.base_path))
        self._beats.queue.sweep()

    def _served(self, timeline: Timeline, dead: Sequence[HeartbeatFile]) -> frozenset[str]:
        """Instants that live services work on; heartbeats of services that died at their very end go."""
        pending = {instant.time for instant in timeline.pending()}
        gone = {beat.instant for beat in dead}
        for beat in dead:
            if self._beats.of_service(beat) and beat.instant not in pending:
                self._beats.remove(beat.instant)
        beats = self._beats.read() if pending else ()
        return frozenset(beat.instant for beat in beats if beat.instant in pending - gone)

    def _request(self) -> None:
        """Take the instant: the heartbeat first, so that no task and no other writer sees T without it."""
        requested = RequestedReplace().to_bytes() if self.action is Action.REPLACECOMMIT else b""
        assert self._taken is not None
        for _ in range(ATTEMPTS):
            last = self.table.timeline.last_time
            heartbeat = self._beats.announce(partial(new_instant_time, last, self._utc))
            # who took this one for dead may have looked before there was this heartbeat
            self._refuse_unless_ours(self._taken.is_ours())
            instant = Instant(heartbeat.instant, self.action, State.REQUESTED)
            self._pending, self.instant = instant, instant.time
            try:
                create_instant(self.storage, self.base_path, instant, requested)
            except AlreadyExists:
                self._pending = None
                self._beats.release(heartbeat)
                self.table.refresh()
                continue
            return
        raise self._beats.no_instant()

    def _publish(self, completed: Instant, data: bytes, repeatable: bool) -> None:
        """Create the completed file; after a failure the storage is asked whether it is there after all."""
        pending, self._pending = self._pending, None
        try:
            self._create_completed(completed, data)
        except BaseException as error:
            if self._beats.service and isinstance(error, AlreadyExists):
                self._refuse(self.instant)  # the next writer sweeps
            # should this look fail too, nothing is withdrawn: the next writer sees what became of the instant
            try:
                self._published = self.storage.exists(instant_path(self.base_path, completed))
            except (OSError, StorageError):
                raise self._unknown(completed, error, repeatable) from error
            if not self._published:
                self._pending = pending
            if not self._published or not isinstance(error, (OSError, StorageError)):
                raise
        self._published = True

    def _unknown(self, completed: Instant, error: BaseException, repeatable: bool) -> CommitUnknown:
        repeatable = repeatable or bool(self._beats.service)
        look = (
            "Run it again: it finds the commit if it is there"
            if repeatable
            else "Look at the timeline (`hoodie timeline`) before the rows are written again"
        )
        return CommitUnknown(
            f"the storage failed while commit {completed.time} of {self.base_path} was published ({error}), "
            f"and it can't be seen whether the commit is there. {look}",
            path=self.base_path,
            instant=completed.time,
            repeatable=repeatable,
        )

    def _create_completed(self, completed: Instant, data: bytes) -> None:
        """A service tries again when a writer, who sweeps before it begins, took the unfinished file away."""
        for _ in range(ATTEMPTS if self._beats.service else 0):
            with contextlib.suppress(ConflictError):
                create_instant(self.storage, self.base_path, completed, data)
                return
        create_instant(self.storage, self.base_path, completed, data)

    def _lost(self) -> bool:
        """Has another process taken this one for dead?"""
        return not self._beats.ours or self._superseded()

    def _superseded(self) -> bool:
        """A rollback newer than this instant is another writer's: this one did its own before it began.

        Rollbacks are no sign for a service, beside which writers go on: its successor's heartbeat is.
        """
        if self._beats.service:
            gone = all(instant.time != self.instant for instant in self.table.refresh())
            return gone or not self._beats.ours
        timeline = self.table.refresh()
        instants = (Action.ROLLBACK, Action.RESTORE)
        if any(instant.time > self.instant for instant in timeline.filter(instants)):
            return True
        return all(instant.time != self.instant for instant in timeline)

    def _refuse_if_lost(self, lost: bool) -> None:
        if lost:
            self._refuse(self.instant)

    def _refuse(self, instant: str) -> NoReturn:
        if self._beats.service:
            text = f"{self._beats.service} was taken over, done or rolled back by another process"
        else:
            text = f"write {instant} was taken for dead and rolled back by another writer; run it again"
        raise Fenced(text, instant=instant)

    def _undo(self, instant: str, partitions: Iterable[str]) -> None:
        """Delete what an attempt at the instant wrote: what markers name, and what a listing shows."""
        storage, base_path, folders = self.storage, self.base_path, list(partitions)
        reconcile.delete_unreported(storage, base_path, instant, ())
        files = list(reconcile.base_files_of(storage, base_path, instant, folders))
        if not self._beats.service:  # writers put logs on top of what a service makes, under its instant
            files += reconcile.log_files_of(storage, base_path, instant, folders, self._groups)
        storage.delete_many([join(base_path, file) for file in files])
        delete_markers(storage, base_path, instant)

    def _end(self) -> Exception | None:
        """Stop the heartbeats, whatever fails, and undo an attempt that failed; gives the first failure.

        The heartbeats stop first: tasks still running then create no further file. A service's stops last:
        its successor begins once it is gone, and its files have the same instant.
        """
        for heartbeat in self._beats.own:
            heartbeat.silence()
        failures: list[Exception] = []
        lost = self._pending is not None and bool(_attempt(self._lost, failures))
        if self._pending is not None and self._beats.service:
            _attempt(lambda: self._withdraw(lost), failures)
        for heartbeat in self._beats.own:
            _attempt(heartbeat.stop, failures)
        self._beats.own.clear()
        if self._pending is not None:
            _attempt(lambda: self._withdraw(lost), failures)
        return failures[0] if failures else None

    def _withdraw(self, lost: bool) -> None:
        """Undo an attempt that failed in this very process: no rollback instant is needed.

        Files go before the instant, so that a kill in between leaves an instant for the next writer to roll
        back. Once `lost`, markers are no longer complete, and the partitions are listed. A service leaves its
        plan; once lost, its files are its successor's to delete.
        """
        assert self._pending is not None
        instant, self._pending = self._pending, None
        completed = instant.with_state(State.COMPLETED)
        visible = self._published or not self._beats.service
        # whoever waits may take the instant for a dead writer's from here on, so no sync for nothing
        if visible and self.storage.exists(instant_path(self.base_path, completed)):
            delete_states(self.storage, self.base_path, [completed])
        if self._beats.service:
            if not lost:
                self._undo(instant.time, ())
                delete_states(self.storage, self.base_path, [instant])
            return
        reconcile.delete_unreported(self.storage, self.base_path, instant.time, ())
        if lost:
            self._undo(instant.time, StorageListing(self.storage, self.base_path).partitions())
        delete_instant(self.storage, self.base_path, instant)
        delete_markers(self.storage, self.base_path, instant.time)


def _attempt(action: Callable[[], bool | None], failures: list[Exception] | None = None) -> bool | None:
    """What `action` gives; None when it failed, and the failure is kept in `failures`."""
    try:
        return action()
    except _FAILURES as error:
        if failures is not None:
            failures.append(error)
        return None
