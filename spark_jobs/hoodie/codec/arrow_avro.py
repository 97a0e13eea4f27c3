"""The records of log data blocks <-> Arrow, all records at once (format.md 8.4).

    records := count x ( int32 big-endian length | that many bytes: one record in Avro binary )

`avro_frames` finds the records, `avro_decode` and `avro_encode` translate them, a part at a time: memory
beyond the records and the rows themselves stays bounded. No Python code runs per record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.codec import avro_frames
from hoodie.codec.arrays import whole
from hoodie.codec.avro_cursor import Cursors, Damage, Raw
from hoodie.codec.avro_decode import read, skip
from hoodie.codec.avro_encode import write
from hoodie.codec.avro_encode_leaf import offsets_of
from hoodie.codec.avro_sink import Sink
from hoodie.codec.avro_types import Record, arrow_field, parse_text
from hoodie.errors import SchemaError, TableError

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: records that are worked on together: at most so many, in about so many bytes (one record may have more)
ROWS, BYTES = 1 << 14, 8 << 20

_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def encode_records(rows: pa.Table | pa.RecordBatch, schema_text: str) -> list[pa.Buffer]:
    """`rows` as records, in buffers to be written one after the other; none for no rows.

    Columns are matched by name to the fields of the schema, further columns are left out. They may be
    chunked, dictionaries, or of a layout or width that holds no more than the schema's type. Raises
    SchemaError for a missing column or another type, InputError for a null or value that the schema does not
    allow.
    """
    record = parse_text(schema_text)
    return [_framed(_sink(record, part)) for part in _parts_of(rows, record)]


def encode_values(rows: pa.Table | pa.RecordBatch, schema_text: str) -> pa.ChunkedArray[Any]:
    """As `encode_records`, one record a value of a binary array."""
    record = parse_text(schema_text)
    values = [_sink(record, part).finish() for part in _parts_of(rows, record)]
    return pa.chunked_array(values, pa.binary())


def _parts_of(rows: pa.Table | pa.RecordBatch, record: Record) -> Iterator[pa.Table]:
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    missing = [field.name for field in record.fields if table.schema.get_field_index(field.name) < 0]
    if missing:
        raise SchemaError(
            f"the rows lack columns {', '.join(missing)} of the records' schema, or have them twice",
            columns=", ".join(missing),
        )
    return _small_parts(table.select([field.name for field in record.fields]))


def _small_parts(rows: pa.Table) -> Iterator[pa.Table]:
    """Consecutive rows in parts of at most ROWS rows and about BYTES bytes, one row at least."""
    for start in range(0, rows.num_rows, ROWS):
        part = rows.slice(start, ROWS)
        for place, column in enumerate(part.columns):
            if pa.types.is_string_view(column.type):  # few kernels know views, and their size is not known
                part = part.set_column(place, part.field(place).name, column.cast(pa.large_string()))
            elif pa.types.is_binary_view(column.type):
                part = part.set_column(place, part.field(place).name, column.cast(pa.large_binary()))
        yield from _halved(part)


def _halved(rows: pa.Table) -> Iterator[pa.Table]:
    half = rows.num_rows // 2
    if half and sum(map(_size, rows.columns)) > BYTES:
        yield from _halved(rows.slice(0, half))
        yield from _halved(rows.slice(half))
    else:
        yield rows


def _size(column: Any) -> int:
    """Bytes of a column's values; those of a dictionary as often as they are used."""
    size = 0
    for chunk in column.chunks:
        values = chunk.dictionary if pa.types.is_dictionary(column.type) else None
        if values is None:
            size += chunk.nbytes
        elif values.type in _TEXTS:
            lengths = pc.binary_length(values).take(chunk.indices)
            size += pc.sum(lengths.cast(pa.int64())).as_py() or 0
        else:
            size += len(chunk) * (values.nbytes // max(1, len(values)) + 1)
    return size


def _sink(record: Record, rows: pa.Table) -> Sink:
    sink = Sink(rows.num_rows)
    for field, column in zip(record.fields, rows.columns, strict=True):
        try:
            write(field.type, _one_array(column), sink, field.name)
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(
                f"column {field.name} of type {column.type} can't be written ({error}); cast it",
                column=field.name,
            ) from None
    return sink


def _framed(sink: Sink) -> pa.Buffer:
    records = sink.finish(framed=True)
    bounds = offsets_of(records)
    data: pa.Buffer = records.buffers()[2]
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _one_array(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return whole(column)


def decode_records(data: Any, count: int, schema_text: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The `count` records in the bytes-like `data` as rows, in the types of `format.schema.from_avro`.

    `columns` picks and orders columns (at least one, or the rows are not counted); the others may have any
    Avro type and are skipped, but checked for where they end. Raises TableError when `data` is not exactly
    such records; SchemaError for a schema or column that has no Arrow type, and for columns that the schema
    lacks.
    """
    buffer = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
    return _decode_all(buffer, avro_frames.segments(buffer, count), schema_text, columns)


def decode_values(values: Any, schema_text: str, columns: Sequence[str] | None = None) -> pa.Table:
    """As `decode_records`, of a binary array without nulls, one record a value.

    Unions of several types are structs (`avro_types.arrow_field`).
    """
    if not len(values):
        return _decode_all(np.empty(0, np.uint8), (), schema_text, columns, unions=True)
    bounds = offsets_of(values).astype(np.int64)
    buffer = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    return _decode_all(buffer, [(bounds[:-1], bounds[1:])], schema_text, columns, unions=True)


def _decode_all(
    buffer: avro_frames.Bytes,
    places: Iterable[tuple[avro_frames.Places, avro_frames.Places]],
    schema_text: str,
    columns: Sequence[str] | None,
    unions: bool = False,
) -> pa.Table:
    record = parse_text(schema_text)
    names = [field.name for field in record.fields] if columns is None else list(dict.fromkeys(columns))
    schema = _picked(record, names, unions)
    done, batches = 0, []
    for starts, ends in places:
        for part in _parts(starts, ends):
            batches.append(_decode(record, schema, buffer, starts[part], ends[part], done + part.start))
        done += starts.size
    return pa.Table.from_batches(batches, schema)


def _picked(record: Record, names: list[str], unions: bool) -> pa.Schema:
    nodes = {field.name: field.type for field in record.fields}
    missing = [name for name in names if name not in nodes]
    if missing:
        raise SchemaError(
            f"the records have no columns {', '.join(missing)}; they have {', '.join(nodes)}",
            columns=", ".join(missing),
        )
    return pa.schema([arrow_field(name, nodes[name], name, unions) for name in names])


def _parts(starts: avro_frames.Places, ends: avro_frames.Places) -> list[slice]:
    """Consecutive records in parts of at most ROWS records and BYTES bytes."""
    parts, at = [], 0
    while at < starts.size:
        stop = int(np.searchsorted(ends, starts[at] + BYTES, side="right"))
        stop = min(max(stop, at + 1), at + ROWS)
        parts.append(slice(at, min(stop, starts.size)))
        at = stop
    return parts


def _decode(
    record: Record,
    schema: pa.Schema,
    data: avro_frames.Bytes,
    starts: avro_frames.Places,
    ends: avro_frames.Places,
    row: int,
) -> pa.RecordBatch:
    base = int(starts[0])
    raw = Raw(data[base : int(ends[-1])])
    cursors = Cursors(raw, starts - base, ends - base, np.arange(row, row + starts.size))
    types, arrays, name = {field.name: field.type for field in schema}, {}, ""
    try:
        for field in record.fields:
            name = field.name
            if name in types:
                arrays[name] = read(field.type, types[name], cursors)
                cursors.check("its value")
            else:
                skip(field.type, cursors)
        name = ""
        cursors.refuse(cursors.at != cursors.end, "bytes follow its last value")
    except Damage as damage:
        raise _damaged(damage, name) from None
    return pa.RecordBatch.from_arrays([arrays[name] for name in types], schema=schema)


def _damaged(damage: Damage, column: str) -> TableError:
    where = f"record {damage.row}" + (f", column {column!r}" if column else "")
    return TableError(
        f"a block of log records is damaged ({where}: {damage.why}); restore the log file from a copy, or "
        "roll the table back to an instant before it",
        record=damage.row,
        column=column,
    )
