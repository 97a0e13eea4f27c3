"""Services of a metadata table: clean, archive and compaction, each in an order that survives a kill.

Clean deletes file slices that no reader needs any more (format.md 10.7, 13.3): 1. the plan as requested
file, 2. the same as inflight file, 3. the files are deleted, 4. the completed file. A kill leaves the
pending clean, and the next `finish_cleans` deletes the rest.

Archive (format.md 10.7, 11; Apache Hudi 0.15.0 HoodieTimelineArchiver): 1. an archive file, whole or not at
all, 2. requested and inflight files, 3. completed files, oldest first. What a killed run has archived and
not deleted is archived again: a reader of the archive takes one of each.

Compaction writes base files of all file groups, with what their logs say (format.md 10.7): 1. the plan,
`<newest deltacommit>001.compaction.requested`: from then on log files begin with its instant, 2. the
inflight file, 3. unfinished base files of an earlier attempt are deleted, 4. a base file for each file
slice of the plan, 5. the completed commit. A kill leaves the pending plan, which readers know to read, and
the next `finish_compactions` executes it again. Data blocks whose instants did not come about are left out.
After a compaction the table archives its instants up to the newest one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from hoodie.errors import TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_records import KEY_FIELD, decode_rows, write_cells
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import hfile_of, read_delete_block
from hoodie.format.names import HFILE, BaseFileName, LogFileName, join
from hoodie.metadata.deltacommit import committed
from hoodie.metadata.instants import Own, last_compaction
from hoodie.metadata.merging import (
    Changes,
    FileNames,
    LastRecords,
    Statistics,
    check_tight,
    fields_of,
    merge,
    recoded,
)
from hoodie.metadata.missing_log_blocks import check_no_lost_blocks
from hoodie.metadata.partitions.files import FILES
from hoodie.metadata.record_schema import is_current
from hoodie.metadata.table import Partition, naming
from hoodie.metadata.written_table import MaintenancePolicy, WrittenTable, at_once, new_options
from hoodie.table.compaction_operation import compaction_operation
from hoodie.table.log_scan import SMALL, LogScan, contents, scan_slice
from hoodie.table.pending import whole_plan
from hoodie.table.view import BaseFile, FileSlice, LogFile, TimelineView, superseded
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis
from hoodie.timeline.commit import NO_COMMIT, RuntimeStats, WriteStat
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.models.clean import ActionInstant, CleanedPartition, CleanFile, CleanMetadata, CleanPlan
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime

_POLICY = "KEEP_LATEST_COMMITS"
#: instants after a compaction before the slices before it are cleaned: readers that began earlier read them
_GRACE = 3
#: bytes of records that are decoded together
_TOGETHER = 1 << 20


def clean(table: WrittenTable, upkeep: MaintenancePolicy) -> None:
    """Clean if there is something that may go."""
    timeline = table.timeline
    commits = timeline.commits()
    compacted = last_compaction(table.timeline)
    if compacted is None or len(commits) <= upkeep.keep_commits:
        return
    done = [instant for instant in timeline if instant.completed]
    at = table.service_time(Own.CLEAN)
    if len(timeline.after(compacted, done)) < _GRACE or any(instant.time == at for instant in timeline):
        return
    earliest = commits[-upkeep.keep_commits]
    files = _old_files(table, earliest) if _may_find(timeline, commits, earliest, upkeep) else {}
    if not files:
        return
    plan = CleanPlan(
        policy=_POLICY,
        files=files,
        earliest=ActionInstant.of(earliest),
        last_completed=commits[-1].time,
    )
    requested = Instant(at, Action.CLEAN, State.REQUESTED)
    begin_instant(table.store, requested, plan.to_bytes())
    _execute_clean(table, requested, plan)


def _may_find(
    timeline: Timeline, commits: list[Instant], earliest: Instant, upkeep: MaintenancePolicy
) -> bool:
    """Did a compaction begin slices before the earliest commit that is kept, since the last clean's."""
    cleans = timeline.filter((Action.CLEAN,), completed=True)
    before = timeline.before(cleans[-1].time, commits) if cleans else []
    since = before[-upkeep.keep_commits] if len(before) >= upkeep.keep_commits else None
    compactions = (item for item in timeline.before(earliest.time, commits) if item.action is Action.COMMIT)
    return any(since is None or not item.is_before(since.time) for item in compactions)


