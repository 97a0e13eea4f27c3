"""Writes whose rows are not staged: only their keys are, for the index. The rows are computed again when they
are assigned to file groups.
- The first pass computes only the key columns. It checks them as those of staged rows.
- The second pass computes all rows, and identifies each by its place. Both passes cut the rows of a task into
  blocks of equally many rows. A digest of a block's keys shows that it has the same rows as in the first
  pass.
- Frames that may have other rows at each computation are staged, and so are rows that must be checked before
  they are written.

Memory: the first pass holds the keys of a block, the second one as `PlaceTagged`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Coded, array
from hoodie.codec.hashing import binary_views, murmur
from hoodie.engine import Engine, Frame
from hoodie.engine.files import FileFrame
from hoodie.engine.required import contains
from hoodie.engine.task import Task
from hoodie.errors import HoodieError
from hoodie.format.schema import canonical
from hoodie.index import PlacingIndex, Scope
from hoodie.merge import Merger
from hoodie.merge.by_mode import ByMode
from hoodie.merge.ordering import OrderedRows
from hoodie.write.assign.inserts import PlaceTagged, Staged, changed
from hoodie.write.blobs import STAGED_SCHEMA, SUMMARY, Blob, error_message, in_batches, message
from hoodie.write.context import PARTITION_CODE, WriteContext
from hoodie.write.input.incoming import chunk_bytes, chunks, keyed_rows, keys_of, travelling
from hoodie.write.input.stage import (
    KEY_SCHEMA,
    KeyRows,
    NumberedGroups,
    driver_key_bytes,
    looked_up,
    names_and_codes,
)
from hoodie.write.input.streaming_insert import always_fits, width_of
from hoodie.write.plan import WritePlan
from hoodie.write.settings import MAX_AMPLIFICATION
from hoodie.write.tagging.record_locations import RecordLocations
from hoodie.write.tagging.tag import BlobId

#: rows of a block
BLOCK_ROWS = 1 << 14
#: rows of the second pass that are worked on at once
_PIECE_BYTES = 16 << 20
#: of a row that the index found
_HIT_BYTES = 12


def keys_of_frame(engine: Engine, frame: Frame, plan: WritePlan) -> Frame | None:
    """The columns of the rows that the first pass needs; None where it needs the rows."""
    context, index = plan.context, plan.context.index
    if (
        not context.operation.brings_rows
        or context.operation.fills_new_groups  # such rows are counted: StreamingInsertPlan
        # these, and explain, need the sizes of rows
        or plan.request.dry_run
        or plan.config[MAX_AMPLIFICATION]
    ):
        return None
    if index is not None and index.scope is Scope.TABLE:
        return None
    if not (index is None or context.looks_up or isinstance(index, PlacingIndex)):
        return None
    checked = _checked(context)
    if checked is None or not _as_stored(engine.schema(frame), context.incoming_schema):
        return None
    return engine.apart(frame, tuple(dict.fromkeys((*context.keys.key_columns, *checked))))


def transferred_bytes(rows: int) -> int:
    """The most bytes that answers for so many rows take."""
    return rows * _HIT_BYTES


def _checked(context: WriteContext) -> tuple[str, ...] | None:
    """The columns that the merger checks beforehand; None for all."""
    merger = context.merger
    if not (context.duplicates.combine or context.duplicates.merge) or type(merger).check is Merger.check:
        return ()
    if isinstance(merger, ByMode):
        return tuple(path.split(".")[0] for path in merger.ordering_fields)
    if type(merger).check is not OrderedRows.check:
        return None
    return (merger.ordering.split(".")[0],) if merger.ordering else ()


def _as_stored(incoming: pa.Schema, schema: pa.Schema) -> bool:
    """Does every value that comes fit."""
    stored, types = canonical(incoming), {field.name: field.type for field in schema}
    return always_fits(stored, schema) and all(
        types[field.name] == field.type and not _nanoseconds(given.type)
        for field, given in zip(stored, incoming, strict=True)
        if field.name in types
    )


def _nanoseconds(dtype: pa.DataType) -> bool:
    return contains(dtype, lambda kind: bool(pa.types.is_timestamp(kind) and kind.unit == "ns"))


class Digest:
    """Of the keys and partition paths of rows, however they are cut."""

    def __init__(self) -> None:
        self._lengths, self._texts, self._paths = (hashlib.blake2b(digest_size=16) for _ in range(3))

    def add(self, keys: pa.Array[Any], paths: Coded) -> None:
        views: Any = binary_views(keys)  # numpy's arrays are buffers
        data, offsets = views
        self._lengths.update(np.diff(offsets))
        self._texts.update(data[offsets[0] : offsets[-1]])
        self._paths.update(murmur(paths.dictionary)[paths.indices.to_numpy()].tobytes())

    def text(self) -> str:
        every = b"".join(part.digest() for part in (self._lengths, self._texts, self._paths))
        return hashlib.blake2b(every, digest_size=16).hexdigest()


@dataclass(frozen=True)
class StageKeys:
    """The function given to `map_batches` on the columns of `keys_of_frame`; the rows are those of
    STAGED_SCHEMA: keys, a block a row, if any are `stored` already, and the summary that `StageRows` has.
    `width` is about the bytes of a whole row.
    """

    context: WriteContext
    stored: bool
    width: int
    driver_key_bytes: int

    @classmethod
    def of(cls, plan: WritePlan, files: FileFrame | None) -> StageKeys:
        """`files`: where the rows are, if they are in files that the tasks read themselves."""
        context = plan.context
        stored = context.looks_up and plan.new_properties is None
        width = width_of(context.schema) if files is None else files.width
        return cls(context, stored, width, driver_key_bytes(context))

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._staged(batches, task)
        except HoodieError as error:
            yield error_message(error, STAGED_SCHEMA)

    def _staged(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        context, totals = self.context, Counter[tuple[str, str]]()
        sent = KeyRows(self.driver_key_bytes, task)
        for rows in _blocks(batches):
            keys, paths = keys_of(context, rows)
            if context.duplicates.combine or context.duplicates.merge:
                context.merger.check(rows)
            names, codes = names_and_codes(paths)
            if isinstance(context.index, PlacingIndex):
                for name, number, mine in NumberedGroups.of(context.index, keys, names, codes):
                    totals[name, number] += len(mine)
                continue
            for name, count in zip(names, np.bincount(codes, minlength=len(names)).tolist(), strict=True):
                totals[name, ""] += count
            if not self.stored:
                continue
            digest = Digest()
            digest.add(keys, paths)
            batch = pa.RecordBatch.from_arrays([keys, array(codes)], schema=KEY_SCHEMA)
            yield pa.RecordBatch.from_pylist(
                [sent.row(batch, json.dumps(names), digest.text())], schema=STAGED_SCHEMA
            )
        found = [[*group, rows, rows * self.width, []] for group, rows in totals.items() if rows]
        yield message(SUMMARY, {"partitions": found, **sent.summary()}, STAGED_SCHEMA)


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            held.append(batch.slice(start, BLOCK_ROWS - count))
            start += held[-1].num_rows
            count += held[-1].num_rows
            if count == BLOCK_ROWS:
                yield pa.Table.from_batches(held)
                held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


#: the digest of a block, and its hits, by task and number
Answers = Mapping[tuple[int, int], tuple[str, bytes]]


def by_block(hits: Mapping[BlobId, bytes]) -> Answers:
    return {(task, number): (digest, found) for (task, number, digest), found in hits.items()}


@dataclass(frozen=True)
class RescanTagged:
    """The function given to `map_batches` on the rows: gives them to their file groups, as `place` does.

    `answers` are those of all blocks; None: the index was not asked, as all rows are new.
    """

    place: PlaceTagged
    answers: Answers | None

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.place.place(self._found(batches, task.partition))
        except HoodieError as error:
            yield error_message(error)

    def _found(self, batches: Iterator[pa.RecordBatch], task: int) -> Iterator[Staged]:
        context = self.place.context
        pieces = _pieces(batches, min(_PIECE_BYTES, chunk_bytes(context)))
        for block, mine in itertools.groupby(pieces, key=lambda piece: piece[0]):
            expected, hits = self._answer(task, block)
            digest = Digest()
            for _, start, piece in mine:
                keys, paths, rows = keyed_rows(context, piece)
                if expected is not None:
                    digest.add(keys, paths)
                names, codes = names_and_codes(paths)
                (staged,) = travelling(keys, rows, array(codes), PARTITION_CODE).combine_chunks().to_batches()
                places = np.arange(BLOCK_ROWS, dtype=np.int32) - start
                yield names, staged, hits.between(start, start + piece.num_rows, places)
            if expected is not None and digest.text() != expected:
                raise changed()

    def _answer(self, task: int, block: int) -> tuple[str | None, RecordLocations]:
        if self.answers is None:
            return None, RecordLocations.none()
        found = self.answers.get((task, block))
        if found is None:
            raise changed()
        digest, hits = found
        return digest, RecordLocations.from_bytes(hits)


@dataclass(frozen=True)
class RescanBucketed:
    """The function given to `map_batches` on the rows where the index numbers the file groups: `targets` has
    the write and its reducer, by partition path and number.
    """

    context: WriteContext
    targets: Mapping[tuple[str, str], tuple[int, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        try:
            yield from in_batches(self._placed(batches))
        except HoodieError as error:
            yield error_message(error)

    def _placed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Blob]:
        context = self.context
        assert isinstance(context.index, PlacingIndex)
        for chunk in chunks(batches, chunk_bytes(context)):
            keys, paths, rows = keyed_rows(context, chunk)
            names, codes = names_and_codes(paths)
            groups = NumberedGroups.of(context.index, keys, names, codes)
            for blob in groups.blobs(travelling(keys, rows, looked_up(len(keys)))):
                write, reducer = self._target(blob)
                yield blob._replace(write=write, reducer=reducer)

    def _target(self, blob: Blob) -> tuple[int, int]:
        target = self.targets.get((blob.partition, blob.group))
        if target is None:
            raise changed()
        return target


def _pieces(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[tuple[int, int, pa.Table]]:
    """(number of the block, place in it, rows), of about so many bytes at most."""
    seen = 0
    for chunk in chunks(batches, most):
        start = 0
        while start < chunk.num_rows:
            block, place = divmod(seen, BLOCK_ROWS)
            piece = chunk.slice(start, BLOCK_ROWS - place)
            yield block, place, piece
            start += piece.num_rows
            seen += piece.num_rows
