"""How rows of tables of versions 8 and 9 merge: by a mode, in the order of their blocks.

- COMMIT_TIME_ORDERING: the later one wins, a delete too.
- EVENT_TIME_ORDERING: the later one wins unless its ordering values, compared as a tuple, are smaller. A
  delete without ordering value wins over all before it, and all after it win over it. Another one has its
  ordering value and may lose.
- Rows of a partial block have some columns only. The winner's missing ones are the loser's.
- IGNORE_DEFAULTS and FILL_UNAVAILABLE fill the winner's nulls, or its unavailable values, from the loser.

The rows of a slice's logs merge first (`read.log_order`), then what they made with the base file.

Format: spec sections 15.7 and 15.8. Source: Apache Hudi 1.2.0, BufferedRecordMergerFactory,
PartialUpdateHandler. A null ordering value, of which Hudi makes the int 0, is smaller than any value here
except in an int column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, Column, Ints, Rows, array, pc, whole
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.merge import DELETED_COLUMN, Merger, Outcome
from hoodie.merge.ordering import (
    bools,
    check_flag,
    check_marker_type,
    check_orderable,
    column,
    needed,
    sortable,
)
from hoodie.table.merge_rule import MergeMode, MergeRule, PartialUpdateMode

#: columns of merged log rows beside the table's: is it a delete; the ordering value of a delete without a
#: row, a struct where there are several; which columns the row has, null for all
DELETED, ORDERING, CARRIED = "_hoodie_log_deleted", "_hoodie_log_ordering", "_hoodie_log_carried"
_UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True)
class ByMode(Merger):
    """No plugin: tables of versions 8 and 9 choose it by their mode. It merges what is read."""

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    partial: PartialUpdateMode | None = None
    delete_field: str | None = None
    delete_marker: str | None = None
    unavailable: str = _UNAVAILABLE

    java_class = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    marks = (DELETED, ORDERING, CARRIED)

    @classmethod
    def of(cls, rule: MergeRule, schema: pa.Schema) -> ByMode:
        """Raises InputError and ConfigError for columns that are not there or have no order."""
        check_flag(schema)
        for path in rule.ordering_fields:
            check_orderable(schema, path)
        if rule.delete_field and rule.delete_field in schema.names:
            check_marker_type(rule.delete_field, schema.field(rule.delete_field).type)
        return cls(
            rule.mode,
            rule.ordering_fields,
            rule.partial_update_mode,
            rule.delete_field,
            rule.delete_marker,
            rule.unavailable or _UNAVAILABLE,
        )

    def columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return needed(schema, None, *self.ordering_fields, self.delete_field, DELETED_COLUMN)

    def combine_columns(self, schema: pa.Schema) -> tuple[str, ...]:
        return self.columns(schema)

    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        raise NotImplementedError("rows of logs are merged in the order of their blocks")

    def fills(self, rows: pa.Table) -> bool:
        return self.partial is not None or CARRIED in rows.column_names

    def deleted(self, rows: Rows) -> Bools:
        """By the flag or by the marker, as it was when a row was read."""
        names = rows.schema.names
        if DELETED in names:
            return bools(rows.column(DELETED))
        flags: Bools = np.zeros(rows.num_rows, np.bool_)
        if DELETED_COLUMN in names:
            flags = flags | bools(rows.column(DELETED_COLUMN))
        if self.delete_field and self.delete_field in names:
            text = rows.column(self.delete_field).cast(pa.string())
            flags = flags | bools(pc.equal(text, self.delete_marker))
        return flags

    def merge(self, stored: pa.Table, incoming: pa.Table) -> Outcome:
        count, deleted = incoming.num_rows, self.deleted(incoming)
        newer: Bools = np.ones(count, np.bool_)
        if self.ordering_fields:
            rank = tuple_ranks(
                [
                    _joined([old.cast(new.type), new])
                    for old, new in zip(self._ordering(stored), self._ordering(incoming), strict=True)
                ]
            )
            newer = rank[count:] >= rank[:count]
        if not self.fills(incoming):
            return Outcome(newer, newer & deleted)
        carried = Carried.of(incoming)
        replaces = newer if self.partial is None else newer | (carried.whole & ~deleted)
        return Outcome(replaces, newer & deleted, self._filled(stored, incoming, newer, carried))

    def _filled(self, stored: pa.Table, incoming: pa.Table, newer: Bools, carried: Carried) -> pa.Table:
        """The pairs' rows; of a pair with a delete they are anything."""
        there, columns = frozenset(stored.column_names), {}
        for name in incoming.column_names:
            mine = incoming.column(name)
            columns[name] = mine
            if name in self.marks or name not in there:
                continue
            other = stored.column(name).cast(mine.type)
            by_value = np.where(newer, self.has(name, mine), ~self.has(name, other))
            mask = np.where(carried.whole, by_value, newer & carried.has(name))
            if not mask.all():
                columns[name] = pc.if_else(array(mask), whole(mine), whole(other))
        return pa.table(columns)

    def has(self, name: str, values: Column) -> Bools:
        """Which values of a winner stay where the table has a mode of partial updates."""
        every: Bools = np.ones(len(values), np.bool_)
        if self.partial is None or name in META_COLUMNS:
            return every
        if self.partial is PartialUpdateMode.IGNORE_DEFAULTS:
            return every if not values.null_count else np.asarray(whole(values.is_valid())).astype(np.bool_)
        kind = values.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            marker = pa.scalar(self.unavailable).cast(kind)
            return ~bools(pc.equal(values, marker))
        return every

    def ranks(self, rows: pa.Table, deletes: Array) -> tuple[Ints, Bools]:
        """(ordering values of the rows, then of the deletes, as numbers; which of them have none)

        `deletes` are those of deletes without rows.
        """
        count = rows.num_rows + len(deletes)
        if not self.ordering_fields:
            return np.zeros(count, np.int64), np.ones(count, np.bool_)
        given = self._ordering(rows)
        none = np.logical_and.reduce([_unknown(values) for values in given])
        if len(given) == 1 and given[0].type == pa.int32():
            none = none | (np.asarray(whole(given[0]).fill_null(0)) == 0)
        columns = [
            _joined([values, child]) for values, child in zip(given, self._children(deletes), strict=True)
        ]
        return tuple_ranks(columns), np.concatenate([none, _unknown(deletes)])

    def _ordering(self, rows: pa.Table) -> list[Column]:
        """The ordering columns; of deletes without rows the values that these have."""
        found = [column(rows, path) for path in self.ordering_fields]
        if ORDERING not in rows.column_names or not self.ordering_fields:
            return found
        own = whole(rows.column(ORDERING))
        if own.null_count == len(own):
            return found
        return [
            pc.if_else(own.is_valid(), child, whole(values))
            for child, values in zip(self._children(own), found, strict=True)
        ]

    def _children(self, ordering: Array) -> list[Array]:
        """The value of each ordering field."""
        if len(self.ordering_fields) == 1:
            return [ordering]
        return [pc.struct_field(ordering, [index]) for index in range(len(self.ordering_fields))]


