"""Types of Spark's SQL (ANSI mode): of columns, of expressions in DuckDB's SQL, of literals; the common type
of several types; how an expression is refused. Literals have the types that Spark reads, also texts of days
and instants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hoodie.errors import ConfigError, InputError
from hoodie.source.ddl import ddl
from hoodie.statements.words import MARK

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


#: the most letters that DuckDB's text may have: guards repeat what they guard
_LONGEST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Bound:
    """`text` is one operand for whatever stands around it. `constant`: the value of a literal. `fails`: no
    value, but an error.
    """

    text: str
    type: SqlType
    constant: str | int | Decimal | None = None
    fails: bool = False

    def __post_init__(self) -> None:
        if len(self.text) > _LONGEST:
            raise refused("an expression that is nested so deeply")


def refused(what: str, instead: str = "") -> ConfigError:
    """The error of what is not on the list, which names it and the next step."""
    other = f"{instead}, or " if instead else ""
    return ConfigError(
        f"{what} is not on the list of what means the same on the local engine as in Spark "
        f'(docs/sql-functions.md); {other}use engine="spark" (in Python: spark=)',
        refused=what,
    )


def failed(text: str, shown: str, kind: SqlType) -> str:
    """DuckDB's expression that fails with the text and a shown value, in the place of a value of a type."""
    said = quoted(f"{MARK}{text}: ")
    return f"CAST(error({said} || CAST({shown} AS VARCHAR)) AS {kind.duckdb})"


def guarded(wrong: str, text: str, shown: str, value: str, kind: SqlType) -> str:
    """A value, unless a condition is true: then the statement fails."""
    return f"(CASE WHEN {wrong} THEN {failed(text, shown, kind)} ELSE {value} END)"


def quoted(text: str) -> str:
    """A text as DuckDB's literal."""
    return "'" + text.replace("'", "''") + "'"


def named(text: str) -> str:
    """A name as DuckDB's identifier."""
    return '"' + text.replace('"', '""') + '"'


#: what the page says of them
LITERALS = {
    "`1`, `-5`, `3000000000`": "int, bigint or decimal(p,0), the first that holds it; also `1L`, `1S`, `1Y`",
    "`1.50`": "decimal of its digits",
    "`1e3`, `1.5D`, `1.5F`": "double; float",
    "`'text'`, `\"text\"`": "string",
    "`true`, `false`, `NULL`": "boolean; NULL takes the type that it stands for",
    "`DATE '2024-01-28'`, and `'2024-01-28'` beside a date": "date, with four digits of the year",
    "`TIMESTAMP '2024-01-28 12:00:00+01:00'`, and such a text beside a timestamp": (
        "timestamp; `Z`, an offset, or none for UTC; without a time it is midnight"
    ),
    "`TIMESTAMP_NTZ '2024-01-28 12:00:00'`, and such a text beside a timestamp_ntz": "timestamp_ntz",
}
#: DuckDB takes it for 0.0 where both are constants
NEGATIVE_ZERO = "a literal -0.0 of double or float"
_WHOLE = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"[0-9]*\.[0-9]*")
_EXPONENT = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?(?P<zone>Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])?)?"
)


def literal(node: exp.Expr, *, negative: bool = False) -> Bound:
    """Raises ConfigError for a literal that is not on the list."""
    if isinstance(node, exp.Null):
        return Bound(text="NULL", type=VOID)
    if isinstance(node, exp.Boolean):
        return Bound(text="true" if node.this else "false", type=BOOLEAN)
    if node.is_string or isinstance(node, exp.RawString):
        return text_literal(node.name)
    return _number(node.name, negative=negative)


def text_literal(value: str) -> Bound:
    if "\0" in value:
        raise refused("a text with the character 0")
    return Bound(text=quoted(value), type=STRING, constant=value)


def _number(written: str, *, negative: bool) -> Bound:
    if _EXPONENT.fullmatch(written):
        if negative and not Decimal(written):
            raise refused(NEGATIVE_ZERO)
        return Bound(text=f"CAST('{'-' * negative}{written}' AS DOUBLE)", type=DOUBLE)
    if not (_WHOLE.fullmatch(written) or (_DECIMAL.fullmatch(written) and written != ".")):
        raise refused(f"the literal {written}")
    value = Decimal(written) if not Decimal(written) else Decimal(f"{'-' * negative}{written}")
    if _WHOLE.fullmatch(written):
        for kind in (INT, BIGINT):
            if fits(int(value), kind):
                return whole(int(value), kind)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    precision = max(len(digits), -exponent)
    if precision > MAX_PRECISION:
        raise refused(f"the literal {written}")
    return _decimal(value, decimal(precision, -exponent))


def whole(value: int, kind: SqlType) -> Bound:
    return Bound(text=f"CAST('{value}' AS {kind.duckdb})", type=kind, constant=value)


def _decimal(value: Decimal, kind: SqlType) -> Bound:
    return Bound(text=f"CAST('{value:f}' AS {kind.duckdb})", type=kind, constant=value)


def constant_as(given: Bound, to: SqlType) -> Bound | None:
    """A literal in another type, where it has a value there; None for what is cast as any other value."""
    value = given.constant
    if isinstance(value, str):
        return _moment(value, to)
    if isinstance(value, (int, Decimal)) and to.name in FLOATING:
        return Bound(text=f"CAST('{value}' AS {to.duckdb})", type=to)
    if isinstance(value, int) and to.name in WHOLE and fits(value, to):
        return whole(value, to)
    return None


def _moment(text: str, to: SqlType) -> Bound | None:
    """Raises ConfigError for a text that does not say which instant it is."""
    if to == DATE:
        wanted = _DAY.fullmatch(text)
        if wanted is None or not _is(date.fromisoformat, text):
            raise refused(f"the text {text!r} as date", "write yyyy-mm-dd")
        return Bound(text=f"CAST({quoted(text)} AS DATE)", type=DATE)
    if to not in (TIMESTAMP, TIMESTAMP_NTZ):
        return None
    found = _TIME.fullmatch(text)
    if found is None or not _is(datetime.fromisoformat, text) or (found["zone"] and to == TIMESTAMP_NTZ):
        example = "2024-01-28 12:00:00+00:00" if to == TIMESTAMP else "2024-01-28 12:00:00"
        raise refused(f"the text {text!r} as {to}", f"write it as {example!r}")
    zone = "" if found["zone"] or to == TIMESTAMP_NTZ else f"{'' if ':' in text else ' 00:00:00'}+00:00"
    return Bound(text=f"CAST({quoted(text + zone)} AS {to.duckdb})", type=to)


def _is(read: object, text: str) -> bool:
    assert callable(read)
    try:
        read(text)
    except ValueError:
        return False
    return True
