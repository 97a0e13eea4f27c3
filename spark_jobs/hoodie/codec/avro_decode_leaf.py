"""Avro values without parts, read at many places at once into Arrow arrays.

Avro 1.11 specification, "Binary Encoding" and "Logical Types". Numbers are read as words; texts are cut out
of the data by Arrow, in one call for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.avro_cursor import Cursors, Longs, Nulls, Raw, Values, arrow_buffer, every_second
from hoodie.codec.avro_types import Leaf

#: values that are all as long, and no longer than this, are copied as blocks
_BLOCK = 256
_DECIMAL_BYTES = 16
_WORD_DIGITS = 18


def read_leaf(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    """The value at each place; moves behind it, except at `nulls`, which have none. Not for the kind null."""
    return _READERS[node.kind](node, cursors, nulls)


def _array(dtype: pa.DataType, values: npt.NDArray[Any], nulls: Nulls | None) -> Values:
    validity = None if nulls is None else nulls.bitmap
    return pa.Array.from_buffers(dtype, len(values), [validity, arrow_buffer(values)])


def _boolean(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    value = cursors.bytes(nulls)
    cursors.refuse(value > 1, "a boolean is neither 0 nor 1")
    cursors.move(1, nulls)
    bits = arrow_buffer(np.packbits(value, bitorder="little"))
    return pa.Array.from_buffers(node.dtype, value.size, [None if nulls is None else nulls.bitmap, bits])


def _int(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    value = cursors.longs(nulls)
    short = value.astype(np.int32)
    cursors.refuse(short != value, "an int has more than 32 bits")
    if pa.types.is_time(node.dtype):
        cursors.refuse((short < 0) | (short >= 86_400_000), "a time is not within a day")
    return _array(node.dtype, short, nulls)


def _long(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    value = cursors.longs(nulls)
    if pa.types.is_time(node.dtype):
        cursors.refuse((value < 0) | (value >= 86_400_000_000), "a time is not within a day")
    return _array(node.dtype, value, nulls)


def _float(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    value = cursors.raw.halves[cursors.at]
    if nulls is not None:
        value[nulls.at] = 0
    cursors.move(4, nulls)
    return _array(node.dtype, value, nulls)


def _double(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    value = cursors.words(nulls)
    cursors.move(8, nulls)
    return _array(node.dtype, value, nulls)


def _enum(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    value = cursors.shorts(nulls)
    bad = value.view(np.uint64) >= np.uint64(len(node.symbols))
    cursors.refuse(bad if nulls is None else bad & nulls.valid, "an enum has no such symbol")
    index: Any = pa.array(value, mask=None if nulls is None else ~nulls.valid)
    return pa.array(node.symbols, pa.string()).take(index)


def _string(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    start, stop = cursors.spans(nulls)
    offsets, data = _slices(cursors.raw, start, stop)
    buffers = [None if nulls is None else nulls.bitmap, offsets, data]
    text = pa.Array.from_buffers(node.dtype, start.size, buffers)
    if data.size and np.frombuffer(cast(Any, data), np.uint8).max() >= 0x80:
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            cursors.damaged("a text is not UTF-8")
    return text


def _bytes(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    start, stop = cursors.spans(nulls)
    if pa.types.is_decimal(node.dtype):
        length = stop - start
        bad = (length == 0) | (length > _DECIMAL_BYTES)
        cursors.refuse(bad if nulls is None else bad & nulls.valid, "a decimal has no or too many bytes")
        return _decimal(node.dtype, cursors, start, length, nulls)
    return _binary(node.dtype, cursors.raw, start, stop, nulls)


def _fixed(node: Leaf, cursors: Cursors, nulls: Nulls | None) -> Values:
    start = cursors.at
    cursors.move(node.size, nulls)
    cursors.check("a fixed value")
    if not pa.types.is_decimal(node.dtype):
        return _binary(node.dtype, cursors.raw, start, cursors.at, nulls)
    length = cursors.at - start
    spare = node.size - _DECIMAL_BYTES
    if spare > 0:
        length -= spare
        start = _without_sign_bytes(cursors, start, spare, nulls)
    return _decimal(node.dtype, cursors, start, length, nulls)


def _binary(dtype: pa.DataType, raw: Raw, start: Longs, stop: Longs, nulls: Nulls | None) -> Values:
    buffers = [None if nulls is None else nulls.bitmap, *_slices(raw, start, stop)]
    return pa.Array.from_buffers(dtype, start.size, buffers)


def _slices(raw: Raw, start: Longs, stop: Longs) -> tuple[pa.Buffer, pa.Buffer]:
    """(int32 offsets, data) of the bytes from each start to its stop, which are inside the data."""
    count, length = start.size, int(stop[0] - start[0]) if start.size else 0
    if 0 < length <= _BLOCK and (stop - start == length).all():
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
        return arrow_buffer(offsets), arrow_buffer(raw.blocks(start, length))
    if not count:
        return pa.py_buffer(bytes(4)), pa.py_buffer(b"")
    bounds = np.empty(2 * count, np.int64)
    bounds[0::2], bounds[1::2] = start, stop
    _, ends, data = every_second(bounds, raw.buffer).buffers()
    return ends, data or pa.py_buffer(b"")


def _decimal(dtype: Any, cursors: Cursors, start: Longs, length: Longs, nulls: Nulls | None) -> Values:
    """Big-endian two's complement numbers of 1 to 16 bytes."""
    words = cursors.raw.words
    high = words[start].byteswap().view(np.int64)
    if nulls is not None:
        high[nulls.at] = 0
        length[nulls.at] = 8
    short = length <= 8
    spare = 64 - 8 * length + np.where(short, 0, 64)
    top = high >> spare
    if short.all():
        halves = np.stack([top, top >> 63], axis=1)
    else:
        low = words[start + 8].byteswap() >> spare.view(np.uint64)
        low |= (high.view(np.uint64) << np.uint64(1)) << (63 - spare).view(np.uint64)
        halves = np.stack([np.where(short, top, low.view(np.int64)), np.where(short, top >> 63, top)], axis=1)
    values = _array(dtype, halves, nulls)
    if dtype.precision > _WORD_DIGITS:
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            cursors.damaged(f"a decimal has more than {dtype.precision} digits")
    else:
        most = 10**dtype.precision - 1
        fits = (halves[:, 0] >= -most) & (halves[:, 0] <= most) & (halves[:, 1] == halves[:, 0] >> 63)
        cursors.refuse(~fits, f"a decimal has more than {dtype.precision} digits")
    return values


def _without_sign_bytes(cursors: Cursors, start: Longs, spare: int, nulls: Nulls | None) -> Longs:
    """The places behind `spare` bytes that must repeat the sign."""
    if nulls is not None:
        start = np.where(nulls.valid, start, start[np.argmax(nulls.valid)])
    behind = start + spare
    sign = np.where(cursors.raw.bytes[behind] >= 0x80, np.uint8(0xFF), np.uint8(0))
    filling = cursors.raw.blocks(start, spare).view(np.uint8).reshape(-1, spare)
    cursors.refuse((filling != sign[:, None]).any(axis=1), "a decimal has more than 128 bits")
    return behind


_READERS: dict[str, Callable[[Leaf, Cursors, Nulls | None], Values]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "fixed": _fixed,
    "enum": _enum,
}
