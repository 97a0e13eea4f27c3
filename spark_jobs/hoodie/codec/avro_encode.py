"""Arrow arrays -> Avro binary: the same value of many rows at once (Avro 1.11 specification, "Binary
Encoding" and "Logical Types").

`write` puts one value of every row into a `Sink`. Values without parts are written out of Arrow arrays.
Lists are encoded over all their items at once: the items of one list are adjacent, so the bytes of the lists
are those of the items with fewer bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrays import decoded
from hoodie.codec.avro_cursor import Bools, Longs, Values
from hoodie.codec.avro_sink import WORD, Sink, binary_of
from hoodie.codec.avro_types import Array, Leaf, Map, Node, Record, Union, branch_names, is_list, is_null
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


def write(node: Node, values: Values, sink: Sink, path: str) -> None:
    """Put one value a row; `path` names the column in errors.

    Raises InputError for a null or a value that the schema does not allow, SchemaError for other types.
    """
    if pa.types.is_dictionary(values.type):
        values = decoded(values)  # first of all: a dictionary may hold the null
    if isinstance(node, Union):
        _write_union(node, values, sink, path)
    elif is_null(node):
        _check_nothing(values, path)
    elif values.null_count:
        raise _null_error(path)
    else:
        _write_value(node, values, sink, path)


def _encoded(node: Node, values: Values, path: str) -> Values:
    """Each value's bytes."""
    sink = Sink(len(values))
    write(node, values, sink, path)
    return sink.finish()


def _write_value(node: Node, values: Values, sink: Sink, path: str) -> None:
    if isinstance(node, Leaf):
        write_leaf(node, values, sink, None, path)
    elif isinstance(node, Record):
        _write_record(node, values, sink, path)
    elif isinstance(node, Array):
        if not is_list(values.type):
            raise mismatch(values.type, "an array", path)
        lengths = pc.list_value_length(values).to_numpy().astype(np.int64)
        _write_items(lengths, _encoded(node.item, values.flatten(), f"{path}.element"), sink)
    elif isinstance(node, Map):
        _write_map(node, values, sink, path)


def _write_union(node: Union, values: Values, sink: Sink, path: str) -> None:
    if not node.values:
        _check_nothing(values, path)
        sink.word(0, 1, 1)
        return
    if len(node.values) > 1:
        _write_one_of(node, values, sink, path)
        return
    inner = node.values[0]
    branch = 0 if node.null == 1 or node.null is None else 1
    if not values.null_count and not pa.types.is_null(values.type):
        sink.word(2 * branch, 1, 1)
        _write_value(inner, values, sink, path)
        return
    if node.null is None:
        raise _null_error(path)
    valid: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    sink.word(np.where(valid, np.uint64(2 * branch), np.uint64(2 * node.null)), 1, 1)
    if not valid.any():
        return
    if isinstance(inner, Leaf):
        write_leaf(inner, values, sink, valid, path)
    else:
        some = _encoded(inner, values.filter(pa.array(valid)), path)
        every = some.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
        sink.array(every, pc.binary_length(every).fill_null(0).to_numpy().astype(np.int64))


def _write_one_of(node: Union, values: Values, sink: Sink, path: str) -> None:
    """Of a struct with the value in the field of its branch; see `avro_types.arrow_field`."""
    if not (pa.types.is_struct(values.type) or pa.types.is_null(values.type)):
        raise SchemaError(
            f"column {path!r} has Avro type {node.text}: other values than structs of its types are written "
            "to unions of null and one type only",
            column=path,
        )
    numbers = [number for number in range(len(node.branches)) if number != node.null]
    chosen: Longs = np.full(len(values), -1, np.int64)
    places: Longs = np.full(len(values), -1, np.int64)
    parts, count = [], 0
    for number, name in zip(numbers, branch_names(node), strict=True):
        index = -1 if pa.types.is_null(values.type) else values.type.get_field_index(name)
        if index < 0:
            continue
        child = values.field(index)
        if child.null_count == len(child):
            continue
        there: Bools = pc.and_(values.is_valid(), child.is_valid()).to_numpy(zero_copy_only=False)
        if (chosen[there] >= 0).any():
            raise InputError(f"column {path} has a value in several types of its union", column=path)
        if there.any():
            parts.append(_encoded(node.branches[number], child.filter(pa.array(there)), f"{path}.{name}"))
            chosen[there] = number
            places[there] = count + np.arange(int(there.sum()))
            count += len(parts[-1])
    absent: Bools = chosen < 0
    if node.null is None and absent.any():
        raise _null_error(path)
    sink.word(np.where(absent, node.null or 0, chosen).astype(np.uint64) * np.uint64(2), 1, 1)
    if parts:
        every = pa.concat_arrays(parts).take(pa.array(places, mask=absent))
        sink.array(every, pc.binary_length(every).fill_null(0).to_numpy().astype(np.int64))


def _write_record(node: Record, values: Values, sink: Sink, path: str) -> None:
    if not pa.types.is_struct(values.type):
        raise mismatch(values.type, "a record", path)
    for field in node.fields:
        index = values.type.get_field_index(field.name)
        if index < 0:
            raise SchemaError(
                f"column {path}: the struct has no field {field.name}, or it has several", column=path
            )
        write(field.type, values.field(index), sink, f"{path}.{field.name}")


def _write_map(node: Map, values: Values, sink: Sink, path: str) -> None:
    if not pa.types.is_map(values.type):
        raise mismatch(values.type, "a map", path)
    bounds = values.offsets.to_numpy().astype(np.int64)
    start, count = int(bounds[0]), int(bounds[-1] - bounds[0])
    entries = Sink(count)
    write(node.entry.fields[0].type, values.keys.slice(start, count), entries, f"{path}.key")
    write(node.value, values.items.slice(start, count), entries, f"{path}.value")
    _write_items(np.diff(bounds), entries.finish(), sink)


def _write_items(lengths: Longs, items: Values, sink: Sink) -> None:
    """Arrays or maps as one block each: how many items, the items, and 0 for the end."""
    if len(items):
        sink.long(lengths, lengths > 0)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        bounds = offsets_of(items)[ends]
        sink.array(binary_of(lengths.size, bounds, items.buffers()[2]), np.diff(bounds).astype(np.int64))
    sink.word(0, 1, 1)


def _null_error(path: str) -> InputError:
    return InputError(
        f"column {path} is null in some rows, but the schema requires a value; fill the column", column=path
    )


def _check_nothing(values: Values, path: str) -> None:
    if values.null_count < len(values):
        raise InputError(f"column {path} has values, but the schema's type is null", column=path)
