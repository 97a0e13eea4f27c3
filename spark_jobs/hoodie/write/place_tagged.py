"""Second pass over rows that the index has looked for: each goes to the write of the file group that has its
key, new ones to those of their partition.

Memory: one chunk of rows and its copy in the order of the writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Ints, array, rows_of, whole
from hoodie.engine.task import Task
from hoodie.errors import JobError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index.locations import LOOK_UP, NOWHERE, Positions
from hoodie.write.blobs import BLOB_BYTES, BLOB_ID, DELETES, ROWS, Blob, decoded, in_batches
from hoodie.write.context import LEADING, PARTITION_CODE, WriteContext
from hoodie.write.hits import Hits
from hoodie.write.incoming import CHUNK_ROWS, chunk_bytes, travelling
from hoodie.write.moves import decide
from hoodie.write.place_rows import chosen_shares, shares_of
from hoodie.write.stage import grouped
from hoodie.write.tagging import BlobId, Tags
from hoodie.write.workload import Assignment

#: the partitions that the rows' codes stand for, the rows (see `WriteContext.staged_schema`), where they are
Staged = tuple[list[str], pa.RecordBatch, Hits]


class _Deletes:
    """Keys to delete, and the write of each."""

    def __init__(self, context: WriteContext) -> None:
        self._schema = context.deletes_schema
        self.held: list[pa.Table] = []
        self.writes: list[Positions] = []

    def add(self, staged: pa.RecordBatch, left: Hits, writes: Positions) -> None:
        keys: Any = staged.column(RECORD_KEY).take(array(left.rows))
        self.held.append(pa.Table.from_arrays([keys, array(left.stored)], schema=self._schema))
        self.writes.append(writes)


@dataclass(frozen=True)
class PlaceTagged:
    """The function given to `map_batches`. `numbers` are the file-group writes by label (see `Tags`), NOWHERE
    for slices that no row goes to.

    `hits` are those of all blobs; None: each blob comes with its own, in the column `hits`. `searched`: the
    index was asked; else all rows are new.
    """

    context: WriteContext
    assignment: Assignment
    numbers: Positions
    hits: Mapping[BlobId, bytes] | None
    searched: bool

    @classmethod
    def of(cls, context: WriteContext, assignment: Assignment, tags: Tags) -> PlaceTagged:
        updates = assignment.updates
        numbers = [updates.get((item.partition, item.file_id), NOWHERE) for item in tags.slices]
        return cls(context, assignment, np.array(numbers, dtype=np.int32), tags.hits, tags.searched)

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        blobs = decoded(batches, self.context.staged_schema)
        yield from self.place((json.loads(row["partitions"]), rows, self._hits(row)) for row, rows in blobs)

    def place(self, staged_rows: Iterable[Staged]) -> Iterator[pa.RecordBatch]:
        """Blobs of the rows, by write."""
        held: list[pa.Table] = []
        writes: list[Positions] = []
        deletes = _Deletes(self.context)
        size, rows, most = 0, 0, chunk_bytes(self.context)
        for names, staged, hits in staged_rows:
            if held and (size + staged.nbytes > most or rows + staged.num_rows > CHUNK_ROWS):
                yield from in_batches(self._cut(held, writes))
                yield from in_batches(self._cut(deletes.held, deletes.writes, DELETES))
                held, writes, deletes, size, rows = [], [], _Deletes(self.context), 0, 0
            table, targets = self._placed(names, staged, hits, deletes)
            held.append(table)
            writes.append(targets)
            size += table.nbytes
            rows += table.num_rows
        yield from in_batches(self._cut(held, writes))
        yield from in_batches(self._cut(deletes.held, deletes.writes, DELETES))

    def _cut(self, held: list[pa.Table], writes: list[Positions], kind: int = ROWS) -> Iterator[Blob]:
        """The rows by write."""
        if not held:
            return
        rows, targets = pa.concat_tables(held), np.concatenate(writes)
        held.clear()
        if not rows.num_rows:
            return
        order, bounds = grouped(targets, len(self.assignment.writes))
        if not np.array_equal(order, np.arange(len(order))):
            rows = rows.take(array(order))
        (ordered,) = rows.combine_chunks().to_batches()
        step = rows_of(rows, BLOB_BYTES)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            partition, reducer = self.assignment.writes[number].partition, self.assignment.reducers[number]
            end = int(bounds[number + 1])
            for start in range(int(bounds[number]), end, step):
                piece = ordered.slice(start, min(step, end - start))
                yield Blob(
                    partition, piece.num_rows, piece.serialize().to_pybytes(), number, reducer, kind=kind
                )

    def _placed(
        self, names: list[str], staged: pa.RecordBatch, hits: Hits, deletes: _Deletes
    ) -> tuple[pa.Table, Positions]:
        """The rows that go on, as they travel, and the write of each; adds to `deletes`."""
        context = self.context
        staged, hits, left = decide(context, staged, hits)
        if left is not None:
            deletes.add(staged, left, self._writes(left.labels))
        if not context.operation.brings_rows:
            chosen: Any = hits.rows
            targets, stored = self._writes(hits.labels), hits.stored
        else:
            stored = np.full(staged.num_rows, NOWHERE if context.tags else LOOK_UP, dtype=np.int32)
            targets = np.full(staged.num_rows, NOWHERE, dtype=np.int32)
            copies = hits.take(hits.followed)
            hits = hits.take(~hits.followed)
            updates = hits.labels < len(self.numbers)
            targets[hits.rows[updates]] = self._writes(hits.labels[updates])
            stored[hits.rows] = hits.stored
            new: Any = targets == NOWHERE
            new[hits.rows[~updates]] = False
            self._place_new(names, staged, np.flatnonzero(new), targets)
            chosen = np.flatnonzero(targets != NOWHERE)
            targets = np.concatenate([targets[chosen], self._writes(copies.labels)])
            stored = np.concatenate([stored[chosen], copies.stored])
            chosen = np.concatenate([chosen, copies.rows])
        rows = pa.Table.from_batches([staged])
        if len(chosen) != staged.num_rows or not context.operation.brings_rows:
            rows = rows.take(array(chosen))
        keys, data = whole(rows.column(0)), rows.select(rows.column_names[LEADING:])
        return travelling(keys, data, array(stored)), targets

    def _place_new(self, names: list[str], staged: pa.RecordBatch, new: Ints, targets: Positions) -> None:
        codes = staged.column(PARTITION_CODE).to_numpy()[new]
        firsts = np.full(len(names), NOWHERE, dtype=np.int32)
        for code in np.unique(codes).tolist():
            shares = shares_of(self.assignment, names[code])
            if len(shares) == 1:
                firsts[code] = shares[0][0]
                continue
            mine = new[codes == code]
            keys = staged.column(RECORD_KEY).take(array(mine))
            numbers = np.array([number for number, _ in shares], dtype=np.int32)
            targets[mine] = numbers[chosen_shares(self.assignment, names[code], shares, keys)]
        single = firsts[codes] != NOWHERE
        targets[new[single]] = firsts[codes[single]]

    def _writes(self, labels: Positions) -> Positions:
        found = self.numbers[labels]
        if (found == NOWHERE).any():
            raise changed()
        return found

    def _hits(self, row: dict[str, Any]) -> Hits:
        if not self.searched:
            return Hits.none()
        found = row["hits"] if self.hits is None else self.hits.get(tuple(row[name] for name in BLOB_ID))
        if found is None:
            raise changed()
        return Hits.from_bytes(found)


def changed() -> JobError:
    """The error of rows that are not those whose keys were looked for."""
    return JobError(
        "rows were staged again, and are not those that were looked for: the input changes when it is read "
        "again; write it to a file first"
    )
