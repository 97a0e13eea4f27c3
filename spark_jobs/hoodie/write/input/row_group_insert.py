"""Writing new file groups without a shuffle: Parquet row groups whose statistics say which partition they
belong to.

Sources laid out by day or by folder are of this kind. Every write task reads its row groups and writes their
files in one pass; no row is staged, cached or shuffled. All other sources take the staged way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.engine.files import FileFrame, FileScan, Piece
from hoodie.engine.origin import noting
from hoodie.engine.task import Task, task_numbers
from hoodie.errors import HoodieError, InputError, JobError
from hoodie.table.handle import Table
from hoodie.timeline.time import InstantTime
from hoodie.write.assign.workload import Assignment, FileGroupWrite, WorkloadProfile
from hoodie.write.blobs import error_message
from hoodie.write.context import WriteContext
from hoodie.write.files.handles import Handles
from hoodie.write.files.write_task import write_new
from hoodie.write.input.incoming import key_columns, keyed_rows, unstored
from hoodie.write.input.stage import check_apart, check_partition


@dataclass(frozen=True)
class DirectWrite:
    """The function given to `map_batches` on a frame of task numbers; `tasks` are numbers of `writes`."""

    context: WriteContext
    instant: InstantTime
    scan: FileScan
    writes: tuple[FileGroupWrite, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    tasks: tuple[tuple[int, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        with noting():
            yield from self._written(batches, task)

    def _written(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            with Handles(self.context, storage, self.instant, task) as handles:
                for number in (number for mine in task_numbers(batches) for number in self.tasks[mine]):
                    write = self.writes[number]
                    yield write_new(handles, write.partition, write.file_id, self._rows(write))
        except HoodieError as error:
            yield error_message(error)

    def _rows(self, write: FileGroupWrite) -> Iterator[pa.Table]:
        for batch in self.scan.batches(self.pieces[write.number]):
            if batch.num_rows == 0:
                continue
            keys, paths, rows = keyed_rows(self.context, pa.Table.from_batches([batch]))
            found = paths.dictionary.to_pylist()
            if found != [write.partition]:
                raise JobError(
                    f"the statistics of a source file promise partition {write.partition!r}, its rows are "
                    f"of {found!r}; write the file anew, or load the source as a DataFrame",
                    partition=write.partition,
                )
            yield unstored(keys, rows)


@dataclass(frozen=True)
class RowGroupInsertPlan:
    """Which row groups go into which partition; `profile` is what staging would have found."""

    scan: FileScan
    profile: WorkloadProfile
    pieces: dict[str, tuple[Piece, ...]]

    @classmethod
    def of(cls, frame: FileFrame, context: WriteContext, table: Table) -> RowGroupInsertPlan | None:
        """None where the rows have to be looked at first."""
        if not context.streams or not frame.pieces or not isinstance(frame.scan, FileScan):
            return None
        paths = _partition_paths(frame, context)
        if paths is None:
            return None
        pieces: dict[str, list[Piece]] = {}
        for path, piece in zip(paths, frame.pieces, strict=True):
            if piece.rows:
                pieces.setdefault(path, []).append(piece)
        groups = {
            (path, ""): [sum(piece.rows for piece in mine), sum(piece.memory for piece in mine)]
            for path, mine in pieces.items()
        }
        _check_partitions(table, context, sorted(pieces))
        profile = WorkloadProfile(groups=groups, input_partitions=len(frame.pieces))
        return cls(frame.scan, profile, {path: tuple(mine) for path, mine in pieces.items()})

    def write(self, context: WriteContext, assignment: Assignment, instant: InstantTime) -> DirectWrite:
        """The function of the write tasks."""
        pieces: list[tuple[Piece, ...]] = [()] * len(assignment.writes)
        for path, mine in self.pieces.items():
            shares = assignment.inserts[path]
            for (number, _), part in zip(shares, _cut(mine, len(shares)), strict=True):
                pieces[number] = part
        tasks: list[list[int]] = [[] for _ in range(assignment.reducer_count)]
        for number, reducer in enumerate(assignment.reducers):
            if pieces[number]:
                tasks[reducer].append(number)
        return DirectWrite(
            context,
            instant,
            self.scan,
            assignment.writes,
            tuple(pieces),
            tuple(tuple(mine) for mine in tasks if mine),
        )


def _partition_paths(frame: FileFrame, context: WriteContext) -> list[str] | None:
    """The partition path of every piece, or None when a key may be null or a path varies in a piece."""
    keys = context.keys
    if any(name not in frame.schema.names for name in keys.key_columns):
        return None
    records = [name for name in keys.key_columns if name not in keys.partition_fields]
    if not all(frame.complete(piece, name) for piece in frame.pieces for name in records):
        return None
    columns: dict[str, pa.Array[Any]] = {}
    for name in keys.partition_fields:
        if name not in frame.schema.names:
            return None
        values = [frame.constant(piece, name) for piece in frame.pieces]
        if any(value is None for value in values):
            return None
        columns[name] = pa.array(
            [value.as_py() for value in values if value is not None], frame.schema.field(name).type
        )
    if not columns:
        return [""] * len(frame.pieces)
    try:
        codes = context.keys.partition_codes(key_columns(context, pa.table(columns)))
    except InputError:
        return None  # staging names the row
    paths: Any = codes
    return [str(path) for path in paths.to_pylist()]


def _check_partitions(table: Table, context: WriteContext, paths: Sequence[str]) -> None:
    listing = table.listing()
    fields = context.keys.partition_fields
    for path in paths:
        if path:
            check_partition(table, path, fields, listing.files(path))
    check_apart(paths)


def _cut(pieces: Sequence[Piece], count: int) -> list[tuple[Piece, ...]]:
    """`count` runs of neighbours of about equal rows; the last ones may be empty."""
    total = sum(piece.rows for piece in pieces)
    parts: list[list[Piece]] = [[] for _ in range(count)]
    seen = 0
    for piece in pieces:
        parts[min(count - 1, seen * count // max(1, total))].append(piece)
        seen += piece.rows
    return [tuple(part) for part in parts]
