"""The execution of pending compaction plans, of this package and of Apache Hudi, while writers may work.

A task takes one file slice, merges it as a query reads it, and writes the group's next base file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hoodie.concurrency.gate import is_optimistic
from hoodie.engine import Engine
from hoodie.engine.packing import packed
from hoodie.engine.task import Task, task_numbers
from hoodie.errors import CommitConflict, ConfigError, HoodieError
from hoodie.format.base_file import KeySummary
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.progress import ProgressCallback
from hoodie.read.file_slice import SliceReader
from hoodie.services.planned import RewrittenPlan
from hoodie.services.rewrite_slices import PlanSlice, RewriteContext, rewrite_context, run_tasks
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.committed_files import CommittedFiles
from hoodie.table.features import ROWS, check_features
from hoodie.table.listing import StorageListing
from hoodie.table.log_scan import LogStatistics
from hoodie.table.properties import TableType
from hoodie.table.view import FileSlice, file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import RuntimeStats, WriteStat, stats_by_partition
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.compaction import (
    TOTAL_IO_READ_MB,
    TOTAL_LOG_FILES_SIZE,
    CompactionOperation,
    CompactionPlan,
)
from hoodie.write.blobs import SUMMARY, error_message, message
from hoodie.write.files.handles import OutputFile, pieces

#: what becomes of the slice of one operation: the statistics of the files that were written
SliceFunction: TypeAlias = Callable[[Storage, RewriteContext, CompactionOperation, Task], Sequence[WriteStat]]


@dataclass(frozen=True)
class CompactSlices:
    """The function given to `map_batches`; a row of its input is the number of some operations. `compact` is
    picklable.
    """

    context: RewriteContext
    operations: tuple[tuple[CompactionOperation, ...], ...]
    compact: SliceFunction

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            for number in task_numbers(batches):
                written = [self.compact(storage, self.context, one, task) for one in self.operations[number]]
                stats = [stat.to_report() for group in written for stat in group]
                yield message(SUMMARY, {"stats": stats})
        except HoodieError as error:
            yield error_message(error)

    def stats(self, engine: Engine, what: str) -> dict[str, list[WriteStat]]:
        """Those of all tasks, by partition; `what` names what is counted. Raises what a task raised."""
        found = run_tasks(engine, self, len(self.operations), what)
        return stats_by_partition(value for answer in found for value in answer["stats"])


def compact_slice(
    storage: Storage, context: RewriteContext, operation: CompactionOperation, task: Task
) -> list[WriteStat]:
    """Write the slice's new base file, marker first; rows keep their commit time and sequence number.

    The bloom filter and the key range of the base file are continued: keys that the logs delete stay in them.
    Streams: memory holds what reading a slice does, and one row group. A slice without a row left becomes a
    file without rows, so that its logs need not be read any more. Raises TableError when a file of the plan
    is missing.
    """
    started = time.monotonic()
    merged = file_slice(storage, context.base_path, operation)
    with SliceReader(storage, merged, context.slices, context.carried()) as reader:
        known = reader.key_summary(context.files)
        summary = known or KeySummary(context.files.new_filter())
        output = OutputFile(
            context,
            storage,
            instant=context.instant,
            partition=merged.partition,
            file_id=merged.file_id,
            task=task,
            base=merged.base,
            summary=summary,
            first_number=0,
        )
        try:
            for rows in reader.stored():
                if known is None:
                    summary.add(rows.column(RECORD_KEY))
                _carry(output, rows, context)
            for rows in reader.inserted():
                summary.add(rows.column(RECORD_KEY))
                _carry(output, rows, context)
            stat = output.close()
        except BaseException:
            output.abandon()
            raise
    stat = replace(
        stat,
        num_update_writes=reader.updates,
        num_deletes=reader.deletes,
        num_inserts=reader.inserts,
    )
    changed, millis = reader.updates + reader.deletes + reader.inserts, _millis(started)
    times = RuntimeStats(0, millis, 0) if merged.base else RuntimeStats(0, 0, millis)
    return [with_logs_read(stat, operation, reader.scan.statistics, changed, times)]


def with_logs_read(
    stat: WriteStat, operation: CompactionOperation, seen: LogStatistics, changed: int, times: RuntimeStats
) -> WriteStat:
    """What was read of a slice's logs, in the statistics of the file that was made of them. `changed`: keys
    of the logs.
    """
    return replace(
        stat,
        total_log_records=seen.records,
        total_log_files_compacted=seen.files,
        total_log_size_compacted=int(operation.metric(TOTAL_LOG_FILES_SIZE)) or seen.bytes,
        total_updated_records_compacted=changed,
        total_log_blocks=seen.blocks,
        total_corrupt_log_block=seen.corrupt_blocks,
        total_rollback_blocks=seen.rollback_blocks,
        runtime_stats=times,
    )


def _millis(started: float) -> int:
    return int((time.monotonic() - started) * 1000)


def _carry(output: OutputFile, rows: pa.Table, context: RewriteContext) -> None:
    for piece in pieces(rows, context.files.block_size):
        output.carry(piece, np.zeros(piece.num_rows, dtype=np.bool_))


def file_slice(
    storage: Storage, base_path: str, operation: CompactionOperation, service: str = "compaction"
) -> FileSlice:
    """The slice that a plan names, its logs in the plan's order."""
    partition, file_id = operation.group
    planned = PlanSlice(
        service,
        "compact",
        partition,
        file_id,
        operation.base_instant,
        operation.base_name,
        operation.log_names,
    )
    return planned.found(storage, base_path)


