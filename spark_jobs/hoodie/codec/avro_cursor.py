"""Positions in many Avro records that are moved together, and the numbers that stand at them.

Avro 1.11 specification, "Binary Encoding". The bytes of some records are held with slack after them: a number
is read as the eight bytes at its place, whatever follows it. Places are checked against the ends of their
records by `check` after every value, and before bytes of any number are taken; until then a place may be a
few bytes too far, which the slack allows for.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes: TypeAlias = npt.NDArray[np.uint8]
Longs: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Bools: TypeAlias = npt.NDArray[np.bool_]
#: a pa.Array; the stubs know neither layouts nor computed types
Values: TypeAlias = Any

#: more than any number of bytes that is read before a check
SLACK = 64

_CONTINUED = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
#: masks of the groups that are moved together, bits that go right by as many
_GROUPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(bits))
    for low, high, bits in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_1, _56, _63 = np.uint64(1), np.uint64(56), np.uint64(63)


class Damage(Exception):
    """The bytes do not fit the schema; `row` is the record's number in the block, -1 where unknown."""

    def __init__(self, why: str, row: int = -1) -> None:
        super().__init__(why)
        self.why, self.row = why, row


class Raw:
    """The bytes of some records, and unaligned views of them by the place of the first byte."""

    def __init__(self, data: Bytes) -> None:
        self.size = data.size
        self.bytes: Bytes = np.empty(data.size + SLACK, np.uint8)
        self.bytes[: data.size] = data
        self.bytes[data.size :] = 0
        self.words: Words = self._view("<u8")
        self.halves: npt.NDArray[np.uint32] = self._view("<u4")
        self.buffer = arrow_buffer(self.bytes)

    def _view(self, dtype: str) -> npt.NDArray[Any]:
        return np.ndarray((self.bytes.size - np.dtype(dtype).itemsize + 1,), dtype, self.bytes, strides=(1,))

    def blocks(self, places: Longs, size: int) -> npt.NDArray[Any]:
        """The `size` > 0 bytes at each place, as one void each."""
        return self._view(f"V{size}")[places]


class Nulls:
    """Which of some values are null: `at` are the places of the nulls, ascending."""

    def __init__(self, valid: Bools) -> None:
        self.valid = valid
        self.at = np.flatnonzero(~valid)

    @property
    def all(self) -> bool:
        return self.at.size == self.valid.size

    @functools.cached_property
    def bitmap(self) -> pa.Buffer:
        return arrow_buffer(np.packbits(self.valid, bitorder="little"))


