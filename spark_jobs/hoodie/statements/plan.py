"""The plan of a statement: an operation, and the SELECT of its rows in the columns of the table.

Plans are pure. They follow from the statement and from the columns of target and source alone, in Spark's
SQL. Of the target a plan has only what it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from hoodie.errors import ConfigError, TableError
from hoodie.format.meta_fields import META_COLUMNS, without_meta
from hoodie.format.schema import from_avro
from hoodie.keygen import key_generator
from hoodie.merge.settings import PRECOMBINE_FIELD
from hoodie.read.query import QueryType
from hoodie.read.sql_tables import SqlTable
from hoodie.source.ddl import ddl
from hoodie.statements.parser import ASSIGNED, DIALECT, OWN, Assignments, Delete, Insert, Named, Update
from hoodie.statements.words import MARK
from hoodie.table.properties import TableType
from hoodie.table.table_schema import TableSchema
from hoodie.text import argument
from hoodie.write.operation import Operation
from hoodie.write.settings import MERGE_INTO_PARTIAL
from hoodie.write.table_options import merged, written_by


@dataclass(frozen=True, kw_only=True)
class Target:
    """schema: the data columns. keys, partitions: the columns that record keys and partition paths are made
    of.

    ordering: the ordering columns, if they are top-level ones. keeps_newer: a stored row with a greater
    ordering value stays. whole_rows: a row that is written replaces the stored one in all columns. logged:
    changed columns may be logged alone.
    """

    name: str
    schema: pa.Schema
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: tuple[str, ...]
    keeps_newer: bool
    whole_rows: bool
    logged: bool = False

    def column(self, given: str) -> str:
        """The table's spelling of a column. Raises ConfigError where it has none."""
        if given in self.schema.names:
            return given
        alike = [name for name in self.schema.names if name.lower() == given.lower()]
        if len(alike) != 1:
            raise ConfigError(
                f"table {self.name} has no column {given}; it has {', '.join(self.schema.names)}",
                column=given,
            )
        return alike[0]


def target_of(name: str, asked: SqlTable) -> Target:
    """Raises ConfigError for a table that is read otherwise than as it is now, TableError for one without
    columns, and as a write for settings that contradict the table's.
    """
    if asked.query.type is not QueryType.SNAPSHOT:
        raise ConfigError(
            f"table {name} is read as {asked.query.type.value}; a statement changes the table as it is "
            f"now: leave {', '.join(map(argument, ('query', 'begin', 'end')))} and {argument('as_of')} out",
            table=name,
        )
    table = asked.open()
    props = table.properties
    text = TableSchema.load(table.timeline, table.storage, props).avro
    if not text:
        raise TableError(
            f"table {name} has no columns yet; write its first rows with hoodie.write_table", table=name
        )
    schema = without_meta(from_avro(text))
    config = merged(asked.config, props)
    keys = key_generator(config, schema)
    merging = written_by(config, props, schema)
    fields = tuple(part.strip() for part in (config[PRECOMBINE_FIELD] or "").split(",") if part.strip())
    return Target(
        name=name,
        schema=schema,
        keys=_top(keys.record_key_fields),
        partitions=_top(keys.partition_fields),
        ordering=fields if all(name in schema.names for name in fields) else (),
        keeps_newer=merging.keeps_newer,
        whole_rows=merging.takes_whole_rows,
        logged=config[MERGE_INTO_PARTIAL]
        and props.table_type is TableType.MERGE_ON_READ
        and props.merge_rule.by_mode,
    )


def _top(fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(field.partition(":")[0].partition(".")[0] for field in fields))


#: names of the values of an INSERT, before their places
_NUMBER = "value"


@dataclass(frozen=True, kw_only=True)
class Join:
    """A query in two steps: the rows of a source, and these, as table SOURCE, joined to those rows of the
    target, as table TARGET, that have their values. `columns`: by the target's column, the column of
    the source that it is equal to in a pair of rows; `compared`: these by the source's name, as far as the
    target's type has values to look for.
    """

    source: exp.Query
    query: exp.Query
    columns: Mapping[str, str]
    compared: pa.Schema


@dataclass(frozen=True, kw_only=True)
class Updates:
    """Rows of the source in the columns `schema`, which the target's are set to, or are found by (as of
    `Derived`): the write completes them.
    """

    query: exp.Query
    schema: pa.Schema
    found_by: tuple[str, ...]


#: names of tables in the second query of a `Join`
SOURCE, TARGET = "hoodie_merge_source", "hoodie_merge_target"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`reads`: are the rows made of those of the target. `flagged`, `changed`: as of `Derived`. `join`: the
    same rows in two steps, where the query is a join whose first step is worth it. `updates`: the same rows,
    and others, before they meet those of the target, where the write can do the rest.
    """

    operation: Operation
    query: exp.Query
    reads: bool
    flagged: bool = False
    changed: tuple[str, ...] = ()
    join: Join | None = None
    updates: Updates | None = None


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
    changed = [name for name in target.ordering if name in values]
    if changed and target.keeps_newer:
        if len(target.ordering) > 1:
            raise ConfigError(
                f"UPDATE sets {changed[0]}, one of the ordering columns {', '.join(target.ordering)}, by "
                "which a stored row may win; upsert such rows",
                column=changed[0],
            )
        values[changed[0]] = _not_older(statement.target, changed[0], values[changed[0]])
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
