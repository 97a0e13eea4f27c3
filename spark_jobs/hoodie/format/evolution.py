"""Schema evolution: which changes incoming rows may make, and rows converted to a schema.

- **Allowed** (spec section 1; Apache Hudi 0.15.0 AvroSchemaCompatibility, AvroSchemaEvolutionUtils): new
  columns and struct fields, which become nullable. Int widens to long, float, double, and each of these to
  string, also inside structs, arrays and maps. Narrower incoming columns are widened without loss.
- **Refused**: everything else. Case matters in names. Two names that differ in case only are refused.
- **Schema-on-read evolution** allows more changes of types (Apache Hudi 0.15.0 SchemaChangeUtils).
- **Values** change as in Hudi (HoodieAvroUtils.rewriteRecordWithNewSchema): numbers become Java's text. A
  float becomes the double with the same shortest text (0.1f -> 0.1). Decimal digits of numbers and texts are
  rounded half up to the new scale.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrays import decoded
from hoodie.engine.required import Rows, contains, null_error, settled
from hoodie.errors import InputError, SchemaError
from hoodie.format.meta_fields import without_meta
from hoodie.format.schema import array_of, is_list, map_of, normalized, stored_type, type_text
from hoodie.format.settings import NULL_FOR_MISSING

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: holds every number that a table's decimal may be made of, before it is rounded
_WIDEST = pa.decimal256(76, 38)


def changes(source: pa.DataType, target: pa.DataType) -> bool:
    """Is this one of the changes that `changed` knows."""
    if pa.types.is_decimal(target):
        numbers = pa.types.is_integer(source) or pa.types.is_floating(source)
        return numbers or pa.types.is_string(source) or pa.types.is_decimal(source)
    if target == pa.string():
        return pa.types.is_decimal(source) or pa.types.is_date32(source)
    return pa.types.is_string(source) and (target == pa.date32() or target == pa.binary())


def changed(values: Any, target: pa.DataType) -> Any:
    """Values of a source type that `changes`; floats are given as texts. ArrowInvalid where one can't be."""
    source = values.type
    if not pa.types.is_decimal(target) or pa.types.is_decimal(source):
        return values.cast(target)
    exact = values.cast(pa.string()).cast(_WIDEST)
    return pc.round(exact, ndigits=target.scale, round_mode="half_towards_infinity").cast(target)


class _How(enum.Enum):
    EXACT = "exact"
    READ = "read"
    CHANGED = "changed"


#: widening order; each also widens to string
_NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
#: chunks are halved down to this, so that layouts with 64-bit offsets fit the table's 32-bit ones
_MAX_CHUNK_BYTES = 2**31 - 1


def evolve(table: pa.Schema, incoming: pa.Schema, *, null_for_missing: bool) -> pa.Schema:
    """The table's next schema, without meta columns: the table's columns in their order, then new ones.

    A column of the table that `incoming` lacks is refused unless `null_for_missing`. Raises SchemaError that
    lists every difference that can't be taken, and what to do; InputError for columns no table can have.
    """
    problems: list[str] = []
    fields = _merge_fields(
        list(without_meta(table)), list(normalized(incoming)), "", null_for_missing, problems
    )
    if problems:
        raise SchemaError(
            "the input's schema can't become the table's: " + "; ".join(problems),
            problems="; ".join(problems),
        )
    return pa.schema(fields)


def check_texts(rows: Rows, names: Collection[str]) -> None:
    """Raises InputError where a text in one of these columns, at any depth, is no UTF-8."""
    for field in rows.schema:
        if field.name not in names or not _holds_texts(field.type):
            continue
        try:
            rows.column(field.name).validate(full=True)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"column {field.name}: {_what(rows.column(field.name), error)}; decode the texts with their "
                "own encoding, or pass the column as binary",
                column=field.name,
            ) from error


def _what(column: Any, error: Exception) -> str:
    """The value that is no UTF-8, and its place; of nested ones what Arrow says."""
    texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    for row, value in enumerate(column.cast(pa.large_binary()).to_pylist() if texts else ()):
        try:
            (value or b"").decode()
        except UnicodeDecodeError:
            return f"row {row} holds {value[:40]!r}, which is no UTF-8"
    return f"a value is no UTF-8 ({error})"


