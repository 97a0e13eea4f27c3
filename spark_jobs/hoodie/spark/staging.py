"""Rows that tasks of a Spark job leave in the table's storage until the driver commits them.

They lie in `.hoodie/.temp`, which no reader looks at, in one folder a write. The commit names the files that
count, so that those of failed attempts of tasks do not. The folder of a write that was killed is deleted by a
later one.
"""

from __future__ import annotations

import contextlib
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hoodie.api import write_table
from hoodie.engine.packing import together
from hoodie.engine.parquet_open import parquet_format
from hoodie.engine.required import settled
from hoodie.errors import HoodieError, JobError
from hoodie.source import Format, Source
from hoodie.source.arrow_files import file_system
from hoodie.spark.options import Writing
from hoodie.storage import Storage
from hoodie.storage.settings import FSYNC
from hoodie.table.handle import TableRef
from hoodie.table.markers import TEMP_FOLDER

_PREFIX = "spark_rows_"
#: bytes of rows that a task holds, which are one row group
_HELD = 32 << 20
#: milliseconds without a new file after which a write is taken for dead
_ABANDONED_MS = 24 * 3_600_000


@dataclass(frozen=True)
class StagedFile:
    path: str
    size: int


@dataclass(frozen=True)
class Stage:
    """The staged rows of one write, of one schema. Picklable; they need not survive a power failure."""

    table: TableRef
    schema: pa.Schema
    name: str

    @classmethod
    def new(cls, table: TableRef, schema: pa.Schema) -> Stage:
        options = {**table.storage_options, FSYNC.name: "false"}
        return cls(replace(table, storage_options=options), schema, f"{_PREFIX}{uuid.uuid4().hex}")

    @property
    def folder(self) -> str:
        return f"{self.table.uri}/{TEMP_FOLDER}/{self.name}"

    def keep(self, batches: Iterable[pa.RecordBatch]) -> tuple[StagedFile, ...]:
        """Called in a task: its rows as a file; none without rows. Memory: `_HELD` bytes, and a batch."""
        storage, path = self.table.storage(), f"{self.folder}/{uuid.uuid4().hex}.parquet"
        parts = together((batch for batch in batches if batch.num_rows), lambda batch: batch.nbytes, _HELD)
        first = next(parts, None)
        if first is None:
            return ()
        output = storage.output(path)
        try:
            with pq.ParquetWriter(output, self.schema, compression="zstd") as writer:  # type: ignore[arg-type]
                for held in chain([first], parts):
                    rows = settled(pa.Table.from_batches(held).cast(self.schema))
                    writer.write_table(rows, row_group_size=rows.num_rows)
            output.commit()
        except BaseException:
            output.abandon()
            raise
        found = storage.info(path)
        if found is None:
            raise _lost(path, "gone")
        return (StagedFile(path, found.size),)

    def rows(self, files: Sequence[StagedFile]) -> pa.Table | ds.Dataset:
        """The rows of these files, which are all there; raises JobError where one is not."""
        storage = self.table.storage()
        for file in files:
            found = storage.info(file.path)
            if found is None or found.size != file.size:
                raise _lost(file.path, "gone" if found is None else "damaged")
        if not files:
            return self.schema.empty_table()
        paths = tuple(file.path for file in files)
        source = Source(paths, Format.PARQUET, storage_options=self.table.storage_options)
        opened = [file_system(source, path) for path in paths]
        return ds.dataset(
            [path for _, path in opened], schema=self.schema, format=parquet_format(), filesystem=opened[0][0]
        )

    def delete(self) -> None:
        """The staged rows of this write, and those of writes that are dead. What can't be deleted now a later
        write deletes.
        """
        with contextlib.suppress(HoodieError, OSError):
            storage = self.table.storage()
            storage.delete_tree(self.folder)
            self._sweep(storage)

    def _sweep(self, storage: Storage) -> None:
        for item in storage.list(f"{self.table.uri}/{TEMP_FOLDER}"):
            if not (item.is_dir and item.name.startswith(_PREFIX)):
                continue
            newest = max((file.mtime_ms for file in storage.tree(item.path)), default=item.mtime_ms)
            if storage.now_ms() - newest > _ABANDONED_MS:
                storage.delete_tree(item.path)


def write_staged(
    rows: pa.Table | ds.Dataset, writing: Writing, extra_metadata: Mapping[str, str] | None = None
) -> None:
    """Write them by the local engine, as one commit; what its result warns of are Python's warnings."""
    result = write_table(
        rows,
        writing.ref.uri,
        operation=writing.operation,
        options=writing.config.texts,
        extra_metadata=extra_metadata,
    )
    for text in result.warnings:
        warnings.warn(text, stacklevel=2)


def _lost(path: str, what: str) -> JobError:
    return JobError(
        f"the staged rows in {path} are {what}, and nothing was committed; run the write again", path=path
    )
