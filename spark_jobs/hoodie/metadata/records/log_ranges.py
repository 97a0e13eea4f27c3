"""Ranges of columns in the rows of one log file, while it is written (Apache Hudi 0.15.0 HoodieAppendHandle).

Nested columns are left out: Apache Hudi has no bounds of them, and takes every map for null.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from decimal import Context
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.metadata.records.column_ranges import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    FLOATING,
    INT,
    LONG,
    STRING,
    ColumnRange,
    Unbounded,
    bounded,
)

_EXACT = Context(prec=100)


class LogRanges:
    """`columns`: those with statistics, None for all."""

    def __init__(self, columns: Collection[str] | None) -> None:
        self._columns = columns
        self._found: dict[str, ColumnRange] = {}
        self._bounded = True

    def add(self, rows: pa.Table) -> None:
        """The rows of a block, of which there may be none."""
        try:
            for field in rows.schema:
                if self._has(field.name) and not pa.types.is_nested(field.type):
                    found = _range(field, rows.column(field.name))
                    before = self._found.get(field.name)
                    self._found[field.name] = found if before is None else before.joined(found)
        except Unbounded:
            self._bounded = False

    def take(self) -> tuple[list[Any], ...]:
        """What was found since the last time, as WriteStat has it; nothing where a column has no bounds."""
        found = tuple(item.to_json() for item in self._found.values()) if self._bounded else ()
        self._found, self._bounded = {}, True
        return found

    def _has(self, name: str) -> bool:
        return self._columns is None or name in self._columns


def _range(field: pa.Field[Any], column: Any) -> ColumnRange:
    nulls, values, name = column.null_count, len(column), field.name
    if nulls == values:
        return ColumnRange(name, nulls=nulls, values=values)
    kind, of = _kind(field)
    given = column if of is None else column.cast(of)
    ends = pc.min_max(given)
    low, high = (ends[side].as_py() for side in ("min", "max"))
    if kind in FLOATING and pc.any(pc.is_nan(given)).as_py():
        numbers = pc.min_max(given.filter(pc.invert(pc.is_nan(given))))
        low, high = numbers["min"].as_py(), math.nan
        low = math.nan if low is None else low
    scale = 0
    if kind == DECIMAL:
        scale = field.type.scale
        low, high = (int(value.scaleb(scale, _EXACT)) for value in (low, high))
    return replace(bounded(name, kind, low, high, scale), nulls=nulls, values=values)


def _kind(field: pa.Field[Any]) -> tuple[str, pa.DataType | None]:
    """The wrapper, and the type that the values are taken as."""
    types = pa.types
    kind: Any = field.type
    for test, name, of in (
        (types.is_boolean, BOOLEAN, None),
        (types.is_int32, INT, None),
        (types.is_int64, LONG, None),
        (types.is_timestamp, LONG, pa.int64()),
        (types.is_time64, LONG, pa.int64()),
        (types.is_time32, INT, pa.int32()),
        (types.is_date32, DATE, pa.int32()),
        (types.is_float32, FLOAT, None),
        (types.is_float64, DOUBLE, None),
        (types.is_string, STRING, None),
        (types.is_large_string, STRING, None),
        (types.is_binary, BYTES, None),
        (types.is_large_binary, BYTES, None),
        (types.is_fixed_size_binary, BYTES, pa.binary()),
        (types.is_decimal, DECIMAL, None),
    ):
        if test(kind):
            return name, of
    raise Unbounded(f"column {field.name!r} has values of type {kind}")
