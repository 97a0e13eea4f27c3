"""First pass over the input: rows become blobs, counted by partition. Rows that the index will look up stay
in their order, and their keys are staged with them.

Runs on executors, once per input partition, without a shuffle, and reads no file of the table. Memory: one
chunk of input rows.

The module also refuses partition paths that no reader would find, before anything is written. Without URL
encoding a value is one folder name, or several. Two such paths make the whole table unreadable for Apache
Hudi:
- a folder within a folder with partition metadata: readers (ours, Hudi's, hudi-rs) look no deeper
- a name with `a:`, which Hadoop's Path reads as a scheme
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Column, Ints, array, pc, rows_of, whole
from hoodie.engine.task import Task
from hoodie.errors import HoodieError, InputError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import join
from hoodie.index import PlacingIndex
from hoodie.index.locations import LOOK_UP, Positions
from hoodie.keygen.settings import URL_ENCODE
from hoodie.storage import FileInfo
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE
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
from hoodie.write.input.incoming import chunk_bytes, chunks, keyed_rows, travelling

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

    def stages_as(self, other: StageRows) -> bool:
        """Do both make the same of rows."""
        return self.can_restage(other) and _alike(self._shape, other._shape)

    def can_restage(self, other: StageRows) -> bool:
        """Can rows that the other one staged be given to this one in place of those that came."""
        brings_rows = self.context.operation.brings_rows
        return _alike(self._rules, other._rules) and (brings_rows or _alike(self._shape, other._shape))

    @property
    def _rules(self) -> tuple[Any, ...]:
        context, index = self.context, self.context.index
        scope = None if index is None else index.scope
        return context.operation, context.keys, context.merger, context.duplicates, context.looks_up, scope

    @property
    def _shape(self) -> tuple[Any, ...]:
        index = self.context.index
        placing = index if isinstance(index, PlacingIndex) else None
        return self.context.incoming_schema, self.context.null_for_missing, placing, self.sample_keys

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from _Stager(self, task).run(batches)
        except HoodieError as error:
            yield error_message(error, self.schema)


def driver_key_bytes(context: WriteContext) -> int:
    """Bytes of keys that the first task may send to the driver."""
    return min(DRIVER_KEY_BYTES, context.merge_budget // 16)


def _alike(ours: Sequence[Any], others: Sequence[Any]) -> bool:
    return all(_equal(one, other) for one, other in zip(ours, others, strict=True))


def _equal(one: object, other: object) -> bool:
    """Objects of a caller's class may be equal by what they hold."""
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other or vars(one) == vars(other))
    except (TypeError, ValueError):
        return False


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
            known = travelling(keys, rows, looked_up(len(keys)))
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
        groups = NumberedGroups.of(index, whole(rows.column(RECORD_KEY)), names, codes)
        row_bytes = rows.nbytes / rows.num_rows
        for name, group, mine in groups:
            self._count(name, int(len(mine) * row_bytes), mine, group)
        yield from groups.blobs(rows)

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
        index = self.context.index
        return {
            "partitions": [
                [name, group, total.rows, total.bytes, total.samples]
                for (name, group), total in self.totals.items()
            ],
            "by_files": isinstance(index, PlacingIndex) and index.depends_on_files,
            **self.keys.summary(),
        }


def looked_up(count: int) -> pa.Array[Any]:
    """Where so many rows are stored: their file group looks for their keys."""
    places: pa.Array[Any] = array(np.full(count, LOOK_UP, dtype=np.int32))
    return places


