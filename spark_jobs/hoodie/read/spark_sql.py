"""SQL over tables, which Spark plans: Python tasks convert only the columns of merged slices that the query
needs.

- Spark explains the query over stand-ins first: files that are never read, whose columns have names with a
  mark of this query alone. The scans of the plan name the columns that they read and the filters that reach
  them.
- Spark writes values into filters without quotes. No value has the mark, so the beginning of a filter is
  certain. A filter whose end is not certain is left out.
- Spark then plans the query over the tables. Columns of merged slices that are not to be read are errors
  with a name. If the plan needs one nevertheless, as Spark knows less of an error than of a column, it is
  read too.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from hoodie.engine.frame_plan import COMPARISONS
from hoodie.engine.session import (
    conf_set,
    lacks_file_system,
    no_file_system,
    spark_context,
    to_spark_schema,
    unseen,
)
from hoodie.errors import ConfigError
from hoodie.format.meta_fields import COMMIT_TIME
from hoodie.read.among import Among, Every
from hoodie.read.binding import Dialect, Predicate, Where
from hoodie.read.functions import date_of_text
from hoodie.read.predicate import (
    ANY,
    DEPTH,
    And,
    Column,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    comparison,
    disjunction,
    membership,
)
from hoodie.read.settings import READER, Reader
from hoodie.read.spark import spark_path, view_frame
from hoodie.read.sql_tables import SqlTable, query_text
from hoodie.read.table_view import TableView, query_schema
from hoodie.table.handle import Table
from hoodie.table.properties import properties_path

#: of a value that is written without quotes: it ends where the filter does
_PLAIN = re.compile(r"[^(),\[\]\x00-\x1f]*")
_BEGIN = "== Physical Plan =="
_NODE = re.compile(r"^\(\d+\) ", re.MULTILINE)
_READ = re.compile(r"^ReadSchema: (.*)$", re.MULTILINE)
_PUSHED = re.compile(r"^PushedFilters: \[(.*)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Stand:
    """A table's place in an explained query; its columns are `<mark>_<number>`."""

    mark: str
    schema: pa.Schema

    def names(self) -> list[str]:
        return [f"{self.mark}_{number}" for number in range(len(self.schema))]


@dataclass
class Needed:
    """What a query needs of a table: columns, and one predicate for each scan of it."""

    columns: set[str] = field(default_factory=set)
    scans: list[Node] = field(default_factory=list)

    def where(self) -> Where | None:
        """The rows that some scan needs; None: all, or not known."""
        if not self.scans or ANY in self.scans:
            return None
        return Where("", disjunction(self.scans), Dialect(moments_of_text=False), names=frozenset())


def needed(plan: str, stands: Mapping[str, Stand]) -> dict[str, Needed]:
    """By table, from EXPLAIN FORMATTED. Where the plan has another form, all is needed."""
    if not plan.startswith(_BEGIN):
        return {name: Needed(set(stand.schema.names)) for name, stand in stands.items()}
    found = {name: Needed() for name in stands}
    scans = [part for part in _NODE.split(plan) if _READ.search(part)]
    for scan in scans:
        read, pushed = " ".join(_READ.findall(scan)), _PUSHED.search(scan)
        filters = pushed.group(1) if pushed else ""
        whose = [name for name, stand in stands.items() if f"{stand.mark}_" in read + filters]
        for name in whose or stands:
            columns = re.findall(rf"\b{stands[name].mark}_(\d+)\b", read)
            found[name].columns.update(stands[name].schema.names[int(number)] for number in columns)
            found[name].scans.append(_Filters(stands[name]).all_of(filters) if whose else ANY)
    return found


class _Unknown(Exception):
    """A filter that can't be told from a part of a value."""


