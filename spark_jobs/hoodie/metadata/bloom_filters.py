"""Bloom filters of the record keys in base files, as the metadata table has them (format.md 10.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import whole
from hoodie.format.bloom import BloomFilter
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.column_stats import File
from hoodie.metadata.keys import file_key
from hoodie.metadata.records.bloom_filters import FILTER
from hoodie.metadata.table import MetadataTable, Partition

#: filters in memory; one of Apache Hudi's default size has 0.4 MiB
_TOGETHER = 128


def bloom_filters(metadata: MetadataTable, files: Sequence[File]) -> Iterator[tuple[File, BloomFilter]]:
    """Of those of the base files that have one. Raises as `records`, and TableError for a damaged filter."""
    for start in range(0, len(files), _TOGETHER):
        of_key = {file_key(*file): file for file in files[start : start + _TOGETHER]}
        keys = pa.array(list(of_key), pa.string())
        for rows in metadata.look_up(Partition.BLOOM_FILTERS, keys, [FILTER]):
            there: Any = whole(rows.column(KEY_FIELD)).to_pylist()
            records = dict(zip(there, whole(rows.column(FILTER)), strict=True))
            for key, record in records.items():  # the last record of a key
                found = record.as_py()
                if found is not None and found["isDeleted"] is False and found["bloomFilter"]:
                    yield of_key[key], BloomFilter.from_string(found["bloomFilter"], found["type"])
