"""Records of the partition `column_stats` (format.md 10.3): one of each column in each file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.keys import column_key, file_key
from hoodie.metadata.record_schema import column_type
from hoodie.metadata.records import Records
from hoodie.metadata.records.column_ranges import ColumnRange

STATS = "ColumnStatsMetadata"
#: a meta column, which Apache Hudi leaves empty, has this text in records whose bounds are known to be true.
#: A record that Apache Hudi merges or compacts loses it.
MARK, TRUE_BOUNDS = "_hoodie_commit_seqno", "bounds"
_TYPE = 3


@dataclass(frozen=True)
class FileRanges:
    """Of one file; the columns that it lacks are null in all of its rows."""

    partition: str
    name: str
    ranges: Collection[ColumnRange]


def stats_records(files: Iterable[FileRanges]) -> Records:
    found = [(item, one) for item in files for one in item.ranges]
    values = [
        {
            "fileName": item.name,
            "columnName": one.column,
            "minValue": _wrapped(one.kind, one.low),
            "maxValue": _wrapped(one.kind, one.high),
            "valueCount": one.values,
            "nullCount": one.nulls,
            "totalSize": one.size,
            "totalUncompressedSize": one.uncompressed,
            "isDeleted": False,
        }
        for item, one in found
    ]
    return _records([(item.partition, item.name, one.column) for item, one in found], values, TRUE_BOUNDS)


def deleted_stats(files: Iterable[tuple[str, str]], columns: Sequence[str]) -> Records:
    """Of files that are gone: (partition path, name)."""
    found = [(partition, name, column) for partition, name in files for column in columns]
    unknown = dict.fromkeys(["valueCount", "nullCount", "totalSize", "totalUncompressedSize"], -1)
    values = [
        {"fileName": name, "columnName": column, **unknown, "isDeleted": True} for _, name, column in found
    ]
    return _records(found, values, None)


def _wrapped(kind: str, value: Any) -> dict[str, Any] | None:
    return {kind: {"value": value}} if kind else None


def _records(
    names: Sequence[tuple[str, str, str]], values: Sequence[dict[str, Any]], mark: str | None
) -> Records:
    keys = [column_key(column) + file_key(partition, name) for partition, name, column in names]
    columns = {
        KEY_FIELD: pa.array(keys, pa.string()),
        "type": pa.array([_TYPE] * len(keys), pa.int32()),
        MARK: pa.array([mark] * len(keys), pa.string()),
        STATS: pa.array(values, column_type(STATS)),
    }
    return Records(pa.table(columns))
