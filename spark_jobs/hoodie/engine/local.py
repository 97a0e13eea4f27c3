"""Engine on Arrow tables and threads: small writes, services and fast tests, no JVM."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hoodie.config.cores import usable_cores
from hoodie.engine import Engine, Scan
from hoodie.engine.files import FileFrame
from hoodie.engine.origin import noting
from hoodie.engine.spool import Refusal, Room, Spool
from hoodie.engine.streams import Stream
from hoodie.engine.task import BatchFunction, Task, Written
from hoodie.errors import JobError

#: rows of one batch handed to a function
BATCH_ROWS = 65536
#: values that are read from a spool at once, save where one is larger
_VALUE_BYTES = 1 << 20
#: a task is worth a thread where it may hold so much, beside what every task needs
_TASK_BYTES = 32 << 20
#: tasks that wait for a network: so many a processor, as long as they are not more than these
_WAITING, _MOST_WAITING = 4, 16
_T = TypeVar("_T")
Source = Callable[[], Iterator[pa.RecordBatch]]


@dataclass
class LocalFrame:
    """Partitions as functions that give batches; calling one runs its steps."""

    schema: pa.Schema
    partitions: list[Source]


@dataclass
class StoredFrame(LocalFrame):
    """Rows that were computed. `tables` are the partitions, with numbers for the values of the columns that
    have spools.
    """

    tables: list[pa.Table]
    spools: Mapping[str, Spool]

    @classmethod
    def of(cls, schema: pa.Schema, tables: Iterable[pa.Table], spools: Mapping[str, Spool]) -> StoredFrame:
        held = list(tables)
        return cls(schema, [partial(_values, schema, table, spools) for table in held], held, spools)

    @property
    def rows(self) -> pa.Table:
        """Of all partitions."""
        return pa.concat_tables(self.tables or [_numbered(self.schema, self.spools).empty_table()])


class LocalEngine(Engine):
    """With a `room` steps leave no more in memory than fits into it."""

    name = "local"
    in_process = True

    def __init__(self, parallelism: int | None = None, room: Room | None = None) -> None:
        self._parallelism = parallelism or usable_cores()
        self._room = room or Room()
        self._attempts = itertools.count()
        self._stages = itertools.count()
        self._lock = threading.Lock()
        self._written: Written | None = None

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def limited(self, memory: int, folder: str, refusal: Refusal) -> LocalEngine:
        """Half is for what steps leave, half for the tasks, of which fewer run at once where it is little."""
        engine = copy.copy(self)
        engine._parallelism = max(1, min(self._parallelism, memory // _TASK_BYTES))
        engine._room = Room(memory // 2, folder, refusal)
        return engine

    def watched(self, written: Written) -> LocalEngine:
        engine = copy.copy(self)
        engine._written = written
        return engine

    def for_storage(self, *, local: bool) -> LocalEngine:
        if local:
            return self
        engine = copy.copy(self)
        engine._parallelism = max(self._parallelism, min(_WAITING * self._parallelism, _MOST_WAITING))
        return engine

    def task_memory(self, memory: int) -> int:
        return memory // 2 // self._parallelism

    def frame(self, rows: pa.Table | pa.RecordBatchReader | ds.Dataset | Stream) -> LocalFrame | Scan:
        """A frame of the rows; a reader is read once. A dataset of all rows of Parquet files is scanned."""
        if isinstance(rows, Stream):
            return LocalFrame(rows.schema, list(rows.parts))
        if isinstance(rows, pa.Table):
            return LocalFrame(rows.schema, [_batches(piece) for piece in _split(rows, self._parallelism)])
        if isinstance(rows, pa.RecordBatchReader):
            return LocalFrame(rows.schema, [_once(rows)])
        files = FileFrame.of(rows)
        return self.scan(files) if files else LocalFrame(rows.schema, [lambda: _scanned(rows)])

    def _schema(self, frame: LocalFrame) -> pa.Schema:
        return frame.schema

    def tasks(self, count: int) -> LocalFrame:
        schema = pa.schema([("id", pa.int64())])
        numbers = [pa.RecordBatch.from_pylist([{"id": number}], schema) for number in range(count)]
        return LocalFrame(schema, [_held([number]) for number in numbers])

    def _map_batches(self, frame: LocalFrame, function: BatchFunction, schema: pa.Schema) -> LocalFrame:
        stage = next(self._stages)

        def run(source: Source, number: int) -> Source:
            def call() -> Iterator[pa.RecordBatch]:
                with self._lock:
                    attempt = next(self._attempts)
                with noting():
                    yield from function(source(), Task(number, stage, attempt, self._written))

            return call

        return LocalFrame(schema, [run(source, number) for number, source in enumerate(frame.partitions)])

    def filter(self, frame: LocalFrame, column: str, values: Sequence[int]) -> LocalFrame:
        wanted = pa.array(values, frame.schema.field(column).type)
        return _each_batch(
            frame, frame.schema, lambda rows: rows.filter(pc.is_in(rows.column(column), value_set=wanted))
        )

    def left_join(self, frame: LocalFrame, table: pa.Table, on: Sequence[str]) -> LocalFrame:
        keys = table.select(on).to_pydict()
        rows_of = {key: row for row, key in enumerate(zip(*keys.values(), strict=True))}
        added = [field for field in table.schema if field.name not in on]
        kept = [field for field in frame.schema if field.name not in table.column_names or field.name in on]

        def joined(rows: pa.RecordBatch) -> pa.RecordBatch:
            found = zip(*(rows.column(name).to_pylist() for name in on), strict=True)
            matches = table.take(pa.array([rows_of.get(key) for key in found], pa.int64()))
            columns = [
                *(rows.column(field.name) for field in kept),
                *(matches.column(field.name).combine_chunks() for field in added),
            ]
            return pa.RecordBatch.from_arrays(columns, names=[field.name for field in (*kept, *added)])

        return _each_batch(frame, pa.schema([*kept, *added]), joined, table.column_names)

    def attach(
        self, frame: LocalFrame, other: LocalFrame, on: Sequence[str], column: str, name: str, few: bool
    ) -> LocalFrame:
        rows, found = self._stored(frame), self._stored(other)
        values = found.rows.select([*on, column]).rename_columns([*on, name])
        joined = self._stored(self.left_join(rows, values, on))
        place = joined.schema.get_field_index(name)
        schema = joined.schema.set(place, pa.field(name, other.schema.field(column).type))
        added = {name: found.spools[column]} if column in found.spools else {}
        return StoredFrame.of(schema, joined.tables, {**joined.spools, **added})

    def shuffle(self, frame: LocalFrame, by: str, partitions: int, sort: str) -> LocalFrame:
        stored = self._stored(frame)
        rows = stored.rows
        keys = rows.column(by)
        mine = (rows.filter(pc.equal(keys, pa.scalar(number, pa.int32()))) for number in range(partitions))
        ordered = [part.take(pc.sort_indices(part.column(sort))) for part in mine]
        return StoredFrame.of(frame.schema, ordered, stored.spools)

    def persist(self, frame: LocalFrame) -> LocalFrame:
        return self._stored(frame)

    def unpersist(self, frame: LocalFrame) -> None:
        frame.partitions.clear()
        if isinstance(frame, StoredFrame):
            frame.tables.clear()
            for spool in frame.spools.values():
                spool.close()

    def collect(self, frame: LocalFrame) -> list[dict[str, Any]]:
        return [row for rows in self._run(frame, _dicts) for row in rows]

    def _stored(self, frame: LocalFrame) -> StoredFrame:
        """The frame, computed, if it is not, by one thread a partition."""
        if isinstance(frame, StoredFrame):
            return frame
        spools = {field.name: Spool(self._room) for field in frame.schema if pa.types.is_binary(field.type)}
        schema = _numbered(frame.schema, spools)

        def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
            columns = [
                spools[name].add(batch.column(name)) if name in spools else batch.column(name)
                for name in schema.names
            ]
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        def table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
            return pa.Table.from_batches([numbered(batch) for batch in batches], schema)

        return StoredFrame.of(frame.schema, self._run(frame, table), spools)

    def _run(self, frame: LocalFrame, function: Callable[[Iterator[pa.RecordBatch]], _T]) -> list[_T]:
        """The function of the batches of each partition."""
        if min(len(frame.partitions), self._parallelism) <= 1:
            return [function(source()) for source in frame.partitions]
        with ThreadPoolExecutor(self._parallelism) as pool:
            return list(pool.map(lambda source: function(source()), frame.partitions))


def _dicts(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def _values(schema: pa.Schema, table: pa.Table, spools: Mapping[str, Spool]) -> Iterator[pa.RecordBatch]:
    """The rows with their values, which are read some megabytes at a time."""
    for rows in table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS):
        sizes = sum(
            (spool.sizes(rows.column(name)) for name, spool in spools.items()), np.zeros(rows.num_rows)
        )
        numbers = (np.cumsum(sizes) // _VALUE_BYTES).astype(np.int64)
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), rows.num_rows]
        for start, end in itertools.pairwise(edges):
            piece = rows.slice(start, end - start)
            columns = [
                spools[name].read(piece.column(name)) if name in spools else piece.column(name)
                for name in schema.names
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _split(rows: pa.Table, parts: int) -> list[pa.Table]:
    step = max(BATCH_ROWS, -(-rows.num_rows // parts))
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]


def _scanned(rows: ds.Dataset) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, of which Arrow holds no more than it must."""
    scanner = rows.scanner(batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1, use_threads=False)
    return iter(scanner.to_batches())


