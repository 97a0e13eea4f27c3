"""Bounds of the values of a column in files, from the statistics of the metadata table.

A row of a slice has values of its files only. So bounds of a column in all of them bound it in the slice. A
file without statistics bounds nothing.

Statistics that this package wrote are certain (`ColumnStats.true`). Those of Apache Hudi are not always:

- A row group without least and greatest value of a column has no part in those of its file, or that of a
  zero: of floats if one is NaN (apache/hudi#18754), and of texts if one is long.
- If all values of a file count as nulls, the file may have had no statistics. Numbers are zero then.
- Days before 1582-10-15 and times before 1900 may follow another calendar, and points in time the file's own
  unit.
- Texts are compared by UTF-16 units if records of log files are merged, and may end with half a character.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.metadata.partitions.column_ranges import text_bounds
from hoodie.metadata.partitions.column_stats import ColumnStats, File, column_stats
from hoodie.metadata.table import MetadataTable
from hoodie.read.bounds import EMPTY, UNKNOWN, Bounds, comparable
from hoodie.read.predicate import Field, Path
from hoodie.table.view import FileSlice

#: rows of which Apache Hudi's Parquet writer makes one row group
_ONE_GROUP = 100
#: bytes of a text that Parquet writers may leave out of statistics (parquet-java adds up the two)
_LONG = 2048
_GREGORIAN = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days
#: microseconds of 1900: times before were counted by another calendar
_OLDEST = -2_208_988_800_000_000
#: smaller numbers are microseconds of the years around 1970, or milliseconds of any time
_MILLIS = 10**14
_SCALE, _EXACT = -15, Context(prec=100)
_Ends: TypeAlias = tuple[Any, Any]


def slice_bounds(
    metadata: MetadataTable, fields: Mapping[Path, Field], slices: Sequence[FileSlice]
) -> list[dict[Path, Bounds]]:
    """Of each slice what is known of some columns. Raises as `column_stats`."""
    fields = known_types(fields)
    if not fields:
        return [{} for _ in slices]
    names = {path: ".".join(path) for path in fields}
    stored = [_files(item) for item in slices]
    found = column_stats(metadata, names.values(), [file for files in stored for file, _ in files])

    def bounds(files: Sequence[tuple[File, bool]], path: Path) -> Bounds:
        joined: Bounds | None = None
        for file, log in files:
            stats = found.get((file, names[path]))
            if stats is None:
                return UNKNOWN
            for item in stats:
                one = bounds_of_stats(item, fields[path].type, log)
                joined = one if joined is None else joined.joined(one)
        return joined or UNKNOWN

    return [{path: bounds(files, path) for path in fields} for files in stored]


def result_bounds(
    metadata: MetadataTable, index: str, column: str, field: Field, slices: Sequence[FileSlice]
) -> list[dict[Path, Bounds]]:
    """Of slices without logs what an index of an expression knows of its results, which are `field`. Apache
    Hudi computes the least and the greatest from all rows. Raises as `column_stats`.
    """
    if not known_types({field.path: field}):
        return [{} for _ in slices]
    files = [(item.base.partition, item.base.name) for item in slices if item.base is not None]
    found = column_stats(metadata, [column], files, index)

    def bounds(item: FileSlice) -> Bounds:
        stats = None if item.base is None else found.get(((item.base.partition, item.base.name), column))
        if stats is None or len(stats) != 1:
            return UNKNOWN
        return bounds_of_results(stats[0], field.type)

    return [{field.path: bounds(item)} for item in slices]


def bounds_of_results(stats: ColumnStats, kind: pa.DataType) -> Bounds:
    """As `bounds_of_stats`. Apache Hudi counts nulls apart from values here."""
    counted = replace(stats, values=max(stats.values or 0, stats.nulls or 0))
    return bounds_of_stats(counted, kind, log=True)


def partition_bounds(stats: Sequence[ColumnStats], kind: pa.DataType, never_null: bool) -> Bounds:
    """Of a column in all files of a partition, from `partition_stats`. `never_null`: the column has no nulls.

    Nulls are never ruled out: what a file lacks is null. Apache Hudi joins files without a least value with
    others that have one. These are of floats if one is NaN, and of texts if one is long; then the file has
    -1 nulls.
    """
    if pa.types.is_floating(kind):
        return UNKNOWN
    found: Bounds | None = None
    for item in stats:
        if item.low is None or item.high is None:
            return UNKNOWN
        if pa.types.is_string(kind) and not (_is_short(item) or (never_null and item.nulls == 0)):
            return UNKNOWN
        low, high = _ends(item, kind, log=True)
        if low is None or high is None or high < low:
            return UNKNOWN
        if _is_moment(kind) and low < _MILLIS:  # some files may have milliseconds
            return UNKNOWN
        one = Bounds(low, high)
        found = one if found is None else found.joined(one)
    return found or UNKNOWN


def bounds_of_stats(stats: ColumnStats, kind: pa.DataType, log: bool) -> Bounds:
    """Those of a column of a type in a base file or, by one commit at least, in a log file."""
    if stats.values == 0:
        return EMPTY
    nulls, floating = stats.nulls is None or stats.nulls != 0, pa.types.is_floating(kind)
    unknown = Bounds(nulls=nulls, nan=floating)
    if stats.low is None or stats.high is None:
        return unknown
    if not (log or stats.true or _is_whole(stats, kind)):
        return unknown
    low, high = _ends(stats, kind, log)
    if low is not None and high is not None and high < low:
        return unknown
    return Bounds(low, high, nulls=nulls, nan=floating)


def _is_whole(stats: ColumnStats, kind: pa.DataType) -> bool:
    """Did every row group have a part in the bounds of a base file that Apache Hudi wrote?"""
    if pa.types.is_floating(kind) or stats.nulls == stats.values:
        return False
    one_group = stats.values is not None and stats.values <= _ONE_GROUP
    return one_group or not pa.types.is_string(kind) or _is_short(stats)


def _is_short(stats: ColumnStats) -> bool:
    """Has no text of the column a length that makes a row group's statistics lack it."""
    return stats.nulls == 0 and stats.size is not None and 0 < stats.size < _LONG


