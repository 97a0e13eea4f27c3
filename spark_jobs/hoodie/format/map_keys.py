"""Keys of maps: a format such as Parquet can hold one twice in a map, and what reads maps can't show that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, whole
from hoodie.engine.required import contains
from hoodie.errors import InputError

#: keys of a map that are compared with one another; more are sorted
_FEW = 16


def check_maps(rows: pa.Table, keys: Any) -> None:
    """Raises InputError where a map in a column, at any depth, has a key twice. `keys`: the record keys."""
    for field in rows.schema:
        if not has_map(field.type):
            continue
        column = whole(rows.column(field.name))
        if not _twice(column):
            continue
        first, size = 0, len(column)
        while size > 1:
            half = size // 2
            first, size = (first, half) if _twice(column.slice(first, half)) else (first + half, size - half)
        raise InputError(
            f"column {field.name}: a map of the record {keys[first].as_py()!r} has a key more than once "
            f"({str(column.slice(first, 1).to_pylist(maps_as_pydicts=None)[0])[:200]}); keep one",
            column=field.name,
        )


def has_map(dtype: Any) -> bool:
    """Is a type a map, or has it one at any depth."""
    return contains(dtype, pa.types.is_map)


def _twice(values: Any) -> bool:
    """Has a map of an array, at any depth, a key twice."""
    dtype = values.type
    if not has_map(dtype):
        return False
    if pa.types.is_struct(dtype):
        return any(_twice(values.field(n)) for n in range(dtype.num_fields))
    if not pa.types.is_map(dtype):
        return _twice(values.flatten())
    offsets = values.offsets.to_numpy()
    start, sizes = int(offsets[0]), np.diff(offsets)
    length = int(offsets[-1]) - start
    if has_map(dtype.item_type) and _twice(values.items.slice(start, length)):
        return True
    if not len(sizes) or sizes.max() < 2:
        return False
    coded = values.keys.slice(start, length).dictionary_encode()
    codes = coded.indices.to_numpy()
    row = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    if sizes.max() <= _FEW:
        steps = range(1, int(sizes.max()))
        return any(((codes[n:] == codes[:-n]) & (row[n:] == row[:-n])).any() for n in steps)
    places = np.sort(row.astype(np.int64) * len(coded.dictionary) + codes)
    same: Bools = places[1:] == places[:-1]
    return bool(same.any())
