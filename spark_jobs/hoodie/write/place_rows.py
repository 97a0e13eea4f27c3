"""Second pass: every blob gets its file-group write and reducer; inserts of one partition are split
among file groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.key_split import FILE_GROUP_SEED, key_fractions
from hoodie.engine.task import Task
from hoodie.errors import JobError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.write.blobs import BLOB_SCHEMA, ROWS, Blob, decode_rows, encode_rows, rows_batch, values
from hoodie.write.workload import Assignment

T = TypeVar("T")
Shares = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class PlaceRows:
    """The function given to `map_batches`. A key always goes to the same file group of its
    partition."""

    assignment: Assignment
    travel_schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.filter(pc.equal(batch.column("kind"), pa.scalar(ROWS, pa.int32())))
            if rows.num_rows:
                yield from self._assign(rows)

    def _assign(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Blobs that go to one file group keep their payload; the others are cut."""
        whole: list[int] = []
        numbers: list[int] = []
        names = zip(values(batch, "partition"), values(batch, "file_id"), strict=True)
        for row, (partition, file_id) in enumerate(names):
            if file_id:
                numbers.append(self._known(self.assignment.updates.get((partition, file_id)), partition))
                whole.append(row)
                continue
            shares = self._known(self.assignment.inserts.get(partition), partition)
            if len(shares) == 1:
                numbers.append(shares[0][0])
                whole.append(row)
            else:
                yield self._cut(partition, batch.column("payload")[row].as_buffer(), shares)
        if whole:
            kept = batch if len(whole) == batch.num_rows else batch.take(pa.array(whole))
            yield self._labelled(kept, numbers)

    def _cut(self, partition: str, payload: pa.Buffer, shares: Shares) -> pa.RecordBatch:
        blobs: list[Blob] = []
        numbers: list[int] = []
        for number, piece in self._split(partition, payload, shares):
            for blob, count in encode_rows(piece):
                blobs.append(Blob(partition, partition, "", count, blob))
                numbers.append(number)
        return self._labelled(rows_batch(blobs), numbers)

    def _labelled(self, batch: pa.RecordBatch, numbers: list[int]) -> pa.RecordBatch:
        reducers = [self.assignment.reducers[number] for number in numbers]
        columns = batch.columns
        columns[BLOB_SCHEMA.get_field_index("reducer")] = pa.array(reducers, pa.int32())
        columns[BLOB_SCHEMA.get_field_index("write")] = pa.array(numbers, pa.int32())
        return pa.RecordBatch.from_arrays(columns, schema=BLOB_SCHEMA)

    def _split(self, partition: str, payload: pa.Buffer, shares: Shares) -> Iterator[tuple[int, pa.Table]]:
        rows = pa.Table.from_batches([decode_rows(payload, self.travel_schema)])
        keys = rows.column(RECORD_KEY).combine_chunks()
        ranges = self.assignment.ranges.get(partition)
        chosen = _by_hash(keys, shares) if ranges is None else _by_range(keys, ranges)
        for position, (number, _) in enumerate(shares):
            mask = chosen == position
            if mask.any():
                yield number, rows.filter(pa.array(mask))

    @staticmethod
    def _known(value: T | None, partition: str) -> T:
        if value is None:
            raise JobError(
                f"rows for partition {partition!r} appeared between two passes over the input: the input "
                "changes when it is read again; write it to a file first",
                partition=partition,
            )
        return value


def _by_hash(keys: pa.Array[Any], shares: Shares) -> npt.NDArray[np.int64]:
    edges = np.cumsum([share for _, share in shares])
    places = np.searchsorted(edges, key_fractions(keys, FILE_GROUP_SEED), side="right")
    return np.minimum(places, len(shares) - 1)


def _by_range(keys: pa.Array[Any], starts: tuple[str, ...]) -> npt.NDArray[np.int64]:
    places = np.zeros(len(keys), dtype=np.int64)
    for start in starts:
        places += pc.greater_equal(keys, pa.scalar(start)).to_numpy(zero_copy_only=False)
    return places
