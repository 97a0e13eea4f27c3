"""The expressions of a statement: each node of the tree by the list, or a ConfigError that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlglot import exp

from hoodie.statements.local import operators
from hoodie.statements.local.functions import AGGREGATES, FUNCTIONS, RANKS, aggregate
from hoodie.statements.local.operators import OPERATORS
from hoodie.statements.local.types import (
    BOOLEAN,
    GROUPED,
    INT,
    ORDERED,
    VOID,
    Bound,
    literal,
    of_arrow,
    of_parser,
    quoted,
    refused,
)
from hoodie.statements.parser import ASSIGNED, DIALECT, OWN

#: conditions, which stand in parentheses where they are operands: the parsers of both engines differ there
_CONDITIONS = (exp.Predicate, exp.Not, exp.Connector)


class Names(Protocol):
    """What an expression stands in."""

    def column(self, node: exp.Column) -> Bound:
        """Raises ConfigError for a column that is not there, or more than once."""

    def scalar(self, query: exp.Expr) -> Bound:
        """The value of a subquery of one column."""

    def exists(self, query: exp.Expr) -> str:
        """DuckDB's text of a subquery that may give rows."""


def bind(node: exp.Expr, names: Names) -> Bound:
    """The expression in DuckDB's SQL. Raises ConfigError for what is not on the list."""
    try:
        return _Expressions(names).bind(node)
    except RecursionError:
        raise refused("an expression that is nested so deeply") from None


def sorted_by(node: exp.Expr, names: Names) -> str:
    """One item of an ORDER BY."""
    return _Expressions(names).sort(node)


def only(node: exp.Expr, *known: str) -> None:
    """Raises ConfigError for parts of a node beside those."""
    more = sorted(name for name, value in node.args.items() if value and name not in known)
    if more:
        raise refused(f"{shown(node)} with {', '.join(name.strip('_').upper() for name in more)}")


def shown(node: exp.Expr) -> str:
    """A node for an error: its function's name, or its text."""
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Cast, exp.Case, exp.Binary)):
        name = node.name if isinstance(node, exp.Anonymous) else node.sql(DIALECT).partition("(")[0]
        return f"the function {name.lower()}"
    return str(node.sql(DIALECT))


def _is_condition(node: exp.Expr) -> bool:
    """Is a node of WHERE, HAVING or CASE, in which false and NULL are the same."""
    inner, parent = node, node.parent
    while isinstance(parent, exp.Paren):
        inner, parent = parent, parent.parent
    if isinstance(parent, exp.Not):
        inner, parent = parent, parent.parent
    while isinstance(parent, (exp.Paren, exp.And, exp.Or)):
        inner, parent = parent, parent.parent
    return isinstance(parent, (exp.Where, exp.Having)) or (
        isinstance(parent, exp.If) and inner.arg_key == "this"
    )


