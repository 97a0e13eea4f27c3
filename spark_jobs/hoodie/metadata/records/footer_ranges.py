"""Ranges of columns by the footer of a base file (Apache Hudi 0.15.0 ParquetUtils)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pyarrow.parquet as pq

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
    join_all,
)

_PLAIN = {
    "BOOLEAN": BOOLEAN,
    "INT32": INT,
    "INT64": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BYTE_ARRAY": BYTES,
    "FIXED_LEN_BYTE_ARRAY": BYTES,
}
#: what parquet-java has for the bounds of a column without values
_NOTHING = {BOOLEAN: False, INT: 0, LONG: 0, FLOAT: 0.0, DOUBLE: 0.0}


#: texts or bytes: the least and the greatest of a row group, by its number, in a top-level column
Ends: TypeAlias = Callable[[int, str], tuple[Any, Any]]


def footer_ranges(
    metadata: pq.FileMetaData, columns: Collection[str], ends_of: Ends | None = None
) -> dict[str, ColumnRange]:
    """Of those of the columns that the file has; parts of nested ones have paths with dots. `ends_of` is
    asked where texts or bytes are so long that the footer leaves them out. Raises Unbounded where the bounds
    of one are not known.
    """
    all_of = [(number, metadata.schema.column(number)) for number in range(metadata.num_columns)]
    return join_all(_chunks(metadata, [item for item in all_of if item[1].path in columns], ends_of))


def _chunks(
    metadata: pq.FileMetaData, columns: list[tuple[int, Any]], ends_of: Ends | None
) -> Iterator[ColumnRange]:
    for place in range(metadata.num_row_groups):
        group = metadata.row_group(place)
        for number, column in columns:
            given = ends_of if column.path == column.name else None
            yield _chunk(group.column(number), column, None if given is None else partial(given, place))


def _chunk(chunk: Any, column: Any, ends_of: Callable[[str], tuple[Any, Any]] | None) -> ColumnRange:
    kind, name, statistics = _kind(column), column.path, chunk.statistics
    values = chunk.num_values
    counts = {
        "values": values,
        "size": chunk.total_compressed_size,
        "uncompressed": chunk.total_uncompressed_size,
    }
    if not values:
        return ColumnRange(name, **counts)
    if statistics is None or not statistics.has_null_count:
        raise Unbounded(f"nothing says how many values of column {name!r} are null")
    counts["nulls"] = nulls = statistics.null_count
    if nulls == values:
        nothing = _NOTHING.get(kind)
        return ColumnRange(name, kind if nothing is not None else "", nothing, nothing, **counts)
    ends = (statistics.min_raw, statistics.max_raw) if statistics.has_min_max else ()
    if kind in FLOATING and (not ends or any(map(math.isnan, ends))):
        return ColumnRange(name, kind, -math.inf, math.nan, **counts)  # it depends on the order of the values
    if ends:
        low, high = (_value(kind, column, raw) for raw in ends)
        return replace(bounded(name, kind, low, high, column.scale), **counts)
    if ends_of is not None and kind in (STRING, BYTES):
        return replace(bounded(name, kind, *ends_of(name)), **counts)
    raise Unbounded(f"column {name!r} has no least and greatest value")


def _kind(column: Any) -> str:
    if column.converted_type == "DECIMAL":
        return DECIMAL
    if column.converted_type == "DATE":
        return DATE
    if column.converted_type == "UTF8":
        return STRING
    return _PLAIN.get(column.physical_type, "")


def _value(kind: str, column: Any, raw: Any) -> Any:
    if kind == DECIMAL and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if kind == STRING:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise Unbounded(f"column {column.path!r} has a text that was cut") from None
    if not kind:
        raise Unbounded(f"column {column.path!r} has values of type {column.physical_type}")
    return raw
