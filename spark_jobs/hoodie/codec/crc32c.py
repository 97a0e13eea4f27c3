"""CRC-32C (Castagnoli), many bytes at a time."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

_CRC_ROW = 128
_POLYNOMIAL = 0x82F63B78


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
