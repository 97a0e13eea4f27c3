"""Last pass: a task writes its file groups, one after the other, and answers one message of statistics."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.arrays import whole
from hoodie.engine.task import Task
from hoodie.errors import HoodieError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.read.key_join import Part
from hoodie.table.markers import Marker, MarkerType, known_markers
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import WriteStat
from hoodie.timeline.time import InstantTime
from hoodie.write.assign.workload import FileGroupWrite
from hoodie.write.blobs import DELETES, ERROR, SUMMARY, decode_rows, error_message, error_of, message, values
from hoodie.write.context import STORED_ROW, WriteContext
from hoodie.write.files.completion import completed
from hoodie.write.files.handles import Handles
from hoodie.write.files.rehearsal import handles_of
from hoodie.write.input.combine_keys import COPIES, DedupRows
from hoodie.write.input.delete_keys import LAST
from hoodie.write.input.incoming import chunk_bytes, chunks


@dataclass(frozen=True)
class WriteFileGroups:
    """The function given to `map_batches` after the shuffle; batches come ordered by file group."""

    context: WriteContext
    instant: InstantTime
    writes: tuple[FileGroupWrite, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            with handles_of(self.context, storage, self.instant, task) as handles:
                for number, blobs in itertools.groupby(_blobs(batches), key=lambda blob: blob[0]):
                    received, stats = self._write(handles, self.writes[number], blobs)
                    yield _answer(received, stats, handles.take_counts())
        except HoodieError as error:
            yield error_message(error)

    def _write(
        self, handles: Handles, write: FileGroupWrite, blobs: Iterator[_Received]
    ) -> tuple[int, list[WriteStat]]:
        context, deletes = self.context, list[pa.RecordBatch]()
        if context.streams:
            tables = chunks(self._rows(blobs, deletes), chunk_bytes(context))
            return create_with_count(handles, write.partition, write.file_id, tables)
        merges = write.slice is not None and (write.append or context.duplicates.merge)
        copies = COPIES if merges or context.duplicates.combine else 1
        budget, folder = context.merge_budget, context.spill_path
        with DedupRows(context.travel_schema, budget, folder, write.bytes, copies, write.rows) as held:
            held.extend(self._rows(blobs, deletes))
            gone = self._deleted(deletes)
            merger = context.merger if context.duplicates.combine else LAST
            if write.slice is not None and write.append:
                return held.rows, self._append(handles, write.slice, held.parts(context.merger), gone)
            if write.base is not None and context.duplicates.merge:
                return held.rows, handles.merge(write.base, [*held.parts(merger), *gone], iter(()))
            tables = held.stream()
            if context.duplicates.combine:
                tables = (part.rows for part in held.parts(merger))
            if write.base is not None:
                return held.rows, handles.merge(write.base, gone, tables)
            if context.sort:
                tables = _sorted(tables, context.merge_budget)
            return held.rows, handles.create(write.partition, write.file_id, tables)

    def _append(
        self, handles: Handles, slice_: FileSlice, parts: list[Part], gone: list[Part]
    ) -> list[WriteStat]:
        if not self.context.found_by:
            return handles.append(slice_, parts, gone)
        with completed(self.context, handles.storage, slice_, parts) as rows:
            return handles.append(slice_, rows, gone)

    def _rows(self, blobs: Iterator[_Received], deletes: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows among the blobs; keys to delete are put aside. Raises the error of a task before."""
        for _, kind, payload in blobs:
            if kind == ERROR:
                raise error_of(payload.to_pybytes())
            if kind == DELETES:
                deletes.append(decode_rows(payload, self.context.deletes_schema))
            else:
                yield decode_rows(payload, self.context.travel_schema)

    def _deleted(self, batches: list[pa.RecordBatch]) -> list[Part]:
        if not batches:
            return []
        keys = pa.Table.from_batches(batches)
        rows = np.asarray(keys.column(STORED_ROW)).astype(np.int32)
        return [Part.of(self.context.travel_schema.empty_table(), whole(keys.column(RECORD_KEY)), rows)]


def mark_first_files(context: WriteContext, instant: InstantTime, writes: Sequence[FileGroupWrite]) -> None:
    """Have the files that these writes begin with marked by one request, where this process keeps the markers
    of the instant: before there is a task.
    """
    kept = known_markers(context.base_path, instant)
    if kept is None or context.early is not None:  # Apache Hudi's detection looks for direct markers
        return
    slicing, planned = context.snapshot.slicing, list[Marker]()
    for write in writes:
        token = f"{write.number}-0-0"
        if write.slice is None or not write.append:
            kind = MarkerType.CREATE if write.base is None else MarkerType.MERGE
            name: BaseFileName | LogFileName = BaseFileName(write.file_id, token, instant)
        elif slicing.of_writes:
            kind, name = MarkerType.CREATE, write.slice.new_log(slicing, instant, token)
        else:  # other processes may have a log file of this name
            continue
        planned.append(Marker(join(write.partition, str(name)), kind))
    kept.plan(planned)


def write_new(handles: Handles, partition: str, file_id: str, rows: Iterator[pa.Table]) -> pa.RecordBatch:
    """Write new file groups of the rows; the answer of the task."""
    received, stats = create_with_count(handles, partition, file_id, rows)
    return _answer(received, stats, handles.take_counts())


def create_with_count(
    handles: Handles, partition: str, file_id: str, rows: Iterator[pa.Table]
) -> tuple[int, list[WriteStat]]:
    """Write new file groups of the rows; how many these were, and the statistics."""
    received = 0

    def count_rows() -> Iterator[pa.Table]:
        nonlocal received
        for table in rows:
            received += table.num_rows
            yield table

    stats = handles.create(partition, file_id, count_rows())
    return received, stats


def _answer(received: int, stats: list[WriteStat], counts: dict[str, Any]) -> pa.RecordBatch:
    """`counts`: those of the handles."""
    return message(SUMMARY, {"rows": received, "stats": [stat.to_report() for stat in stats], **counts})


#: number of the file-group write, kind, payload
_Received = tuple[int, int, pa.Buffer]


def _blobs(batches: Iterator[pa.RecordBatch]) -> Iterator[_Received]:
    for batch in batches:
        payloads: Any = batch.column("payload")
        kinds = values(batch, "kind")
        for row, number in enumerate(values(batch, "write")):
            yield number, kinds[row], payloads[row].as_buffer()


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
