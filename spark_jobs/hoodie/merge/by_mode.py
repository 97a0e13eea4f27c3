"""How rows of tables of versions 8 and 9 merge: by a mode, in the order of their blocks.

- COMMIT_TIME_ORDERING: the later one wins, a delete too.
- EVENT_TIME_ORDERING: the later one wins unless its ordering values, compared as a tuple, are smaller. A
  delete without ordering value wins over all before it, and all after it win over it. Another one has its
  ordering value and may lose.
- Rows of a partial block have some columns only. The winner's missing ones are the loser's.
- IGNORE_DEFAULTS and FILL_UNAVAILABLE fill the winner's nulls, or its unavailable values, from the loser.

The rows of a slice's logs merge first (`in_order`), then what they made with the base file. So do the rows
of a batch, before they meet what is stored.

Format: spec sections 15.7 and 15.8. Source: Apache Hudi 1.2.0, BufferedRecordMergerFactory,
PartialUpdateHandler. A null ordering value, of which Hudi makes the int 0, is smaller than any value here
except in an int column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, Column, Ints, Rows, array, column, pc, whole
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.merge import DELETED_COLUMN, Merger, Outcome
from hoodie.merge.in_order import CARRIED, DELETED, ORDERING, Carried, combined_in_order
from hoodie.merge.ordering import (
    bools,
    check_flag,
    check_marker_type,
    check_orderable,
    joined,
    key_codes,
    needed,
    newest,
    ordering_values,
    tuple_ranks,
    unknown,
)
from hoodie.table.merge_rule import MergeMode, MergeRule, PartialUpdateMode

_UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True)
class ByMode(Merger):
    """No plugin: tables of versions 8 and 9 choose it by their mode."""

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

    def check(self, rows: pa.Table) -> None:
        for path in self.ordering_fields:
            ordering_values(rows, path)

    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        self.check(rows)
        codes, distinct = key_codes(keys)
        if distinct == rows.num_rows:
            return rows
        if self.partial is not None:
            return combined_in_order(self, rows, codes)
        rank = tuple_ranks(self.ordering_of(rows)) if self.ordering_fields else None
        places = _behind(np.flatnonzero(self.wins_always(rows)), codes, distinct)
        kept: Bools = np.zeros(len(codes), np.bool_)
        kept[places[newest(codes[places], distinct, None if rank is None else rank[places])]] = True
        return rows.filter(array(kept))

    @property
    def delete_ordering(self) -> tuple[str, ...]:
        return self.ordering_fields

    @property
    def keeps_newer(self) -> bool:
        return bool(self.ordering_fields)

    @property
    def fills_always(self) -> bool:
        return self.partial is not None

    @property
    def takes_whole_rows(self) -> bool:
        return self.partial is None

    @property
    def ignores_stored(self) -> bool:
        return self.partial is None and not self.ordering_fields

    def fills(self, rows: pa.Table) -> bool:
        return self.fills_always or CARRIED in rows.column_names

    def deleted(self, rows: Rows) -> Bools:
        """By the flag or by the marker, as it was when a row of a log was read."""
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
                    joined([old.cast(new.type), new])
                    for old, new in zip(self.ordering_of(stored), self.ordering_of(incoming), strict=True)
                ]
            )
            newer = (rank[count:] >= rank[:count]) | (deleted & _without_value(self.ordering_of(incoming)))
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
        given = self.ordering_of(rows)
        if not len(deletes):
            return tuple_ranks(given), _without_value(given)
        columns = [
            joined([values, child]) for values, child in zip(given, self._children(deletes), strict=True)
        ]
        return tuple_ranks(columns), np.concatenate([_without_value(given), unknown(deletes)])

    def wins_always(self, rows: pa.Table) -> Bools:
        """Deletes whose ordering value is none, as the int 0 is."""
        if not self.ordering_fields:
            return self.deleted(rows)
        return self.deleted(rows) & _without_value(self.ordering_of(rows))

    def ordering_of(self, rows: pa.Table) -> list[Column]:
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


def _behind(deletes: Ints, codes: Ints, distinct: int) -> Ints:
    """The rows that are left of those of each key: behind the last of these deletes, or it alone."""
    rows = np.arange(len(codes))
    if not len(deletes):
        return rows
    end, last = np.zeros(distinct, np.int64), np.full(distinct, -1)
    end[codes] = rows  # of several the last one stays
    last[codes[deletes]] = deletes
    return np.flatnonzero((rows > last[codes]) | (rows == np.where(end == last, last, -1)[codes]))


def _without_value(ordering: Sequence[Column]) -> Bools:
    none: Bools = np.logical_and.reduce([unknown(values) for values in ordering])
    if len(ordering) == 1 and ordering[0].type == pa.int32():
        none = none | (np.asarray(whole(ordering[0]).fill_null(0)) == 0)
    return none
