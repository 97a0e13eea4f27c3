"""Comparison of two Arrow tables row by row, without regard to the order of rows and columns.

What counts as the same: the values, not how a reader types them. Integers of any width, strings of any
layout, dictionaries and their values, decimals of any scale, timestamps of any unit (in microseconds) are
alike; maps have no order; NaN equals NaN. What counts as different: null and empty, 0.0 and -0.0, True and 1,
text and bytes, a number and a decimal, an instant (timestamp with a zone, any zone) and a wall clock.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import struct
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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

Row = tuple[Any, ...]


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


def plain_value(value: Any, kind: pa.DataType) -> Any:
    """A hashable form of one Python value of a `plain_type`, equal exactly when the values are the same."""
    if value is None:
        return None
    if pa.types.is_boolean(kind):
        return ("bool", value)
    if pa.types.is_floating(kind):
        return _plain_float(value, single=kind.bit_width == 32)
    if pa.types.is_timestamp(kind):
        if value.tzinfo is None:
            return ("wall clock", (value - EPOCH) // dt.timedelta(microseconds=1))
        moment = value.astimezone(dt.timezone.utc).replace(tzinfo=None)
        return ("instant", (moment - EPOCH) // dt.timedelta(microseconds=1))
    if pa.types.is_decimal(kind):
        return ("decimal", _plain_decimal(value))
    if pa.types.is_map(kind):
        entries = [(plain_value(k, kind.key_type), plain_value(v, kind.item_type)) for k, v in value]
        return ("map", tuple(sorted(entries, key=repr)))
    if pa.types.is_list(kind):
        return ("list", tuple(plain_value(item, kind.value_type) for item in value))
    if pa.types.is_struct(kind):
        return ("struct", tuple(sorted((f.name, plain_value(value[f.name], f.type)) for f in kind)))
    return value


def _plain_float(value: float, *, single: bool) -> Any:
    if math.isnan(value):
        return ("float", "nan")
    if single:
        value = struct.unpack("f", struct.pack("f", value))[0]
    return ("float", value.hex())


def _plain_decimal(value: decimal.Decimal) -> decimal.Decimal:
    """Digits without trailing zeros; done on the tuple, since Decimal.normalize rounds to the context."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    bare = text.rstrip("0")
    if not bare:
        return decimal.Decimal(0)
    return decimal.Decimal((sign, tuple(map(int, bare.lstrip("0"))), exponent + len(text) - len(bare)))


def plain_rows(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    """The rows as tuples of plain values, in the order of `columns`."""
    by_column = []
    for name in columns:
        column = table.column(name)
        kind = plain_type(column.type)
        if column.type != kind:
            column = column.cast(kind)
        by_column.append([plain_value(value, kind) for value in column.to_pylist()])
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
