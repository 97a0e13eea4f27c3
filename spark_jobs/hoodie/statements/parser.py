"""Statements as values. What a statement has beyond these is an error that names it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from hoodie.config.statements import STATEMENTS
from hoodie.errors import ConfigError
from hoodie.text import argument

DIALECT = "spark"
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)
#: meta data of nodes: of casts the column that they assign to; of what the plan adds to the statement
ASSIGNED, OWN = "assigned", "own"
#: forms of calls that become other expressions, although they are written as any other call
_PLAIN_CALLS = {
    "APPROX_PERCENTILE", "ARGMAX", "ARGMIN", "ARG_MAX", "ARG_MIN", "CEIL", "CHAR", "CHR", "CONVERT", "DECODE",
    "FLOOR", "INITCAP", "MAX_BY", "MIN_BY", "NORMALIZE", "PERCENTILE", "PERCENTILE_APPROX",
}  # fmt: skip
#: column as it was written, value
Assignments: TypeAlias = tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A table by its name among `tables`, and the name that the statement has for it."""

    table: str
    alias: str


@dataclass(frozen=True, kw_only=True)
class Delete:
    target: Named
    where: exp.Expr | None


@dataclass(frozen=True, kw_only=True)
class Update:
    target: Named
    assignments: Assignments
    where: exp.Expr | None


@dataclass(frozen=True, kw_only=True)
class Insert:
    """`columns`: none for all. `partition`: columns of PARTITION that have a value there. `partitions`: is
    there a PARTITION, so that an overwrite replaces partitions only.
    """

    target: Named
    columns: tuple[str, ...]
    partition: Assignments
    query: exp.Query
    overwrite: bool
    partitions: bool


@dataclass(frozen=True, kw_only=True)
class When:
    """One clause. `action`: UPDATE, INSERT or DELETE. `assignments`: None for `*`."""

    matched: bool
    condition: exp.Expr | None
    action: str
    assignments: Assignments | None


@dataclass(frozen=True, kw_only=True)
class Merge:
    """`source` has the alias `alias`."""

    target: Named
    source: exp.Expr
    alias: str
    on: exp.Expr
    whens: tuple[When, ...]


@dataclass(frozen=True, kw_only=True)
class Call:
    name: str
    arguments: Mapping[str, Any]


Statement: TypeAlias = Delete | Update | Insert | Merge | Call


