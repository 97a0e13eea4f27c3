"""One tree for the predicates of both engines, as far as bounds of values decide them.
- `duckdb_predicate` and `spark_tree` make it. A part that they can't express is ANY: true, false or null.
- `binding` adds the types of a table's columns.
- `bounds` evaluates it for rows of which only bounds are known: by the values of a partition, or by the
  statistics of a file or of a row group.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

#: levels of a tree that are looked at; what lies deeper is ANY
DEPTH = 100
#: comparisons of a tree that are looked at; further ones are ANY
COMPARISONS = 1000

#: the name of a column, or of a field in structs with those around it
Path: TypeAlias = tuple[str, ...]
#: the answers that a predicate can have, as a set of bits
TRUE, FALSE, NULL = 1, 2, 4


class LiteralKind(enum.Enum):
    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    MOMENT = "moment"
    NULL = "null"


@dataclass(frozen=True)
class Column:
    """A column by its name, or a field of structs by its path; names as the predicate has them."""

    path: Path


@dataclass(frozen=True)
class Literal:
    """A text, int or Decimal, bool, days or microseconds since 1970, or None."""

    kind: LiteralKind
    value: str | int | Decimal | bool | None


class Function(enum.Enum):
    """What a `Call` computes of its argument; parameters in brackets."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    DAY = "day"
    TRUNCATE = "truncate"  # (unit)
    TO_DATE = "to date"
    TO_INTEGER = "to integer"  # (bits)
    TO_TEXT = "to text"
    SUBSTRING = "substring"  # (first character from 1, number of characters or None)
    LOWER = "lower"
    UPPER = "upper"


@dataclass(frozen=True)
class Call:
    """A function as the predicate has it; `binding` makes a `Computed` of it."""

    function: Function
    argument: Expression
    parameters: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Field:
    """A column that `binding` has found. Points in time may be `slack` microseconds off: a session's zone."""

    path: Path
    type: pa.DataType
    slack: int = 0


@dataclass(frozen=True)
class Step:
    """A function of one value, as bounds have values. It raises ValueError or OverflowError where its result
    is not known to be the engine's.

    `monotone`: a greater argument never gives a smaller result. `fails`: a value may give null.
    """

    compute: Callable[[Any], Any]
    monotone: bool = False
    fails: bool = False
    slack: int = 0


@dataclass(frozen=True)
class Computed:
    """A call that `binding` has found a function for."""

    step: Step
    argument: Expression
    type: pa.DataType


Expression: TypeAlias = Column | Literal | Call | Field | Computed


@dataclass(frozen=True)
class Constant:
    """Answers that do not depend on the row."""

    answers: int


ANY = Constant(TRUE | FALSE | NULL)


@dataclass(frozen=True)
class Comparison:
    """`sign` is one of = <> < <= > >= and <=>, for which nulls are equal."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class In:
    """`values` are of one kind; `sorted` and `members` are theirs once bound. `written`: as IN, which Spark
    converts in another way than `=`.
    """

    value: Expression
    values: tuple[Literal, ...]
    null: bool = False
    written: bool = True
    sorted: tuple[Any, ...] = ()
    members: frozenset[Any] = field(default=frozenset(), compare=False)


@dataclass(frozen=True)
class Like:
    """A pattern with % and _, and no escapes."""

    value: Expression
    pattern: str


@dataclass(frozen=True)
class IsNull:
    value: Expression


@dataclass(frozen=True)
class Answers:
    """True where the answer of `term` is among these, else false: IS TRUE, IS NOT FALSE, IS NULL."""

    term: Node
    among: int


@dataclass(frozen=True)
class Not:
    term: Node


@dataclass(frozen=True)
class And:
    terms: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    terms: tuple[Node, ...]


@dataclass(frozen=True)
class Opaque:
    """A predicate of another form. `may_hold` is given what is known of `fields`: their bounds by path."""

    fields: tuple[Field, ...]
    may_hold: Callable[[Callable[[tuple[str, ...]], Any]], bool] = field(compare=False)


Node: TypeAlias = Constant | Comparison | In | Like | IsNull | Answers | Not | And | Or | Opaque


def with_conditions(node: Node, made: Callable[[Comparison | In | Like | IsNull], Node]) -> Node:
    """The tree with what is `made` of each of its conditions."""
    if isinstance(node, (Constant, Opaque)):
        return node
    again = partial(with_conditions, made=made)
    if isinstance(node, And):
        return And(tuple(map(again, node.terms)))
    if isinstance(node, Or):
        return Or(tuple(map(again, node.terms)))
    if isinstance(node, Not):
        return Not(again(node.term))
    if isinstance(node, Answers):
        return replace(node, term=again(node.term))
    return made(node)


_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def comparison(sign: str, left: Expression, right: Expression) -> Node:
    """A literal stands on the right."""
    if isinstance(left, Literal):
        sign, left, right = _TURNED.get(sign, sign), right, left
    return Comparison(sign, left, right)


def between(value: Expression, low: Expression, high: Expression) -> Node:
    return And((comparison(">=", value, low), comparison("<=", value, high)))


def membership(value: Expression, values: Sequence[Expression]) -> Node:
    """IN with literals of one kind, and nulls; ANY for others."""
    literals = [item for item in values if isinstance(item, Literal)]
    known = [item for item in literals if item.kind is not LiteralKind.NULL]
    if len(literals) < len(values) or len({item.kind for item in known}) > 1:
        return ANY
    return In(value, tuple(known), null=len(known) < len(literals))


def disjunction(terms: Iterable[Node]) -> Node:
    """OR. Equalities of one value are collected in one IN, which answers the same: a long list is cheap."""
    others: list[Node] = []
    found: dict[tuple[Expression, LiteralKind], dict[Literal, None]] = {}
    for term in terms:
        literal = term.right if isinstance(term, Comparison) and term.sign == "=" else None
        if isinstance(literal, Literal) and literal.kind is not LiteralKind.NULL:
            assert isinstance(term, Comparison)
            found.setdefault((term.left, literal.kind), {})[literal] = None
        else:
            others.append(term)
    lists = [
        In(value, tuple(literals), written=False)
        if len(literals) > 1
        else Comparison("=", value, next(iter(literals)))
        for (value, _), literals in found.items()
    ]
    merged = [*lists, *others]
    return merged[0] if len(merged) == 1 else Or(tuple(merged))


def condition(value: Expression) -> Node:
    """A value in the place of a predicate: a column of booleans, or a literal."""
    if isinstance(value, Literal):
        if value.kind is LiteralKind.NULL:
            return Constant(NULL)
        return Constant(TRUE if value.value else FALSE) if value.kind is LiteralKind.BOOLEAN else ANY
    return Comparison("=", value, Literal(LiteralKind.BOOLEAN, True))
