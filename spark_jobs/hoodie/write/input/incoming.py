"""Incoming rows on their way to the index: chunks, keys and partition paths, the types of the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import rows_of, whole
from hoodie.format.evolution import check_texts, conform
from hoodie.format.map_keys import check_maps
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index.locations import NOWHERE
from hoodie.write.context import STORED_ROW, WriteContext

CHUNK_BYTES = 128 << 20
CHUNK_ROWS = 1 << 20
#: with less a chunk costs more than its rows
_LEAST_BYTES = 1 << 20


def key_columns(context: WriteContext, rows: pa.Table) -> pa.Table:
    """`rows` with their key columns in the table's types: 1 of an int column is 1.0 in a double one."""
    for name in context.keys.key_columns:
        field = context.schema.field(name).with_nullable(True)
        index = rows.schema.get_field_index(name)
        if index >= 0 and rows.schema.field(index).type != field.type:
            converted = conform(rows.select([name]), pa.schema([field]))
            rows = rows.set_column(index, field, converted.column(0))
    return rows


def keys_of(context: WriteContext, rows: pa.Table) -> tuple[pa.Array[Any], pa.DictionaryArray[Any, Any]]:
    """(record keys, partition paths) of rows that have the key columns at least. Raises InputError for bad
    keys.
    """
    check_texts(rows, _key_names(context))
    return _keys_of(context, rows)


def keyed_rows(
    context: WriteContext, rows: pa.Table
) -> tuple[pa.Array[Any], pa.DictionaryArray[Any, Any], pa.Table]:
    """(record keys, partition paths, the rows in the table's schema, as far as they are wanted). Raises
    InputError for bad keys and values.
    """
    wanted = context.incoming_schema
    check_texts(rows, {*_key_names(context), *wanted.names})
    keys, paths = _keys_of(context, rows)
    if not wanted.names:
        return keys, paths, rows.select([])
    found = conform(rows, wanted, null_for_missing=context.null_for_missing)
    check_maps(found, keys)
    return keys, paths, found


def _key_names(context: WriteContext) -> set[str]:
    return {name.split(".")[0] for name in context.keys.key_columns}


def _keys_of(context: WriteContext, rows: pa.Table) -> tuple[pa.Array[Any], pa.DictionaryArray[Any, Any]]:
    keyed = key_columns(context, rows)
    return whole(context.keys.record_keys(keyed)), context.keys.partition_codes(keyed)


def travelling(
    keys: pa.Array[Any], rows: pa.Table, numbers: pa.Array[Any], second: str = STORED_ROW
) -> pa.Table:
    """Rows as `WriteContext.travel_schema` has them, or with the second column of `staged_schema`."""
    leading = [pa.field(RECORD_KEY, pa.string()), pa.field(second, pa.int32())]
    columns: list[Any] = [keys, numbers, *rows.columns]
    return pa.Table.from_arrays(columns, schema=pa.schema([*leading, *rows.schema]))


def unstored(keys: pa.Array[Any], rows: pa.Table) -> pa.Table:
    """Rows as `WriteContext.travel_schema` has them, none of which is in a file."""
    return travelling(keys, rows, pa.repeat(pa.scalar(NOWHERE, pa.int32()), rows.num_rows))


def chunk_bytes(context: WriteContext) -> int:
    """Rows that are worked on at once: there are about three copies of them then."""
    return min(CHUNK_BYTES, max(_LEAST_BYTES, context.merge_budget // 4))


def chunks(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Batches gathered, and cut, to tables of at most so many bytes or CHUNK_ROWS, whichever comes first."""
    held: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in itertools.chain.from_iterable(_cut(batch, most) for batch in batches):
        if held and (size + batch.nbytes > most or rows + batch.num_rows > CHUNK_ROWS):
            yield pa.Table.from_batches(held)
            held, size, rows = [], 0, 0
        held.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about so many bytes at most, one row at least."""
    step = rows_of(batch, most)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
