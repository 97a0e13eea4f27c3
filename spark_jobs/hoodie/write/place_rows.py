"""Second pass over new rows: the blobs of a partition are cut among its file groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.key_split import FILE_GROUP_SEED, key_fractions
from hoodie.engine.task import Task
from hoodie.errors import JobError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.write.blobs import Blob, decode_rows, encode_rows, in_batches, values
from hoodie.write.workload import Assignment

Shares = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PlaceRows:
    """The function given to `map_batches`. A key always goes to the same file group of its
    partition."""

    assignment: Assignment
    travel_schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            payloads: Any = batch.column("payload")
            for row, partition in enumerate(values(batch, "partition")):
                yield from in_batches(self._cut(partition, payloads[row].as_buffer()))

    def _cut(self, partition: str, payload: pa.Buffer) -> Iterator[Blob]:
        shares = shares_of(self.assignment, partition)
        for number, piece in self._split(partition, payload, shares):
            for blob, count in encode_rows(piece):
                yield Blob(partition, count, blob, number, self.assignment.reducers[number])

    def _split(self, partition: str, payload: pa.Buffer, shares: Shares) -> Iterator[tuple[int, pa.Table]]:
        rows = pa.Table.from_batches([decode_rows(payload, self.travel_schema)])
        keys = rows.column(RECORD_KEY).combine_chunks()
        chosen = chosen_shares(self.assignment, partition, shares, keys)
        for position, (number, _) in enumerate(shares):
            mask = chosen == position
            if mask.any():
                yield number, rows.filter(pa.array(mask))


def shares_of(assignment: Assignment, partition: str) -> Shares:
    """The file-group writes of a partition's new rows. Raises JobError where none were counted."""
    shares = assignment.inserts.get(partition)
    if shares is None:
        raise appeared(partition)
    return shares


def appeared(partition: str) -> JobError:
    """The error of rows for a partition that none was counted for."""
    return JobError(
        f"rows for partition {partition!r} appeared between two passes over the input: the input "
        "changes when it is read again; write it to a file first",
        partition=partition,
    )


def chosen_shares(
    assignment: Assignment, partition: str, shares: Shares, keys: pa.Array[Any]
) -> npt.NDArray[np.int64]:
    """The position in `shares` of each key's."""
    ranges = assignment.ranges.get(partition)
    return _by_hash(keys, shares) if ranges is None else _by_range(keys, ranges)


def _by_hash(keys: pa.Array[Any], shares: Shares) -> npt.NDArray[np.int64]:
    edges = np.cumsum([share for _, share in shares])
    places = np.searchsorted(edges, key_fractions(keys, FILE_GROUP_SEED), side="right")
    return np.minimum(places, len(shares) - 1)


def _by_range(keys: pa.Array[Any], starts: tuple[str, ...]) -> npt.NDArray[np.int64]:
    places = np.zeros(len(keys), dtype=np.int64)
    for start in starts:
        places += pc.greater_equal(keys, pa.scalar(start)).to_numpy(zero_copy_only=False)
    return places
