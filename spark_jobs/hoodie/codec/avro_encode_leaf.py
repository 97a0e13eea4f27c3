"""Avro values without parts, written for many rows at once out of Arrow arrays.

Avro 1.11 specification, "Binary Encoding" and "Logical Types".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.avro_cursor import Bools, Longs, Values
from hoodie.codec.avro_sink import WORD, Sink
from hoodie.codec.avro_types import Leaf
from hoodie.errors import InputError, SchemaError

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

_DECIMAL_BYTES = 16


def write_leaf(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    """Put the value of every row, nothing where not `valid`. Errors as of `avro_encode.write`."""
    _WRITERS[node.kind](node, _conformed(values, node.dtype, path), sink, valid, path)


def offsets_of(values: Values) -> npt.NDArray[np.int32]:
    """The len + 1 bounds of a binary array of at least one value, in its data."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)


def mismatch(source: Any, wanted: str, path: str) -> SchemaError:
    return SchemaError(
        f"column {path} has type {source} where the schema has {wanted}; cast the column", column=path
    )


def _conformed(values: Values, dtype: Any, path: str) -> Values:
    """Values in another layout, or narrower, as `dtype`, texts as pa.binary(); nothing is lost."""
    source = values.type
    target = pa.binary() if dtype == pa.string() else dtype
    if source != dtype and not _fits(source, dtype):
        raise mismatch(source, str(dtype), path)
    if source == target:
        return values
    if pa.types.is_string(source):  # a cast would copy the offsets of a slice
        return pa.Array.from_buffers(target, len(values), values.buffers(), values.null_count, values.offset)
    try:
        return values.cast(target)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {path}: a value of type {source} does not fit the schema's {dtype} ({error}); correct "
            "the value or cast the column",
            column=path,
        ) from None


def _fits(source: Any, dtype: Any) -> bool:
    types = pa.types
    if types.is_null(source):
        return True
    if dtype == pa.string():
        return types.is_string(source) or types.is_large_string(source) or types.is_string_view(source)
    if dtype == pa.binary():
        layouts = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
        return any(check(source) for check in layouts)
    if types.is_timestamp(dtype):
        return types.is_timestamp(source) and (source.tz is None) == (dtype.tz is None)
    checks = (types.is_integer, types.is_decimal, types.is_time)
    return any(check(source) and check(dtype) for check in checks)


# --- writers, one for each of Avro's types ----------------------------------------------------------------


def _numbers(values: Values, dtype: Any) -> npt.NDArray[Any]:
    size = np.dtype(dtype).itemsize
    if not len(values):
        return np.empty(0, dtype)
    return np.frombuffer(values.buffers()[1], dtype, len(values), values.offset * size)


def _boolean(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    sink.word(_numbers(values.cast(pa.uint8()), np.uint8).astype(np.uint64), 1, 1, valid)


def _int(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    sink.long(_numbers(values, np.int32).astype(np.int64), valid)


def _long(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    sink.long(_numbers(values, np.int64), valid)


def _float(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    sink.word(_numbers(values, np.uint32).astype(np.uint64), 4, 4, valid)


def _double(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    sink.word(_numbers(values, np.uint64), 8, 8, valid)


def _enum(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    numbers = pc.index_in(values, pa.array(node.symbols, pa.string()).cast(pa.binary()))
    unknown = pc.and_(numbers.is_null(), values.is_valid())
    if pc.any(unknown).as_py():
        text = values.filter(unknown)[0].as_py().decode()
        raise InputError(
            f"column {path}: {text!r} is none of the symbols {', '.join(node.symbols)}; correct the value",
            column=path,
        )
    sink.long(numbers.fill_null(0).to_numpy().astype(np.int64), valid)


def _text(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    if pa.types.is_decimal(node.dtype):
        _decimal_bytes(values, sink, valid)
        return
    lengths = _lengths(values, valid)
    sink.long(lengths, valid)
    sink.array(values, lengths)


def _lengths(values: Values, valid: Bools | None) -> Longs:
    """Bytes of each text, 0 for nulls."""
    if not len(values):
        return np.empty(0, np.int64)
    lengths = np.diff(offsets_of(values)).astype(np.int64)
    if valid is not None:
        lengths[~valid] = 0
    return lengths


def _fixed(node: Leaf, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    if pa.types.is_decimal(node.dtype):
        _decimal_fixed(node.size, values, sink, valid, path)
        return
    lengths = _lengths(values, valid)
    wrong = lengths != node.size if valid is None else valid & (lengths != node.size)
    if wrong.any():
        raise InputError(
            f"column {path}: a value has {lengths[np.argmax(wrong)]} bytes where the schema's fixed type has "
            f"{node.size}; correct the value",
            column=path,
        )
    sink.array(values, lengths)


def _halves(values: Values, valid: Bools | None) -> tuple[Longs, Longs]:
    """(low, high) 64 bits of decimals, 0 for nulls."""
    if not len(values):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    both = np.frombuffer(values.buffers()[1], np.int64, 2 * len(values), values.offset * _DECIMAL_BYTES)
    low, high = both[0::2], both[1::2]
    return (low, high) if valid is None else (np.where(valid, low, 0), np.where(valid, high, 0))


def _leading(value: Longs, size: Longs | int) -> npt.NDArray[np.uint64]:
    """The lowest `size` (1 to 8) bytes of each number, big-endian, as a word."""
    spare: Any = 64 - 8 * size
    shift = np.uint64(spare) if isinstance(spare, int) else spare.view(np.uint64)
    return (value.view(np.uint64) << shift).byteswap()


def _decimal_fixed(size: int, values: Values, sink: Sink, valid: Bools | None, path: str) -> None:
    low, high = _halves(values, valid)
    if size <= WORD:
        top, spare, bad = low, 64 - 8 * size, high != low >> 63
    else:
        top, spare, bad = high, max(0, 128 - 8 * size), np.zeros(high.size, np.bool_)
    if (bad | ((top << spare) >> spare != top)).any():
        raise InputError(
            f"column {path}: a decimal needs more than the {size} bytes of the schema's fixed type",
            column=path,
        )
    for filled in range(0, size - _DECIMAL_BYTES, WORD):
        part = min(WORD, size - _DECIMAL_BYTES - filled)
        sink.word(_leading(high >> 63, part), part, part, valid)
    if size > WORD:
        part = min(WORD, size - WORD)
        sink.word(_leading(high, part), part, part, valid)
    part = min(WORD, size)
    sink.word(_leading(low, part), part, part, valid)


def _decimal_bytes(values: Values, sink: Sink, valid: Bools | None) -> None:
    """Two's complement in as few bytes as hold the number and its sign."""
    low, high = _halves(values, valid)
    wide = high != low >> 63
    top = np.where(wide, high, low)
    magnitude = top ^ (top >> 63)
    size = np.ones(top.size, np.int64)
    for more in range(1, WORD):
        size += magnitude >= 1 << (8 * more - 1)
    sink.long(size + WORD * wide, valid)
    if wide.any():
        sink.word(np.where(wide, _leading(high, size), np.uint64(0)), np.where(wide, size, 0), WORD, valid)
    size = np.where(wide, WORD, size)
    sink.word(_leading(low, size), size, WORD, valid)


_WRITERS: dict[str, Callable[[Leaf, Values, Sink, Bools | None, str], None]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _double,
    "string": _text,
    "bytes": _text,
    "fixed": _fixed,
    "enum": _enum,
}
