"""Files that no commit reports: of retried, speculative or late attempts, of withdrawn and of killed writes.

Markers name them. A base file and a change log belong to the instant in their names; of which instant another
log file is, `table.log_undo` finds out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.table.handle import Table
from hoodie.table.log_undo import log_undo
from hoodie.table.markers import MARKERS, MarkerType, delete_markers, marker_instants, read_markers
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action
from hoodie.timeline.time import InstantTime


def delete_unreported(table: Table, instant: InstantTime, reported: Collection[str]) -> None:
    """Delete the instant's files that its markers name and `reported` (paths in the table) does not."""
    storage, base_path, partitions = table.storage, table.base_path, set[str]()
    for marker in read_markers(table, instant):
        path = join(base_path, marker.file)
        if marker.file in reported:
            continue
        if marker.type is MarkerType.APPEND and not log_undo(table).is_of(storage, path, instant):
            continue
        storage.delete(path)
        partitions.add(marker.file.rpartition("/")[0])
    for partition in sorted(partitions):
        storage.sweep_partial(join(base_path, partition))
        storage.sync(join(base_path, partition))


def sweep_attempts(table: Table, timeline: Timeline) -> bool:
    """Markers of finished instants go, and first the files of late attempts that no task reported.

    Returns whether there were any.
    """
    found = marker_instants(table) if timeline.holds(MARKERS) else []
    if found and any(time not in {item.time for item in timeline} for time in found):
        timeline = table.refresh()  # one of Apache Hudi's may have begun since: it takes no lock for that
    completed = {instant.time: instant for instant in timeline.commits()}
    kept = {instant.time for instant in timeline.filter([Action.ROLLBACK], completed=True)}
    pending = {instant.time for instant in timeline.pending()}
    found = [time for time in found if time not in pending]
    for time in found:
        if not timeline.is_archived(time) and time not in kept:
            reported: frozenset[str] = frozenset()
            if time in completed:
                reported = paths(timeline.commit(completed[time], table.storage))
            delete_unreported(table, time, reported)
        delete_markers(table, time)
    return bool(found)


def paths(metadata: CommitMetadata) -> frozenset[str]:
    """Paths, in the table, of the files that a commit reports."""
    stats = [stat for stat in metadata.write_stats if stat.path]
    return frozenset(path for stat in stats for path in (stat.path or "", *(stat.cdc_stats or ())))


def files_of(table: Table, instant: InstantTime, partitions: Iterable[str]) -> Iterator[str]:
    """Base files and change logs of one instant in these partitions, relative to the table."""
    listing = table.listing()
    for partition in partitions:
        for item in listing.files(partition):
            base, log = BaseFileName.parse(item.name), LogFileName.parse(item.name)
            if (base and base.instant == instant) or (log and log.cdc and log.instant == instant):
                yield join(partition, item.name)
