"""What a statement writes: an operation, and the SELECT of its rows in the columns of the table.

Plans are pure: they are made of the statement and of the columns of target and source alone, in Spark's SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from hoodie.errors import ConfigError
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.source.ddl import ddl
from hoodie.statements.parser import ASSIGNED, DIALECT, OWN, Assignments, Delete, Insert, Named, Update
from hoodie.statements.target import Target
from hoodie.statements.words import MARK
from hoodie.write.operation import Operation

#: names of the values of an INSERT, before their places
_NUMBER = "value"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`reads`: are the rows made of those of the target. `flagged`: as of write.operation.Derived."""

    operation: Operation
    query: exp.Query
    reads: bool
    flagged: bool = False


def delete_plan(statement: Delete, target: Target) -> Plan:
    """The keys of the rows that the condition is true for."""
    wanted = {*target.keys, *target.partitions}
    names = [name for name in target.schema.names if name in wanted]
    query = exp.select(*(stored(statement.target, name) for name in names)).from_(relation(statement.target))
    return Plan(operation=Operation.DELETE, query=_where(query, statement.where), reads=True)


def update_plan(statement: Update, target: Target) -> Plan:
    """The rows that the condition is true for, in all columns. Raises ConfigError for columns that can't be
    set.
    """
    if not target.whole_rows:
        raise ConfigError(
            f"table {target.name} mixes the columns of stored and incoming rows (its payload), so that an "
            "UPDATE to "
            "null would change nothing; write the rows with hoodie.write_table, as the payload wants them",
            table=target.name,
        )
    values = assigned(statement.assignments, target)
    for name in values:
        if name in target.keys or name in target.partitions:
            what = "record key" if name in target.keys else "partition path"
            raise ConfigError(
                f"UPDATE sets {name}, a column of the {what}, which says where a row is; delete the rows "
                "and insert "
                "them anew",
                column=name,
            )
    if target.ordering in values and target.keeps_newer:
        values[target.ordering] = _not_older(statement.target, target.ordering, values[target.ordering])
    columns = [
        typed(values[field.name], field) if field.name in values else stored(statement.target, field.name)
        for field in target.schema
    ]
    query = exp.select(*columns).from_(relation(statement.target))
    return Plan(operation=Operation.UPSERT, query=_where(query, statement.where), reads=True)


def insert_plan(statement: Insert, target: Target, given: Sequence[str], operation: Operation) -> Plan:
    """The rows of a query of the columns `given`, by their places, without meta columns. Raises ConfigError
    where these don't fit.
    """
    fixed = assigned(statement.partition, target)
    if strangers := [name for name in fixed if name not in target.partitions]:
        raise ConfigError(f"PARTITION has {', '.join(strangers)}, no column of the partition path")
    named = [target.column(name) for name in statement.columns]
    if len(set(named)) != len(named) or set(named) & set(fixed):
        raise ConfigError(f"INSERT names a column twice: {', '.join([*named, *fixed])}")
    names = named or [name for name in target.schema.names if name not in fixed]
    found = [place for place, name in enumerate(given) if name.lower() not in META_COLUMNS]
    if len(found) != len(names):
        raise ConfigError(
            f"INSERT has {len(found)} columns and is to have {len(names)}: {', '.join(names)}",
            columns=", ".join(names),
        )
    places = {
        name: exp.column(f"{_NUMBER} {place + 1}", quoted=True)
        for place, name in zip(found, names, strict=True)
    }
    columns = [
        typed(fixed.get(field.name) or places.get(field.name) or exp.null(), field) for field in target.schema
    ]
    alias = exp.TableAlias(
        this=exp.to_identifier("hoodie_rows"),
        columns=[exp.to_identifier(f"{_NUMBER} {place + 1}", quoted=True) for place in range(len(given))],
    )
    query = exp.select(*columns).from_(exp.Subquery(this=statement.query.copy(), alias=alias))
    return Plan(operation=operation, query=query, reads=target.name.lower() in tables_of(query))


def insert_operation(statement: Insert, configured: Operation) -> Operation:
    if not statement.overwrite:
        return configured
    return Operation.INSERT_OVERWRITE if statement.partitions else Operation.INSERT_OVERWRITE_TABLE


def assigned(given: Assignments, target: Target) -> dict[str, exp.Expr]:
    """Values by the table's columns. Raises ConfigError for a column that is not there, or twice."""
    values: dict[str, exp.Expr] = {}
    for written, value in given:
        name = target.column(written)
        if name in values:
            raise ConfigError(f"column {name} is set twice", column=name)
        values[name] = value
    return values


def stored(named: Named, name: str) -> exp.Expr:
    """A column of the target."""
    return exp.column(name, table=named.alias, quoted=True)


def typed(value: exp.Expr, field: pa.Field[pa.DataType]) -> exp.Expr:
    """A value in the type of the column, under its name."""
    return exp.alias_(cast(value, field), field.name, quoted=True)


def cast(value: exp.Expr, field: pa.Field[pa.DataType]) -> exp.Expr:
    made = exp.Cast(this=value.copy(), to=exp.DataType.build(ddl(field.type), dialect=DIALECT))
    made.meta[ASSIGNED] = field
    return made


def failure(text: str) -> exp.Expr:
    """A value that can't be: whoever evaluates it fails with the text."""
    made = exp.Anonymous(this="raise_error", expressions=[exp.Literal.string(f"{MARK}{text}")])
    made.meta[OWN] = True
    return made


def tables_of(query: exp.Expr) -> set[str]:
    """Names of the tables of a query, in lower case."""
    return {table.name.lower() for table in query.find_all(exp.Table)}


def _not_older(named: Named, ordering: str, value: exp.Expr) -> exp.Expr:
    """The value, unless the row would lose by it."""
    text = (
        f"UPDATE would make the ordering column {ordering} smaller, and the stored row would win; keep it "
        "or make it "
        "greater"
    )
    smaller = exp.LT(this=exp.paren(value.copy()), expression=stored(named, ordering))
    return exp.case().when(smaller, failure(text)).else_(value.copy())


def relation(named: Named) -> exp.Expr:
    """The target in FROM."""
    table = exp.Table(this=exp.to_identifier(named.table, quoted=True))
    return exp.alias_(table, named.alias, table=True, quoted=True)


def _where(query: exp.Select, condition: exp.Expr | None) -> exp.Select:
    return query if condition is None else query.where(condition.copy())
