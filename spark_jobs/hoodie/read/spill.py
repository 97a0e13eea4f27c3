"""Rows on disk, cut by record key: what a merge does when its rows are more than its memory budget."""

from __future__ import annotations

import os
import tempfile
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.key_split import SPILL_SEED, key_fractions
from hoodie.errors import StorageError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.read.settings import SPILL_PATH

#: open files of one spill
_MOST_PARTS = 512


def part_count(expected: int, budget: int) -> int:
    """How many parts `expected` bytes of rows need so that one part at a time fits into `budget` bytes."""
    return min(_MOST_PARTS, max(2, -(-expected // budget)))


class SpillFolder:
    """A temporary folder for one merge: a context manager. StorageError when it can't be made."""

    def __init__(self, spill_path: str) -> None:
        try:
            if spill_path:
                os.makedirs(spill_path, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix="hoodie-spill-", dir=spill_path or None)
        except OSError as error:
            folder = spill_path or tempfile.gettempdir()
            raise StorageError(
                f"can't spill to {folder}: {error.strerror}; set {SPILL_PATH.name} to one with free space",
                path=folder,
            ) from error
        self.path = self._folder.name

    def __enter__(self) -> SpillFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._folder.cleanup()


class SpilledRows:
    """Rows of one schema, which has a record key, in `count` files of a folder: equal keys are in one file.

    Add batches, then `finish`; the files are Arrow files that can be memory-mapped.
    """

    def __init__(self, folder: SpillFolder, name: str, schema: pa.Schema, count: int) -> None:
        self._count = count
        self._key = schema.get_field_index(RECORD_KEY)
        self.paths = [os.path.join(folder.path, f"{name}-{number}.arrow") for number in range(count)]
        self._writers = [pa.ipc.new_file(path, schema) for path in self.paths]

    def add(self, batch: pa.RecordBatch) -> None:
        keys = batch.column(self._key)
        parts = (key_fractions(keys, SPILL_SEED) * self._count).astype(np.int64)
        for number in range(self._count):
            mask = parts == number
            if mask.any():
                self._writers[number].write_batch(batch.filter(pa.array(mask)))

    def finish(self) -> list[str]:
        """Paths of the whole files, part by part."""
        for writer in self._writers:
            writer.close()
        self._writers = []
        return self.paths


def read_spilled(path: str) -> pa.Table:
    """All rows of a spill file, copied into memory."""
    with pa.OSFile(path, "rb") as source:
        return pa.ipc.open_file(source).read_all()


def map_rows(path: str, rows: pa.Table) -> pa.Table:
    """`rows` written to a file and mapped from it: they take memory only while they are read."""
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows)
    source: Any = pa.memory_map(path)
    return pa.ipc.open_file(source).read_all()
