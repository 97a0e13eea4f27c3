"""First pass over the input: rows become blobs, counted by partition; those that the index will look for keep
their order, and their keys go beside them.

Runs on executors, once per input partition, without a shuffle, and looks at no file of the table. Memory: one
chunk of input rows.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Column, Ints, array, pc, whole
from hoodie.engine.task import Task
from hoodie.errors import HoodieError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index import PlacingIndex
from hoodie.index.locations import LOOK_UP, Positions
from hoodie.write.blobs import (
    BLOB_BYTES,
    BLOB_SCHEMA,
    KEYS,
    MORE_KEYS,
    ROWS,
    STAGED_SCHEMA,
    SUMMARY,
    Blob,
    encode_rows,
    error_message,
    in_batches,
    message,
)
from hoodie.write.context import PARTITION_CODE, WriteContext
from hoodie.write.incoming import chunk_bytes, chunks, keyed_rows, travelling

#: bytes of keys that the first task may send to the driver; the n-th one may send an n-th of it, so that
#: ten thousand tasks send ten times as much
DRIVER_KEY_BYTES = 16 << 20
#: of the keys that go to the index: the record key, the number of its partition
_KEY_COLUMNS: dict[str, pa.DataType] = {"key": pa.string(), "code": pa.int32()}
KEY_SCHEMA = pa.schema(_KEY_COLUMNS)
_SAMPLES = 64
#: so many labels are counted without sorting them first
_DENSE = 1 << 16


@dataclass
class _Total:
    """Rows of one partition, or of one numbered file group of it, seen by one task."""

    rows: int = 0
    bytes: int = 0
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StageRows:
    """The function given to `map_batches`. The rows are those of `schema`.

    Without an index blobs have the rows of one partition each, with one that places keys those of one file
    group. With another they have the rows as they come, and each has a row of keys beside it, which the
    driver collects with the summaries as long as they are few.
    """

    context: WriteContext
    sample_keys: bool
    driver_key_bytes: int

    @classmethod
    def of(cls, context: WriteContext, sample_keys: bool) -> StageRows:
        return cls(context, sample_keys, driver_key_bytes(context))

    @property
    def schema(self) -> pa.Schema:
        return STAGED_SCHEMA if self.context.looks_up else BLOB_SCHEMA

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from _Stager(self, task).run(batches)
        except HoodieError as error:
            yield error_message(error, self.schema)


def driver_key_bytes(context: WriteContext) -> int:
    """Bytes of keys that the first task may send to the driver."""
    return min(DRIVER_KEY_BYTES, context.merge_budget // 16)


class KeyRows:
    """Numbers the rows of keys that a task makes, and counts them; the driver collects the first ones."""

    def __init__(self, driver_key_bytes: int, task: Task) -> None:
        self._task = task.partition
        self._left = driver_key_bytes // (task.partition + 1)
        self.count = self.bytes = 0

    def row(self, keys: pa.RecordBatch, partitions: str, digest: str | None = None) -> dict[str, Any]:
        """A row of STAGED_SCHEMA; its digest is that of the keys, or another one that is given."""
        payload = keys.serialize().to_pybytes()
        self.bytes += len(payload)
        self._left -= len(payload)
        row = {
            "kind": KEYS if self._left >= 0 else MORE_KEYS,
            "reducer": 0,
            "task": self._task,
            "number": self.count,
            "digest": digest or hashlib.blake2b(partitions.encode() + payload, digest_size=16).hexdigest(),
            "partitions": partitions,
            "payload": payload,
        }
        self.count += 1
        return row

    def summary(self) -> dict[str, Any]:
        return {"blobs": self.count, "key_bytes": self.bytes, "more_keys": self._left < 0}


class _Stager:
    def __init__(self, step: StageRows, task: Task) -> None:
        self.step = step
        self.context = step.context
        self.totals: dict[tuple[str, str], _Total] = {}
        self.keys = KeyRows(step.driver_key_bytes, task)

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = self.context
        for chunk in chunks(batches, chunk_bytes(context)):
            keys, paths, rows = keyed_rows(context, chunk)
            if context.duplicates.combine or context.duplicates.merge:
                context.merger.check(rows)
            names, codes = names_and_codes(paths)
            if context.looks_up:
                staged = travelling(keys, rows, pa.array(codes), PARTITION_CODE)
                yield from self._as_they_come(staged, names, codes)
                continue
            stored = pa.array(np.full(len(keys), LOOK_UP, dtype=np.int32))
            known = travelling(keys, rows, stored)
            if isinstance(context.index, PlacingIndex):
                yield from in_batches(self._by_group(context.index, known, names, codes))
            else:
                yield from in_batches(self._by_partition(known, names, codes))
        yield message(SUMMARY, self._summary(), self.step.schema)

    def _by_partition(self, rows: pa.Table, names: list[str], codes: Positions) -> Iterator[Blob]:
        for name, piece in by_partition(rows, names, codes):
            self._count(name, piece.nbytes, piece.column(RECORD_KEY))
            for payload, count in encode_rows(piece):
                yield Blob(name, count, payload)

    def _by_group(
        self, index: PlacingIndex, rows: pa.Table, names: list[str], codes: Positions
    ) -> Iterator[Blob]:
        order, bounds = grouped(codes, len(names))
        keys, numbers = whole(rows.column(RECORD_KEY)), np.empty(len(codes), dtype=np.int64)
        index.load(names)
        for code, name in enumerate(names):
            mine = order[bounds[code] : bounds[code + 1]]
            numbers[mine] = index.place(name, keys if len(names) == 1 else keys.take(array(mine)))
        width = int(numbers.max()) + 1
        labels: Any = codes.astype(np.int64) * width + numbers
        if len(names) * width > _DENSE:
            found, labels = np.unique(labels, return_inverse=True)
        else:
            found = np.arange(len(names) * width)
        order, bounds = grouped(labels, len(found))
        (ordered,) = rows.take(array(order)).combine_chunks().to_batches()
        row_bytes = rows.nbytes / rows.num_rows
        step = max(1, int(BLOB_BYTES / row_bytes))
        for place in np.flatnonzero(np.diff(bounds)).tolist():
            name, group = names[found[place] // width], str(found[place] % width)
            first, end = int(bounds[place]), int(bounds[place + 1])
            self._count(name, int((end - first) * row_bytes), order[first:end], group)
            for start in range(first, end, step):
                piece = ordered.slice(start, min(step, end - start))
                yield Blob(name, piece.num_rows, piece.serialize().to_pybytes(), group=group)

    def _as_they_come(self, rows: pa.Table, names: list[str], codes: Positions) -> Iterator[pa.RecordBatch]:
        order, bounds = grouped(codes, len(names))
        every = whole(rows.column(RECORD_KEY))
        for code, (name, size) in enumerate(zip(names, _sizes(rows, codes, len(names)), strict=True)):
            mine = order[bounds[code] : bounds[code + 1]]
            self._count(name, size, every.take(array(mine)) if self.step.sample_keys else mine)
        partitions, start = json.dumps(names), 0
        for payload, count in encode_rows(rows):
            piece = rows.slice(start, count)
            columns = [whole(piece.column(name)) for name in (RECORD_KEY, PARTITION_CODE)]
            row = self.keys.row(pa.RecordBatch.from_arrays(columns, schema=KEY_SCHEMA), partitions)
            blob = {**row, "kind": ROWS, "payload": payload}
            yield pa.RecordBatch.from_pylist([row, blob], schema=STAGED_SCHEMA)
            start += count

    def _count(self, name: str, size: int, keys: Column | Ints, group: str = "") -> None:
        """`keys`, or only their positions where none are sampled."""
        rows = len(keys)
        if not rows:
            return
        total = self.totals.setdefault((name, group), _Total())
        total.rows += rows
        total.bytes += size
        if self.step.sample_keys and not group:
            sampled: Any = keys[:: max(1, math.ceil(rows / _SAMPLES))]
            total.samples.extend(str(key) for key in sampled.to_pylist())

    def _summary(self) -> dict[str, Any]:
        return {
            "partitions": [
                [name, group, total.rows, total.bytes, total.samples]
                for (name, group), total in self.totals.items()
            ],
            **self.keys.summary(),
        }


def names_and_codes(paths: pa.DictionaryArray[Any, Any]) -> tuple[list[str], Positions]:
    """Distinct partition paths, and the number of each row's."""
    return [str(path) for path in paths.dictionary.to_pylist()], paths.indices.to_numpy().astype(np.int32)


