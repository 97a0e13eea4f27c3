"""Bytes of many rows that are put together piece by piece, all rows at once.

A piece is some bytes of every row: words (little-endian; the first `length` of their eight bytes count), or
an Arrow array of texts. Adjacent words become one binary array; Arrow joins the arrays row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.avro_cursor import Bools, Longs, Values, Words, arrow_buffer, every_second
from hoodie.errors import InputError

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

WORD = 8
_MAX_LENGTH = (1 << 31) - 1 - 4
_NOTHING = pa.scalar(b"", pa.binary())
#: masks of the groups of bits that are moved together, to make seven bits of every byte
_GROUPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(bits))
    for low, high, bits in (
        (0x000000000FFFFFFF, 0x00FFFFFFF0000000, 4),
        (0x00003FFF00003FFF, 0x0FFFC0000FFFC000, 2),
        (0x007F007F007F007F, 0x3F803F803F803F80, 1),
    )
)
_CONTINUED = np.uint64(0x0080808080808080)
_LOW_56 = np.uint64((1 << 56) - 1)

Length: TypeAlias = Longs | int
Word: TypeAlias = Words | int


@dataclass
class Piece:
    """Bits of `word` behind `length` bytes are 0; no length is above `limit`."""

    word: Word
    length: Length
    limit: int

    def joined(self, other: Piece) -> Piece:
        """Both in one word; their limits must fit."""
        bits: Any = self.length * 8
        shift = bits if isinstance(bits, int) else bits.view(np.uint64)
        word: Any = self.word | _shifted(other.word, shift)
        return Piece(word, self.length + other.length, self.limit + other.limit)


class Sink:
    """What the rows consist of so far, `size` rows."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._parts: list[list[Piece] | Values] = [[]]
        self._lengths: Length = 0

    def word(self, word: Word, length: Length, limit: int, valid: Bools | None = None) -> None:
        """Put the first `length` bytes of `word`, at most `limit` of 8; nothing where not `valid`."""
        if valid is not None:
            word = np.where(valid, np.asarray(word, np.uint64), np.uint64(0))
            length = np.where(valid, length, 0)
        piece, run = Piece(word, length, limit), self._parts[-1]
        self._lengths = self._lengths + length
        if not isinstance(run, list):
            self._parts.append([piece])
        elif run and run[-1].limit + limit <= WORD:
            run[-1] = run[-1].joined(piece)
        else:
            run.append(piece)

    def long(self, value: Longs, valid: Bools | None = None) -> None:
        """Put Avro ints or longs: zigzag, seven bits a byte."""
        zigzag = ((value << 1) ^ (value >> 63)).view(np.uint64)
        if valid is not None:
            zigzag[~valid] = 0
        most = int(zigzag.max(initial=0))
        limit = max(1, -(-most.bit_length() // 7))
        if limit == 1:
            self.word(zigzag, 1, 1, valid)
        elif limit <= WORD:
            length = _varint_length(zigzag, limit)
            self.word(_varint(zigzag, length), length, limit, valid)
        else:
            length = np.broadcast_to(_varint_length(zigzag, limit), zigzag.size)
            first = np.minimum(length, WORD)
            word = _varint(zigzag & _LOW_56, first)
            word |= (length > WORD).astype(np.uint64) << np.uint64(63)
            self.word(word, first, WORD, valid)
            rest = zigzag >> np.uint64(56)
            rest = (rest & np.uint64(0x7F)) | ((rest >> np.uint64(7)) << np.uint64(8))
            rest |= (length > WORD + 1).astype(np.uint64) << np.uint64(7)
            self.word(rest, length - first, 2, valid)

    def array(self, values: Values, lengths: Longs) -> None:
        """Put the bytes of a binary array, nothing for nulls; `lengths` are 0 there."""
        self._parts.append(values)
        self._lengths = self._lengths + lengths

    def finish(self, *, framed: bool = False) -> Values:
        """All rows as a binary array; `framed` with their lengths before them (int32, big-endian)."""
        if not self.size:
            return pa.array([], pa.binary())
        if framed:
            most = int(np.max(self._lengths))
            if most > _MAX_LENGTH:
                raise InputError(
                    f"a row takes {most} bytes in Avro, {_MAX_LENGTH} is the most; make it smaller"
                )
            lengths = np.broadcast_to(np.asarray(self._lengths, np.uint32), self.size)
            head = Piece(lengths.byteswap().astype(np.uint64), 4, 4)
            first = self._parts[0]
            assert isinstance(first, list)
            if first and first[0].limit <= WORD - head.limit:
                first[0] = head.joined(first[0])
            else:
                first.insert(0, head)
        parts = [part for part in self._parts if not isinstance(part, list) or part]
        arrays = [_run(part, self.size) if isinstance(part, list) else part for part in parts]
        if not arrays:
            return binary_of(self.size, np.zeros(self.size + 1, np.int32), pa.py_buffer(b""))
        if len(arrays) == 1 and not arrays[0].null_count:
            return arrays[0]
        return pc.binary_join_element_wise(*arrays, _NOTHING, null_handling="replace", null_replacement="")


def binary_of(size: int, offsets: npt.NDArray[np.int32], data: pa.Buffer | None) -> Values:
    return pa.Array.from_buffers(pa.binary(), size, [None, arrow_buffer(offsets), data])


def _shifted(word: Word, bits: Any) -> Word:
    if isinstance(word, int) and isinstance(bits, int):
        return word << bits
    return cast(Words, np.asarray(word, np.uint64) << bits)


def _varint_length(zigzag: Words, limit: int) -> Length:
    if int(zigzag.min(initial=0)) >> 7 * (limit - 1):
        return limit
    length = np.ones(zigzag.size, np.int64)
    for groups in range(1, limit):
        length += zigzag >= np.uint64(1 << 7 * groups)
    return length


def _varint(value: Words, length: Length) -> Words:
    """The bytes of numbers below 2^56."""
    for low, high, bits in _GROUPS:
        value = (value & low) | ((value & high) << bits)
    spare: Any = 8 * (WORD - length)
    return value | (_CONTINUED >> (np.uint64(spare) if isinstance(spare, int) else spare.view(np.uint64)))


def _run(pieces: list[Piece], size: int) -> Values:
    """Adjacent pieces as one binary array."""
    for piece in pieces:
        length = piece.length
        if not isinstance(length, int) and (length == length[0]).all():
            piece.length = int(length[0])
    widths = [piece.length for piece in pieces if isinstance(piece.length, int)]
    if len(widths) == len(pieces):
        ends = np.arange(size + 1, dtype=np.int32) * np.int32(sum(widths))
        return binary_of(size, ends, _even_rows(pieces, size, sum(widths)))
    return _uneven_rows(pieces, size)


def _even_rows(pieces: list[Piece], size: int, width: int) -> pa.Buffer:
    """Rows of `width` bytes: every length is one number."""
    rows, at = np.empty(size * width, np.uint8), 0
    for piece in pieces:
        length, word = cast(int, piece.length), cast(Any, piece.word)
        for part in (8, 4, 2, 1):
            if length & part:
                some = word & ((1 << 8 * part) - 1) if isinstance(word, int) else word
                np.ndarray((size,), f"<u{part}", rows, at, (width,))[:] = some
                at += part
                word = word >> (8 * part) if part < WORD else word
    return arrow_buffer(rows)


def _uneven_rows(pieces: list[Piece], size: int) -> Values:
    """Every word is stored whole, at its place in a wider row; the next overwrites what does not count."""
    width = sum(piece.limit for piece in pieces) + WORD
    rows = np.empty(size * width, np.uint8)
    words = np.ndarray((rows.size - WORD + 1,), "<u8", rows, strides=(1,))
    begins = np.arange(size) * width
    at: Longs | int = 0
    for piece in pieces:
        if isinstance(at, int):
            words[at::width] = piece.word
        else:
            words[begins + at] = piece.word
        at = at + piece.length
    bounds = np.empty(2 * size, np.int64)
    bounds[0::2], bounds[1::2] = begins, begins + at
    return every_second(bounds, arrow_buffer(rows))
