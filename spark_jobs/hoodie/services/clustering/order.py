"""Sort keys of a clustering: the sort columns themselves, or one place on a curve through all of them.

- For a curve each column's values are numbers on a scale of cells. `direct` cells have equal width between
  the least and the greatest value. `sample` cells have about equally many rows. These are Apache Hudi's
  build methods; the numbers are those of this package.
- Of texts and binaries 8 bytes count, those after the common prefix of all values. NaN comes after all other
  values, and nulls last.
- A space-filling curve numbers the points of a grid so that neighbours on the curve are neighbours in the
  grid. Both curves take one array of cell numbers a dimension, each below 2 ** bits. They give a number
  below 2 ** (bits * dimensions) a point. They work on blocks that fit the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.config.key import Config, parse_fields
from hoodie.errors import ConfigError
from hoodie.services.clustering.settings import (
    BUILD_METHOD,
    LAYOUT,
    SAMPLE_SIZE,
    SORT_COLUMNS,
    BuildMethod,
    Layout,
)

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


#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


#: column with a row's place on the curve
PLACE = "_hoodie_clustering_place"
_PREFIX_BYTES = 8
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    """What rows are sorted by. Picklable."""

    columns: tuple[str, ...]
    layout: Layout = Layout.LINEAR
    method: BuildMethod = BuildMethod.DIRECT
    sample_size: int = SAMPLE_SIZE.default

    @classmethod
    def of(cls, params: Mapping[str, str], config: Config) -> Order | None:
        """That of a plan with these strategy parameters; None when rows are not sorted.

        The settings complete the plan: Apache Hudi's plans name the columns only. A column that is named
        twice counts once.
        """
        columns = tuple(dict.fromkeys(parse_fields(params.get(SORT_COLUMNS.name, ""))))
        if not columns:
            return None
        layout, method = config[LAYOUT], config[BUILD_METHOD]
        if LAYOUT.name in params and not config.given(LAYOUT):
            layout = LAYOUT.read(params[LAYOUT.name])
        if BUILD_METHOD.name in params and not config.given(BUILD_METHOD):
            method = BUILD_METHOD.read(params[BUILD_METHOD.name])
        return cls(columns, layout, method, config[SAMPLE_SIZE])

    @property
    def curved(self) -> bool:
        """One column alone is in the same order on any curve."""
        return self.layout is not Layout.LINEAR and len(self.columns) > 1

    def check(self, schema: pa.Schema) -> None:
        """Raises ConfigError for columns that the table lacks, or that have no order."""
        missing = [name for name in self.columns if name not in schema.names]
        if missing:
            raise ConfigError(
                f"{SORT_COLUMNS.name} names {', '.join(missing)}, which the table does not have; it has "
                f"{', '.join(schema.names)}",
                columns=", ".join(missing),
            )
        for name in self.columns:
            kind = schema.field(name).type
            if pa.types.is_nested(kind):
                raise ConfigError(
                    f"{SORT_COLUMNS.name} names {name!r}, which is {kind} and has no order; name columns "
                    "with single values",
                    column=name,
                )
        if self.curved and len(self.columns) > _MOST_COLUMNS:
            raise ConfigError(
                f"{SORT_COLUMNS.name} names {len(self.columns)} columns; a {self.layout.value} curve through "
                f"more than {_MOST_COLUMNS} helps no query. Name those that queries filter by",
                columns=len(self.columns),
            )


def check_not_repeated(columns: tuple[str, ...]) -> None:
    """Raises ConfigError for a column that is named twice: Apache Hudi can't execute such a plan."""
    repeated = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if repeated:
        raise ConfigError(
            f"{SORT_COLUMNS.name} names {', '.join(repeated)} more than once; name each column once",
            columns=", ".join(repeated),
        )


#: with 8 columns a cell is an eighth of a word, 256 steps a column
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class Scale:
    """Cells of one column: `low` and `high` numbers, or the `bounds` between cells. `prefix` is what all
    texts begin with.
    """

    low: float
    high: float
    bounds: _Floats | None = None
    prefix: bytes = b""

    @classmethod
    def of(cls, column: pa.ChunkedArray[Any], method: BuildMethod) -> Scale:
        prefix = _common_prefix(column)
        numbers = _numbers(column, prefix)
        known = np.sort(numbers[np.isfinite(numbers)])
        if not len(known):
            return cls(0.0, 0.0, None, prefix)
        bounds = known if method is BuildMethod.SAMPLE else None
        return cls(float(known[0]), float(known[-1]), bounds, prefix)

    def cells(self, column: pa.ChunkedArray[Any], bits: int) -> Cells:
        """The cell of every value; values beyond the scale are in its first or last."""
        numbers = _numbers(column, self.prefix)
        last = (1 << bits) - 1
        if self.bounds is not None:
            share = np.searchsorted(self.bounds, numbers) / max(1, len(self.bounds))
        else:
            width = self.high - self.low
            with np.errstate(invalid="ignore", over="ignore"):
                share = (numbers - self.low) / width if 0 < width < np.inf else np.zeros(len(numbers))
        share = np.where(np.isnan(numbers), 1.0, np.nan_to_num(share, nan=0.0))
        return (np.clip(share, 0.0, 1.0) * last).astype(np.uint32)