class _Expressions:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._kinds: dict[type[exp.Expr], Callable[..., Bound]] = {
            exp.Column: self._column,
            exp.Paren: self._paren,
            exp.Literal: literal,
            exp.Boolean: literal,
            exp.Null: literal,
            exp.Neg: self._negative,
            exp.Cast: self._cast,
            exp.TryCast: self._cast,
            exp.Case: self._case,
            exp.If: self._if,
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Like: self._like,
            exp.Escape: self._escape,
            exp.Anonymous: self._function,
            exp.Concat: self._joined,
            exp.RawString: literal,
            exp.NullSafeNEQ: self._distinct,
            exp.Substring: self._substring,
            exp.Trim: self._trim,
            exp.Window: self._window,
            exp.Exists: self._exists,
            exp.Subquery: self._subquery,
        }

    def bind(self, node: exp.Expr) -> Bound:
        made = self._kinds.get(type(node))
        if made is not None:
            return made(node)
        operator = OPERATORS.get(type(node))
        if operator is None:
            raise refused(shown(node))
        only(node, "this", "expression", "safe", "typed")
        operands = [item for item in (node.this, node.args.get("expression")) if item is not None]
        if not isinstance(node, (exp.Connector, exp.Not)):
            self._plain(node, *operands)
        return operator.bind(operator.symbol, [self.bind(item) for item in operands])

    def _plain(self, node: exp.Expr, *operands: exp.Expr) -> None:
        """Raises ConfigError for conditions without parentheses as operands."""
        for item in operands:
            if isinstance(item, _CONDITIONS) and not isinstance(item, (exp.Paren, exp.Exists)):
                raise refused(f"the condition {item.sql(DIALECT)} as an operand", "set it in parentheses")

    def _column(self, node: exp.Column) -> Bound:
        return self._names.column(node)

    def _paren(self, node: exp.Paren) -> Bound:
        return self.bind(node.this)

    def _negative(self, node: exp.Neg) -> Bound:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return literal(node.this, negative=True)
        self._plain(node, node.this)
        return operators.negative("-", [self.bind(node.this)])

    def _cast(self, node: exp.Cast) -> Bound:
        if node.args.get("safe"):
            raise refused("the function try_cast")
        only(node, "this", "to")
        value = self.bind(node.this)
        if (field := node.meta.get(ASSIGNED)) is not None:
            return operators.assigned(value, of_arrow(field.type)[0], field.name, node.this.sql(DIALECT))
        kind = of_parser(node.to)
        if kind is None:
            raise refused(f"CAST to {node.to.sql(DIALECT)}")
        return operators.cast(value, kind)

    def _case(self, node: exp.Case) -> Bound:
        only(node, "this", "ifs", "default")
        subject = None if node.this is None else self.bind(node.this)
        conditions, values = [], []
        for item in node.args["ifs"]:
            found = self.bind(item.this)
            whole = found if subject is None else operators.compared("=", [subject, found])
            conditions.append(operators.boolean(whole, "WHEN"))
            values.append(self.bind(item.args["true"]))
        default = node.args.get("default")
        values.append(Bound(text="NULL", type=VOID) if default is None else self.bind(default))
        texts, kind = operators.unified(values, "CASE")
        whens = " ".join(
            f"WHEN {when} THEN {then}" for when, then in zip(conditions, texts[:-1], strict=True)
        )
        return Bound(text=f"(CASE {whens} ELSE {texts[-1]} END)", type=kind)

    def _if(self, node: exp.If) -> Bound:
        values = [node.this, node.args["true"], node.args.get("false")]
        return FUNCTIONS["if"].bind("if", [self.bind(item) for item in values if item is not None])

    def _is(self, node: exp.Is) -> Bound:
        self._plain(node, node.this)
        value = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            return operators.is_null("IS NULL", [value])
        if isinstance(node.expression, exp.Boolean):
            return operators.is_boolean(value, bool(node.expression.this))
        raise refused(shown(node))

    def _in(self, node: exp.In) -> Bound:
        only(node, "this", "expressions", "query")
        self._plain(node, node.this)
        value = self.bind(node.this)
        if (query := node.args.get("query")) is None:
            return operators.within("IN", [value, *(self.bind(item) for item in node.expressions)])
        if not _is_condition(node):
            raise refused(
                "IN (SELECT …), which is false in Spark where it is NULL,",
                "take it as a condition of WHERE, HAVING or CASE, with AND and OR",
            )
        found = self._names.scalar(query)
        texts, kind = operators.unified([value, Bound(text="", type=found.type)], "IN")
        if kind != found.type or kind.name not in GROUPED:
            raise refused(f"IN of {operators.listed([value, found])}", "write a CAST")
        return Bound(text=f"({texts[0]} IN {found.text})", type=BOOLEAN)

    def _between(self, node: exp.Between) -> Bound:
        only(node, "this", "low", "high")
        self._plain(node, node.this, node.args["low"], node.args["high"])
        value, low, high = (self.bind(node.args[name]) for name in ("this", "low", "high"))
        both = [operators.compared(">=", [value, low]), operators.compared("<=", [value, high])]
        return OPERATORS[exp.And].bind("AND", both)

    def _like(self, node: exp.Like, escape: str = "\\") -> Bound:
        only(node, "this", "expression")
        self._plain(node, node.this)
        return operators.like(self.bind(node.this), self.bind(node.expression), escape)

    def _escape(self, node: exp.Escape) -> Bound:
        if type(node.this) is not exp.Like or not isinstance(node.expression, exp.Literal):
            raise refused(shown(node))
        return self._like(node.this, node.expression.name)

    def _function(self, node: exp.Anonymous) -> Bound:
        name, given = node.name.lower(), node.expressions
        if node.meta.get(OWN) and name == "raise_error":
            return Bound(text=f"error({quoted(given[0].name)})", type=VOID, fails=True)
        if name in AGGREGATES:
            return self._aggregate(name, given)
        if name not in FUNCTIONS:
            raise refused(shown(node))
        return FUNCTIONS[name].bind(name, [self.bind(item) for item in given])

    def _aggregate(self, name: str, given: list[exp.Expr]) -> Bound:
        distinct = len(given) == 1 and isinstance(given[0], exp.Distinct)
        rows = len(given) == 1 and isinstance(given[0], exp.Star) and name == "count"
        if distinct:
            only(given[0], "expressions")
            given = given[0].expressions
        values = [] if rows else [self.bind(item) for item in given]
        return aggregate(name, values, distinct=distinct, rows=rows)

    def _substring(self, node: exp.Substring) -> Bound:
        only(node, "this", "start", "length")
        given = [node.args[name] for name in ("this", "start", "length") if node.args.get(name) is not None]
        return FUNCTIONS["substring"].bind("substring", [self.bind(item) for item in given])

    def _trim(self, node: exp.Trim) -> Bound:
        only(node, "this")
        return FUNCTIONS["trim"].bind("trim", [self.bind(node.this)])

    def _joined(self, node: exp.Concat) -> Bound:
        """Texts that stand side by side."""
        return FUNCTIONS["concat"].bind("concat", [self.bind(item) for item in node.expressions])

    def _distinct(self, node: exp.NullSafeNEQ) -> Bound:
        self._plain(node, node.this, node.expression)
        same = operators.compared("<=>", [self.bind(node.this), self.bind(node.expression)])
        return OPERATORS[exp.Not].bind("NOT", [same])

    def _window(self, node: exp.Window) -> Bound:
        only(node, "this", "partition_by", "order", "over")
        name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else ""
        rows = name == "count" and bool(node.meta.get(OWN))
        if not (rows or (name in RANKS and not node.this.expressions and node.args.get("order"))):
            raise refused(f"{shown(node.this)} with OVER")
        own = bool(node.meta.get(OWN))
        keys = [self._key(item, "PARTITION BY", own) for item in node.args.get("partition_by") or ()]
        order = node.args.get("order")
        sorts = [self.sort(item, own) for item in order.expressions] if order is not None else []
        inside = [f"PARTITION BY {', '.join(keys)}"] * bool(keys) + [f"ORDER BY {', '.join(sorts)}"] * bool(
            sorts
        )
        called = "count(*)" if rows else f"{name}()"
        return Bound(text=f"CAST({called} OVER ({' '.join(inside)}) AS INTEGER)", type=INT)

    def _key(self, node: exp.Expr, what: str, own: bool) -> str:
        value = self.bind(node)
        if value.type.name not in (ORDERED if own else GROUPED):
            raise refused(f"{what} of {value.type}")
        if value.constant is not None and not own:
            raise refused(f"{what} of a literal", "name a column")
        return value.text

    def sort(self, node: exp.Expr, own: bool = False) -> str:
        assert isinstance(node, exp.Ordered)
        only(node, "this", "desc", "nulls_first")
        down = bool(node.args.get("desc"))
        first = bool(node.args.get("nulls_first"))
        value = self._key(node.this, "ORDER BY", own)
        return f"{value} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"

    def _exists(self, node: exp.Exists) -> Bound:
        only(node, "this")
        return Bound(text=f"EXISTS {self._names.exists(node.this)}", type=BOOLEAN)

    def _subquery(self, node: exp.Subquery) -> Bound:
        only(node, "this")
        return self._names.scalar(node.this)
