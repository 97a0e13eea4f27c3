"""CRC-32C (Castagnoli), many bytes at a time."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

_CRC_ROW = 128
#: parts from which on they are worked on together
_MANY = 8
_POLYNOMIAL = 0x82F63B78


def crc32c_of_chunks(data: bytes, chunk: int) -> list[int]:
    """The checksums of consecutive parts of `chunk` bytes, the last of which may be shorter."""
    whole = len(data) // chunk if chunk % _CRC_ROW == 0 else 0
    if whole < _MANY:
        return [crc32c(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    tables = _crc_tables()
    rows = np.frombuffer(data, dtype=np.uint8, count=whole * chunk).reshape(whole, -1, _CRC_ROW).copy()
    rows[:, 0, :4] ^= 255  # the register begins with ones
    parts = np.zeros(rows.shape[:2], dtype=np.uint32)
    for place in range(_CRC_ROW):
        parts ^= tables[_CRC_ROW - 1 - place][rows[:, :, place]]
    register = np.zeros(whole, dtype=np.uint32)
    ends = tables[: _CRC_ROW - 5 : -1]
    for row in parts.T:
        for place in range(4):
            row ^= ends[place][register >> np.uint32(8 * place) & np.uint32(255)]
        register = row
    rest = data[whole * chunk :]
    sums: list[int] = (register ^ np.uint32(0xFFFFFFFF)).tolist()
    return [*sums, crc32c(rest)] if rest else sums


def crc32c(data: bytes) -> int:
    """The checksum of HFile blocks; of nothing it is 0."""
    tables = _crc_tables()
    if len(data) < 4:
        register = 0xFFFFFFFF
        for byte in data:
            register = register >> 8 ^ int(tables[0, (register ^ byte) & 255])
        return register ^ 0xFFFFFFFF
    padded = np.zeros(-(-len(data) // _CRC_ROW) * _CRC_ROW, dtype=np.uint8)
    start = len(padded) - len(data)  # zeros before the first byte change nothing
    padded[start:] = np.frombuffer(data, dtype=np.uint8)
    padded[start : start + 4] ^= 255  # the register begins with ones
    rows = padded.reshape(-1, _CRC_ROW)
    parts = np.bitwise_xor.reduce(tables[np.arange(_CRC_ROW - 1, -1, -1), rows], axis=1)
    ends = [table.tolist() for table in tables[: _CRC_ROW - 5 : -1]]
    register = 0
    for part in parts.tolist():
        register = (
            part
            ^ ends[0][register & 255]
            ^ ends[1][register >> 8 & 255]
            ^ ends[2][register >> 16 & 255]
            ^ ends[3][register >> 24]
        )
    return register ^ 0xFFFFFFFF


@functools.cache
def _crc_tables() -> npt.NDArray[np.uint32]:
    """What a byte adds when so many bytes follow it in a row."""
    tables = np.zeros((_CRC_ROW, 256), dtype=np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = np.where(first & 1, first >> 1 ^ np.uint32(_POLYNOMIAL), first >> 1)
    tables[0] = first
    for number in range(1, _CRC_ROW):
        before = tables[number - 1]
        tables[number] = before >> 8 ^ first[before & 255]
    return tables
