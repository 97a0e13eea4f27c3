"""Ranges of columns for the statistics in a metadata table: true for every value, or none at all."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import struct
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

from hoodie.metadata.partitions.column_ranges import (
    ColumnRange,
    LogRanges,
    Unbounded,
    footer_ranges,
    rounded,
)
from tests.support.properties import examples

FLOATS = st.floats(width=32) | st.sampled_from([math.nan, -0.0, 0.0, math.inf, -math.inf])
TEXTS = st.text(max_size=4) | st.text("a\U0010ffff\ud7ff\ue000é", min_size=1025, max_size=1030)
DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), FLOATS),
    (pa.float64(), FLOATS),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=4) | st.binary(min_size=1025, max_size=1030)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), DAYS),
    (pa.timestamp("us", "UTC"), st.integers(-(2**60), 2**60)),
    (pa.timestamp("ms", "UTC"), st.integers(-(2**50), 2**50)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (pa.decimal128(38, 18), st.decimals(Decimal(-(10**14)), Decimal(10**14), places=18)),
]


def footer(column: pa.Array[Any], rows: int) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(footer_bytes(column, rows)))


def footer_bytes(column: pa.Array[Any], rows: int = 9) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": column}), sink, row_group_size=rows, store_decimal_as_integer=True)
    return sink.getvalue()


def logged(*columns: pa.Array[Any]) -> ColumnRange | None:
    ranges = LogRanges(None)
    for column in columns:
        ranges.add(pa.table({"c": column}))
    found = json.loads(json.dumps(ranges.take()))
    return ColumnRange.from_json(found[0]) if found else None


def plain(kind: pa.DataType, value: Any) -> Any:
    """As statistics have it."""
    if pa.types.is_date(kind):
        return (value - dt.date(1970, 1, 1)).days
    return value.encode() if isinstance(value, str) else value


def check(found: ColumnRange, kind: pa.DataType, given_values: list[Any]) -> None:
    values = [plain(kind, value) for value in given_values if value is not None]
    assert (found.values, found.nulls) == (len(given_values), len(given_values) - len(values))
    ends: list[Any] = [end.encode() if isinstance(end, str) else end for end in (found.low, found.high)]
    low, high = ends
    for value in values:
        if isinstance(value, float) and math.isnan(value):
            assert math.isnan(high) or found.size  # footers leave NaN out, as Apache Hudi's do
        else:
            assert math.isnan(low) if isinstance(low, float) and math.isnan(low) else low <= value
            assert math.isnan(high) if isinstance(high, float) and math.isnan(high) else value <= high


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_every_value_is_within(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    column = data.draw(st.lists(st.none() | values, min_size=1, max_size=9))
    made = pa.array(column, kind)
    try:
        check(footer_ranges(footer(made, data.draw(st.integers(1, 4))), ["c"])["c"], kind, column)
        half = len(made) // 2
        found = logged(made[:half], made[half:])
        if found is not None:
            check(found, kind, column)
    except Unbounded:
        pass


def test_a_row_group_without_rows_has_no_nulls() -> None:
    out, rows = pa.BufferOutputStream(), pa.table({"c": pa.array([None, 7], pa.int64())})
    with pq.ParquetWriter(out, rows.schema) as writer:
        writer.write_table(rows.slice(0, 0))
        writer.write_table(rows)
    metadata = pq.read_metadata(pa.BufferReader(out.getvalue()))
    assert metadata.num_row_groups == 2
    found = footer_ranges(metadata, ["c"])["c"]
    assert (found.values, found.nulls, found.low, found.high) == (2, 1, 7, 7)


def test_texts_that_are_long_are_cut_in_logs() -> None:
    found = logged(pa.array(["b" * 5000, "c" * 5000]))
    assert found is not None
    assert (found.low, found.high) == ("b" * 1024, "c" * 1023 + "d")
    last = logged(pa.array(["\U0010ffff" * 2000]))
    assert last is None


def test_bytes_that_are_long_are_cut_in_logs() -> None:
    """The bound above is the next of that length; bytes of 255 have none."""
    found = logged(pa.array([b"b" * 5000, b"c" * 1022 + b"\xfe" * 9]))
    assert found is not None
    assert (found.low, found.high) == (b"b" * 1024, b"c" * 1022 + b"\xfe\xff")
    ends = logged(pa.array([b"c" * 1000 + b"\xff" * 90]))
    assert ends is not None
    assert ends.high == b"c" * 999 + b"d"
    assert logged(pa.array([b"\xff" * 2000])) is None


def test_a_file_with_a_text_that_the_footer_leaves_out_has_no_ranges() -> None:
    with pytest.raises(Unbounded, match="no least and greatest value"):
        footer_ranges(footer(pa.array(["a", "x" * 5000]), 9), ["c"])
    assert footer_ranges(footer(pa.array(["a", "x" * 5000]), 9), ["other"]) == {}


def test_a_row_group_of_nan_bounds_nothing() -> None:
    found = footer_ranges(footer(pa.array([1.0, math.nan]), 1), ["c"])["c"]
    assert (found.low, math.isnan(found.high)) == (-math.inf, True)


@pytest.mark.parametrize("ends", [(math.nan, math.nan), (1.0, math.nan)])
def test_a_footer_that_says_nan_bounds_nothing(ends: tuple[float, float]) -> None:
    """As Parquet's Java writer does, by the order of the values."""
    data = bytearray(footer_bytes(pa.array([1.25, 2.5])))
    for old, new in zip((1.25, 2.5), ends, strict=True):
        text = struct.pack("<d", old)
        at = data.index(text, len(data) - int.from_bytes(data[-8:-4], "little") - 8)
        while at >= 0:
            data[at : at + 8] = struct.pack("<d", new)
            at = data.find(text, at)
    found = footer_ranges(pq.read_metadata(io.BytesIO(bytes(data))), ["c"])["c"]
    assert (found.low, math.isnan(found.high)) == (-math.inf, True)


def test_decimals_are_rounded_outwards_and_refused_beyond_what_records_hold() -> None:
    exact = pa.array(
        [Decimal("0.1234567890123456789"), Decimal("-0.1234567890123456789")], pa.decimal128(38, 19)
    )
    for found in (footer_ranges(footer(exact, 2), ["c"])["c"], logged(exact)):
        assert found is not None
        outer = rounded(found)
        assert (outer.low, outer.high) == (Decimal("-0.123456789012346"), Decimal("0.123456789012346"))
    large = pa.array([Decimal(10**15)], pa.decimal128(38, 0))
    with pytest.raises(Unbounded, match="15 digits"):
        rounded(footer_ranges(footer(large, 1), ["c"])["c"])


def test_a_column_of_nulls_has_what_apache_hudi_says_of_it() -> None:
    found = footer_ranges(footer(pa.nulls(3, pa.int32()), 3), ["c"])["c"]
    assert (found.kind, found.low, found.high, found.nulls, found.values) == ("IntWrapper", 0, 0, 3, 3)
    text = footer_ranges(footer(pa.nulls(3, pa.string()), 3), ["c"])["c"]
    assert (text.kind, text.low, text.nulls) == ("", None, 3)


def test_nested_columns() -> None:
    rows = pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": {"c": "y"}}])
    found = footer_ranges(footer(rows, 2), ["c.a", "c.b.c"])
    assert {name: (item.low, item.high, item.nulls) for name, item in found.items()} == {
        "c.a": (0, 1, 2),  # Apache Hudi takes the second row group's bounds for 0
        "c.b.c": ("x", "y", 1),
    }
    assert footer_ranges(footer(rows, 2), ["c"]) == {}
