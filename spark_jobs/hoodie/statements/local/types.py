"""Types of Spark's SQL: of a column, and what several types have in common (ANSI mode)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hoodie.errors import InputError
from hoodie.source.ddl import ddl

MAX_PRECISION = 38


@dataclass(frozen=True)
class SqlType:
    """`name`: Spark's; of a decimal without precision and scale. Types of other names are opaque: their
    values are stored as they are, and nothing else.
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def duckdb(self) -> str:
        """ "" for a type that has no name there."""
        if self.name == "decimal":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.name in _DUCKDB or self.name == "void":
            return _DUCKDB.get(self.name, "")
        try:
            return str(exp.DataType.build(self.name, dialect="spark").sql("duckdb"))
        except SqlglotError:
            return ""

    @property
    def is_known(self) -> bool:
        return self.name == "decimal" or self.name in _DUCKDB


_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
VOID = SqlType("void")
BOOLEAN, INT, BIGINT = SqlType("boolean"), SqlType("int"), SqlType("bigint")
FLOAT, DOUBLE, STRING, DATE = SqlType("float"), SqlType("double"), SqlType("string"), SqlType("date")
TIMESTAMP, TIMESTAMP_NTZ = SqlType("timestamp"), SqlType("timestamp_ntz")
WHOLE = ("tinyint", "smallint", "int", "bigint")
FLOATING = ("float", "double")
EXACT = (*WHOLE, "decimal")
NUMBERS = (*EXACT, *FLOATING)
#: types whose equal values are the same value: zeros of floating-point types have a sign
GROUPED = (*EXACT, "boolean", "string", "binary", "date", "timestamp", "timestamp_ntz")
ORDERED = (*GROUPED, *FLOATING)
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}

_OF_ARROW = {
    pa.null(): VOID,
    pa.bool_(): BOOLEAN,
    pa.int8(): SqlType("tinyint"),
    pa.int16(): SqlType("smallint"),
    pa.int32(): INT,
    pa.int64(): BIGINT,
    pa.float32(): FLOAT,
    pa.float64(): DOUBLE,
    pa.string(): STRING,
    pa.binary(): SqlType("binary"),
    pa.date32(): DATE,
    pa.timestamp("us"): TIMESTAMP_NTZ,
}
#: of other types of Arrow, what Spark reads them as
_CAST_OF_ARROW = {
    pa.uint8(): SqlType("smallint"),
    pa.uint16(): INT,
    pa.uint32(): BIGINT,
    pa.uint64(): SqlType("decimal", 20, 0),
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): SqlType("binary"),
    pa.binary_view(): SqlType("binary"),
    pa.date64(): DATE,
    pa.timestamp("ns"): TIMESTAMP_NTZ,
    pa.timestamp("ms"): TIMESTAMP_NTZ,
    pa.timestamp("s"): TIMESTAMP_NTZ,
}
_OF_PARSER = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: SqlType("tinyint"),
    exp.DType.SMALLINT: SqlType("smallint"),
    exp.DType.INT: INT,
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: STRING,
    exp.DType.BINARY: SqlType("binary"),
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", precision, scale)


def of_arrow(given: pa.DataType) -> tuple[SqlType, bool]:
    """The type of a column, and whether DuckDB's own type of it is another one."""
    if pa.types.is_dictionary(given):
        return of_arrow(given.value_type)[0], True
    if given in _OF_ARROW:
        return _OF_ARROW[given], False
    if given in _CAST_OF_ARROW:
        return _CAST_OF_ARROW[given], True
    if pa.types.is_decimal(given) and given.precision <= MAX_PRECISION:
        return decimal(given.precision, given.scale), False
    if pa.types.is_timestamp(given) and given.tz and given.unit != "ns":
        return TIMESTAMP, given.unit != "us"
    try:
        return SqlType(ddl(given) if pa.types.is_nested(given) else str(given)), False
    except InputError:
        return SqlType(str(given)), False


def of_parser(given: exp.DataType) -> SqlType | None:
    """The type of a cast; None for one that has no DuckDB type here."""
    inner = [item.this.this for item in given.expressions]
    if given.this is exp.DType.DECIMAL:
        precision, scale = (*(int(size) for size in inner), 10, 0)[:2] if inner else (10, 0)
        scale = 0 if len(inner) == 1 else scale
        return decimal(precision, scale) if scale <= precision <= MAX_PRECISION else None
    return None if inner else _OF_PARSER.get(given.this)


def field_of(given: SqlType, name: str) -> tuple[str, SqlType] | None:
    """A struct's own name and type of a field; None where it has none, or several."""
    if not given.name.startswith("struct<"):
        return None
    fields = exp.DataType.build(given.name, dialect="spark").expressions
    found = [item for item in fields if item.name.lower() == name.lower()]
    if len(found) != 1:
        return None
    return found[0].name, of_parser(found[0].kind) or SqlType(found[0].kind.sql("spark").lower())


def fits(value: int, kind: SqlType) -> bool:
    """Does a type of whole numbers have this one."""
    return -(1 << _BITS[kind.name]) <= value < 1 << _BITS[kind.name]


def as_decimal(given: SqlType) -> SqlType:
    """The decimal type that all values of a whole number's type have."""
    return given if given.name == "decimal" else decimal(_DIGITS[given.name], 0)


def common(types: Sequence[SqlType]) -> SqlType | None:
    """The type that values of all these types take, as in COALESCE; None where there is none that is
    proven.
    """
    found = VOID
    for given in types:
        wider = _common(found, given)
        if wider is None:
            return None
        found = wider
    return found


def _common(one: SqlType, other: SqlType) -> SqlType | None:
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    names = {one.name, other.name}
    if not names <= set(NUMBERS):
        return None
    if names <= set(WHOLE):
        return max(one, other, key=lambda item: WHOLE.index(item.name))
    if names & set(FLOATING):
        return DOUBLE
    left, right = as_decimal(one), as_decimal(other)
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return decimal(precision, scale) if precision <= MAX_PRECISION else None
