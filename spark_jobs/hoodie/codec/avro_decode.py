"""Avro binary -> Arrow arrays: the same value of many records at once (Avro 1.11 specification, "Binary
Encoding" and "Logical Types").

- `read` and `skip` move the cursors behind one value of every record.
- Values without parts are read at many places at once. Numbers are read as words. Arrow cuts all texts out
  of the data in one call.
- The items of arrays and maps are found in rounds: the first items of all lists together, then the second
  items, and so on. If only few lists continue, they are found item by item. All items of all lists are then
  read at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.avro_cursor import (
    Bools,
    Bytes,
    Cursors,
    Damage,
    Longs,
    Nulls,
    Raw,
    Values,
    arrow_buffer,
    every_second,
)
from hoodie.codec.avro_types import Array, Leaf, Map, Node, Record, Union, fixed_width

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


#: with fewer lists going on, their items are walked one by one
_FEW = 64


def read(node: Node, dtype: Any, cursors: Cursors) -> Values:
    """One value at each place, as `avro_types.arrow_field` types it; moves behind them."""
    if isinstance(node, Union):
        return _read_union(node, dtype, cursors)
    if isinstance(node, Leaf):
        return read_leaf(node, cursors, None)
    if isinstance(node, Record):
        return _read_record(node, dtype, cursors)
    item = node.entry if isinstance(node, Map) else node.item
    lengths, items = _items(item, cursors)
    inner = pa.struct([dtype.key_field, dtype.item_field]) if isinstance(node, Map) else dtype.value_type
    values = read(item, inner, items)
    offsets = np.zeros(len(cursors) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(dtype, len(cursors), [None, arrow_buffer(offsets)], children=[values])


def skip(node: Node, cursors: Cursors, nulls: Nulls | None = None) -> None:
    """Move behind one value at each place; `nulls` have none."""
    width = fixed_width(node)
    if width is not None:
        cursors.move(width, nulls)
    elif isinstance(node, Leaf) and node.kind in ("string", "bytes"):
        cursors.spans(nulls)
    elif isinstance(node, Leaf):
        cursors.over_longs(nulls)
    elif isinstance(node, Union):
        _skip_union(node, cursors)
    elif nulls is not None:
        index = np.flatnonzero(nulls.valid)
        part = cursors.part(index)
        skip(node, part)
        cursors.put(index, part)
    elif isinstance(node, Record):
        for field in node.fields:
            skip(field.type, cursors)
    else:
        _items(node.entry if isinstance(node, Map) else node.item, cursors)
    cursors.check("a value")


# --- unions and records --------------------------------------------------------------------------------


def _read_union(node: Union, dtype: pa.DataType, cursors: Cursors) -> Values:
    if len(node.values) > 1:
        return _read_one_of(node, dtype, cursors)
    nulls = _branches(node, cursors)
    inner = node.values[0]
    if nulls is None:
        return read(inner, dtype, cursors)
    if nulls.all:
        return cast(Any, pa.nulls)(len(cursors), dtype)
    if isinstance(inner, Leaf):
        return read_leaf(inner, cursors, nulls)
    index = np.flatnonzero(nulls.valid)
    part = cursors.part(index)
    values = read(inner, dtype, part)
    cursors.put(index, part)
    places = np.cumsum(nulls.valid) - 1
    return values.take(pa.array(places, mask=~nulls.valid))


def _read_one_of(node: Union, dtype: Any, cursors: Cursors) -> Values:
    """A struct with the value in the field of its branch."""
    chosen = cursors.shorts()
    cursors.refuse(chosen.view(np.uint64) >= np.uint64(len(node.branches)), "a union has no such branch")
    children, numbers = [], [number for number in range(len(node.branches)) if number != node.null]
    for number, field in zip(numbers, dtype, strict=True):
        there: Bools = chosen == number
        if not there.any():
            children.append(cast(Any, pa.nulls)(len(cursors), field.type))
            continue
        index = np.flatnonzero(there)
        part = cursors.part(index)
        values = read(node.branches[number], field.type, part)
        part.check("a value of a union")
        cursors.put(index, part)
        children.append(values.take(pa.array(np.cumsum(there) - 1, mask=~there)))
    absent = np.zeros(len(cursors), np.bool_) if node.null is None else chosen == node.null
    return pa.StructArray.from_arrays(children, fields=list(dtype), mask=pa.array(absent))


def _branches(node: Union, cursors: Cursors) -> Nulls | None:
    """Which values of a union of null and one type are null; None when none is."""
    value = 0 if node.null != 0 else 1
    first = cursors.bytes()
    if (first == 2 * value).all():
        cursors.move(1)
        return None
    chosen = cursors.shorts()
    valid: Bools = chosen == value
    other = value if node.null is None else node.null
    cursors.refuse(~valid & (chosen != other), "a union has no such branch")
    return Nulls(valid)


def _skip_union(node: Union, cursors: Cursors) -> None:
    chosen = cursors.shorts()
    bad = chosen.view(np.uint64) >= np.uint64(len(node.branches))
    cursors.refuse(bad, "a union has no such branch")
    for number, branch in enumerate(node.branches):
        valid = chosen == number
        if valid.all():
            skip(branch, cursors)
        elif valid.any():
            skip(branch, cursors, Nulls(valid))


def _read_record(node: Record, dtype: Any, cursors: Cursors) -> Values:
    children = []
    for field, arrow in zip(node.fields, dtype, strict=True):
        children.append(read(field.type, arrow.type, cursors))
        cursors.check(f"field {field.name!r}")
    return pa.Array.from_buffers(dtype, len(cursors), [None], children=children)


# --- arrays and maps -----------------------------------------------------------------------------------


def _items(item: Node, cursors: Cursors) -> tuple[Longs, Cursors]:
    """(how many items each array has, cursors at all items in order); moves behind the arrays."""
    count, width = len(cursors), fixed_width(item)
    places, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.intp)]
    left = np.zeros(count, np.int64)
    going = np.arange(count)
    cursors.at = cursors.at.copy()  # it is changed in place here
    while going.size:
        fresh = going[left[going] == 0]
        left[fresh] = _block_lengths(cursors, fresh, width or 1)
        going = going[left[going] > 0]
        if width is not None:
            places.append(_ranges(cursors.at[going], left[going], width))
            owners.append(np.repeat(going, left[going]))
            cursors.at[going] += left[going] * width
            left[going] = 0
        elif going.size < _FEW:
            for owner in going.tolist():
                walked = _walk_one(item, cursors, owner, int(left[owner]))
                places.append(walked)
                owners.append(np.full(walked.size, owner))
            left[going] = 0
        elif going.size:
            part, rounds = cursors.part(going), int(left[going].min())
            for _ in range(rounds):
                places.append(part.at)
                owners.append(going)
                skip(item, part)
            cursors.put(going, part)
            left[going] -= rounds
    whose = np.concatenate(owners)
    order = np.argsort(whose.astype(np.uint16) if count <= 1 << 16 else whose, kind="stable")
    whose = whose[order]
    at = np.concatenate(places)[order]
    items = Cursors(cursors.raw, at, cursors.end[whose], cursors.rows[whose])
    return np.bincount(whose, minlength=count), items


def _block_lengths(cursors: Cursors, index: npt.NDArray[np.intp], width: int) -> Longs:
    """The number of items in the next block of the arrays at `index`; an item has at least `width` bytes."""
    part = cursors.part(index)
    lengths = part.shorts()
    part.check("an array or map")
    negative = np.flatnonzero(lengths < 0)
    if negative.size:  # such a block says its size in bytes, too
        sized = part.part(negative)
        size = sized.longs()
        sized.check("an array or map")
        sized.refuse((size < 0) | (size > sized.end - sized.at), "a block is longer than its record")
        part.put(negative, sized)
        lengths[negative] = -lengths[negative]
    room = (part.end - part.at) // width
    part.refuse((lengths < 0) | (lengths > room), "an array or map is longer than its record")
    cursors.put(index, part)
    return lengths


def _ranges(starts: Longs, lengths: Longs, step: int) -> Longs:
    """start, start + step, ... for each start, one after the other."""
    before = np.cumsum(lengths) - lengths
    turn = np.arange(int(lengths.sum())) - np.repeat(before, lengths)
    return np.repeat(starts, lengths) + turn * step


def _walk_one(item: Node, cursors: Cursors, owner: int, count: int) -> Longs:
    """The places of `count` items of one array; moves its cursor behind them."""
    walk = _Walk(cursors.raw.bytes, int(cursors.end[owner]), int(cursors.rows[owner]))
    at, steps = int(cursors.at[owner]), _steps(item)
    places = []
    for _ in range(count):
        places.append(at)
        at = walk.behind(item, at) if steps is None else walk.over(steps, at)
    cursors.at[owner] = at
    return np.array(places, np.int64)


#: instead of bytes of a fixed number
_NUMBER, _TEXT = -1, -2


def _steps(node: Node) -> list[int] | None:
    """What lies behind one another in a value, where it is always the same: bytes of a fixed number, numbers,
    texts; None for others.
    """
    width = fixed_width(node)
    if width is not None:
        return [width]
    if isinstance(node, Leaf):
        return [_TEXT if node.kind in ("string", "bytes") else _NUMBER]
    if not isinstance(node, Record):
        return None
    parts = [_steps(field.type) for field in node.fields]
    return None if None in parts else [step for part in parts for step in part or ()]


class _Walk:
    """Where values of one record end, one by one."""

    def __init__(self, data: Bytes, end: int, row: int) -> None:
        self._data, self._end, self._row = memoryview(cast(Any, data)), end, row

    def over(self, steps: Sequence[int], at: int) -> int:
        """As `behind`, of a value that consists of such steps."""
        for step in steps:
            if step >= 0:
                at += step
                continue
            length, at = self._long(at)
            if step == _TEXT:
                if length < 0:
                    raise Damage("a text or binary value has a negative length", self._row)
                at += length
        if at > self._end:
            raise Damage("the record ends inside an array or map", self._row)
        return at

    def behind(self, node: Node, at: int) -> int:
        width = fixed_width(node)
        if width is not None:
            at += width
        elif isinstance(node, Leaf):
            length, at = self._long(at)
            if node.kind in ("string", "bytes"):
                if length < 0:
                    raise Damage("a text or binary value has a negative length", self._row)
                at += length
        elif isinstance(node, Union):
            branch, at = self._long(at)
            if not 0 <= branch < len(node.branches):
                raise Damage("a union has no such branch", self._row)
            at = self.behind(node.branches[branch], at)
        elif isinstance(node, Record):
            for field in node.fields:
                at = self.behind(field.type, at)
        else:
            at = self._behind_blocks(node, at)
        if at > self._end:
            raise Damage("the record ends inside an array or map", self._row)
        return at

    def _behind_blocks(self, node: Array | Map, at: int) -> int:
        item = node.entry if isinstance(node, Map) else node.item
        while True:
            count, at = self._long(at)
            if not count:
                return at
            if count < 0:
                _, at = self._long(at)
            for _ in range(abs(count)):
                at = self.behind(item, at)

    def _long(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while at < self._end and shift < 70:
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), at
            shift += 7
        raise Damage("the record ends inside a number", self._row)
