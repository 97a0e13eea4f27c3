"""Arrow arrays -> Avro binary: the same value of many rows at once.

`write` puts one value of every row into a `Sink`. Lists are encoded over all their items at once: the items
of one list lie side by side, so the lists' bytes are the items' with fewer bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.avro_cursor import Bools, Longs, Values
from hoodie.codec.avro_encode_leaf import mismatch, offsets_of, write_leaf
from hoodie.codec.avro_sink import Sink, binary_of
from hoodie.codec.avro_types import Array, Leaf, Map, Node, Record, Union, branch_names, is_list, is_null
from hoodie.errors import InputError, SchemaError

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


def write(node: Node, values: Values, sink: Sink, path: str) -> None:
    """Put one value a row; `path` names the column in errors.

    Raises InputError for a null or a value that the schema does not allow, SchemaError for other types.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()  # first of all: a dictionary may hold the null
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
