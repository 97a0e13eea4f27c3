"""Gives a predicate's tree the types of a table's columns, and its literals those of what they compare with.

Literals are converted where it is known that the engines do so, and how; all other comparisons are ANY.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hoodie.errors import ConfigError
from hoodie.read import functions
from hoodie.read.predicate import (
    ANY,
    COMPARISONS,
    NULL,
    Call,
    Column,
    Comparison,
    Computed,
    Constant,
    Expression,
    Field,
    Function,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Step,
    with_conditions,
)

#: hours between a session's time and UTC, at most
_ZONES = 18 * 3_600_000_000
#: digits of a number that a double has
_DIGITS = 15
_DECIMAL_DIGITS = 38


@dataclass(frozen=True)
class Dialect:
    """How the session that evaluates a predicate reads it.

    utc: its points in time are UTC. moments_of_text: texts are converted to them when compared with them.
    in_as_texts: IN converts values to texts where its list has texts.
    """

    utc: bool = True
    moments_of_text: bool = True
    in_as_texts: bool = False


class Predicate(Protocol):
    """What rows are filtered by, once it is known which table it is about."""

    def bound(self, schema: pa.Schema) -> Node:
        """Its tree for a table."""

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns of a table that it may look at."""


@dataclass(frozen=True)
class Where:
    """A parsed predicate. `words` are keywords in it that might be columns of these names instead.

    `names` are the names in it, as `folded`, those of columns among them; None where it looks at whole rows.
    """

    text: str
    tree: Node = ANY
    dialect: Dialect = Dialect()
    words: frozenset[str] = frozenset()
    names: frozenset[str] | None = None

    def bound(self, schema: pa.Schema) -> Node:
        """The tree with the columns of a table; names match without their case, if only one does."""
        if any(name.lower() in self.words for name in schema.names):
            return ANY
        return _Binder(schema, self.dialect).node(self.tree)

    def columns(self, schema: pa.Schema) -> list[str]:
        """The columns of a table that the predicate may look at."""
        names = self.names
        return [name for name in schema.names if names is None or folded(name) in names]


def folded(name: str) -> str:
    """Equal for names that an engine may take for the same; the upper case of the long s is an S."""
    return name.upper().lower()


def checked_text(where: str) -> str:
    """Raises ConfigError for a predicate that is no text."""
    if not isinstance(where, str):
        raise ConfigError(f"where is {where!r}; give a predicate as a text, or leave it out for all rows")
    return where


class _Unknown(Exception):
    """An expression whose values are not known here."""


