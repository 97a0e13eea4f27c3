"""Columns as the texts Apache Hudi makes of them, and partition values as folder names.

- Value -> text is format.md section 6.3 (the Avro path of Apache Hudi 0.15.0:
  HoodieAvroUtils.getNestedFieldVal and toString of what it returns). Escaping is section 4.3
  (PartitionPathEncodeUtils).
- Floating-point numbers are as Java's Double.toString and Float.toString write them: plain notation from
  1e-3 up to 1e7, else scientific with an E. There is always a digit after the point. The digits are the
  shortest that read back the same, at least two.
- Whole numbers below 2^63 keep all digits that their binary precision may need, as the JDKs up to 18 write
  them (those Apache Hudi 0.15.0 runs on).
- For a few other values those JDKs write one digit more than needed (JDK-4511638). JDK 19 and newer and this
  module do not. None of these values is between 1e-3 and 1e7 with up to 15 significant digits, so no price
  or measurement is affected.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable
from decimal import Decimal, DecimalTuple
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Array, Column, Rows, array, pc, whole
from hoodie.errors import ConfigError, InputError


def double_text(values: Column) -> Column:
    """float64 -> string."""
    return _text(values, np.float64)


def float_text(values: Column) -> Column:
    """float32 -> string."""
    return _text(values, np.float32)


def one(value: float, kind: type[np.floating]) -> str:
    """One number's text; `kind` is numpy.float64 or numpy.float32."""
    number = kind(value)
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if np.signbit(number) else ""
    if number == 0:
        return sign + "0.0"
    parts = _whole(number, kind) or _shortest(number, kind)
    digits = "".join(map(str, parts.digits))
    power = len(digits) - 1 + int(parts.exponent)
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        digits = digits.ljust(power + 2, "0")
        return f"{sign}{digits[: power + 1]}.{digits[power + 1 :]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


def _shortest(number: Any, kind: type[np.floating]) -> DecimalTuple:
    """The shortest digits that read back the same; where one would do, the nearest two."""
    size = abs(number)
    parts = Decimal(np.format_float_scientific(size, unique=True, trim="-")).normalize().as_tuple()
    two = f"{float(size):.1e}"
    if len(parts.digits) == 1 and kind(two) == size:
        return Decimal(two).normalize().as_tuple()
    return parts


def _whole(number: Any, kind: type[np.floating]) -> DecimalTuple | None:
    """A whole number below 2^63: its digits but for those beyond the precision at its size."""
    size = abs(float(number))
    if size >= 2.0**63 or not size.is_integer():
        return None
    whole = int(size)
    spare = whole.bit_length() - 1 - (np.finfo(kind).nmant + 1) - 1
    unit = 10 ** (int(spare * math.log10(2)) if spare > 1 else 0)
    kept, rest = divmod(whole, unit)
    return Decimal((kept + (unit > 1 and rest >= unit // 2)) * unit).normalize().as_tuple()


def _text(values: Column, kind: type[np.floating]) -> Column:
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_text(chunk, kind) for chunk in values.chunks], pa.string())
    numbers = values.to_numpy(zero_copy_only=False).astype(kind)
    size = np.abs(numbers)
    with np.errstate(invalid="ignore"):
        plain = (size >= 1e-3) & (size < 1e7)
        whole = plain & (numbers == np.trunc(numbers))
    text: Column = values.cast(pa.string())
    text = pc.if_else(_mask(whole), pc.binary_join_element_wise(text, ".0", ""), text)
    odd = ~plain & values.is_valid().to_numpy(zero_copy_only=False)
    if odd.any():
        bits = array(numbers[odd].view(np.int64 if kind is np.float64 else np.int32)).dictionary_encode()
        made = [one(number, kind) for number in bits.dictionary.to_numpy().view(kind)]
        text = pc.replace_with_mask(text, _mask(odd), array(made, pa.string()).take(bits.indices))
    return text


def _mask(bools: npt.NDArray[np.bool_]) -> Array:
    mask: Array = array(bools)
    return mask


_ESCAPED = {chr(code): f"%{code:02X}" for code in [*range(0x20), 0x7F, *map(ord, "\"#%'*/:=?\\{[]^")]}
_ESCAPES = str.maketrans(_ESCAPED)
_EPOCH = dt.datetime(1970, 1, 1)


def escape(value: str) -> str:
    """A partition value with the characters of format.md 4.3 as %XX."""
    return value.translate(_ESCAPES)


def column_type(schema: pa.Schema, path: str, role: str) -> pa.DataType:
    """Type of a column by dotted path, a dictionary's being its values'. Raises InputError if absent."""
    parts = path.split(".")
    found = [field for field in schema if field.name == parts[0]]
    for part in parts[1:]:
        nested = [f for f in _children(found[0].type) if f.name == part] if found else []
        found = nested
    if not found:
        raise InputError(
            f"{role} column {path!r} is not in the input; its columns are {', '.join(schema.names)}.",
            column=path,
        )
    return _plain(found[0].type)


def check_keyable(kind: pa.DataType, path: str, role: str) -> None:
    """Raises ConfigError for types that have no usable text: binary, nested, intervals."""
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_null,
    )
    if not is_string(kind) and not any(test(kind) for test in tests):
        raise ConfigError(
            f"{role} column {path!r} has type {kind}, which can't be part of a key; "
            "choose a string, number, boolean, date, decimal or timestamp column.",
            column=path,
            type=str(kind),
        )


