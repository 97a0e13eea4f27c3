"""XXH64, as the xxHash specification has it, of short texts."""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_STRIPE = struct.Struct("<QQQQ")


def xxh64(data: bytes, seed: int = 0) -> int:
    """The hash of the bytes, as an unsigned number."""
    at, end = 0, len(data)
    if end >= _STRIPE.size:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + _STRIPE.size <= end:
            words = _STRIPE.unpack_from(data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += _STRIPE.size
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = (value ^ _round(0, lane)) * _P1 + _P4
    else:
        value = seed + _P5
    value += end
    while at + 8 <= end:
        word = int.from_bytes(data[at : at + 8], "little")
        value = _rotated(value ^ _round(0, word), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        value ^= int.from_bytes(data[at : at + 4], "little") * _P1
        value = _rotated(value, 23) * _P2 + _P3
        at += 4
    for byte in data[at:]:
        value = _rotated(value ^ byte * _P5, 11) * _P1
    value &= _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> 64 - bits) & _MASK
