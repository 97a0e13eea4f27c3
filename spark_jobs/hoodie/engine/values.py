"""The distinct rows of some columns of a frame, where they are few enough for driver and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.engine.task import Task

_SCHEMA = pa.schema([pa.field("payload", pa.binary())])
#: in the place of rows that are too many
_TOO_MANY = b""


@dataclass(frozen=True)
class _Distinct:
    """The function given to `map_batches`: one row with the distinct rows of the task, those with a null left
    out. Task n may send an n-th of the bytes.
    """

    columns: pa.Schema
    most: int

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        held: list[pa.Table] = []
        for batch in batches:
            held.append(pa.table([batch.column(name) for name in self.columns.names], schema=self.columns))
            if self._too_many(held, task):
                held = [_distinct(held)]
                if self._too_many(held, task):
                    yield _message(_TOO_MANY)
                    return
        rows = _distinct(held) if held else self.columns.empty_table()
        if rows.num_rows:
            yield _message(_ipc(rows))

    def _too_many(self, held: Sequence[pa.Table], task: Task) -> bool:
        return sum(rows.nbytes for rows in held) > self.most // (task.partition + 1)


def _distinct(parts: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts).drop_null()
    names = rows.column_names
    numbered = rows.rename_columns([str(number) for number in range(len(names))])
    found = numbered.group_by(numbered.column_names, use_threads=False).aggregate([])
    return found.rename_columns(names).cast(rows.schema)


def _message(payload: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"payload": payload}], schema=_SCHEMA)


def _ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def distinct_rows(engine: Engine, frame: Frame, columns: pa.Schema, most: int) -> pa.Table | None:
    """The rows without nulls in these columns of these types, each at least once; None where they take more
    than about `most` bytes. Raises JobError where the engine fails at the rows.
    """
    with engine.batches(rows=True):
        step = _Distinct(columns, most)
        answers = engine.collect(engine.map_batches(engine.select(frame, columns.names), step, _SCHEMA))
    payloads = [answer["payload"] for answer in answers]
    if any(payload == _TOO_MANY for payload in payloads) or sum(map(len, payloads)) > most:
        return None
    parts = [pa.ipc.open_stream(payload).read_all() for payload in payloads]
    return pa.concat_tables([columns.empty_table(), *parts])
