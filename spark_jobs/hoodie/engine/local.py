"""Engine on Arrow tables and threads: small writes, services and fast tests, no JVM."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hoodie.engine import Engine, Scan
from hoodie.engine.files import FileFrame
from hoodie.engine.task import BatchFunction, Task
from hoodie.errors import JobError

#: rows of one batch handed to a function
BATCH_ROWS = 65536
Source = Callable[[], Iterator[pa.RecordBatch]]


@dataclass
class LocalFrame:
    """Partitions as functions that give batches; calling one runs its steps."""

    schema: pa.Schema
    partitions: list[Source]


class LocalEngine(Engine):
    name = "local"

    def __init__(self, parallelism: int | None = None) -> None:
        self._parallelism = parallelism or os.cpu_count() or 1
        self._attempts = itertools.count()
        self._stages = itertools.count()
        self._lock = threading.Lock()

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def frame(self, rows: pa.Table | pa.RecordBatchReader | ds.Dataset) -> LocalFrame | Scan:
        """A frame of the rows; a reader is read once. A dataset of all rows of Parquet files is scanned."""
        if isinstance(rows, pa.Table):
            return LocalFrame(rows.schema, [_batches(piece) for piece in _split(rows, self._parallelism)])
        if isinstance(rows, pa.RecordBatchReader):
            return LocalFrame(rows.schema, [_once(rows)])
        files = FileFrame.of(rows)
        return self.scan(files) if files else LocalFrame(rows.schema, [lambda: iter(rows.to_batches())])

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
                return function(source(), Task(number, stage, attempt))

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
        schema = pa.schema([*kept, *added])

        def joined(rows: pa.RecordBatch) -> pa.RecordBatch:
            found = zip(*(rows.column(name).to_pylist() for name in on), strict=True)
            matches = table.take(pa.array([rows_of.get(key) for key in found], pa.int64()))
            columns = [
                *(rows.column(field.name) for field in kept),
                *(matches.column(field.name).combine_chunks() for field in added),
            ]
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        return _each_batch(frame, schema, joined)

    def attach(
        self, frame: LocalFrame, other: LocalFrame, on: Sequence[str], column: str, name: str, few: bool
    ) -> LocalFrame:
        rows = pa.Table.from_batches(list(itertools.chain(*self._run(other))), other.schema)
        table = rows.select([*on, column]).rename_columns([*on, name])
        return self.left_join(frame, table, on)

    def shuffle(self, frame: LocalFrame, by: str, partitions: int, sort: str) -> LocalFrame:
        rows = pa.Table.from_batches(list(itertools.chain(*self._run(frame))), frame.schema)
        keys = rows.column(by)
        out = []
        for number in range(partitions):
            mine = rows.filter(pc.equal(keys, pa.scalar(number, pa.int32())))
            out.append(_batches(mine.sort_by(sort)))
        return LocalFrame(frame.schema, out)

    def persist(self, frame: LocalFrame) -> LocalFrame:
        held = self._run(frame)
        return LocalFrame(frame.schema, [_held(batches) for batches in held])

    def unpersist(self, frame: LocalFrame) -> None:
        frame.partitions.clear()

    def collect(self, frame: LocalFrame) -> list[dict[str, Any]]:
        return [row for batches in self._run(frame) for batch in batches for row in batch.to_pylist()]

    def _run(self, frame: LocalFrame) -> list[list[pa.RecordBatch]]:
        if len(frame.partitions) <= 1:
            return [list(source()) for source in frame.partitions]
        with ThreadPoolExecutor(self._parallelism) as pool:
            return list(pool.map(lambda source: list(source()), frame.partitions))


def _split(rows: pa.Table, parts: int) -> list[pa.Table]:
    step = max(BATCH_ROWS, -(-rows.num_rows // parts))
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]


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
    frame: LocalFrame, schema: pa.Schema, function: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> LocalFrame:
    """The frame whose batches are those of `frame`, each as `function` returns it."""

    def changed(source: Source) -> Source:
        return lambda: map(function, source())

    return LocalFrame(schema, [changed(source) for source in frame.partitions])


def _held(batches: list[pa.RecordBatch]) -> Source:
    return lambda: iter(batches)


def _batches(rows: pa.Table) -> Source:
    return lambda: iter(rows.to_batches(max_chunksize=BATCH_ROWS))
