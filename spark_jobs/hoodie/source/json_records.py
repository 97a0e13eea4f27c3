"""Records of JSON text: an object a line, or arrays of objects, one a line or one that is the whole text.

Whole numbers beyond 64 bits are decimals where their column has whole numbers only, as in Spark; Arrow alone
would make them doubles.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.json

from hoodie.codec.arrays import pc, whole
from hoodie.source.arrow_files import in_memory

#: whole numbers that may not fit 64 bits, and that a decimal can hold
_LONG = re.compile(rb"(?<![\w.+-])-?([1-9]\d{18,37})(?=\s*[,}\]\s])")
_BEYOND = float(1 << 63)
#: doubles below are all whole numbers that they were written as
_EXACT = float(1 << 53)
_ROWS = "rows"


def is_array(text: bytes) -> bool:
    """Does the text begin with an array."""
    return text[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def is_one_array(text: bytes) -> bool:
    """Does the text begin with an array that does not end in its line."""
    return is_array(text) and not text.lstrip().partition(b"\n")[0].rstrip().endswith(b"]")


def inferred(text: bytes) -> pa.Table:
    """The records in the types that their values have."""
    found = _read(text, None)
    kinds = [_whole_type(column, column.type) for column in found.columns]
    if kinds == found.schema.types:
        return found
    digits = max((len(match[1]) for match in _LONG.finditer(text)), default=0)
    if not digits:
        return found
    schema = found.schema
    for place, kind in enumerate(kinds):
        if kind != schema.field(place).type:
            wanted = schema.set(place, schema.field(place).with_type(_changed(kind, digits)))
            with contextlib.suppress(pa.ArrowInvalid):  # some have fractions
                found, schema = read(text, wanted), wanted
    return found


def read(text: bytes, schema: pa.Schema) -> pa.Table:
    """The records in these types; columns that are not there have those that their values have."""
    return _read(text, schema)


def refuse_rounded(rows: pa.Table, text: bytes, known: Collection[str]) -> None:
    """Raises ArrowInvalid for a whole number that a double can't be, in a column that others made double;
    `known`: columns whose type is given.
    """
    for field in rows.schema:
        if field.name in known or not _is_wide(rows.column(field.name), field.type, _EXACT):
            continue
        name = re.escape(json.dumps(field.name, ensure_ascii=False).encode())
        for match in re.finditer(name + rb"\s*:\s*(-?\d{16,})(?=\s*[,}\]])", text):
            if int(float(match[1])) != int(match[1]):
                raise pa.ArrowInvalid(
                    f"column {field.name} has {match[1].decode()} beside numbers with fractions, whose type "
                    "can't hold it; give the table the column as decimal, or write these numbers as texts"
                )


def _read(text: bytes, schema: pa.Schema | None) -> pa.Table:
    if not is_array(text):
        options = pa.json.ParseOptions(explicit_schema=schema)
        return pa.json.read_json(in_memory(text), parse_options=options)
    text = text.removeprefix(b"\xef\xbb\xbf")
    lines = [text] if is_one_array(text) else [line for line in text.split(b"\n") if line.strip()]
    if not pc.all(pc.match_substring_regex(pa.array(lines, pa.binary()), r"(?s)^\s*\[.*\]\s*$")).as_py():
        raise pa.ArrowInvalid("the text begins with an array, and a line is none")
    wrapped = b'{"%s":' % _ROWS.encode() + (b'}\n{"%s":' % _ROWS.encode()).join(lines) + b"}\n"
    kind = None if schema is None else pa.schema([(_ROWS, pa.list_(pa.struct([*schema])))])
    found = pa.json.read_json(
        in_memory(wrapped),
        pa.json.ReadOptions(use_threads=False, block_size=len(wrapped) + 1),
        pa.json.ParseOptions(explicit_schema=kind, newlines_in_values=True),
    )
    if found.num_rows != len(lines) or found.column_names != [_ROWS]:
        raise pa.ArrowInvalid("a line is not one array")
    lists: Any = whole(found.column(_ROWS))
    items = lists.flatten()
    if not len(items):
        return (schema or pa.schema([])).empty_table()
    if not pa.types.is_struct(items.type) or items.null_count:
        raise pa.ArrowInvalid("an array holds what is no object")
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(items)])


def _whole_type(values: Any, dtype: Any) -> Any:
    """The type, in which doubles are null that may be whole numbers beyond 64 bits."""
    if pa.types.is_struct(dtype):
        inside = ((field, _whole_type(pc.struct_field(values, field.name), field.type)) for field in dtype)
        return pa.struct([field.with_type(kind) for field, kind in inside])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_whole_type(pc.list_flatten(values), dtype.value_type)))
    return pa.null() if _is_wide(values, dtype, _BEYOND) else dtype


def _is_wide(values: Any, dtype: Any, least: float) -> bool:
    """Are there doubles of that size."""
    if not pa.types.is_float64(dtype):
        return False
    ends = pc.min_max(values)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return bool(high is not None and max(-low, high) >= least)


def _changed(dtype: Any, digits: int) -> Any:
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_changed(field.type, digits)) for field in dtype])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_changed(dtype.value_type, digits)))
    return pa.decimal128(digits, 0) if pa.types.is_null(dtype) else dtype