def finish_cleans(table: WrittenTable) -> None:
    """Execute those that are pending. Raises TableError for a plan that is damaged."""
    for instant in table.timeline.filter((Action.CLEAN,), completed=False):
        plan = whole_plan(table.timeline, table.storage, instant, CleanPlan, remove=True)
        if plan is not None:
            _execute_clean(table, instant, plan)


def _old_files(table: WrittenTable, earliest: Instant) -> Mapping[str, tuple[CleanFile, ...]]:
    """Files of the slices before the one that was the newest at the earliest commit that is kept."""
    view, listing = table.view, table.listing()
    found: dict[str, tuple[CleanFile, ...]] = {}
    for partition in table.partitions:
        old = [
            item
            for group in table.groups(partition, view, listing)
            for item in superseded(group, earliest.time)
        ]
        if old:
            found[partition.value] = tuple(CleanFile(path) for item in old for path in _paths(item))
    return found


def _paths(item: FileSlice) -> list[str]:
    logs = [log.path for log in item.logs]
    return logs if item.base is None else [item.base.path, *logs]


def _execute_clean(table: WrittenTable, instant: Instant, plan: CleanPlan) -> None:
    started = time.monotonic()
    inflight = instant.with_state(State.INFLIGHT)
    table.resume_instant(inflight, table.store.layout.inflight_clean(plan.to_bytes()))
    cleaned: dict[str, CleanedPartition] = {}
    for partition, files in plan.files.items():
        names = tuple(file.name for file in files if _is_data(file.name))
        table.storage.delete_many(join(table.base_path, partition, name) for name in names)
        cleaned[partition] = CleanedPartition(partition, plan.policy, names, names, (), False)
    took = int((time.monotonic() - started) * 1000)
    table.complete(inflight, CleanMetadata.of(instant.time, took, plan, cleaned))
    table.refresh()


def _is_data(name: str) -> bool:
    return BaseFileName.parse(name, HFILE) is not None or LogFileName.parse(name) is not None


#: records in a block of an archive file
_BATCH = 10


def archive(table: WrittenTable, upkeep: MaintenancePolicy) -> None:
    """Archive what is due."""
    timeline = table.refresh()
    chosen = list(_chosen(table, timeline, upkeep))
    if not chosen:
        return
    files = in_order(timeline.states(chosen))
    utc, archived = table.data.properties.timeline_utc, table.written_archive
    states = [
        (item, timeline.read(item, table.storage), format_millis(timeline.changed_ms(item) or 0, utc))
        for item in files
    ]
    table.storage.sweep_partial(archived.folder)
    archived.append(states, _BATCH)
    table.store.sweep_agreed(chosen)
    table.store.delete_archived(files)
    table.refresh()


def _chosen(table: WrittenTable, timeline: Timeline, upkeep: MaintenancePolicy) -> Iterator[Instant]:
    """Never what the table's own timeline still has, nor the deltacommits that the next compaction counts."""
    data = table.data_timeline()
    needed = [instant.time for instant in (*data.commits()[:1], *data.pending()[:1])]
    bound = REQUESTED.first(needed)
    commits = timeline.commits()
    held = [instant.time for instant in timeline.pending()[:1]]
    held += [last_compaction(table.timeline) or NO_TIME, *needed]
    chosen = commits[: -upkeep.keep_least] if len(commits) > upkeep.keep_most else []
    chosen = timeline.before(REQUESTED.first(held), chosen)
    for action in (Action.CLEAN, Action.ROLLBACK):
        done = timeline.filter((action,), completed=True)
        if timeline.layout.has_completion_time:  # see hoodie.services.archive.policy
            yield from timeline.before(chosen[-1].time, done) if chosen else ()
        elif len(done) > upkeep.keep_most:
            yield from timeline.before(bound, done[: -upkeep.keep_least])
    yield from chosen


