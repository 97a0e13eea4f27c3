"""Avro and ORC files: rows of each file are read where they are used, a block or stripe at a time.

Avro files of other tools become Arrow batches, one a block.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.codec.avro import AvroFile, block_records
from hoodie.codec.avro_container import parsed_schema
from hoodie.engine.origin import note
from hoodie.engine.streams import Stream, widened
from hoodie.errors import HoodieError
from hoodie.format.schema import from_avro
from hoodie.source import Format, Source, source_files
from hoodie.source.arrow_files import file_system
from hoodie.source.folders import FolderColumn, check_not_twice, folder_columns, texts_below
from hoodie.source.together import union, unreadable

#: what the numbers of these types are in the file
_STORED: dict[pa.DataType, pa.DataType] = {
    pa.date32(): pa.int32(),
    pa.time32("ms"): pa.int32(),
    pa.time64("us"): pa.int64(),
}


def avro_schema(source: Any) -> pa.Schema:
    """Of an opened file. Raises ValueError for what is none, or has types that no table column has."""
    return _schema(AvroFile(source).schema)


def avro_batches(source: Any) -> Iterator[pa.RecordBatch]:
    """The records of an opened file in its schema. Raises ValueError and Arrow's errors for a damaged one."""
    file = AvroFile(source)
    schema = _schema(file.schema)
    text = json.dumps(_plain(parsed_schema(file.schema)))
    target: Any = pa.struct([*schema])
    raw = _raw(target)
    for block in file.blocks():
        if block.records:
            values: Any = pa.array(block_records(text, block), raw).cast(target)
            yield pa.RecordBatch.from_struct_array(values)


def _schema(text: str) -> pa.Schema:
    avro = parsed_schema(text)
    if not isinstance(avro, dict) or avro.get("type") != "record":
        raise ValueError("its schema is not that of a record")
    try:
        return from_avro(text)
    except HoodieError as error:
        raise ValueError(error.message) from error


def _plain(avro: Any) -> Any:
    """The schema, in which what stands for a time or a UUID is the number or text that it is in the file:
    Python's times have fewer years than these numbers.
    """
    if isinstance(avro, list):
        return [_plain(item) for item in avro]
    if not isinstance(avro, dict):
        return avro
    return {
        name: value if name in ("default", "symbols", "aliases", "doc") else _plain(value)
        for name, value in avro.items()
        if name != "logicalType" or value == "decimal"
    }


def _raw(dtype: Any) -> Any:
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_raw(field.type)) for field in dtype])
    if pa.types.is_map(dtype):
        return _map(dtype.key_type, dtype.item_field.with_type(_raw(dtype.item_type)))
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_raw(dtype.value_type)))
    return pa.int64() if pa.types.is_timestamp(dtype) else _STORED.get(dtype, dtype)


def _map(key: Any, item: Any) -> pa.DataType:  # the stubs know types only
    return pa.map_(key, item)


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
            check_not_twice(self.path, found.names, [column.name for column in self.folders])
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