class _Binder:
    def __init__(self, schema: pa.Schema, dialect: Dialect) -> None:
        self._fields = _by_lower_name(list(schema))
        self._dialect = dialect
        self._slack = 0 if dialect.utc else _ZONES
        self._left = COMPARISONS

    def node(self, node: Node) -> Node:
        return with_conditions(node, self._condition)

    def _condition(self, node: Comparison | In | Like | IsNull) -> Node:
        self._left -= 1
        if self._left < 0:
            return ANY
        try:
            return self._leaf(node)
        except (_Unknown, ValueError, OverflowError):
            return ANY

    def _leaf(self, node: Comparison | In | Like | IsNull) -> Node:
        if isinstance(node, Comparison):
            return self._comparison(node)
        value = self._expression(node.value)
        if isinstance(node, IsNull):
            return IsNull(value)
        if isinstance(node, In):
            return self._membership(node, value)
        _require(pa.types.is_string(_type(value)))
        return replace(node, value=value)

    def _comparison(self, node: Comparison) -> Node:
        left = self._expression(node.left)
        if isinstance(node.right, Literal):
            if node.right.kind is LiteralKind.NULL:
                return IsNull(left) if node.sign == "<=>" else Constant(NULL)
            left, right = self._agreed(left, node.right)
            return Comparison(node.sign, left, right)
        other = self._expression(node.right)
        _require(_type(left).equals(_type(other)) and _ordered(_type(left)))
        return Comparison(node.sign, left, other)

    def _membership(self, node: In, value: Expression) -> Node:
        if not node.values:
            return Constant(NULL) if node.null else ANY
        if node.written and self._dialect.in_as_texts and node.values[0].kind is LiteralKind.TEXT:
            # a column's own text is the only one that such a literal can be
            kind = _type(value)
            _require(pa.types.is_string(kind) or (isinstance(value, Field) and not _is_timestamp(kind)))
        agreed = [self._agreed(value, literal) for literal in node.values]
        values = frozenset(literal.value for _, literal in agreed)
        return In(agreed[0][0], (), node.null, node.written, tuple(sorted(values)), values)

    def _expression(self, value: Expression) -> Expression:
        if isinstance(value, Column):
            return self._field(value.path)
        if not isinstance(value, Call):
            raise _Unknown
        return _CALLS[value.function](self._expression(value.argument), value.parameters)

    def _field(self, path: Sequence[str]) -> Field:
        fields, found = self._fields, []
        kind: pa.DataType = pa.null()
        for name in path:
            field = fields.get(name.lower())
            _require(field is not None)
            assert field is not None
            found.append(field.name)
            kind = field.type
            fields = _by_lower_name(list(kind) if pa.types.is_struct(kind) else [])
        if pa.types.is_large_string(kind):
            kind = pa.string()
        return Field(tuple(found), kind, self._slack if pa.types.is_timestamp(kind) else 0)

    def _agreed(self, value: Expression, literal: Literal) -> tuple[Expression, Literal]:
        """Both as the engines compare them."""
        kind, given = _type(value), literal.kind
        if pa.types.is_string(kind):
            if given is LiteralKind.DATE:
                return Computed(functions.DATE_OF_TEXT, value, pa.date32()), literal
            _require(given is LiteralKind.TEXT)
            return value, literal
        if pa.types.is_boolean(kind):
            _require(given is LiteralKind.BOOLEAN)
            return value, literal
        if pa.types.is_date32(kind):
            if given is LiteralKind.MOMENT:
                step = functions.moment_of_date(self._slack)
                return Computed(step, value, pa.timestamp("us")), literal
            if given is LiteralKind.TEXT:
                return value, Literal(LiteralKind.DATE, functions.date_of_text(str(literal.value)))
            _require(given is LiteralKind.DATE)
            return value, literal
        if pa.types.is_timestamp(kind):
            return value, self._moment(kind, literal)
        return value, _number(kind, literal)

    def _moment(self, kind: pa.TimestampType[Any, Any], literal: Literal) -> Literal:
        _require(kind.unit in ("us", "ms"))
        if literal.kind is LiteralKind.DATE:
            assert isinstance(literal.value, int)
            return Literal(LiteralKind.MOMENT, literal.value * functions.DAY)
        if literal.kind is LiteralKind.TEXT and self._dialect.moments_of_text:
            return Literal(LiteralKind.MOMENT, functions.moment_of_text(str(literal.value)))
        _require(literal.kind is LiteralKind.MOMENT)
        return literal


def _require(known: bool) -> None:
    if not known:
        raise _Unknown


def _by_lower_name(fields: Sequence[pa.Field[Any]]) -> dict[str, pa.Field[Any]]:
    """Without names that differ in their case only."""
    names = [field.name.lower() for field in fields]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    return {name: field for name, field in zip(names, fields, strict=True) if name not in twice}


def _type(value: Expression) -> pa.DataType:
    _require(isinstance(value, (Field, Computed)))
    assert isinstance(value, (Field, Computed))
    return value.type


def _is_timestamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _ordered(kind: pa.DataType) -> bool:
    """Types of which two columns are compared as bounds are."""
    types = pa.types
    tests: tuple[Callable[[pa.DataType], bool], ...] = (
        types.is_string,
        types.is_integer,
        types.is_boolean,
        types.is_date32,
        types.is_floating,
        types.is_decimal,
    )
    return any(test(kind) for test in tests)


