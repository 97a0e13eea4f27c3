"""Records of JSON text: an object a line, or arrays of objects, one a line or one that is the whole text.

Whole numbers beyond 64 bits are decimals where their column has whole numbers only, as in Spark; Arrow alone
would make them doubles.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.json

from hoodie.codec.arrays import pc, whole
from hoodie.format.schema import is_list
from hoodie.source.arrow_files import in_memory

#: whole numbers that may not fit 64 bits, and that a decimal can hold
_LONG = re.compile(rb"(?<![\w.+-])-?([1-9]\d{18,37})(?=\s*[,}\]\s])")
_BEYOND = float(1 << 63)
#: doubles below are all whole numbers that they were written as
_EXACT = float(1 << 53)
_BEYOND_ALL = float("inf")
#: the greatest float
_MOST = 3.4028235677973366e38
#: a number that a double or float may not hold
_NUMBER = rb"(-?(?:\d{16,}|\d+(?:\.\d+)?[eE]\+?\d+|\d{16,}\.\d+))(?=\s*[,}\]])"
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


class Leaf(NamedTuple):
    """Numbers with fractions, at any depth of a column: the name before them, and are they in an array.
    `exact`: a whole number has to be what was written. `held`: the values that may be others; None: not
    known.
    """

    name: str
    listed: bool
    kind: pa.DataType
    exact: bool
    held: frozenset[float] | None = None

    def lost(self, text: bytes) -> str | None:
        """The first number in the text of records that the type can't hold."""
        before = re.escape(json.dumps(self.name, ensure_ascii=False).encode()) + rb"\s*:\s*"
        if not self.listed:
            return next(
                (found[1].decode() for found in re.finditer(before + _NUMBER, text) if self._is(found[1])),
                None,
            )
        for array in re.finditer(before + rb"(\[[\[\]\d\s,.eE+\-nul]*)", text):
            for found in re.finditer(rb"(?<![\w.+-])" + _NUMBER, array[1]):
                if self._is(found[1]):
                    return found[1].decode()
        return None

    def _is(self, number: bytes) -> bool:
        value = float(number)
        if self.held is not None and value not in self.held and self.kind != pa.float32():
            return False
        if abs(value) > (_MOST if self.kind == pa.float32() else sys.float_info.max):
            return True
        return self.exact and number.lstrip(b"-").isdigit() and int(value) != int(number)


def leaves(name: str, kind: Any, exact: bool, listed: bool = False) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """Of a column, each with the names of the structs' fields and "" for arrays on the way to it."""
    if pa.types.is_struct(kind):
        for field in kind:
            for path, leaf in leaves(field.name, field.type, exact):
                yield (field.name, *path), leaf
    elif is_list(kind):
        for path, leaf in leaves(name, kind.value_type, exact, listed=True):
            yield ("", *path), leaf
    elif kind in (pa.float32(), pa.float64()):
        yield (), Leaf(name, listed, kind, exact)


def check_not_rounded(rows: pa.Table, text: bytes, known: Collection[str]) -> None:
    """Raises ArrowInvalid for a number that is another one in its column: a whole number that a double can't
    be, in a column that others made double, and one that is beyond the type; `known`: columns whose type is
    given.
    """
    for field in rows.schema:
        for path, leaf in leaves(field.name, field.type, field.name not in known):
            values: Any = rows.column(field.name)
            for name in path:
                values = pc.struct_field(values, name) if name else pc.list_flatten(values)
            if not _is_wide(values, leaf.kind, _EXACT if leaf.exact else _BEYOND_ALL):
                continue
            wide = pc.filter(values, pc.greater_equal(pc.abs(values), _EXACT))
            if lost := leaf._replace(held=frozenset(pc.unique(wide).to_pylist())).lost(text):
                raise pa.ArrowInvalid(lost_number(field.name, leaf, lost))


def lost_number(column: str, leaf: Leaf, number: str) -> str:
    """What is said of a number that a leaf of the column can't hold."""
    if not leaf.exact or not number.lstrip("-").isdigit():
        return f"column {column} has {number}, which its type {leaf.kind} can't hold; correct the number"
    return (
        f"column {column} has {number} beside numbers with fractions, whose type can't hold it; give the "
        "table the column as decimal, or write these numbers as texts"
    )


def _read(text: bytes, schema: pa.Schema | None) -> pa.Table:
    if not is_array(text):
        return _parsed(text, schema, None, False)
    text = text.removeprefix(b"\xef\xbb\xbf")
    lines = [text] if is_one_array(text) else [line for line in text.split(b"\n") if line.strip()]
    if not pc.all(pc.match_substring_regex(pa.array(lines, pa.binary()), r"(?s)^\s*\[.*\]\s*$")).as_py():
        raise pa.ArrowInvalid("the text begins with an array, and a line is none")
    wrapped = b'{"%s":' % _ROWS.encode() + (b'}\n{"%s":' % _ROWS.encode()).join(lines) + b"}\n"
    kind = None if schema is None else pa.schema([(_ROWS, pa.list_(pa.struct([*schema])))])
    whole_text = pa.json.ReadOptions(use_threads=False, block_size=len(wrapped) + 1)
    found = _parsed(wrapped, kind, whole_text, True)
    if found.num_rows != len(lines) or found.column_names != [_ROWS]:
        raise pa.ArrowInvalid("a line is not one array")
    lists: Any = whole(found.column(_ROWS))
    items = lists.flatten()
    if not len(items):
        return (schema or pa.schema([])).empty_table()
    if not pa.types.is_struct(items.type) or items.null_count:
        raise pa.ArrowInvalid("an array holds what is no object")
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(items)])


def _parsed(
    text: bytes, schema: pa.Schema | None, how: pa.json.ReadOptions | None, newlines: bool
) -> pa.Table:
    """Arrow infers an array wrongly that begins with a null, and reads it rightly where its type is given."""
    given = pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=newlines)
    found = pa.json.read_json(in_memory(text), how, given)
    try:
        found.validate()
    except pa.ArrowInvalid:
        given = pa.json.ParseOptions(explicit_schema=found.schema, newlines_in_values=newlines)
        found = pa.json.read_json(in_memory(text), how, given)
        found.validate()
    return found


def _whole_type(values: Any, dtype: Any) -> Any:
    """The type, in which doubles are null that may be whole numbers beyond 64 bits."""
    if pa.types.is_struct(dtype):
        inside = ((field, _whole_type(pc.struct_field(values, field.name), field.type)) for field in dtype)
        return pa.struct([field.with_type(kind) for field, kind in inside])
    if pa.types.is_list(dtype):
        return pa.list_(dtype.value_field.with_type(_whole_type(pc.list_flatten(values), dtype.value_type)))
    return pa.null() if pa.types.is_float64(dtype) and _is_wide(values, dtype, _BEYOND) else dtype


def _is_wide(values: Any, dtype: Any, least: float) -> bool:
    """Are there numbers with fractions of that size."""
    if dtype not in (pa.float32(), pa.float64()):
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
