"""Parquet files as a frame: executors read the row groups themselves, so no row passes through the JVM.

What a row group's statistics say of a column (no nulls; one value in all rows) lets a plan be made without
reading rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from hoodie.config.cores import usable_cores
from hoodie.engine.expressions import Computation
from hoodie.engine.origin import note, noting
from hoodie.engine.parquet_open import check_not_encrypted, parquet_file
from hoodie.engine.task import BatchFunction, Task, task_numbers
from hoodie.errors import InputError

#: statistics of longer texts may be cut by the writer
_EXACT_BYTES = 32
#: compressed bytes that a task reads at most, and at least
_LARGEST, _SMALLEST = 128 << 20, 4 << 20
_BATCH_ROWS, _BATCH_BYTES = 131072, 16 << 20
#: uncompressed bytes beyond which a row group is decoded batch by batch: Arrow's datasets decode it as a
#: whole
_WHOLE_BYTES = 16 << 20
#: compressed bytes that are read at once of each column of such a row group
_BUFFER_BYTES = 1 << 20
#: row groups that are looked at for the size of a row
_SAMPLED = 16
#: datasets of Arrow whose fragments may be files; others are of this package
_OF_FILES = (ds.FileSystemDataset, ds.UnionDataset)


@dataclass(frozen=True)
class Piece:
    """One row group of one file; `size` is compressed bytes, `memory` uncompressed ones."""

    file: int
    row_group: int
    rows: int
    size: int
    memory: int


@dataclass(frozen=True)
class FileScan:
    """Reads pieces; picklable. `files` are fragments without their footers."""

    files: tuple[Any, ...]
    schema: pa.Schema

    def only(self, names: Sequence[str]) -> FileScan:
        """The same rows with these columns; nothing else is read then."""
        return FileScan(self.files, pa.schema([self.schema.field(name) for name in names]))

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Rows of the pieces in the frame's schema, piece after piece."""
        for piece in pieces:
            note(self.files[piece.file].path)
            with reading(self.files[piece.file].path):
                yield from self._decoded(piece) if piece.memory > _WHOLE_BYTES else self._scanned(piece)

    def _scanned(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        fragment = self.files[piece.file].subset(row_group_ids=[piece.row_group])
        scanner = fragment.scanner(
            schema=self.schema,
            use_threads=False,
            batch_size=_BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
        )
        yield from scanner.to_batches()

    def _decoded(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """The rows as the scanner gives them, of which one batch is held."""
        fragment = self.files[piece.file]
        in_path = ds.get_partition_keys(fragment.partition_expression)
        rows = max(1, min(_BATCH_ROWS, piece.rows * _BATCH_BYTES // max(1, piece.memory)))
        with (
            fragment.filesystem.open_input_file(fragment.path) as source,
            parquet_file(source, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            stored = frozenset(file.schema_arrow.names) - in_path.keys()
            # a batch without columns has no number of rows
            names = [name for name in self.schema.names if name in stored] or file.schema_arrow.names[:1]
            for batch in file.iter_batches(rows, [piece.row_group], names, use_threads=False):
                yield pa.RecordBatch.from_arrays(
                    [_column(batch, field, in_path) for field in self.schema], schema=self.schema
                )


def _column(batch: pa.RecordBatch, field: pa.Field[Any], in_path: Mapping[str, Any]) -> pa.Array[Any]:
    if field.name not in in_path and field.name in batch.schema.names:
        stored: Any = batch.column(field.name)
    else:
        stored = pa.repeat(pa.scalar(in_path.get(field.name), field.type), batch.num_rows)
    found: pa.Array[Any] = stored if stored.type == field.type else stored.cast(field.type)
    return found


@dataclass(frozen=True)
class ComputedScan:
    """Rows that are computed of those of a scan."""

    stored: FileScan
    computation: Computation

    @property
    def files(self) -> tuple[Any, ...]:
        return self.stored.files

    @property
    def schema(self) -> pa.Schema:
        return self.computation.schema

    def only(self, names: Sequence[str]) -> ComputedScan:
        """The same rows with these columns; what they don't need isn't read."""
        computation = self.computation.only(names)
        inputs, stored = computation.inputs(), self.stored.schema.names
        # a batch without columns has no number of rows
        read = [name for name in stored if name in inputs] or stored[:1]
        return ComputedScan(self.stored.only(read), computation)

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Rows of the pieces in the frame's schema, piece after piece."""
        return self.computation.rows(self.stored.batches(pieces))


@dataclass(frozen=True)
class FileFrame:
    """All row groups of a Parquet dataset, or rows computed of them, of which `pieces` and `footers` say
    nothing. `footers` are in the order of `scan.files`.
    """

    scan: FileScan | ComputedScan
    pieces: tuple[Piece, ...]
    footers: tuple[pq.FileMetaData, ...] = field(repr=False)

    @classmethod
    def of(cls, dataset: ds.Dataset) -> FileFrame | None:
        """None where a fragment is no Parquet file, or rows are filtered. Reads every footer.

        Raises InputError for one that can't be read.
        """
        if not isinstance(dataset, ds.FileSystemDataset | ds.UnionDataset):
            return None
        try:
            fragments: list[Any] = list(dataset.get_fragments())
        except ValueError:  # a filtered dataset
            return None
        if not all(isinstance(fragment, ds.ParquetFileFragment) for fragment in fragments):
            return None
        footers = tuple(read_footers(fragments))
        if all(isinstance(fragment.filesystem, pafs.LocalFileSystem) for fragment in fragments):
            check_not_encrypted(fragments, footers)
        pieces = []
        for number, footer in enumerate(footers):
            for group in range(footer.num_row_groups):
                row_group: Any = footer.row_group(group)
                size = sum(
                    row_group.column(column).total_compressed_size for column in range(row_group.num_columns)
                )
                pieces.append(Piece(number, group, row_group.num_rows, size, row_group.total_byte_size))
        plain = tuple(
            fragment.format.make_fragment(
                fragment.path, fragment.filesystem, partition_expression=fragment.partition_expression
            )
            for fragment in fragments
        )
        return cls(FileScan(plain, dataset.schema), tuple(pieces), footers)

    @property
    def schema(self) -> pa.Schema:
        return self.scan.schema

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)

    @property
    def width(self) -> int:
        """About the bytes of a row in memory: those of the columns that are read, in a few row groups."""
        read = frozenset((self.scan if isinstance(self.scan, FileScan) else self.scan.stored).schema.names)
        rows = size = 0
        for piece in self.pieces[:: max(1, len(self.pieces) // _SAMPLED)]:
            row_group: Any = self.footers[piece.file].row_group(piece.row_group)
            columns = (row_group.column(number) for number in range(row_group.num_columns))
            rows += piece.rows
            size += sum(
                column.total_uncompressed_size
                for column in columns
                if column.path_in_schema.split(".")[0] in read
            )
        return max(1, size // max(1, rows))

    def only(self, names: Sequence[str]) -> FileFrame:
        """The same rows with these columns; nothing else is read then."""
        return FileFrame(self.scan.only(names), self.pieces, self.footers)

    def few(self, most_bytes: int, most_rows: int) -> pa.Table | None:
        """The rows, where they are at most so many, of so many bytes uncompressed; else None."""
        if self.rows > most_rows or sum(piece.memory for piece in self.pieces) > most_bytes:
            return None
        return pa.Table.from_batches(self.scan.batches(self.pieces), self.schema)

    def computed(self, computation: Computation) -> FileFrame:
        """The rows that are computed of these."""
        assert isinstance(self.scan, FileScan)
        scan = ComputedScan(self.scan, computation).only(computation.schema.names)
        return FileFrame(scan, self.pieces, self.footers)

    def tasks(self, parallelism: int) -> tuple[tuple[Piece, ...], ...]:
        """Pieces by task: neighbours together, at least one task."""
        total = sum(piece.size for piece in self.pieces)
        share = min(_LARGEST, max(_SMALLEST, total // max(1, parallelism)))
        tasks: list[list[Piece]] = [[]]
        held = 0
        for piece in self.pieces:
            if held and held + piece.size > share:
                tasks.append([])
                held = 0
            tasks[-1].append(piece)
            held += piece.size
        return tuple(tuple(task) for task in tasks)

    def reader(self, tasks: tuple[tuple[Piece, ...], ...], function: BatchFunction) -> BatchFunction:
        """`function` on the rows of pieces, for a frame of the numbers of tasks."""
        return OverFiles(self.scan, tasks, function)

    def constant(self, piece: Piece, name: str) -> pa.Scalar[Any] | None:
        """The column's value when all rows of the piece are known to have the same one, which is no null."""
        dtype = self.schema.field(name).type
        in_path = ds.get_partition_keys(self.scan.files[piece.file].partition_expression)
        if name in in_path:
            value = in_path[name]
            return None if value is None else pa.scalar(value).cast(dtype)
        found = self._statistics(piece, name)
        if found is None or not (found.has_min_max and found.has_null_count) or found.null_count:
            return None
        low = found.min
        if low != found.max or (isinstance(low, (str, bytes)) and len(low) >= _EXACT_BYTES):
            return None
        return cast("pa.Scalar[Any]", pa.scalar(low, dtype))

    def complete(self, piece: Piece, name: str) -> bool:
        """Does the piece have the column, and is it known to hold no null."""
        if ds.get_partition_keys(self.scan.files[piece.file].partition_expression).get(name) is not None:
            return True
        found = self._statistics(piece, name)
        return found is not None and found.has_null_count and found.null_count == 0

    def _statistics(self, piece: Piece, name: str) -> Any:
        index = self._places[piece.file].get(name)
        if index is None:
            return None
        return self.footers[piece.file].row_group(piece.row_group).column(index).statistics

    @cached_property
    def _places(self) -> list[dict[str, int]]:
        """Where each file has the column of a path."""
        return [
            {footer.schema.column(index).path: index for index in range(footer.num_columns)}
            for footer in self.footers
        ]


def of_library(error: Exception) -> bool:
    """Is it an error of a library that can't read a file: those of the operating system have a number."""
    return not isinstance(error, pa.ArrowMemoryError) and getattr(error, "errno", None) is None


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what a library says of a file that it can't read into an InputError that names it."""
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if not of_library(error):
            raise
        why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(". ")
        raise InputError(f"{path} can't be read as parquet: {why}; check the file", file=path) from error


def bad_file(rows: Any) -> InputError | None:
    """The error of the first Parquet file of a dataset that can't be read, after reading had failed; None for
    other rows, and where all can be read.
    """
    try:
        fragments = list(rows.get_fragments()) if isinstance(rows, _OF_FILES) else []
    except ValueError:  # a filtered dataset
        return None
    for fragment in fragments:
        try:
            with reading(fragment.path):
                for _ in fragment.to_batches(schema=rows.schema, use_threads=False):
                    pass
        except InputError as error:
            return error
    return None


def read_footers(fragments: Sequence[Any]) -> list[pq.FileMetaData]:
    """Footers of Parquet fragments, several at a time. Fragments keep theirs: asked again, none is read."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(lambda fragment: fragment.metadata, fragments))


@dataclass(frozen=True)
class OverFiles:
    """A batch function whose input is not the frame's rows, which are task numbers, but those of files."""

    scan: FileScan | ComputedScan
    tasks: tuple[tuple[Piece, ...], ...]
    function: BatchFunction

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        pieces = [piece for number in task_numbers(batches) for piece in self.tasks[number]]
        with noting():
            yield from self.function(self.scan.batches(pieces), task)
