"""What mergers share: ordering values, duplicate keys, delete flags, nulls filled; their base class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, Column, Ints, Rows, array, column, pc, whole
from hoodie.errors import ConfigError, InputError
from hoodie.merge import DELETED_COLUMN, Merger
from hoodie.merge.settings import DELETE_FIELD, PRECOMBINE_FIELD

_NAN = np.int64(0x7FF8000000000000)
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class OrderedRows(Merger):
    """Base of the mergers: ordering inside a batch and hard deletes."""

    ordering: str | None = None

    @property
    def keeps_newer(self) -> bool:
        return False

    def check(self, rows: pa.Table) -> None:
        """Raises InputError for a null ordering value; called with all incoming rows before any write."""
        ordering_values(rows, self.ordering)

    def combine(self, rows: pa.Table, keys: Column | Sequence[Column]) -> pa.Table:
        """The row with the greatest ordering value of each key; of equal ones the latest."""
        codes, distinct = key_codes(keys)
        values = ordering_values(rows, self.ordering)
        if distinct == rows.num_rows:
            return rows
        return rows.filter(array(newest(codes, distinct, None if values is None else sortable(values))))

    def deleted(self, rows: Rows) -> Bools:
        """Rows whose `_hoodie_is_deleted` is true."""
        if DELETED_COLUMN not in rows.schema.names:
            return np.zeros(rows.num_rows, np.bool_)
        return bools(rows.column(DELETED_COLUMN))

    def columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        return _present(schema, DELETED_COLUMN)

    def combine_columns(self, schema: pa.Schema) -> tuple[str, ...] | None:
        return needed(schema, self.ordering)

    def outlives(self, rows: pa.Table, ordering: Column) -> Bools:
        """As HoodieMergedLogRecordScanner, whatever the payload: the ordering values alone decide."""
        if self.ordering is None:
            return np.zeros(rows.num_rows, np.bool_)
        values = column(rows, self.ordering)
        deletes = ordering.cast(values.type)
        if _by_rank(values.type):
            return bools(pc.greater(values, deletes))
        both = np.asarray(values.is_valid()) & np.asarray(deletes.is_valid())
        result: Bools = both & (sortable(values) > sortable(deletes))
        return result


@dataclass(frozen=True)
class Groups:
    """The rows of keys that occur more than once.

    once: for each row of the batch, whether its key occurs once. rows: numbers of the other rows, key by
    key, newest first (greatest ordering value, then latest). starts: where in `rows` each key begins.
    """

    once: Bools
    rows: Ints
    starts: Ints

    @classmethod
    def of(cls, rows: pa.Table, keys: Column | Sequence[Column], ordering: str | None) -> Groups | None:
        """None when all keys differ. Raises InputError for a null ordering value anywhere."""
        values = ordering_values(rows, ordering)
        codes, distinct = key_codes(keys)
        if distinct == len(codes):
            return None
        once = (np.bincount(codes, minlength=distinct) == 1)[codes]
        again = np.flatnonzero(~once)
        rank = sortable(values.take(array(again))) if values is not None else np.zeros(len(again), np.int64)
        owners = codes[again]
        order = np.lexsort((-again, ~rank, owners))
        starts = np.flatnonzero(np.diff(owners[order], prepend=-1))
        return cls(once, again[order], starts)


def check_orderable(schema: pa.Schema, path: str) -> None:
    """Raises InputError for an ordering column that isn't there, ConfigError for one without an order."""
    kind = _type_at(schema, path)
    if kind is None:
        raise InputError(
            f"ordering column {path!r} is not in the input; its columns are {', '.join(schema.names)}. "
            f"Set {PRECOMBINE_FIELD.name} to one of them.",
            column=path,
        )
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    moment = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    if not (numeric or moment or pa.types.is_boolean(kind) or _is_string(kind) or pa.types.is_null(kind)):
        raise ConfigError(
            f"ordering column {path!r} has type {kind}, which has no order; choose a number, text, date, "
            "timestamp, decimal or boolean column.",
            column=path,
            type=str(kind),
        )


