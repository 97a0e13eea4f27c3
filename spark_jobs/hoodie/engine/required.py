"""Required fields below nullable values, and questions about Arrow types at any depth.

A required field has no value if the value above it is null. An Arrow array may have a null there: arrays
from Parquet or from Spark's rows do. Arrow's Parquet writer refuses every null of a required field.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.errors import InputError

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def null_error(path: str) -> InputError:
    """Of a required column or field that has no value in some rows."""
    return InputError(
        f"column {path} is null in some rows, but the table's schema requires a value; fill the column",
        column=path,
    )


def loosened(schema: pa.Schema) -> pa.Schema:
    """The columns, of which any may be null at any depth, as in Spark's schemas of files."""
    return pa.schema([_loose(field) for field in schema])


def _loose(field: pa.Field[Any]) -> pa.Field[Any]:
    return pa.field(field.name, _loose_type(field.type))


def _loose_type(dtype: Any) -> pa.DataType:
    if pa.types.is_map(dtype):
        value: Any = _loose(dtype.item_field)  # the stubs know types only
        return cast(pa.DataType, pa.map_(dtype.key_type, value))
    if pa.types.is_struct(dtype):
        return pa.struct([_loose(field) for field in dtype])
    return pa.list_(_loose(dtype.value_field)) if pa.types.is_list(dtype) else dtype


def settled(rows: Rows) -> Rows:
    """The rows, where required fields below nulls have some value, which nobody sees.

    Raises InputError for a required field that is null below a value that is there.
    """
    if not any(_has_required(field.type) for field in rows.schema):
        return rows
    columns: list[Any] = [_column(rows.column(place), field) for place, field in enumerate(rows.schema)]
    return type(rows).from_arrays(columns, schema=rows.schema)


def _column(column: Any, field: pa.Field[Any]) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return _settled(column, field.name, None)
    return pa.chunked_array([_settled(chunk, field.name, None) for chunk in column.chunks], field.type)


@functools.lru_cache(maxsize=1024)
def _has_required(dtype: pa.DataType) -> bool:
    """Is there a required field below that has a nullable value above? Keys of maps always have one."""
    return any(
        _has_required(field.type) or not (field.nullable or pa.types.is_map(dtype)) for field in _inner(dtype)
    )


def _inner(dtype: Any) -> list[pa.Field[Any]]:
    if pa.types.is_map(dtype):
        return [dtype.item_field]
    if pa.types.is_struct(dtype):
        return list(dtype)
    return [dtype.value_field] if pa.types.is_list(dtype) else []


def _settled(values: Any, path: str, above: Any) -> Any:
    """An array; `above` says of each row whether a value further up is null, None: of no row."""
    dtype = values.type
    if not _has_required(dtype):
        return values
    gone = values.is_null() if values.null_count else None
    if above is not None:
        gone = above if gone is None else pc.or_(gone, above)
    if pa.types.is_struct(dtype):
        return _settled_struct(values, path, gone)
    return _settled_items(values, path, gone)


def _settled_struct(values: Any, path: str, gone: Any) -> Any:
    old = [values.field(place) for place in range(values.type.num_fields)]
    new = [
        _field(child, field, f"{path}.{field.name}", gone)
        for child, field in zip(old, values.type, strict=True)
    ]
    if all(one is other for one, other in zip(old, new, strict=True)):
        return values
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(new, fields=list(values.type), mask=mask)


def _settled_items(values: Any, path: str, gone: Any) -> Any:
    """A list or a map. Null lists have no items; others may be below a null."""
    dtype = values.type
    offsets = values.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    below = None if gone is None else pa.array(np.repeat(np.asarray(gone), np.diff(offsets)))
    held = values.items if pa.types.is_map(dtype) else values.values
    (field,) = _inner(dtype)
    items = held.slice(start, stop - start)
    new = _field(items, field, f"{path}.{'value' if pa.types.is_map(dtype) else 'element'}", below)
    if new is items:
        return values
    if pa.types.is_map(dtype):
        keys = values.keys.slice(start, stop - start)
        new = pa.StructArray.from_arrays([keys, new], fields=[dtype.key_field, dtype.item_field])
    valid = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [valid, pa.array(offsets - start, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(dtype, len(values), buffers, children=[new])


def _field(child: Any, field: pa.Field[Any], path: str, gone: Any) -> Any:
    """The values of an inner field, of whose rows those in `gone` have a null above."""
    if not field.nullable and child.null_count:
        nulls = child.is_null()
        if gone is None or pc.any(pc.and_not(nulls, gone)).as_py():
            raise null_error(path)
        places = pa.array(np.where(np.asarray(nulls), len(child), np.arange(len(child))))
        child = pa.concat_arrays([child, pa.array([_some(field.type)], field.type)]).take(places)
    return _settled(child, path, gone)


def _some(dtype: Any) -> Any:
    """A value of a type."""
    if pa.types.is_struct(dtype):
        return {field.name: _some(field.type) for field in dtype}
    if pa.types.is_nested(dtype):
        return []
    if pa.types.is_fixed_size_binary(dtype):
        return bytes(dtype.byte_width)
    if pa.types.is_boolean(dtype):
        return False
    return "" if pa.types.is_string(dtype) or pa.types.is_binary(dtype) else 0


def contains(dtype: Any, test: Callable[[Any], bool]) -> bool:
    """Whether the type, or one that is nested in it, passes the test."""
    return test(dtype) or any(contains(dtype.field(place).type, test) for place in range(dtype.num_fields))
