"""A predicate's tree from DuckDB's own parser, whose answer is JSON (`json_serialize_sql`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from hoodie.read.functions import date_of_text, moment_of_text
from hoodie.read.predicate import (
    ANY,
    DEPTH,
    FALSE,
    NULL,
    TRUE,
    And,
    Answers,
    Call,
    Column,
    Expression,
    Function,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    between,
    comparison,
    condition,
    disjunction,
    membership,
)

Json: TypeAlias = Mapping[str, Any]

#: what the predicate's row is a row of
TABLE = "snapshot"

_SIGNS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_NOT_DISTINCT_FROM": "<=>",
    "COMPARE_DISTINCT_FROM": "<=>",
}
_BITS = {
    **dict.fromkeys(("TINYINT", "INT1"), 8),
    **dict.fromkeys(("SMALLINT", "INT2", "SHORT"), 16),
    **dict.fromkeys(("INTEGER", "INT", "INT4", "SIGNED"), 32),
    **dict.fromkeys(("BIGINT", "INT8", "LONG"), 64),
}
_BOOLEANS = frozenset({"BOOLEAN", "BOOL"})
_TEXTS = frozenset({"VARCHAR", "TEXT", "STRING"})
_MOMENTS = frozenset({"TIMESTAMP", "DATETIME", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"})
_PARTS = {
    "year": Function.YEAR,
    "quarter": Function.QUARTER,
    "month": Function.MONTH,
    "day": Function.DAY,
}


class _Unknown(Exception):
    """An expression that has no place in a tree."""


def tree(item: Json, depth: int = DEPTH) -> Node:
    """The tree of a parsed expression; ANY for what it does not know."""
    if depth == 0:
        return ANY
    try:
        return _node(item, depth - 1)
    except (_Unknown, KeyError, TypeError, ValueError, IndexError, AttributeError, InvalidOperation):
        return ANY


def _node(item: Json, depth: int) -> Node:
    kind, type_ = item["class"], item["type"]
    if kind == "CONJUNCTION":
        terms = [tree(child, depth) for child in item["children"]]
        return And(tuple(terms)) if type_ == "CONJUNCTION_AND" else disjunction(terms)
    if kind == "COMPARISON":
        return _comparison(item, type_, depth)
    if kind == "BETWEEN":
        return between(_expression(item["input"]), _expression(item["lower"]), _expression(item["upper"]))
    if kind == "OPERATOR":
        return _operator(type_, item["children"], depth)
    if kind == "FUNCTION":
        return _function(item)
    if kind == "CAST" and _type_name(item) in _BOOLEANS and item["child"]["class"] != "CONSTANT":
        return tree(item["child"], depth)
    return condition(_expression(item))


def _comparison(item: Json, type_: str, depth: int) -> Node:
    sign, left, right = _SIGNS[type_], item["left"], item["right"]
    differs = type_ == "COMPARE_DISTINCT_FROM"
    truth = _constant(right) if right["class"] == "CONSTANT" else None
    if sign == "<=>" and truth is not None and truth.kind is LiteralKind.BOOLEAN:
        found: Node = Answers(tree(left, depth), TRUE if truth.value else FALSE)
    else:
        found = comparison(sign, _expression(left), _expression(right))
    return Not(found) if differs else found


def _operator(type_: str, children: Sequence[Json], depth: int) -> Node:
    first = children[0]
    if type_ == "OPERATOR_NOT":
        return Not(tree(first, depth))
    if type_ in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        try:
            found: Node = IsNull(_expression(first))
        except _Unknown:
            found = Answers(tree(first, depth), NULL)
        return Not(found) if type_ == "OPERATOR_IS_NOT_NULL" else found
    if type_ not in ("COMPARE_IN", "COMPARE_NOT_IN"):
        return ANY
    found = membership(_expression(first), [_expression(child) for child in children[1:]])
    return Not(found) if type_ == "COMPARE_NOT_IN" else found


def _function(item: Json) -> Node:
    name, arguments = _called(item)
    if name not in ("~~", "!~~", "like", "starts_with", "prefix", "^@"):
        return condition(_expression(item))
    value, pattern = _expression(arguments[0]), _expression(arguments[1])
    if not isinstance(pattern, Literal) or pattern.kind is not LiteralKind.TEXT:
        return ANY
    text = str(pattern.value)
    if name in ("~~", "!~~", "like"):
        return Not(Like(value, text)) if name == "!~~" else Like(value, text)
    return ANY if "%" in text or "_" in text else Like(value, text + "%")


def _expression(item: Json) -> Expression:
    kind = item["class"]
    if kind == "COLUMN_REF":
        return _column(item["column_names"])
    if kind == "CONSTANT":
        return _constant(item)
    if kind == "CAST":
        return _cast(item)
    if kind != "FUNCTION":
        raise _Unknown
    name, arguments = _called(item)
    if name in _PARTS and len(arguments) == 1:
        return Call(_PARTS[name], _expression(arguments[0]))
    values = [_expression(argument) for argument in arguments]
    return _FUNCTIONS[name](*values)


def _column(path: Sequence[str]) -> Column:
    if len(path) > 1 and path[0].lower() == TABLE:
        raise _Unknown  # the table's name, or a column of structs
    return Column(tuple(path))


def _called(item: Json) -> tuple[str, list[Json]]:
    """A function's name and arguments, of DuckDB 1 or 2."""
    elsewhere = item.get("schema") not in ("", "main") or item.get("catalog")
    if elsewhere or item.get("filter") or item.get("distinct"):
        raise _Unknown
    if "arguments" in item:
        if any(argument["name"] for argument in item["arguments"]):
            raise _Unknown
        return item["function_name"].lower(), [argument["expression"] for argument in item["arguments"]]
    return item["function_name"].lower(), list(item["children"])


