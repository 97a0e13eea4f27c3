"""Types of columns by Spark SQL's names."""

from __future__ import annotations

import pyarrow as pa

from hoodie.errors import InputError
from hoodie.format.schema import SQL_TYPES, is_list


def ddl(dtype: pa.DataType) -> str:
    """Spark SQL's name of a table column's type. Raises InputError for a type that no table column has."""
    if dtype in SQL_TYPES:
        return SQL_TYPES[dtype]
    if pa.types.is_decimal(dtype):
        return f"decimal({dtype.precision},{dtype.scale})"
    if pa.types.is_timestamp(dtype):
        return "timestamp" if dtype.tz else "timestamp_ntz"
    if pa.types.is_map(dtype):
        return f"map<{ddl(dtype.key_type)},{ddl(dtype.item_type)}>"
    if is_list(dtype):
        return f"array<{ddl(dtype.value_type)}>"
    if pa.types.is_struct(dtype):
        inside = (f"{quoted(field.name)}:{ddl(field.type)}" for field in dtype)
        return f"struct<{','.join(inside)}>"
    raise InputError(f"no Spark type for {dtype}; cast the column first", type=str(dtype))


def quoted(name: str) -> str:
    """A name in Spark SQL."""
    return f"`{name.replace('`', '``')}`"
