"""The entry of a file slice in a compaction plan, of a table and of its metadata table."""

from __future__ import annotations

from hoodie.table.view import FileSlice
from hoodie.timeline.models.compaction import (
    TOTAL_IO_MB,
    TOTAL_IO_READ_MB,
    TOTAL_IO_WRITE_MB,
    TOTAL_LOG_FILES,
    TOTAL_LOG_FILES_SIZE,
    CompactionOperation,
)

_MEGABYTE = 1 << 20


def compaction_operation(file_slice: FileSlice, new_file_bytes: int) -> CompactionOperation:
    """The entry of a slice that has logs, with Apache Hudi's metrics (whole MB). `new_file_bytes` are taken
    for the size of a base file that is not there.
    """
    base = file_slice.base.size if file_slice.base else 0
    logs = sum(log.size for log in file_slice.logs)
    read = (base + logs) // _MEGABYTE
    written = (base or new_file_bytes) // _MEGABYTE
    metrics = {
        TOTAL_IO_READ_MB: read,
        TOTAL_IO_WRITE_MB: written,
        TOTAL_IO_MB: read + written,
        TOTAL_LOG_FILES_SIZE: logs,
        TOTAL_LOG_FILES: len(file_slice.logs),
    }
    return CompactionOperation(
        partition_path=file_slice.partition,
        file_id=file_slice.file_id,
        base_instant=file_slice.instant,
        data_file=file_slice.base.name if file_slice.base else None,
        log_files=tuple(log.name for log in file_slice.logs),
        metrics={name: float(value) for name, value in metrics.items()},
    )
