"""What a DataFrame computes of Parquet files, from Spark's own analysed plan: filters and columns, one above
the other, of expressions that `engine.expressions` computes as Spark does.

The plan comes as the JSON that Spark writes of its trees: a list of nodes, each followed by its children.
Whatever isn't known here (a class, a type, a zone that is not UTC) leaves the DataFrame to Spark: functions
whose values change, such as now() and rand(), are among that.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.engine.expressions import FAILING, Call, Column, Computation, Constant, Expression

#: names of UTC that sessions have
_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "+00:00"})
#: levels of an expression, and expressions in a column or filter once those below are put in their places
_DEPTH, _SIZE = 60, 200
_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?)?")
#: signs by the names that Spark has for them, in its expressions and in the filters of its sources
COMPARISONS: Mapping[str, str] = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_ARITHMETIC = {"Add": "plus", "Subtract": "minus", "Multiply": "times", "Divide": "quotient"}
_SIGNS = {"Abs": "abs", "UnaryMinus": "-"}
_PATTERNS = {"StartsWith": "starts with", "EndsWith": "ends with", "Contains": "contains"}
#: expressions that stand for their only child
_REPLACED = frozenset({"Between", "CommonExpressionDef", "Nvl"})

#: where an expression is: how many plans below the top one, the number of the expression in the plan, and
#: those of children
Path: TypeAlias = tuple[int, ...]
#: what an expression that may fail does then: LEGACY, ANSI or TRY
Modes: TypeAlias = Callable[[Path], str]


class _Unknown(Exception):
    """Something that only Spark computes."""


@dataclass(frozen=True)
class _Tree:
    """A node of a plan or an expression. `path` is that of an expression."""

    name: str
    fields: Mapping[str, Any]
    children: tuple[_Tree, ...]
    path: Path = ()


def computation(
    plan: str, stored: Mapping[str, pa.DataType], schema: pa.Schema, modes: Modes
) -> Computation | None:
    """What the analysed plan computes of the rows of its only leaf, whose columns have the types `stored`;
    None where that is not known. `schema` is that of the plan's rows.
    """
    try:
        _, filters, columns = _rows(_tree(iter(json.loads(plan))), stored, 0, modes)
    except (_Unknown, KeyError, ValueError, TypeError, IndexError, InvalidOperation, StopIteration):
        return None
    if [name for name, _ in columns] != schema.names or any(
        value.type != field.type for (_, value), field in zip(columns, schema, strict=True)
    ):
        return None
    return Computation(tuple(filters), tuple(value for _, value in columns), schema)


def _require(known: bool) -> None:
    if not known:
        raise _Unknown


def _tree(nodes: Iterator[Mapping[str, Any]], path: Path = (), depth: int = 0) -> _Tree:
    """The tree whose nodes come next."""
    _require(depth < _DEPTH)
    fields = next(nodes)
    count = int(fields["num-children"])
    children = tuple(_tree(nodes, (*path, place), depth + 1) for place in range(count))
    return _Tree(str(fields["class"]).rpartition(".")[2], fields, children, path)


#: expressions of columns by Spark's numbers of them
_Known: TypeAlias = dict[int, Expression]
_Named: TypeAlias = list[tuple[str, Expression]]


def _rows(
    plan: _Tree, stored: Mapping[str, pa.DataType], depth: int, modes: Modes
) -> tuple[_Known, list[Expression], _Named]:
    """What is known of a plan's columns, its filters, its columns in their order."""
    if plan.name == "LogicalRelation":
        _require(not plan.children)
        columns = [
            (str(node["name"]), _number(node), _stored(node, stored)) for (node,) in plan.fields["output"]
        ]
        return (
            {number: value for _, number, value in columns},
            [],
            [(name, value) for name, _, value in columns],
        )
    _require(len(plan.children) == 1)
    known, filters, columns_below = _rows(plan.children[0], stored, depth + 1, modes)
    if plan.name in ("SubqueryAlias", "View"):
        return known, filters, columns_below
    if plan.name == "Filter":
        condition = _Builder(known, modes).of(_tree(iter(plan.fields["condition"]), (depth, 0)))
        _require(condition.type == pa.bool_() and not condition.fails)
        return known, [*filters, condition], columns_below
    _require(plan.name == "Project")
    above: _Known = {}
    named: _Named = []
    builder = _Builder(known, modes)
    for place, nodes in enumerate(plan.fields["projectList"]):
        tree = _tree(iter(nodes), (depth, place))
        _require(tree.name in ("Alias", "AttributeReference"))
        value = builder.of(tree)
        above[_number(tree.fields)] = value
        named.append((str(tree.fields["name"]), value))
    return above, filters, named


