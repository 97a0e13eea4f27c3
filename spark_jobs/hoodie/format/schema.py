"""A table's schema: Arrow in memory, Avro JSON in commits and footers (format.md 6.2, 6.5).

A table column has one of the types boolean, int, long, float, double, decimal(p, s), string, binary, date,
timestamp (UTC), array, map with string keys, struct. `canonical` brings any incoming Arrow schema to these;
`to_avro` and `from_avro` translate without loss. Names of nested Avro types follow Apache Spark's
SchemaConverters as Apache Hudi 0.15.0 calls it (AvroSchemaUtils.getAvroRecordQualifiedName).

Timestamps without zone: 0.15.0 fails to read files that hold them and hudi-rs fails on their Avro type, so
new columns store them as timestamps whose UTC wall clock is the value (`stored_type`). A table that another
writer gave a local-timestamp column keeps it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hoodie.codec.avro_types import (
    PRIMITIVES,
    TIMESTAMP_LOGICAL_TYPES,
    Record,
    arrow_field,
    parse,
    parse_text,
    qualified_name,
)
from hoodie.codec.avro_types import array_of as array_of
from hoodie.codec.avro_types import is_list as is_list
from hoodie.codec.avro_types import map_of as map_of
from hoodie.errors import InputError
from hoodie.format.meta_fields import META_COLUMNS, check_reserved

_PRIMITIVE_NAMES = {dtype: name for name, dtype in PRIMITIVES.items()}

_WIDENED: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}

MAX_PRECISION = 38


def canonical(schema: pa.Schema) -> pa.Schema:
    """The schema of a new table for incoming rows: field order and nullability kept, metadata dropped.

    Widens int8/16, uint8/16/32, float16, large and view layouts; dictionaries become their values;
    timestamps become microseconds in UTC (values are checked when rows are converted,
    `evolution.conform`). Raises InputError that names every unsupported column, duplicate names (also
    when they differ in case only, as Spark does not distinguish them) and reserved names.
    """
    return pa.schema(
        [pa.field(field.name, stored_type(field.type), field.nullable) for field in normalized(schema)]
    )


def normalized(schema: pa.Schema) -> pa.Schema:
    """As `canonical`, but timestamps without zone stay what they are."""
    check_reserved(schema)
    problems = _name_problems(schema.names, "")
    fields = [_normal_field(field, field.name, problems) for field in schema]
    if not fields:
        problems.append("the input has no columns")
    if problems:
        raise InputError("the input can't be written: " + "; ".join(problems), problems="; ".join(problems))
    return pa.schema(fields)


def stored_type(dtype: pa.DataType) -> pa.DataType:
    """How a new column of a normalized type is stored; decides on timestamps without zone."""
    if pa.types.is_timestamp(dtype):
        return pa.timestamp(dtype.unit, "UTC")
    if pa.types.is_map(dtype):
        return map_of(stored_type(dtype.item_type), dtype.item_field.nullable)
    if is_list(dtype):
        return array_of(stored_type(dtype.value_type), dtype.value_field.nullable)
    if pa.types.is_struct(dtype):
        return pa.struct([pa.field(field.name, stored_type(field.type), field.nullable) for field in dtype])
    return dtype


def to_avro(schema: pa.Schema, table_name: str, *, full_name: str | None = None) -> dict[str, Any]:
    """Avro record schema (JSON-able) of a canonical schema, meta columns included where it has them.

    `full_name` overrides the record name that Hudi derives from the table's name: a table whose commits
    use another record name keeps it (see `record_full_name`).
    """
    name = full_name or default_full_name(table_name)
    space, _, short = name.rpartition(".")
    fields = [_avro_field(field, name) for field in schema]
    head = {"type": "record", "name": short}
    return {**head, "namespace": space, "fields": fields} if space else {**head, "fields": fields}


def to_avro_text(schema: pa.Schema, table_name: str, *, full_name: str | None = None) -> str:
    """`to_avro` as the compact JSON text that Hudi stores."""
    avro = to_avro(schema, table_name, full_name=full_name)
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


def from_avro(avro: str | Mapping[str, Any]) -> pa.Schema:
    """Arrow schema of an Avro record schema (text or parsed), meta columns kept where it has them.

    Raises SchemaError for Avro types that no table column can have.
    """
    return _of_text(avro) if isinstance(avro, str) else _of_record(parse(avro))


@functools.lru_cache(maxsize=64)
def _of_text(avro: str) -> pa.Schema:
    """Kept: a write needs the schema of its table often."""
    return _of_record(parse_text(avro))


def _of_record(record: Record) -> pa.Schema:
    return pa.schema([arrow_field(field.name, field.type, field.name) for field in record.fields])


def default_full_name(table_name: str) -> str:
    """`hoodie.<t>.<t>_record`, `<t>` the table's name with characters that Avro refuses replaced by `__`."""
    name = re.sub(r"^[^A-Za-z_]", "__", table_name)
    name = re.sub(r"[^A-Za-z0-9_]", "__", name)
    return f"hoodie.{name}.{name}_record"


