"""Literals: their types as Spark reads them, and texts of days and instants."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal

from sqlglot import exp

from hoodie.statements.local.bound import Bound, quoted, refused
from hoodie.statements.local.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATING,
    INT,
    MAX_PRECISION,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    WHOLE,
    SqlType,
    decimal,
    fits,
)

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
