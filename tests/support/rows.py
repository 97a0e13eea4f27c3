"""Comparison of two Arrow tables row by row, without regard to the order of rows and columns.

What counts as the same: the values, not how a reader types them. Integers of any width, strings of any
layout, dictionaries and their values, decimals of any scale, timestamps of any unit (in microseconds) are
alike; maps have no order; NaN equals NaN. What counts as different: null and empty, 0.0 and -0.0, True and 1,
text and bytes, a number and a decimal, an instant (timestamp with a zone, any zone) and a wall clock.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import math
import struct
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
SHOWN = 5
NEAREST_AMONG = 500
EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)

Row = tuple[Any, ...]
Plain = Callable[[Any], Any]


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type whose Python values compare: no dictionaries, no large layouts, timestamps in microseconds."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, plain_type(field.type)) for field in kind])
    return kind


def plain_values(kind: pa.DataType) -> Plain:
    """Gives a hashable form of a value of a `plain_type`, equal exactly when the values are the same."""
    if pa.types.is_map(kind):
        keys, items = plain_values(kind.key_type), _or_none(kind.item_type)
        return lambda value: ("map", tuple(sorted(((keys(k), items(v)) for k, v in value), key=repr)))
    if pa.types.is_list(kind):
        item = _or_none(kind.value_type)
        return lambda value: ("list", tuple(map(item, value)))
    if pa.types.is_struct(kind):
        fields = [(field.name, _or_none(field.type)) for field in sorted(kind, key=lambda field: field.name)]
        return lambda value: ("struct", tuple((name, plain(value[name])) for name, plain in fields))
    return next((plain for is_one, plain in _PLAIN if is_one(kind)), _same)


def _same(value: Any) -> Any:
    return value


def _or_none(kind: pa.DataType) -> Plain:
    plain = plain_values(kind)
    return plain if plain is _same else lambda value: None if value is None else plain(value)


def _plain_single(value: float) -> Any:
    return _plain_float(value if math.isnan(value) else struct.unpack("f", struct.pack("f", value))[0])


def _plain_float(value: float) -> Any:
    return ("float", "nan" if math.isnan(value) else value.hex())


def _plain_moment(value: dt.datetime) -> Any:
    if value.tzinfo is None:
        return ("wall clock", (value - EPOCH) // MICROSECOND)
    return ("instant", (value.astimezone(dt.timezone.utc).replace(tzinfo=None) - EPOCH) // MICROSECOND)


@functools.cache
def _plain_decimal(value: decimal.Decimal) -> Any:
    """Digits without trailing zeros; done on the tuple, since Decimal.normalize rounds to the context."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    bare = text.rstrip("0")
    if not bare:
        return ("decimal", decimal.Decimal(0))
    shortened = exponent + len(text) - len(bare)
    return ("decimal", decimal.Decimal((sign, tuple(map(int, bare.lstrip("0"))), shortened)))


_PLAIN: list[tuple[Callable[[pa.DataType], bool], Plain]] = [
    (pa.types.is_boolean, lambda value: ("bool", value)),
    (pa.types.is_float32, _plain_single),
    (pa.types.is_floating, _plain_float),
    (pa.types.is_timestamp, _plain_moment),
    (pa.types.is_decimal, _plain_decimal),
]


def plain_rows(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    """The rows as tuples of plain values, in the order of `columns`."""
    by_column = []
    for name in columns:
        column = table.column(name)
        kind = plain_type(column.type)
        if column.type != kind:
            column = column.cast(kind)
        by_column.append([*map(_or_none(kind), column.to_pylist())])
    return list(zip(*by_column, strict=True)) if by_column else [()] * table.num_rows


def difference(
    got: pa.Table, expected: pa.Table, *, meta: bool = False, ignore: Collection[str] = ()
) -> str | None:
    """None when both hold the same rows, else a text that says what differs.

    Meta columns are left out unless `meta`, columns named in `ignore` always. Rows are a multiset.
    """
    left_out = set(ignore) if meta else {*ignore, *META_COLUMNS}
    columns = [name for name in expected.column_names if name not in left_out]
    got_columns = [name for name in got.column_names if name not in left_out]
    for side, names in (("got", got_columns), ("expected", columns)):
        if len(set(names)) != len(names):
            return f"duplicate column names in the {side} table: {names}"
    if set(columns) != set(got_columns):
        lacking, extra = sorted(set(columns) - set(got_columns)), sorted(set(got_columns) - set(columns))
        return f"the columns differ: missing {lacking}, unexpected {extra}"
    got_rows, expected_rows = Counter(plain_rows(got, columns)), Counter(plain_rows(expected, columns))
    if got_rows == expected_rows:
        return None
    return _explain(
        list((got_rows - expected_rows).elements()),
        list((expected_rows - got_rows).elements()),
        columns,
        f"got {got.num_rows} rows, expected {expected.num_rows}",
    )


def assert_same_rows(
    got: pa.Table, expected: pa.Table, *, meta: bool = False, ignore: Collection[str] = (), what: str = ""
) -> None:
    """AssertionError with the text of `difference`, headed by `what`, unless both hold the same rows."""
    text = difference(got, expected, meta=meta, ignore=ignore)
    if text is not None:
        raise AssertionError(f"{what}: {text}" if what else text)


def _explain(extra: list[Row], lacking: list[Row], columns: Sequence[str], head: str) -> str:
    differing: Counter[str] = Counter()
    text: list[str] = []
    unpaired = list(extra)
    for place, row in enumerate(lacking[:NEAREST_AMONG]):
        nearest = _nearest(row, unpaired)
        if nearest is not None:
            unpaired.remove(nearest)
            differing.update(name for name, a, b in zip(columns, row, nearest, strict=True) if a != b)
        if place < SHOWN:
            text.extend(_show_pair(row, nearest, columns))
    text.extend(f"  unexpected row {_show(dict(zip(columns, row, strict=True)))}" for row in unpaired[:SHOWN])
    lines = [f"{head}; {len(lacking)} missing, {len(extra)} unexpected"]
    if differing:
        lines.append("columns that differ: " + ", ".join(f"{n} ({c}x)" for n, c in differing.most_common()))
    return "\n".join(lines + text)


def _show_pair(row: Row, nearest: Row | None, columns: Sequence[str]) -> list[str]:
    if nearest is None:
        return [f"  missing row {_show(dict(zip(columns, row, strict=True)))}"]
    same = {name: a for name, a, b in zip(columns, row, nearest, strict=True) if a == b}
    lines = [f"  row {_show(dict(list(same.items())[:4]))}"]
    for name, a, b in zip(columns, row, nearest, strict=True):
        if a != b:
            lines.append(f"    {name}: expected {_cell(a)} got {_cell(b)}")
    return lines


def _nearest(row: Row, among: Sequence[Row]) -> Row | None:
    """The row that shares most values with `row`, if it shares half of them."""

    def distance(other: Row) -> int:
        return sum(a != b for a, b in zip(row, other, strict=True))

    nearest = min(among[:NEAREST_AMONG], key=distance, default=None)
    return nearest if nearest is not None and 2 * distance(nearest) <= len(row) else None


def _show(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {_cell(value)}" for name, value in row.items()) + "}"


def _cell(value: Any) -> str:
    if isinstance(value, tuple) and value and value[0] == "float" and value[1] != "nan":
        return repr(float.fromhex(value[1]))
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
