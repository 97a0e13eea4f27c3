"""Avro and ORC files: rows of each file are read where they are used, a block or stripe at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.engine.origin import note
from hoodie.engine.streams import Stream, widened
from hoodie.format.avro_source import avro_batches, avro_schema
from hoodie.source import Format, Source, source_files
from hoodie.source.arrow_files import file_system
from hoodie.source.folders import FolderColumn, folder_columns, refuse_twice, texts_below
from hoodie.source.together import union, unreadable

#: files whose schemas are read side by side
_OPENED = 8


@dataclass(frozen=True)
class RecordFile:
    """One file; picklable: tasks read it, too. `folders`: columns in the names of its folders. `schema`: that
    of all files of the source; `wanted`: that in which rows are given, if it is another.
    """

    source: Source
    path: str
    folders: tuple[FolderColumn, ...] = ()
    schema: pa.Schema | None = None
    wanted: pa.Schema | None = None

    def own_schema(self) -> tuple[str, pa.Schema]:
        with unreadable(self.source, self.path), self._opened() as file:
            found = avro_schema(file) if self._avro else _orc(file).schema.remove_metadata()
            refuse_twice(self.path, found.names, [column.name for column in self.folders])
            return self.path, pa.schema([*found, *(pa.field(item.name, item.type) for item in self.folders)])

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The rows in the source's schema. Raises InputError, which names the file."""
        note(self.path)
        with unreadable(self.source, self.path), self._opened() as file:
            for batch in avro_batches(file) if self._avro else _stripes(_orc(file)):
                rows = pa.Table.from_batches([batch])
                for column in self.folders:
                    rows = rows.append_column(column.name, column.values(rows.num_rows))
                rows = rows if self.schema is None else widened(rows, self.schema)
                yield from (rows if self.wanted is None else rows.cast(self.wanted)).to_batches()

    @property
    def _avro(self) -> bool:
        return self.source.format is Format.AVRO

    def _opened(self) -> Any:
        files, place = file_system(self.source, self.path)
        return files.open_input_file(place)


def record_files(source: Source) -> list[RecordFile]:
    """The files of an Avro or ORC source with the schema of all. Raises InputError, which names a file."""
    columns = folder_columns(texts_below(source_files(source)), None)
    files = [RecordFile(source, path, found) for path, found in columns.items()]
    with ThreadPoolExecutor(_OPENED) as pool:  # of an object store each is a request
        schema = union(list(pool.map(RecordFile.own_schema, files)))
    return [replace(file, schema=schema) for file in files]


def record_rows(files: Sequence[RecordFile]) -> Stream:
    """The rows of one file at least."""
    assert files[0].schema is not None
    return Stream(files[0].schema, tuple(files))


def _orc(file: Any) -> Any:
    from pyarrow import orc

    return orc.ORCFile(file)


def _stripes(file: Any) -> Iterator[pa.RecordBatch]:
    for number in range(file.nstripes):
        yield file.read_stripe(number)
