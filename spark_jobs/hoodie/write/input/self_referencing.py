"""Rows that a statement made of the table that it writes: when their write is refused, how they delete, and
which columns of them logs have.

A commit after the reading of the table may have changed these rows. Then the write is refused, and the
statement must be evaluated again. A commit between the write's plan and its own commit follows the rules of
writers at once (concurrency): the write loses, or plans again, which repeats this check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from hoodie.concurrency.changes import news
from hoodie.config.key import Config
from hoodie.errors import CommitConflict, ConfigError, InputError
from hoodie.format.meta_fields import IS_DELETED
from hoodie.format.schema import canonical
from hoodie.index import Index, PlacingIndex, Scope
from hoodie.merge import Merger
from hoodie.merge.settings import DELETE_FIELD
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import REWRITES
from hoodie.timeline.instant import Action, Instant
from hoodie.write.context import WriteContext
from hoodie.write.operation import Derived, Operation, WriteRequest
from hoodie.write.settings import CDC_ENABLED, MAX_AMPLIFICATION, MERGE_INTO_PARTIAL, Known


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


def partial_columns(
    derived: Derived | None,
    config: Config,
    props: TableProperties | None,
    schema: pa.Schema,
    index: Index | None,
) -> tuple[str, ...]:
    """The columns of log blocks of changed columns, the ordering column among them; none where rows are
    logged whole.

    As Apache Hudi 1.2.0 (MergeIntoHoodieTableCommand), but for tables in which it returns other rows of such
    blocks, or fails: those with buckets, several ordering columns, change data, deletes by a column, or the
    order of commits, where it can't merge a row with a logged delete then. Neither where nulls give way to
    stored values, nor where rows move to other partitions.
    """
    if derived is None or not derived.changed or props is None or not config[MERGE_INTO_PARTIAL]:
        return ()
    rule, names = props.merge_rule, {*schema.names}
    moves = isinstance(index, PlacingIndex) or (
        index is not None and index.scope is Scope.TABLE and index.updates_partition_path
    )
    fills_or_deletes = rule.partial_update_mode or rule.delete_field or IS_DELETED in names
    ordered = len(rule.ordering_fields) == 1 and names.issuperset(rule.ordering_fields)
    if moves or not rule.by_mode or fills_or_deletes or not ordered or config[CDC_ENABLED]:
        return ()
    if props.get(BOOTSTRAP_BASE_PATH) or not props.populate_meta_fields:
        return ()
    return tuple(name for name in schema.names if name in {*derived.changed, *rule.ordering_fields})


def completing(
    context: WriteContext,
    request: WriteRequest,
    props: TableProperties | None,
    config: Config,
    rows: pa.Schema,
) -> WriteContext:
    """The context of a write whose rows the stored ones complete, if the request has such `rows`. Raises
    InputError where these can't be: the statement is evaluated in all columns then.
    """
    derived = request.derived
    if derived is None or not derived.found_by:
        return context
    known = {field.name: field for field in canonical(rows)}
    logged = context.logs is not None and context.logs.partial is not None
    index, keys = context.index, {*context.keys.key_columns}
    found = index is not None and index.scope is Scope.PARTITION and context.operation is Operation.UPSERT
    asked = request.dry_run or config[MAX_AMPLIFICATION] or context.duplicates.known is not Known.NONE
    dropped = props is None or props.drop_partition_columns
    if not logged or not found or asked or dropped or not keys <= {*derived.found_by}:
        raise InputError("rows are not completed by those of this table, or of this write; give all columns")
    narrow = replace(context, found_by=derived.found_by)
    for field in narrow.incoming_schema:
        given = known.get(field.name)
        if given is None or given.type != field.type or pa.types.is_nested(field.type):
            raise InputError(f"column {field.name} is not as the table has it; cast it", column=field.name)
    return narrow
