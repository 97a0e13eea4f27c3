"""Content of data blocks: rows as Avro records, a Parquet file, or an HFile (format.md 8.4, 8.7 to 8.9).

    AVRO_DATA, CDC_DATA    version int32 | records int32 | per record: length int32 | Avro binary of SCHEMA
    PARQUET_DATA           a Parquet file
    HFILE_DATA             an HFile of Avro records, see `hfile_records`
    log format version 0   length int32 | zlib of the schema | records int32 | records as above

Content versions 1 to 3 differ in nothing that matters here. DELETE blocks are in `log_delete`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.codec.arrow_avro import decode_records, encode_records
from hoodie.config.limits import MAX_BLOCK_BYTES
from hoodie.engine.parquet_open import parquet_file
from hoodie.engine.required import settled
from hoodie.errors import InputError, TableError
from hoodie.format.base_file import READ_BATCH_ROWS, parquet_writer
from hoodie.format.evolution import read_as
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_block import Compression
from hoodie.format.hfile_records import decode_rows, encode_rows, field_names, schema_of
from hoodie.format.hfile_writer import HFileOptions
from hoodie.format.internal_schema import FileColumns
from hoodie.format.log_block import IS_PARTIAL, BlockType, Buffer, LogBlock
from hoodie.format.log_delete import DeleteRecords, encode_delete_block, read_delete_block
from hoodie.format.parquet_guard import Footer, Pages
from hoodie.format.schema import from_avro
from hoodie.format.settings import Codec, LogBlockFormat

__all__ = [
    "BLOCK_TYPES",
    "DeleteRecords",
    "carried_columns",
    "encode_data_block",
    "encode_delete_block",
    "is_partial",
    "read_data_block",
    "read_delete_block",
    "record_count",
]

BLOCK_TYPES = {LogBlockFormat.AVRO: BlockType.AVRO_DATA, LogBlockFormat.PARQUET: BlockType.PARQUET_DATA}
CONTENT_VERSION = 3
_CONTENT_VERSIONS = (1, 2, 3)
_HEAD = struct.Struct(">ii")
_INT = struct.Struct(">i")
_HFILE_CODECS = {Codec.GZIP: Compression.GZIP, Codec.UNCOMPRESSED: Compression.NONE}
#: what a text raises that is no schema
_NO_SCHEMA = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
#: which cells of an HFile are wanted
Find: TypeAlias = Callable[[HFileReader], Iterable[pa.RecordBatch]]
#: a schema of log format version 0 may unpack to this many bytes
_MAX_SCHEMA = 1 << 24
_TOO_MANY = (
    f"its rows have more than {MAX_BLOCK_BYTES:,} bytes in memory; HOODIE_MAX_BLOCK_BYTES in the environment "
    "must be larger to read them"
)
#: what pyarrow raises for bytes that are no whole Parquet file
_TORN_PARQUET = (pa.ArrowException, ValueError, OSError, LookupError, OverflowError, MemoryError)


def read_data_block(
    block: LogBlock,
    content: Any,
    target: pa.Schema | None = None,
    columns: Sequence[str] | None = None,
    known_as: FileColumns | None = None,
    partial: bool = False,
) -> pa.Table:
    """The rows of a data block in the columns and types of `target`, or of the block's own schema.

    `columns` picks and orders columns. Columns that the block lacks are null, narrower types are widened
    (`evolution.read_as`). `known_as` matches the block's columns with those of `target` by id. TableError for
    content that is damaged or can't become `target`, for blocks without rows, and without `partial` for rows
    of Apache Hudi 1.x that hold changed columns only (`carried_columns`).
    """
    if is_partial(block) and not partial:
        raise TableError(
            f"the log block at byte {block.offset} holds changed columns only, a form of Apache Hudi 1.x; "
            "compact the table with Apache Hudi first",
            offset=block.offset,
        )
    try:
        stored = columns if known_as is None or columns is None else known_as.names(columns)
        rows, own = _read(block, memoryview(content).cast("B"), stored)
        wanted = own if target is None else target
        if columns is not None:
            wanted = pa.schema([wanted.field(name) for name in columns])
        if known_as is not None:
            return known_as.read(rows, wanted)
        return rows if rows.schema.equals(wanted) else read_as(rows, wanted)
    except InputError as error:
        raise _damaged(block, error.message) from None


def is_partial(block: LogBlock) -> bool:
    """Do its rows hold changed columns only."""
    return block.headers.get(IS_PARTIAL) == "true"


def carried_columns(
    block: LogBlock, columns: Sequence[str], known_as: FileColumns | None = None
) -> frozenset[str]:
    """Those of the columns that the rows of a data block have, by its schema; all where it is not partial."""
    if not is_partial(block):
        return frozenset(columns)
    try:
        there = frozenset(field_names(block.schema_text or ""))
    except _NO_SCHEMA as error:
        raise _damaged(block, f"its schema: {type(error).__name__}: {error}") from None
    return frozenset(
        name for name in columns if there.intersection([name] if known_as is None else known_as.names([name]))
    )


def record_count(block: LogBlock, content: Any) -> int | None:
    """How many rows or deletes the block holds; None for blocks without them. TableError as the readers."""
    view = memoryview(content).cast("B")
    if block.type is BlockType.DELETE:
        return len(read_delete_block(view))
    if block.type is BlockType.PARQUET_DATA:
        return int(_parquet(block, pa.BufferReader(view))[0].metadata.num_rows)
    if block.type is BlockType.HFILE_DATA:
        with hfile_of(block, view) as reader:
            return reader.entries
    if block.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
        return _records(block, view)[2]
    return None


def encode_data_block(rows: pa.Table, avro_schema: str, kind: BlockType, codec: Codec) -> list[Buffer]:
    """The content of a data block, in pieces; `avro_schema` is its SCHEMA header.

    Columns are matched by name. `codec` is that of Parquet, or of an HFile: gzip or none; Avro records are
    never compressed. An HFile is sorted by the column `key`.
    """
    if kind in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
        return [_HEAD.pack(CONTENT_VERSION, rows.num_rows), *encode_records(rows, avro_schema)]
    if kind is BlockType.HFILE_DATA and codec in _HFILE_CODECS:
        return [encode_rows(rows, avro_schema, HFileOptions(compression=_HFILE_CODECS[codec]))]
    if kind is not BlockType.PARQUET_DATA:
        raise ValueError(f"rows are not written as {kind.name} blocks of codec {codec.value}")
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, rows.schema, rows, codec, checksums=True) as writer:
        writer.write_table(settled(rows), row_group_size=max(1, rows.num_rows))
        writer.add_key_value_metadata({"parquet.avro.schema": avro_schema, "writer.model.name": "avro"})
    return [sink.getvalue()]


def records_content(count: int, records: Sequence[Buffer]) -> list[Buffer]:
    """The content of a block of so many records, which `encode_records` has made."""
    return [_HEAD.pack(CONTENT_VERSION, count), *records]


def _read(block: LogBlock, view: memoryview, columns: Sequence[str] | None) -> tuple[pa.Table, pa.Schema]:
    """(the rows' columns that the block has, its whole schema)"""
    if block.type is BlockType.PARQUET_DATA:
        return _read_parquet(block, view, columns)
    if block.type in (BlockType.AVRO_DATA, BlockType.CDC_DATA):
        return _read_avro(block, view, columns)
    if block.type is BlockType.HFILE_DATA:
        with hfile_of(block, view) as reader:
            text = block.schema_text or schema_of(reader)
            return _read_cells(block, reader.scan(), text, columns)
    raise TableError(f"the {block.type.name} block at byte {block.offset} holds no rows", offset=block.offset)


def find_rows(block: LogBlock, content: Any, find: Find, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of an HFILE_DATA block, of which `find` says the keys; TableError as `read_data_block`."""
    try:
        with hfile_of(block, content) as reader:
            return _read_cells(block, find(reader), block.schema_text or schema_of(reader), columns)[0]
    except InputError as error:
        raise _damaged(block, error.message) from None


def hfile_of(block: LogBlock, content: Any) -> HFileReader:
    """The HFile in the content of an HFILE_DATA block."""
    return HFileReader.of_bytes(memoryview(content).cast("B"), f"the HFILE_DATA block at byte {block.offset}")


def _read_cells(
    block: LogBlock, cells: Iterable[pa.RecordBatch], text: str, columns: Sequence[str] | None
) -> tuple[pa.Table, pa.Schema]:
    try:
        if columns is not None:
            there = field_names(text)
            columns = [name for name in columns if name in there] or there[:1]
        rows = decode_rows(cells, text, columns)
        return rows, rows.schema
    except _NO_SCHEMA as error:
        raise _damaged(block, f"its schema: {type(error).__name__}: {error}") from None


def _read_avro(
    block: LogBlock, view: memoryview, columns: Sequence[str] | None
) -> tuple[pa.Table, pa.Schema]:
    text, records, count = _records(block, view)
    try:
        own = from_avro(text)
    except _NO_SCHEMA as error:
        raise _damaged(block, f"its schema: {type(error).__name__}: {error}") from None
    return decode_records(records, count, text, _of(own, columns)), own


def _records(block: LogBlock, view: memoryview) -> tuple[str, memoryview, int]:
    """(schema, records with their lengths, number of records)"""
    text = block.schema_text
    if block.version == 0:
        text, view = _old_schema(block, view)
    elif len(view) >= _INT.size:
        version = _INT.unpack_from(view)[0]
        if version not in _CONTENT_VERSIONS:
            raise _damaged(block, f"content version {version}, known are 1 to {CONTENT_VERSION}")
        view = view[_INT.size :]
    if len(view) < _INT.size:
        raise _damaged(block, "no number of records")
    count = _INT.unpack_from(view)[0]
    if not 0 <= count * _INT.size <= len(view) - _INT.size:
        raise _damaged(block, f"{count} records in {len(view)} bytes")
    if text is None:
        raise _damaged(block, "it has no schema")
    return text, view[_INT.size :], count


def _old_schema(block: LogBlock, view: memoryview) -> tuple[str, memoryview]:
    """(schema, what follows it) of log format version 0."""
    length = _INT.unpack_from(view)[0] if len(view) >= _INT.size else -1
    if not 0 <= length <= len(view) - _INT.size:
        raise _damaged(block, f"a schema of {length} bytes")
    try:
        packed = zlib.decompressobj().decompress(view[_INT.size : _INT.size + length], _MAX_SCHEMA)
        return packed.decode(), view[_INT.size + length :]
    except (zlib.error, UnicodeDecodeError) as error:
        raise _damaged(block, f"its schema: {error}") from None


def _of(own: pa.Schema, columns: Sequence[str] | None) -> list[str] | None:
    """Those of the columns that a block has; one at least, for the number of rows."""
    if columns is None:
        return None
    there = frozenset(own.names)
    return [name for name in columns if name in there] or own.names[:1]


def _read_parquet(
    block: LogBlock, view: memoryview, columns: Sequence[str] | None
) -> tuple[pa.Table, pa.Schema]:
    source = pa.BufferReader(view)
    file, footer = _parquet(block, source)
    try:
        own = file.schema_arrow.remove_metadata()
        names = _of(own, columns)
        step = Pages(footer).batch_rows(names, READ_BATCH_ROWS)
        batches, size = [], 0
        for batch in file.iter_batches(batch_size=step, columns=names, use_threads=False):
            size += batch.nbytes
            if size > MAX_BLOCK_BYTES:
                raise ValueError(_TOO_MANY)
            batches.append(batch)
        if not batches:
            return file.schema_arrow.empty_table().select(names or own.names).replace_schema_metadata(), own
        return pa.Table.from_batches(batches).replace_schema_metadata(), own
    except _TORN_PARQUET as error:
        raise _damaged(block, str(error)) from None


def _parquet(block: LogBlock, source: pa.BufferReader) -> tuple[pq.ParquetFile, Footer]:
    try:
        footer = Footer(source)
        file = parquet_file(source, metadata=footer.metadata(), page_checksum_verification=True)
        if file.metadata.num_rows > MAX_BLOCK_BYTES:
            raise ValueError(_TOO_MANY)
        return file, footer
    except _TORN_PARQUET as error:
        raise _damaged(block, str(error)) from None


def _damaged(block: LogBlock, why: str) -> TableError:
    return TableError(
        f"the content of the {block.type.name} block at byte {block.offset} can't be read ({why}); restore "
        "the log file from a copy, or roll the table back to an instant before it",
        offset=block.offset,
    )
