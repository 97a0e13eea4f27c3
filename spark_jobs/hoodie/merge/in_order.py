"""Rows and deletes merged in the order in which they came, as versions 8 and 9 do it (`merge.by_mode`).

The second records of all keys meet the first, then the third of those that have one, and so on. A record is
a number: which one won, and for each column of filled rows the one that its value is from. Values are taken
once, at the end, column by column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, Column, Ints, array, pc, whole
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.table.merge_rule import MergeMode

#: columns of merged log rows beside the table's: is it a delete; the ordering value of a delete without a
#: row, a struct where there are several; which columns the row has, null for all
DELETED, ORDERING, CARRIED = "_hoodie_log_deleted", "_hoodie_log_ordering", "_hoodie_log_carried"


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
        return cls(np.asarray(whole(struct.is_null())).astype(np.bool_), names, struct)

    def has(self, name: str) -> Bools:
        if name not in self.names:
            return np.ones(len(self.whole), np.bool_)
        return np.asarray(pc.struct_field(self.struct, [name]).fill_null(True)).astype(np.bool_)


class Rule(Protocol):
    """What is asked of `by_mode.ByMode`."""

    @property
    def mode(self) -> MergeMode: ...
    def ranks(self, rows: pa.Table, deletes: Array) -> tuple[Ints, Bools]: ...
    def deleted(self, rows: pa.Table) -> Bools: ...
    def fills(self, rows: pa.Table) -> bool: ...
    def has(self, name: str, values: Column) -> Bools: ...


@dataclass(frozen=True)
class Deletes:
    """Deletes without rows: keys, the numbers of their blocks, ordering values or null."""

    keys: pa.Array[Any]
    when: Ints
    ordering: pa.Array[Any]


def merge_in_order(
    merger: Rule, rows: pa.Table, when: Ints, deletes: Deletes
) -> tuple[pa.Table, pa.Array[Any]]:
    """One record a key: rows, and keys of deletes that win whatever is stored. Other deletes stay rows, which
    may lose.

    `when` are the numbers of the rows' blocks; both are in the order of their blocks.
    """
    rows = rows.combine_chunks()
    keys: Any = pa.concat_arrays([whole(rows.column(RECORD_KEY)), deletes.keys])
    codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64)
    records = _Records.of(merger, rows, deletes)
    order = np.lexsort((np.concatenate([when, deletes.when]), codes))
    met = _Met.of(records, order, codes)
    gone = records.deleted[met.won] & (records.always[met.won] | (not records.by_time))
    left = np.flatnonzero(~gone)
    left = left[np.argsort(met.won[left])]
    won, count = met.won[left], rows.num_rows
    made = _values(merger, rows, deletes, records, met, left)
    own = deletes.ordering.take(array(np.maximum(won - count, 0), mask=won < count))
    made = made.append_column(DELETED, array(records.deleted[won])).append_column(ORDERING, own)
    return made, keys.take(array(met.won[gone]))


def combined_in_order(merger: Rule, rows: pa.Table, codes: Ints) -> pa.Table:
    """One row a key, deletes too, in the order in which the winners came. `codes` number the keys."""
    rows = rows.combine_chunks()
    none = Deletes(pa.array([], pa.string()), np.zeros(0, np.int64), pa.nulls(0))
    records = _Records.of(merger, rows, none)
    met = _Met.of(records, np.argsort(codes, kind="stable"), codes)
    return _values(merger, rows, none, records, met, np.argsort(met.won))


@dataclass(frozen=True)
class _Records:
    """Rows, then deletes without rows, which are `alone`. `always`: deletes that have no ordering value.
    `whole`: those that have all columns."""

    rank: Ints
    deleted: Bools
    always: Bools
    alone: Bools
    by_time: bool
    carried: Carried
    whole: Bools

    @classmethod
    def of(cls, merger: Rule, rows: pa.Table, deletes: Deletes) -> _Records:
        rank, none = merger.ranks(rows, deletes.ordering)
        alone = np.arange(len(rank)) >= rows.num_rows
        deleted = np.concatenate([merger.deleted(rows), alone[rows.num_rows :]])
        by_time = merger.mode is MergeMode.EVENT_TIME_ORDERING
        carried = Carried.of(rows)
        return cls(rank, deleted, deleted & none, alone, by_time, carried, _padded(carried.whole, alone))

    def newer(self, old: Ints, new: Ints) -> Bools:
        """Which of the new ones win. A delete without a row does not win over one that wins always."""
        if not self.by_time:
            return np.ones(len(new), np.bool_)
        stays = self.always[old] & self.alone[new]
        wins = self.always[new] | self.always[old] | (self.rank[new] >= self.rank[old])
        result: Bools = wins & ~stays
        return result


@dataclass(frozen=True)
class _Turn:
    """The next record of some keys: does it win, is the winner filled, does one of both lack columns."""

    keys: Ints
    new: Ints
    newer: Bools
    fills: Bools
    partial: Bools


@dataclass(frozen=True)
class _Met:
    """For each key the first record, the one that won, and whether what was made has all columns."""

    first: Ints
    won: Ints
    whole: Bools
    turns: tuple[_Turn, ...]

    @classmethod
    def of(cls, records: _Records, order: Ints, codes: Ints) -> _Met:
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        lengths = np.diff(starts, append=len(order))
        first = order[starts]
        won, full = first.copy(), records.whole[first]
        turns: list[_Turn] = []
        keys = np.flatnonzero(lengths > 1)
        while len(keys):
            old, new = won[keys], order[starts[keys] + len(turns) + 1]
            newer = records.newer(old, new)
            fills = ~(records.deleted[old] | records.deleted[new])
            before, after = full[keys], records.whole[new]
            turns.append(_Turn(keys, new, newer, fills, ~(before & after)))
            full[keys] = np.where(fills, before | after, np.where(newer, after, before))
            won[keys] = np.where(newer, new, old)
            keys = keys[lengths[keys] > len(turns) + 1]
        return cls(first, won, full, tuple(turns))

    def sources(self, carried: Bools, has: Bools) -> Ints:
        """The record that the value of a column is from, for each key. `carried` are the records that have
        the column, `has` those whose value stays where no record is partial."""
        found = self.first.copy()
        for turn in self.turns:
            before = found[turn.keys]
            winner = np.where(turn.newer, turn.new, before)
            loser = np.where(turn.newer, before, turn.new)
            stays = np.where(turn.partial, carried[winner], has[winner])
            found[turn.keys] = np.where(stays | ~turn.fills, winner, loser)
        return found


def _values(
    merger: Rule, rows: pa.Table, deletes: Deletes, records: _Records, met: _Met, left: Ints
) -> pa.Table:
    """The rows of the keys `left`. Of deletes without rows there is the key."""
    fills, alone = merger.fills(rows), records.alone
    columns: dict[str, Any] = {}
    carried: dict[str, Any] = {}
    for name in rows.column_names:
        if name == CARRIED:
            continue
        values, sources = whole(rows.column(name)), met.won
        if fills:
            own = _padded(records.carried.has(name), alone)
            sources = met.sources(own, _padded(merger.has(name, values), alone))
            carried[name] = array(own[sources[left]])
        columns[name] = _taken(values, deletes.keys if name == RECORD_KEY else None, sources[left])
    made = pa.table(columns, schema=pa.schema([rows.schema.field(name) for name in columns]))
    if CARRIED not in rows.column_names:
        return made
    full = array(met.whole[left])
    struct = pa.StructArray.from_arrays(list(carried.values()), names=list(carried), mask=full)
    return made.append_column(CARRIED, struct)


def _taken(values: Any, others: Any, places: Ints) -> Any:
    """Values at the places; behind them are the others, or nulls."""
    count = len(values)
    if others is not None and len(others):
        return pa.concat_arrays([values, others]).take(array(places))
    if len(places) == count and not len(np.flatnonzero(places != np.arange(count))):
        return values
    alone = places >= count
    if not alone.any():
        return values.take(array(places))
    if not count:
        return pa.nulls(len(places), values.type)
    return values.take(array(np.where(alone, 0, places), mask=alone))


def _padded(flags: Bools, alone: Bools) -> Bools:
    """With true for deletes without rows."""
    result: Bools = np.concatenate([flags, alone[len(flags) :]])
    return result
