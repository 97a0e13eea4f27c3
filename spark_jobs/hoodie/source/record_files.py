"""Avro and ORC files: rows of each file are read where they are used, a block or stripe at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.engine.streams import Stream, widened
from hoodie.errors import InputError
from hoodie.format.avro_source import avro_batches, avro_schema
from hoodie.source import Format, Source, SourceFile, source_files
from hoodie.source.arrow_files import file_system
from hoodie.source.together import union, unreadable

#: files whose schemas are read side by side
_OPENED = 8


@dataclass(frozen=True)
class RecordFile:
    """One file; picklable: tasks read it, too. `schema`: that of all files of the source."""

    source: Source
    path: str
    schema: pa.Schema | None = None

    def own_schema(self) -> tuple[str, pa.Schema]:
        with unreadable(self.source, self.path), self._opened() as file:
            return self.path, avro_schema(file) if self._avro else _orc(file).schema.remove_metadata()

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The rows in the source's schema. Raises InputError, which names the file."""
        with unreadable(self.source, self.path), self._opened() as file:
            for batch in avro_batches(file) if self._avro else _stripes(_orc(file)):
                rows = pa.Table.from_batches([batch])
                yield from (rows if self.schema is None else widened(rows, self.schema)).to_batches()

    @property
    def _avro(self) -> bool:
        return self.source.format is Format.AVRO

    def _opened(self) -> Any:
        files, place = file_system(self.source, self.path)
        return files.open_input_file(place)


def record_files(source: Source) -> list[RecordFile]:
    """The files of an Avro or ORC source with the schema of all. Raises InputError, which names a file."""
    files = [
        RecordFile(source, _plain(folder, file))
        for folder, some in source_files(source).items()
        for file in some
    ]
    with ThreadPoolExecutor(_OPENED) as pool:  # of an object store each is a request
        schema = union(list(pool.map(RecordFile.own_schema, files)))
    return [RecordFile(source, file.path, schema) for file in files]


def record_rows(files: Sequence[RecordFile]) -> Stream:
    """The rows of one file at least."""
    assert files[0].schema is not None
    return Stream(files[0].schema, tuple(files))


def _plain(folder: str, file: SourceFile) -> str:
    """The file's path. Raises InputError for one whose folders have columns in their names."""
    if folder and any("=" in name for name in file.path[len(folder) :].split("/")[:-1]):
        raise InputError(
            f"{file.path}: columns in the names of folders are not read of Avro and ORC files; give the "
            "files themselves as source and add the columns by a transform, or use Parquet",
            file=file.path,
        )
    return file.path


def _orc(file: Any) -> Any:
    from pyarrow import orc

    return orc.ORCFile(file)


def _stripes(file: Any) -> Iterator[pa.RecordBatch]:
    for number in range(file.nstripes):
        yield file.read_stripe(number)