def _holds_texts(dtype: pa.DataType) -> bool:
    return contains(
        dtype,
        lambda kind: _holds_texts(kind.value_type) if pa.types.is_dictionary(kind) else _is_text(kind),
    )


def conform(rows: Rows, schema: pa.Schema, *, null_for_missing: bool = True) -> Rows:
    """Incoming rows in the columns, order and types of `schema`, value by value without loss.

    Columns outside `schema` are dropped, missing ones are null (or refused when not `null_for_missing`),
    dictionaries are decoded. Timestamps without zone are taken as UTC where the schema has a zone. Raises
    InputError that names column and value when a value does not fit or a required one is null; SchemaError
    when a type can't be widened to the schema's.
    """
    return settled(_convert_rows(rows, schema, null_for_missing, _How.EXACT))


def read_as(rows: Rows, schema: pa.Schema) -> Rows:
    """Rows of an older file in the table's present `schema`: absent columns null, narrower types widened.

    As `conform`, except that whole numbers beyond a float's precision are rounded, as Hudi's readers do.
    """
    return _convert_rows(rows, schema, True, _How.READ)


def read_changed(rows: Rows, schema: pa.Schema) -> Rows:
    """As `read_as`, of a column whose type was changed by schema-on-read evolution: numbers and texts also
    become decimals (rounded half up), decimals and dates texts, texts dates and binary values.
    """
    return _convert_rows(rows, schema, True, _How.CHANGED)


# --- schemas -------------------------------------------------------------------------------------------


def _merge_fields(
    table: list[pa.Field[Any]],
    incoming: list[pa.Field[Any]],
    prefix: str,
    null_for_missing: bool,
    problems: list[str],
) -> list[pa.Field[Any]]:
    given = {field.name: field for field in incoming}
    spelled = {field.name.lower(): field.name for field in table}
    merged: list[pa.Field[Any]] = []
    for field in table:
        other = given.pop(field.name, None)
        path = prefix + field.name
        if other is not None:
            dtype = _merge_type(field.type, other.type, path, null_for_missing, problems)
            merged.append(pa.field(field.name, dtype, field.nullable or other.nullable))
            continue
        if not null_for_missing:
            problems.append(
                f"column {path}: table {type_text(field.type)}, missing in the input (add it, or set "
                f"{NULL_FOR_MISSING.name}=true to write null)"
            )
        merged.append(field.with_nullable(True))
    for field in given.values():
        if field.name.lower() in spelled:
            problems.append(
                f"column {prefix}{field.name}: the table spells it {spelled[field.name.lower()]} "
                "(rename it to the table's spelling)"
            )
        merged.append(pa.field(field.name, stored_type(field.type), True))
    return merged


def _merge_type(
    table: pa.DataType, incoming: pa.DataType, path: str, null_for_missing: bool, problems: list[str]
) -> pa.DataType:
    if is_list(table) and is_list(incoming):
        item = _merge_type(
            table.value_type, incoming.value_type, f"{path}.element", null_for_missing, problems
        )
        return array_of(item, table.value_field.nullable or incoming.value_field.nullable)
    if pa.types.is_map(table) and pa.types.is_map(incoming):
        value = _merge_type(table.item_type, incoming.item_type, f"{path}.value", null_for_missing, problems)
        return map_of(value, table.item_field.nullable or incoming.item_field.nullable)
    if pa.types.is_struct(table) and pa.types.is_struct(incoming):
        return pa.struct(_merge_fields(list(table), list(incoming), f"{path}.", null_for_missing, problems))
    if _widens(incoming, table):
        return table
    if table in _NUMBERS and _widens(table, incoming):
        return incoming
    problems.append(
        f"column {path}: table {type_text(table)}, incoming {type_text(incoming)} (cast the column to "
        f"{type_text(table)}; a column may only widen int -> long -> float -> double -> string)"
    )
    return table


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """May values of normalized type `source` be stored as `target`?"""
    if source == target:
        return True
    if source in _NUMBERS:
        if target in _NUMBERS:
            return _NUMBERS.index(source) < _NUMBERS.index(target)
        return target == pa.string()
    if pa.types.is_decimal(source) and pa.types.is_decimal(target):
        whole: int = target.precision - target.scale
        return whole >= source.precision - source.scale and bool(target.scale >= source.scale)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        return target.tz is not None or source.tz is None
    return False