def record_full_name(avro: str | Mapping[str, Any]) -> str:
    """Namespace and name of an Avro record schema, joined by a dot."""
    parsed = json.loads(avro) if isinstance(avro, str) else avro
    return qualified_name(parsed, "")


def decimal_size(precision: int) -> int:
    """Bytes of the Avro `fixed` that holds `precision` digits: the least n with 2^(8n-1) >= 10^precision."""
    size = 1
    while 2 ** (8 * size - 1) < 10**precision:
        size += 1
    return size


#: types without parameters by the names that the SQL of Hive and of Spark has for them
SQL_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}


def type_text(dtype: pa.DataType) -> str:
    """The type as users of Hudi and Spark write it, for messages."""
    if dtype in _PRIMITIVE_NAMES:
        name = _PRIMITIVE_NAMES[dtype]
        return "binary" if name == "bytes" else name
    if pa.types.is_date32(dtype):
        return "date"
    if pa.types.is_timestamp(dtype):
        unit = "" if dtype.unit == "us" else f" in {dtype.unit}"
        return f"timestamp{unit}" if dtype.tz else f"timestamp{unit} without zone"
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if pa.types.is_map(dtype):
        return f"map<{type_text(dtype.key_type)},{type_text(dtype.item_type)}>"
    if is_list(dtype):
        return f"array<{type_text(dtype.value_type)}>"
    if pa.types.is_struct(dtype):
        return "struct<" + ",".join(f"{field.name}:{type_text(field.type)}" for field in dtype) + ">"
    return str(dtype)


# --- Arrow -> normalized Arrow -----------------------------------------------------------------------


def _normal_field(field: pa.Field[Any], path: str, problems: list[str]) -> pa.Field[Any]:
    return pa.field(field.name, _normal_type(field.type, path, problems), field.nullable)


def _normal_type(dtype: pa.DataType, path: str, problems: list[str]) -> pa.DataType:
    if dtype in _PRIMITIVE_NAMES or pa.types.is_date32(dtype):
        return dtype
    if dtype in _WIDENED:
        return _WIDENED[dtype]
    if pa.types.is_dictionary(dtype):
        return _normal_type(dtype.value_type, path, problems)
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", "UTC" if dtype.tz else None)
    if pa.types.is_fixed_size_binary(dtype):
        return pa.binary()
    if (
        pa.types.is_decimal(dtype)
        and dtype.precision <= MAX_PRECISION
        and 0 <= dtype.scale <= dtype.precision
    ):
        return pa.decimal128(dtype.precision, dtype.scale)
    if is_list(dtype):
        item = _normal_type(dtype.value_type, f"{path}.element", problems)
        return array_of(item, dtype.value_field.nullable)
    if pa.types.is_map(dtype):
        key = _normal_type(dtype.key_type, f"{path}.key", [])
        if key != pa.string():
            problems.append(
                f"column {path!r} is a map with {type_text(dtype.key_type)} keys: only string keys can be "
                "stored; cast the keys to string"
            )
        return map_of(_normal_type(dtype.item_type, f"{path}.value", problems), dtype.item_field.nullable)
    if pa.types.is_struct(dtype) and dtype.num_fields:
        problems += _name_problems([field.name for field in dtype], f"{path}.")
        return pa.struct([_normal_field(field, f"{path}.{field.name}", problems) for field in dtype])
    problems.append(f"column {path!r} has type {dtype}, which no Hudi table can store: {_remedy(dtype)}")
    return dtype


