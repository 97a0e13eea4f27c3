"""The figures of a completed instant, by Apache Hudi's names (its HoodieMetrics)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hoodie.hooks import CommitEvent
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit import NO_COMMIT, CommitMetadata, RuntimeStats, WriteStat
from hoodie.timeline.completed import deleted_files

_COMPACT = "COMPACT"


def figures(event: CommitEvent) -> dict[str, int]:
    """Values by name, `commit.totalBytesWritten`. Times are milliseconds, sizes bytes."""
    action = event.instant.action.value
    found = {"duration": round(event.seconds * 1000)}
    if isinstance(event.metadata, CommitMetadata):
        if event.operation.upper() == _COMPACT:
            action = "compaction"
        found |= _written(event.metadata)
        found["commitTime"] = instant_millis(event.instant.time, event.table.properties.timeline_utc)
    else:
        found["numFilesDeleted"] = sum(map(len, deleted_files(event.metadata).values()))
    return {f"{action}.{name}": value for name, value in found.items()}


def _written(metadata: CommitMetadata) -> dict[str, int]:
    stats = list(metadata.write_stats)
    new = sum((stat.prev_commit or "").lower() == NO_COMMIT for stat in stats)
    times = [stat.runtime_stats or RuntimeStats() for stat in stats]
    return {
        "totalPartitionsWritten": len(metadata.partition_to_write_stats),
        "totalFilesInsert": new,
        "totalFilesUpdate": len(stats) - new,
        "totalRecordsWritten": metadata.num_writes,
        "totalUpdateRecordsWritten": metadata.num_updates,
        "totalInsertRecordsWritten": metadata.num_inserts,
        "totalRecordsDeleted": metadata.num_deletes,
        "totalBytesWritten": metadata.bytes_written,
        "totalScanTime": sum(each.total_scan_time for each in times),
        "totalCreateTime": sum(each.total_create_time for each in times),
        "totalUpsertTime": sum(each.total_upsert_time for each in times),
        "totalCompactedRecordsUpdated": _sum(stats, lambda stat: stat.total_updated_records_compacted),
        "totalLogFilesCompacted": _sum(stats, lambda stat: stat.total_log_files_compacted),
        "totalLogFilesSize": _sum(stats, lambda stat: stat.total_log_size_compacted),
    }


def _sum(stats: Iterable[WriteStat], value: Callable[[WriteStat], int]) -> int:
    return sum(map(value, stats))
