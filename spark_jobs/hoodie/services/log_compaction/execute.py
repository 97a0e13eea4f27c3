"""The execution of pending log compactions, of this package and of Apache Hudi, while writers may work.

A task merges the logs of one file slice without its base file, and writes what it gets into a log of the same
slice: rows with their commit times, then deletes with their ordering values. The header of each block names
the instants whose blocks it stands for (format.md 15.7; Apache Hudi 1.2.0 FileGroupReaderBasedAppendHandle).

Readers put the new blocks in the place of the newest of those. So no log may lie between them that the plan
lacks. In a slice that a compaction begins meanwhile the new log stands for nothing, and readers skip it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import whole
from hoodie.engine import Engine
from hoodie.engine.packing import packed
from hoodie.engine.task import Task
from hoodie.errors import CommitConflict
from hoodie.format.log_block import BlockType, HeaderKey
from hoodie.format.log_data import encode_data_block, is_partial
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import LogFileName
from hoodie.format.schema import record_full_name, to_avro_text
from hoodie.merge.by_mode import ByMode
from hoodie.merge.in_order import DELETED, Carried
from hoodie.progress import ProgressCallback
from hoodie.read.key_join import Part
from hoodie.read.log_merge import merged_log
from hoodie.services.compaction.execute import (
    CompactSlices,
    file_slice,
    read_bytes,
    read_plan,
    with_logs_read,
)
from hoodie.services.planned import OutdatedPlan, RewrittenPlan
from hoodie.services.rewrite_slices import RewriteContext, rewrite_context
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.listing import StorageListing
from hoodie.table.log_scan import SMALL, scan_slice
from hoodie.table.pending import busy_groups, earlier_write
from hoodie.table.view import FileSlice, file_slices
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.timeline.instant import Instant
from hoodie.timeline.models.compaction import CompactionOperation, CompactionPlan
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.write.files.append import block_pieces, delete_content
from hoodie.write.files.cdc import LogFiles, LogFormat, PartialSchema
from hoodie.write.participants.metadata.column_stats import reported_columns
from hoodie.write.settings import CDC_ENABLED

SERVICE = "log compaction"
#: Hudi's WriteOperationType of a log compaction
OPERATION = "LOG_COMPACT"


@dataclass(frozen=True)
class CompactLogs:
    """What becomes of one slice. `full_name`: of the table's Avro schema. `whole`: see LogFiles."""

    format: LogFormat
    full_name: str
    whole: bool

    @classmethod
    def of(cls, target: ServiceTable, context: RewriteContext) -> CompactLogs:
        merger, full_name = context.slices.merger, record_full_name(context.avro_schema)
        assert merger is not None
        ranges_of = reported_columns(target.config, target.props) if merger.takes_whole_rows else None
        schema = to_avro_text(context.file_schema, target.props.name, full_name=full_name)
        format_ = LogFormat.of(target.config, schema, merger.delete_ordering, ranges_of)
        return cls(format_, full_name, bool(target.config[CDC_ENABLED]))

    def __call__(
        self, storage: Storage, context: RewriteContext, operation: CompactionOperation, task: Task
    ) -> list[WriteStat]:
        """Write the merged records of the slice's logs, marker first; no file where no block counts.

        Memory holds the merged records within the budget of queries. Raises TableError when a file of the
        plan is missing.
        """
        started = time.monotonic()
        slice_ = file_slice(storage, context.base_path, operation, SERVICE)
        slices = context.slices
        scan = scan_slice(storage, slice_, slices.snapshot, keep=min(SMALL, slices.budget // 8))
        if not scan.queue:
            return []
        partial_ = any(is_partial(block) for _, block in scan.queue)
        format_ = replace(self.format, ranges_of=None) if partial_ else self.format
        logs = LogFiles(
            storage,
            context.base_path,
            context.instant,
            slice_.new_log(slices.snapshot.slicing, context.instant, task.token),
            slice_,
            format_,
            True,
            self.whole,
            {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(scan.instants)},
        )
        try:
            with merged_log(storage, scan, slices) as log:
                for part in log.parts:
                    self._log_rows(logs, context, part)
                for part in log.parts:
                    self._log_deletes(logs, context, slice_, part)
            stats = logs.close()
        except BaseException:
            logs.abandon()
            raise
        if not stats:  # blocks may have no records
            return []
        first, *more = stats
        millis = int((time.monotonic() - started) * 1000)
        changed = sum(stat.num_writes + stat.num_deletes for stat in (first, *more))
        first = with_logs_read(first, operation, scan.statistics, changed, RuntimeStats(0, millis, 0))
        first = replace(first, total_log_size_compacted=scan.content_bytes)
        return [replace(stat, prev_commit=str(slice_.instant)) for stat in (first, *more)]

    def _log_rows(self, logs: LogFiles, context: RewriteContext, part: Part) -> None:
        for some, rows in self._by_columns(_without_deletes(part.rows), context):
            schema, headers = (some.avro_schema, some.headers) if some else (self.format.avro_schema, None)
            for piece in block_pieces(rows, self.format.block_size, context.slices.budget):
                content = encode_data_block(piece, schema, self.format.block, self.format.codec)
                logs.append(self.format.block, content, piece, headers=headers)

    def _by_columns(
        self, rows: pa.Table, context: RewriteContext
    ) -> Iterator[tuple[PartialSchema | None, pa.Table]]:
        """The rows with all columns, for which None stands, then those of each set of columns."""
        names, carried = context.file_schema.names, Carried.of(rows)
        yield None, rows.filter(pa.array(carried.whole)).select(names)
        some = np.flatnonzero(~carried.whole)
        if not len(some):
            return
        rows = rows.filter(pa.array(~carried.whole))
        flags = np.stack([carried.has(name)[some] for name in names])
        sets, codes = np.unique(flags, axis=1, return_inverse=True)
        for number in range(sets.shape[1]):
            has = tuple(name for name, there in zip(names, sets[:, number], strict=True) if there)
            schema = pa.schema([context.file_schema.field(name) for name in has])
            text = to_avro_text(schema, self.full_name, full_name=self.full_name)
            mask = pa.array(codes.reshape(-1) == number)
            yield PartialSchema(has, text), rows.filter(mask).select(list(has))

    def _log_deletes(self, logs: LogFiles, context: RewriteContext, slice_: FileSlice, part: Part) -> None:
        merger, nothing = context.slices.merger, context.file_schema.empty_table()
        always = pa.table({RECORD_KEY: pa.array([], pa.string()) if part.deletes is None else part.deletes})
        compared = part.rows.slice(0, 0)
        if DELETED in part.rows.column_names:
            compared = part.rows.filter(part.rows.column(DELETED))
        for rows, ordered in ((compared, True), (always, False)):
            for piece in block_pieces(rows, self.format.block_size, context.slices.budget):
                ordering = merger.ordering_of(piece) if ordered and isinstance(merger, ByMode) else []
                content = delete_content(slice_.partition, piece, ordering)
                logs.append(BlockType.DELETE, content, nothing, deletes=piece.num_rows)


def _without_deletes(rows: pa.Table) -> pa.Table:
    """Without deletes, which keep their ordering values in rows."""
    if DELETED not in rows.column_names:
        return rows
    deleted: Any = np.asarray(whole(rows.column(DELETED)))
    return rows.filter(pa.array(~deleted)) if deleted.any() else rows


def execute(
    engine: Engine, target: ServiceTable, instant: Instant, progress: ProgressCallback
) -> RewrittenPlan[CompactionPlan]:
    """Run a pending log compaction to its commit, from the beginning where an earlier run failed.

    Slices that a compaction or a clustering has taken since the plan are left out. Raises OutdatedPlan where
    none is left, ConflictError while another process executes it or when it has been completed; an error
    leaves the plan pending and no new file.
    """
    plan = read_plan(target, instant, SERVICE)
    with target.transaction() as transaction:
        transaction.resume(instant, plan.partitions)
        context = rewrite_context(target, instant.time, "compact", engine)
        plan = replace(plan, operations=_unchanged(target, instant, plan.operations))
        if not plan.operations:
            raise OutdatedPlan(
                f"all file slices of log compaction {instant.time} were compacted, clustered or replaced "
                "since it was planned",
                instant=instant.time,
            )
        transaction.confirming(partial(_check_unchanged, target, instant, plan.operations))
        logs = sum(len(operation.log_files) for operation in plan.operations)
        progress("compact", f"instant {instant.time}: {len(plan.operations)} file slices, {logs} log files")
        task = CompactSlices(context, packed(plan.operations, read_bytes), CompactLogs.of(target, context))
        stats = task.stats(engine, "groups of file slices were to be compacted")
        progress("commit", f"instant {instant.time}")
        extra = {**(plan.extra_metadata or {}), **target.extra, **context.schema_metadata}
        metadata = transaction.commit(stats, OPERATION, extra)
        return RewrittenPlan(instant=instant.time, plan=plan, metadata=metadata)


def _unchanged(
    target: ServiceTable, instant: Instant, operations: tuple[CompactionOperation, ...]
) -> tuple[CompactionOperation, ...]:
    """Those whose slice is still the latest of its group, in no other pending plan, and has no other log
    among those of the plan.
    """
    timeline = target.timeline()
    others = replace(timeline, instants=tuple(item for item in timeline if item.time != instant.time))
    busy = busy_groups(others, target.storage)
    snapshot, listing = target.table.view, StorageListing(target.storage, target.base_path).files
    found: dict[str, dict[str, list[FileSlice]]] = {}
    left = []
    for operation in operations:
        partition, file_id = operation.group
        if partition not in found:
            found[partition] = file_slices(snapshot, listing, partition)
        latest = next(iter(found[partition].get(file_id, ())), None)
        if latest is None or latest.instant != operation.base_instant or operation.group in busy:
            continue
        planned = {*operation.log_names}
        late = [log.instant for log in latest.logs if log.name not in planned]
        newest = newest_log(operation)
        if newest is None or not any(REQUESTED.before(time, newest) for time in late):
            left.append(operation)
    return tuple(left)


def _check_unchanged(
    target: ServiceTable, instant: Instant, operations: tuple[CompactionOperation, ...]
) -> None:
    """Raises CommitConflict where a slice has changed since, or a write is at work that may yet add a log
    among those of the plan.
    """
    left = _unchanged(target, instant, operations)
    newest = REQUESTED.last(time for time in map(newest_log, operations) if time)
    write = None if newest is None else earlier_write(target.table.timeline, newest)
    if len(left) == len(operations) and write is None:
        return
    why = "file slices of it were compacted, clustered or written meanwhile"
    if write is not None:
        why = f"write {write.time}, which began before logs of it, is not completed or rolled back"
    raise CommitConflict(
        f"log compaction {instant.time} of {target.base_path} was not published: {why}; run it again",
        instant=instant.time,
    )


def newest_log(operation: CompactionOperation) -> InstantTime | None:
    """The instant of the newest log file of a plan's slice."""
    logs = (LogFileName.parse(name) for name in operation.log_names)
    return REQUESTED.last(log.instant for log in logs if log is not None)
