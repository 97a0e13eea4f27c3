"""Some partitions in one state of a table, also in one that is not published, and SQL about them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine import Engine
from hoodie.errors import ConfigError, HoodieError
from hoodie.format.meta_fields import without_meta
from hoodie.read.arrow import view_batches
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import table_merger
from hoodie.read.partition_values import PathColumns
from hoodie.read.settings import MERGE_BUDGET, SPILL_PATH
from hoodie.read.spark import view_frame
from hoodie.read.spill import SpillFolder
from hoodie.read.table_view import TableView
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.properties import TableProperties
from hoodie.table.view import TimelineView, merged_slices
from hoodie.timeline.active import Timeline

if TYPE_CHECKING:
    import duckdb

#: rows that one SELECT gives
Ask = Callable[[str], list[tuple[Any, ...]]]

_MEMORY = "1GiB"


class QueryError(Exception):
    """A query can't be evaluated; the text is the engine's."""


def state_view(
    table: Table,
    props: TableProperties,
    config: Config,
    snapshot: TimelineView,
    schema: pa.Schema,
    listing: FileListing,
    partitions: Iterable[str],
) -> TableView:
    """What `snapshot` shows of the partitions. `schema` has the meta columns; what files lack is null.

    A table that is not there yet has no partitions; its properties are those that it is going to have.
    """
    listed = listing.many(partitions)
    slices = tuple(item for place in listed for item in merged_slices(snapshot, listing.files, place))
    logged = any(item.logs for item in slices)
    context = SliceContext(
        schema=schema,
        snapshot=snapshot,
        merger=table_merger(props, config, without_meta(schema)) if logged else None,
        ordering=props.precombine_field,
        budget=config[MERGE_BUDGET],
        spill_path=config[SPILL_PATH] or "",
    )
    timeline = table.timeline if slices else Timeline(table.base_path, (), {})
    return TableView(table.ref, props, timeline, slices, context, PathColumns.of(props, schema))


@contextlib.contextmanager
def sql_about(
    engine: Engine, storage: Storage, views: Mapping[str, TableView], spill_path: str
) -> Iterator[Ask]:
    """Evaluates single SELECTs on the views by their names, in Spark SQL on Spark, else in DuckDB's.

    DuckDB is given the rows once, in a file that is deleted afterwards, and reaches nothing else; memory is
    bounded. Asking raises QueryError.
    """
    session = engine.spark
    asking = _duckdb(storage, views, spill_path) if session is None else _spark(session, storage, views)
    with asking as ask:
        yield ask


@contextlib.contextmanager
def _duckdb(storage: Storage, views: Mapping[str, TableView], spill_path: str) -> Iterator[Ask]:
    try:
        import duckdb
    except ImportError:
        raise ConfigError("SQL on the local engine needs duckdb: pip install duckdb") from None

    def ask(text: str) -> list[tuple[Any, ...]]:
        try:
            if len(connection.extract_statements(text)) != 1:
                raise QueryError("more than one statement")
            return connection.execute(text).fetchall()
        except duckdb.Error as error:
            raise QueryError(str(error).splitlines()[0]) from error

    with (
        SpillFolder(spill_path) as folder,
        duckdb.connect(f"{folder.path}/rows.duckdb") as connection,
    ):
        quoted = folder.path.replace("'", "''")
        for setting in ("TimeZone = 'UTC'", f"memory_limit = '{_MEMORY}'", f"temp_directory = '{quoted}'"):
            connection.execute(f"SET {setting}")
        for name, view in views.items():
            _load(connection, name, view_batches(view, storage))
        for setting in (
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "python_enable_replacements = false",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            connection.execute(f"SET {setting}")
        yield ask


def _load(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.RecordBatchReader) -> None:
    connection.register("incoming", rows)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
    connection.unregister("incoming")


@contextlib.contextmanager
def _spark(session: Any, storage: Storage, views: Mapping[str, TableView]) -> Iterator[Ask]:
    """Temporary views have names of their own while the queries run: sessions are shared."""
    mark = uuid.uuid4().hex
    names = {name: f"{name}_{mark}" for name in views}

    def ask(text: str) -> list[tuple[Any, ...]]:
        for name, unique in names.items():
            text = text.replace(name, unique)
        try:
            return [tuple(row) for row in session.sql(text).collect()]
        except HoodieError:
            raise
        except Exception as error:
            raise QueryError(next(iter(str(error).strip().splitlines()), repr(error))) from error

    try:
        for name, view in views.items():
            frame = view_frame(session, storage, view, view.schema.names)
            frame.createOrReplaceTempView(names[name])
        yield ask
    finally:
        for unique in names.values():
            session.catalog.dropTempView(unique)