@dataclass(frozen=True)
class Carried:
    """Which columns rows of logs have; `whole` are the rows that have all."""

    whole: Bools
    names: frozenset[str]
    struct: Any

    @classmethod
    def of(cls, rows: pa.Table) -> Carried:
        if CARRIED not in rows.column_names:
            return cls(np.ones(rows.num_rows, np.bool_), frozenset(), None)
        struct = whole(rows.column(CARRIED))
        names = frozenset(field.name for field in struct.type)
        return cls(_unknown(struct), names, struct)

    def has(self, name: str) -> Bools:
        if name not in self.names:
            return np.ones(len(self.whole), np.bool_)
        return np.asarray(pc.struct_field(self.struct, [name]).fill_null(True)).astype(np.bool_)


def tuple_ranks(columns: Sequence[Column]) -> Ints:
    """int64 in the order of the rows' tuples; a null is smaller than any value."""
    first = columns[0]
    if len(columns) == 1 and not first.null_count:
        return sortable(first)
    parts: list[Any] = []
    for values in columns:
        known = whole(values)
        known = known.fill_null(0) if known.type == pa.int32() else known
        if not known.null_count:
            parts.append(sortable(known))
            continue
        there = ~_unknown(known)
        parts += [there, np.where(there, sortable(known), 0)]
    order = np.lexsort(parts[::-1])
    steps: Bools = np.zeros(len(order), np.bool_)
    for part in parts:
        steps[1:] |= np.diff(part[order]) != 0
    ranks: Ints = np.zeros(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks


def _unknown(values: Column) -> Bools:
    return np.asarray(whole(values).is_null()).astype(np.bool_)


def _joined(columns: Sequence[Column]) -> Array:
    result: Array = pa.concat_arrays([whole(values) for values in columns])
    return result
