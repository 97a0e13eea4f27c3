"""Combines the rows of a key to one, by the merger.

- Before the index looks keys up, where a key names one record in the whole table. Rows of a key may have
  several partitions, so no write of one file group sees all of them. If the driver does not know that every
  key occurs once, staged rows are gathered by key, combined, and staged again.
- In the write of one file group, within a memory budget (`DedupRows`). Rows beyond the budget are cut by key
  hash into parts on disk. Each part is small enough for memory. Combined parts are memory-mapped Arrow files.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, pc
from hoodie.codec.hashing import COMBINE_SEED, key_fractions
from hoodie.engine import Engine, Frame
from hoodie.engine.task import Task
from hoodie.errors import HoodieError, InputError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index import Scope
from hoodie.merge import Merger
from hoodie.read.key_join import Part
from hoodie.read.spill import SpilledRows, SpillFolder, map_rows, part_count, read_spilled
from hoodie.write.blobs import (
    ERROR,
    KEYS,
    ROWS,
    STAGED_SCHEMA,
    SUMMARY,
    decode_rows,
    decoded,
    error_message,
    raise_errors,
)
from hoodie.write.context import LEADING, WriteContext
from hoodie.write.input.delete_keys import LAST
from hoodie.write.input.stage import KEY_SCHEMA, StageRows, grouped
from hoodie.write.operation import Operation
from hoodie.write.settings import COMBINE_BEFORE_INSERT, COMBINE_BEFORE_UPSERT

#: de-duplicating needs the rows, a copy of them and the sort order
COPIES = 3


class DedupRows:
    """Context manager; the spill files live until it is left. `copies` of the rows fit into the budget; of
    rows that are only streamed there is one. `expected`: about their bytes; `count`: how many there will be,
    as far as that is known.
    """

    def __init__(
        self,
        schema: pa.Schema,
        budget: int,
        spill_path: str,
        expected: int,
        copies: int = COPIES,
        count: int = 0,
    ) -> None:
        self._schema = schema
        self._budget, self._copies = budget, copies
        self._most = budget // copies
        self._spill_path = spill_path
        self._expected, self._count = expected, count
        self._folder: SpillFolder | None = None
        self._spilled: SpilledRows | None = None
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self.rows = 0

    def __enter__(self) -> DedupRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.clear()
        if self._spilled is not None:
            self._spilled.finish()
        if self._folder is not None:
            self._folder.close()

    @property
    def spilled(self) -> bool:
        return self._spilled is not None

    def extend(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.rows += batch.num_rows
            if self._spilled is not None:
                self._spilled.add(batch)
                continue
            self._held.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > self._most:
                self._start_spilling()

    def stream(self) -> Iterator[pa.Table]:
        """The rows as they came, no key looked at."""
        if self._held:
            yield pa.Table.from_batches(self._held, self._schema)
        for path in self._spilled.finish() if self._spilled is not None else ():
            with pa.memory_map(path) as source:
                reader = pa.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield pa.Table.from_batches([reader.get_batch(index)])

    def parts(self, merger: Merger) -> list[Part]:
        """One row a key; keys are distinct over all parts."""
        if self._spilled is None:
            rows = pa.Table.from_batches(self._held, self._schema).combine_chunks()
            self._held.clear()
            return [Part.of(_one_a_key(merger, rows))] if rows.num_rows else []
        out: list[Part] = []
        for path in self._spilled.finish():
            rows = read_spilled(path)
            if rows.num_rows:
                out.append(Part.of(map_rows(path + ".one", _one_a_key(merger, rows))))
        return out

    def _start_spilling(self) -> None:
        size = max(self._expected, self._bytes * max(self._count, self.rows) // self.rows)
        parts = part_count(size * self._copies, self._budget)
        self._folder = SpillFolder(self._spill_path)
        self._spilled = SpilledRows(self._folder, "rows", self._schema, parts)
        held, self._held, self._bytes = self._held, [], 0
        for batch in held:
            self._spilled.add(batch)


def _one_a_key(merger: Merger, rows: pa.Table) -> pa.Table:
    return merger.combine(rows, rows.column(RECORD_KEY).combine_chunks())


#: bytes of rows that are worth a task
_TASK_BYTES = 64 << 20


def may_repeat(context: WriteContext, rows: list[dict[str, Any]]) -> bool:
    """May a key be there twice, in a write that needs it once? `rows` is what the driver has of the staged
    ones: summaries, and keys.
    """
    index = context.index
    if index is None or index.scope is not Scope.TABLE:
        return False
    if not context.tags or not context.operation.brings_rows:
        return False
    if any(summary["more_keys"] for summary in raise_errors(rows)):
        return True
    keys = [decode_rows(row["payload"], KEY_SCHEMA).column(0) for row in rows if row["kind"] == KEYS]
    every = pa.chunked_array(keys, pa.string())
    return bool(pc.count_distinct(every).as_py() < len(every))


def combined(
    engine: Engine, blobs: Frame, rows: list[dict[str, Any]], stage: StageRows, held: ExitStack
) -> tuple[Frame, list[dict[str, Any]]]:
    """The staged rows, one a key, and what the driver has of them; `held` frees the frame.

    Raises InputError where settings forbid to combine.
    """
    size = sum(part[3] for summary in raise_errors(rows) for part in summary["partitions"])
    count = max(1, min(len(rows), engine.parallelism * 2), math.ceil(size / _TASK_BYTES))
    with engine.batches(blobs=True):
        route = RouteRows(stage.context, count)
        routed = engine.map_batches(engine.filter(blobs, "kind", (ROWS,)), route, STAGED_SCHEMA)
        gathered = engine.shuffle(routed, "reducer", count, "task")
        frame = engine.persist(engine.map_batches(gathered, CombineKeys(stage, size // count), STAGED_SCHEMA))
        held.callback(engine.unpersist, frame)
        return frame, engine.collect(engine.filter(frame, "kind", (SUMMARY, ERROR, KEYS)))


@dataclass(frozen=True)
class RouteRows:
    """Cuts the rows of each blob into `count` parts by their keys."""

    context: WriteContext
    count: int

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        for row, rows in decoded(batches, self.context.staged_schema):
            yield self._routed(row, rows)

    def _routed(self, row: dict[str, Any], rows: pa.RecordBatch) -> pa.RecordBatch:
        fractions = key_fractions(rows.column(RECORD_KEY), COMBINE_SEED)
        order, bounds = grouped((fractions * self.count).astype(np.int32), self.count)
        sent = [
            {**row, "reducer": part, "payload": rows.take(array(order[start:end])).serialize().to_pybytes()}
            for part, (start, end) in enumerate(itertools.pairwise(bounds.tolist()))
            if end > start
        ]
        return pa.RecordBatch.from_pylist(sent, schema=STAGED_SCHEMA)


@dataclass(frozen=True)
class CombineKeys:
    """Combines the rows of each key, all of which are there, and stages what is left as rows that came so.

    `expected`: about the bytes of the rows.
    """

    stage: StageRows
    expected: int

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        context = self.stage.context
        combines = context.duplicates.combine
        try:
            with DedupRows(
                context.staged_schema, context.merge_budget, context.spill_path, self.expected
            ) as held:
                held.extend(rows for _, rows in decoded(batches, context.staged_schema))
                parts = held.parts(context.merger if combines else LAST)
                left = sum(part.rows.num_rows for part in parts)
                if not combines and left < held.rows:
                    raise _repeated(held.rows - left, context.operation)
                data = (
                    batch
                    for part in parts
                    for batch in part.rows.select(part.rows.column_names[LEADING:]).to_batches()
                )
                yield from self.stage(data, task)
        except HoodieError as error:
            yield error_message(error, STAGED_SCHEMA)


def _repeated(rows: int, operation: Operation) -> InputError:
    setting = COMBINE_BEFORE_UPSERT if operation is Operation.UPSERT else COMBINE_BEFORE_INSERT
    return InputError(
        f"{rows} rows have the key of another row, and {setting.name} is false: an index of the whole table "
        "finds one place for a key. Bring each key once, or let them be combined",
        rows=rows,
        setting=setting.name,
    )
