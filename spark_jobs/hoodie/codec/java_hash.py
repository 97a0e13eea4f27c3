"""Hash codes of Java's texts and lists, for whole Arrow arrays.

Both are polynomials in 31 modulo 2^32 (String.hashCode, List.hashCode): of a text over its UTF-16 units, of a
list over the hash codes of its elements, with the number of elements as the degree of the leading term.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.hashing import PART, UInt32Array, binary_views

_BASE = 31


def text_hashes(texts: pa.Array[Any]) -> UInt32Array:
    """`hashCode` of each text; 0 of a null. Memory: some 16 bytes a byte of 65,536 texts."""
    found = [_hashes(texts.slice(start, PART)) for start in range(0, len(texts), PART)]
    return np.concatenate(found) if found else np.empty(0, dtype=np.uint32)


def list_hashes(hashes: UInt32Array, offsets: npt.NDArray[Any]) -> UInt32Array:
    """`hashCode` of lists: list i has the elements `offsets[i]` to before `offsets[i + 1]`."""
    lengths = np.diff(offsets)
    if not len(lengths):
        return np.empty(0, dtype=np.uint32)
    return _polynomials(hashes, offsets) + _powers(int(lengths.max()) + 1)[lengths]


def _hashes(texts: pa.Array[Any]) -> UInt32Array:
    data, offsets = binary_views(texts)
    first = int(offsets[0])
    hashes = _polynomials(*_units(data[first : offsets[-1]], offsets - first))
    if texts.null_count:
        hashes[texts.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _units(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The UTF-16 units of texts in UTF-8, and where each text begins."""
    if not len(data) or data.max() < 0x80:
        return data, offsets
    units = np.frombuffer(data.tobytes().decode().encode("utf-16-le"), dtype="<u2")
    # a byte that continues a character adds none, the first one of four two
    widths = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    return units, np.concatenate([[0], np.cumsum(widths)])[offsets]


def _polynomials(values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> UInt32Array:
    """Of each run of values: the sum of each one times 31 to the power of those that follow it in the run."""
    lengths = np.diff(offsets)
    sums = np.zeros(len(lengths), dtype=np.uint32)
    filled = np.flatnonzero(lengths)
    if len(filled):
        follow = np.repeat(offsets[1:], lengths) - np.arange(1, len(values) + 1)
        terms = values.astype(np.uint32) * _powers(int(lengths.max()))[follow]
        sums[filled] = np.add.reduceat(terms, offsets[:-1][filled], dtype=np.uint32)
    return sums


def _powers(count: int) -> UInt32Array:
    powers = np.full(count, _BASE, dtype=np.uint32)
    powers[0] = 1
    return np.cumprod(powers, dtype=np.uint32)
