"""What is known of the values of a column in a file, as statistics in the metadata table say it.

Readers leave files out by it, so that bounds are true for every value, in the order of the values' bytes:
no least value is greater than a value, NaN is greater than all other numbers, zeros are -0.0 below and 0.0
above. Apache Hudi takes a column without bounds for one without values; so where a column's bounds are not
known (`Unbounded`), the file must not have statistics at all.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from hoodie.errors import HoodieError
from hoodie.metadata.text_bounds import above

BOOLEAN, INT, LONG, FLOAT, DOUBLE = (
    "BooleanWrapper",
    "IntWrapper",
    "LongWrapper",
    "FloatWrapper",
    "DoubleWrapper",
)
BYTES, STRING, DATE, DECIMAL = "BytesWrapper", "StringWrapper", "DateWrapper", "DecimalWrapper"
FLOATING = frozenset({FLOAT, DOUBLE})
#: of DecimalWrapper
_DIGITS, _SCALE = 30, 15
#: characters and bytes of bounds; longer ones are cut
_LONGEST = 1024


class Unbounded(HoodieError):
    """No bounds of a column can be written down."""


@dataclass(frozen=True)
class ColumnRange:
    """Of one column in one file. `kind` is the name of the wrapper of `low` and `high`, "" where there are
    none: then all values are null. `values` counts nulls, too; sizes are bytes, in a Parquet file alone.
    """

    column: str
    kind: str = ""
    low: Any = None
    high: Any = None
    nulls: int = 0
    values: int = 0
    size: int = 0
    uncompressed: int = 0

    def joined(self, other: ColumnRange) -> ColumnRange:
        """That of both, of one column."""
        counts = replace(
            self,
            nulls=self.nulls + other.nulls,
            values=self.values + other.values,
            size=self.size + other.size,
            uncompressed=self.uncompressed + other.uncompressed,
        )
        if not other.kind:
            return counts
        if not self.kind:
            return replace(counts, kind=other.kind, low=other.low, high=other.high)
        if self.kind != other.kind:
            raise Unbounded(f"column {self.column!r} has values of {self.kind} and of {other.kind}")
        if self.kind not in FLOATING:
            return replace(counts, low=min(self.low, other.low), high=max(self.high, other.high))
        lows = [low for low in (self.low, other.low) if not math.isnan(low)]
        nan = math.isnan(self.high) or math.isnan(other.high)
        high = math.nan if nan else max(self.high, other.high)
        return replace(counts, low=min(lows, default=math.nan), high=high)

    def to_json(self) -> list[Any]:
        """Of one without sizes."""
        ends = [None if end is None else _text_of(self.kind, end) for end in (self.low, self.high)]
        return [self.column, self.kind, *ends, self.nulls, self.values]

    @classmethod
    def from_json(cls, value: Iterable[Any]) -> ColumnRange:
        column, kind, low, high, nulls, values = value
        low, high = (None if end is None else _value_of(kind, end) for end in (low, high))
        return cls(column, kind, low, high, nulls, values)


def bounded(column: str, kind: str, low: Any, high: Any, scale: int = 0) -> ColumnRange:
    """Bounds as they may be written; `low` and `high` of DECIMAL are unscaled. Raises Unbounded."""
    if kind == DECIMAL:
        low = _rounded(column, low, scale, ROUND_FLOOR)
        high = _rounded(column, high, scale, ROUND_CEILING)
    elif kind in FLOATING:
        low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    elif kind == STRING and max(len(low), len(high)) > _LONGEST:
        low, high = low[:_LONGEST], high if len(high) <= _LONGEST else _above(column, high[:_LONGEST])
    elif kind == BYTES and max(len(low), len(high)) > _LONGEST:
        low, high = low[:_LONGEST], high if len(high) <= _LONGEST else _above_bytes(column, high[:_LONGEST])
    return ColumnRange(column, kind, low, high)


def join_all(ranges: Iterable[ColumnRange]) -> dict[str, ColumnRange]:
    """One of each column. Raises Unbounded."""
    found: dict[str, ColumnRange] = {}
    for item in ranges:
        before = found.get(item.column)
        found[item.column] = item if before is None else before.joined(item)
    return found


def _rounded(column: str, unscaled: int, scale: int, rounding: str) -> Decimal:
    """With DecimalWrapper's scale."""
    exact = Context(prec=100)
    value = Decimal(unscaled).scaleb(-scale, exact)
    found = value.quantize(Decimal(1).scaleb(-_SCALE, exact), rounding, exact)
    if abs(found) >= Decimal(10) ** (_DIGITS - _SCALE):
        raise Unbounded(
            f"column {column!r} has a decimal of more than {_DIGITS - _SCALE} digits before the point"
        )
    return found


def _above(column: str, text: str) -> str:
    found = above(text)
    if found is None:
        raise Unbounded(f"column {column!r} has a text that nothing bounds")
    return found


def _above_bytes(column: str, data: bytes) -> bytes:
    begin = data.rstrip(b"\xff")
    if not begin:
        raise Unbounded(f"column {column!r} has bytes that nothing bounds")
    return begin[:-1] + bytes([begin[-1] + 1])


def _text_of(kind: str, value: Any) -> Any:
    if kind == BYTES:
        return b64encode(value).decode()
    if kind == DECIMAL:
        return str(value)
    return float(value).hex() if kind in FLOATING else value


def _value_of(kind: str, value: Any) -> Any:
    if kind == BYTES:
        return b64decode(value)
    if kind == DECIMAL:
        return Decimal(value)
    return float.fromhex(value) if kind in FLOATING else value
