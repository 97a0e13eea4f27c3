"""Floating-point numbers as Java's Double.toString and Float.toString write them.

Plain notation from 1e-3 up to 1e7, else scientific with an E; always a digit after the point; the shortest
digits that read back the same, at least two of them. Whole numbers below 2^63 keep all digits their binary
precision may need, as the JDKs up to 18 (those Apache Hudi 0.15.0 runs on) write them. For a few other values
those JDKs write one digit more than needed (JDK-4511638), JDK 19 and newer and this module don't: none
between 1e-3 and 1e7 with up to 15 significant digits, so no price or measurement.
"""

from __future__ import annotations

import math
from decimal import Decimal, DecimalTuple
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Array, Column, array, pc


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
