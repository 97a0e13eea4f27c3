"""A write beside others that loses before it has written: to a live one that began earlier and changes a file
group which it is about to change, too (Apache Hudi 0.15.0 SimpleDirectMarkerBasedDetectionStrategy).

It saves work and no more: what it overlooks is found at the commit (concurrency.conflict_resolution).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hoodie.concurrency.settings import CONFLICT_RETRIES, EARLY_COMMITS, EARLY_DETECTION
from hoodie.config.key import Config
from hoodie.errors import CommitConflict
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import read_heartbeats
from hoodie.table.markers import marker_folder, marker_instants, read_markers
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import PLAN_ACTIONS, Action, Instant, State
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True, kw_only=True)
class EarlyConflictDetection:
    """Travels to tasks. `commits`: those that the write has seen; None: completed ones are not looked at."""

    interval_ms: int
    misses: int
    commits: frozenset[InstantTime] | None = None

    @classmethod
    def of(cls, config: Config, timeline: Timeline) -> EarlyConflictDetection | None:
        """None where the settings don't ask for it."""
        if not config[EARLY_DETECTION]:
            return None
        seen = frozenset(item.time for item in timeline.commits())
        return cls(
            interval_ms=config[INTERVAL_MS],
            misses=config[TOLERABLE_MISSES],
            commits=seen if config[EARLY_COMMITS] else None,
        )

    def check(self, ref: TableRef, storage: Storage, own: InstantTime, partition: str, file_id: str) -> None:
        """Raises CommitConflict. Costs two listings, and two for each write that began before `own`."""
        table = Table(ref, storage)
        for time in self._earlier(table, own):
            if _has_marker(table, time, partition, file_id):
                raise _conflict(table, time, "write", "is changing", partition, file_id)
        for instant in table.timeline.commits() if self.commits is not None else ():
            if instant.time not in (self.commits or ()) and (
                (partition, file_id) in table.timeline.commit(instant, storage).file_groups
            ):
                raise _conflict(table, instant.time, "commit", "changed", partition, file_id)

    def _earlier(self, table: Table, own: InstantTime) -> Iterator[InstantTime]:
        """Live writes that began before, and have markers."""
        times = marker_instants(table)
        earlier = {time for time in times if Instant(time, Action.COMMIT, State.INFLIGHT).is_before(own)}
        if not earlier:
            return
        services = {item.time for item in table.timeline.filter(PLAN_ACTIONS, completed=False)}
        for beat in read_heartbeats(table):
            candidate = beat.instant in earlier - services and not beat.service
            if candidate and beat.alive(self.interval_ms, self.misses):
                yield beat.instant


def _has_marker(table: Table, time: InstantTime, partition: str, file_id: str) -> bool:
    folder = marker_folder(table.base_path, time)
    if "MARKERS.type" in table.storage.names(folder):  # of Apache Hudi's timeline server
        files = [marker.file for marker in read_markers(table, time)]
        return any(file.rpartition("/")[0] == partition and file_id in file for file in files)
    return any(file_id in name for name in table.storage.names(join(folder, partition)))


def _conflict(
    table: Table, time: InstantTime, what: str, does: str, partition: str, file_id: str
) -> CommitConflict:
    return CommitConflict(
        f"another process was faster at {table.base_path}: {what} {time} {does} file group {file_id} of "
        f"partition {partition!r}, as was detected early. Nothing of this write was published; run it again "
        f"({CONFLICT_RETRIES.name} does so by itself)",
        path=table.base_path,
        instant=time,
        partition=partition,
        file_id=file_id,
    )