def is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()


def texts(values: Column, *, consistent_timestamps: bool = False) -> Column:
    """string of the same length, null where the value is. The type passed `check_keyable`."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        micros = epoch_micros(values)
        return _by_distinct(micros, _sql_timestamp) if consistent_timestamps else micros.cast(pa.string())
    if pa.types.is_date(kind):
        return _dates(values)
    if pa.types.is_float64(kind):
        return double_text(values)
    if pa.types.is_floating(kind):
        return float_text(values.cast(pa.float32()))
    return values if pa.types.is_string(kind) else values.cast(pa.string())


def epoch_micros(values: Column) -> Column:
    """int64 microseconds since 1970, what the table stores; finer parts are cut off."""
    zone = values.type.tz
    return values.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())


def sample_row(rows: Rows, index: int, fields: Iterable[str]) -> str:
    """A row for an error message: the named columns first, at most eight, long values cut."""
    row: dict[str, Any] = rows.slice(index, 1).to_pylist()[0]
    first = [top for top in dict.fromkeys(path.split(".")[0] for path in fields) if top in row]
    names = [*first, *(name for name in row if name not in first)]
    cells = [f"{name}={_cut(repr(row[name]))}" for name in names[:8]]
    return "{" + ", ".join(cells) + (", …" if len(names) > 8 else "") + "}"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


def _children(kind: pa.DataType) -> list[pa.Field[Any]]:
    return [kind.field(i) for i in range(kind.num_fields)] if isinstance(kind, pa.StructType) else []


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def _by_distinct(values: Column, convert: Callable[[Any], str]) -> Column:
    coded = whole(values).dictionary_encode()
    made = [None if value is None else convert(value) for value in coded.dictionary.to_pylist()]
    text: Column = array(made, pa.string()).take(coded.indices)
    return text


def _sql_timestamp(micros: int) -> str:
    """java.sql.Timestamp.toString of the milliseconds, in UTC; the fraction has at least one digit."""
    millis = abs(micros) // 1000 * (1 if micros >= 0 else -1)  # toward zero, as Java divides
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=millis)
    except OverflowError:
        raise InputError(f"timestamp {micros} µs is outside the years 1 to 9999.", value=micros) from None
    fraction = f"{millis % 1000:03d}".rstrip("0") or "0"
    return f"{moment.isoformat(' ', 'seconds')}.{fraction}"


def _dates(values: Column) -> Column:
    days = values.cast(pa.date32())
    text = days.cast(pa.string())
    outside = pc.or_(pc.less(days, dt.date.min), pc.greater(days, dt.date.max))
    if pc.any(outside).as_py():
        bad = whole(text).filter(whole(outside))[0].as_py()
        raise InputError(f"date {bad} in a key is outside the years 1 to 9999.", value=bad)
    return text
