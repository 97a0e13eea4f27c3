"""Engine on Arrow tables and threads: small writes, services and fast tests, no JVM."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine import BatchFunction, Task
from hoodie.errors import JobError

#: rows of one batch handed to a function
BATCH_ROWS = 65536
Source = Callable[[], Iterator[pa.RecordBatch]]


@dataclass
class LocalFrame:
    """Partitions as functions that give batches; calling one runs its steps."""

    schema: pa.Schema
    partitions: list[Source]


class LocalEngine:
    name = "local"

    def __init__(self, parallelism: int | None = None) -> None:
        self._parallelism = parallelism or os.cpu_count() or 1
        self._attempts = itertools.count()
        self._stages = itertools.count()
        self._lock = threading.Lock()

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def frame(self, rows: Any) -> LocalFrame:
        """A frame of a Table, RecordBatchReader or pyarrow Dataset; a reader is read once.

        A dataset of Parquet files is better passed as an engine.files.FileFrame.
        """
        if isinstance(rows, pa.Table):
            return LocalFrame(rows.schema, [_batches(piece) for piece in _split(rows, self._parallelism)])
        if isinstance(rows, pa.RecordBatchReader):
            return LocalFrame(rows.schema, [_once(rows)])
        return LocalFrame(rows.schema, [lambda: iter(rows.to_batches())])

    def schema(self, frame: LocalFrame) -> pa.Schema:
        return frame.schema

    def tasks(self, count: int) -> LocalFrame:
        schema = pa.schema([("id", pa.int64())])
        numbers = [pa.RecordBatch.from_pylist([{"id": number}], schema) for number in range(count)]
        return LocalFrame(schema, [_held([number]) for number in numbers])

    def map_batches(self, frame: LocalFrame, function: BatchFunction, schema: pa.Schema) -> LocalFrame:
        stage = next(self._stages)

        def run(source: Source, number: int) -> Source:
            def call() -> Iterator[pa.RecordBatch]:
                with self._lock:
                    attempt = next(self._attempts)
                return function(source(), Task(number, stage, attempt))

            return call

        return LocalFrame(schema, [run(source, number) for number, source in enumerate(frame.partitions)])

    def place(
        self, frame: LocalFrame, buckets: Mapping[tuple[str, str], int], reducers: Sequence[int]
    ) -> LocalFrame:
        def function(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows = batch.filter(pc.equal(batch.column("kind"), pa.scalar(0, pa.int32())))
                partitions, file_ids = (
                    rows.column("partition").to_pylist(),
                    rows.column("file_id").to_pylist(),
                )
                found = [
                    buckets[str(part), str(file)] for part, file in zip(partitions, file_ids, strict=True)
                ]
                targets = pa.array([reducers[bucket] for bucket in found], pa.int32())
                rows = rows.set_column(
                    rows.schema.get_field_index("bucket"), "bucket", pa.array(found, pa.int32())
                )
                yield rows.set_column(rows.schema.get_field_index("reducer"), "reducer", targets)

        return self.map_batches(frame, function, frame.schema)

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

    def collect(self, frame: LocalFrame, kinds: Sequence[int]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = []
        for batches in self._run(frame):
            for batch in batches:
                chosen = [row for row, kind in enumerate(batch.column(0).to_pylist()) if kind in kinds]
                if chosen:
                    out.extend(batch.take(pa.array(chosen)).to_pylist())
        return out

    def batches(self, *, blobs: bool) -> AbstractContextManager[None]:
        return nullcontext()

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


def _held(batches: list[pa.RecordBatch]) -> Source:
    return lambda: iter(batches)


def _batches(rows: pa.Table) -> Source:
    return lambda: iter(rows.to_batches(max_chunksize=BATCH_ROWS))