def _once(reader: pa.RecordBatchReader) -> Source:
    """A reader that was read is no empty input: reading it again is an error."""
    unread = [reader]

    def batches() -> Iterator[pa.RecordBatch]:
        if not unread:
            raise JobError(
                "the input can be read only once, but another writer's commit made a second reading "
                "necessary; repeat the write with a new reader, or pass a table"
            )
        return iter(unread.pop())

    return batches


def _each_batch(
    frame: LocalFrame,
    schema: pa.Schema,
    function: Callable[[pa.RecordBatch], pa.RecordBatch],
    replaced: Sequence[str] = (),
) -> LocalFrame:
    """The frame whose batches are those of `frame`, each as `function` returns it, which looks at no large
    value; `replaced` are the columns that it has from elsewhere.
    """
    if not isinstance(frame, StoredFrame):
        return LocalFrame(schema, [_mapped(function, source) for source in frame.partitions])
    spools = {name: spool for name, spool in frame.spools.items() if name not in replaced}
    numbered = _numbered(schema, spools)
    tables = [pa.Table.from_batches(map(function, table.to_batches()), numbered) for table in frame.tables]
    return StoredFrame.of(schema, tables, spools)


def _mapped(function: Callable[[pa.RecordBatch], pa.RecordBatch], source: Source) -> Source:
    return lambda: map(function, source())


def _numbered(schema: pa.Schema, spools: Container[str]) -> pa.Schema:
    """The schema with numbers for the columns that have spools."""
    return pa.schema(
        [pa.field(field.name, pa.int64()) if field.name in spools else field for field in schema]
    )


def _held(batches: list[pa.RecordBatch]) -> Source:
    return lambda: iter(batches)


def _batches(rows: pa.Table) -> Source:
    return lambda: iter(rows.to_batches(max_chunksize=BATCH_ROWS))