@dataclass(frozen=True)
class SortKeys:
    """How to sort: `names` of columns, after `with_keys` has added what is not stored. Picklable."""

    order: Order
    scales: tuple[Scale, ...] = ()

    @classmethod
    def of(cls, order: Order, rows: pa.Table) -> SortKeys:
        """`rows`: all rows, or a sample of them with the same distribution of values."""
        if not order.curved:
            return cls(order)
        return cls(order, tuple(Scale.of(rows.column(name), order.method) for name in order.columns))

    @property
    def names(self) -> tuple[str, ...]:
        return (PLACE,) if self.order.curved else self.order.columns

    def with_keys(self, rows: pa.Table) -> pa.Table:
        """The rows with the columns of `names`."""
        if not self.order.curved:
            return rows
        bits = bits_for(len(self.scales))
        cells = [
            scale.cells(rows.column(name), bits)
            for scale, name in zip(self.scales, self.order.columns, strict=True)
        ]
        curve = hilbert if self.order.layout is Layout.HILBERT else z_order
        return rows.append_column(PLACE, pa.array(curve(cells, bits)))

    def indices(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """The rows' numbers in the order of their keys, which are there: values, then NaN, then nulls."""
        if self.order.curved:
            return np.argsort(rows.column(PLACE).to_numpy(), kind="stable")
        keys = [(name, "ascending") for name in self.names]
        found: npt.NDArray[np.int64] = pc.sort_indices(
            rows.select(list(self.names)), sort_keys=keys
        ).to_numpy()
        return found

    def at_least(self, rows: pa.Table, bound: Sequence[Any], behind: bool = False) -> Any:
        """Which rows, a boolean array, are at or behind `bound`, or behind it only: a scalar for each of
        `names`.
        """
        mask: Any = pa.array(np.full(rows.num_rows, not behind, dtype=np.bool_))
        for name, value in reversed(list(zip(self.names, bound, strict=True))):
            greater, equal = _compared(rows.column(name).combine_chunks(), value)
            mask = pc.or_(greater, pc.and_(equal, mask))
        return mask

    def quantiles(self, rows: pa.Table, shares: Sequence[float]) -> list[tuple[Any, ...]]:
        """The bounds below which these shares of the rows are. `rows` have their keys."""
        if rows.num_rows == 0:
            return []
        chosen = self.indices(rows)[[min(rows.num_rows - 1, int(share * rows.num_rows)) for share in shares]]
        picked = rows.select(list(self.names)).take(chosen)
        return [tuple(column[number] for column in picked.columns) for number in range(len(shares))]


def _compared(column: Any, value: Any) -> tuple[Any, Any]:
    """Which values are behind one, and which are equal to it; NaN is behind all other values, null behind
    NaN.
    """
    null = pc.is_null(column)
    if not value.is_valid:
        return pa.array(np.zeros(len(column), dtype=np.bool_)), null
    greater, equal = pc.greater(column, value), pc.equal(column, value)
    if pa.types.is_floating(column.type):
        nan = pc.is_nan(column)
        greater, equal = (null, nan) if np.isnan(value.as_py()) else (pc.or_(greater, nan), equal)
    return pc.fill_null(greater, True), pc.fill_null(equal, False)


def _numbers(column: pa.ChunkedArray[Any], prefix: bytes) -> _Floats:
    """Values as numbers in their order; nulls are NaN. Texts that differ late, or long integers, may be
    equal.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        numbers = _text_numbers(column, len(prefix))
    else:
        if pa.types.is_temporal(kind):
            column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        numbers = pc.fill_null(column.cast(pa.float64(), safe=False), np.nan).to_numpy()
    nulls = column.is_null()
    if column.null_count:
        numbers = np.where(nulls.to_numpy(), np.nan, numbers)
    return numbers


def _text_numbers(column: pa.ChunkedArray[Any], skip: int) -> _Floats:
    """The 8 bytes from `skip` on as one big-endian number; shorter texts are filled up with zeros."""
    texts = column.cast(pa.binary()) if not pa.types.is_binary(column.type) else column
    parts = [_chunk_numbers(chunk, skip) for chunk in texts.chunks]
    return np.concatenate(parts) if parts else np.empty(0)


def _chunk_numbers(chunk: Any, skip: int) -> _Floats:
    count = len(chunk)
    _, offsets_buffer, data = chunk.buffers()
    if count == 0 or data is None or data.size == 0:
        return np.zeros(count)
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[chunk.offset : chunk.offset + count + 1]
    content = np.frombuffer(data, dtype=np.uint8)
    begin, end = offsets[:-1].astype(np.int64) + skip, offsets[1:].astype(np.int64)
    out = np.zeros(count, dtype=np.uint64)
    for place in range(_PREFIX_BYTES):
        at = begin + place
        there = at < end
        byte = np.where(there, content[np.where(there, at, 0)], 0)
        out = (out << np.uint64(8)) | byte.astype(np.uint64)
    return out.astype(np.float64)


def _common_prefix(column: pa.ChunkedArray[Any]) -> bytes:
    """What all texts of a column begin with; empty for other types."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.binary())
    elif not pa.types.is_binary(kind):
        return b""
    ends = pc.min_max(column).as_py()
    if ends["min"] is None:
        return b""
    low, high = bytes(ends["min"]), bytes(ends["max"])
    same = (number for number, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return low[: next(same, min(len(low), len(high)))]
