"""All data files that the active timeline names, held against the storage: commits, savepoints, plans.

A file of an older version of a group may be gone where a clean, a rollback or a restore took it. Their
results say so, on the active timeline or in the archive, which is read only when nothing else explains a gap.
Standard library only, but for reading Avro files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hoodie.errors import TableError
from hoodie.format.names import join
from hoodie.storage import Storage
from hoodie.table.committed_files import (
    UNKNOWN,
    WrittenFile,
    Wrong,
    all_written,
    confirmed,
    latest_written,
    mismatches_in,
)
from hoodie.table.handle import Table
from hoodie.table.view import TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.models.clustering import ClusteringPlan
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.models.planned_files import PlannedFiles
from hoodie.timeline.models.restore import RestoreMetadata
from hoodie.timeline.models.rollback import RollbackMetadata, RollbackPlan
from hoodie.timeline.models.savepoint import SavepointMetadata

#: (partition path, file name); a name of "" means all of the partition
File = tuple[str, str]


@dataclass(frozen=True)
class Audit:
    """What is wrong with the files of a table.

    files: how many were looked at. latest: of latest slices, so that queries lack rows or show old ones.
    older: of older versions, which time travel, incremental queries and restores need. kept: (instant of the
    savepoint or plan, what it is, path) of files that are missing there.
    """

    files: int = 0
    latest: list[Wrong] = field(default_factory=list)
    older: list[Wrong] = field(default_factory=list)
    kept: list[tuple[Instant, str, str]] = field(default_factory=list)


def audit(table: Table) -> Audit:
    """Lists the partitions that commits, savepoints and plans name; opens no data file. Raises TableError."""
    timeline, storage, props = table.timeline, table.storage, table.properties
    snapshot = TimelineView.of(timeline, storage)
    named, listing = _named(timeline, storage), table.listing()
    found: dict[str, dict[str, int]] = {}

    def sizes(partition: str) -> Mapping[str, int]:
        if partition not in found:
            items = listing.files(partition)
            found[partition] = {item.name: item.size for item in items if not item.is_dir}
        return found[partition]

    latest = latest_written(timeline, storage, snapshot)
    partitions = sorted({partition for partition, _ in latest})
    slices = [item for partition in partitions for item in merged_slices(snapshot, listing.files, partition)]
    lost = [item for item in mismatches_in(latest, slices) if confirmed(timeline, storage, props, item)]
    needed = {path for files in latest.values() for path in files}
    older = []
    for path, file in named.items():
        size = sizes(file.partition).get(file.name)
        whole = size is not None and (file.size in (size, UNKNOWN) or (file.log and size > file.size))
        if path not in needed and not whole:
            older.append(Wrong(file, size))
    known = {item.file.path for item in lost}
    kept = [
        (instant, what, join(partition, name))
        for instant, what, partition, name in _kept(timeline, storage)
        if name not in sizes(partition) and join(partition, name) not in known
    ]
    return Audit(len(named), lost, _unexplained(table, older), kept)


def _named(timeline: Timeline, storage: Storage) -> dict[str, WrittenFile]:
    """Every file that commits name, by path; of a log the stat of the greatest size."""
    named: dict[str, WrittenFile] = {}
    for file in all_written(timeline, storage):
        known = named.get(file.path)
        if known is None or known.size < file.size:
            named[file.path] = file
    return named


def _kept(timeline: Timeline, storage: Storage) -> Iterator[tuple[Instant, str, str, str]]:
    """(instant, what it is, partition, name) of the files that savepoints keep and pending plans read."""
    for instant in timeline.filter([Action.SAVEPOINT], completed=True):
        saved = SavepointMetadata.from_bytes(timeline.read(instant, storage))
        for partition, names in saved.files.items():
            yield from ((instant, "savepoint", partition, name) for name in names)
    for instant in timeline.filter([Action.COMPACTION, Action.REPLACECOMMIT], completed=False):
        what = "compaction" if instant.action is Action.COMPACTION else "clustering"
        for item in _planned(timeline, storage, instant):
            names = (*([item.base_name] if item.base_name else ()), *item.log_names)
            yield from ((instant, what, item.partition_path, name) for name in names)


def _planned(timeline: Timeline, storage: Storage, instant: Instant) -> list[PlannedFiles]:
    if instant.action is Action.REPLACECOMMIT:
        record = timeline.clustering_plan(instant, storage)
        return [] if record is None else list(ClusteringPlan.from_record(record).slices)
    path = timeline.path(instant.with_state(State.REQUESTED))
    return list(CompactionPlan.from_bytes(storage.read(path)).operations)


def _unexplained(table: Table, wrong: list[Wrong]) -> list[Wrong]:
    """Those that nothing deleted. Files that are there in another size were not deleted."""
    for source in (_taken(table.timeline, table.storage), _taken_long_ago(table)):
        if not any(item.size is None for item in wrong):
            break
        taken = set(source)
        wrong = [
            item
            for item in wrong
            if item.size is not None
            or not ((item.file.partition, item.file.name) in taken or (item.file.partition, "") in taken)
        ]
    return wrong


def _taken(timeline: Timeline, storage: Storage) -> Iterator[File]:
    """What cleans, rollbacks and restores deleted, or are going to delete."""
    for instant in timeline.filter([Action.CLEAN, Action.ROLLBACK, Action.RESTORE]):
        planned = instant if instant.completed else instant.with_state(State.REQUESTED)
        data = storage.read(timeline.path(planned))
        if not data:
            continue
        if instant.action is Action.CLEAN:
            if instant.completed:
                yield from _by_clean(CleanMetadata.from_bytes(data))
            else:
                plan = CleanPlan.from_bytes(data)
                yield from ((partition, file.name) for partition, file in plan)
                yield from ((partition, "") for partition in plan.delete_partitions)
        elif instant.action is Action.ROLLBACK and not instant.completed:
            for request in RollbackPlan.from_bytes(data).requests:
                yield from _files(request.partition_path, request.files_to_delete)
        elif instant.action is Action.ROLLBACK:
            yield from _by_rollback(RollbackMetadata.from_bytes(data))
        elif instant.completed:
            for group in RestoreMetadata.from_bytes(data).rollbacks.values():
                for done in group:
                    yield from _by_rollback(done)


def _taken_long_ago(table: Table) -> Iterator[File]:
    """The same by the archive. Cleans are archived apart from commits, which may be kept longer."""
    for entry in table.archive.entries():
        if not entry.instant.completed or entry.metadata is None:
            continue
        try:
            if entry.instant.action is Action.CLEAN:
                yield from _by_clean(CleanMetadata.from_record(entry.metadata))
            elif entry.instant.action is Action.ROLLBACK:
                yield from _by_rollback(RollbackMetadata.from_record(entry.metadata))
        except (KeyError, TypeError) as error:
            raise TableError(
                f"archived {entry.instant} can't be read ({error}); restore the archive from a copy",
                instant=entry.instant.time,
            ) from None


def _by_clean(done: CleanMetadata) -> Iterator[File]:
    for partition, cleaned in done.partitions.items():
        yield from _files(partition, (*cleaned.deleted, *cleaned.patterns))
        if cleaned.partition_deleted:
            yield partition, ""


def _by_rollback(done: RollbackMetadata) -> Iterator[File]:
    for partition, item in done.partitions.items():
        yield from _files(partition, item.deleted)


def _files(partition: str, paths: tuple[str, ...]) -> Iterator[File]:
    return ((partition, path.rpartition("/")[2]) for path in paths)
