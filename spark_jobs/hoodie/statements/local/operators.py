"""Operators: by the types of their operands, DuckDB's text and Spark's type of the result."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from hoodie.statements.local.bound import Bound, guarded, quoted, refused
from hoodie.statements.local.casts import cast, listed, unified, widened
from hoodie.statements.local.literals import NEGATIVE_ZERO
from hoodie.statements.local.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOATING,
    MAX_PRECISION,
    NUMBERS,
    ORDERED,
    STRING,
    VOID,
    WHOLE,
    SqlType,
    as_decimal,
    common,
    decimal,
)

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