def check_flag(schema: pa.Schema) -> None:
    """Raises InputError when `_hoodie_is_deleted` isn't boolean."""
    kind = schema.field(DELETED_COLUMN).type if DELETED_COLUMN in schema.names else pa.null()
    if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
        raise InputError(
            f"column {DELETED_COLUMN} marks deletes and has to be boolean, not {kind}; cast or rename it.",
            column=DELETED_COLUMN,
            type=str(kind),
        )


def check_marker_type(name: str, kind: pa.DataType) -> None:
    value = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    tests = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_null,
    )
    if not any(test(value) for test in tests):
        raise ConfigError(
            f"{DELETE_FIELD.name}={name!r} has type {kind}; a delete marker is text, a whole "
            "number or a boolean.",
            column=name,
            type=str(kind),
        )


def checked(ordering: str | None, schema: pa.Schema) -> str | None:
    """The ordering field after both checks; None for none."""
    check_flag(schema)
    if not ordering:
        return None
    check_orderable(schema, ordering)
    return ordering


def needed(schema: pa.Schema, ordering: str | None, *others: str | None) -> tuple[str, ...]:
    """Top-level columns of these fields that the schema has."""
    paths = [path for path in (ordering, *others) if path]
    return _present(schema, *(path.split(".")[0] for path in paths))