def _number(kind: pa.DataType, literal: Literal) -> Literal:
    """A literal that a column of numbers is compared with as it is, without rounding."""
    value = literal.value
    if pa.types.is_integer(kind) and literal.kind is LiteralKind.TEXT:
        return Literal(LiteralKind.NUMBER, functions.whole_of_text(str(value), kind.bit_width))
    _require(literal.kind is LiteralKind.NUMBER and isinstance(value, (int, Decimal)))
    exact = Decimal(value)  # type: ignore[arg-type]  # required above
    digits, exponent = exact.as_tuple().digits, exact.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = max(len(digits) + exponent, 0)
    short = len(digits) <= _DIGITS and scale <= _DIGITS and whole <= _DIGITS
    if pa.types.is_integer(kind):
        _require(short or (isinstance(value, int) and whole <= 18))
    elif pa.types.is_decimal(kind):
        scale, whole = max(scale, kind.scale), max(whole, kind.precision - kind.scale, 19)
        _require(scale + whole <= _DECIMAL_DIGITS)
    else:
        _require(pa.types.is_floating(kind) and short)
        narrow = float(np.float32(float(exact)))
        _require(pa.types.is_float64(kind) or (pa.types.is_float32(kind) and Decimal(narrow) == exact))
        return Literal(LiteralKind.NUMBER, float(exact))  # type: ignore[arg-type]  # compares with numbers
    return literal


def _dated(value: Expression) -> Expression:
    """A value as a date; what is null or no date is null."""
    kind = _type(value)
    if pa.types.is_date32(kind):
        return value
    if pa.types.is_timestamp(kind) and kind.unit in ("us", "ms"):
        return Computed(functions.DATE_OF_MOMENT, value, pa.date32())
    _require(pa.types.is_string(kind))
    return Computed(functions.DATE_OF_TEXT, value, pa.date32())


def _part(step: Step) -> Callable[[Expression, tuple[Any, ...]], Expression]:
    def made(value: Expression, _: tuple[Any, ...]) -> Expression:
        return Computed(step, _dated(value), pa.int64())

    return made


def _truncate(value: Expression, parameters: tuple[Any, ...]) -> Expression:
    (unit,) = parameters
    _require(unit in functions.UNITS)
    days = Computed(functions.truncation(unit), _dated(value), pa.date32())
    if not pa.types.is_timestamp(_type(value)):
        return days
    return Computed(functions.moment_of_date(0), days, pa.timestamp("us"))


def _to_date(value: Expression, _: tuple[Any, ...]) -> Expression:
    return _dated(value)


def _to_integer(value: Expression, parameters: tuple[Any, ...]) -> Expression:
    (bits,) = parameters
    kind = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    if pa.types.is_integer(_type(value)):
        return Computed(functions.whole(bits), value, kind)
    _require(pa.types.is_string(_type(value)))
    return Computed(functions.whole_of(bits), value, kind)


def _to_text(value: Expression, _: tuple[Any, ...]) -> Expression:
    kind = _type(value)
    if pa.types.is_string(kind):
        return value
    steps = (
        (pa.types.is_date32, functions.TEXT_OF_DATE),
        (pa.types.is_integer, functions.TEXT_OF_WHOLE),
        (pa.types.is_boolean, functions.TEXT_OF_BOOLEAN),
    )
    step = next((step for test, step in steps if test(kind)), None)
    _require(step is not None)
    assert step is not None
    return Computed(step, value, pa.string())


def _on_text(value: Expression, step: Step) -> Expression:
    _require(pa.types.is_string(_type(value)))
    return Computed(step, value, pa.string())


_CALLS: Mapping[Function, Callable[[Expression, tuple[Any, ...]], Expression]] = {
    Function.YEAR: _part(functions.YEAR),
    Function.QUARTER: _part(functions.QUARTER),
    Function.MONTH: _part(functions.MONTH),
    Function.DAY: _part(functions.DAY_OF_MONTH),
    Function.TRUNCATE: _truncate,
    Function.TO_DATE: _to_date,
    Function.TO_INTEGER: _to_integer,
    Function.TO_TEXT: _to_text,
    Function.SUBSTRING: lambda value, parameters: _on_text(value, functions.substring(*parameters)),
    Function.LOWER: lambda value, _: _on_text(value, functions.LOWER),
    Function.UPPER: lambda value, _: _on_text(value, functions.UPPER),
}
