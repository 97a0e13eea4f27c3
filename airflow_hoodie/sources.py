"""Sources that are no files which a job could read: rows that another task returned, the query of a SQL
connection, and files behind a connection of Airflow.

A task lays them as files into a folder of its own, and its job reads these (docs/airflow.md). So a job has
one kind of source, and engines, errors and results are the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from airflow.providers.common.compat.sdk import AirflowException, AirflowNotFoundException
from airflow.sdk import BaseHook

from airflow_hoodie.arguments import is_template
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieJobKilledError,
    HoodieSourceNotFoundError,
    from_error,
)
from airflow_hoodie.publication import Handover
from airflow_hoodie.secrets import private_folder
from hoodie.errors import HoodieError
from hoodie.timeline.staged_rows import StagedRows

#: fields of a source that is a query
OF_QUERY = ("conn_id", "sql", "parameters")
_CHUNK = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Staging:
    """Where a task lays its rows: a folder of this machine, for a table with these settings. `go_on` is
    called between batches, and may raise.
    """

    folder: Path
    table: str
    settings: Mapping[str, Any]
    go_on: Callable[[], None]


class Incoming(Protocol):
    """A source that is laid down as files."""

    def described(self) -> dict[str, Any]:
        """What the token's fingerprint is made of; raises HoodieConfigurationError."""

    def stage(self, staging: Staging) -> dict[str, Any]:
        """The job's source: paths of new files, and their format."""


def incoming(source: Any) -> Incoming | None:
    """None for a source that the job reads itself, and for what is no source. Raises HoodieConfigurationError
    and HoodieValidationError.
    """
    if isinstance(source, (Query, Rows, Files)):
        return source
    if is_query(source):
        return query(source)
    if is_rows(source) or (_is_list(source) and not source):
        return _rows(source)
    described = source if isinstance(source, Mapping) else {"path": source}
    path: Any = described.get("path")
    paths: list[Any] = list(path) if _is_list(path) else [path]
    if not any(_is_path(item) and item.conn_id for item in paths):
        return None
    if not all(map(_is_path, paths)):
        raise HoodieConfigurationError(
            "source has ObjectStoragePaths with a connection, and others besides; give all of them as "
            "ObjectStoragePaths"
        )
    return Files(tuple(paths), {name: item for name, item in described.items() if name != "path"})


def plain(source: Any) -> Any:
    """A source that the job reads, with lists and texts in place of Airflow's classes. Raises
    HoodieConfigurationError for a path with a connection, which the job does not open.
    """
    if isinstance(source, Mapping):
        return {**source, "path": plain(source["path"])} if "path" in source else source
    if _is_list(source):
        return [plain(item) for item in source]
    if not _is_path(source):
        return source
    if source.conn_id:
        raise HoodieConfigurationError(
            f"source {source} is opened by the connection {source.conn_id!r}, and this operator's job lists "
            "the source itself; give the path without it, and credentials by storage_conn_id "
            "(docs/storage.md)"
        )
    return str(source)


def is_rows(source: Any) -> bool:
    """Rows that are in no files: a DataFrame, Arrow, or a list of dicts. Nothing is imported for it."""
    if _is_list(source):
        return bool(source) and all(isinstance(item, Mapping) for item in source)
    own = ("__arrow_c_stream__", "__arrow_c_array__")
    kinds = {kind.__name__ for kind in type(source).__mro__}
    return any(hasattr(source, name) for name in own) or bool(kinds & {"DataFrame", "LazyFrame"})


def is_query(source: Any) -> bool:
    return isinstance(source, Mapping) and any(name in source for name in OF_QUERY)


def query(source: Mapping[str, Any]) -> Query:
    """Raises HoodieConfigurationError."""
    if others := sorted(set(source) - set(OF_QUERY)):
        raise HoodieConfigurationError(
            f"source has sql of a connection, and {', '.join(others)} besides; give either a query, "
            '{"conn_id": ..., "sql": ...}, or files, {"path": ..., "format": ...}'
        )
    for name, example in (("conn_id", "shop"), ("sql", "SELECT * FROM orders")):
        text = source.get(name)
        if not isinstance(text, str) or not text.strip():
            raise HoodieConfigurationError(
                f"source is a query, and its {name} is {text!r}; give a text, such as {example!r}"
            )
    parameters = source.get("parameters")
    if not isinstance(parameters, (list, tuple, Mapping, type(None))) and not _is_text(parameters):
        raise HoodieConfigurationError(
            f"source parameters are {parameters!r}; give a list or a dict, as the driver of the connection "
            "takes"
        )
    return Query(source["conn_id"], source["sql"].strip().rstrip(";"), parameters)


@dataclass(frozen=True)
class Query:
    """`parameters`: as the driver takes them, None for none."""

    conn_id: str
    sql: str
    parameters: Any = None

    def described(self) -> dict[str, Any]:
        given = {} if self.parameters is None else {"parameters": self.parameters}
        return {"conn_id": self.conn_id, "sql": self.sql, **given}

    def stage(self, staging: Staging) -> dict[str, Any]:
        from hoodie.source.query import spool_query

        path = str(staging.folder / "query.parquet")
        connection = self._hook().get_conn()
        try:
            rows = (self.sql, self.parameters, path, staging.table, staging.settings, staging.go_on)
            spool_query(connection, *rows)
        except HoodieError as error:
            raise from_error(error) from error
        finally:
            connection.close()
        return {"path": path, "format": "parquet"}

    def _hook(self) -> Any:
        conn_id = self.conn_id
        try:
            connection: Any = BaseHook.get_connection(conn_id)
            hook = connection.get_hook()
        except AirflowNotFoundException:
            raise HoodieConfigurationError(
                f"source connection {conn_id!r} is not defined; set AIRFLOW_CONN_{conn_id.upper()}, or add "
                "it under Admin, Connections"
            ) from None
        except AirflowException as error:
            raise HoodieConfigurationError(
                f"source connection {conn_id!r} has no hook on this worker: {error}; install Airflow's "
                "provider of its type there"
            ) from None
        if not (hasattr(hook, "get_conn") and hasattr(hook, "get_records")):
            raise HoodieConfigurationError(
                f"source connection {conn_id!r} has a {type(hook).__name__}, which runs no SQL; name the "
                "connection of a database"
            )
        return hook