_OPERATION = "COMPACT"
#: what Apache Hudi takes for the size of a base file that is not there
_NEW_FILE_BYTES = 120 << 20


def compact(table: WrittenTable, upkeep: MaintenancePolicy) -> bool:
    """Compact if it is due; whether it was."""
    timeline = table.timeline
    deltas = timeline.filter((Action.DELTACOMMIT,), completed=True)
    if len(timeline.after(last_compaction(table.timeline), deltas)) < upkeep.compact_after:
        return False
    time = table.service_time(Own.COMPACTION)
    if any(instant.time == time for instant in timeline) or _is_behind(table, deltas[-1].time):
        return False
    requested = Instant(time, Action.COMPACTION, State.REQUESTED)
    plan = _plan(table)
    begin_instant(table.store, requested, plan.to_bytes())
    table.refresh()
    _execute_compaction(table, requested, plan)
    return True


def finish_compactions(table: WrittenTable) -> None:
    """Execute those that are pending. Raises TableError for a plan that is damaged, or lacks files."""
    for instant in table.timeline.filter((Action.COMPACTION,), completed=False):
        plan = whole_plan(table.timeline, table.storage, instant, CompactionPlan, remove=True)
        if plan is not None:
            _execute_compaction(table, instant, plan)


def _is_behind(table: WrittenTable, newest: InstantTime) -> bool:
    """Has the table an instant that is not completed and may still get a deltacommit before the newest?"""
    return table.instants.is_behind(table.data_timeline(), table.timeline, newest)


def _plan(table: WrittenTable) -> CompactionPlan:
    view, listing = table.view, table.listing()
    latest = [group[0] for name in table.partitions for group in table.groups(name, view, listing)]
    return CompactionPlan(tuple(compaction_operation(item, _NEW_FILE_BYTES) for item in latest if item.logs))


def _execute_compaction(table: WrittenTable, instant: Instant, plan: CompactionPlan) -> None:
    table.resume_instant(instant.with_state(State.INFLIGHT))
    blocks = table.blocks(table.view)
    slices = list(_slices(table, instant, plan))
    stats = at_once(list(enumerate(slices)), partial(_write, table, instant.time, blocks))
    done = [stat for stat in stats if stat is not None]
    table.complete(instant, committed(table, done, _OPERATION, compacted=True))
    table.refresh()


def _slices(table: WrittenTable, instant: Instant, plan: CompactionPlan) -> Iterator[FileSlice]:
    """The slices of a plan as its files are now; base files that a killed try left are deleted."""
    listing = table.listing()
    for folder in plan.partitions:
        if not fields_of(folder):
            raise _lacks(table, instant, folder)
        names = (BaseFileName.parse(item.name, HFILE) for item in listing.files(folder))
        left = [name for name in names if name is not None and name.instant == instant.time]
        table.storage.delete_many(join(table.base_path, folder, str(name)) for name in left)
    for operation in plan.operations:
        folder, id_ = operation.partition_path, operation.file_id
        items = {item.name: item for item in listing.files(folder)}
        logs, base = [], None
        for name in operation.log_names:
            item, log = items.get(name), LogFileName.parse(name)
            if item is None or log is None or log.file_id != id_:
                raise _lacks(table, instant, join(folder, name))
            logs.append(LogFile.of(folder, item.path, log, item.size, operation.base_instant))
        if operation.base_name:
            item, found = items.get(operation.base_name), BaseFileName.parse(operation.base_name, HFILE)
            if item is None or found is None or found.file_id != id_:
                raise _lacks(table, instant, join(folder, operation.base_name))
            base = BaseFile(folder, item.path, item.name, id_, found.instant, item.size)
        logs.sort(key=lambda log: log.order)
        yield FileSlice(folder, id_, operation.base_instant, base, tuple(logs))


