"""Writing file groups: CREATE makes new base files, MERGE writes the next version of an existing one.

Both stream: memory holds the bucket's incoming rows (bounded by the merge budget), one batch of the stored
file and one row group on its way out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine import Task
from hoodie.format.base_file import (
    BaseFileReader,
    BaseFileWriter,
    KeySummary,
    constant,
    sequence_numbers,
)
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY
from hoodie.format.names import BaseFileName, join, new_file_id
from hoodie.index import REPEATED
from hoodie.storage import Storage
from hoodie.table.markers import Marker, MarkerType, create_marker
from hoodie.table.partition import ensure_partition
from hoodie.table.view import BaseFile
from hoodie.timeline.commit import WriteStat
from hoodie.write.context import LEADING, STORED_ROW, WriteContext
from hoodie.write.rowset import Part

#: stored rows move to a new group when their file passes the maximum by this factor: files that just touch
#: it, or that another codec wrote a little smaller, are not cut into a large and a tiny one
_STORED_SLACK = 1.25
#: new rows that would make less than this share of another full file stay in the full one
_TAIL = 0.1


@dataclass
class Counts:
    inserts: int = 0
    updates: int = 0
    deletes: int = 0


class OutputFile:
    """One base file being written: marker first, then data; `close` gives its write statistics."""

    def __init__(
        self,
        context: WriteContext,
        storage: Storage,
        instant: str,
        partition: str,
        file_id: str,
        task: Task,
        base: BaseFile | None,
        summary: KeySummary,
        first_number: int,
    ) -> None:
        self.name = str(BaseFileName(file_id, task.token, instant))
        self.file_id = file_id
        self.partition = partition
        self.counts = Counts()
        self.summary = summary
        self._base = base
        self._relative = join(partition, self.name)
        kind = MarkerType.MERGE if base else MarkerType.CREATE
        create_marker(storage, context.base_path, instant, Marker(self._relative, kind))
        ensure_partition(storage, context.base_path, partition, instant)
        sink = storage.open_output(join(context.base_path, self._relative))
        self._writer = BaseFileWriter(sink, context.file_schema, context.avro_schema, context.files)
        self._instant = instant
        self._task = task.partition
        self._first_number = first_number

    @property
    def rows(self) -> int:
        return self._writer.rows

    @property
    def size(self) -> int:
        return self._writer.size

    def insert(self, rows: pa.Table) -> None:
        """Append new rows (record key, then data columns)."""
        count = rows.num_rows
        if count == 0:
            return
        keys = rows.column(RECORD_KEY)
        self.summary.add(keys)
        self.counts.inserts += count
        columns: list[Any] = [
            pa.repeat(self._instant, count),
            self._numbers(count),
            keys,
            constant(self.partition, count),
            constant(self.name, count),
            *rows.columns[LEADING:],
        ]
        self._write(columns)

    def carry(self, rows: pa.Table, fresh: npt.NDArray[np.bool_]) -> None:
        """Append stored rows (all columns); rows marked `fresh` were changed by this write."""
        count = rows.num_rows
        if count == 0:
            return
        if fresh.any():
            mask = pa.array(fresh)
            stamp = pc.if_else(mask, pa.scalar(self._instant), rows.column(COMMIT_TIME))
            numbers = pc.if_else(mask, self._numbers(count), rows.column(COMMIT_SEQNO))
            rows = rows.set_column(0, COMMIT_TIME, stamp)
            rows = rows.set_column(1, COMMIT_SEQNO, numbers)
        columns: list[Any] = rows.columns
        columns[3], columns[4] = constant(self.partition, count), constant(self.name, count)
        self._write(columns)

    def close(self) -> WriteStat:
        size = self._writer.close(self.summary)
        counts = self.counts
        return WriteStat(
            file_id=self.file_id,
            path=self._relative,
            partition_path=self.partition,
            prev_commit=self._base.instant if self._base else "null",
            num_writes=self.rows,
            num_inserts=counts.inserts,
            num_update_writes=counts.updates,
            num_deletes=counts.deletes,
            total_write_bytes=size,
            file_size_in_bytes=size,
        )

    def abandon(self) -> None:
        self._writer.abandon()

    def _numbers(self, count: int) -> pa.Array[Any]:
        return sequence_numbers(self._instant, self._task, self._first_number + self.rows, count)

    def _write(self, columns: list[Any]) -> None:
        self._writer.write(pa.Table.from_arrays(columns, schema=self._writer.schema))


@dataclass
class Handles:
    """Writes the buckets of one task. `rows` counts what it wrote, so that sequence numbers never repeat.

    A context manager: leaving it lets go of a file that a failure left open.
    """

    context: WriteContext
    storage: Storage
    instant: str
    task: Task
    rows: int = 0
    _output: OutputFile | None = None

    def __enter__(self) -> Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._output is not None:
            self._output.abandon()

    def create(self, partition: str, file_id: str, rows: Iterator[pa.Table]) -> list[WriteStat]:
        """New file groups of `rows`; rolls to `<uuid>-1`, `-2`, … at the maximum file size."""
        prefix, _, first = file_id.rpartition("-")
        return list(self._roll(partition, prefix, int(first), None, rows))

    def merge(self, base: BaseFile, parts: list[Part], inserts: Iterator[pa.Table]) -> list[WriteStat]:
        """The next version of `base`: stored rows merged with `parts`, then rows that are new.

        What no longer fits under the maximum file size goes to new file groups: new rows at once, stored rows
        only when the file would pass the maximum clearly.
        """
        limit, prefix, index = self.context.files.max_file_size * _STORED_SLACK, str(uuid.uuid4()), 0
        stats: list[WriteStat] = []
        with BaseFileReader(self.storage, base.path) as reader:
            known = reader.summary(self.context.files)
            summary = known or KeySummary(self.context.files.new_filter())
            first = output = self._open(base.partition, base.file_id, base, summary)
            for stored, matches in _matched(reader, self.context, parts):
                rows, fresh = self._merge_batch(stored, matches, parts, first.counts)
                start = 0
                for piece in _pieces(rows, self._step):
                    if output.size >= limit:
                        stats.append(self._close(output))
                        known, index = None, index + 1
                        output = self._new(base.partition, prefix, index)
                    if known is None:
                        output.summary.add(piece.column(RECORD_KEY))
                    output.carry(piece, fresh[start : start + piece.num_rows])
                    start += piece.num_rows
        stats += self._roll(base.partition, prefix, index, output, self._unmatched(parts, inserts))
        counts = first.counts
        stats[0] = replace(stats[0], num_update_writes=counts.updates, num_deletes=counts.deletes)
        return stats

    def _merge_batch(
        self,
        stored: pa.Table,
        matches: list[Match],
        parts: list[Part],
        counts: Counts,
    ) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
        """(rows that stay, which of them changed); `matches`: (part, rows of stored, rows of the part)."""
        fresh = np.zeros(stored.num_rows, dtype=np.bool_)
        gone = np.zeros(stored.num_rows, dtype=np.bool_)
        merger = self.context.merger
        looked_at = merger.columns(self.context.schema)
        names = list(self.context.schema.names if looked_at is None else looked_at)
        for number, here, there in matches:
            part = parts[number]
            part.used[there] = True
            incoming = part.rows.take(there)
            before = stored.select(names).take(here)
            outcome = merger.merge(before, incoming.select(names))
            replaced = outcome.take & ~outcome.delete
            gone[here[outcome.delete]] = True
            fresh[here[replaced]] = True
            counts.updates += int(replaced.sum())
            counts.deletes += int(outcome.delete.sum())
            if replaced.any():
                source = incoming if outcome.rows is None else outcome.rows
                if not replaced.all():
                    source = source.filter(pa.array(replaced))
                stored = _replace(stored, here[replaced], source)
        if gone.any():
            keep = ~gone
            return stored.filter(pa.array(keep)), fresh[keep]
        return stored, fresh

    def _unmatched(self, parts: list[Part], inserts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for part in parts:
            left = ~part.used
            if left.any():
                yield part.rows if left.all() else part.rows.filter(pa.array(left))
        yield from inserts

    def _live(self, rows: pa.Table) -> pa.Table:
        """Without rows that delete a key which is not there."""
        deleted = self.context.merger.deleted(rows)
        return rows.filter(pa.array(~deleted)) if deleted.any() else rows

    def _roll(
        self, partition: str, prefix: str, index: int, output: OutputFile | None, rows: Iterator[pa.Table]
    ) -> Iterator[WriteStat]:
        limit = self.context.files.max_file_size
        for table in map(self._live, rows):
            left = table.num_rows
            for piece in _pieces(table, self._step):
                if output is not None and output.size >= limit and left > output.rows * _TAIL:
                    yield self._close(output)
                    output, index = None, index + 1
                if output is None:
                    output = self._new(partition, prefix, index)
                output.insert(piece)
                left -= piece.num_rows
        if output is not None:
            yield self._close(output)

    def _open(self, partition: str, file_id: str, base: BaseFile | None, summary: KeySummary) -> OutputFile:
        self._output = OutputFile(
            self.context, self.storage, self.instant, partition, file_id, self.task, base, summary, self.rows
        )
        return self._output

    def _new(self, partition: str, prefix: str, index: int) -> OutputFile:
        summary = KeySummary(self.context.files.new_filter())
        return self._open(partition, new_file_id(prefix, index), None, summary)

    @property
    def _step(self) -> int:
        """Bytes of rows after which a file's size is looked at again."""
        return max(1, min(self.context.files.block_size, self.context.files.max_file_size // 2))

    def _close(self, output: OutputFile) -> WriteStat:
        self.rows += output.rows
        return output.close()


def _pieces(rows: pa.Table, target_bytes: int) -> Iterator[pa.Table]:
    if rows.num_rows == 0:
        return
    step = max(1, int(rows.num_rows * target_bytes / max(target_bytes, rows.nbytes)))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


Match = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _matched(
    reader: BaseFileReader, context: WriteContext, parts: list[Part]
) -> Iterator[tuple[pa.Table, list[Match]]]:
    """Batches of the stored file in the table's schema, with what of `parts` has the same key.

    The index told every key's row, so no key is compared again, except where a file holds a key twice.
    """
    places = None if any(_repeats(part) for part in parts) else _Places.of(parts, reader.rows)
    start = 0
    for batch in reader.batches():
        table = read_as(pa.Table.from_batches([batch]), context.file_schema)
        if places is None:
            matches = _looked_up(table.column(RECORD_KEY), parts)
        else:
            matches = places.between(start, start + batch.num_rows)
        start += batch.num_rows
        yield table, matches


def _repeats(part: Part) -> bool:
    return bool(pc.any(pc.equal(part.rows.column(STORED_ROW), pa.scalar(REPEATED, pa.int32()))).as_py())


@dataclass(frozen=True)
class _Places:
    """For every stored row the part and row that has its key; 6 bytes a stored row."""

    part: npt.NDArray[np.int16]
    row: npt.NDArray[np.int32]
    parts: int

    @classmethod
    def of(cls, parts: list[Part], stored: int) -> _Places:
        owner = np.full(stored, -1, dtype=np.int16)
        row = np.zeros(stored, dtype=np.int32)
        for number, part in enumerate(parts):
            places = part.rows.column(STORED_ROW).to_numpy()
            known = np.flatnonzero(places >= 0)
            owner[places[known]] = number
            row[places[known]] = known
        return cls(owner, row, len(parts))

    def between(self, start: int, stop: int) -> list[Match]:
        owner = self.part[start:stop]
        found: list[Match] = []
        for number in range(self.parts):
            here = np.flatnonzero(owner == number)
            if len(here):
                found.append((number, here, self.row[start + here].astype(np.int64)))
        return found


def _looked_up(keys: pa.ChunkedArray[Any], parts: list[Part]) -> list[Match]:
    found: list[Match] = []
    for number, part in enumerate(parts):
        hits: Any = pc.index_in(keys, value_set=part.keys)
        places = hits.fill_null(-1).to_numpy().astype(np.int64)
        here = np.flatnonzero(places >= 0)
        if len(here):
            found.append((number, here, places[here]))
    return found


def _replace(stored: pa.Table, rows: npt.NDArray[np.int64], incoming: pa.Table) -> pa.Table:
    """`stored` with the data columns of `rows` (ascending) taken from `incoming`, row by row."""
    count = stored.num_rows
    mask = np.zeros(count, dtype=np.bool_)
    mask[rows] = True
    arrow_mask = pa.array(mask)
    order: npt.NDArray[np.int64] | None = None
    columns: dict[str, Any] = dict(zip(stored.column_names, stored.columns, strict=True))
    for name in incoming.column_names:
        if name in (RECORD_KEY, STORED_ROW):
            continue
        old, new = columns[name].combine_chunks(), incoming.column(name).combine_chunks()
        if pa.types.is_nested(old.type):
            if order is None:
                order = np.arange(count, dtype=np.int64)
                order[rows] = count + np.arange(len(rows))
            columns[name] = pa.concat_arrays([old, new]).take(order)
        else:
            columns[name] = pc.replace_with_mask(old, arrow_mask, new)
    return pa.Table.from_arrays([columns[name] for name in stored.column_names], schema=stored.schema)