class _Filters:
    """Filters of Spark's sources, as their texts are."""

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._begin = re.compile(rf", (?=(?:(?:Not|And|Or)\()*[A-Za-z]+\({stand.mark}_\d)")

    def all_of(self, text: str) -> Node:
        terms = [term for term in map(self._term, self._begin.split(text)) if term != ANY]
        return And(tuple(terms)) if terms else ANY

    def _term(self, text: str) -> Node:
        try:
            node, rest = self._node(text, DEPTH)
        except (_Unknown, ValueError, KeyError, InvalidOperation):
            return ANY
        return ANY if rest else node

    def _node(self, text: str, depth: int) -> tuple[Node, str]:
        """The filter that a text begins with, and what follows it."""
        name, bracket, rest = text.partition("(")
        if not bracket or not depth:
            raise _Unknown
        if name == "Not":
            node, rest = self._node(rest, depth - 1)
            return Not(node), _after(rest, ")")
        if name in ("And", "Or"):
            left, rest = self._node(rest, depth - 1)
            right, rest = self._node(_after(rest, ","), depth - 1)
            both = And((left, right)) if name == "And" else disjunction((left, right))
            return both, _after(rest, ")")
        column, kind, rest = self._column(rest)
        if name in ("IsNull", "IsNotNull"):
            node = IsNull(column)
            return (node if name == "IsNull" else Not(node)), _after(rest, ")")
        rest = _after(rest, ",")
        if name == "In":
            texts, rest = _listed(_after(rest.lstrip(" "), "["))
            return membership(column, [_literal(value, kind) for value in texts]), _after(rest, ")")
        value, rest = _plain(rest)
        rest = _after(rest, ")")
        if name == "StringStartsWith":
            if "%" in value or "_" in value or not pa.types.is_string(kind):
                raise _Unknown
            return Like(column, value + "%"), rest
        return comparison(COMPARISONS[name], column, _literal(value, kind)), rest

    def _column(self, text: str) -> tuple[Column, Any, str]:
        match = re.match(rf"{self._stand.mark}_(\d+)(?=[,)])", text)
        if match is None:
            raise _Unknown
        column = self._stand.schema.field(int(match.group(1)))
        return Column((column.name,)), column.type, text[match.end() :]


def _after(text: str, mark: str) -> str:
    if not text.startswith(mark):
        raise _Unknown
    return text[len(mark) :]


def _plain(text: str) -> tuple[str, str]:
    match = _PLAIN.match(text)
    assert match is not None
    return match.group(), text[match.end() :]


def _listed(text: str) -> tuple[list[str], str]:
    values: list[str] = []
    while True:
        value, text = _plain(text)
        values.append(value)
        if text.startswith("]"):
            return values, text[1:]
        text = _after(text, ",")


def _literal(text: str, kind: Any) -> Literal:
    """A value of the column's type, as Scala writes it."""
    types = pa.types
    if text == "null":
        raise _Unknown  # or the text of these letters
    if types.is_string(kind):
        return Literal(LiteralKind.TEXT, text)
    if types.is_integer(kind):
        return Literal(LiteralKind.NUMBER, int(text))
    if types.is_boolean(kind):
        return Literal(LiteralKind.BOOLEAN, {"true": True, "false": False}[text])
    if types.is_date32(kind) and text >= "1900":
        return Literal(LiteralKind.DATE, date_of_text(text))
    if types.is_decimal(kind):
        return Literal(LiteralKind.NUMBER, Decimal(text))
    raise _Unknown


#: of Spark's own errors, those of a text
_OF_TEXT = frozenset({"AnalysisException", "ParseException"})
_FIELDS = "spark.sql.debug.maxToStringFields"
_MANY = "1000000"
_OTHERWISE = "use the local engine for it, or read the table into a DataFrame"


def sql_frame(
    spark: Any, text: str, tables: Mapping[str, SqlTable], rows: Mapping[str, Any] | None = None
) -> Any:
    """DataFrame of one query of Spark SQL. The names of `tables`, and of the DataFrames of `rows`, go before
    the session's.

    Which files are read is decided now. With Spark Connect, which plans the query again whenever the
    DataFrame is used, temporary views stay in the session; without it they are dropped.

    Raises ConfigError for a text that Spark can't plan as a query, and TableError.
    """
    if rows and not tables:
        return frame_of(spark, text, rows)
    query, mark, rows = query_text(text), f"hoodie_{uuid.uuid4().hex}", rows or {}
    opened = {name: asked.open() for name, asked in tables.items()}
    stands = {
        name: Stand(f"{mark}_{number}", query_schema(opened[name], asked.query, asked.config))
        for number, (name, asked) in enumerate(tables.items())
    }
    with _views(
        spark, {**rows, **{name: _stand_in(spark, opened[name], stand) for name, stand in stands.items()}}
    ) as views:
        known = needed(_plan(spark, query, views), stands)
    parts = {
        name: _Part(stands[name], known[name], view, asked.config[READER], asked.among)
        for name, asked in tables.items()
        for where in [_both(known[name].where(), asked.among)]
        for view in [TableView.load(opened[name], asked.query, asked.config, where)]
    }
    while True:
        frames = {name: part.frame(spark, opened[name]) for name, part in parts.items()}
        with _views(spark, {**rows, **frames}) as views:
            plan = _plan(spark, query, views)
            if not [name for name, part in parts.items() if part.lacks(plan)]:
                frame = _asked(spark, query, views)
                if spark_context(spark) is None:
                    views.clear()
                return frame


