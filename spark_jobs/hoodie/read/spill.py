"""Rows on disk, cut by record key: what a merge does when its rows are more than its memory budget."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.hashing import SPILL_SEED, key_fractions
from hoodie.errors import StorageError
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.read.settings import SPILL_PATH

_PREFIX = "hoodie-spill-"
#: a folder that was made just now may not be locked yet
_YOUNG_SECONDS = 60
#: open files of one spill
_MOST_PARTS = 512


def part_count(expected: int, budget: int) -> int:
    """How many parts `expected` bytes of rows need so that one part at a time fits into `budget` bytes."""
    return min(_MOST_PARTS, max(2, -(-expected // budget)))


def spill_error(spill_path: str, error: OSError) -> StorageError:
    """The error for a folder that rows can't be spilled to."""
    folder = spill_path or tempfile.gettempdir()
    return StorageError(
        f"can't spill to {folder}: {error.strerror}; set {SPILL_PATH.name} to one with free space",
        path=folder,
    )


class SpillFolder:
    """A temporary folder for one merge: a context manager. StorageError when it can't be made.

    It is locked while its process lives: the next process that spills there removes those that a killed one
    left.
    """

    def __init__(self, spill_path: str) -> None:
        try:
            if spill_path:
                os.makedirs(spill_path, exist_ok=True)
            _sweep(spill_path or tempfile.gettempdir())
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=spill_path or None)
            self._unlock = weakref.finalize(self, os.close, _locked(self._folder.name))
        except OSError as error:
            raise spill_error(spill_path, error) from error
        self.path = self._folder.name

    def __enter__(self) -> SpillFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._folder.cleanup()
        self._unlock()


def _sweep(parent: str) -> None:
    """Remove the folders of this user whose processes are gone: no process holds their lock."""
    with contextlib.suppress(OSError), os.scandir(parent) as items:
        found = [item for item in items if item.name.startswith(_PREFIX)]
        for item in found:
            with contextlib.suppress(OSError):
                info = item.stat(follow_symlinks=False)
                young = time.time() - info.st_mtime < _YOUNG_SECONDS
                if young or info.st_uid != os.getuid() or not stat.S_ISDIR(info.st_mode):
                    continue
                lock = os.open(item.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(item.path, ignore_errors=True)
                finally:
                    os.close(lock)


def _locked(folder: str) -> int:
    """The descriptor that locks the folder, where folders have locks."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return lock


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
