"""The partition `partition_stats` of the metadata table (format.md 15.12): its records and its look-up.

A record has the statistics of one column in all files of a partition. Apache Hudi 1.2.0
(HoodieMetadataWriteUtils.convertMetadataToPartitionStatRecords) makes it of the latest file slices at each
commit, base files and logs, and marks it as tight: it has no part of earlier records. A record without the
mark widens those before it. Files that lack statistics of a column have no part in a record.
Its queries leave out partitions without records where others have some (PartitionStatsIndexSupport).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.codec.arrays import whole
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.keys import column_key, partition_key
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange
from hoodie.metadata.partitions.column_stats import MARK, STATS, ColumnStats, Form, decoded
from hoodie.metadata.table import MetadataTable, Partition

#: of the records
PARTITION_TYPE = 6
#: (partition path, column)
Place: TypeAlias = tuple[str, str]


def partition_records(
    ranges: Mapping[str, Mapping[str, ColumnRange]],
    types: Mapping[str, pa.DataType],
    form: Form,
    inner: str = "",
) -> Records:
    """The ranges of columns by partition. `inner`: what keys have between column and partition. Raises
    Unbounded as `Form.written`.
    """
    places = [(path, column) for path, of_columns in ranges.items() for column in of_columns]
    values = [
        form.written(path, ranges[path][column], types.get(column), tight=True) for path, column in places
    ]
    columns = {
        KEY_FIELD: pa.array(_keys(places, inner), pa.string()),
        "type": pa.array([PARTITION_TYPE] * len(places), pa.int32()),
        STATS: pa.array(values, form.type),
    }
    return Records(pa.table(columns))


def deleted_partitions(
    paths: Collection[str], columns: Collection[str], form: Form, inner: str = ""
) -> Records:
    """Of partitions without files."""
    keys = pa.array(_keys(((path, column) for path in paths for column in columns), inner), pa.string())
    return replace(partition_records({}, {}, form), deletes=keys)


def _keys(places: Iterable[Place], inner: str = "") -> list[str]:
    between = partition_key(inner) if inner else ""
    return [f"{column_key(column)}{between}{partition_key(path)}" for path, column in places]


def partition_stats(
    metadata: MetadataTable, columns: Collection[str], partitions: Sequence[str]
) -> dict[Place, list[ColumnStats]]:
    """By partition and column, a path with dots: records that bound the values of all files together, of
    which the first is tight. Partitions without are not there. Raises as `look_up`.
    """
    of_key = {
        column_key(column) + partition_key(path): (path, column) for column in columns for path in partitions
    }
    found: dict[Place, list[ColumnStats]] = {}
    for rows in metadata.look_up(
        Partition.PARTITION_STATS, pa.array(list(of_key), pa.string()), [STATS, MARK]
    ):
        keys: Any = whole(rows.column(KEY_FIELD)).to_pylist()
        marks: Any = whole(rows.column(MARK)).to_pylist()
        for key, (path, column, deleted, stats) in zip(
            keys, decoded(whole(rows.column(STATS)), marks), strict=True
        ):
            place = of_key[key]
            if deleted or (path, column) != place:
                found.pop(place, None)
            elif stats.tight:
                found[place] = [stats]
            elif place in found:
                found[place].append(stats)
    return found
