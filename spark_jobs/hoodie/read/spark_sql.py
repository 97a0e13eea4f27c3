"""SQL over tables, which Spark plans: of slices that Python tasks merge they convert what the query needs.

The query is planned over stand-ins, whose plan says which columns and rows it needs (`spark_plan`), and then
over the tables. There, columns of merged slices that are not to be read are errors, which have a name: where
the plan needs one after all, as Spark knows less of an error than of a column, it is read, too.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.engine.hadoop import lacks_file_system, no_file_system, unseen
from hoodie.engine.session import conf_set, spark_context, to_spark_schema
from hoodie.errors import ConfigError
from hoodie.format.meta_fields import COMMIT_TIME
from hoodie.read.settings import READER, Reader
from hoodie.read.spark import spark_path, view_frame
from hoodie.read.spark_plan import Needed, Stand, needed
from hoodie.read.sql_tables import SqlTable, query_text
from hoodie.read.table_view import TableView, query_schema
from hoodie.table.handle import Table
from hoodie.table.properties import properties_path

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
        name: _Part(stands[name], known[name], view, asked.config[READER])
        for name, asked in tables.items()
        for view in [TableView.load(opened[name], asked.query, asked.config, known[name].where())]
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


@dataclass
class _Part:
    """A table's part of a query: what is known to be needed of its slices."""

    stand: Stand
    known: Needed
    view: TableView
    reader: Reader

    def frame(self, spark: Any, table: Table) -> Any:
        names = self.view.schema.names
        frame = view_frame(spark, table.storage, self.view, names, self._unread(), self.reader)
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