def _lacks(table: WrittenTable, instant: Instant, name: str) -> TableError:
    return TableError(
        f"compaction {instant.time} of the metadata table {table.base_path} needs {name}, which is not "
        "there; remove the metadata table (a write with hoodie.metadata.enable=false does), then write with "
        "it again",
        path=table.base_path,
        file=name,
    )


def _write(
    table: WrittenTable, time: InstantTime, blocks: TimelineView, numbered: tuple[int, FileSlice]
) -> WriteStat | None:
    """The new base file of a slice; None where there is no record."""
    number, item = numbered
    kind = Partition(item.partition)
    scan = scan_slice(table.storage, item, blocks, keep=SMALL)
    check_no_lost_blocks(scan, table.timeline, blocks, table.storage)
    changes, records = _changes(table, kind, scan)
    if item.base is None and not len(changes.keys):
        return None
    name = str(BaseFileName(item.file_id, f"{number}-1-1", time, HFILE))
    path = join(item.partition, name)
    with contextlib.ExitStack() as stack:
        base = None
        if item.base is not None:
            base = stack.enter_context(HFileReader.open(table.storage, item.base.path))
        sink = stack.enter_context(table.new_file(join(table.base_path, path)))
        cells = merge(base, changes, kind, table.record_schema)
        count, size = write_cells(sink, cells, table.record_schema, new_options())
        sink.commit()
        inserts = max(0, count - (base.entries if base else 0))
    return WriteStat(
        file_id=item.file_id,
        path=path,
        prev_commit=str(item.instant) if item.base else NO_COMMIT,
        num_writes=count,
        num_update_writes=max(0, len(changes.keys) - inserts),
        num_inserts=inserts,
        total_write_bytes=size,
        partition_path=item.partition,
        total_log_records=records,
        total_log_files_compacted=scan.statistics.files,
        total_log_size_compacted=scan.statistics.bytes,
        total_updated_records_compacted=len(changes.keys),
        total_log_blocks=scan.statistics.blocks,
        total_corrupt_log_block=scan.statistics.corrupt_blocks,
        total_rollback_blocks=scan.statistics.rollback_blocks,
        file_size_in_bytes=size,
        runtime_stats=RuntimeStats(),
    )


def _changes(table: WrittenTable, kind: Partition, scan: LogScan) -> tuple[Changes, int]:
    """What the logs say, and in how many records."""
    found: list[Any] = []
    count, schema = 0, table.record_schema
    for (log, block), content in contents(table.storage, scan):
        with naming(log.path):
            if block.type is BlockType.DELETE:
                keys = read_delete_block(content).keys
                if len(keys) and kind == Partition.FILES:
                    raise TableError(f"{log.path} deletes records of the list of files", path=log.path)
                found.append(keys)
                continue
            with hfile_of(block, content) as reader:
                text = block.schema_text or ""
                for cells in reader.scan():
                    count += cells.num_rows
                    found.append(cells if is_current(text, schema) else recoded(cells, text, kind, schema))
    if kind == Partition.COLUMN_STATS:
        return Statistics(found, schema), count
    if kind == Partition.PARTITION_STATS:
        check_tight(found, schema)
    if kind != Partition.FILES:
        return LastRecords(found), count
    given = [item for item in found if isinstance(item, pa.RecordBatch)]
    if given and sum(item.nbytes for item in given) <= _TOGETHER:
        given = pa.Table.from_batches(given).combine_chunks().to_batches()
    batches = [[], *([item] for item in given)]
    return FileNames([decode_rows(cells, schema, [KEY_FIELD, FILES]) for cells in batches], schema), count