@dataclass(frozen=True)
class Rows:
    """Rows as a task returned them: `table` is Arrow's, `kind` their class. Its text is what is shown."""

    table: Any = field(repr=False)
    kind: str

    def __str__(self) -> str:
        names = ", ".join(self.table.schema.names[:20])
        return f"{self.kind} of {self.table.num_rows} rows" + (f": {names}" if names else "")

    def described(self) -> dict[str, Any]:
        from hoodie.source.spool import digest

        return {"rows": digest(self.table)}

    def stage(self, staging: Staging) -> dict[str, Any]:
        from hoodie.source.spool import spool

        path = str(staging.folder / "rows.parquet")
        try:
            spool(self.table, path, staging.table, staging.settings)
        except HoodieError as error:
            raise from_error(error) from error
        return {"path": path, "format": "parquet"}


@dataclass(frozen=True)
class Files:
    """Files, or folders of files, of a storage that Airflow opens by a connection, as its ObjectStoragePaths.
    `how`: format and options as of a source of files.
    """

    paths: tuple[Any, ...]
    how: Mapping[str, Any]

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))

    @property
    def places(self) -> list[str]:
        """The paths, without their connections."""
        return [f"{path.protocol}://{path.path}" for path in self.paths]

    def described(self) -> dict[str, Any]:
        seen = [(str(file), file.stat().st_size, str(file.checksum())) for file in self._found()]
        return {"files": [str(path) for path in self.paths], **self.how, "seen": seen}

    def stage(self, staging: Staging) -> dict[str, Any]:
        paths: list[str] = []
        for number, file in enumerate(self._found()):
            path = staging.folder / f"{number}-{file.name}"
            with file.open("rb") as read, path.open("wb") as out:
                while data := read.read(_CHUNK):
                    staging.go_on()
                    out.write(data)
            paths.append(str(path))
        return {"path": paths, **self.how}

    def _found(self) -> list[Any]:
        files = [file for path in self.paths for file in ([path] if path.is_file() else sorted(_below(path)))]
        if not files:
            raise HoodieSourceNotFoundError(
                f"no such source: {self}; check the path and its connection", code="source_not_found"
            )
        return files


def _is_path(value: Any) -> bool:
    """Is it an ObjectStoragePath, whose module is dear to import."""
    return any(kind.__name__ == "ObjectStoragePath" for kind in type(value).__mro__)


def _below(folder: Any) -> Iterator[Any]:
    if not folder.is_dir():
        return
    for item in folder.iterdir():
        if item.name.startswith(("_", ".")) and "=" not in item.name:
            continue
        if item.is_dir():
            yield from _below(item)
        else:
            yield item


def _rows(source: Any) -> Rows:
    from hoodie.source.spool import rows_of

    try:
        found = rows_of(list(source) if _is_list(source) else source)
    except HoodieError as error:
        raise from_error(error) from error
    if found is None:
        raise HoodieConfigurationError(
            f"source is a {type(source).__name__}, which has no rows that can be read; pass a DataFrame of "
            "pandas or polars, a pyarrow Table, or a list of dicts"
        )
    return Rows(found, "list" if _is_list(source) else type(source).__name__)


def _is_list(source: Any) -> bool:
    """Also what Airflow gives for the values of a mapped task."""
    return isinstance(source, Sequence) and not isinstance(source, (str, bytes))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_template(value)


class StagedSource(Handover):
    """Of a running operator with such a source. Methods raise the exceptions of airflow_hoodie.exceptions."""

    def __init__(self, operator: Any) -> None:
        self._operator = operator

    @contextlib.contextmanager
    def staged(self) -> Iterator[None]:
        operator = self._operator
        given = incoming(operator.source)
        if given is None:
            raise AssertionError("an operator has it for other sources only")
        with private_folder() as folder:
            staging = Staging(
                folder=folder,
                table=operator.table["path"],
                settings=operator.settings(),
                go_on=self._go_on,
            )
            operator.staged = given.stage(staging)
            operator.log.info("%s is staged for the job", given if isinstance(given, Rows) else "The source")
            try:
                yield
            finally:
                operator.staged = None

    def shared(self, request: dict[str, Any], tag: str) -> dict[str, Any]:
        source = request["source"]
        paths = [source["path"]] if isinstance(source["path"], str) else source["path"]
        try:
            there = self._rows(tag).put([Path(path) for path in paths])
        except HoodieError as error:
            raise from_error(error) from error
        return {**request, "source": {**source, "path": there}}

    def unshare(self, tag: str) -> None:
        try:
            self._rows(tag).delete()
        except HoodieError as error:
            message = "Rows that were laid into the table's folder stay there for a week: %s"
            self._operator.log.warning(message, error.message)

    def _rows(self, tag: str) -> StagedRows:
        operator = self._operator
        return StagedRows(path=operator.table["path"], options=operator.settings(), tag=tag)

    def _go_on(self) -> None:
        if self._operator.killed:
            raise HoodieJobKilledError("the task was killed while its source was read; nothing was written")
