"""The bounds of the values of a column in a file, for statistics in the metadata table.

- **True bounds**: readers leave files out by them. So no least value is greater than a value, in the order
  of the values' bytes. NaN is greater than all other numbers. Zeros are -0.0 below and 0.0 above.
- **No bounds**: Apache Hudi treats a column without bounds as one without values. So a file whose bounds of
  a column are not certain (`Unbounded`) must not have statistics at all.
- **Sources**: the footer of a base file (Apache Hudi 0.15.0 ParquetUtils), the rows of one log file during
  its write (HoodieAppendHandle), and for columns of texts the statistics in a metadata table.
- **Nested columns** are left out: Apache Hudi has no bounds of them, and treats every map as null.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.codec.arrays import pc
from hoodie.errors import HoodieError

#: bytes of a text that may have been cut
_CUT = 64
_LAST, _REPLACEMENT = 0x10FFFF, "\ufffd"


def text_bounds(low: str, high: str) -> tuple[str, str | None]:
    """Of the least and the greatest text: not greater, and not less, than any of the column, by characters or
    by UTF-16 units, by which records of log files are compared; None for no bound. A text may have been cut,
    and end with half a character.
    """
    return _least(low), _greatest(high)


def _least(text: str) -> str:
    return text[: _first(text, lambda one: one > "\uffff" or one == _REPLACEMENT)]


def _greatest(text: str) -> str | None:
    end = _first(text, lambda one: "\ue000" <= one <= "\uffff")
    if end == len(text) and len(text.encode()) < _CUT:
        return text
    return above(text[:end])


def above(text: str) -> str | None:
    """A text that is greater than all that begin with this one; None where there is none."""
    begin = text.rstrip(chr(_LAST))
    if not begin:
        return None
    after = ord(begin[-1]) + 1
    return begin[:-1] + chr(0xE000 if after == 0xD800 else after)


def _first(text: str, test: Callable[[str], bool]) -> int:
    """The place of the first character of a kind; the length without any."""
    return next((place for place, one in enumerate(text) if test(one)), len(text))


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
_EXACT = Context(prec=100)
#: characters and bytes of bounds; longer ones are cut
_LONGEST = 1024


class Unbounded(HoodieError):
    """No bounds of a column can be written down."""


@dataclass(frozen=True)
class ColumnRange:
    """Of one column in one file. `kind` is the name of the wrapper of `low` and `high`, "" where there are
    none: then all values are null. Those of decimals are exact. `values` counts nulls, too; sizes are bytes,
    in a Parquet file alone.
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
        low, high = self._joined_ends(other)
        return ColumnRange(
            self.column,
            self.kind or other.kind,
            low,
            high,
            self.nulls + other.nulls,
            self.values + other.values,
            self.size + other.size,
            self.uncompressed + other.uncompressed,
        )

    def _joined_ends(self, other: ColumnRange) -> tuple[Any, Any]:
        if not self.kind or not other.kind:
            some = self if self.kind else other
            return some.low, some.high
        if self.kind != other.kind:
            raise Unbounded(f"column {self.column!r} has values of {self.kind} and of {other.kind}")
        if self.kind not in FLOATING:
            return min(self.low, other.low), max(self.high, other.high)
        lows = [low for low in (self.low, other.low) if not math.isnan(low)]
        nan = math.isnan(self.high) or math.isnan(other.high)
        return min(lows, default=math.nan), math.nan if nan else max(self.high, other.high)

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
        low, high = (Decimal(end).scaleb(-scale, _EXACT) for end in (low, high))
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


def rounded(found: ColumnRange) -> ColumnRange:
    """Decimals with DecimalWrapper's scale, the range not narrower. Raises Unbounded."""
    if found.kind != DECIMAL:
        return found
    low, high = ((found.low, ROUND_FLOOR), (found.high, ROUND_CEILING))
    return replace(found, low=_rounded(found.column, *low), high=_rounded(found.column, *high))


def _rounded(column: str, value: Decimal, rounding: str) -> Decimal:
    found = value.quantize(Decimal(1).scaleb(-_SCALE, _EXACT), rounding, _EXACT)
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


_PLAIN = {
    "BOOLEAN": BOOLEAN,
    "INT32": INT,
    "INT64": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BYTE_ARRAY": BYTES,
    "FIXED_LEN_BYTE_ARRAY": BYTES,
}
#: what parquet-java has for the bounds of a column without values
_NOTHING = {BOOLEAN: False, INT: 0, LONG: 0, FLOAT: 0.0, DOUBLE: 0.0}


#: texts or bytes: the least and the greatest of a row group, by its number, in a top-level column
Ends: TypeAlias = Callable[[int, str], tuple[Any, Any]]


def footer_ranges(
    metadata: pq.FileMetaData, columns: Collection[str], ends_of: Ends | None = None
) -> dict[str, ColumnRange]:
    """Of those of the columns that the file has; parts of nested ones have paths with dots. `ends_of` is
    asked where texts or bytes are so long that the footer leaves them out. Raises Unbounded where the bounds
    of one are not known.
    """
    all_of = [(number, metadata.schema.column(number)) for number in range(metadata.num_columns)]
    return join_all(_chunks(metadata, [item for item in all_of if item[1].path in columns], ends_of))


