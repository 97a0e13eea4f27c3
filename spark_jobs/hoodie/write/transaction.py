"""One commit, in an order that survives a kill between any two steps.

begin:   heartbeat → refuse if another writer lives → drop a metadata table that can't be kept up to date →
         roll back what failed → sweep leftovers → heartbeat under the data instant → `T.commit.requested`
inflight: `T.inflight` with the workload profile
commit:  delete files that markers name and no task reports → `T.commit`, which alone shows the data →
         markers → heartbeat
A kill before `T.commit` leaves a pending instant that the next writer rolls back; after it only markers and
a heartbeat, which the next writer sweeps.

The heartbeat file of T says that T is on: who takes T for dead removes it first, before anything else of T,
and tasks look at it before they create a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConflictError, HoodieError, StorageError, TableError
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table import properties
from hoodie.table.heartbeat import (
    INTERVAL_MS,
    TOLERABLE_MISSES,
    Beat,
    Heartbeat,
    heartbeat_folder,
    read_beats,
    remove_beat,
)
from hoodie.table.markers import MarkerType, delete_markers, marker_instants, read_markers
from hoodie.table.partition import list_partitions
from hoodie.timeline.active import (
    META_FOLDER,
    Timeline,
    create_instant,
    delete_instant,
    instant_path,
    meta_path,
)
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.write import rollback

_ATTEMPTS = 20
_FAILURES = (OSError, HoodieError)


class Transaction:
    """Use as a context manager: leaving it before `commit` withdraws what was begun and shows nothing.

    Where the storage fails for that too, the next writer repairs the table; the heartbeat has ended anyway.
    """

    def __init__(self, storage: Storage, base_path: str, config: Config, utc: bool) -> None:
        self.storage = storage
        self.base_path = base_path
        self.rolled_back: list[str] = []
        self.metadata_table_removed = False
        self._utc = utc
        self._interval = config[INTERVAL_MS]
        self._misses = config[TOLERABLE_MISSES]
        self._heartbeats: list[Heartbeat] = []
        self.instant = ""
        self._pending: Instant | None = None
        self._committed = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        failure = self._end()
        if failure is not None and error is None and not self._committed:
            raise failure

    def begin(self) -> None:
        """Raises ConflictError, with nothing of the table changed, when another writer lives."""
        timeline = Timeline.load(self.base_path, self.storage)
        announced = self._announce(partial(new_instant_time, timeline.last_time, self._utc))
        self._repair(self._refuse_second_writer())
        self._request()
        self._heartbeats.remove(announced)
        announced.stop()

    def inflight(self, profile: CommitMetadata) -> None:
        """Write the workload profile; from here on tasks may write files."""
        assert self._pending is not None
        self._pending = self._pending.with_state(State.INFLIGHT)
        create_instant(self.storage, self.base_path, self._pending, profile.to_json())

    def commit(
        self, stats: Mapping[str, Sequence[WriteStat]], operation: str, extra: Mapping[str, str]
    ) -> CommitMetadata:
        """Publish. Raises ConflictError when another writer took this one for dead and rolled it back.

        An error means that nothing was published, unless the storage fails so that not even this can be seen.
        What fails after the publishing is no error: the next writer sweeps.
        """
        assert self._pending is not None
        metadata = CommitMetadata(
            partition_to_write_stats={partition: tuple(group) for partition, group in stats.items()},
            extra_metadata=dict(extra),
            operation_type=operation,
        )
        self._delete_unreported(self.instant, _paths(metadata))
        self._refuse_if_lost(self._lost())
        pending = self._pending
        completed = pending.with_state(State.COMPLETED)
        self._publish(completed, metadata.to_json())
        if _attempt(self._rolled_back):
            # this process slept between looking and publishing; withdrawing takes the completed file first
            self._pending = pending
            self._refuse_if_lost(True)
        self._committed = True
        _attempt(lambda: delete_markers(self.storage, self.base_path, completed.time))
        return metadata

    def _announce(self, next_time: Callable[[], str]) -> Heartbeat:
        """Start a heartbeat under an instant that no other writer has announced."""
        for _ in range(_ATTEMPTS):
            heartbeat = Heartbeat(self.storage, self.base_path, next_time(), self._interval, self._misses)
            try:
                heartbeat.start()
            except AlreadyExists:
                continue
            self._heartbeats.append(heartbeat)
            return heartbeat
        raise self._no_instant()

    def _refuse_second_writer(self) -> list[Beat]:
        """Heartbeats of dead writers. Two writers that announce at once may both be refused."""
        own = {heartbeat.instant for heartbeat in self._heartbeats}
        dead: list[Beat] = []
        for beat in read_beats(self.storage, self.base_path):
            if beat.instant in own:
                continue
            if beat.alive(self._interval, self._misses):
                wait = max(0, beat.tolerance(self._interval, self._misses) - beat.age_ms) // 1000 + 1
                raise ConflictError(
                    f"another writer is at work on {self.base_path}: instant {beat.instant} of {beat.owner} "
                    f"beat {beat.age_ms / 1000:.0f} s ago. Wait for it to finish, or, if it is dead, "
                    f"for {wait} s",
                    path=self.base_path,
                    instant=beat.instant,
                    owner=beat.owner,
                )
            dead.append(beat)
        return dead

    def _repair(self, dead: Sequence[Beat]) -> None:
        """Undo failed writes and sweep what killed runs left behind.

        Dead heartbeats go first, unfinished files next, and only then the timeline is read: a writer that
        wakes up finds itself refused, or has published before it is looked at.
        """
        for beat in dead:
            remove_beat(self.storage, self.base_path, beat.instant)
        for folder in (meta_path(self.base_path), heartbeat_folder(self.base_path)):
            self.storage.sweep_partial(folder)
        # a writer that was just changing from its first to its second heartbeat may have been overlooked
        self._refuse_second_writer()
        properties.recover(self.storage, self.base_path)
        timeline = Timeline.load(self.base_path, self.storage)
        failed = rollback.due(timeline, self.storage, frozenset(), self._utc)
        self._drop_metadata_table()
        for pending in failed:
            rollback.execute(self.storage, self.base_path, pending)
            self.rolled_back.append(pending.target.time)
        self._sweep_attempts(Timeline.load(self.base_path, self.storage))

    def _sweep_attempts(self, timeline: Timeline) -> None:
        """Markers of finished instants: late attempts may have written files that nobody reported."""
        completed = {instant.time: instant for instant in timeline.commits()}
        pending = {instant.time for instant in timeline.pending()}
        for time in marker_instants(self.storage, self.base_path):
            if time in pending:
                continue
            archived = timeline.first_time is not None and time < timeline.first_time
            if not archived:
                reported: set[str | None] = set()
                if time in completed:
                    reported = _paths(CommitMetadata.parse(timeline.read(completed[time], self.storage)))
                self._delete_unreported(time, reported)
            delete_markers(self.storage, self.base_path, time)

    def _drop_metadata_table(self) -> None:
        """Properties first: readers that see the entry gone list the folders themselves."""
        folder = join(self.base_path, META_FOLDER, "metadata")
        props = properties.load(self.storage, self.base_path)
        listed = (properties.METADATA_PARTITIONS, properties.METADATA_PARTITIONS_INFLIGHT)
        if any(props.get(name) for name in listed):
            properties.update(self.storage, self.base_path, dict.fromkeys(listed))
            self.metadata_table_removed = True
        if self.storage.exists(folder):
            self.storage.delete_tree(folder)
            self.metadata_table_removed = True

    def _request(self) -> None:
        """Take the instant: the heartbeat first, so that no task and no other writer sees T without it."""
        for _ in range(_ATTEMPTS):
            newest = Timeline.load(self.base_path, self.storage).last_time
            heartbeat = self._announce(partial(new_instant_time, newest, self._utc))
            instant = Instant(heartbeat.instant, Action.COMMIT, State.REQUESTED)
            self._pending, self.instant = instant, instant.time
            try:
                create_instant(self.storage, self.base_path, instant)
            except AlreadyExists:
                self._pending = None
                self._heartbeats.remove(heartbeat)
                heartbeat.stop()
                continue
            return
        raise self._no_instant()

    def _no_instant(self) -> TableError:
        return TableError(
            f"no free instant on the timeline of {self.base_path} after {_ATTEMPTS} tries; check the clock",
            path=self.base_path,
        )

    def _publish(self, completed: Instant, data: bytes) -> None:
        """Create the completed file; after a failure the storage is asked whether it is there after all."""
        pending, self._pending = self._pending, None
        try:
            create_instant(self.storage, self.base_path, completed, data)
        except BaseException as error:
            # should this look fail too, nothing is withdrawn: the next writer sees what became of the instant
            published = self.storage.exists(instant_path(self.base_path, completed))
            if not published:
                self._pending = pending
            if not published or not isinstance(error, (OSError, StorageError)):
                raise

    def _lost(self) -> bool:
        """Has another writer taken this one for dead?"""
        return not all(beat.on_storage() for beat in self._heartbeats) or self._rolled_back()

    def _rolled_back(self) -> bool:
        """A rollback newer than this instant is another writer's: this one did its own before it began."""
        timeline = Timeline.load(self.base_path, self.storage)
        instants = (Action.ROLLBACK, Action.RESTORE)
        if any(instant.time > self.instant for instant in timeline.filter(instants)):
            return True
        return all(instant.time != self.instant for instant in timeline)

    def _refuse_if_lost(self, lost: bool) -> None:
        if lost:
            raise ConflictError(
                f"write {self.instant} was taken for dead and rolled back by another writer; run it again",
                instant=self.instant,
            )

    def _delete_unreported(self, instant: str, reported: set[str | None]) -> None:
        """Delete files of retried, speculative or late attempts: markers name them, no task reported them."""
        partitions: set[str] = set()
        for marker in read_markers(self.storage, self.base_path, instant):
            if marker.type is not MarkerType.APPEND and marker.file not in reported:
                self.storage.delete(join(self.base_path, marker.file))
                partitions.add(marker.file.rpartition("/")[0])
        for partition in sorted(partitions):
            self.storage.sweep_partial(join(self.base_path, partition))

    def _end(self) -> Exception | None:
        """Stop the heartbeats, whatever fails, and undo an attempt that failed; gives the first failure.

        The heartbeats stop first: tasks still running then create no further file.
        """
        for heartbeat in self._heartbeats:
            heartbeat.silence()
        failures: list[Exception] = []
        lost = self._pending is not None and bool(_attempt(self._lost, failures))
        for heartbeat in self._heartbeats:
            _attempt(heartbeat.stop, failures)
        self._heartbeats.clear()
        if self._pending is not None:
            _attempt(lambda: self._withdraw(lost), failures)
        return failures[0] if failures else None

    def _withdraw(self, lost: bool) -> None:
        """Undo an attempt that failed in this very process: no rollback instant is needed.

        Files go before the instant, so that a kill in between leaves an instant for the next writer to roll
        back. Once `lost`, markers are no longer complete, and the partitions are listed.
        """
        assert self._pending is not None
        instant, self._pending = self._pending, None
        self.storage.delete(instant_path(self.base_path, instant.with_state(State.COMPLETED)))
        self._delete_unreported(instant.time, set())
        if lost:
            partitions = list_partitions(self.storage, self.base_path)
            for file in rollback.files_of(self.storage, self.base_path, instant.time, partitions):
                self.storage.delete(join(self.base_path, file))
        delete_instant(self.storage, self.base_path, instant)
        delete_markers(self.storage, self.base_path, instant.time)


def _paths(metadata: CommitMetadata) -> set[str | None]:
    return {stat.path for stat in metadata.write_stats}


def _attempt(action: Callable[[], bool | None], failures: list[Exception] | None = None) -> bool | None:
    """What `action` gives; None when it failed, and the failure is kept in `failures`."""
    try:
        return action()
    except _FAILURES as error:
        if failures is not None:
            failures.append(error)
        return None