def _files(item: FileSlice) -> list[tuple[File, bool]]:
    """(file, whether it is a log) of a slice."""
    bases = [] if item.base is None else [((item.base.partition, item.base.name), False)]
    return [*bases, *(((log.partition, log.name), True) for log in item.logs)]


def known_types(fields: Mapping[Path, Field]) -> dict[Path, Field]:
    """Those of the columns whose statistics may bound them."""
    return {path: field for path, field in fields.items() if any(test(field.type) for test, _, _ in _TYPES)}


def _ends(stats: ColumnStats, kind: pa.DataType, log: bool) -> _Ends:
    for test, kinds, made in _TYPES:
        if test(kind):
            return made(stats, log) if stats.kind in kinds else (None, None)
    return None, None


def _plain(stats: ColumnStats, _: bool) -> _Ends:
    return stats.low, stats.high


def _float(stats: ColumnStats, _: bool) -> _Ends:
    low, high = (None if value != value else value for value in (stats.low, stats.high))
    return low, high


def _days(stats: ColumnStats, _: bool) -> _Ends:
    low, high = comparable(stats.low), comparable(stats.high)
    return None if low < _GREGORIAN else low, max(high, _GREGORIAN)


def _moments(stats: ColumnStats, _: bool) -> _Ends:
    low, high = stats.low, stats.high
    if not isinstance(low, int) or max(abs(low), abs(high)) < _MILLIS:
        return None, None
    return None if low < _OLDEST else low, max(high, _OLDEST)


def _decimals(stats: ColumnStats, log: bool) -> _Ends:
    """Merged bytes of a log file were compared as bytes, where they do not say that they are a decimal."""
    if isinstance(stats.low, Decimal):
        return stats.low, stats.high
    if (log and stats.scale is None) or not (stats.low and stats.high):
        return None, None
    return stored_decimal(stats.low, stats.scale), stored_decimal(stats.high, stats.scale)


def stored_decimal(data: bytes, scale: int | None) -> Decimal:
    """Of unscaled bytes; without a scale what Apache Hudi's merging leaves of a DecimalWrapper."""
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(_SCALE if scale is None else -scale, _EXACT)


def _texts(stats: ColumnStats, _: bool) -> _Ends:
    return text_bounds(stats.low, stats.high)


def _is_moment(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.TimestampType) and kind.unit == "us"


_WHOLE = frozenset({"IntWrapper", "LongWrapper"})
#: (what it is true of, the types of statistics that it may have, how bounds are made of them)
_TYPES: Iterable[
    tuple[Callable[[pa.DataType], bool], frozenset[str], Callable[[ColumnStats, bool], _Ends]]
] = (
    (pa.types.is_boolean, frozenset({"BooleanWrapper"}), _plain),
    (pa.types.is_integer, _WHOLE, _plain),
    (pa.types.is_float32, frozenset({"FloatWrapper"}), _float),
    (pa.types.is_float64, frozenset({"DoubleWrapper"}), _float),
    (pa.types.is_date32, frozenset({"DateWrapper", "IntWrapper"}), _days),
    (_is_moment, frozenset({"LongWrapper", "TimestampMicrosWrapper"}), _moments),
    (pa.types.is_decimal, frozenset({"DecimalWrapper", "BytesWrapper"}), _decimals),
    (pa.types.is_string, frozenset({"StringWrapper"}), _texts),
)
