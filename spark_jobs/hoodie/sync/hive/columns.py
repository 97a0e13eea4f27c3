"""Types of columns for Hive and for Spark (Apache Hudi 0.15.0 HiveSchemaUtil, Parquet2SparkSchemaUtils)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from hoodie.errors import SchemaError
from hoodie.format.schema import SQL_TYPES, is_list, type_text

_SPARK = {**SQL_TYPES, pa.int32(): "integer", pa.int64(): "long"}

#: each is read as any that comes later
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_TO_TEXT = {*_NUMBERS, "date", "timestamp"}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def hive_type(dtype: pa.DataType, timestamps: bool) -> str:
    """In lower case and without blanks, as the metastore stores it. Raises SchemaError."""
    if dtype in SQL_TYPES:
        return SQL_TYPES[dtype]
    if pa.types.is_timestamp(dtype):
        return "timestamp" if timestamps else "bigint"
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if is_list(dtype):
        return f"array<{hive_type(dtype.value_type, timestamps)}>"
    if pa.types.is_map(dtype):
        return f"map<string,{hive_type(dtype.item_type, timestamps)}>"
    if pa.types.is_struct(dtype):
        fields = (f"{field.name.lower()}:{hive_type(field.type, timestamps)}" for field in dtype)
        return f"struct<{','.join(fields)}>"
    raise SchemaError(f"Hive has no type for {type_text(dtype)}; leave the column out of the table")


def spark_schema(fields: Iterable[pa.Field[Any]]) -> str:
    """Spark's JSON of a schema, with the blanks that Apache Hudi's has."""
    texts = (
        f'{{"name":{json.dumps(field.name, ensure_ascii=False)},"type":{_spark_type(field.type)},'
        f'"nullable":{_bool(field.nullable)},"metadata":{{}}}}'
        for field in fields
    )
    return f'{{"type":"struct","fields":[{",".join(texts)}]}}'


def _spark_type(dtype: pa.DataType) -> str:
    if dtype in _SPARK:
        return f'"{_SPARK[dtype]}"'
    if pa.types.is_timestamp(dtype):
        return '"timestamp"' if dtype.tz else '"timestamp_ntz"'
    if pa.types.is_decimal(dtype):
        return f'"decimal({dtype.precision},{dtype.scale})"'
    if is_list(dtype):
        return (
            f'{{"type":"array", "elementType":{_spark_type(dtype.value_type)},'
            f'"containsNull":{_bool(dtype.value_field.nullable)}}}'
        )
    if pa.types.is_map(dtype):
        return (
            f'{{"type":"map", "keyType":"string","valueType":{_spark_type(dtype.item_type)},'
            f'"valueContainsNull":{_bool(dtype.item_field.nullable)}}}'
        )
    assert pa.types.is_struct(dtype)
    return spark_schema(list(dtype))


def _bool(value: bool) -> str:
    return "true" if value else "false"


def widens(old: str, new: str) -> bool:
    """May a column of Hive's type `old` become `new`: every old value stays what it is. Structs may also get
    fields, at their end.
    """
    if old == new:
        return True
    outer, inner = _parts(old)
    new_outer, new_inner = _parts(new)
    if outer in ("array", "map", "struct"):
        if outer != new_outer or len(new_inner) < len(inner):
            return False
        if outer != "struct" and len(new_inner) != len(inner):
            return False
        pairs = list(zip(inner, new_inner, strict=False))
        if outer == "struct":
            named = [(a.partition(":"), b.partition(":")) for a, b in pairs]
            return all(a[0] == b[0] and widens(a[2], b[2]) for a, b in named)
        return all(widens(a, b) for a, b in pairs)
    if new == "string":
        return old in _TO_TEXT or _DECIMAL.fullmatch(old) is not None
    if old in _NUMBERS and new in _NUMBERS:
        return _NUMBERS.index(old) < _NUMBERS.index(new)
    wide = _DECIMAL.fullmatch(new)
    if wide is None:
        return False
    whole, scale = int(wide[1]) - int(wide[2]), int(wide[2])
    if (narrow := _DECIMAL.fullmatch(old)) is not None:
        return whole >= int(narrow[1]) - int(narrow[2]) and scale >= int(narrow[2])
    return old in _DIGITS and whole >= _DIGITS[old]


def _parts(text: str) -> tuple[str, list[str]]:
    """`map<string,array<int>>` -> map, [string, array<int>]; no parts for a simple type."""
    outer, _, rest = text.partition("<")
    return (outer, list(_split(rest[:-1]))) if rest.endswith(">") else (text, [])


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for place, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]