def _text(value: Expression) -> str:
    if not isinstance(value, Literal) or value.kind is not LiteralKind.TEXT:
        raise _Unknown
    return str(value.value)


def _count(value: Expression, least: int) -> int:
    if not isinstance(value, Literal) or not isinstance(value.value, int) or value.value < least:
        raise _Unknown
    return value.value


def _substring(value: Expression, start: Expression, length: Expression | None = None) -> Expression:
    size = None if length is None else _count(length, 0)
    return Call(Function.SUBSTRING, value, (_count(start, 1), size))


_FUNCTIONS: Mapping[str, Callable[..., Expression]] = {
    "date_part": lambda part, value: Call(_PARTS[_text(part).lower()], value),
    "datepart": lambda part, value: Call(_PARTS[_text(part).lower()], value),
    "date_trunc": lambda unit, value: Call(Function.TRUNCATE, value, (_text(unit).lower(),)),
    "datetrunc": lambda unit, value: Call(Function.TRUNCATE, value, (_text(unit).lower(),)),
    "substring": _substring,
    "substr": _substring,
    "left": lambda value, length: Call(Function.SUBSTRING, value, (1, _count(length, 0))),
    **dict.fromkeys(("lower", "lcase"), lambda value: Call(Function.LOWER, value)),
    **dict.fromkeys(("upper", "ucase"), lambda value: Call(Function.UPPER, value)),
}


def _cast(item: Json) -> Expression:
    value, name = _expression(item["child"]), _type_name(item)
    if isinstance(value, Literal):
        return _cast_literal(value, name)
    if name == "DATE":
        return Call(Function.TO_DATE, value)
    if name in _TEXTS:
        return Call(Function.TO_TEXT, value)
    return Call(Function.TO_INTEGER, value, (_BITS[name],))


def _cast_literal(value: Literal, name: str) -> Literal:
    if value.kind is LiteralKind.TEXT and name in _TEXTS:
        return value
    if name in _BOOLEANS:
        return Literal(LiteralKind.BOOLEAN, {"t": True, "f": False}[_text(value)])
    if name == "DATE":
        return Literal(LiteralKind.DATE, date_of_text(_text(value)))
    if name in _MOMENTS:
        return Literal(LiteralKind.MOMENT, moment_of_text(_text(value)))
    raise _Unknown


def _type_name(item: Json) -> str:
    """A type without parameters, of DuckDB 1 or 2."""
    if "type_expr" in item:
        named = item["type_expr"]
        if named.get("children") or named.get("schema") or named.get("catalog"):
            raise _Unknown
        return str(named["type_name"]).upper()
    named = item["cast_type"]
    return str(named["id"] if named.get("type_info") is None else "").upper()


def _constant(item: Json) -> Literal:
    if "literal" in item:
        kind, text = item["literal"]["kind"], item["literal"]["text"]
        if kind == "STRING":
            return Literal(LiteralKind.TEXT, text)
        if kind == "BOOLEAN":
            return Literal(LiteralKind.BOOLEAN, {"true": True, "false": False}[text.lower()])
        if kind == "INTEGER":
            return Literal(LiteralKind.NUMBER, int(text))
        if kind == "NUMERIC" and not set(text) - set("0123456789.-"):
            return Literal(LiteralKind.NUMBER, Decimal(text))
        if kind != "NULL_LITERAL":
            raise _Unknown
        return Literal(LiteralKind.NULL, None)
    return _value(item["value"])


def _value(item: Json) -> Literal:
    """A constant of DuckDB 1."""
    if item["is_null"]:
        return Literal(LiteralKind.NULL, None)
    kind, value = item["type"]["id"], item["value"]
    if kind == "VARCHAR" and item["type"].get("type_info") is None:
        return Literal(LiteralKind.TEXT, str(value))
    if kind == "BOOLEAN":
        return Literal(LiteralKind.BOOLEAN, bool(value))
    if kind in ("INTEGER", "BIGINT"):
        return Literal(LiteralKind.NUMBER, int(value))
    if kind == "DECIMAL" and isinstance(value, int):
        scale = int(item["type"]["type_info"]["scale"])
        return Literal(LiteralKind.NUMBER, Decimal(value).scaleb(-scale))
    raise _Unknown