@dataclass(frozen=True)
class NumberedGroups:
    """Rows by the file groups that an index numbers: `found` has (partition path, number) of those that have
    any, `order` all rows by these, `bounds` where each begins in it, and the end.
    """

    found: list[tuple[str, str]]
    order: Ints
    bounds: list[int]

    @classmethod
    def of(
        cls, index: PlacingIndex, keys: pa.Array[Any], names: list[str], codes: Positions
    ) -> NumberedGroups:
        """`codes` are the numbers of the keys' partitions, which are `names`."""
        order, bounds = grouped(codes, len(names))
        numbers = np.empty(len(codes), dtype=np.int64)
        index.load(names)
        for code, name in enumerate(names):
            mine = order[bounds[code] : bounds[code + 1]]
            numbers[mine] = index.place(name, keys if len(names) == 1 else keys.take(array(mine)))
        width = int(numbers.max()) + 1
        labels: Any = codes.astype(np.int64) * width + numbers
        if len(names) * width > _DENSE:
            places, labels = np.unique(labels, return_inverse=True)
        else:
            places = np.arange(len(names) * width)
        order, bounds = grouped(labels, len(places))
        some = np.flatnonzero(np.diff(bounds))
        found = [(names[place // width], str(place % width)) for place in places[some].tolist()]
        return cls(found, order, [*bounds[some].tolist(), len(order)])

    def __iter__(self) -> Iterator[tuple[str, str, Ints]]:
        """(partition path, number, the rows) of each."""
        for (name, number), (first, end) in zip(self.found, itertools.pairwise(self.bounds), strict=True):
            yield name, number, self.order[first:end]

    def blobs(self, rows: pa.Table) -> Iterator[Blob]:
        """The rows in blobs, each of one file group."""
        (ordered,) = rows.take(array(self.order)).combine_chunks().to_batches()
        step = rows_of(rows, BLOB_BYTES)
        for (name, number), (first, end) in zip(self.found, itertools.pairwise(self.bounds), strict=True):
            for start in range(first, end, step):
                piece = ordered.slice(start, min(step, end - start))
                yield Blob(name, piece.num_rows, piece.serialize().to_pybytes(), group=number)


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


_MAX_NAME_BYTES = 255


def check_partition(table: Table, partition: str, fields: Sequence[str], entries: Sequence[FileInfo]) -> None:
    """Raises InputError. `partition` is not empty; `entries` is what its folder holds.

    Looks for other partitions above only where values have brought in more levels than there are fields.
    """
    steps = partition.split("/")
    if ":" in partition:
        raise _refused(partition, fields, "Apache Hudi can't read a table with ':' in the name of a folder")
    for step in steps:
        if step.startswith(PARTITION_FILE):
            raise _refused(
                partition, fields, f"{PARTITION_FILE} is the name of every partition's metadata file"
            )
        if len(step.encode()) > _MAX_NAME_BYTES:
            raise _refused(partition, fields, f"a folder name has at most {_MAX_NAME_BYTES} bytes")
    if len(steps) > len(fields):
        for above in _above(partition):
            if table.storage.exists(join(table.base_path, above, PARTITION_FILE)):
                raise _nested(above, partition, fields)
    if any(item.is_dir for item in entries) and not any(
        item.name.startswith(PARTITION_FILE) for item in entries
    ):
        below = next(item.name for item in entries if item.is_dir)
        raise _nested(partition, f"{partition}/{below}", fields)


def check_apart(partitions: Iterable[str], fields: Sequence[str] = ()) -> None:
    """Raises InputError when one of `partitions` lies inside another."""
    known = set(partitions)
    for partition in sorted(known):
        for above in _above(partition):
            if above in known:
                raise _nested(above, partition, fields)


def _above(partition: str) -> list[str]:
    steps = partition.split("/")
    return ["/".join(steps[:count]) for count in range(1, len(steps))]


def _nested(outer: str, inner: str, fields: Sequence[str]) -> InputError:
    return _refused(
        inner, fields, f"it lies inside the partition {outer!r}, where no reader would find its rows"
    )


def _refused(partition: str, fields: Sequence[str], reason: str) -> InputError:
    named = f"partition column(s) {', '.join(fields)} give" if fields else "the partition values give"
    return InputError(
        f"{named} the path {partition!r}: {reason}. Clean the value, or write to a new table with "
        f"{URL_ENCODE.name}=true",
        column=",".join(fields),
        value=partition,
    )
