"""What the table object returns: rows that are not read yet, the history of a table, its files."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hoodie import api
from hoodie.errors import ConfigError, HoodieError
from hoodie.shown import Shown, html_of, html_of_rows, text_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame

_PREVIEW_ROWS, _PREVIEW_COLUMNS = 10, 20


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryResult:
    """Rows of a table, or changes of it. Each method of the form `to_…` reads the table as it is then.

    `session`: the Spark session that reads, None for the local engine. The other fields are the arguments of
    `hoodie.read_table`. Other libraries take the result itself, as it exports an Arrow stream.
    """

    path: str
    query: str | None = None
    begin: str | None = None
    end: str | None = None
    as_of: str | None = None
    columns: Sequence[str] | None = None
    where: str | None = None
    meta: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    session: Any = None

    def to_arrow(self) -> pa.Table:
        """All rows. With Spark they are collected; its version 3.5 can't do so. Raises HoodieError."""
        found: pa.Table
        if self.session is None:
            found = api.read_table(self.path, **self._asked())
            return found
        frame = self.to_spark()
        if not hasattr(frame, "toArrow"):
            raise ConfigError(
                "this Spark has no DataFrame.toArrow, as before 4.0; call to_pandas() or to_spark()"
            )
        found = frame.toArrow()
        return found

    def to_pandas(self) -> pd.DataFrame:
        """All rows. Raises HoodieError, ConfigError where pandas is not installed."""
        _installed("pandas", "to_pandas")
        found: pd.DataFrame
        found = self.to_arrow().to_pandas() if self.session is None else self.to_spark().toPandas()
        return found

    def to_polars(self) -> pl.DataFrame:
        """All rows. Raises HoodieError, ConfigError where polars is not installed."""
        polars = _installed("polars", "to_polars")
        found: pl.DataFrame = polars.from_arrow(self.to_arrow())
        return found

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """All rows as a relation of the connection, or of DuckDB's default one. Raises HoodieError,
        ConfigError where DuckDB is not installed.
        """
        library = _installed("duckdb", "to_duckdb")
        rows = self.to_arrow()
        found: duckdb.DuckDBPyRelation
        found = library.from_arrow(rows) if connection is None else connection.from_arrow(rows)
        return found

    def to_spark(self) -> DataFrame:
        """The rows as a DataFrame, which Spark reads when it needs them. Raises HoodieError, ConfigError for
        a table that was opened without a session.
        """
        if self.session is None:
            raise ConfigError("to_spark needs a session; open the table as hoodie.Table(path, engine=spark)")
        found: DataFrame = api.read_table(self.path, spark=self.session, **self._asked())
        return found

    def batches(self) -> pa.RecordBatchReader:
        """The rows in the order of `to_arrow` while the local engine reads them, for tables larger than the
        memory; with Spark all are collected first. Raises HoodieError.
        """
        if self.session is not None:
            return self.to_arrow().to_reader()
        return api.read_batches(self.path, **self._asked())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader: Any = self.batches()  # the stubs leave this method without types
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return text_of(self._title, self._facts())

    def _repr_html_(self) -> str:
        """The first rows. An error is shown, not raised."""
        try:
            names, rows, more = self._preview()
        except (HoodieError, OSError) as error:
            return html_of(self._title, {**self._facts(), "error": error})
        title = f"{self._title}: the first {len(rows)} rows" if more else f"{self._title}: {len(rows)} rows"
        return html_of_rows(title, names, [[str(value) for value in row] for row in rows])

    @property
    def _title(self) -> str:
        return f"rows of {self.path!r}"

    def _facts(self) -> dict[str, object]:
        said = {
            "query": self.query,
            "begin": self.begin,
            "end": self.end,
            "as_of": self.as_of,
            "columns": None if self.columns is None else ", ".join(self.columns),
            "where": self.where,
            "read by": "Spark" if self.session is not None else "the local engine",
        }
        return {name: value for name, value in said.items() if value is not None}

    def _asked(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "begin": self.begin,
            "end": self.end,
            "as_of": self.as_of,
            "columns": self.columns,
            "where": self.where,
            "meta": self.meta,
            "options": self.options,
        }

    def _preview(self) -> tuple[list[str], list[list[object]], bool]:
        """Names of columns, rows, and whether there are more of them."""
        if self.session is not None:
            frame = self.to_spark()
            names = [str(name) for name in frame.columns]
            rows = [list(row) for row in frame.limit(_PREVIEW_ROWS + 1).collect()]
        else:
            rows = []
            with self.batches() as reader:
                names = list(reader.schema.names)
                for batch in reader:
                    some = batch.slice(0, _PREVIEW_ROWS + 1 - len(rows))
                    rows += [[_value(item) for item in row] for row in zip(*some.columns, strict=True)]
                    if len(rows) > _PREVIEW_ROWS:
                        break
        shown = [row[:_PREVIEW_COLUMNS] for row in rows[:_PREVIEW_ROWS]]
        return names[:_PREVIEW_COLUMNS], shown, len(rows) > _PREVIEW_ROWS


