"""Record positions: which rows of a base file the records of a log block belong to (format.md 15.7).

Apache Hudi 1.x keeps them in a header of the block, as base64 of a 64-bit roaring bitmap in the portable form
(LogReaderUtils, RoaringFormatSpec):

    buckets int64 | per bucket: upper half of its positions int32 | a 32-bit bitmap
    32-bit bitmap   cookie | per container: key uint16, positions - 1 uint16 | offsets int32 | containers
    cookie          without runs: 12346 int32, containers int32
                    with runs: 12347 uint16, containers - 1 uint16, a bit for each that has runs
    container       array: positions uint16; or 8,192 bytes of bits; or runs uint16, then start uint16 and
                    length - 1 uint16 of each

All numbers are little-endian. A container holds the positions of one key, which is their upper 16 bits. It is
an array up to 4,096 positions, bits above, and runs where these are shorter than either. With runs there are
offsets from four containers on. Positions are 0-based rows of the file, so they need one bucket.
"""

from __future__ import annotations

import base64
import struct

import numpy as np
import numpy.typing as npt

from hoodie.codec.arrays import Bools, Ints

_NO_RUNS, _RUNS = 12346, 12347
#: containers from which a bitmap with runs has offsets
_OFFSETS_SINCE = 4
#: positions of one container that are an array
_MOST_OF_ARRAY = 4096
_BITS_BYTES = 8192
_BITS = 1 << 16


def encode_positions(positions: npt.NDArray[np.int32]) -> str:
    """The header of at least one position, which are ascending and distinct, and none below zero."""
    bitmap = struct.pack("<qi", 1, 0) + _bitmap(positions.astype(np.int64))
    return base64.b64encode(bitmap).decode()


def _bitmap(positions: Ints) -> bytes:
    keys = positions >> 16
    low = (positions & (_BITS - 1)).astype("<u2")
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(positions))
    begins = np.diff(positions, prepend=-2) != 1
    begins[starts] = True
    plain = np.where(counts > _MOST_OF_ARRAY, _BITS_BYTES, 2 * counts)
    runs = np.add.reduceat(begins, starts, dtype=np.int64)
    as_runs = plain > 2 + 4 * runs
    sizes = np.where(as_runs, 2 + 4 * runs, plain)
    heads = np.stack([keys[starts], counts - 1], axis=1).astype("<u2").tobytes()
    has_runs = bool(as_runs.any())
    if has_runs:
        flags = np.packbits(as_runs, bitorder="little").tobytes()
        cookie = struct.pack("<HH", _RUNS, len(starts) - 1) + flags
    else:
        cookie = struct.pack("<ii", _NO_RUNS, len(starts))
    offsets = b""
    if not has_runs or len(starts) >= _OFFSETS_SINCE:
        first = len(cookie) + len(heads) + 4 * len(starts)
        offsets = (first + np.cumsum(sizes) - sizes).astype("<i4").tobytes()
    containers = (
        _container(low[start : start + count], begins[start : start + count], bool(run))
        for start, count, run in zip(starts.tolist(), counts.tolist(), as_runs.tolist(), strict=True)
    )
    return b"".join([cookie, heads, offsets, *containers])


def _container(low: npt.NDArray[np.uint16], begins: Bools, as_runs: bool) -> bytes:
    """Positions of one key; `begins`: where their runs begin."""
    if as_runs:
        at = np.flatnonzero(begins)
        lengths = np.diff(at, append=len(low)) - 1
        pairs = np.stack([low[at], lengths.astype("<u2")], axis=1).astype("<u2")
        return struct.pack("<H", len(at)) + pairs.tobytes()
    if len(low) <= _MOST_OF_ARRAY:
        return low.tobytes()
    bits = np.zeros(_BITS, dtype=np.bool_)
    bits[low] = True
    return np.packbits(bits, bitorder="little").tobytes()