def frame_of(spark: Any, text: str, frames: Mapping[str, Any]) -> Any:
    """DataFrame of one query of Spark SQL over DataFrames, whose names go before the session's; views and
    errors as of `sql_frame`.
    """
    query = query_text(text)
    with _views(spark, frames) as views:
        frame = _asked(spark, query, views)
        if spark_context(spark) is None:
            views.clear()
        return frame


def _both(where: Predicate | None, among: Among | None) -> Predicate | None:
    found = tuple(each for each in (where, among) if each is not None)
    return Every(found) if len(found) > 1 else next(iter(found), None)


@dataclass
class _Part:
    """A table's part of a query: what is known to be needed of its slices."""

    stand: Stand
    known: Needed
    view: TableView
    reader: Reader
    among: Among | None

    def frame(self, spark: Any, table: Table) -> Any:
        names = self.view.schema.names
        unread = self._unread()
        frame = view_frame(spark, table.storage, self.view, names, unread, self.reader, self.among)
        return frame if self.view.span is None else frame.where(self.view.span.predicate())

    def lacks(self, plan: str) -> bool:
        """Does the plan need columns that are not read? They are known to be needed from now on."""
        found = [name for name, error in self._unread().items() if error in plan]
        self.known.columns.update(found)
        return bool(found)

    def _unread(self) -> dict[str, str]:
        needed = {*self.known.columns, *([COMMIT_TIME] if self.view.span else [])}
        named = zip(self.view.schema.names, self.stand.names(), strict=True)
        text = "a column was not read, as the plan did not show that the query needs it"
        return {name: f"{mark}: {text}" for name, mark in named if name not in needed}


def _stand_in(spark: Any, table: Table, stand: Stand) -> Any:
    """A file that is there and never read, as Parquet with the table's columns. Raises ConfigError where
    Spark has no file system for it, StorageError where it does not see it.
    """
    fields = zip(stand.schema, stand.names(), strict=True)
    marked = pa.schema([pa.field(name, field.type) for field, name in fields])
    path = spark_path(table.storage, properties_path(table.base_path))
    try:
        return spark.read.schema(to_spark_schema(marked)).parquet(path).toDF(*stand.schema.names)
    except Exception as error:
        if table.storage.local:
            raise
        if lacks_file_system(error):
            raise no_file_system(path, _OTHERWISE) from None
        raise unseen(path, error, _OTHERWISE) from error


@contextlib.contextmanager
def _views(spark: Any, frames: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The names of temporary views, by those in the text; dropped at the end are those that are left."""
    mark, views = uuid.uuid4().hex, dict[str, str]()
    try:
        for name, frame in frames.items():
            views[name] = f"hoodie_{mark}_{name}"
            frame.createOrReplaceTempView(views[name])
        yield views
    finally:
        for view in views.values():
            with suppress(Exception):
                spark.catalog.dropTempView(view)


def _plan(spark: Any, query: str, views: Mapping[str, str]) -> str:
    with conf_set(spark, {_FIELDS: _MANY}):
        return "\n".join(row[0] for row in _asked(spark, query, views, "EXPLAIN FORMATTED ").collect())


def _asked(spark: Any, query: str, views: Mapping[str, str], before: str = "") -> Any:
    named = ", ".join(f"{name} AS (SELECT * FROM {view})" for name, view in views.items())
    try:
        frame = spark.sql(f"{before}WITH {named} (\n{query}\n)")
        frame.columns  # noqa: B018  Connect analyses it now
        return frame
    except Exception as error:
        if type(error).__name__ not in _OF_TEXT:
            raise
        first = next((line for line in str(error).splitlines() if line.strip()), repr(error))
        raise ConfigError(f"the SQL text can't be planned: {first}", sql=query) from None