def _number(fields: Mapping[str, Any]) -> int:
    return int(fields["exprId"]["id"])


def _stored(fields: Mapping[str, Any], stored: Mapping[str, pa.DataType]) -> Expression:
    name = str(fields["name"])
    return Column(stored[name], name)


class _Builder:
    def __init__(self, known: _Known, modes: Modes) -> None:
        self._known = known
        self._modes = modes
        #: what is computed once and referred to
        self._common: Expression | None = None

    def of(self, tree: _Tree) -> Expression:
        found = self._built(tree)
        _require(found.size <= _SIZE)
        return found

    def _built(self, tree: _Tree) -> Expression:
        name = tree.name
        if name == "AttributeReference":
            return self._known[_number(tree.fields)]
        if name == "Literal":
            return _literal(tree.fields)
        if name == "CommonExpressionRef":
            _require(self._common is not None)
            assert self._common is not None
            return self._common
        if name == "With":
            return self._with(*tree.children)
        parts = [self.of(child) for child in tree.children]
        if name == "Alias" or name in _REPLACED:
            (part,) = parts
            return part
        if name == "Cast":
            return _cast(parts[0], _kind(tree.fields["dataType"]), tree.fields["timeZoneId"])
        if name == "ParseToDate":
            (part,) = parts  # without a format
            return _cast(part, pa.date32(), tree.fields["timeZoneId"])
        if name in COMPARISONS:
            return _comparison(COMPARISONS[name], *parts)
        if name in ("And", "Or", "Not"):
            _require(all(part.type == pa.bool_() and not part.fails for part in parts))
            return Call.of(pa.bool_(), name.lower(), *parts)
        if name in ("IsNull", "IsNotNull"):
            return Call.of(pa.bool_(), "is null" if name == "IsNull" else "is not null", *parts)
        if name == "In":
            return _membership(*parts)
        if name in _PATTERNS:
            text, pattern = parts
            _require(_is_plain_text(text) and isinstance(pattern, Constant) and pattern.value is not None)
            return Call.of(pa.bool_(), _PATTERNS[name], text, pattern)
        if name in ("If", "CaseWhen"):
            return _case(parts)
        if name == "Coalesce":
            kinds = {part.type for part in parts}
            _require(len(kinds) == 1 and not any(part.fails for part in parts))
            return Call.of(parts[0].type, "coalesce", *parts)
        if name == "Concat":
            _require(all(part.type == pa.string() for part in parts))
            return Call.of(pa.string(), "concat", *parts)
        if name in _SIGNS:
            return self._sign(tree, *parts)
        return self._arithmetic(tree, *parts)

    def _with(self, tree: _Tree, definition: _Tree) -> Expression:
        """References have no names here: there is one definition at a time."""
        common = self.of(definition)
        _require(self._common is None and definition.name == "CommonExpressionDef")
        self._common = common
        try:
            return self.of(tree)
        finally:
            self._common = None

    def _sign(self, tree: _Tree, part: Expression) -> Expression:
        function = _SIGNS[tree.name]
        if pa.types.is_floating(part.type):
            return Call.of(part.type, function, part)
        checked = tree.fields["failOnError"]
        _require(_is_whole(part.type) and isinstance(checked, bool))
        return Call.of(part.type, f"checked {function}" if checked else function, part)

    def _arithmetic(self, tree: _Tree, left: Expression, right: Expression) -> Expression:
        function = _ARITHMETIC[tree.name]
        _require(left.type == right.type)
        floating = pa.types.is_floating(left.type)
        if function != "quotient" and floating:
            return Call.of(left.type, function, left, right)
        _require(floating if function == "quotient" else _is_whole(left.type))
        mode = self._modes(tree.path)
        _require(mode in ("LEGACY", "ANSI"))
        checked = f"checked {function}"
        assert checked in FAILING
        return Call.of(left.type, checked if mode == "ANSI" else function, left, right)


def _is_whole(kind: pa.DataType) -> bool:
    return kind in (pa.int32(), pa.int64())


def _is_plain_text(value: Expression) -> bool:
    """A text whose order is that of its bytes: another collation may come with a function's result."""
    return value.type == pa.string() and isinstance(value, (Column, Constant))


def _comparison(sign: str, left: Expression, right: Expression) -> Expression:
    kind = left.type
    _require(kind == right.type and (left.inputs() | right.inputs()) != frozenset())
    if kind == pa.string():
        _require(_is_plain_text(left) and _is_plain_text(right))
    else:
        _require(kind in _ORDERED or pa.types.is_decimal128(kind) or pa.types.is_timestamp(kind))
    return Call.of(pa.bool_(), sign, left, right)


