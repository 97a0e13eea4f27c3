"""The records of log data blocks <-> Arrow, all records at once (format.md 8.4).

    records := count x ( int32 big-endian length | that many bytes: one record in Avro binary )

- `avro_decode` and `avro_encode` translate the records a part at a time. The memory beyond the records and
  the rows themselves is bounded. No Python code runs per record.
- A record's place follows from the record before it. To find the places without a step of Python per record,
  this module searches many places of the data for something that looks like the start of a record. It
  follows the chains from all of them at the same time.
- A chain must arrive exactly at the start of the next chain. If it does not, a guess was wrong, and the
  module follows the records of this stretch one after the other. The answer never depends on a guess.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrays import whole
from hoodie.codec.avro_cursor import Cursors, Damage, Raw
from hoodie.codec.avro_decode import read, skip
from hoodie.codec.avro_encode import offsets_of, write
from hoodie.codec.avro_sink import Sink
from hoodie.codec.avro_types import Record, arrow_field, parse_text
from hoodie.errors import SchemaError, TableError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Places: TypeAlias = npt.NDArray[np.int64]

HEAD = 4
#: bytes whose records are looked for at a time
SEGMENT = 16 << 20
#: records that are followed one by one first, to learn how long records are
_SAMPLE = 64
#: bytes searched for starts, over all places of a segment
_SEARCHED = 1 << 19
#: how many starts in a row must look right, and how much longer than the sample's a record may be
_ROW, _LONGER = 4, 16
#: so few chains are followed one by one
_FEW = 16

_LENGTH: Any = struct.Struct(">I").unpack_from


def segments(data: Bytes, count: int) -> Iterator[tuple[Places, Places]]:
    """Yield the places (starts, ends) in `data` of the `count` records, in order, without their lengths.

    Each pair covers about SEGMENT bytes. Raises TableError when `data` is not exactly `count` records.
    """
    if not 0 <= count <= data.size // HEAD:
        raise _damaged_block(f"it has {data.size} bytes, too few for {count} records")
    at = done = 0
    while done < count:
        starts, stop = _walk(_segment(data, at, done))
        if starts.size > count - done:
            stop = int(starts[count - done])
            starts = starts[: count - done]
        ends = np.append(starts[1:], stop)
        yield starts + (at + HEAD), ends + at
        done += starts.size
        at += stop
    if at != data.size:
        raise _damaged_block(f"{data.size - at} bytes follow its {count} records")


def _segment(data: Bytes, at: int, record: int) -> Bytes:
    """The next bytes of `data`, with one whole record at least."""
    if at + HEAD > data.size:
        raise _damaged_block(f"it ends before record {record}", record=record)
    length = HEAD + int(_LENGTH(data, at)[0])
    if length > data.size - at:
        raise _damaged_block(
            f"record {record} has {length - HEAD} bytes where {data.size - at - HEAD} are left", record=record
        )
    return data[at : at + max(SEGMENT, length)]


def _walk(data: Bytes) -> tuple[Places, int]:
    """(starts of the whole records, end of the last one)"""
    starts, stop = _follow(data, 0, _SAMPLE)
    if len(starts) < _SAMPLE:
        return np.array(starts, np.int64), stop
    longest = int(np.diff(starts).max())
    anchors = _guesses(data, longest)
    found = _follow_all(data, anchors) if anchors.size > 1 else None
    if found is None:
        every, stop = _follow(data, 0, data.size)
        return np.array(every, np.int64), stop
    return found


def _follow(data: Bytes, at: int, most: int) -> tuple[list[int], int]:
    """The chain from `at`: starts of up to `most` whole records, and the end of the last."""
    starts: list[int] = []
    size = data.size
    while len(starts) < most and at + HEAD <= size:
        stop = at + HEAD + _LENGTH(data, at)[0]
        if stop > size:
            break
        starts.append(at)
        at = stop
    return starts, at


def _guesses(data: Bytes, longest: int) -> Places:
    """0, and ascending places that seem to be starts, from windows spread evenly over the data."""
    window = 2 * longest
    lanes = min(_SEARCHED // window, (data.size - HEAD) // (2 * window), 1 << 15)
    if lanes <= _FEW:
        return np.zeros(1, np.int64)
    step = (data.size - HEAD - window) // lanes
    zeros = np.lib.stride_tricks.as_strided(data, (lanes, window), (step, 1), writeable=False) == 0
    limit = _LONGER * longest
    if limit < 1 << 16:
        zeros[:, :-1] &= zeros[:, 1:]
    lane, offset = np.divmod(np.flatnonzero(zeros), window)
    heads, place = _heads(data), lane * step + offset
    for _ in range(_ROW):
        right = np.flatnonzero(place < heads.size)
        right = right[heads[place[right]] - np.uint32(1) < np.uint32(min(limit, 1 << 31))]
        lane, place = lane[right], place[right]
        place = place + heads[place] + HEAD
    # where a chain comes to is a better guess than its begin: a wrong one soon meets a right one
    first = place[np.flatnonzero(np.diff(lane, prepend=-1))]
    return np.unique(np.append(first[first < heads.size], 0))


def _follow_all(data: Bytes, anchors: Places) -> tuple[Places, int] | None:
    """The records of the chains from all anchors; None when a chain does not arrive at the next anchor."""
    heads = _heads(data)
    at, goals, lanes = anchors[:-1], anchors[1:], np.arange(anchors.size - 1, dtype=np.uint16)
    starts, owners = [], []
    while at.size > _FEW:
        starts.append(at)
        owners.append(lanes)
        at = at + heads[at] + HEAD
        going = at < goals
        if not going.all():
            if not np.array_equal(at[~going], goals[~going]):
                return None
            at, goals, lanes = at[going], goals[going], lanes[going]
    for lane, place, goal in zip(lanes.tolist(), at.tolist(), goals.tolist(), strict=True):
        chain, arrived = _follow(data[:goal], place, goal)
        if arrived != goal:
            return None
        starts.append(np.array(chain, np.int64))
        owners.append(np.full(len(chain), lane, np.uint16))
    order = np.argsort(np.concatenate(owners), kind="stable")  # a radix sort, for 16 bits
    chain, stop = _follow(data, int(anchors[-1]), data.size)
    return np.append(np.concatenate(starts)[order], np.array(chain, np.int64)), stop


def _heads(data: Bytes) -> npt.NDArray[Any]:
    """The length that would stand at every place of `data`; at least one head long."""
    return np.ndarray((data.size - HEAD + 1,), ">u4", data, strides=(1,))


def _damaged_block(why: str, **values: Any) -> TableError:
    return TableError(
        f"a block of log records is damaged ({why}); restore the log file from a copy, or roll the table "
        "back to an instant before it",
        **values,
    )


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
    return _decode_all(buffer, segments(buffer, count), schema_text, columns)


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
    buffer: Bytes,
    places: Iterable[tuple[Places, Places]],
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


def _parts(starts: Places, ends: Places) -> list[slice]:
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
    data: Bytes,
    starts: Places,
    ends: Places,
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
