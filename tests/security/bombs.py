"""Parquet files of few bytes that stand for many: base files and log blocks."""

from __future__ import annotations

import functools
import io
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.format.log_block import BlockType, HeaderKey, encode_block

if TYPE_CHECKING:
    from tests.security.corpus import Lake

NEW = "20990101000000000"


def repeated(text: str, rows: int) -> pa.Array[Any]:
    """The same text in all rows; it is once in the file."""
    zeros: Any = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(zeros, pa.array([text]))


def lists_of(text: str, values: int) -> pa.Array[Any]:
    """One row: a list that has a text as often as told."""
    offsets: Any = pa.array([0, values], pa.int32())
    return pa.ListArray.from_arrays(offsets, repeated(text, values))


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        store_schema=False,
        dictionary_pagesize_limit=1 << 30,
        row_group_size=max(1, table.num_rows),
    )
    return sink.getvalue()


def nested_footer(levels: int) -> bytes:
    """A file without row groups whose only column is in so many structs."""
    group = b"\x35\x02" + b"\x18\x01a" + b"\x15\x02" + b"\x00"  # optional, named a, one child
    leaf = b"\x15\x02\x25\x02\x18\x01a\x00"  # INT32, optional, named a
    count = levels + 2
    elements = b"\x48\x01r\x15\x02\x00" + group * levels + leaf
    footer = b"\x15\x02" + b"\x19\xfc" + _varint(count) + elements + b"\x16\x00" + b"\x19\x0c" + b"\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def log_block(table: pa.Table, instant: str = NEW, schema: str = "{}") -> bytes:
    headers: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema}
    return b"".join(map(bytes, encode_block(BlockType.PARQUET_DATA, headers, parquet(table))))


def _forged(lake: Lake, make: Callable[[bytes], bytes]) -> None:
    """The newest base file, made anew of itself."""
    path = lake.base_file()
    path.write_bytes(make(path.read_bytes()))


def _with_name(data: bytes, column: pa.Array[Any]) -> bytes:
    """Another last column in as many rows as it has."""
    stored = pq.read_table(io.BytesIO(data)).slice(0, len(column))
    place = len(stored.column_names) - 1
    return parquet(stored.set_column(place, stored.column_names[place], column))


@functools.cache
def _page_of_zeros(data: bytes) -> bytes:
    return _with_name(data, pa.array(["\0" * (160 << 20)]))


@functools.cache
def _list_of_texts(data: bytes) -> bytes:
    return _with_name(data, lists_of("x" * 1024, 1 << 20))


@functools.cache
def _many_rows(data: bytes) -> bytes:
    """The last row 2**20 times, so that queries with a predicate give few. Rows are work and memory of their
    own, and of this many both are far from the limits.
    """
    stored = pq.read_table(io.BytesIO(data))
    stored = stored.slice(len(stored) - 1)
    columns: list[Any] = []
    for column in stored.columns:
        zeros: Any = pa.array(np.zeros(1 << 20, np.int32))
        value = column.combine_chunks()
        columns.append(
            pa.nulls(len(zeros), value.type)
            if value.null_count
            else pa.DictionaryArray.from_arrays(zeros, value)
        )
    return parquet(pa.table(columns, names=stored.column_names))


@functools.cache
def _nested(_: bytes) -> bytes:
    return nested_footer(200_000)


@functools.cache
def _texts(length: int, rows: int, instant: str) -> bytes:
    return log_block(pa.table({"_hoodie_record_key": repeated("k" * length, rows)}), instant)


def a_log_of(length: int, rows: int) -> Callable[[Lake], None]:
    """A Parquet log block of the newest delta commit with one long text in many rows."""

    def forge(lake: Lake) -> None:
        logs = sorted(lake.table.glob("*/.*.log.*"))
        if logs:
            with logs[-1].open("ab") as file:
                file.write(_texts(length, rows, lake.commits()[-1]))

    return forge


BOMBS: dict[str, Callable[[Lake], None]] = {
    "a base file with a page of zeros": lambda lake: _forged(lake, _page_of_zeros),
    "a base file with a list of a GiB": lambda lake: _forged(lake, _list_of_texts),
    "a base file of 2**20 rows in a few bytes": lambda lake: _forged(lake, _many_rows),
    "a base file of columns in 200,000 structs": lambda lake: _forged(lake, _nested),
    "a log block of one text of a MiB in 4,096 rows": a_log_of(1 << 20, 1 << 12),
    "a log block of 2**22 rows": a_log_of(200, 1 << 22),
}
