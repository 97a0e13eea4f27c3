"""Operators and casts: DuckDB's text and Spark's type of the result.

Operators are listed by the types of their operands, casts by (from type, to type): those of the list, those
that Spark does by itself, and assignments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from hoodie.errors import ConfigError
from hoodie.statements.local.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATING,
    MAX_PRECISION,
    NEGATIVE_ZERO,
    NUMBERS,
    ORDERED,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    WHOLE,
    Bound,
    SqlType,
    as_decimal,
    common,
    constant_as,
    decimal,
    guarded,
    quoted,
    refused,
)

_PLAIN = "CAST({0} AS {type})"


@dataclass(frozen=True, kw_only=True)
class Cast:
    """`text`: DuckDB's. `takes`: where it is true the value is cast, else the statement fails. `note`: of
    the page.
    """

    text: str = _PLAIN
    takes: str = ""
    note: str = ""


_CUT = Cast(text="CAST(trunc({0}) AS {type})", note="the fraction is cut off")
_ROUNDED = Cast(note="rounded half up")
_SIGNED = r"[+-]?[0-9]+"
_DIGITS = Cast(takes=f"regexp_full_match({{0}}, '{_SIGNED}')", note="digits with or without a sign")
_DECIMALS = Cast(
    takes=f"regexp_full_match({{0}}, '{_SIGNED}([.][0-9]+)?')",
    note="digits with or without sign and fraction, rounded half up",
)
_NUMBER = Cast(
    takes=f"regexp_full_match({{0}}, '{_SIGNED}([.][0-9]+)?([eE]{_SIGNED})?')",
    note="digits with or without sign, fraction and exponent",
)
_DAY = Cast(takes="regexp_full_match({0}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')", note="`yyyy-mm-dd`")
_OF_DAY = Cast(takes="year({0}) BETWEEN 1 AND 9999", note="days of the years 1 to 9999")
_BY_TEXT = Cast(text="CAST(CAST({0} AS VARCHAR) AS {type})")
_OF_TIME = Cast(
    text="CAST(timezone('UTC', {0}) AS {type})",
    takes="year({0}) BETWEEN 1 AND 9999",
    note="instants of the years 1 to 9999, in UTC",
)
_OF_NTZ = Cast(takes="year({0}) BETWEEN 1 AND 9999", note="times of the years 1 to 9999")
_MIDNIGHT = Cast(
    text="CAST(timezone('UTC', CAST({0} AS TIMESTAMP)) AS {type})",
    takes="year({0}) BETWEEN 1 AND 9999",
    note="midnight in UTC, of the years 1 to 9999",
)
_INSTANT_OF_NTZ = Cast(
    text="timezone('UTC', {0})", takes="year({0}) BETWEEN 1 AND 9999", note="as UTC, of the years 1 to 9999"
)
_TIME = r"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[ T][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?"
_INSTANT = Cast(
    text="timezone('UTC', CAST({0} AS TIMESTAMP))",
    takes=f"regexp_full_match({{0}}, '{_TIME}')",
    note="`yyyy-mm-dd hh:mm:ss[.ffffff]`, in UTC",
)
_LOCAL_TIME = Cast(
    takes=f"regexp_full_match({{0}}, '{_TIME}')",
    note="`yyyy-mm-dd hh:mm:ss[.ffffff]`",
)
_TRUTH = Cast(
    text="(lower({0}) = 'true')",
    takes="lower({0}) IN ('true', 'false')",
    note="`true` and `false`, in any case",
)


def _casts() -> dict[tuple[str, str], Cast]:
    whole_to = ((*WHOLE, *FLOATING, "string"), Cast())
    found = {(one, other): whole_to[1] for one in WHOLE for other in whole_to[0] if one != other}
    for one in WHOLE:
        found |= {
            (one, "decimal"): Cast(),
            ("decimal", one): _CUT,
            ("float", one): _CUT,
            ("double", one): _CUT,
            ("string", one): _DIGITS,
            ("boolean", one): Cast(),
        }
    return {
        **found,
        ("float", "double"): Cast(),
        ("double", "float"): Cast(),
        ("decimal", "decimal"): _ROUNDED,
        ("decimal", "float"): _BY_TEXT,
        ("decimal", "double"): _BY_TEXT,
        ("decimal", "string"): Cast(),
        ("boolean", "string"): Cast(),
        ("string", "float"): _NUMBER,
        ("string", "double"): _NUMBER,
        ("string", "decimal"): _DECIMALS,
        ("string", "date"): _DAY,
        ("date", "string"): _OF_DAY,
        ("string", "boolean"): _TRUTH,
        ("date", "timestamp"): _MIDNIGHT,
        ("date", "timestamp_ntz"): _OF_DAY,
        ("timestamp", "date"): _OF_TIME,
        ("timestamp", "timestamp_ntz"): _OF_TIME,
        ("timestamp", "string"): _OF_TIME,
        ("timestamp_ntz", "date"): _OF_NTZ,
        ("timestamp_ntz", "timestamp"): _INSTANT_OF_NTZ,
        ("timestamp_ntz", "string"): _OF_NTZ,
        ("string", "timestamp"): _INSTANT,
        ("string", "timestamp_ntz"): _LOCAL_TIME,
    }


CASTS = _casts()


def cast(given: Bound, to: SqlType) -> Bound:
    """An explicit cast. Raises ConfigError for one that is not on the list."""
    if given.type == to:
        return Bound(text=given.text, type=to)
    if given.type == VOID:
        return Bound(text=_null(given, to), type=to)
    made = constant_as(given, to)
    if made is not None:
        return made
    entry = CASTS.get((given.type.name, to.name))
    if entry is None:
        raise refused(f"CAST from {given.type} to {to}")
    text = entry.text.format(_with_integer_digit(given, to), type=to.duckdb)
    if entry.takes:
        wrong = f"NOT {entry.takes.format(given.text)}"
        said = (
            f'CAST from {given.type} to {to} takes {entry.note} on the local engine; use engine="spark" for'
        )
        text = guarded(wrong, said, given.text, text, to)
    return Bound(text=text, type=to)


def _with_integer_digit(given: Bound, to: SqlType) -> str:
    """DuckDB writes a decimal that has decimals only without the 0 before the point."""
    kind = given.type
    if to != STRING or kind.name != "decimal" or kind.precision > kind.scale:
        return given.text
    if kind.precision == MAX_PRECISION:
        raise refused(f"CAST from {kind} to {to}")
    return f"CAST({given.text} AS {decimal(kind.precision + 1, kind.scale).duckdb})"


def widened(given: Bound, to: SqlType) -> Bound:
    """A value in a type that it takes beside others, as `common` gives it."""
    return given if given.type == to else cast(given, to)


def unified(given: Sequence[Bound], what: str) -> tuple[list[str], SqlType]:
    """Texts of one type, and the type. Raises ConfigError for types that have none that is proven."""
    wider = common([item.type for item in given])
    if wider is None:
        known = common([item.type for item in given if not isinstance(item.constant, str)])
        if known in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
            given = [(constant_as(item, known) if item.type == STRING else None) or item for item in given]
            wider = known
    if wider is None:
        raise refused(f"{what} of {listed(given)}", "write a CAST")
    return [widened(item, wider).text for item in given], wider


def _null(given: Bound, kind: SqlType) -> str:
    """A value without a type in one: null, or an error."""
    text = given.text if given.fails else "NULL"
    return f"CAST({text} AS {kind.duckdb})" if kind.duckdb else text


def listed(given: Sequence[Bound]) -> str:
    kinds = [str(item.type) for item in given]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"


def assigned(given: Bound, to: SqlType, column: str, written: str) -> Bound:
    """A value that a column of a type takes, as Spark assigns it (spark.sql.storeAssignmentPolicy=ANSI).

    Raises ConfigError where Spark assigns none, and for a cast that is not on the list.
    """
    if given.type in (to, VOID):
        return cast(given, to)
    if isinstance(given.constant, str) and (made := constant_as(given, to)) is not None:
        return made
    if not _assigns(given.type.name, to.name):
        raise ConfigError(
            f"{written} is {given.type} and column {column} is {to}: Spark assigns no {given.type} to {to}; "
            f"write CAST({written} AS {to}) or a value of that type",
            column=column,
        )
    return cast(given, to)


def _assigns(given: str, to: str) -> bool:
    """Does Spark assign values of a type to a column of another one."""
    if to == "string":
        return given in (*NUMBERS, "boolean", *_DAYS)
    return {given, to} <= set(NUMBERS) or {given, to} <= set(_DAYS)


_DAYS = ("date", "timestamp", "timestamp_ntz")


_ZERO = re.compile(r"CAST\('[0.]+([eE].*)?' AS (DOUBLE|FLOAT)\)")


@dataclass(frozen=True, kw_only=True)
class Operator:
    """`takes`, `gives`: of the page. `bind`: makes the result of the operands."""

    symbol: str
    takes: str
    gives: str
    bind: Callable[[str, Sequence[Bound]], Bound]


def _logical(symbol: str, given: Sequence[Bound]) -> Bound:
    texts = [boolean(item, symbol) for item in given]
    text = f"(NOT {texts[0]})" if len(texts) == 1 else f"({f' {symbol} '.join(texts)})"
    return Bound(text=text, type=BOOLEAN)


def boolean(given: Bound, what: str) -> str:
    if given.type not in (BOOLEAN, VOID):
        raise refused(f"{what} of {given.type}", "write a comparison")
    return cast(given, BOOLEAN).text


def compared(symbol: str, given: Sequence[Bound]) -> Bound:
    texts, kind = unified(given, symbol)
    if kind.name not in (*ORDERED, VOID.name):
        raise refused(f"{symbol} of {listed(given)}")
    meant = {"<=>": "IS NOT DISTINCT FROM", "==": "=", "!=": "<>"}.get(symbol, symbol)
    return Bound(text=f"({texts[0]} {meant} {texts[1]})", type=BOOLEAN)


def _arithmetic(symbol: str, given: Sequence[Bound]) -> Bound:
    one, other = given
    names = {one.type.name, other.type.name}
    if one.type == DATE and other.type.name in ("tinyint", "smallint", "int") and symbol != "*":
        return Bound(text=f"({one.text} {symbol} {other.text})", type=DATE)
    if not names <= set(NUMBERS):
        raise refused(f"{symbol} of {listed(given)}", "write a CAST")
    if "decimal" in names and not names & set(FLOATING):
        return _of_decimals(symbol, one, other)
    kind = common([one.type, other.type])
    assert kind is not None
    return Bound(text=f"({widened(one, kind).text} {symbol} {widened(other, kind).text})", type=kind)


def _of_decimals(symbol: str, one: Bound, other: Bound) -> Bound:
    """Of decimals and whole numbers. A literal that is a whole number has its own digits, as in Spark."""
    left, right = _exact(one), _exact(other)
    operands: tuple[SqlType, ...]
    if symbol == "*":
        made = (left.precision + right.precision + 1, left.scale + right.scale)
        operands = (left, right)
    else:
        scale = max(left.scale, right.scale)
        made = (max(left.precision - left.scale, right.precision - right.scale) + scale + 1, scale)
        operands = (decimal(*made), decimal(*made)) if made[0] <= MAX_PRECISION else ()
    if made[0] > MAX_PRECISION:
        raise refused(
            f"{symbol} of {one.type} and {other.type}, which has {made[0]} digits,", "cast to fewer digits"
        )
    kind = decimal(*made)
    values = [cast(item, to).text for item, to in zip((one, other), operands, strict=True)]
    return Bound(text=f"CAST({f' {symbol} '.join(values)} AS {kind.duckdb})", type=kind)


def _exact(given: Bound) -> SqlType:
    if given.type.name in WHOLE and isinstance(given.constant, int):
        return decimal(len(str(abs(given.constant))), 0)
    return as_decimal(given.type)


def _divided(symbol: str, given: Sequence[Bound]) -> Bound:
    names = {item.type.name for item in given}
    if not names <= set(NUMBERS) or ("decimal" in names and not names & set(FLOATING)):
        raise refused(f"{symbol} of {listed(given)}", "cast to double")
    return _by(given, DOUBLE, "/")


def remainder(symbol: str, given: Sequence[Bound]) -> Bound:
    if not {item.type.name for item in given} <= {*WHOLE, *FLOATING}:
        raise refused(f"{symbol} of {listed(given)}", "cast to bigint or double")
    kind = common([item.type for item in given])
    assert kind is not None
    return _by(given, kind, "%")


def _quotient(symbol: str, given: Sequence[Bound]) -> Bound:
    if not {item.type.name for item in given} <= set(WHOLE):
        raise refused(f"{symbol} of {listed(given)}", "cast to bigint")
    return _by(given, BIGINT, "//")


def _by(given: Sequence[Bound], kind: SqlType, symbol: str) -> Bound:
    """One value by another one, which may not be 0."""
    one, other = (widened(item, kind).text for item in given)
    wrong = f"{one} IS NOT NULL AND {other} = 0"
    text = guarded(wrong, "division by zero, of", one, f"({one} {symbol} {other})", kind)
    return Bound(text=text, type=kind)


def negative(symbol: str, given: Sequence[Bound]) -> Bound:
    (value,) = given
    if value.type.name not in NUMBERS:
        raise refused(f"{symbol} of {value.type}")
    if _ZERO.fullmatch(value.text):
        raise refused(NEGATIVE_ZERO)
    return Bound(text=f"(-{value.text})", type=value.type)


def concatenated(symbol: str, given: Sequence[Bound]) -> Bound:
    if any(item.type not in (STRING, VOID) for item in given):
        raise refused(f"{symbol} of {listed(given)}", "cast to string")
    return Bound(text=f"({' || '.join(cast(item, STRING).text for item in given)})", type=STRING)


def within(symbol: str, given: Sequence[Bound]) -> Bound:
    """Is the first one of the others."""
    texts, kind = unified(given, symbol)
    if kind.name not in (*ORDERED, VOID.name):
        raise refused(f"{symbol} of {listed(given)}")
    return Bound(text=f"({texts[0]} IN ({', '.join(texts[1:])}))", type=BOOLEAN)


def like(given: Bound, pattern: Bound, escape: str) -> Bound:
    """Raises ConfigError for patterns that are no literals, and as Spark for an escape of nothing."""
    wanted = pattern.constant
    if given.type not in (STRING, VOID) or not isinstance(wanted, str) or len(escape) != 1:
        raise refused(f"LIKE of {listed([given, pattern])} that is no literal", "write the pattern as a text")
    place = 0
    while (place := wanted.find(escape, place)) >= 0:
        if wanted[place + 1 : place + 2] not in ("%", "_", escape):
            raise refused(f"LIKE {wanted!r}, whose {escape!r} escapes neither %, _ nor itself,", "mend it")
        place += 2
    text = f"{cast(given, STRING).text} LIKE {pattern.text}"
    return Bound(text=f"({text} ESCAPE {quoted(escape)})" if escape in wanted else f"({text})", type=BOOLEAN)


def is_null(symbol: str, given: Sequence[Bound]) -> Bound:
    return Bound(text=f"({given[0].text} IS NULL)", type=BOOLEAN)


def is_boolean(given: Bound, wanted: bool) -> Bound:
    return Bound(text=f"({boolean(given, 'IS')} IS {str(wanted).upper()})", type=BOOLEAN)


_COMPARES = "two values of one type, or two numbers"
_NUMBERS = "numbers"
OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.And: Operator(symbol="AND", takes="conditions", gives="boolean", bind=_logical),
    exp.Or: Operator(symbol="OR", takes="conditions", gives="boolean", bind=_logical),
    exp.Not: Operator(symbol="NOT", takes="a condition", gives="boolean", bind=_logical),
    exp.EQ: Operator(symbol="=", takes=_COMPARES, gives="boolean", bind=compared),
    exp.NEQ: Operator(symbol="<>", takes=_COMPARES, gives="boolean", bind=compared),
    exp.LT: Operator(symbol="<", takes=_COMPARES, gives="boolean", bind=compared),
    exp.LTE: Operator(symbol="<=", takes=_COMPARES, gives="boolean", bind=compared),
    exp.GT: Operator(symbol=">", takes=_COMPARES, gives="boolean", bind=compared),
    exp.GTE: Operator(symbol=">=", takes=_COMPARES, gives="boolean", bind=compared),
    exp.NullSafeEQ: Operator(symbol="<=>", takes=_COMPARES, gives="boolean", bind=compared),
    exp.Add: Operator(
        symbol="+", takes="numbers; a date and an int", gives="their type; date", bind=_arithmetic
    ),
    exp.Sub: Operator(
        symbol="-", takes="numbers; a date and an int", gives="their type; date", bind=_arithmetic
    ),
    exp.Mul: Operator(symbol="*", takes=_NUMBERS, gives="their type", bind=_arithmetic),
    exp.Div: Operator(
        symbol="/", takes="numbers, of decimals with a double or float", gives="double", bind=_divided
    ),
    exp.Mod: Operator(symbol="%", takes="whole numbers, float, double", gives="their type", bind=remainder),
    exp.IntDiv: Operator(symbol="DIV", takes="whole numbers", gives="bigint", bind=_quotient),
    exp.Neg: Operator(symbol="-", takes="a number", gives="its type", bind=negative),
    exp.DPipe: Operator(symbol="||", takes="strings", gives="string", bind=concatenated),
}