def _chunks(
    metadata: pq.FileMetaData, columns: list[tuple[int, Any]], ends_of: Ends | None
) -> Iterator[ColumnRange]:
    for place in range(metadata.num_row_groups):
        group = metadata.row_group(place)
        for number, column in columns:
            given = ends_of if column.path == column.name else None
            yield _chunk(group.column(number), column, None if given is None else partial(given, place))


def _chunk(chunk: Any, column: Any, ends_of: Callable[[str], tuple[Any, Any]] | None) -> ColumnRange:
    kind, name, statistics = _kind_in_footer(column), column.path, chunk.statistics
    values = chunk.num_values
    counts = {
        "values": values,
        "size": chunk.total_compressed_size,
        "uncompressed": chunk.total_uncompressed_size,
    }
    if not values:
        return ColumnRange(name, **counts)
    if statistics is None or not statistics.has_null_count:
        raise Unbounded(f"nothing says how many values of column {name!r} are null")
    counts["nulls"] = nulls = statistics.null_count
    if nulls == values:
        nothing = _NOTHING.get(kind)
        return ColumnRange(name, kind if nothing is not None else "", nothing, nothing, **counts)
    ends = (statistics.min_raw, statistics.max_raw) if statistics.has_min_max else ()
    if kind in FLOATING and (not ends or any(map(math.isnan, ends))):
        return ColumnRange(name, kind, -math.inf, math.nan, **counts)  # it depends on the order of the values
    if ends:
        low, high = (_value(kind, column, raw) for raw in ends)
        return replace(bounded(name, kind, low, high, column.scale), **counts)
    if ends_of is not None and kind in (STRING, BYTES):
        return replace(bounded(name, kind, *ends_of(name)), **counts)
    raise Unbounded(f"column {name!r} has no least and greatest value")


def _kind_in_footer(column: Any) -> str:
    if column.converted_type == "DECIMAL":
        return DECIMAL
    if column.converted_type == "DATE":
        return DATE
    if column.converted_type == "UTF8":
        return STRING
    return _PLAIN.get(column.physical_type, "")


def _value(kind: str, column: Any, raw: Any) -> Any:
    if kind == DECIMAL and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    if kind == STRING:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise Unbounded(f"column {column.path!r} has a text that was cut") from None
    if not kind:
        raise Unbounded(f"column {column.path!r} has values of type {column.physical_type}")
    return raw


class LogRanges:
    """`columns`: those with statistics, None for all."""

    def __init__(self, columns: Collection[str] | None) -> None:
        self._columns = columns
        self._found: dict[str, ColumnRange] = {}
        self._bounded = True

    def add(self, rows: pa.Table) -> None:
        """The rows of a block, of which there may be none."""
        try:
            for field in rows.schema:
                if self._has(field.name) and not pa.types.is_nested(field.type):
                    found = range_of(field, rows.column(field.name))
                    before = self._found.get(field.name)
                    self._found[field.name] = found if before is None else before.joined(found)
        except Unbounded:
            self._bounded = False

    def take(self) -> tuple[list[Any], ...]:
        """What was found since the last time, as WriteStat has it; nothing where a column has no bounds."""
        found = tuple(item.to_json() for item in self._found.values()) if self._bounded else ()
        self._found, self._bounded = {}, True
        return found

    def _has(self, name: str) -> bool:
        return self._columns is None or name in self._columns


def range_of(field: pa.Field[Any], column: Any) -> ColumnRange:
    """Of the values of a column, which may be in chunks. Raises Unbounded."""
    nulls, values, name = column.null_count, len(column), field.name
    if nulls == values:
        return ColumnRange(name, nulls=nulls, values=values)
    kind, of = _kind(field)
    given = column if of is None else column.cast(of)
    ends = pc.min_max(given)
    low, high = (ends[side].as_py() for side in ("min", "max"))
    if kind in FLOATING and pc.any(pc.is_nan(given)).as_py():
        numbers = pc.min_max(given.filter(pc.invert(pc.is_nan(given))))
        low, high = numbers["min"].as_py(), math.nan
        low = math.nan if low is None else low
    scale = 0
    if kind == DECIMAL:
        scale = field.type.scale
        low, high = (int(value.scaleb(scale, _EXACT)) for value in (low, high))
    return replace(bounded(name, kind, low, high, scale), nulls=nulls, values=values)


def _kind(field: pa.Field[Any]) -> tuple[str, pa.DataType | None]:
    """The wrapper, and the type that the values are taken as."""
    types = pa.types
    kind: Any = field.type
    for test, name, of in (
        (types.is_boolean, BOOLEAN, None),
        (types.is_int32, INT, None),
        (types.is_int64, LONG, None),
        (types.is_timestamp, LONG, pa.int64()),
        (types.is_time64, LONG, pa.int64()),
        (types.is_time32, INT, pa.int32()),
        (types.is_date32, DATE, pa.int32()),
        (types.is_float32, FLOAT, None),
        (types.is_float64, DOUBLE, None),
        (types.is_string, STRING, None),
        (types.is_large_string, STRING, None),
        (types.is_binary, BYTES, None),
        (types.is_large_binary, BYTES, None),
        (types.is_fixed_size_binary, BYTES, pa.binary()),
        (types.is_decimal, DECIMAL, None),
    ):
        if test(kind):
            return name, of
    raise Unbounded(f"column {field.name!r} has values of type {kind}")
