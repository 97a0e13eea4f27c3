"""All data files that the active timeline names, held against the storage: commits, savepoints, plans.

A file of an older version of a group may be gone where a clean, a rollback or a restore took it. Their
results say so, on the active timeline or in the archive, which is read only when nothing else explains a gap.
Standard library only, but for reading Avro files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.committed_files import UNKNOWN, CommittedFiles, FileMismatch
from hoodie.table.handle import Table
from hoodie.table.view import merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clustering import ClusteringPlan
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.models.planned_files import PlannedFiles
from hoodie.timeline.models.savepoint import SavepointMetadata


@dataclass(frozen=True)
class Audit:
    """What is wrong with the files of a table.

    files: how many were looked at. latest: of latest slices, so that queries lack rows or show old ones.
    older: of older versions, which time travel, incremental queries and restores need. kept: (instant of the
    savepoint or plan, what it is, path) of files that are missing there.
    """

    files: int = 0
    latest: list[FileMismatch] = field(default_factory=list)
    older: list[FileMismatch] = field(default_factory=list)
    kept: list[tuple[Instant, str, str]] = field(default_factory=list)


def audit(table: Table) -> Audit:
    """Lists the partitions that commits, savepoints and plans name; opens no data file. Raises TableError."""
    timeline, snapshot, storage = table.timeline, table.view, table.storage
    committed, listing = CommittedFiles.of(table), table.listing()
    named = committed.by_path()
    found: dict[str, dict[str, int]] = {}

    def sizes(partition: str) -> Mapping[str, int]:
        if partition not in found:
            items = listing.files(partition)
            found[partition] = {item.name: item.size for item in items if not item.is_dir}
        return found[partition]

    latest = committed.latest(snapshot)
    partitions = sorted({partition for partition, _ in latest})
    slices = [item for partition in partitions for item in merged_slices(snapshot, listing.files, partition)]
    lost = [item for item in committed.mismatches(latest, slices) if committed.confirms(item)]
    needed = {path for files in latest.values() for path in files}
    older = []
    for path, file in named.items():
        size = sizes(file.partition).get(file.name)
        whole = size is not None and (file.size in (size, UNKNOWN) or (file.log and size > file.size))
        if path not in needed and not whole:
            older.append(FileMismatch(file, size))
    known = {item.file.path for item in lost}
    kept = [
        (instant, what, join(partition, name))
        for instant, what, partition, name in _referenced_files(timeline, storage)
        if name not in sizes(partition) and join(partition, name) not in known
    ]
    return Audit(len(named), lost, committed.undeleted(older), kept)


#: layout two has an action of its own for a pending clustering
_COMPACTIONS = {Action.COMPACTION: "compaction", Action.LOGCOMPACTION: "log compaction"}
_PLANNED = (*_COMPACTIONS, Action.REPLACECOMMIT, Action.CLUSTERING)


def _referenced_files(timeline: Timeline, storage: Storage) -> Iterator[tuple[Instant, str, str, str]]:
    """(instant, what it is, partition, name) of the files that savepoints keep and pending plans read."""
    for instant in timeline.filter([Action.SAVEPOINT], completed=True):
        saved = SavepointMetadata.from_bytes(timeline.read(instant, storage))
        for partition, names in saved.files.items():
            yield from ((instant, "savepoint", partition, name) for name in names)
    for instant in timeline.filter(_PLANNED, completed=False):
        what = _COMPACTIONS.get(instant.action, "clustering")
        for item in _planned(timeline, storage, instant):
            names = (*([item.base_name] if item.base_name else ()), *item.log_names)
            yield from ((instant, what, item.partition_path, name) for name in names)


def _planned(timeline: Timeline, storage: Storage, instant: Instant) -> list[PlannedFiles]:
    if instant.replaces:
        record = timeline.clustering_plan(instant, storage)
        return [] if record is None else list(ClusteringPlan.from_record(record).slices)
    path = timeline.path(instant.with_state(State.REQUESTED))
    return list(CompactionPlan.from_bytes(storage.read(path)).operations)