# --- rows ----------------------------------------------------------------------------------------------


def _convert_rows(rows: Rows, schema: pa.Schema, null_for_missing: bool, how: _How) -> Rows:
    places = {name: index for index, name in enumerate(rows.schema.names)}
    missing = [name for name in schema.names if name not in places]
    if missing and not null_for_missing:
        raise SchemaError(
            f"the rows lack columns {', '.join(missing)} of the table; add them, or set "
            f"{NULL_FOR_MISSING.name}=true to write null",
            columns=", ".join(missing),
        )
    columns: list[Any] = []
    for field in schema:
        if field.name in places:
            column: Any = rows.column(places[field.name])
            if column.type != field.type:
                column = _convert_column(column, field, how)
        else:
            column = pa.nulls(rows.num_rows, field.type)
        if not field.nullable and column.null_count:
            raise null_error(field.name)
        columns.append(column)
    return type(rows).from_arrays(columns, schema=schema.remove_metadata())


def _convert_column(column: Any, field: pa.Field[Any], how: _How) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return _convert(column, field.type, field.name, how)
    chunks = [
        _convert(part, field.type, field.name, how) for chunk in column.chunks for part in _bounded(chunk)
    ]
    return pa.chunked_array(chunks, field.type)


def _bounded(chunk: pa.Array[Any]) -> Iterator[pa.Array[Any]]:
    if chunk.nbytes <= _MAX_CHUNK_BYTES or len(chunk) < 2:
        yield chunk
        return
    half = len(chunk) // 2
    yield from _bounded(chunk.slice(0, half))
    yield from _bounded(chunk.slice(half))


def _convert(values: Any, target: pa.DataType, path: str, how: _How) -> Any:
    """One array as `target`; `path` names the column in errors."""
    source = values.type
    if source == target:
        return values
    if pa.types.is_dictionary(source):
        return _convert(decoded(values), target, path, how)
    if is_list(source) and is_list(target):
        return _convert_list(values, target, path, how)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _convert_map(values, target, path, how)
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return _convert_struct(values, target, path, how)
    if source == pa.float32() and target == pa.float64():
        return values.cast(pa.string()).cast(pa.float64())
    if pa.types.is_floating(source) and target == pa.string():
        return _java_text(values)
    if how is _How.CHANGED and changes(source, target):
        return _changed(values, target, path)
    if not _castable(source, target):
        raise SchemaError(
            f"column {path}: {type_text(source)} can't be widened to {type_text(target)}; cast it",
            column=path,
        )
    loose = how is not _How.EXACT and (pa.types.is_floating(target) or pa.types.is_timestamp(target))
    try:
        return values.cast(target, safe=not loose)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {path}: a value of type {type_text(source)} does not fit the table's "
            f"{type_text(target)} ({error}); correct the value or cast the column",
            column=path,
        ) from None


def _castable(source: pa.DataType, target: pa.DataType) -> bool:
    types = pa.types
    if types.is_null(source):
        return True
    if types.is_integer(source):
        return target in _NUMBERS or target == pa.string()
    if types.is_floating(source):
        return target == pa.float64() or (target == pa.float32() and types.is_float16(source))
    if types.is_timestamp(source) or types.is_decimal(source):
        return _widens(source, target)
    if types.is_date(source):
        return types.is_date(target)
    if target == pa.string():
        return _is_text(source) or types.is_binary(source)  # old files may lack the UTF8 annotation
    return target == pa.binary() and (
        types.is_large_binary(source) or types.is_binary_view(source) or types.is_fixed_size_binary(source)
    )


def _changed(values: Any, target: pa.DataType, path: str) -> Any:
    """Values as `changed` makes them. Raises InputError for one that can't be."""
    if pa.types.is_floating(values.type):
        values = _java_text(values)
    try:
        return changed(values, target)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"column {path}: a stored value can't become {type_text(target)} ({error}); change the column's "
            "type back, or correct the value, with Apache Hudi",
            column=path,
        ) from None


