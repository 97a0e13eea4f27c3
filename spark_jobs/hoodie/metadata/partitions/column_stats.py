"""The partition `column_stats` of the metadata table (format.md 10.3): its records and its look-up.

A record has the statistics of one column in one file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import whole
from hoodie.config.versions import LayoutVersion
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.keys import column_key, file_key
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange, Unbounded, rounded
from hoodie.metadata.partitions.value_types import value_type, wrapped
from hoodie.metadata.record_schema import column_type, record_schema
from hoodie.metadata.table import MetadataTable, Partition

STATS = "ColumnStatsMetadata"
#: a meta column, which Apache Hudi leaves empty, has this text in records whose bounds are known to be true.
#: A record that Apache Hudi merges or compacts loses it.
MARK, TRUE_BOUNDS = "_hoodie_commit_seqno", "bounds"
_TYPE = 3
_VALUE_TYPE, _DECIMAL = "valueType", 10
TIGHT = "isTightBound"
_PRECISION_AND_SCALE = re.compile(r"\d{1,2},\s*(\d{1,2})", re.ASCII)


@dataclass(frozen=True)
class FileRanges:
    """Of one file; the columns that it lacks are null in all of its rows. `types`: of its columns."""

    partition: str
    name: str
    ranges: Collection[ColumnRange]
    types: Mapping[str, pa.DataType] = field(default_factory=dict)


@dataclass(frozen=True)
class Form:
    """How statistics are written: by the timeline's layout, and `typed` by version 2 of the index."""

    layout: LayoutVersion = LayoutVersion.ONE
    typed: bool = False

    @property
    def type(self) -> pa.DataType:
        """Of the column of the records."""
        return column_type(STATS, record_schema(self.layout))

    def written(self, name: str, one: ColumnRange, kind: pa.DataType | None, tight: bool) -> dict[str, Any]:
        """HoodieMetadataColumnStats of a column of type `kind`. Raises Unbounded for decimals that version 1
        has no place for.
        """
        found = one if self.typed else rounded(one)
        wrap = partial(wrapped, kind=kind) if self.typed else _wrapped
        later = {TIGHT: tight, _VALUE_TYPE: value_type(kind) if self.typed else None}
        return {
            "fileName": name,
            "columnName": found.column,
            "minValue": wrap(found.kind, found.low),
            "maxValue": wrap(found.kind, found.high),
            "valueCount": found.values,
            "nullCount": found.nulls,
            "totalSize": found.size,
            "totalUncompressedSize": found.uncompressed,
            "isDeleted": False,
            **(later if self.layout is not LayoutVersion.ONE else {}),
        }


FORM_ONE = Form()


def stats_records(files: Iterable[FileRanges], form: Form = FORM_ONE) -> Records:
    """Without files of which a column has no bounds that can be written."""
    names, values = list[tuple[str, str, str]](), list[dict[str, Any]]()
    for item in files:
        with suppress(Unbounded):
            made = [
                form.written(item.name, one, item.types.get(one.column), tight=False) for one in item.ranges
            ]
            values += made
            names += [(item.partition, item.name, one.column) for one in item.ranges]
    return _records(names, values, TRUE_BOUNDS, form)


def deleted_stats(files: Iterable[tuple[str, str]], columns: Sequence[str], form: Form = FORM_ONE) -> Records:
    """Of files that are gone: (partition path, name)."""
    found = [(partition, name, column) for partition, name in files for column in columns]
    if form.layout is not LayoutVersion.ONE:
        return replace(_records([], [], None, form), deletes=pa.array(_keys(found), pa.string()))
    unknown = dict.fromkeys(["valueCount", "nullCount", "totalSize", "totalUncompressedSize"], -1)
    values = [
        {"fileName": name, "columnName": column, **unknown, "isDeleted": True} for _, name, column in found
    ]
    return _records(found, values, None, form)


def _wrapped(kind: str, value: Any) -> dict[str, Any] | None:
    return {kind: {"value": value}} if kind else None


def _keys(names: Iterable[tuple[str, str, str]]) -> list[str]:
    """Of (partition path, name of a file, column)."""
    return [column_key(column) + file_key(partition, name) for partition, name, column in names]


def _records(
    names: Sequence[tuple[str, str, str]], values: Sequence[dict[str, Any]], mark: str | None, form: Form
) -> Records:
    keys = _keys(names)
    columns = {
        KEY_FIELD: pa.array(keys, pa.string()),
        "type": pa.array([_TYPE] * len(keys), pa.int32()),
        MARK: pa.array([mark] * len(keys), pa.string()),
        STATS: pa.array(values, form.type),
    }
    return Records(pa.table(columns))


