"""Cells of HFiles <-> Arrow (format.md 9.3): keys with their values, as the data blocks hold them.

    key length int32 | value length int32 | row length int16 | row | 0 | time int64 | 4 | value | 0

The row is the key; a cell of HBase also has a column family, here empty, a time, here the latest one, a type,
here Put, and a version for its concurrency control, here 0. Keys are sorted as unsigned bytes.

Where a cell begins follows from the one before it. Cells are found all at once nevertheless, by their size
where it is one, or by what ends their keys; whether each ends where the next one begins is checked then. A
block in which that does not hold is walked, cell by cell.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Array, Ints, pc
from hoodie.codec.avro_cursor import arrow_buffer
from hoodie.format.hfile_block import Damage

CELLS = pa.schema([pa.field("key", pa.binary(), False), pa.field("value", pa.binary(), False)])
#: what follows the row in a cell's key
KEY_END = b"\0" + struct.pack(">q", 2**63 - 1) + b"\4"
MAX_KEY = 2**15 - 1
#: bytes of a cell beside key and value
CELL_OVERHEAD = 4 + 4 + 2 + len(KEY_END) + 1
_PUT = 4
_HEAD = 10
_KEY_OVERHEAD = 2 + len(KEY_END)
_LENGTHS = struct.Struct(">ii")
#: lengths of keys in a block whose cells are found by the ends of their keys
_MOST_SIZES = 64


def full_key(row: bytes) -> bytes:
    """A cell's key, as indexes and the file info have it."""
    return struct.pack(">h", len(row)) + row + KEY_END


def row_of(key: bytes) -> bytes:
    """The row of a cell's key, of which Apache Hudi 1.x keeps the row alone. Raises Damage."""
    row = int.from_bytes(key[:2], "big")
    if len(key) < 2 + row or row > MAX_KEY:
        raise Damage("a key of an index is cut")
    return key[2 : 2 + row]


def pairs(cells: Iterable[pa.RecordBatch]) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) one by one, for few."""
    for batch in cells:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def decode_cells(content: bytes, place: int) -> pa.RecordBatch:
    """The cells of a data block (CELLS); `place` is the block's, for errors. Raises Damage."""
    starts = _starts(content, place)
    count = starts.size
    data = np.frombuffer(content, np.uint8)
    key_lengths, value_lengths = _view(content, ">i4")[starts], _view(content, ">i4")[starts + 4]
    rows = _view(content, ">i2")[starts + 8].astype(np.int64)
    keys = starts + _HEAD
    values = starts + 8 + key_lengths
    ends = values + value_lengths
    wrong = rows != key_lengths - _KEY_OVERHEAD
    if not wrong.any():
        wrong = (data[keys + rows] != 0) | (data[values - 1] != _PUT) | (data[ends] != 0)
    if wrong.any():
        raise Damage(
            f"cell {int(np.argmax(wrong))} of the block at {place} has what Apache Hudi does not write: a "
            "column family, a delete, or a version"
        )
    bounds = np.empty(4 * count + 1, np.int32)
    bounds[:-1].reshape(-1, 4)[:] = np.stack([keys, keys + rows, values, ends], axis=1)
    bounds[-1] = len(content)
    # key, rest of the key, value, head of the next cell: an array over the content, without a copy
    parts: Any = pa.Array.from_buffers(
        pa.binary(), 4 * count, [None, arrow_buffer(bounds), pa.py_buffer(content)]
    )
    every = np.arange(0, 4 * count, 4, dtype=np.int64)
    cells = pa.record_batch([parts.take(pa.array(every)), parts.take(pa.array(every + 2))], schema=CELLS)
    if not ascending(cells.column(0)):
        raise Damage(f"the keys of the block at {place} are not sorted")
    return cells


def ascending(keys: Any) -> bool:
    return len(keys) < 2 or bool(pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py())


