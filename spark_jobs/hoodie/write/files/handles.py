"""Writing file groups: CREATE makes new base files, MERGE writes the next version of an existing one, APPEND
adds to the logs of a merge-on-read slice.

All stream: memory holds the incoming rows of a file group (bounded by the merge budget), two batches of the
stored file and one row group or log block on its way out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.arrays import rows_of
from hoodie.codec.prefetch import prefetch
from hoodie.engine.task import Task
from hoodie.errors import TableError
from hoodie.format.base_file import (
    BaseFileReader,
    BaseFileWriter,
    KeySummary,
    constant,
    sequence_numbers,
)
from hoodie.format.internal_schema import stored_batches
from hoodie.format.meta_fields import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    carried,
)
from hoodie.format.names import BaseFileName, join, new_file_id, new_file_prefix
from hoodie.index import Index, PlacingIndex
from hoodie.read.key_join import Match, Merged, Part, live, merge_batch
from hoodie.storage import Storage
from hoodie.table.handle import TableRef
from hoodie.table.markers import Marker, MarkerType, create_marker, planned_token
from hoodie.table.partition import ensure_partition
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice
from hoodie.timeline.commit import NO_COMMIT, WriteStat
from hoodie.timeline.time import InstantTime
from hoodie.write.context import LEADING, FileContext, WriteContext
from hoodie.write.files.append import Append, filtered
from hoodie.write.files.cdc import ChangeFormat, ChangeLog, LogFiles
from hoodie.write.files.late_records import judge, places_in

#: stored rows move to a new group when their file passes the maximum by this factor: files that just touch
#: it, or that another codec wrote a little smaller, are not cut into a large and a tiny one
_STORED_SLACK = 1.25
#: a file's size is looked at again after this share of the maximum at the latest, when it is near
_NEAR = 0.01


@dataclass
class Counts:
    inserts: int = 0
    updates: int = 0
    deletes: int = 0


class OutputFile:
    """One base file being written: marker first, then data; `close` gives its write statistics."""

    def __init__(
        self,
        context: FileContext,
        storage: Storage,
        *,
        instant: InstantTime,
        partition: str,
        file_id: str,
        task: Task,
        base: BaseFile | None,
        summary: KeySummary,
        first_number: int,
        changes: ChangeFormat | None = None,
        names_base: bool = False,
        holds_keys: bool = False,
    ) -> None:
        """`names_base`: the statistics name the file that this one replaces. `holds_keys`: the record keys
        are held until it is closed.
        """
        self._keys: list[Any] | None = [] if holds_keys else None
        self._names_base = names_base
        token = planned_token(context.base_path, instant, partition, file_id) or task.token
        name = BaseFileName(file_id, token, instant)
        self.name = str(name)
        self.file_id = file_id
        self.partition = partition
        self.counts = Counts()
        self.summary = summary
        self._base = base
        self._relative = join(partition, self.name)
        kind = MarkerType.MERGE if base else MarkerType.CREATE
        create_marker(storage, context.base_path, instant, Marker(self._relative, kind))
        if base is None:  # beside a stored file it is there, or the writer has made it at its begin
            ensure_partition(storage, context.base_path, partition, instant)
        sink = storage.output(join(context.base_path, self._relative))
        self._writer = BaseFileWriter(sink, context.file_schema, context.avro_schema, context.files)
        self._instant = instant
        self._task = task.partition
        self._written = task.written
        self._first_number = first_number
        self._changes: ChangeLog | None = None
        if changes is not None:
            self._changes = ChangeLog(changes, storage, context.base_path, partition, name)

    @property
    def rows(self) -> int:
        return self._writer.rows

    @property
    def size(self) -> int:
        return self._writer.size

    def report_keys(self, index: Index, table: TableRef) -> None:
        """Let an index that follows files know what is in this one, which is closed."""
        if self._keys is not None:
            keys: pa.ChunkedArray[Any] = pa.chunked_array(self._keys, pa.string())
            base = None if self.counts.deletes else self._base
            index.file_written(table, self._relative, keys, base)

    def insert(self, rows: pa.Table) -> None:
        """Append new rows (record key, then data columns)."""
        count = rows.num_rows
        if count == 0:
            return
        keys = rows.column(RECORD_KEY)
        self.summary.add(keys)
        self.counts.inserts += count
        if self._changes is not None:
            self._changes.inserted(rows)
        columns: list[Any] = [
            pa.repeat(self._instant, count),
            self._numbers(count),
            keys,
            constant(self.partition, count),
            constant(self.name, count),
            *rows.columns[LEADING:],
        ]
        self._write(columns)

    def merged(self, stored: pa.Table, merged: Merged) -> None:
        """Count, and log, what a merge did to stored rows, which `carry` is then given."""
        self.counts.updates += merged.updates
        self.counts.deletes += merged.deletes
        if self._changes is not None:
            self._changes.merged(stored, merged)

    def carry(self, rows: pa.Table, fresh: npt.NDArray[np.bool_]) -> None:
        """Append stored rows (`carried` columns at least); rows marked `fresh` were changed by this write."""
        count = rows.num_rows
        if count == 0:
            return
        known: dict[str, Any] = {
            PARTITION_PATH: constant(self.partition, count),
            FILE_NAME: constant(self.name, count),
        }
        if fresh.any():
            mask = pa.array(fresh)
            known[COMMIT_TIME] = pc.if_else(mask, pa.scalar(self._instant), rows.column(COMMIT_TIME))
            known[COMMIT_SEQNO] = pc.if_else(mask, self._numbers(count), rows.column(COMMIT_SEQNO))
        names = self._writer.schema.names
        self._write([known[name] if name in known else rows.column(name) for name in names])

    def close(self, deletes_keys: bool = False) -> WriteStat:
        """`deletes_keys`: the operation is a delete."""
        size = self._writer.close(self.summary)
        if self._written is not None:
            self._written(1, 0)
        counts = self.counts
        return WriteStat(
            file_id=self.file_id,
            path=self._relative,
            cdc_stats=self._close_changes(deletes_keys),
            partition_path=self.partition,
            prev_commit=str(self._base.instant) if self._base else NO_COMMIT,
            extra={"prevBaseFile": self._base.name} if self._base and self._names_base else {},
            num_writes=self.rows,
            num_inserts=counts.inserts,
            num_update_writes=counts.updates,
            num_deletes=counts.deletes,
            total_write_bytes=size,
            file_size_in_bytes=size,
        )

    def abandon(self) -> None:
        self._writer.abandon()
        if self._changes is not None:
            self._changes.abandon()

    def _close_changes(self, deletes_keys: bool) -> dict[str, int] | None:
        """None where readers infer the changes: all rows are new, or all were deleted by a delete. (Apache
        Hudi 0.15.0 also omits the log, and with it deletes, where an upsert deleted all stored rows.)
        """
        if self._changes is None:
            return None
        counts = self.counts
        only_new = self.rows == counts.inserts and not counts.deletes
        if only_new or (deletes_keys and not self.rows):
            self._changes.abandon()
            return None
        return self._changes.close()

    def _numbers(self, count: int) -> pa.Array[Any]:
        return sequence_numbers(self._instant, self._task, self._first_number + self.rows, count)

    def _write(self, columns: list[Any]) -> None:
        rows = pa.Table.from_arrays(columns, schema=self._writer.schema)
        if self._keys is not None:
            self._keys += rows.column(RECORD_KEY).cast(pa.string()).chunks
        self._writer.write(rows)
        if self._written is not None:
            self._written(0, rows.num_rows)


@dataclass
class Handles:
    """Writes the file groups of one task. `rows` counts what it wrote, so that sequence numbers never repeat.

    A context manager: leaving it lets go of a file that a failure left open.
    """

    context: WriteContext
    storage: Storage
    instant: InstantTime
    task: Task
    rows: int = 0
    #: keys to delete that no stored row has, of the file groups since `take_counts`
    missing: int = 0
    _output: OutputFile | LogFiles | None = None

    def __enter__(self) -> Handles:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._output is not None:
            self._output.abandon()

    def take_counts(self) -> dict[str, Any]:
        """Since the last call: how many keys to delete were not there; those of base files are known."""
        missing, self.missing = self.missing, 0
        return {"missing": missing}

    def create(self, partition: str, file_id: str, rows: Iterator[pa.Table]) -> list[WriteStat]:
        """New file groups of `rows`; rolls to `<uuid>-1`, `-2`, … at the maximum file size."""
        prefix, _, first = file_id.rpartition("-")
        return list(self._roll(partition, prefix, int(first), None, rows))

    def merge(self, base: BaseFile, parts: list[Part], inserts: Iterator[pa.Table]) -> list[WriteStat]:
        """The next version of `base`: stored rows merged with `parts`, then rows that are new.

        What no longer fits under the maximum file size goes to new file groups: new rows at once, stored rows
        only when the file would pass the maximum clearly.
        """
        self._detect(base.partition, base.file_id)
        prefix, index, changes = new_file_prefix(), 0, self.context.changes
        limit = self.context.files.max_file_size * _STORED_SLACK
        if changes is not None:  # readers take the rows of a new file group for inserts
            limit = sys.maxsize
        stats: list[WriteStat] = []
        names = self.context.compared
        with open_base(self.storage, base, self.context.file_schema) as reader:
            known = reader.summary(self.context.files)
            summary = known or KeySummary(self.context.files.new_filter())
            first = output = self._open(base.partition, base.file_id, base, summary, changes)
            for stored, matches in prefetch(_matched(reader, base, self.context, parts)):
                merged = merge_batch(self.context.merger, names, stored, matches, parts)
                first.merged(stored, merged)
                start = 0
                for piece in self._pieces(merged.rows, limit):
                    if output.size >= limit:
                        stats.append(self._close(output))
                        known, index = None, index + 1
                        output = self._new(base.partition, prefix, index)
                    if known is None:
                        output.summary.add(piece.column(RECORD_KEY))
                    output.carry(piece, merged.fresh[start : start + piece.num_rows])
                    start += piece.num_rows
            # the reader is open, as the summary may need the stored keys again
            stats += self._roll(base.partition, prefix, index, output, self._unmatched(parts, inserts))
        if not self.context.operation.brings_rows:
            self.missing += sum(part.unmatched().num_rows for part in parts)
        counts = first.counts
        stats[0] = replace(stats[0], num_update_writes=counts.updates, num_deletes=counts.deletes)
        return stats

    def append(self, slice_: FileSlice, parts: list[Part], gone: Sequence[Part] = ()) -> list[WriteStat]:
        """Add rows whose keys the slice has to its logs; no file is made when all are older than stored ones.
        The keys to delete of `gone` go behind them.

        Rows of keys that a pending compaction takes out of the base file go to new file groups (see Verdict).
        Raises TableError for such rows where the index says which file group they belong to.
        """
        context = self.context
        assert context.logs is not None
        self._detect(slice_.partition, slice_.file_id)
        if slice_.base is None and not slice_.logs:
            ensure_partition(self.storage, context.base_path, slice_.partition, self.instant)
        slicing = context.snapshot.slicing
        planned = planned_token(context.base_path, self.instant, slice_.partition, slice_.file_id)
        name = slice_.new_log(slicing, self.instant, planned or self.task.token)
        logs = LogFiles(
            self.storage,
            context.base_path,
            self.instant,
            name,
            slice_,
            context.logs,
            slicing.of_writes,
            whole=context.changes is not None,
        )
        self._output = logs
        work = Append(context, self.instant, self.task.partition, slice_, logs, self.rows)
        verdicts = judge(context, self.storage, slice_, parts)
        work.run(parts, verdicts)
        work.delete(gone)
        self.rows += work.written
        stats = logs.close()
        if self.task.written is not None:
            self.task.written(1, work.written)
        inserts = (
            filtered(part.rows, verdict.inserts) for part, verdict in zip(parts, verdicts, strict=True)
        )
        placed = isinstance(context.index, PlacingIndex)
        if (placed and work.written) or any((each.returned & each.updates).any() for each in verdicts):
            stats = [replace(stat, may_insert=True) for stat in stats]
        if placed:
            check_not_hidden(slice_, inserts)
            return stats
        return [*stats, *self.create(slice_.partition, new_file_id(), inserts)]

    def _detect(self, partition: str, file_id: str) -> None:
        """Raises CommitConflict where others are known to change the file group, if that is looked for."""
        if self.context.early is not None:
            self.context.early.check(self.context.table, self.storage, self.instant, partition, file_id)

    def _unmatched(self, parts: list[Part], inserts: Iterator[pa.Table]) -> Iterator[pa.Table]:
        yield from (part.unmatched() for part in parts if not part.used.all())
        yield from inserts

    def _roll(
        self, partition: str, prefix: str, index: int, output: OutputFile | None, rows: Iterator[pa.Table]
    ) -> Iterator[WriteStat]:
        limit, slack = self.context.files.max_file_size, self.context.files.slack
        for table in (self.context.unflagged(live(self.context.merger, given)) for given in rows):
            left = table.num_rows
            for piece in self._pieces(table, limit):
                if output is not None and output.size >= limit and left > output.rows * slack:
                    yield self._close(output)
                    output, index = None, index + 1
                if output is None:
                    output = self._new(partition, prefix, index)
                output.insert(piece)
                left -= piece.num_rows
        if output is not None:
            yield self._close(output)

    def _open(
        self,
        partition: str,
        file_id: str,
        base: BaseFile | None,
        summary: KeySummary,
        changes: ChangeFormat | None = None,
    ) -> OutputFile:
        output = OutputFile(
            self.context,
            self.storage,
            instant=self.instant,
            partition=partition,
            file_id=file_id,
            task=self.task,
            base=base,
            summary=summary,
            first_number=self.rows,
            changes=changes,
            names_base=self.context.snapshot.slicing.of_writes,
            holds_keys=self.context.index is not None and self.context.index.follows_files,
        )
        self._output = output
        return output

    def _new(self, partition: str, prefix: str, index: int) -> OutputFile:
        summary = KeySummary(self.context.files.new_filter())
        return self._open(partition, new_file_id(prefix, index), None, summary)

    def _pieces(self, rows: pa.Table, limit: float) -> Iterator[pa.Table]:
        """The rows in slices after each of which the open file's size is looked at: at most a row group of
        them, and near the limit about as many as still fit.
        """
        step = min(self.context.files.block_size, max(1, self.context.files.max_file_size // 2))
        most = rows_of(rows, step)
        start = 0
        while start < rows.num_rows:
            count, output = most, self._output
            if isinstance(output, OutputFile) and output.rows and 0 < (size := output.size) < limit:
                room = max(limit - size, limit * _NEAR)
                count = min(most, max(1, int(room * output.rows / size)))
            yield rows.slice(start, count)
            start += count

    def _close(self, output: OutputFile) -> WriteStat:
        self.rows += output.rows
        stat = output.close(deletes_keys=not self.context.operation.brings_rows)
        if self.context.index is not None:
            output.report_keys(self.context.index, self.context.table)
        self._output = None
        return stat


def check_not_hidden(slice_: FileSlice, rows: Iterator[pa.Table]) -> None:
    """Raises TableError for rows that need another file group than that of their keys."""
    for table in rows:
        if table.num_rows:
            key = str(table.column(RECORD_KEY)[0].as_py())
            raise TableError(
                f"key {key!r} was deleted in the log of file group {slice_.file_id} of partition "
                f"{slice_.partition!r}, whose base file has a newer row of it, which readers would show "
                "again. Compact the table, then write again",
                key=key,
                partition=slice_.partition,
                file_id=slice_.file_id,
            )


def pieces(rows: pa.Table, target_bytes: int) -> Iterator[pa.Table]:
    """The rows in slices of about this size in memory."""
    step = rows_of(rows, target_bytes)
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)


def _matched(
    reader: BaseFileReader, base: BaseFile, context: WriteContext, parts: list[Part]
) -> Iterator[tuple[pa.Table, Iterator[Match]]]:
    """Batches of the stored file in the table's schema, with what of `parts` has the same key."""
    places, start = places_in(reader, parts), 0
    schema = context.file_schema
    target = pa.schema([schema.field(name) for name in carried(schema)])
    for table in stored_batches(reader, target, context.columns(base.instant)):
        yield table, places.between(start, start + table.num_rows)
        start += table.num_rows
