"""The incoming rows of one bucket, one row a key, within a memory budget.

Up to the budget the rows are held in memory. Beyond it they are cut by key hash into parts on disk, each
small enough to be de-duplicated in memory; de-duplicated parts are memory-mapped Arrow files.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.config.key import int_key, str_key
from hoodie.errors import StorageError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.merge import Merger
from hoodie.write.key_split import SPILL_SEED, key_fractions

MERGE_BUDGET = int_key(
    "hoodie.memory.merge.max.size",
    1073741824,
    "Bytes of incoming rows that one task holds in memory while it merges; more is spilled.",
    minimum=1 << 16,
    group="memory",
)
SPILL_PATH = str_key(
    "hoodie.memory.spillable.map.path",
    None,
    "Folder for spilled rows; default: the system's folder for temporary files.",
    group="memory",
)

#: de-duplicating needs the rows, a copy of them and the sort order
_COPIES = 3


@dataclass
class Part:
    """De-duplicated rows; `used` marks those that matched a stored row."""

    rows: pa.Table
    used: npt.NDArray[np.bool_]

    @property
    def keys(self) -> pa.ChunkedArray[Any]:
        return self.rows.column(RECORD_KEY)


class RowSet:
    """Context manager; the spill files live until it is left."""

    def __init__(self, schema: pa.Schema, budget: int, spill_path: str, expected: int) -> None:
        self._schema = schema
        self._budget = budget
        self._spill_path = spill_path or None
        self._count = max(2, math.ceil(expected * _COPIES / budget))
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._writers: list[pa.RecordBatchFileWriter] = []
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self.rows = 0

    def __enter__(self) -> RowSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.clear()
        for writer in self._writers:
            writer.close()
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def spilled(self) -> bool:
        return self._folder is not None

    def extend(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.rows += batch.num_rows
            if self.spilled:
                self._spill(batch)
                continue
            self._held.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > self._budget:
                self._start_spilling()

    def stream(self) -> Iterator[pa.Table]:
        """The rows as they came, no key looked at."""
        if self._held:
            yield pa.Table.from_batches(self._held, self._schema)
        for path in self._close_files():
            with pa.memory_map(path) as source:
                reader = pa.ipc.open_file(source)
                for index in range(reader.num_record_batches):
                    yield pa.Table.from_batches([reader.get_batch(index)])

    def parts(self, merger: Merger) -> list[Part]:
        """One row a key; keys are distinct over all parts."""
        if not self.spilled:
            rows = pa.Table.from_batches(self._held, self._schema).combine_chunks()
            self._held.clear()
            return [self._part(merger, rows)] if rows.num_rows else []
        out: list[Part] = []
        for path in self._close_files():
            with pa.memory_map(path) as source:
                rows = pa.ipc.open_file(source).read_all()
                if rows.num_rows == 0:
                    continue
                part = self._part(merger, rows)
            with pa.ipc.new_file(path + ".one", self._schema) as writer:
                writer.write_table(part.rows)
            del part
            mapped = pa.ipc.open_file(pa.memory_map(path + ".one")).read_all()
            out.append(Part(mapped, np.zeros(mapped.num_rows, dtype=np.bool_)))
        return out

    def _part(self, merger: Merger, rows: pa.Table) -> Part:
        one = merger.combine(rows, rows.column(RECORD_KEY).combine_chunks())
        return Part(one, np.zeros(one.num_rows, dtype=np.bool_))

    def _start_spilling(self) -> None:
        try:
            if self._spill_path:
                os.makedirs(self._spill_path, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix="hoodie-spill-", dir=self._spill_path)
        except OSError as error:
            folder = self._spill_path or tempfile.gettempdir()
            raise StorageError(
                f"can't spill to {folder}: {error.strerror}; set {SPILL_PATH.name} to one with free space",
                path=folder,
            ) from error
        held, self._held, self._bytes = self._held, [], 0
        for number in range(self._count):
            path = os.path.join(self._folder.name, f"{number}.arrow")
            self._writers.append(pa.ipc.new_file(path, self._schema))
        for batch in held:
            self._spill(batch)

    def _spill(self, batch: pa.RecordBatch) -> None:
        keys = batch.column(batch.schema.get_field_index(RECORD_KEY))
        parts = (key_fractions(keys, SPILL_SEED) * self._count).astype(np.int64)
        for number in range(self._count):
            mask = parts == number
            if mask.any():
                self._writers[number].write_batch(batch.filter(pa.array(mask)))

    def _close_files(self) -> list[str]:
        if self._folder is None:
            return []
        for writer in self._writers:
            writer.close()
        self._writers = []
        return [os.path.join(self._folder.name, f"{number}.arrow") for number in range(self._count)]
