"""Log blocks of a metadata table that were lost after they were committed.

Readers of logs pass over what is no whole block, and over blocks of instants that nobody knows: so a writer
that died leaves nothing that counts. A log that a completed commit names has only blocks that count. Where
it has not, records are lost, and what the others say may be wrong: an older place of a key, for example.
"""

from __future__ import annotations

from collections.abc import Iterator

from hoodie.errors import TableError
from hoodie.storage import Storage
from hoodie.table.log_scan import LogScan
from hoodie.table.view import TimelineView
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.models.rollback import RollbackMetadata


def check_no_lost_blocks(scan: LogScan, own: Timeline, blocks: TimelineView, storage: Storage) -> None:
    """`own` is the metadata table's timeline, `blocks` shows the instants whose blocks count. The commits are
    read only where a log has other blocks. Raises TableError, and FileNotFoundError for a commit that was
    archived since.
    """
    if not scan.doubtful:
        return
    names = frozenset(_names(own, blocks, storage))
    for log in scan.doubtful:
        if log.name in names:
            raise TableError(
                f"{log.path} has lost blocks that were committed; restore the file from a copy, or remove "
                "the metadata table (a write with hoodie.metadata.enable=false does)",
                path=log.path,
            )


def _names(own: Timeline, blocks: TimelineView, storage: Storage) -> Iterator[str]:
    """Names of the logs that completed commits and rollbacks wrote."""
    for instant in own.filter((Action.DELTACOMMIT,), completed=True):
        if blocks.shows(instant.time):
            for stats in own.commit(instant, storage).partition_to_write_stats.values():
                yield from (stat.file_name for stat in stats if stat.path)
    for instant in own.filter((Action.ROLLBACK,), completed=True):
        data = own.read(instant, storage)
        partitions = RollbackMetadata.from_bytes(data).partitions if data else {}
        for item in partitions.values():
            yield from (path.rpartition("/")[2] for path in item.rollback_log_files or ())
