"""What a task does: one file slice, merged as a query reads it, into the group's next base file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodie.engine import Task
from hoodie.engine.files import task_numbers
from hoodie.errors import HoodieError, TableError
from hoodie.format.base_file import BaseFileFormat, KeySummary
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.read.file_slice import SliceReader
from hoodie.read.log_merge import SliceContext
from hoodie.storage import Storage, storage_for
from hoodie.table.view import BaseFile, FileSlice, LogFile
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.timeline.compaction_plan import TOTAL_LOG_FILES_SIZE, CompactionOperation
from hoodie.write.handles import OutputFile, pieces
from hoodie.write.staged import SUMMARY, error_message, message


@dataclass(frozen=True)
class CompactionContext:
    """What every task needs to know. Picklable; built once on the driver. `instant` is the compaction's."""

    base_path: str
    instant: str
    avro_schema: str
    files: BaseFileFormat
    slices: SliceContext

    @property
    def file_schema(self) -> pa.Schema:
        """Schema of base files: meta columns first."""
        return self.slices.schema


@dataclass(frozen=True)
class CompactSlices:
    """The function given to `map_batches`; a row of its input is the number of an operation."""

    context: CompactionContext
    operations: tuple[CompactionOperation, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = storage_for(self.context.base_path)
        try:
            for number in task_numbers(batches):
                stat = compact_slice(storage, self.context, self.operations[number], task)
                yield message(SUMMARY, stat.to_dict())
        except HoodieError as error:
            yield error_message(error)


def compact_slice(
    storage: Storage, context: CompactionContext, operation: CompactionOperation, task: Task
) -> WriteStat:
    """Write the slice's new base file, marker first; rows keep their commit time and sequence number.

    Streams: memory holds what reading a slice does, and one row group. A slice without a row left becomes a
    file without rows, so that its logs are done with. Raises TableError when a file of the plan is missing.
    """
    started = time.monotonic()
    merged = file_slice(storage, context.base_path, operation)
    summary = KeySummary(context.files.new_filter())
    output = OutputFile(
        context,
        storage,
        context.instant,
        merged.partition,
        merged.file_id,
        task,
        merged.base,
        summary,
        0,
    )
    try:
        with SliceReader(storage, merged, context.slices) as reader:
            for rows in reader.tables():
                summary.add(rows.column(RECORD_KEY))
                for piece in pieces(rows, context.files.block_size):
                    output.carry(piece, np.zeros(piece.num_rows, dtype=np.bool_))
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


def file_slice(storage: Storage, base_path: str, operation: CompactionOperation) -> FileSlice:
    """The slice that a plan means, its logs in the plan's order."""
    partition, file_id = operation.group
    if operation.bootstrap_file:
        raise TableError(
            f"file group {file_id} of partition {partition!r} is bootstrapped from "
            f"{operation.bootstrap_file}; compact it with Apache Hudi",
            file_id=file_id,
        )
    base = None
    if operation.base_name:
        path, size = _found(storage, base_path, partition, operation.base_name)
        base_name = BaseFileName.parse(operation.base_name)
        if base_name is None:
            raise TableError(
                f"{path} is no name of a Parquet base file; compact it with Apache Hudi", path=path
            )
        base = BaseFile(partition, path, operation.base_name, file_id, base_name.instant, size)
    logs = []
    for name in operation.log_names:
        path, size = _found(storage, base_path, partition, name)
        log = LogFileName.parse(name)
        if log is None:
            raise TableError(f"{path} is no name of a log file; compact it with Apache Hudi", path=path)
        logs.append(
            LogFile(partition, path, name, file_id, log.base_instant, log.version, log.token or "", size)
        )
    return FileSlice(partition, file_id, operation.base_instant, base, tuple(logs))


def _found(storage: Storage, base_path: str, partition: str, name: str) -> tuple[str, int]:
    path = join(base_path, partition, name)
    info = storage.info(path)
    if info is None:
        raise TableError(
            f"{path} is in the plan of a compaction and is not there; restore the file, or roll the "
            "compaction back with Apache Hudi",
            path=path,
        )
    return path, info.size