def encode_cells(keys: Any, values: Any) -> Array:
    """The bytes of each cell, one after the other in the result; of binary arrays without nulls."""
    heads = np.empty(len(keys), np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")]))
    heads["row"] = pc.binary_length(keys)
    heads["key"] = heads["row"].astype(np.int32) + _KEY_OVERHEAD
    heads["value"] = pc.binary_length(values)
    bounds = np.arange(len(keys) + 1, dtype=np.int32) * np.int32(_HEAD)
    head: Any = pa.Array.from_buffers(
        pa.binary(), len(keys), [None, arrow_buffer(bounds), arrow_buffer(heads)]
    )
    end, zero, nothing = (pa.scalar(text, pa.binary()) for text in (KEY_END, b"\0", b""))
    joined: Array = pc.binary_join_element_wise(head, keys, end, values, zero, nothing)
    return joined


def _starts(content: bytes, place: int) -> Ints:
    end = len(content)
    if end < _LENGTHS.size:
        raise Damage(f"the block at {place} has no cells")
    found = _of_one_size(content)
    if found is None:
        found = _by_key_ends(content)
    return _walked(content, place) if found is None else found


def _walked(content: bytes, place: int) -> Ints:
    """The starts, one from the other. Raises Damage."""
    starts: list[int] = []
    end = len(content)
    at, unpack = 0, _LENGTHS.unpack_from
    try:
        while at < end:
            key, value = unpack(content, at)
            if key < _KEY_OVERHEAD or value < 0:
                raise Damage(f"cell {len(starts)} of the block at {place} has impossible lengths")
            starts.append(at)
            at += key + value + 9
    except struct.error:
        at = end + 1
    if at != end:
        raise Damage(f"cell {len(starts) - 1} of the block at {place} is cut")
    return np.array(starts, np.int64)


def _of_one_size(content: bytes) -> Ints | None:
    """The starts, if all cells have the lengths of the first one."""
    key, value = _LENGTHS.unpack_from(content)
    size = key + value + 9
    if key < _KEY_OVERHEAD or value < 0 or len(content) % size:
        return None
    heads = np.ndarray((len(content) // size,), ">u8", content, strides=(size,))
    return np.arange(heads.size, dtype=np.int64) * size if (heads == heads[0]).all() else None


def _by_key_ends(content: bytes) -> Ints | None:
    """The starts, if nothing but the end of a key is like one; None also for keys of too many lengths.

    A row of as many bytes as one that is known is looked for before the end of each key; the first of those
    that have other lengths begins behind the cell before it.
    """
    ends = _key_ends(content)
    if not ends.size or ends[0] < _HEAD:
        return None
    numbers, lengths = _view(content, ">i4"), _view(content, ">i2")
    starts = np.full(ends.size, -1, np.int64)
    left, size = np.arange(ends.size), int(ends[0]) - _HEAD
    for _ in range(_MOST_SIZES):
        begin = ends[left] - (_HEAD + size)
        fits = begin >= 0
        at = np.where(fits, begin, 0)
        fits &= (lengths[at + 8] == size) & (numbers[at] == size + _KEY_OVERHEAD)
        starts[left[fits]] = begin[fits]
        if not fits[0]:
            break
        left = left[~fits]
        if not left.size:
            return starts if _is_chain(starts, ends, numbers, len(content)) else None
        number = int(left[0])
        value = int(numbers[starts[number - 1] + 4])
        size = int(ends[number] - ends[number - 1]) - (len(KEY_END) + value + 1 + _HEAD)
        if size < 0:
            break
    return None


def _key_ends(content: bytes) -> Ints:
    """The places of all KEY_ENDs."""
    data = np.frombuffer(content, np.uint8)
    found: Ints = np.flatnonzero(data[: len(content) - len(KEY_END) + 2] == KEY_END[1]) - 1
    found = found[found >= 0]
    for at, kind in ((0, ">u8"), (8, ">u2")):
        part = int.from_bytes(KEY_END[at : at + np.dtype(kind).itemsize], "big")
        found = found[_view(content, kind)[found + at] == part]
    return found


def _is_chain(starts: Ints, ends: Ints, numbers: npt.NDArray[Any], size: int) -> bool:
    """Does the first cell begin the block, every other one behind the one before, and the last one end it."""
    values = numbers[starts + 4]
    behind = ends + (len(KEY_END) + 1) + values
    chained = starts[0] == 0 and behind[-1] == size and (starts[1:] == behind[:-1]).all()
    return bool(chained and (values >= 0).all())


def _view(content: bytes, dtype: str) -> npt.NDArray[Any]:
    """The number that would stand at every place."""
    return np.ndarray((len(content) - np.dtype(dtype).itemsize + 1,), dtype, content, strides=(1,))
