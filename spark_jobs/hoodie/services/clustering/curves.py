"""Space-filling curves: points of a grid, numbered so that neighbours on the curve are neighbours in the
grid.

Both take one array of cell numbers a dimension, each below 2 ** bits, and give a number below
2 ** (bits * dimensions) a point. They work on blocks that fit the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.uint32]
Places = npt.NDArray[np.uint64]

#: finer cells than this change nothing in files that hold thousands of rows
_MOST_BITS = 20
_BLOCK = 1 << 15
_WORD = 64


def bits_for(dimensions: int) -> int:
    """Bits of a cell number, so that all of a point fit one word. Raises ValueError beyond 64 dimensions."""
    if not 1 <= dimensions <= _WORD:
        raise ValueError(f"{dimensions} dimensions: a curve has 1 to {_WORD}")
    return min(_MOST_BITS, _WORD // dimensions)


def z_order(cells: Sequence[Cells], bits: int) -> Places:
    """The bits of the cell numbers in turn, most significant first; the first dimension leads."""
    return _blockwise(_interleaved, cells, bits)


def hilbert(cells: Sequence[Cells], bits: int) -> Places:
    """Places on Hilbert's curve (J. Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707, 2004)."""
    return _blockwise(_hilbert, cells, bits)


def _blockwise(function: Callable[[list[Cells], int], Places], cells: Sequence[Cells], bits: int) -> Places:
    count = len(cells[0])
    out = np.empty(count, dtype=np.uint64)
    for start in range(0, count, _BLOCK):
        block = [np.array(axis[start : start + _BLOCK], dtype=np.uint32) for axis in cells]
        out[start : start + _BLOCK] = function(block, bits)
    return out


def _interleaved(axes: list[Cells], bits: int) -> Places:
    out = np.zeros(len(axes[0]), dtype=np.uint64)
    for bit in reversed(range(bits)):
        for axis in axes:
            out <<= np.uint64(1)
            out |= ((axis >> np.uint32(bit)) & np.uint32(1)).astype(np.uint64)
    return out


def _hilbert(axes: list[Cells], bits: int) -> Places:
    """Skilling's AxesToTranspose, all points of a block at once; `axes` is overwritten."""
    one, first = np.uint32(1), axes[0]
    for bit in reversed(range(1, bits)):
        low = np.uint32((1 << bit) - 1)
        for axis in axes:
            # where the bit is set, invert the low bits of the first axis; else exchange them with this one's
            is_set = np.uint32(0) - ((axis >> np.uint32(bit)) & one)
            swap = (first ^ axis) & low & ~is_set
            if axis is not first:
                axis ^= swap
            first ^= swap | (is_set & low)
    for before, axis in pairwise(axes):
        np.bitwise_xor(axis, before, out=axis)
    flips = np.zeros_like(first)
    for bit in reversed(range(1, bits)):
        low = np.uint32((1 << bit) - 1)
        flips ^= (np.uint32(0) - ((axes[-1] >> np.uint32(bit)) & one)) & low
    for axis in axes:
        np.bitwise_xor(axis, flips, out=axis)
    return _interleaved(axes, bits)
