"""Records of indexes compared with those that the data files would give now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from hoodie.codec.arrays import pc
from hoodie.metadata.column_stats import ColumnStats, decoded
from hoodie.metadata.record_index import file_ids
from hoodie.metadata.table import Partition
from hoodie.read.bounds import comparable
from hoodie.read.column_bounds import merged_decimal

#: without a record there a key is taken for a new one; the others are asked again in the file itself
MISSING_LOSES = frozenset({Partition.RECORD_INDEX})


def differing(partition: Partition, truth: Any, said: Any) -> Iterable[int]:
    """The places of those of the stored records `said` by which a file is left out, or a record looked for,
    wrongly. `truth` has the records of the same keys, in the same order.
    """
    compare = {
        Partition.COLUMN_STATS: _wrong_stats,
        Partition.BLOOM_FILTERS: _wrong_filters,
        Partition.RECORD_INDEX: _wrong_places,
    }[partition]
    return compare(truth, said)


def described(partition: Partition, key: Any, truth: Any, said: Any = None) -> str:
    """What a record is of, and which place is stored instead. Each is an array of one."""
    if partition is Partition.COLUMN_STATS:
        return f"column {truth.field('columnName')[0]} of {truth.field('fileName')[0]}"
    if partition is Partition.RECORD_INDEX and said is not None:
        home, away = (item.field("partitionName")[0].as_py() or "." for item in (truth, said))
        return f"a key in {home} {file_ids(truth)[0]} is said to be in {away} {file_ids(said)[0]}"
    return f"key {key[0].as_py()!r}"


def _wrong_filters(truth: Any, said: Any) -> Iterable[int]:
    right, stored = truth.field("bloomFilter").to_pylist(), said.to_pylist()
    for place, (filter_, record) in enumerate(zip(right, stored, strict=True)):
        if record is None or record["isDeleted"] or record["bloomFilter"] != filter_:
            yield place


def _wrong_places(truth: Any, said: Any) -> Iterable[int]:
    same = pc.and_(
        pc.equal(truth.field("partitionName"), said.field("partitionName")),
        pc.equal(file_ids(truth), file_ids(said)),
    )
    return np.flatnonzero(np.asarray(pc.invert(pc.fill_null(same, False))))


def _wrong_stats(truth: Any, said: Any) -> Iterable[int]:
    marks = [None] * len(truth)
    pairs = zip(decoded(truth, marks), decoded(said, marks), strict=True)
    for place, ((_, _, _, right), (_, _, deleted, stored)) in enumerate(pairs):
        if deleted or _narrower(stored, right):
            yield place


def _narrower(stored: ColumnStats, right: ColumnStats) -> bool:
    """Do the stored statistics leave out values that the file has."""
    if (stored.values == 0 and right.values) or (stored.nulls == 0 and right.nulls):
        return True
    if stored.low is None or stored.high is None or right.low is None or right.high is None:
        return False
    ends = [_comparable(value) for value in (stored.low, right.low, right.high, stored.high)]
    if any(isinstance(value, bytes) for value in ends) and any(isinstance(value, Decimal) for value in ends):
        ends = [merged_decimal(value) if isinstance(value, bytes) else value for value in ends]
    try:
        return bool(ends[0] > ends[1] or ends[2] > ends[3])
    except TypeError:
        return True


def _comparable(value: Any) -> Any:
    """Days and microseconds as numbers, which Apache Hudi's compaction of a metadata table makes of them."""
    if isinstance(value, dt.date):
        return comparable(value)
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value