class Cursors:
    """A place in each of some records; `rows` are the records' numbers, for errors."""

    def __init__(self, raw: Raw, at: Longs, end: Longs, rows: Longs) -> None:
        self.raw, self.at, self.end, self.rows = raw, at, end, rows

    def __len__(self) -> int:
        return self.at.size

    def part(self, index: npt.NDArray[Any]) -> Cursors:
        return Cursors(self.raw, self.at[index], self.end[index], self.rows[index])

    def put(self, index: npt.NDArray[Any], part: Cursors) -> None:
        """Go on from where a `part` is."""
        self.at = self.at.copy()
        self.at[index] = part.at

    def move(self, width: Longs | int, nulls: Nulls | None = None) -> None:
        """`width` is not negative, and small or no greater than the data."""
        self.at = self.at + width
        if nulls is not None:
            self.at[nulls.at] -= width if isinstance(width, int) else width[nulls.at]

    def check(self, what: str) -> None:
        """Damage when a record ends inside the value just read."""
        self.refuse(self.at > self.end, f"the record ends inside {what}")

    def refuse(self, bad: Bools, why: str) -> None:
        if bad.any():
            raise Damage(why, int(self.rows[np.argmax(bad)]))

    def damaged(self, why: str) -> NoReturn:
        raise Damage(why, int(self.rows[0]) if len(self) else -1)

    def bytes(self, nulls: Nulls | None = None) -> Bytes:
        """The byte at each place, 0 for nulls. Does not move."""
        found = self.raw.bytes.take(self.at)
        if nulls is not None:
            found[nulls.at] = 0
        return found

    def words(self, nulls: Nulls | None = None) -> Words:
        """The eight bytes at each place, little-endian, 0 for nulls. Does not move."""
        found = self.raw.words[self.at]
        if nulls is not None:
            found[nulls.at] = 0
        return found

    def shorts(self, nulls: Nulls | None = None) -> Longs:
        """As `longs`, the faster the fewer numbers have more than a byte."""
        first = self.bytes(nulls)
        if (first >= 0x80).any():
            return self.longs(nulls)
        self.move(1, nulls)
        half = (first >> 1).astype(np.int8)
        odd = first & 1
        if odd.any():
            half ^= -odd.astype(np.int8)
        return half.astype(np.int64)

    def longs(self, nulls: Nulls | None = None) -> Longs:
        """The int or long at each place (zigzag, seven bits a byte), 0 for nulls; moves behind it.

        Damage when a number has more than 64 bits.
        """
        word, index, more = self._number(nulls)
        for low, high, bits in _GROUPS:
            word = (word & low) | ((word & high) >> bits)
        if index.size:
            word[index] |= more
        return ((word >> _1) ^ (~(word & _1) + _1)).view(np.int64)

    def over_longs(self, nulls: Nulls | None = None) -> None:
        """Move behind the int or long at each place."""
        self._number(nulls)

    def _number(self, nulls: Nulls | None) -> tuple[Words, npt.NDArray[np.intp], Words]:
        """(up to eight bytes of each number, which numbers have more, what those add); moves behind them."""
        word = self.words(nulls)
        stops = ~word & _CONTINUED
        last = stops & (~stops + _1)  # the lowest set bit, 0 where all eight bytes go on
        last -= _1
        width = ((last & _ONES) * _ONES >> _56).view(np.int64)
        word &= last
        index, more = np.empty(0, np.intp), np.empty(0, np.uint64)
        if not stops.all():
            index = np.flatnonzero(stops == 0)
            place = self.at[index] + 8
            ninth, tenth = (self.raw.bytes[place + after].astype(np.uint64) for after in (0, 1))
            goes_on = ninth >= 0x80
            self.part(index).refuse(goes_on & (tenth > 1), "a number has more than 64 bits")
            more = (ninth & np.uint64(0x7F)) << _56 | np.where(goes_on, tenth, np.uint64(0)) << _63
            width[index] = 9 + goes_on
        if nulls is not None:
            width[nulls.at] = 0
        self.at = self.at + width
        return word, index, more

    def spans(self, nulls: Nulls | None = None) -> tuple[Longs, Longs]:
        """(starts, stops) of the strings or bytes at each place, empty for nulls; moves behind them."""
        length: Any = self.bytes(nulls)
        if not (length & 0x81).any():  # all have one byte and are not negative
            self.move(1, nulls)
            length >>= 1
        else:
            length = self.longs(nulls)
            bad = length.view(np.uint64) > np.uint64(self.raw.size)
            self.refuse(bad, "a text or binary value is longer than its record")
        start = self.at
        self.at = start + length
        self.check("a text or binary value")
        return start, self.at


def arrow_buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    return pa.py_buffer(cast(Any, values))


def every_second(bounds: Longs, data: pa.Buffer) -> Values:
    """The slices of `data` from each even bound to the odd one behind it; bounds ascend, there are some.

    Arrow copies them: of the array that all bounds make, every second value lies between two slices.
    """
    wide = data.size > np.iinfo(np.int32).max
    dtype = pa.large_binary() if wide else pa.binary()
    ends = arrow_buffer(bounds if wide else bounds.astype(np.int32))
    both: Values = pa.Array.from_buffers(dtype, bounds.size - 1, [None, ends, data])
    values = both.take(pa.array(np.arange(0, bounds.size - 1, 2, dtype=np.int32)))
    return values.cast(pa.binary()) if wide else values
