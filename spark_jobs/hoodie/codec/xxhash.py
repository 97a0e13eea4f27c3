"""The hashes of the xxHash specification: XXH32 (seed 0) of whole Arrow arrays, XXH64 of short texts."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.hashing import PART, UInt32Array, binary_views

_P1, _P2, _P3, _P4, _P5 = (
    np.uint32(prime) for prime in (2654435761, 2246822519, 3266489917, 668265263, 374761393)
)
_STRIPE = 16
#: what the four lanes begin with: P1 + P2, P2, 0, -P1
_LANES = np.array([606290984, 2246822519, 0, 1640531535], dtype=np.uint32)
_LANE_SHIFTS = (1, 7, 12, 18)


def xxh32(texts: pa.Array[Any]) -> UInt32Array:
    """The hash of each text's bytes. Memory: some copies of the bytes of 65,536 texts of one length."""
    data, offsets = binary_views(texts)
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    hashes = np.empty(len(lengths), dtype=np.uint32)
    order = np.argsort(lengths, kind="stable")
    bounds = [0, *(np.flatnonzero(np.diff(lengths[order])) + 1).tolist(), len(order)]
    for first, end in itertools.pairwise(bounds):
        for start in range(first, end, PART):
            rows = order[start : min(start + PART, end)]
            places = starts[rows, None] + np.arange(int(lengths[rows[0]]))
            hashes[rows] = _of_length(data[places])
    return hashes


def _of_length(texts: npt.NDArray[np.uint8]) -> UInt32Array:
    """Of texts of one length, a row each."""
    count, length = texts.shape
    whole = length // 4 * 4
    words = np.ascontiguousarray(texts[:, :whole]).view("<u4").astype(np.uint32)
    done = length // _STRIPE * 4
    if done:
        lanes = np.tile(_LANES, (count, 1))
        for place in range(0, done, 4):
            lanes = _rotated(lanes + words[:, place : place + 4] * _P2, 13) * _P1
        hashes = np.zeros(count, dtype=np.uint32)
        for lane, shift in enumerate(_LANE_SHIFTS):
            hashes += _rotated(lanes[:, lane], shift)
    else:
        hashes = np.full(count, _P5, dtype=np.uint32)
    hashes += np.uint32(length)
    for place in range(done, words.shape[1]):
        hashes = _rotated(hashes + words[:, place] * _P3, 17) * _P4
    for place in range(whole, length):
        hashes = _rotated(hashes + texts[:, place].astype(np.uint32) * _P5, 11) * _P1
    hashes = (hashes ^ (hashes >> np.uint32(15))) * _P2
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _P3
    return hashes ^ (hashes >> np.uint32(16))


def _rotated(values: UInt32Array, by: int) -> UInt32Array:
    return (values << np.uint32(by)) | (values >> np.uint32(32 - by))


_MASK = (1 << 64) - 1
_Q1 = 0x9E3779B185EBCA87
_Q2 = 0xC2B2AE3D27D4EB4F
_Q3 = 0x165667B19E3779F9
_Q4 = 0x85EBCA77C2B2AE63
_Q5 = 0x27D4EB2F165667C5
_LONG_STRIPE = struct.Struct("<QQQQ")


def xxh64(data: bytes, seed: int = 0) -> int:
    """The hash of the bytes, as an unsigned number."""
    at, end = 0, len(data)
    if end >= _LONG_STRIPE.size:
        lanes = [seed + _Q1 + _Q2, seed + _Q2, seed, seed - _Q1]
        while at + _LONG_STRIPE.size <= end:
            words = _LONG_STRIPE.unpack_from(data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += _LONG_STRIPE.size
        value = sum(_rotated_long(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = (value ^ _round(0, lane)) * _Q1 + _Q4
    else:
        value = seed + _Q5
    value += end
    while at + 8 <= end:
        word = int.from_bytes(data[at : at + 8], "little")
        value = _rotated_long(value ^ _round(0, word), 27) * _Q1 + _Q4
        at += 8
    if at + 4 <= end:
        value ^= int.from_bytes(data[at : at + 4], "little") * _Q1
        value = _rotated_long(value, 23) * _Q2 + _Q3
        at += 4
    for byte in data[at:]:
        value = _rotated_long(value ^ byte * _Q5, 11) * _Q1
    value &= _MASK
    value = (value ^ value >> 33) * _Q2 & _MASK
    value = (value ^ value >> 29) * _Q3 & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _rotated_long(lane + word * _Q2, 31) * _Q1 & _MASK


def _rotated_long(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 64 - bits) & _MASK