def _remedy(dtype: pa.DataType) -> str:
    if pa.types.is_uint64(dtype):
        return "cast it to int64, or to decimal(20,0) when values pass 2^63-1"
    if pa.types.is_null(dtype):
        return "it holds only nulls; cast it to the type it should have, or drop it"
    if pa.types.is_time(dtype) or pa.types.is_duration(dtype):
        return "cast it to int64 or string"
    if pa.types.is_decimal(dtype):
        return f"cast it to a decimal of precision <= {MAX_PRECISION} and scale between 0 and the precision"
    if pa.types.is_struct(dtype):
        return "a struct needs at least one field; drop the column"
    if isinstance(dtype, pa.BaseExtensionType):
        return f"cast it to its storage type {dtype.storage_type}"
    return (
        "cast it to a supported type (boolean, int, long, float, double, decimal, string, binary, date, "
        "timestamp, array, map, struct) or drop it"
    )


def _name_problems(names: list[str], prefix: str) -> list[str]:
    problems: list[str] = []
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.lower(), []).append(prefix + name)
        if not _is_avro_name(name):
            problems.append(
                f"column name {prefix + name!r} is no Avro name: rename it to letters, digits and "
                "underscores, not starting with a digit"
            )
    for group in groups.values():
        if len(group) > 1:
            how = "appears twice" if len(set(group)) == 1 else "differs in case only"
            problems.append(f"column name {how}: {', '.join(map(repr, group))}; rename or drop one")
    return problems


def _is_avro_name(name: str) -> bool:
    """org.apache.avro.Schema.validateName: letters of any script are fine."""
    first, rest = name[:1], name[1:]
    return (first == "_" or first.isalpha()) and all(char == "_" or char.isalnum() for char in rest)


# --- canonical Arrow -> Avro ---------------------------------------------------------------------------


def _avro_field(field: pa.Field[Any], parent: str) -> dict[str, Any]:
    avro: dict[str, Any] = {"name": field.name, "type": _avro_type(field.type, parent, field.name)}
    if field.nullable:
        avro["type"] = ["null", avro["type"]]
        if field.name in META_COLUMNS:
            avro["doc"] = ""
        avro["default"] = None
    return avro


def _avro_type(dtype: pa.DataType, parent: str, name: str) -> Any:
    """`parent` is the enclosing record's full name, `name` the column that named types are called after."""
    if dtype in _PRIMITIVE_NAMES:
        return _PRIMITIVE_NAMES[dtype]
    if pa.types.is_date32(dtype):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(dtype) and dtype.unit in ("us", "ms"):
        return {"type": "long", "logicalType": TIMESTAMP_LOGICAL_TYPES[bool(dtype.tz), dtype.unit]}
    if pa.types.is_decimal(dtype):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{parent}.{name}",
            "size": decimal_size(dtype.precision),
            "logicalType": "decimal",
            "precision": dtype.precision,
            "scale": dtype.scale,
        }
    if pa.types.is_map(dtype):
        return {"type": "map", "values": _optional(dtype.item_field, parent, name)}
    if is_list(dtype):
        return {"type": "array", "items": _optional(dtype.value_field, parent, name)}
    if pa.types.is_struct(dtype):
        fields = [_avro_field(field, f"{parent}.{name}") for field in dtype]
        return {"type": "record", "name": name, "namespace": parent, "fields": fields}
    raise InputError(
        f"column {name!r} has type {type_text(dtype)}, which no Hudi table can store: {_remedy(dtype)}",
        column=name,
    )


def _optional(field: pa.Field[Any], parent: str, name: str) -> Any:
    avro = _avro_type(field.type, parent, name)
    return ["null", avro] if field.nullable else avro
