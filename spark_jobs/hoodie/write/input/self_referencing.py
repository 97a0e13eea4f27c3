"""Rows that a statement made of the table that it writes: when their write is refused, and how they delete.

A commit after the reading of the table may have changed these rows. Then the write is refused, and the
statement must be evaluated again. A commit between the write's plan and its own commit follows the rules of
writers at once (concurrency): the write loses, or plans again, which repeats this check.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hoodie.concurrency.changes import news
from hoodie.errors import CommitConflict, ConfigError
from hoodie.format.meta_fields import IS_DELETED
from hoodie.merge import Merger
from hoodie.merge.settings import DELETE_FIELD
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import REWRITES
from hoodie.timeline.instant import Action, Instant
from hoodie.write.operation import Derived


def check_self_overwrite(table: Table, timeline: Timeline, derived: Derived | None) -> None:
    """Raises CommitConflict where the timeline has commits of rows that `derived` was not read with, or lacks
    some that it was. A compaction or a clustering changes no row.
    """
    if derived is None or derived.read is None:
        return
    for instant in _later(table, timeline, derived.read):
        raise CommitConflict(
            f"{instant} of {table.base_path} came between the reading of its rows and their writing. "
            "Nothing was written; run the statement again",
            path=table.base_path,
            instant=instant.time,
            action=instant.action.value,
            derived=True,
        )


def _later(table: Table, timeline: Timeline, read: Timeline) -> Iterator[Instant]:
    there = {instant.time for instant in timeline}
    gone = [item for item in read.commits() if item.time not in there]
    yield from (item for item in gone if not timeline.is_archived(item.time))
    last = read.last_commit
    if last is not None and last in gone:
        yield last  # younger commits may have been archived, too
    for instant in news(read, timeline):
        if instant.action is Action.RESTORE:
            yield instant
        elif instant.completed:
            operation = timeline.commit(instant, table.storage).operation_type
            if operation not in REWRITES:
                yield instant


def is_flagged(derived: Derived | None, merger: Merger, schema: pa.Schema) -> bool:
    """Have the rows a flag that is no column of the table. Raises ConfigError where the merger knows deletes
    by another column.
    """
    if derived is None or not derived.flagged:
        return False
    one = pa.schema([*(field.with_nullable(True) for field in schema)]).empty_table()
    nulls = pa.table(
        {field.name: pa.nulls(1, field.type) for field in one.schema if field.name != IS_DELETED}
    )
    if not merger.deleted(nulls.append_column(IS_DELETED, pa.array([True]))).all():
        raise ConfigError(
            f"the table's rows are deleted by another column than {IS_DELETED} ({DELETE_FIELD.name}); "
            "delete them by a DELETE of their own",
            setting=DELETE_FIELD.name,
        )
    return IS_DELETED not in schema.names
