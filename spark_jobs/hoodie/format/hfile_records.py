"""Records of Apache Hudi in HFiles (format.md 9.7): base files and log blocks of metadata tables.

A value is the record in Avro binary, mostly without the text of its field `key`, the key of the cell; the
schema is in the file info, and in a log block's header. What is deleted is in DELETE blocks.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import pc, whole
from hoodie.codec.arrow_avro import decode_values, encode_values
from hoodie.codec.avro_types import parse_text
from hoodie.config.limits import MAX_BLOCK_BYTES
from hoodie.errors import TableError
from hoodie.format.bloom import BloomFilter
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_block import BLOOM_FILTER, BLOOM_TYPE, MAX_KEY, MIN_KEY, SCHEMA
from hoodie.format.hfile_cells import CELLS
from hoodie.format.hfile_writer import HFileOptions, HFileWriter, Sink

#: the field whose text is the cell's key
KEY_FIELD = "key"


def schema_of(reader: HFileReader) -> str:
    """The records' Avro schema. Raises TableError where the file has none."""
    try:
        return reader.info[SCHEMA].decode()
    except (KeyError, UnicodeDecodeError):
        raise TableError(
            f"{reader.name} has no Avro schema, so it holds no records of Apache Hudi; restore the file "
            "from a copy",
            path=reader.name,
        ) from None


def field_names(schema_text: str) -> list[str]:
    return [item.name for item in parse_text(schema_text).fields]


def decode_rows(
    cells: Iterable[pa.RecordBatch], schema_text: str, columns: Sequence[str] | None = None
) -> pa.Table:
    """The records in cells, in the types of `from_avro`; `columns` picks some of the schema's, at least one.

    Raises TableError for damaged ones and for more than MAX_BLOCK_BYTES of them, SchemaError for a schema or
    column that has no Arrow type.
    """
    parts, size = [], 0
    for batch in cells:
        part = _rows(batch.column(0), batch.column(1), schema_text, columns)
        size += max(part.nbytes, batch.nbytes)
        if size > MAX_BLOCK_BYTES:
            raise TableError(
                f"the records of an HFile have more than {MAX_BLOCK_BYTES:,} bytes in memory; "
                "HOODIE_MAX_BLOCK_BYTES in the environment must be larger to read them"
            )
        parts.append(part)
    if not parts:
        return decode_values(pa.array([], pa.binary()), schema_text, columns)
    return pa.concat_tables(parts)


def _rows(keys: Any, values: Any, schema_text: str, columns: Sequence[str] | None) -> pa.Table:
    rows = decode_values(values, schema_text, columns)
    place = rows.schema.get_field_index(KEY_FIELD)
    if place < 0:
        return rows
    stored = whole(rows.column(place))
    try:
        if not (pa.types.is_string(stored.type) or pa.types.is_binary(stored.type)):
            raise pa.ArrowInvalid
        texts = keys.cast(stored.type)
    except pa.ArrowInvalid:
        raise TableError(
            f"a block of records is damaged: a key is no {stored.type}", column=KEY_FIELD
        ) from None
    blank = pc.equal(pc.binary_length(stored), 0)
    if not pc.all(pc.fill_null(pc.or_(blank, pc.equal(stored, texts)), False), min_count=0).as_py():
        raise TableError("a record has another key than its cell", column=KEY_FIELD)
    return rows.set_column(place, rows.schema.field(place), texts)


def cells_of(rows: pa.Table, schema_text: str) -> pa.RecordBatch:
    """Rows with a column `key` as cells, sorted by it; rows of one key keep their order."""
    return by_key(encoded(rows, schema_text))


def by_key(cells: pa.RecordBatch) -> pa.RecordBatch:
    """Cells sorted by their keys; those of one key keep their order."""
    return cells.take(pc.sort_indices(cells.column(0)))


def encoded(rows: pa.Table, schema_text: str) -> pa.RecordBatch:
    """As `cells_of`, in the order of the rows."""
    keys = whole(rows.column(KEY_FIELD))
    place = rows.schema.get_field_index(KEY_FIELD)
    blank: Any = pa.array([""], keys.type).take(pa.array([0] * len(keys), pa.int8()))
    values = whole(encode_values(rows.set_column(place, rows.schema.field(place), blank), schema_text))
    return pa.record_batch([keys.cast(pa.binary()), values], schema=CELLS)


def write_rows(
    sink: Sink, rows: pa.Table, schema_text: str, options: HFileOptions, bloom: BloomFilter | None = None
) -> int:
    """Writes an HFile of rows with a column `key`, sorted by it; returns the file's size.

    Rows of one key keep their order; a base file has one a key. `bloom`, which the keys are added to, and the
    least and greatest key are in base files of Apache Hudi.
    """
    cells = cells_of(rows, schema_text)
    keys = cells.column(0)
    writer = HFileWriter(sink, options)
    info = {SCHEMA: schema_text.encode()}
    writer.append(keys, cells.column(1))
    if bloom is not None:
        bloom.add(keys.cast(pa.string()))
        info[BLOOM_TYPE] = bloom.type.value.encode()
        info[MIN_KEY], info[MAX_KEY] = (keys[0].as_py(), keys[-1].as_py()) if len(keys) else (b"", b"")
        writer.append_meta(BLOOM_FILTER, bloom.to_string().encode())
    return writer.finish(info)


def write_cells(
    sink: Sink, cells: Iterable[pa.RecordBatch], schema_text: str, options: HFileOptions
) -> tuple[int, int]:
    """Writes an HFile of sorted cells, whose values have the schema; returns (cells, the file's size)."""
    writer, count = HFileWriter(sink, options), 0
    for batch in cells:
        writer.append(batch.column(0), batch.column(1))
        count += batch.num_rows
    return count, writer.finish({SCHEMA: schema_text.encode()})


def encode_rows(rows: pa.Table, schema_text: str, options: HFileOptions) -> bytes:
    """An HFile as `write_rows` makes it, for a log block."""
    sink = io.BytesIO()
    write_rows(sink, rows, schema_text, options)
    return sink.getvalue()
