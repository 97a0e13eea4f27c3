"""The partition `bloom_filters` of the metadata table (format.md 10.3): its records and its look-up.

The records have the bloom filters in the footers of base files. The look-up finds the base files that may
have some record keys: by the range of a file's keys, from the statistics of their column, then by its bloom
filter. It opens no base file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, whole
from hoodie.config.versions import LayoutVersion
from hoodie.format.bloom import BloomFilter, KeyHashes
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.key_range import in_range
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.metadata.keys import file_key
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import STRING, text_bounds
from hoodie.metadata.partitions.column_stats import ColumnStats, File, column_stats
from hoodie.metadata.record_schema import column_type
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.timeline.time import InstantTime

FILTER = "BloomFilterMetadata"
_TYPE = 4


@dataclass(frozen=True)
class Filter:
    """`text`: the footer's; None where the file was deleted. `kind` is the type of the filter."""

    partition: str
    name: str
    text: str | None
    kind: str = ""


def filter_records(instant: InstantTime, filters: Sequence[Filter]) -> Records:
    values = [
        {
            "type": item.kind,
            "timestamp": instant,
            "bloomFilter": (item.text or "").encode(),
            "isDeleted": item.text is None,
        }
        for item in filters
    ]
    columns = {
        KEY_FIELD: pa.array([file_key(item.partition, item.name) for item in filters], pa.string()),
        "type": pa.array([_TYPE] * len(filters), pa.int32()),
        FILTER: pa.array(values, column_type(FILTER)),
    }
    return Records(pa.table(columns))


def deleted_filters(instant: InstantTime, files: Sequence[File], layout: LayoutVersion) -> Records:
    """Of files that are gone. In layout two their keys are deleted, as by Apache Hudi 1.x; in layout one they
    have records without a filter.
    """
    if layout is LayoutVersion.ONE:
        return filter_records(instant, [Filter(partition, name, None) for partition, name in files])
    keys = pa.array([file_key(*file) for file in files], pa.string())
    return replace(filter_records(instant, []), deletes=keys)


#: filters in memory; one of Apache Hudi's default size has 0.4 MiB
_TOGETHER = 128


def bloom_filters(
    metadata: MetadataTable, files: Sequence[File], index: str = Partition.BLOOM_FILTERS
) -> Iterator[tuple[File, BloomFilter]]:
    """Of those of the base files that have one. `index`: the partition of the metadata table, which may be
    that of an expression. Raises as `records`, and TableError for a damaged filter.
    """
    for start in range(0, len(files), _TOGETHER):
        of_key = {file_key(*file): file for file in files[start : start + _TOGETHER]}
        keys = pa.array(list(of_key), pa.string())
        for rows in metadata.look_up(index, keys, [FILTER]):
            there: Any = whole(rows.column(KEY_FIELD)).to_pylist()
            records = dict(zip(there, whole(rows.column(FILTER)), strict=True))
            for key, record in records.items():  # the last record of a key
                found = record.as_py()
                if found is not None and found["isDeleted"] is False and found["bloomFilter"]:
                    yield of_key[key], BloomFilter.from_string(found["bloomFilter"], found["type"])


@dataclass(frozen=True)
class KeyFiles:
    """`ranges`: whether the statistics are asked, where the metadata table has them. Picklable."""

    metadata: MetadataTable
    ranges: bool = True

    def possible(self, files: Sequence[File], keys: Array, hashes: KeyHashes) -> dict[File, bool]:
        """Whether a base file may have one of the keys, `hashes` are theirs; files that the metadata table
        can't tell of are not there. Memory: some filters at a time.

        Raises TableError, and FileNotFoundError for a metadata table that is being changed.
        """
        bounds = self._bounds(files)
        found = {file: False for file, ends in bounds.items() if not in_range(keys, *ends).any()}
        left = [file for file in files if file not in found]
        for file, bloom in bloom_filters(self.metadata, left):
            mask: Bools | None = in_range(keys, *bounds[file]) if file in bounds else None
            found[file] = bloom.any_might_contain(hashes, mask)
        return found

    def _bounds(self, files: Sequence[File]) -> dict[File, tuple[str, str | None]]:
        if not self.ranges or Partition.COLUMN_STATS.value not in self.metadata.partitions:
            return {}
        found = column_stats(self.metadata, [RECORD_KEY], files)
        whole = {file: stats[0] for (file, _), stats in found.items() if _is_whole(stats)}
        return {file: text_bounds(stats.low, stats.high) for file, stats in whole.items()}


def _is_whole(stats: Sequence[ColumnStats]) -> bool:
    """Do they bound all keys. Keys are never null: where a row group has no statistics, since a key is long,
    Apache Hudi counts nulls of -1.
    """
    if len(stats) != 1 or stats[0].kind != STRING:
        return False
    there = stats[0].low is not None and stats[0].high is not None
    return there and bool(stats[0].values) and stats[0].nulls == 0
