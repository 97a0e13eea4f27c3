"""Arrow rows as JSON objects, a text a row, column by column.

Values are those of Avro's JSON-like texts where JSON has no type for them: dates are days since 1970-01-01,
times and timestamps numbers in the column's unit. Decimals are numbers, bytes Base64, and floats that are
no numbers the texts NaN, Infinity and -Infinity. Columns that are null are there as null.
"""

from __future__ import annotations

import binascii
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.errors import InputError

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

_CONTROL = "[\\x00-\\x1f]"
_NULL = "null"


def json_objects(rows: pa.Table | pa.RecordBatch) -> pa.Array[Any]:
    """A JSON object for every row, with the columns in their order; text. Rows have less than 2 GiB of JSON.

    Raises InputError for a column of a type that no table has.
    """
    columns: list[Any] = [
        column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in rows.columns
    ]
    made: pa.Array[Any] = _object(rows.schema.names, columns, rows.num_rows)
    return made


def _object(names: list[str], columns: list[Any], count: int) -> Any:
    pieces: list[Any] = []
    for name, column in zip(names, columns, strict=True):
        pieces += [f"{', ' if pieces else ''}{json.dumps(name, ensure_ascii=False)}: ", _values(column)]
    if not pieces:
        return pa.array(["{}"] * count, pa.string())
    return _joined("{", *pieces, "}")


def _joined(*pieces: Any) -> Any:
    return pc.binary_join_element_wise(*pieces, "")


def _values(column: Any) -> Any:
    """The JSON of each value, the text null for nulls."""
    return pc.fill_null(_present(column), _NULL)


def _present(column: Any) -> Any:
    """The JSON of each value; what stands for nulls does not matter."""
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return _quoted(column)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return column.cast(pa.string())
    if types.is_floating(kind):
        return _float(column)
    if types.is_date32(kind) or types.is_time32(kind):
        return column.cast(pa.int32()).cast(pa.string())
    if types.is_timestamp(kind) or types.is_time64(kind):
        return column.cast(pa.int64()).cast(pa.string())
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _joined('"', _base64(column), '"')
    if types.is_struct(kind):
        names = [kind.field(place).name for place in range(kind.num_fields)]
        return pc.if_else(column.is_valid(), _object(names, column.flatten(), len(column)), _NULL)
    if types.is_map(kind):
        entries = _joined(_values(column.keys), ": ", _values(column.items))
        return _listed(column, column.offsets, entries, "{}")
    if types.is_list(kind) or types.is_large_list(kind):
        return _listed(column, column.offsets, _values(column.values), "[]")
    raise InputError(f"a column of type {kind} has no JSON", type=str(kind))


def _listed(column: Any, offsets: Any, values: Any, brackets: str) -> Any:
    made = pa.LargeListArray if pa.types.is_int64(offsets.type) else pa.ListArray
    texts = pc.binary_join(made.from_arrays(offsets, values), ", ")
    return pc.if_else(column.is_valid(), _joined(brackets[0], texts, brackets[1]), _NULL)


def _quoted(texts: Any) -> Any:
    found = pc.replace_substring(texts, "\\", "\\\\")
    found = pc.replace_substring(found, '"', '\\"')
    if pc.any(pc.match_substring_regex(found, _CONTROL)).as_py():
        for code in range(32):
            found = pc.replace_substring(found, chr(code), json.dumps(chr(code))[1:-1])
    return _joined('"', found, '"').cast(pa.string())


def _float(column: Any) -> Any:
    """A number always has a point or an exponent, as Java writes it."""
    texts = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    infinite = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_finite(column), texts, pc.if_else(pc.is_nan(column), '"NaN"', infinite))


def _base64(column: Any) -> Any:
    """Each value padded to three bytes, all encoded at once, and the padding marked."""
    column = column.cast(pa.large_binary())
    bounds = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(bounds)
    padded = -(-lengths // 3) * 3
    starts = np.concatenate([[0], np.cumsum(padded)])
    content = np.zeros(starts[-1], np.uint8)
    if data := column.buffers()[2]:
        stored = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
        content[np.arange(len(stored)) + np.repeat(starts[:-1] - (bounds[:-1] - bounds[0]), lengths)] = stored
    texts = np.frombuffer(binascii.b2a_base64(content.tobytes(), newline=False), np.uint8).copy()
    ends = starts[1:] // 3 * 4
    for missing in (1, 2):
        texts[ends[padded - lengths >= missing] - missing] = ord("=")
    buffers = [None, pa.py_buffer((starts // 3 * 4).tobytes()), pa.py_buffer(texts.tobytes())]
    encoded = pa.Array.from_buffers(pa.large_string(), len(column), buffers).cast(pa.string())
    return pc.if_else(column.is_valid(), encoded, None)
