"""Last pass: a task writes its file groups, one after the other, and answers one message of statistics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.engine.task import Task
from hoodie.errors import HoodieError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.timeline.commit import WriteStat
from hoodie.write.blobs import SUMMARY, decode_rows, error_message, message, values
from hoodie.write.context import WriteContext
from hoodie.write.dedup import COPIES, DedupRows
from hoodie.write.duplicates import LAST
from hoodie.write.handles import Handles
from hoodie.write.workload import FileGroupWrite


@dataclass(frozen=True)
class WriteFileGroups:
    """The function given to `map_batches` after the shuffle; batches come ordered by file group."""

    context: WriteContext
    instant: str
    writes: tuple[FileGroupWrite, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            with Handles(self.context, storage, self.instant, task) as handles:
                for number, blobs in itertools.groupby(_blobs(batches), key=lambda blob: blob[0]):
                    rows = (decode_rows(payload, self.context.travel_schema) for _, payload in blobs)
                    received, stats = self._write(handles, self.writes[number], rows)
                    answer = {"rows": received, "stats": [stat.to_dict() for stat in stats]}
                    yield message(SUMMARY, {**answer, "missing": handles.take_missing()})
        except HoodieError as error:
            yield error_message(error)

    def _write(
        self, handles: Handles, write: FileGroupWrite, rows: Iterator[pa.RecordBatch]
    ) -> tuple[int, list[WriteStat]]:
        context = self.context
        merges = write.slice is not None and (write.append or context.duplicates.merge)
        copies = COPIES if merges or context.duplicates.combine else 1
        with DedupRows(
            context.travel_schema, context.merge_budget, context.spill_path, write.bytes, copies
        ) as held:
            held.extend(rows)
            merger = context.merger if context.duplicates.combine else LAST
            if write.slice is not None and write.append:
                return held.rows, handles.append(write.slice, held.parts(context.merger))
            if write.base is not None and context.duplicates.merge:
                return held.rows, handles.merge(write.base, held.parts(merger), iter(()))
            tables = held.stream()
            if context.duplicates.combine:
                tables = (part.rows for part in held.parts(merger))
            if write.base is not None:
                return held.rows, handles.merge(write.base, [], tables)
            if context.sort:
                tables = _sorted(tables, context.merge_budget)
            return held.rows, handles.create(write.partition, write.file_id, tables)


def _blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.Buffer]]:
    for batch in batches:
        payloads: Any = batch.column("payload")
        for row, number in enumerate(values(batch, "write")):
            yield number, payloads[row].as_buffer()


def _sorted(tables: Iterator[pa.Table], budget: int) -> Iterator[pa.Table]:
    """The rows by key; where they are more than the budget, in runs of about as much."""
    held: list[pa.Table] = []
    for table in tables:
        if held and sum(item.nbytes for item in (*held, table)) > budget:
            yield _by_key(held)
            held = []
        held.append(table)
    if held:
        yield _by_key(held)


def _by_key(tables: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    return rows.take(pc.sort_indices(rows.column(RECORD_KEY)))