#: Hudi's WriteOperationType of a compaction
OPERATION = "COMPACT"


def check(target: ServiceTable) -> None:
    """Raises ConfigError for a table that can't be compacted, or not here."""
    props = target.props
    if props.table_type is not TableType.MERGE_ON_READ:
        raise ConfigError(
            f"table {props.name!r} is {props.table_type.value}, which has no logs to compact; compaction is "
            f"for {TableType.MERGE_ON_READ.value} tables",
            table=props.name,
        )
    check_features(props, "compact", "compacted", *ROWS)


def pending(timeline: Timeline) -> list[Instant]:
    """Compactions to execute, oldest first."""
    return timeline.filter([Action.COMPACTION], completed=False)


def execute(
    engine: Engine, target: ServiceTable, instant: Instant, progress: ProgressCallback
) -> RewrittenPlan[CompactionPlan]:
    """Run a pending compaction to its commit, from the beginning where an earlier run failed.

    Raises ConflictError while another process executes it or when it has been completed; an error leaves the
    plan pending and no new file.
    """
    plan = read_plan(target, instant)
    with target.transaction() as transaction:
        transaction.resume(instant, plan.partitions)
        context = rewrite_context(target, instant.time, "compact", engine)
        if is_optimistic(target.config) and not target.storage.fences:
            plan = replace(plan, operations=_with_late_logs(target, plan.operations))
            transaction.confirming(partial(_check_no_late_logs, target, instant, plan.operations))
        logs = sum(len(operation.log_files) for operation in plan.operations)
        progress("compact", f"instant {instant.time}: {len(plan.operations)} file slices, {logs} log files")
        task = CompactSlices(context, packed(plan.operations, read_bytes), compact_slice)
        stats = task.stats(engine, "groups of file slices were to be compacted")
        progress("commit", f"instant {instant.time}")
        extra = {**(plan.extra_metadata or {}), **target.extra, **context.schema_metadata}
        metadata = transaction.commit(stats, OPERATION, extra)
        return RewrittenPlan(
            instant=instant.time,
            plan=plan,
            metadata=metadata,
        )


def _with_late_logs(
    target: ServiceTable, operations: tuple[CompactionOperation, ...]
) -> tuple[CompactionOperation, ...]:
    """The operations with the logs that their slices have beside those of the plan.

    On a storage that does not fence, a planner that sleeps past its lock's expiry may put its plan beside, or
    after, a commit that it has not seen: rows of a log that is left out would be gone.
    """
    target.timeline()
    snapshot = target.table.view
    listing = StorageListing(target.storage, target.base_path).files
    found: dict[str, dict[str, list[FileSlice]]] = {}
    whole = []
    for operation in operations:
        partition, file_id = operation.group
        if partition not in found:
            found[partition] = file_slices(snapshot, listing, partition)
        slices = found[partition].get(file_id, ())
        logs = [log.name for item in slices if item.instant == operation.base_instant for log in item.logs]
        more = [name for name in logs if name not in operation.log_names]
        whole.append(replace(operation, log_files=(*operation.log_files, *more)) if more else operation)
    return tuple(whole)


def _check_no_late_logs(
    target: ServiceTable, instant: Instant, operations: tuple[CompactionOperation, ...]
) -> None:
    """Raises CommitConflict where a commit has come since whose logs were not read."""
    for known, now in zip(operations, _with_late_logs(target, operations), strict=True):
        late = {*now.log_names} - {*known.log_names}
        if late and CommittedFiles.of(target.table).have_any(late):
            raise CommitConflict(
                f"a commit has written to file group {known.file_id} of partition {known.partition_path!r} "
                f"while compaction {instant.time} was carried out; run it again",
                instant=instant.time,
                partition=known.partition_path,
                file_id=known.file_id,
            )


def read_bytes(operation: CompactionOperation) -> int:
    """About the bytes of its files; the plan has them in whole MB."""
    logs = int(operation.metric(TOTAL_LOG_FILES_SIZE))
    return max(logs, int(operation.metric(TOTAL_IO_READ_MB)) << 20) + (1 << 19)


def read_plan(target: ServiceTable, instant: Instant, service: str = "compaction") -> CompactionPlan:
    """Raises TableError for a plan that is torn or lost, ConflictError for one that is gone meanwhile."""
    return CompactionPlan.from_bytes(target.planned(instant, service))