def by_partition(rows: pa.Table, names: list[str], codes: Positions) -> Iterator[tuple[str, pa.Table]]:
    """Each name with its rows, in their order; `codes` are the numbers of the rows' names."""
    if len(names) == 1:
        yield names[0], rows
        return
    order, bounds = grouped(codes, len(names))
    if not np.array_equal(order, np.arange(len(order))):
        rows = rows.take(array(order))
    for name, (start, end) in zip(names, itertools.pairwise(bounds.tolist()), strict=True):
        yield name, rows.slice(start, end - start)


def _sizes(rows: pa.Table, codes: Positions, count: int) -> list[int]:
    """About the bytes of each partition's rows: texts as long as they are, the rest evenly."""
    if count == 1:
        return [rows.nbytes]
    texts: Any = np.zeros(count)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy()
            texts += np.bincount(codes, weights=lengths, minlength=count)
    rest = max(0.0, rows.nbytes - texts.sum())
    return [int(size) for size in texts + np.bincount(codes, minlength=count) * (rest / rows.num_rows)]


def grouped(labels: Positions, count: int) -> tuple[Ints, Ints]:
    """(stable order by label, start of every label in it; count + 1 entries)."""
    narrow: Any = labels.astype(np.uint16) if count <= 1 << 16 else labels
    order = np.argsort(narrow, kind="stable")
    sizes = np.bincount(labels, minlength=count)
    return order, np.concatenate([[0], np.cumsum(sizes)])