def _is_text(dtype: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)


def _convert_struct(values: Any, target: Any, path: str, how: _How) -> Any:
    places = {field.name: index for index, field in enumerate(values.type)}
    mask = values.is_null() if values.null_count else None
    children: list[Any] = []
    for field in target:
        inner = f"{path}.{field.name}"
        if field.name in places:
            child = _convert(values.field(places[field.name]), field.type, inner, how)
        else:
            child = pa.nulls(len(values), field.type)
        _check_inner(child, field, inner, mask)
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)


def _convert_list(values: Any, target: Any, path: str, how: _How) -> Any:
    # lengths and flatten() mean the same in every list layout; casts from list views give torn arrays (25.0)
    lengths = pc.list_value_length(values).fill_null(0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    items = _convert(values.flatten(), target.value_type, f"{path}.element", how)
    _check_inner(items, target.value_field, f"{path}.element", None)
    return _variable(target, values, offsets, items)


def _convert_map(values: Any, target: Any, path: str, how: _How) -> Any:
    offsets = values.offsets.to_numpy()
    start, stop = int(offsets[0]), int(offsets[-1])
    keys = _convert(values.keys.slice(start, stop - start), target.key_type, f"{path}.key", how)
    items = _convert(values.items.slice(start, stop - start), target.item_type, f"{path}.value", how)
    _check_inner(items, target.item_field, f"{path}.value", None)
    entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
    return _variable(target, values, offsets - start, entries)


def _variable(target: pa.DataType, values: Any, offsets: Any, child: Any) -> Any:
    """List or map array of `child` with the nulls of `values`."""
    valid = values.is_valid().buffers()[1] if values.null_count else None
    buffers = [valid, pa.array(offsets, pa.int32()).buffers()[1]]
    return pa.Array.from_buffers(target, len(values), buffers, children=[child])


def _check_inner(child: Any, field: pa.Field[Any], path: str, parent_null: Any) -> None:
    """A required inner value must not be null, except inside a struct that is null itself."""
    if field.nullable or not child.null_count:
        return
    nulls = child.is_null()
    if parent_null is not None:
        nulls = pc.and_(nulls, pc.invert(parent_null))
    if pc.any(nulls).as_py():
        raise null_error(path)


def _java_text(values: Any) -> Any:
    """Floating-point numbers as java.lang.Double.toString (Float.toString) writes them, shortest digits."""
    text = values.cast(pa.string())
    text = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    size = pc.abs(values.cast(pa.float64()))
    plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    odd = pc.invert(plain).fill_null(False)
    if not pc.any(odd).as_py():
        return text
    return pc.replace_with_mask(text, odd, _scientific(values.filter(odd)))


def _scientific(values: Any) -> Any:
    """Java's text of numbers below 1e-3, from 1e7 on, infinite or not a number; no nulls, no zeros."""
    short = values.cast(pa.string())
    pattern = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<rest>\d+))?(?:e(?P<power>[+-]\d+))?$"
    parts = pc.extract_regex(short, pattern)
    sign, whole, rest, power = (pc.struct_field(parts, index) for index in range(4))
    digits = pc.utf8_ltrim(pc.binary_join_element_wise(whole, rest, ""), "0")
    exponents = pc.if_else(pc.equal(power, ""), "0", pc.utf8_ltrim(power, "+")).cast(pa.int32())
    places = pc.subtract(pc.utf8_length(digits), pc.utf8_length(rest))  # of the point, from the first digit
    power = pc.subtract(pc.add(places, exponents), 1).cast(pa.string())
    digits = pc.utf8_rtrim(digits, "0")
    head, tail = pc.utf8_slice_codeunits(digits, 0, 1), pc.utf8_slice_codeunits(digits, 1)
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    text = pc.binary_join_element_wise(sign, head, ".", tail, "E", power, "")
    text = pc.if_else(pc.is_nan(values), "NaN", text)
    infinite = pc.if_else(pc.less(values, 0.0), "-Infinity", "Infinity")
    return pc.if_else(pc.is_inf(values), infinite, text)
