"""One table: read and written by methods, with the same words everywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from hoodie import api
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, ConfigError, HoodieError
from hoodie.read.query import Query
from hoodie.shown import Records, html_of, text_of
from hoodie.source.target import target_schema
from hoodie.storage import settings as storage_settings
from hoodie.table.handle import TableRef
from hoodie.table.properties import TableProperties
from hoodie.table_api.access import session_of
from hoodie.table_api.arguments import Columns, PointInTime, TableColumns, instant_text
from hoodie.table_api.results import FileGroup, HistoryEntry, QueryResult
from hoodie.table_api.services import TableServices
from hoodie.table_api.where import where_text
from hoodie.table_api.writes import TableWrites
from hoodie.write.settings import TABLE_NAME, TABLE_TYPE, TABLE_VERSION

if TYPE_CHECKING:
    from typing import Self

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import SparkSession

    from hoodie.read.explanation import ReadExplanation

_COLUMNS_SHOWN = 20


class Table(TableWrites, TableServices):
    """A table at a path, there or not: nothing is read before a method needs it, and nothing is remembered.

    storage_options: settings of the storage (`hoodie.storage.*`). engine: `local`, or a Spark session, which
    reads, and runs services. Rows are written by the engine that holds them: a DataFrame by its session, all
    others by the local one. options: settings of all calls. Raises ConfigError for what is no path, other
    storage options, and other engines.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        engine: str | SparkSession = "local",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        given = dict(storage_options or {})
        known = {key.name for key in storage_settings.SETTINGS}
        if other := [name for name in given if name not in known]:
            raise ConfigError(
                f"storage_options has {other[0]!r}, which is no setting of the storage; docs/settings.md "
                "lists those, and others belong to options",
                setting=str(other[0]),
            )
        settings = {**(options or {}), **given}
        text = os.fspath(path) if isinstance(path, os.PathLike) else path
        super().__init__(TableRef.of(text, Config.of(settings)).uri, settings, session_of(engine))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        *,
        keys: Columns,
        partition_by: Columns | None = None,
        ordering: Columns | None = None,
        type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"] = "COPY_ON_WRITE",
        version: int | None = None,
        name: str | None = None,
        exist_ok: bool = False,
        storage_options: Mapping[str, Any] | None = None,
        engine: str | SparkSession = "local",
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """A new table without rows, by one commit. `options` are settings of all calls.

        version: 9, the default, 8 or 6. name: that of the table; by default the last part of the path. With
        `exist_ok` a table that is there is taken as it is, if its columns of keys, partition_by and ordering
        are the same. Raises AlreadyExists, TableMismatch, and ConfigError as a write.
        """
        import pyarrow as pa

        made = cls(path, storage_options=storage_options, engine=engine, options=options)
        columns = TableColumns.of(keys, partition_by, ordering)
        if made.exists():
            if not exist_ok:
                raise AlreadyExists(
                    f"there is a table at {made.path} already; open it as hoodie.Table(path), or pass "
                    "exist_ok=True",
                    path=made.path,
                )
            columns.settings(made.path, TableProperties(made.properties))
            return made
        said = {TABLE_TYPE.name: type, TABLE_VERSION.name: version, TABLE_NAME.name: name}
        settings = {setting: value for setting, value in said.items() if value is not None}
        rows = pa.schema(schema).empty_table()
        made.insert(rows, keys=keys, partition_by=partition_by, ordering=ordering, options=settings)
        return made

    # --- what it is ---------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Raises TableError for a table that can't be read."""
        return self._stored_properties() is not None

    @property
    def schema(self) -> pa.Schema:
        """The data columns, without meta columns. Raises TableNotFound."""
        import pyarrow as pa

        self._open()
        found = target_schema(self._path, self._settings)
        return pa.schema([]) if found is None else found

    @property
    def properties(self) -> dict[str, str]:
        """The texts of hoodie.properties. Raises TableNotFound."""
        return dict(self._open().properties.texts)

    @property
    def version(self) -> int:
        """The table version: 6, 8 or 9 of tables that are written here. Raises TableNotFound."""
        return self._open().properties.version

    def history(self, *, archived: bool = False) -> Records[HistoryEntry]:
        """The instants of the timeline, oldest first; with `archived` also those of its archive. Raises
        TableNotFound.
        """
        found = api.instants(self._path, options=self._settings)
        if archived:
            found = [*api.instants(self._path, archived=True, options=self._settings), *found]
        return Records(HistoryEntry.of(item) for item in found)

    def files(self) -> Records[FileGroup]:
        """The file groups with their committed slices. Raises TableNotFound."""
        return Records(FileGroup.of(item) for item in api.file_groups(self._path, options=self._settings))

    # --- queries ------------------------------------------------------------------------------------------

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        *,
        as_of: PointInTime | None = None,
        query: Literal["snapshot", "read_optimized", "time_travel"] | None = None,
        meta: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> QueryResult:
        """The rows of the table, or of its state `as_of` a point in time; they are read by the result.

        where: SQL of the engine (DuckDB's, or Spark's), or an expression of pyarrow.compute. as_of: an
        instant, a date and time in the zone of the table's timeline, a datetime with a time zone, or the
        result of a write, whose state it is. query:
        `read_optimized` reads base files alone. meta: with the columns `_hoodie_…`. Raises ConfigError for
        arguments that don't fit each other; what is wrong with the table the result raises.
        """
        if str(query).lower() == "incremental":
            raise ConfigError("read takes no incremental query; call changes(begin=…)", query="incremental")
        return self._query(columns=columns, where=where, as_of=as_of, query=query, meta=meta, options=options)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        *,
        as_of: PointInTime | None = None,
        query: Literal["snapshot", "read_optimized", "time_travel"] | None = None,
        meta: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> pa.RecordBatchReader:
        """The same rows while they are read. Raises HoodieError."""
        return self.read(columns, where, as_of=as_of, query=query, meta=meta, options=options).batches()

    def changes(
        self,
        begin: PointInTime = "earliest",
        end: PointInTime | None = None,
        *,
        format: Literal["latest_state", "cdc"] = "latest_state",
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        meta: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> QueryResult:
        """What was written after `begin`, up to `end`, the newest commit by default. Both may be the result
        of a write or an entry of the history, or its `completion`.

        format: `latest_state` gives the rows as of the end; `cdc` gives every change as a row of its own, op,
        ts_ms, before and after, of a table with a change log. Raises as `read`.
        """
        from hoodie.read.settings import INCREMENTAL_FORMAT

        cdc = {} if format == "latest_state" else {INCREMENTAL_FORMAT.name: format}
        return self._query(
            query="incremental",
            begin=begin,
            end=end,
            columns=columns,
            where=where,
            meta=meta,
            options={**(options or {}), **cdc},
        )

    def explain(
        self,
        where: str | pc.Expression | None = None,
        *,
        as_of: PointInTime | None = None,
        query: Literal["snapshot", "read_optimized", "time_travel"] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> ReadExplanation:
        """Which files `read` would read with these arguments, and what leaves out the others."""
        asked = self._query(where=where, as_of=as_of, query=query, options=options)
        return api.explain_read(
            self._path,
            spark=self._session,
            query=asked.query,
            as_of=asked.as_of,
            where=asked.where,
            options=asked.options,
        )

    def _query(
        self,
        *,
        begin: PointInTime | None = None,
        end: PointInTime | None = None,
        as_of: PointInTime | None = None,
        query: str | None = None,
        columns: Sequence[str] | None = None,
        where: str | pc.Expression | None = None,
        meta: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> QueryResult:
        asked = QueryResult(
            path=self._path,
            query=query,
            begin=instant_text("begin", begin, self._is_utc),
            end=instant_text("end", end, self._is_utc),
            as_of=instant_text("as_of", as_of, self._is_utc),
            columns=(columns,) if isinstance(columns, str) else columns,
            where=where_text(where, "duckdb" if self._session is None else "spark"),
            meta=meta,
            options=self._options(options),
            session=self._session,
        )
        Query.of(asked.query, asked.begin, asked.end, asked.as_of)
        return asked

    def _is_utc(self) -> bool:
        return self._open().properties.timeline_utc

    def __repr__(self) -> str:
        return text_of(f"hoodie.Table({self._path!r})", self._facts())

    def _repr_html_(self) -> str:
        return html_of(f"hoodie.Table({self._path!r})", self._facts())

    def _facts(self) -> dict[str, object]:
        """What people want to know first. An error is one of them."""
        try:
            return self._known_facts()
        except (HoodieError, OSError) as error:
            return {"error": error}

    def _known_facts(self) -> dict[str, object]:
        if not self.exists():
            return {"state": "there is no table yet; the first write makes it"}
        opened = self._open()
        properties, newest = opened.properties, opened.timeline.commits()
        columns = TableColumns.of_table(properties).words
        schema = self.schema
        shown = [f"{field.name}: {field.type}" for field in list(schema)[:_COLUMNS_SHOWN]]
        if (more := len(schema) - len(shown)) > 0:
            shown.append(f"and {more} more")
        return {
            "name": properties.name,
            "type": f"{properties.table_type.value}, table version {properties.version}",
            **{word: ", ".join(names) or "none" for word, names in columns.items()},
            "newest commit": newest[-1].time if newest else "none",
            "columns": ", ".join(shown) or "none",
        }
