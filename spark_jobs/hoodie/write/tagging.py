"""First pass over the input: keys, partition paths, tags, and rows cut into blobs by file group.

Runs on executors, once per input partition, without a shuffle. Memory: one chunk of input rows and, one
file at a time, the key column of the candidate files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Ints, array, whole
from hoodie.engine import Task
from hoodie.errors import HoodieError
from hoodie.format.evolution import check_texts, conform
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index.tags import NOWHERE, REPEATED, Tags
from hoodie.table.handle import Table
from hoodie.table.view import FileSlice, merged_slices
from hoodie.write.blobs import SUMMARY, encode_rows, error_message, message, rows_batch
from hoodie.write.context import STORED_ROW, WriteContext
from hoodie.write.duplicates import known_keys, refuse_known
from hoodie.write.partition_check import check_partition
from hoodie.write.settings import Known
from hoodie.write.workload import tell_slice

CHUNK_BYTES = 128 << 20
CHUNK_ROWS = 1 << 20
_SAMPLES = 64


@dataclass
class _Group:
    """Rows of one file group (or of one partition's inserts) seen by one task."""

    rows: int = 0
    bytes: int = 0
    samples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TagRows:
    """The function given to `map_batches`."""

    context: WriteContext
    sample_keys: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from _Tagger(self.context, self.sample_keys).run(batches)
        except HoodieError as error:
            yield error_message(error)


class _Tagger:
    def __init__(self, context: WriteContext, sample_keys: bool) -> None:
        self.context = context
        self.sample_keys = sample_keys
        table = Table(context.table)
        self.storage, self.listing = table.storage, table.listing()
        self.groups: dict[tuple[str, str], _Group] = {}
        self.missing = self.dropped = 0
        self.listed: dict[str, list[FileSlice]] = {}

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for chunk in chunks(batches):
            yield from self.stage(chunk)
        yield message(SUMMARY, self.summary())

    def stage(self, chunk: pa.Table) -> Iterator[pa.RecordBatch]:
        context = self.context
        keys, paths, rows = keyed_rows(context, chunk)
        if context.duplicates.combine or context.duplicates.merge:
            context.merger.check(rows)
        partitions = [str(path) for path in paths.dictionary.to_pylist()]
        codes = paths.indices.to_numpy().astype(np.int32)
        order, bounds = _grouped(codes, len(partitions))
        names, chosen, labels, stored = self.tag(keys, partitions, order, bounds)
        if chosen is not None:
            keys, rows = keys.take(array(chosen)), rows.take(array(chosen))
        rows = travelling(keys, rows, pa.array(stored))
        if len(names) > 1:
            order, bounds = _grouped(labels, len(names))
            if not np.array_equal(order, np.arange(len(order))):
                rows = rows.take(order)
        else:
            bounds = np.array([0, rows.num_rows])
        blobs: list[tuple[str, str, int, bytes]] = []
        size = 0
        for label, (partition, file_id) in enumerate(names):
            piece = rows.slice(bounds[label], bounds[label + 1] - bounds[label])
            if not file_id and not context.operation.brings_rows:
                self.missing += piece.num_rows  # nothing to delete
                continue
            self.count(partition, file_id, piece)
            for blob, count in encode_rows(piece):
                blobs.append((partition, file_id, count, blob))
                size += len(blob)
                if size >= CHUNK_BYTES // 8:
                    yield rows_batch(blobs)
                    blobs, size = [], 0
        if blobs:
            yield rows_batch(blobs)

    def tag(
        self,
        keys: pa.Array[Any],
        partitions: list[str],
        order: npt.NDArray[np.int64],
        bounds: npt.NDArray[np.int64],
    ) -> tuple[list[tuple[str, str]], Ints | None, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """((partition, file id) by label, which rows go on, None: all; their labels, their rows in the stored
        files).

        An update goes to one file, of several with its key to the youngest; a delete to each. Inserts go
        where there is room, except those that are left out as their key is stored.
        """
        names: list[tuple[str, str]] = []
        brings_rows, everywhere = self.context.operation.brings_rows, _Everywhere()
        labels = np.empty(len(keys), dtype=np.int32)
        stored = np.full(len(keys), NOWHERE if self.context.operation.tags else REPEATED, dtype=np.int32)
        for code, partition in enumerate(partitions):
            rows = order[bounds[code] : bounds[code + 1]]
            slices = sorted((found for found in self.slices(partition) if found.base), key=_age)
            files = [found.base for found in slices if found.base]
            first = len(names)
            names.append((partition, ""))
            names.extend((partition, file.file_id) for file in files)
            index = self.context.index
            if index is None or not files:
                labels[rows] = first
                if not brings_rows:
                    everywhere.add(rows, first, stored[rows])
                continue
            distinct = (keys if len(partitions) == 1 else keys.take(rows)).dictionary_encode()
            if not brings_rows:
                each = (index.tag(self.storage, [file], distinct.dictionary) for file in files)
                everywhere.look(rows, first, each, distinct.indices.to_numpy())
                continue
            tags = index.tag(self.storage, files, distinct.dictionary)
            places = distinct.indices.to_numpy()
            policy, known = self.context.duplicates.known, tags.files[places] != NOWHERE
            if policy is not Known.NONE:
                known = known_keys(self.context, self.storage, slices, distinct.dictionary, tags)[places]
            if policy is Known.FAIL:
                refuse_known(keys.take(array(rows)), known, partition)
            if self.context.operation.tags:
                labels[rows] = first + 1 + tags.files[places]
                stored[rows] = tags.rows[places]
            else:
                labels[rows] = np.where(known, NOWHERE, first)
        if not brings_rows:
            return names, *everywhere.arrays()
        chosen = np.flatnonzero(labels != NOWHERE)
        if len(chosen) == len(keys):
            return names, None, labels, stored
        self.dropped += len(keys) - len(chosen)
        return names, chosen, labels[chosen], stored[chosen]

    def slices(self, partition: str) -> list[FileSlice]:
        if partition not in self.listed:
            entries = self.listing.files(partition)
            if partition and self.context.operation.brings_rows:
                fields = self.context.keys.partition_fields
                check_partition(self.storage, self.context.base_path, partition, fields, entries)
            self.listed[partition] = merged_slices(self.context.snapshot, self.listing.files, partition)
        return self.listed[partition]

    def count(self, partition: str, file_id: str, piece: pa.Table) -> None:
        if piece.num_rows == 0:
            return
        group = self.groups.setdefault((partition, file_id), _Group())
        group.rows += piece.num_rows
        group.bytes += piece.nbytes
        if self.sample_keys:
            step = max(1, math.ceil(piece.num_rows / _SAMPLES))
            group.samples.extend(str(key) for key in piece.column(RECORD_KEY)[::step].to_pylist())

    def summary(self) -> dict[str, Any]:
        return {
            "groups": [
                [partition, file_id, group.rows, group.bytes, group.samples]
                for (partition, file_id), group in self.groups.items()
            ],
            "slices": {
                partition: list(map(tell_slice, found))
                for partition, found in self.listed.items()
                if found or self.context.operation.brings_rows
            },
            "listed": list(self.listed),
            "missing": self.missing,
            "dropped": self.dropped,
        }


class _Everywhere:
    """Rows of a delete, once for every file that has their key, or once for none."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]] = []

    def look(self, rows: Ints, first: int, each: Iterable[Tags], places: npt.NDArray[Any]) -> None:
        """`each` file's tags of the distinct keys; `places` are where the keys of the rows are among them."""
        nowhere = np.ones(len(rows), dtype=np.bool_)
        for number, tags in enumerate(each, first + 1):
            hit = tags.files[places] != NOWHERE
            nowhere &= ~hit
            self.add(rows[hit], number, tags.rows[places[hit]])
        self.add(rows[nowhere], first, np.full(int(nowhere.sum()), NOWHERE, dtype=np.int32))

    def add(self, rows: Ints, label: int, stored: npt.NDArray[np.int32]) -> None:
        self._parts.append((rows, np.full(len(rows), label, dtype=np.int32), stored))

    def arrays(self) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        chosen, labels, stored = zip(*self._parts, strict=True)
        return np.concatenate(chosen), np.concatenate(labels), np.concatenate(stored)


def key_columns(context: WriteContext, rows: pa.Table) -> pa.Table:
    """`rows` with their key columns in the table's types: 1 of an int column is 1.0 in a double one."""
    for name in context.keys.key_columns:
        field = context.schema.field(name).with_nullable(True)
        index = rows.schema.get_field_index(name)
        if index >= 0 and rows.schema.field(index).type != field.type:
            converted = conform(rows.select([name]), pa.schema([field]))
            rows = rows.set_column(index, field, converted.column(0))
    return rows


def keyed_rows(
    context: WriteContext, rows: pa.Table
) -> tuple[pa.Array[Any], pa.DictionaryArray[Any, Any], pa.Table]:
    """(record keys, partition paths, the rows in the table's schema, as far as they are wanted). Raises
    InputError for bad keys.
    """
    tops = (name.split(".")[0] for name in context.keys.key_columns)
    check_texts(rows, {*tops, *context.incoming_schema.names})
    keyed = key_columns(context, rows)
    keys = whole(context.keys.record_keys(keyed))
    paths = context.keys.partition_codes(keyed)
    wanted = context.incoming_schema
    if not wanted.names:
        return keys, paths, rows.select([])
    return keys, paths, conform(rows, wanted, null_for_missing=context.null_for_missing)


def travelling(keys: pa.Array[Any], rows: pa.Table, stored: pa.Array[Any]) -> pa.Table:
    """Rows as `WriteContext.travel_schema` has them."""
    leading = [pa.field(RECORD_KEY, pa.string()), pa.field(STORED_ROW, pa.int32())]
    columns: list[Any] = [keys, stored, *rows.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([*leading, *rows.schema]))


def chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches gathered to tables of at most CHUNK_BYTES or CHUNK_ROWS, whichever comes first."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if held and (size + batch.nbytes > CHUNK_BYTES or rows + batch.num_rows > CHUNK_ROWS):
            yield pa.Table.from_batches(held)
            held, size, rows = [], 0, 0
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _age(slice_: FileSlice) -> tuple[str, str]:
    """Oldest base file first: of several files with a key an index names the last one."""
    return slice_.base.instant if slice_.base else "", slice_.file_id


def _grouped(
    labels: npt.NDArray[np.int32], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(stable order by label, start of every label in it; count + 1 entries)."""
    narrow = labels.astype(np.uint16) if count <= 1 << 16 else labels
    order = np.argsort(narrow, kind="stable")
    sizes = np.bincount(labels, minlength=count)
    return order, np.concatenate([[0], np.cumsum(sizes)])
