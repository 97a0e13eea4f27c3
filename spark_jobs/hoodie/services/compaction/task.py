"""What a task does: one file slice, merged as a query reads it, into the group's next base file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodie.engine.task import Task, task_numbers
from hoodie.errors import HoodieError
from hoodie.format.base_file import KeySummary
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.read.file_slice import SliceReader
from hoodie.services.rewrite_slices import PlanSlice, RewriteContext
from hoodie.storage import Storage
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.timeline.models.compaction import TOTAL_LOG_FILES_SIZE, CompactionOperation
from hoodie.write.blobs import SUMMARY, error_message, message
from hoodie.write.handles import OutputFile, pieces


@dataclass(frozen=True)
class CompactSlices:
    """The function given to `map_batches`; a row of its input is the number of some operations."""

    context: RewriteContext
    operations: tuple[tuple[CompactionOperation, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            for number in task_numbers(batches):
                chosen = self.operations[number]
                stats = [compact_slice(storage, self.context, one, task).to_dict() for one in chosen]
                yield message(SUMMARY, {"stats": stats})
        except HoodieError as error:
            yield error_message(error)


def compact_slice(
    storage: Storage, context: RewriteContext, operation: CompactionOperation, task: Task
) -> WriteStat:
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
    seen, millis = reader.scan.statistics, int((time.monotonic() - started) * 1000)
    return replace(
        stat,
        num_update_writes=reader.updates,
        num_deletes=reader.deletes,
        num_inserts=reader.inserts,
        total_log_records=seen.records,
        total_log_files_compacted=seen.files,
        total_log_size_compacted=int(operation.metric(TOTAL_LOG_FILES_SIZE)) or seen.bytes,
        total_updated_records_compacted=reader.updates + reader.deletes + reader.inserts,
        total_log_blocks=seen.blocks,
        total_corrupt_log_block=seen.corrupt_blocks,
        total_rollback_blocks=seen.rollback_blocks,
        runtime_stats=RuntimeStats(0, millis, 0) if merged.base else RuntimeStats(0, 0, millis),
    )


def _carry(output: OutputFile, rows: pa.Table, context: RewriteContext) -> None:
    for piece in pieces(rows, context.files.block_size):
        output.carry(piece, np.zeros(piece.num_rows, dtype=np.bool_))


def file_slice(storage: Storage, base_path: str, operation: CompactionOperation) -> FileSlice:
    """The slice that a plan names, its logs in the plan's order."""
    partition, file_id = operation.group
    planned = PlanSlice(
        "compaction",
        "compact",
        partition,
        file_id,
        operation.base_instant,
        operation.base_name,
        operation.log_names,
    )
    return planned.found(storage, base_path)
