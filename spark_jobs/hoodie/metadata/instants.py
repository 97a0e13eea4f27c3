"""Which log blocks of a metadata table count (format.md 10.6; Apache Hudi 0.15.0 HoodieTableMetadataUtil).

A block is written before the commit of the table that it describes. It counts when both are completed: the
deltacommit of the metadata table, and the instant of the table, of the same time. Instants that the metadata
table has of its own end with three digits more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hoodie.storage import Storage
from hoodie.table.view import TimelineView
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.plans import RollbackMetadata, RollbackPlan
from hoodie.timeline.restore_plan import RestoreMetadata

_DIGITS = 17
#: compaction, clean, restore, indexing, log compaction, rollback
_OWN = frozenset({"001", "002", "003", "004", "005", "006"})
#: of the making of the partitions: this, and those after it
_FIRST_MAKING = "010"
#: instants of what was made with a new table begin so
_NEW_TABLE = "0" * 14


def shown_blocks(data: Timeline, metadata: Timeline, view: TimelineView, storage: Storage) -> TimelineView:
    """What shows the blocks that count. `view` is of the metadata table's timeline, and shows its files.

    Raises TableError for a damaged rollback or restore.
    """
    valid = {instant.time for instant in data if instant.completed}
    own = metadata.filter((Action.DELTACOMMIT,), completed=True)
    valid.update(instant.time for instant in own if _is_own(instant.time))
    undoing = data.filter((Action.ROLLBACK, Action.RESTORE), completed=True)
    for instant in data.after(min(valid, default=_NEW_TABLE), undoing):
        valid.update(_undone(data, instant, storage))
    valid.update(item.time for item in metadata.filter((Action.ROLLBACK, Action.RESTORE), completed=True))
    return replace(view, committed=frozenset(filter(view.shows, valid)), first_time=None)


def _is_own(time: str) -> bool:
    suffix = time[_DIGITS:]
    made = len(suffix) == 3 and (suffix in _OWN or suffix >= _FIRST_MAKING)
    return made or time.startswith(_NEW_TABLE)


def _undone(timeline: Timeline, instant: Instant, storage: Storage) -> Iterable[str]:
    """The instants that a rollback or a restore took back; none of one that was archived meanwhile."""
    try:
        found = timeline.read(instant, storage)
        if instant.action is Action.RESTORE:
            groups = RestoreMetadata.from_bytes(found).rollbacks.values()
            return [time for group in groups for item in group for time in item.commits]
        if found:
            return RollbackMetadata.from_bytes(found).commits
        target = RollbackPlan.from_bytes(timeline.plan(instant, storage)).instant
        return [target.time] if target else []
    except FileNotFoundError:
        return []