class Written(Spark):
    """Spark's SQL with its functions as they are written: each one stays a name with arguments."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: made for name, made in SparkParser.FUNCTION_PARSERS.items() if name not in _PLAIN_CALLS
        }


def parsed(text: str) -> Statement:
    """The one statement of a text. Raises ConfigError for what is none, or has something that is not
    supported.
    """
    plain = text.strip().rstrip(";").rstrip()
    with _explained(text):
        trees = [tree for tree in sqlglot.parse(plain, dialect=Written) if tree is not None]
        if len(trees) != 1:
            raise ConfigError(f"the SQL text has {len(trees)} statements; give one", sql=text)
        return _statement(trees[0])


def _statement(tree: exp.Expr) -> Statement:
    if isinstance(tree, exp.Delete):
        _only("DELETE", tree, "this", "where")
        return Delete(target=_target("DELETE", tree.this), where=_condition(tree))
    if isinstance(tree, exp.Update):
        _only("UPDATE", tree, "this", "expressions", "where")
        target = _target("UPDATE", tree.this)
        return Update(
            target=target, assignments=_assignments(tree.expressions, target), where=_condition(tree)
        )
    if isinstance(tree, exp.Merge):
        return _merge(tree)
    if isinstance(tree, exp.Insert):
        return _insert(tree)
    if isinstance(tree, exp.Command) and str(tree.this).upper() == "CALL":
        return _call(str(tree.expression.this if tree.expression else ""))
    raise ConfigError(
        f"{tree.key.upper()} is not supported; give one SELECT, or one of {', '.join(STATEMENTS)}"
    )


def _merge(tree: exp.Merge) -> Merge:
    _only("MERGE", tree, "this", "using", "on", "whens")
    target, source = _target("MERGE", tree.this), tree.args["using"]
    if not isinstance(source, (exp.Table, exp.Subquery)):
        raise ConfigError(
            "the source of MERGE is no table and no SELECT in parentheses; USING takes one of these"
        )
    alias = source.alias_or_name
    if not alias:
        raise ConfigError("the source of MERGE has no name; write USING (SELECT …) AS s")
    if alias.lower() == target.alias.lower():
        raise ConfigError(
            f"target and source of MERGE are both {alias!r}; give them names of their own with AS"
        )
    if tree.args.get("on") is None:
        raise ConfigError("MERGE has no ON; compare the record key's columns there")
    whens = tuple(_when(item, target) for item in tree.args["whens"].expressions)
    return Merge(target=target, source=source, alias=alias, on=tree.args["on"], whens=whens)


def _when(tree: exp.When, target: Named) -> When:
    matched, then = bool(tree.args["matched"]), tree.args["then"]
    if not matched and tree.args.get("source"):
        raise ConfigError(
            "WHEN NOT MATCHED BY SOURCE is not supported; delete or update such rows by a statement"
        )
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE":
        action, assignments = "DELETE", None
    elif isinstance(then, exp.Update):
        _only("UPDATE", then, "expressions")
        action = "UPDATE"
        assignments = None if _is_star(then.expressions) else _assignments(then.expressions, target)
    elif isinstance(then, exp.Insert):
        action, assignments = "INSERT", _inserted(then, target)
    else:
        raise ConfigError(f"MERGE has no action {then.sql(DIALECT)!r}; use UPDATE, DELETE or INSERT")
    if matched == (action == "INSERT"):
        raise ConfigError(f"WHEN {'' if matched else 'NOT '}MATCHED THEN {action} is no clause of MERGE")
    return When(matched=matched, condition=tree.args.get("condition"), action=action, assignments=assignments)


def _inserted(then: exp.Insert, target: Named) -> Assignments | None:
    columns, values = then.this, then.args.get("expression")
    if isinstance(columns, exp.Star) or (isinstance(columns, exp.Tuple) and _is_star(columns.expressions)):
        return None
    if not isinstance(columns, exp.Tuple) or not isinstance(values, exp.Tuple):
        raise ConfigError("INSERT of MERGE is neither INSERT * nor INSERT (columns) VALUES (values)")
    if len(columns.expressions) != len(values.expressions):
        raise ConfigError(
            f"INSERT of MERGE has {len(columns.expressions)} columns and {len(values.expressions)} values"
        )
    named = (_column(column, target) for column in columns.expressions)
    return tuple(zip(named, values.expressions, strict=True))


def _insert(tree: exp.Insert) -> Insert:
    _only("INSERT", tree, "this", "expression", "overwrite", "with_")
    query, place, columns = tree.expression, tree.this, tuple[str, ...]()
    if isinstance(place, exp.Schema):
        columns, place = tuple(item.name for item in place.expressions), place.this
    if isinstance(query, exp.Values):
        query = exp.select("*").from_(
            exp.Values(expressions=query.expressions, alias=exp.TableAlias(this="v"))
        )
    if not isinstance(query, exp.Query):
        raise ConfigError("INSERT has no rows; give a SELECT or VALUES")
    if (ctes := tree.args.get("with_")) is not None:
        query = query.copy()
        query.set("with_", ctes.copy())
    given = place.args.get("partition") if isinstance(place, exp.Table) else None
    static = [item for item in given.expressions if isinstance(item, exp.EQ)] if given is not None else []
    return Insert(
        target=_target("INSERT", place, "partition"),
        columns=columns,
        partition=tuple((item.this.name, item.expression) for item in static),
        query=query,
        overwrite=bool(tree.args.get("overwrite")),
        partitions=given is not None,
    )


def _call(text: str) -> Call:
    found = _CALL.fullmatch(text)
    tree = sqlglot.parse_one(f"SELECT f({found[2]})", dialect=DIALECT) if found else None
    function = tree.expressions[0] if tree is not None and len(tree.expressions) == 1 else None
    if found is None or not isinstance(function, exp.Anonymous):
        raise ConfigError(f"CALL {text} is no call; write CALL clean(table => 'orders')")
    name, arguments = found[1].lower(), dict[str, Any]()
    for item in function.expressions:
        if not isinstance(item, exp.Kwarg):
            raise ConfigError(f"argument {item.sql(DIALECT)} of CALL {name} has no name; write name => value")
        arguments[item.this.name.lower()] = _literal(name, item.expression)
    return Call(name=name, arguments=arguments)


def _literal(name: str, value: exp.Expr) -> Any:
    if isinstance(value, exp.Boolean):
        return bool(value.this)
    if isinstance(value, exp.Literal):
        return value.this
    if isinstance(value, exp.Null):
        return None
    raise ConfigError(f"CALL {name}: {value.sql(DIALECT)} is no text, number, true or false")


def _target(kind: str, tree: exp.Expr, *more: str) -> Named:
    if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
        raise ConfigError(f"{kind} names no table; give one of {argument('tables=', '--table')}")
    _only(kind, tree, "this", "alias", *more)
    return Named(table=tree.name, alias=tree.alias_or_name)


def _condition(tree: exp.Expr) -> exp.Expr | None:
    where = tree.args.get("where")
    return None if where is None else where.this


def _assignments(given: list[exp.Expr], target: Named) -> Assignments:
    found = []
    for item in given:
        if not isinstance(item, exp.EQ):
            raise ConfigError(f"SET has {item.sql(DIALECT)!r}; write column = value")
        found.append((_column(item.this, target), item.expression))
    return tuple(found)


def _column(tree: exp.Expr, target: Named) -> str:
    if isinstance(tree, exp.Identifier):
        return tree.name
    if not isinstance(tree, exp.Column) or tree.args.get("db") is not None:
        raise ConfigError(f"{tree.sql(DIALECT)} is no column; a whole column is assigned")
    if tree.table and tree.table.lower() not in (target.alias.lower(), target.table.lower()):
        raise ConfigError(
            f"{tree.sql(DIALECT)} is no column of {target.alias}; whole columns of the table that is "
            "changed are "
            "assigned, not fields of them",
            column=tree.sql(DIALECT),
        )
    return tree.name


def _is_star(given: list[exp.Expr]) -> bool:
    return len(given) == 1 and isinstance(given[0], exp.Star)


def _empty(tree: exp.Expr) -> set[str]:
    return {name for name, value in tree.args.items() if not value}


def _only(kind: str, tree: exp.Expr, *known: str) -> None:
    """Raises ConfigError for parts of a statement beside those."""
    more = sorted(set(tree.args) - set(known) - _empty(tree))
    if more:
        names = ", ".join(name.strip("_").upper() for name in more)
        raise ConfigError(f"{kind} with {names} is not supported; leave it out", parts=names)


@contextmanager
def _explained(text: str) -> Iterator[None]:
    """The parser's errors as ConfigError, without its warnings."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"the SQL text can't be parsed: {first}", sql=text) from None
    except RecursionError:
        raise ConfigError("the SQL text can't be parsed: it is nested too deeply", sql=text) from None
    finally:
        logger.disabled = before