_PLAIN = ("fileName", "columnName", "valueCount", "nullCount", "totalUncompressedSize", "isDeleted")
#: (partition path, name)
File: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class ColumnStats:
    """What one record says. `low` and `high` are None where it has none; `kind` is the name of their type,
    such as IntWrapper. `values` counts nulls, too, `size` are bytes before compression; None: not known.
    `true`: the bounds, where there are any, are those of all values (`records.column_ranges`); Apache Hudi
    does not always say so. `scale`: of bytes that are the unscaled value of a decimal, where the record says
    so, as Apache Hudi 1.1 and later do. `tight`: a record of a partition says that it has no part of earlier
    ones.
    """

    low: Any
    high: Any
    kind: str
    values: int | None
    nulls: int | None
    size: int | None = None
    true: bool = False
    scale: int | None = None
    tight: bool = False


def column_stats(
    metadata: MetadataTable,
    columns: Iterable[str],
    files: Sequence[File],
    index: str = Partition.COLUMN_STATS,
) -> dict[tuple[File, str], list[ColumnStats]]:
    """By file and column, which is a path with dots; a file to which several commits wrote has several.
    `index`: the partition of the metadata table, which may be that of an expression of the column.

    Files without statistics are not there. Raises TableError, and FileNotFoundError as `records`.
    """
    ends = {file_key(*file): file for file in dict.fromkeys(files)}
    begins = {column_key(column): column for column in columns}
    length = len(next(iter(begins), ""))
    keys = pa.array([begin + end for begin in begins for end in ends], pa.string())
    found: dict[tuple[File, str], list[ColumnStats]] = {}
    for rows in metadata.look_up(index, keys, [STATS, MARK]):
        there: Any = whole(rows.column(KEY_FIELD)).to_pylist()
        marks: Any = whole(rows.column(MARK)).to_pylist()
        for key, (name, column, deleted, stats) in zip(
            there, decoded(whole(rows.column(STATS)), marks), strict=True
        ):
            file, wanted = ends[key[length:]], begins[key[:length]]
            if deleted or (name, column) != (file[1], wanted):
                found.pop((file, wanted), None)
            else:
                found.setdefault((file, wanted), []).append(stats)
    return found


def decoded(
    records: Any, marks: Sequence[str | None]
) -> Iterable[tuple[str | None, str | None, bool, ColumnStats]]:
    """(name of the file, column, whether the statistics were deleted, what they are) of an array of
    HoodieMetadataColumnStats, and of the marks beside them.
    """

    low_kinds, lows = _values(records.field("minValue"))
    high_kinds, highs = _values(records.field("maxValue"))
    plain = [records.field(name).to_pylist() for name in _PLAIN]
    scales, tight = _scales(records), _flags(records, TIGHT)
    for place, (name, column, values, nulls, size, deleted) in enumerate(zip(*plain, strict=True)):
        kind = low_kinds[place]
        low, high = (lows[place], highs[place]) if kind == high_kinds[place] else (None, None)
        yield (
            name,
            column,
            deleted is not False,
            ColumnStats(
                low,
                high,
                kind,
                values,
                nulls,
                size,
                true=marks[place] == TRUE_BOUNDS,
                scale=scales[place],
                tight=tight[place],
            ),
        )


def _flags(records: Any, name: str) -> list[bool]:
    """A field of booleans, which older records lack."""
    if records.type.get_field_index(name) < 0:
        return [False] * len(records)
    return [value is True for value in records.field(name).to_pylist()]


def _scales(records: Any) -> list[int | None]:
    """The scales of the decimals whose type a record has: `precision,scale` (format.md 15.12)."""
    if records.type.get_field_index(_VALUE_TYPE) < 0:
        return [None] * len(records)
    found: list[int | None] = []
    for value in records.field(_VALUE_TYPE).to_pylist():
        match = None
        if value is not None and value.get("typeOrdinal") == _DECIMAL:
            match = _PRECISION_AND_SCALE.fullmatch(value.get("additionalInfo") or "")
        found.append(int(match[1]) if match else None)
    return found


def _values(union: Any) -> tuple[list[str], list[Any]]:
    """(name of the type of each value, "" for null; the values)"""
    kinds, values = [""] * len(union), [None] * len(union)
    for item in union.type:
        branch = union.field(item.name)
        if pa.types.is_struct(item.type) and item.type.get_field_index("value") >= 0:
            places = np.flatnonzero(np.asarray(branch.is_valid()))
            for place, value in zip(
                places.tolist(), branch.field("value").take(pa.array(places)).to_pylist(), strict=True
            ):
                kinds[place], values[place] = item.name, value
    return kinds, values