_ORDERED = (pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32())


def _membership(value: Expression, *members: Expression) -> Expression:
    _require(bool(members) and bool(value.inputs()))
    _require(all(isinstance(member, Constant) and member.type == value.type for member in members))
    _require(_is_plain_text(value) or value.type in (pa.bool_(), pa.int32(), pa.int64(), pa.date32()))
    return Call.of(pa.bool_(), "in", value, *members)


def _case(parts: Sequence[Expression]) -> Expression:
    """Conditions and values in turn, and the value of all others, if there is one."""
    if len(parts) % 2 == 0:
        parts = [*parts, Constant(parts[-1].type, None)]
    conditions, values = parts[:-1:2], (*parts[1::2], parts[-1])
    _require(all(condition.type == pa.bool_() for condition in conditions))
    _require(len({value.type for value in values}) == 1 and not any(part.fails for part in parts))
    return Call.of(values[0].type, "case", *parts)


def _kind(name: Any) -> pa.DataType:
    """The Arrow type of Spark's name of a type."""
    _require(isinstance(name, str))
    if found := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _SIMPLE[name]


def _literal(fields: Mapping[str, Any]) -> Constant:
    text, name = fields["value"], fields["dataType"]
    if text is None:
        return Constant(pa.null() if name == "void" else _kind(name), None)
    kind = _kind(name)
    _require(isinstance(text, str))
    if kind == pa.string():
        return Constant(kind, text)
    if kind == pa.bool_():
        return Constant(kind, {"true": True, "false": False}[text])
    if pa.types.is_integer(kind):
        return Constant(kind, int(text))
    if kind == pa.float64():
        return Constant(kind, float(text))
    if kind == pa.date32():
        return Constant(kind, _date(text))
    _require(pa.types.is_decimal(kind))
    return Constant(kind, Decimal(text))


def _cast(value: Expression, kind: pa.DataType, zone: Any) -> Expression:
    source = value.type
    if isinstance(value, Constant):
        return _converted(value, kind, zone)
    if source == kind and kind != pa.string():
        return value
    widens = (
        (pa.types.is_integer(source) and pa.types.is_integer(kind) and kind.bit_width > source.bit_width)
        or (pa.types.is_integer(source) and kind in (pa.float32(), pa.float64()))
        or (source == pa.float32() and kind == pa.float64())
        or (kind == pa.string() and (pa.types.is_integer(source) or source == pa.bool_()))
        or (pa.types.is_decimal128(source) and pa.types.is_decimal128(kind) and _holds(kind, source))
    )
    if pa.types.is_timestamp(source) and kind == pa.date32():
        _require(source.tz is None or zone in _UTC)
        widens = True
    _require(widens)
    return Call.of(kind, "cast", value)


def _holds(kind: Any, source: Any) -> bool:
    """Does every number of decimal type `source` fit as it is."""
    whole = kind.precision - kind.scale >= source.precision - source.scale
    return bool(kind.scale >= source.scale and whole)


def _converted(value: Constant, kind: pa.DataType, zone: Any) -> Constant:
    found, source = value.value, value.type
    if found is None or source == kind:
        return Constant(kind, found)
    if pa.types.is_integer(source):
        if pa.types.is_decimal128(kind):
            _require(len(str(abs(found))) <= kind.precision - kind.scale)
            return Constant(kind, Decimal(found))
        if kind == pa.float64():
            return Constant(kind, float(found))
        _require(pa.types.is_integer(kind) and kind.bit_width > source.bit_width)
        return Constant(kind, found)
    if pa.types.is_decimal128(source):
        if pa.types.is_decimal128(kind):
            _require(_holds(kind, source))
            return Constant(kind, found)
        _require(kind == pa.float64())
        return Constant(kind, float(found))
    _require(source == pa.string())
    if kind == pa.date32():
        return Constant(kind, _date(found))
    _require(pa.types.is_timestamp(kind) and zone in _UTC and _MOMENT.fullmatch(found) is not None)
    return Constant(kind, dt.datetime.fromisoformat(_micros(found)).replace(tzinfo=dt.timezone.utc))


def _date(text: str) -> dt.date:
    """Of yyyy-MM-dd only, of the calendar of today."""
    _require(_DATE.fullmatch(text) is not None and text >= "1900")
    return dt.date.fromisoformat(text)


def _micros(text: str) -> str:
    """A moment's text with six digits of the second, if it has any."""
    whole, dot, part = text.partition(".")
    return f"{whole}.{part.ljust(6, '0')}" if dot else whole
