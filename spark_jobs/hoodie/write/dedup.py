"""The incoming rows of one file group, one row a key, within a memory budget.

Up to the budget the rows are held in memory. Beyond it they are cut by key hash into parts on disk, each
small enough to be de-duplicated in memory; de-duplicated parts are memory-mapped Arrow files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType

import pyarrow as pa

from hoodie.format.meta_fields import RECORD_KEY
from hoodie.merge import Merger
from hoodie.read.matching import Part
from hoodie.read.spill import SpilledRows, SpillFolder, map_rows, part_count, read_spilled

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