def stored_is_newer(stored: Rows, incoming: Rows, *ordering: str) -> Bools:
    """Pairs whose stored ordering values, compared as a tuple, are greater; a stored null is older than
    anything.

    Raises InputError for a null in an incoming column.
    """
    if len(ordering) > 1:
        pairs = [(column(stored, path), column(incoming, path)) for path in ordering]
        rank = tuple_ranks([joined([old.cast(new.type), new]) for old, new in pairs])
        several: Bools = rank[: stored.num_rows] > rank[stored.num_rows :]
        return several
    (path,) = ordering
    old, new = column(stored, path), column(incoming, path)
    if new.null_count:
        _check_not_null(incoming, new, path)
    if old.type != new.type:
        old = old.cast(new.type)
    known = (
        old.is_valid().to_numpy(zero_copy_only=False)
        if isinstance(old, pa.Array)
        else np.asarray(old.is_valid())
    )
    if _by_rank(new.type):
        return bools(pc.greater(old, new))
    return known & (sortable(old) > sortable(new))


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
        there = ~unknown(known)
        parts += [there, np.where(there, sortable(known), 0)]
    order = np.lexsort(parts[::-1])
    steps: Bools = np.zeros(len(order), np.bool_)
    for part in parts:
        steps[1:] |= np.diff(part[order]) != 0
    ranks: Ints = np.zeros(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks


def unknown(values: Column) -> Bools:
    return np.asarray(whole(values).is_null()).astype(np.bool_)


def joined(columns: Sequence[Column]) -> Array:
    result: Array = pa.concat_arrays([whole(values) for values in columns])
    return result


def sortable(values: Column) -> Ints:
    """int64 in the order of the values; comparable across calls unless the type is ordered by rank.

    As Java's compareTo: text by UTF-8 bytes, NaN above all numbers, -0.0 below 0.0. Nulls are anything.
    """
    kind = values.type
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    if _by_rank(kind):
        return np.asarray(pc.rank(values, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    if pa.types.is_floating(kind):
        numbers = np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
        bits = np.where(np.isnan(numbers), _NAN, np.ascontiguousarray(numbers).view(np.int64))
        return np.where(bits < 0, bits ^ _MAGNITUDE, bits)
    if kind == pa.uint64():
        return (np.asarray(pc.fill_null(values, 0)) ^ np.uint64(1 << 63)).view(np.int64)
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    return np.asarray(pc.fill_null(values.cast(pa.int64()), 0))


def bools(values: Column) -> Bools:
    """A boolean column with null as false."""
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.bool_)
    return np.asarray(pc.fill_null(values, False)).astype(np.bool_)


def ordering_values(rows: pa.Table, ordering: str | None) -> Column | None:
    """The ordering column, None without one. Raises InputError for a null in it."""
    if not ordering:
        return None
    values = column(rows, ordering)
    if values.null_count:
        _check_not_null(rows, values, ordering)
    return values


def newest(codes: Ints, distinct: int, rank: Ints | None) -> Bools:
    """The row of each key with the greatest rank, of equal ones the latest."""
    rows = np.arange(len(codes))
    if rank is not None:
        greatest = np.full(distinct, np.iinfo(np.int64).min)
        np.maximum.at(greatest, codes, rank)
        rows = np.flatnonzero(rank == greatest[codes])
    latest = np.zeros(distinct, np.int64)
    latest[codes[rows]] = rows  # of several the last one stays
    chosen: Bools = np.zeros(len(codes), np.bool_)
    chosen[latest] = True
    return chosen


def key_codes(keys: Column | Sequence[Column]) -> tuple[Ints, int]:
    """The number of each row's key, and how many keys there are."""
    columns = [keys] if isinstance(keys, (pa.Array, pa.ChunkedArray)) else list(keys)
    codes, distinct = _codes(columns[0])
    for values in columns[1:]:
        if distinct == len(codes):
            break
        more, count = _codes(values)
        codes, distinct = _codes(array(codes * count + more))
    return codes, distinct


def _codes(values: Column) -> tuple[Ints, int]:
    one = whole(values)
    coded = one if isinstance(one, pa.DictionaryArray) else one.dictionary_encode()
    return np.asarray(coded.indices).astype(np.int64), len(coded.dictionary)


def _check_not_null(rows: Rows, values: Column, path: str) -> None:
    first = pc.index(values.is_null(), pa.scalar(True)).as_py()
    row: dict[str, Any] = rows.slice(first, 1).to_pylist()[0]
    shown = ", ".join(f"{name}={_cut(repr(value))}" for name, value in list(row.items())[:8])
    raise InputError(
        f"ordering column {path!r} is null in {values.null_count} row(s), first {{{shown}}}; fill it in or "
        f"filter such rows out ({PRECOMBINE_FIELD.name}).",
        column=path,
        rows=values.null_count,
        row=shown,
    )


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


def _present(schema: pa.Schema, *names: str) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name in schema.names)


def _type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    top, *rest = path.split(".")
    kind: pa.DataType | None = schema.field(top).type if top in schema.names else None
    for part in rest:
        at = kind.get_field_index(part) if isinstance(kind, pa.StructType) else -1
        kind = kind.field(at).type if isinstance(kind, pa.StructType) and at >= 0 else None
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _by_rank(kind: pa.DataType) -> bool:
    return _is_string(kind) or bool(pa.types.is_decimal(kind))


def filled(first: pa.Table, second: pa.Table, swap: Bools | None = None) -> pa.Table:
    """Row by row the first table's values, its nulls filled from the second; where `swap`, the other way.

    Both have the same number of rows; the result has the first's schema. The five meta columns always come
    from the first table, and so does a column the second lacks.
    """
    turn = None if swap is None or not swap.any() else array(swap)
    columns: list[Any] = []
    there = frozenset(second.column_names)
    for field in first.schema:
        mine = first.column(field.name)
        if field.name.startswith("_hoodie_") or field.name not in there:
            columns.append(mine)
            continue
        columns.append(_fill(mine, second.column(field.name).cast(field.type), turn))
    return pa.table(columns, schema=first.schema.empty_table().schema)


def or_deletes(rows: pa.Table, later: pa.Table, deleted: Bools) -> pa.Table:
    """The rows, but the later ones where these are deletes."""
    if not deleted.any():
        return rows
    place = np.arange(len(deleted)) + np.where(deleted, len(deleted), 0)
    return pa.concat_tables([rows, later.select(rows.column_names)]).take(place)


def _fill(mine: Column, other: Column, turn: Array | None) -> Column:
    if turn is None:
        return mine if mine.null_count == 0 else _first_of(mine, other)
    head, rest = _choose(turn, other, mine), _choose(turn, mine, other)
    return _first_of(head, rest)


def _first_of(head: Column, rest: Column) -> Column:
    if pa.types.is_nested(head.type):
        return _choose(whole(head).is_valid(), head, rest)
    result: Column = pc.coalesce(head, rest)
    return result


def _choose(mask: Array, yes: Column, no: Column) -> Column:
    result: Column = pc.if_else(mask, whole(yes), whole(no))
    return result
