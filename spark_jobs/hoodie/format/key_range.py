"""The range of a base file's record keys, in the order of Java's ``String.compareTo``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.codec.hashing import Keys, binary_views, key_array
from hoodie.errors import InputError
from hoodie.format.bloom import BoolArray

# names of footer entries
MIN_KEY_KEY = "hoodie_min_record_key"
MAX_KEY_KEY = "hoodie_max_record_key"


def key_range(keys: Keys) -> tuple[str, str]:
    """Return the least and the greatest key as Java's ``String.compareTo`` orders them.

    Raises InputError for no keys, null or empty keys and for types other than string and binary (UTF-8).
    """
    array = key_array(keys)
    if not len(array):
        raise InputError("no record keys, so no range; ask for one only where there are rows")
    supplementary = _has_supplementary(array)
    extremes = pc.min_max(_in_utf16_order(array) if supplementary else array)
    values = (extremes["min"].as_py(), extremes["max"].as_py())
    texts = [value.encode() if isinstance(value, str) else value for value in values]
    low, high = (text.translate(_FROM_UTF16_ORDER) if supplementary else text for text in texts)
    return low.decode(), high.decode()


def in_range(keys: Keys, low: str | None, high: str | None) -> BoolArray:
    """Return per key whether ``low <= key <= high``; None is no bound.

    The order is Java's ``String.compareTo``. Where UTF-8 byte order differs from it (supplementary characters
    among keys or bounds), a key within either range counts: Hudi's row writer takes the footer's range in
    byte order, and the answer must not exclude a key that the file has. Raises InputError for null or empty
    keys and for types other than string and binary.
    """
    array = key_array(keys)
    bounds = [None if bound is None else bound.encode() for bound in (low, high)]
    mask = _between(array, bounds[0], bounds[1])
    if _has_supplementary(array) or any(bound and max(bound) >= _SUPPLEMENTARY for bound in bounds):
        bounds = [None if bound is None else bound.translate(_TO_UTF16_ORDER) for bound in bounds]
        mask |= _between(_in_utf16_order(array), bounds[0], bounds[1])
    return mask


# UTF-8 byte order is code point order; UTF-16 order has U+E000..U+FFFF (lead bytes EE, EF) above the
# supplementary characters (F0..F4). Moving those two lead bytes to the top makes byte order the wanted one.
_SUPPLEMENTARY = 0xF0
_TO_UTF16_ORDER = bytes.maketrans(b"\xee\xef", b"\xfe\xff")
_FROM_UTF16_ORDER = bytes.maketrans(b"\xfe\xff", b"\xee\xef")


def java_min(one: str, other: str) -> str:
    """Return the lesser text in the order of Java's ``String.compareTo``."""
    return min(one, other, key=_java_order)


def java_max(one: str, other: str) -> str:
    """Return the greater text in the order of Java's ``String.compareTo``."""
    return max(one, other, key=_java_order)


def _java_order(text: str) -> bytes:
    return text.encode().translate(_TO_UTF16_ORDER)


def _between(array: pa.Array[Any], low: bytes | None, high: bytes | None) -> BoolArray:
    mask = np.ones(len(array), np.bool_)
    for bound, compare in ((low, pc.greater_equal), (high, pc.less_equal)):
        if bound is not None:
            mask &= compare(array, pa.scalar(bound, array.type)).to_numpy(zero_copy_only=False)
    return mask


def _has_supplementary(array: pa.Array[Any]) -> bool:
    data, offsets = binary_views(array)
    return bool(data[offsets[0] : offsets[-1]].max(initial=0) >= _SUPPLEMENTARY)


def _in_utf16_order(array: pa.Array[Any]) -> pa.Array[Any]:
    """Return the keys as binary values whose byte order is the UTF-16 order of the keys."""
    data, offsets = binary_views(array)
    translated = np.frombuffer(_TO_UTF16_ORDER, np.uint8)[data]
    kind = pa.binary() if offsets.dtype == np.int32 else pa.large_binary()
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(translated.data)]
    return pa.Array.from_buffers(kind, len(array), buffers)