def _value(scalar: pa.Scalar[Any]) -> object:
    """As Python has it; of a point in time that Python can't hold the number."""
    try:
        found: object = scalar.as_py()
    except (ValueError, OverflowError):
        found = getattr(scalar, "value", "?")
    return found


def _installed(package: str, method: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"{method} needs the package {package}, which is not here ({error}); install it, or call "
            "to_arrow",
            package=package,
        ) from None


@dataclass(frozen=True, kw_only=True, repr=False)
class HistoryEntry(Shown):
    """One instant of a table's timeline.

    instant: its time of the request. state: requested, inflight or completed. changed: when its newest file
    was written, in UTC; None where an archive does not say it. completion: of a completed one, as a
    WriteResult has it. operation (as in a WriteResult), partitions, inserts, updates, deletes, files,
    bytes: of a completed commit, else None. undone: instants that a rollback or a restore took back.
    restored_to: of a restore. user, comments: of a savepoint.
    """

    instant: str
    action: str
    state: str
    changed: datetime | None = None
    completion: str | None = None
    operation: str | None = None
    partitions: list[str] | None = None
    inserts: int | None = None
    updates: int | None = None
    deletes: int | None = None
    files: int | None = None
    bytes: int | None = None
    undone: list[str] | None = None
    restored_to: str | None = None
    user: str | None = None
    comments: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> HistoryEntry:
        """`found`: as of `hoodie.instants`."""
        known = {field.name for field in fields(cls)}
        changed, operation = found.get("changed_ms"), found.get("operation")
        own = {
            "changed": None if changed is None else datetime.fromtimestamp(changed / 1000, timezone.utc),
            "operation": operation.lower() if isinstance(operation, str) else None,
        }
        return cls(**{name: value for name, value in found.items() if name in known} | own)


@dataclass(frozen=True, kw_only=True, repr=False)
class LogFile(Shown):
    """`bytes` is its size."""

    name: str
    bytes: int


@dataclass(frozen=True, kw_only=True, repr=False)
class FileSlice(Shown):
    """name: of the base file; None where the slice has log files only, and `bytes` is 0 then. logs: in the
    order in which they are read.
    """

    instant: str
    name: str | None
    bytes: int
    logs: list[LogFile]


@dataclass(frozen=True, kw_only=True, repr=False)
class FileGroup(Shown):
    """slices: newest first."""

    partition: str
    file_id: str
    slices: list[FileSlice]

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> FileGroup:
        """`found`: as of `hoodie.file_groups`."""
        return cls(
            partition=found["partition"],
            file_id=found["file_id"],
            slices=[
                FileSlice(**{**item, "logs": [LogFile(**log) for log in item["logs"]]})
                for item in found["slices"]
            ],
        )
