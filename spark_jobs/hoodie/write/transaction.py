"""One commit, in an order that survives a kill between any two steps.

begin:   heartbeat → refuse if another writer lives → roll back what failed → drop a metadata table that
         can't be kept up to date → heartbeat under the data instant → `T.commit.requested`
inflight: `T.inflight` with the workload profile
commit:  delete files that markers name and no task reports → `T.commit`, which alone shows the data →
         markers → heartbeat
A kill before `T.commit` leaves a pending instant that the next writer rolls back; after it only markers and
a heartbeat, which the next writer sweeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConflictError, TableError
from hoodie.format.names import join
from hoodie.services import rollback
from hoodie.storage import Storage
from hoodie.table import properties
from hoodie.table.heartbeat import (
    INTERVAL_MS,
    TOLERABLE_MISSES,
    Beat,
    Heartbeat,
    read_beats,
    remove_beat,
)
from hoodie.table.markers import MarkerType, delete_markers, marker_instants, read_markers
from hoodie.timeline.active import META_FOLDER, Timeline, create_instant, delete_instant, instant_path, meta_path
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State

_ATTEMPTS = 20


class Transaction:
    """Use as a context manager: leaving it before `commit` withdraws what was begun and shows nothing."""

    def __init__(self, storage: Storage, base_path: str, config: Config, utc: bool) -> None:
        self.storage = storage
        self.base_path = base_path
        self.rolled_back: list[str] = []
        self.metadata_table_removed = False
        self._utc = utc
        self._interval = config[INTERVAL_MS]
        self._misses = config[TOLERABLE_MISSES]
        self._heartbeat: Heartbeat | None = None
        self.instant = ""
        self._pending: Instant | None = None

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pending is not None:
            self._withdraw()
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def begin(self) -> None:
        """Raises ConflictError, with nothing of the table changed, when another writer lives."""
        timeline = Timeline.load(self.base_path, self.storage)
        announced = self._announce(new_instant_time(timeline.last_time, self._utc))
        try:
            dead = self._refuse_second_writer({announced.instant})
        except ConflictError:
            announced.stop()
            raise
        self._heartbeat = announced
        self._repair(dead)
        self._drop_metadata_table()
        self._request()
        announced.stop()

    def inflight(self, profile: CommitMetadata) -> None:
        """Write the workload profile; from here on tasks may write files."""
        assert self._pending is not None
        self._pending = self._pending.with_state(State.INFLIGHT)
        create_instant(self.storage, self.base_path, self._pending, profile.to_json())

    def commit(
        self, stats: Mapping[str, Sequence[WriteStat]], operation: str, extra: Mapping[str, str]
    ) -> CommitMetadata:
        """Publish. Raises ConflictError when another writer took this one for dead and rolled it back."""
        metadata = CommitMetadata(
            partition_to_write_stats={partition: tuple(group) for partition, group in stats.items()},
            extra_metadata=dict(extra),
            operation_type=operation,
        )
        self._reconcile(metadata)
        assert self._pending is not None and self._heartbeat is not None
        inflight = instant_path(self.base_path, self._pending)
        if not self._heartbeat.on_storage() or not self.storage.exists(inflight):
            raise ConflictError(
                f"write {self.instant} was taken for dead and rolled back by another writer; run it again",
                instant=self.instant,
            )
        completed = self._pending.with_state(State.COMPLETED)
        create_instant(self.storage, self.base_path, completed, metadata.to_json())
        self._pending = None
        delete_markers(self.storage, self.base_path, completed.time)
        return metadata

    def _announce(self, time: str) -> Heartbeat:
        heartbeat = Heartbeat(self.storage, self.base_path, time, self._interval)
        heartbeat.start()
        return heartbeat

    def _refuse_second_writer(self, own: set[str]) -> list[Beat]:
        """Heartbeats of dead writers. Both of two writers that announce at once may be refused, never none."""
        dead: list[Beat] = []
        for beat in read_beats(self.storage, self.base_path):
            if beat.instant in own:
                continue
            if beat.alive(self._interval, self._misses):
                wait = max(0, self._interval * self._misses - beat.age_ms) // 1000
                raise ConflictError(
                    f"another writer is at work on {self.base_path}: instant {beat.instant} of {beat.owner} beat "
                    f"{beat.age_ms / 1000:.0f} s ago. Wait for it to finish, or, if it is dead, for {wait} s",
                    path=self.base_path,
                    instant=beat.instant,
                    owner=beat.owner,
                )
            dead.append(beat)
        return dead

    def _repair(self, dead: Sequence[Beat]) -> None:
        """Roll back failed writes and sweep what killed runs left behind."""
        timeline = Timeline.load(self.base_path, self.storage)
        for pending in rollback.due(timeline, self.storage, frozenset(), self._utc):
            rollback.execute(self.storage, self.base_path, pending)
            self.rolled_back.append(pending.target.time)
        for beat in dead:
            remove_beat(self.storage, self.base_path, beat.instant)
        self._sweep_attempts(Timeline.load(self.base_path, self.storage))
        for folder in (meta_path(self.base_path), join(self.base_path, META_FOLDER, ".heartbeat")):
            self.storage.sweep_partial(folder)

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
        listed = ("hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight")
        if any(props.get(name) for name in listed):
            properties.update(self.storage, self.base_path, dict.fromkeys(listed))
            self.metadata_table_removed = True
        if self.storage.exists(folder):
            self.storage.delete_tree(folder)
            self.metadata_table_removed = True

    def _request(self) -> None:
        for _ in range(_ATTEMPTS):
            newest = Timeline.load(self.base_path, self.storage).last_time
            instant = Instant(new_instant_time(newest, self._utc), Action.COMMIT, State.REQUESTED)
            heartbeat = self._announce(instant.time)
            try:
                create_instant(self.storage, self.base_path, instant)
            except AlreadyExists:
                heartbeat.stop()
                continue
            self._heartbeat, self._pending, self.instant = heartbeat, instant, instant.time
            return
        raise TableError(
            f"no free instant on the timeline of {self.base_path} after {_ATTEMPTS} tries; check the clock",
            path=self.base_path,
        )

    def _reconcile(self, metadata: CommitMetadata) -> None:
        """Delete files of retried or speculative attempts: markers name them, no task reported them."""
        self._delete_unreported(self.instant, _paths(metadata))

    def _delete_unreported(self, instant: str, reported: set[str | None]) -> None:
        for marker in read_markers(self.storage, self.base_path, instant):
            if marker.type is not MarkerType.APPEND and marker.file not in reported:
                self.storage.delete(join(self.base_path, marker.file))

    def _withdraw(self) -> None:
        """Undo an attempt that failed in this very process: no rollback instant is needed."""
        assert self._pending is not None
        instant, self._pending = self._pending, None
        self._delete_unreported(instant.time, set())
        delete_instant(self.storage, self.base_path, instant)
        delete_markers(self.storage, self.base_path, instant.time)


def _paths(metadata: CommitMetadata) -> set[str | None]:
    return {stat.path for stat in metadata.write_stats}
