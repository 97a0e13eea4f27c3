"""The values of column statistics by the type of their column (Apache Hudi 1.2.0 ValueType).

Statistics of version 1 say a type by the wrapper of a value. Those of version 2 have a `valueType`, which is
the number of a type, and what else it needs. They wrap days as whole numbers, decimals as unscaled bytes.
Apache Hudi's compaction of statistics of version 1 leaves values in wrappers of version 2.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from hoodie.metadata.partitions.column_ranges import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    Unbounded,
)

#: of a column of another type, and of one that a file has no value of
_NULL = 1
_DECIMAL = 10
_EXACT = Context(prec=100)
_types = pa.types
_NUMBERS: tuple[tuple[Callable[[Any], bool], int], ...] = (
    (_types.is_boolean, 2),
    (_types.is_int32, 3),
    (_types.is_int64, 4),
    (_types.is_float32, 5),
    (_types.is_float64, 6),
    (_types.is_string, 7),
    (_types.is_large_string, 7),
    (_types.is_binary, 8),
    (_types.is_large_binary, 8),
    (_types.is_fixed_size_binary, 9),
    (_types.is_decimal, _DECIMAL),
    (_types.is_date32, 12),
    (_types.is_time32, 13),
    (_types.is_time64, 14),
)
#: of timestamps, in UTC and without a zone
_TIMESTAMPS = {"ms": (15, 18), "us": (16, 19), "ns": (17, 20)}
_WRAPPERS = {
    2: BOOLEAN, 3: INT, 4: LONG, 5: FLOAT, 6: DOUBLE, 7: STRING, 8: BYTES, 9: BYTES, 10: DECIMAL, 12: DATE,
    13: INT, 14: LONG,
}  # fmt: skip
_WIDER = {(INT, LONG), (FLOAT, DOUBLE)}


@lru_cache(maxsize=256)
def number_of(kind: pa.DataType | None) -> int:
    """Of a column's type; that of nulls where it is none of those that have statistics."""
    if isinstance(kind, pa.TimestampType):
        return _TIMESTAMPS[kind.unit][kind.tz is None] if kind.unit in _TIMESTAMPS else _NULL
    return next((number for test, number in _NUMBERS if kind is not None and test(kind)), _NULL)


def is_supported(kind: pa.DataType, *, typed: bool) -> bool:
    """Has a column of the type statistics. `typed`: in version 2, where decimals have each scale."""
    if not typed and isinstance(kind, pa.Decimal128Type | pa.Decimal256Type):
        return bool(kind.scale <= 15 and kind.precision - kind.scale <= 15)
    return number_of(kind) != _NULL


def value_type(kind: pa.DataType | None) -> dict[str, Any]:
    """`valueType` of statistics of version 2."""
    more = f"{kind.precision},{kind.scale}" if _is_decimal(kind) else None  # type: ignore[union-attr]
    return {"typeOrdinal": number_of(kind), "additionalInfo": more}


def wrapped(wrapper: str, value: Any, kind: pa.DataType | None) -> dict[str, Any] | None:
    """A value of statistics of version 2, as its column's type is."""
    if not wrapper:
        return None
    if wrapper == DATE:
        return {INT: {"value": value}}
    if wrapper == DECIMAL:
        assert kind is not None
        unscaled = int(value.scaleb(kind.scale, _EXACT))  # type: ignore[attr-defined]
        length = ((unscaled if unscaled >= 0 else ~unscaled).bit_length() + 8) // 8
        return {BYTES: {"value": unscaled.to_bytes(length, "big", signed=True)}}
    return {wrapper: {"value": value}}


def restored(wrapper: str, value: Any, scale: int | None, kind: pa.DataType | None) -> tuple[str, Any]:
    """(the wrapper that its column's type has, the value) of a stored one, of which `scale` is that of a
    decimal, where the statistics say it. Raises Unbounded for a value of another type.
    """
    number = number_of(kind)
    wanted = LONG if isinstance(kind, pa.TimestampType) else _WRAPPERS.get(number, "")
    if wrapper == wanted:
        return wrapper, value
    if wrapper == BYTES and wanted == DECIMAL and (scale is not None or value):
        unscaled = Decimal(int.from_bytes(value, "big", signed=True))
        return DECIMAL, unscaled.scaleb(-(15 if scale is None else scale), _EXACT)
    if (wrapper, wanted) in _WIDER:
        return wanted, value
    if (wrapper, wanted) in {(INT, DATE), ("TimestampMicrosWrapper", LONG)}:
        return wanted, value
    raise Unbounded(f"a value in {wrapper} is none of a column of type {kind}")


def _is_decimal(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_decimal(kind)
