"""Operators that commit: upsert, insert, bulk insert, delete, insert overwrite, delete of partitions."""

from __future__ import annotations

import contextlib
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hoodie.arguments import is_absolute, is_later, is_template, option_texts
from airflow_hoodie.engines import Choice, choose, size_of
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    from_error,
)
from airflow_hoodie.operators.base import HoodieJobOperator
from airflow_hoodie.operators.services import HoodieLocalOperator
from airflow_hoodie.publication import Handover, emitting
from airflow_hoodie.runs import (
    ALLOW_OUT_OF_ORDER,
    MAX_AMPLIFICATION,
    check_services,
    committed_before,
    services_option,
)
from airflow_hoodie.sources import Files, Incoming, StagedSource, incoming, is_query, is_rows, plain, query
from airflow_hoodie.table import HoodieTable, check_options
from hoodie.concurrency.queue import Rank
from hoodie.config.functions import Function, name_of, shown
from hoodie.errors import HoodieError
from hoodie.source.fingerprint import partition_source, transform_source
from hoodie.storage import normalize

if TYPE_CHECKING:
    from airflow.sdk import Context

FORMATS = ("parquet", "csv", "json", "avro", "orc", "table", "sql")


class HoodieCommitOperator(HoodieJobOperator):
    """Base of the operators that make a commit.

    The XCom `return_value` is the job's WriteResult (docs/results.md). With `deferrable=True` it needs
    `exactly_once` or a token. Other parameters: HoodieJobOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    :param exactly_once: a retry, a cleared task and another run of the same data interval find the commit of
        the first run and return its result with the status `already_committed`, before a job is submitted or
        after. A source that changed meanwhile is written again, with a warning.
    :param token: replaces the token made of DAG, task, map index and data interval. (templated)
    :param force: write again in any case.
    :param services: `on` runs the services that the table's settings enable after a write (clean, archive,
        compaction), `off` leaves them out, `auto` leaves them out in runs of a backfill, at whose end
        BackfillMaintenanceOperator runs them once.
    :param allow_out_of_order: an older data interval may replace what a later one wrote to the same
        partitions. Otherwise such a write fails unless an ordering field keeps the newer rows.
    :param max_write_amplification: the most bytes that the write may write for each byte that it changes, by
        its plan. One that needs more fails with HoodieValidationError before anything is written. None: what
        the options say, else no limit.
    :param emit_asset: add the table's asset to the outlets, unless its path is templated or relative. The
        event contains instant, action, partitions, counts and operation. If `table.partitions` is among the
        outlets, each partition with changed files gets an event too. What was done by an earlier run, whose
        event is there, gets none.
    """

    operation: str
    changes_rows = makes_table = needs_token = True
    rank = Rank.WRITER

    template_fields: Sequence[str] = ("token", *HoodieJobOperator.template_fields)

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        exactly_once: bool = True,
        token: str | None = None,
        force: bool = False,
        services: str = "auto",
        allow_out_of_order: bool = False,
        max_write_amplification: float | None = None,
        emit_asset: bool = True,
        **kwargs: Any,
    ) -> None:
        # whether the task may be deferred depends on them
        self.exactly_once = exactly_once
        self.token = token
        super().__init__(table=table, options=options, **emitting(self, table, emit_asset, kwargs))
        check_options(self.operation, table, options)
        self.force = force
        self.services = check_services(services)
        self.allow_out_of_order = allow_out_of_order
        self.max_write_amplification = max_write_amplification

    def described(self) -> Mapping[str, Any]:
        """What is written, as the token's fingerprint is made of it; raises HoodieConfigurationError."""
        raise NotImplementedError

    def done_before(self, context: Context) -> dict[str, Any] | None:
        """The result of this write's commit, when there is one: no job is submitted then."""
        if not self.token or self.force:
            return None
        table = HoodieTable.from_dict(self.table)
        found = committed_before(
            table.path, self.token, self.operation, self.described(), {**table.options, **self.options}
        )
        if found is None:
            return None
        self.log.info("%s was committed at %s; nothing is submitted", self.token, found.instant)
        return found.result(table.name, normalize(table.path))

    def run_options(self, context: Context) -> dict[str, str]:
        own = {ALLOW_OUT_OF_ORDER: "true"} if self.allow_out_of_order else {}
        if self.max_write_amplification is not None:
            own[MAX_AMPLIFICATION] = str(self.max_write_amplification)
        return {**super().run_options(context), **services_option(self.services, context), **own}

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        return {
            "table": table.path,
            "operation": self.operation,
            "options": table.options_for(self.operation, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
            **({"token": self.token, "force": self.force} if self.token else {}),
        }


class HoodieWriteOperator(HoodieCommitOperator):
    """Base of the operators with a source. Other parameters and the result: HoodieCommitOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param source: path or glob of the incoming rows, a list of them, or {"path", "format", "options"}. The
        default format follows the suffix (.csv, .json, .jsonl; else parquet). With the format `table` the
        path is that of another Hudi table, with `sql` it is a Spark SQL query, which runs with all rights of
        the Spark session. Or {"conn_id", "sql", "parameters"}: a query of a database's connection. Or what
        another task returned: rows (DataFrame, Arrow, list of dicts) or an ObjectStoragePath. (templated)
    :param transform: one SELECT over the rows of the source, which it names `source`; its answer is what is
        written. DuckDB's SQL with the local engine, else Spark's, with all rights of the session. Or a Python
        function of Arrow batches that the job can import, itself or as `package.module:function`. A retry
        with another text is another write. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    #: the job's source, while rows that are in no files are laid down as files
    staged: dict[str, Any] | None = None

    template_fields: Sequence[str] = ("source", "transform", *HoodieCommitOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **HoodieCommitOperator.template_fields_renderers,
        "source": "json",
        "transform": "sql",
    }

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        source: Any,
        transform: str | Function | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        self.source: Any = source if is_later(source) else _checked_source(source)
        self.transform: Any = transform
        if transform is not None and not is_later(transform):
            self.transform = transform_text(transform)

    def described(self) -> Mapping[str, Any]:
        transform = transform_text(self.transform)
        try:
            own = {} if transform is None else transform_source(transform)
        except HoodieError as error:
            raise from_error(error) from error
        given = self._incoming()
        return {**(given.described() if given else source_request(self.source)), **own}

    def auto_choice(self) -> Choice:
        limit = size_of("local_max_size", self.local_max_size)
        source = self.staged or source_request(self.source)
        return choose(self.table["path"], {self.operation}, source, limit, self.settings(), self.transform)

    def request(self) -> dict[str, Any]:
        """A source that is no files is the staged ones, and `described` what the job's token compares."""
        given = self._incoming()
        if given is None:
            source: dict[str, Any] = {"source": source_request(self.source)}
        else:
            source = {"source": self.staged, "described": given.described()}
        return {**super().request(), **source, **_transform(self.transform)}

    @property
    def handover(self) -> Handover:  # type: ignore[override]
        return StagedSource(self) if self._incoming() is not None else Handover()

    def _incoming(self) -> Incoming | None:
        """Of the rendered source, where it is no files; it is converted once. Raises
        HoodieConfigurationError and HoodieValidationError.
        """
        if _is_paths(self.source):
            return None
        given = incoming(self.source)
        if given is None:
            self.source = plain(self.source)
        elif not is_query(self.source):
            self.source = given
        return given

    def on_rendered(self) -> None:
        """Rows are no settings: what is shown of them, and searched for secrets, is their description."""
        with contextlib.suppress(HoodieException):  # `execute` says it
            self._incoming()
        super().on_rendered()


class UpsertOperator(HoodieWriteOperator):
    """Inserts new rows and updates the rows whose key is in the table. Parameters: HoodieWriteOperator."""

    job = operation = "upsert"


class InsertOperator(HoodieWriteOperator):
    """Appends rows, small files first, without a look-up of their keys. Parameters: HoodieWriteOperator."""

    job = operation = "insert"


class BulkInsertOperator(HoodieWriteOperator):
    """Appends rows as new files, the fastest first load of a table. Parameters: HoodieWriteOperator."""

    job = operation = "bulk_insert"


class DeleteOperator(HoodieWriteOperator):
    """Deletes the rows whose keys are in the source. Parameters: HoodieWriteOperator.

    The source needs the columns of record key and partition path only. Keys that are not in the table are no
    error: the result's `num_missing` counts them.
    """

    job = operation = "delete"


class InsertOverwriteOperator(HoodieWriteOperator):
    """Replaces the partitions that the source has rows for. Other parameters: HoodieWriteOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param source: see HoodieWriteOperator. (templated)
    :param whole_table: replace all partitions; a source without rows then empties the table.
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = operation = "insert_overwrite"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        source: Any,
        whole_table: bool = False,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.whole_table = whole_table
        if whole_table:
            self.job = self.operation = "insert_overwrite_table"
        super().__init__(table=table, source=source, options=options, **kwargs)


class DeletePartitionOperator(HoodieCommitOperator, HoodieLocalOperator):
    """Deletes whole partitions. Queries see no row of them from then on; the cleaner deletes their files.

    Other parameters and the result: HoodieCommitOperator, and `engine` of HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param partitions: partition path as in the table, such as "2024-01-31" or "country=de", or a list of
        them; `*` matches any text. (templated)
    :param missing_ok: a partition without rows in the table is a warning, not an error.
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = operation = "delete_partition"

    template_fields: Sequence[str] = ("partitions", *HoodieCommitOperator.template_fields)

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        partitions: str | Sequence[str],
        missing_ok: bool = False,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        self.partitions = partitions if is_later(partitions) else _partitions(partitions)
        self.missing_ok = missing_ok

    def described(self) -> Mapping[str, Any]:
        return partition_source(_partitions(self.partitions))

    def request(self) -> dict[str, Any]:
        request = {**super().request(), "partitions": _partitions(self.partitions)}
        return {**request, "missing_ok": True} if self.missing_ok else request


def _partitions(value: Any) -> list[str]:
    """Raises HoodieConfigurationError."""
    named = [value] if isinstance(value, str) else value
    paths = isinstance(named, (list, tuple)) and all(isinstance(n, str) and n.strip("/") for n in named)
    if not named or not paths:
        raise HoodieConfigurationError(
            f"partitions are {value!r}; pass a partition path such as '2024-01-31', or a list of them"
        )
    return list(named)


def transform_text(transform: Any) -> str | None:
    """The SELECT, or the name of the function. Raises HoodieConfigurationError for what is neither."""
    if callable(transform):
        if (name := name_of(transform)) is None:
            raise HoodieConfigurationError(
                f"transform is the function {shown(transform)}, which the job's process can't import; move "
                "it out of the DAG file into a module on PYTHONPATH, as a function of its own"
            )
        return name
    if transform is not None and not _is_text(transform):
        raise HoodieConfigurationError(
            f"transform is {transform!r}; give one SELECT, such as 'select * from source', a function or its "
            "name as module:function, or None"
        )
    return None if transform is None else str(transform)


def _transform(transform: Any) -> dict[str, str]:
    text = transform_text(transform)
    return {} if text is None else {"transform": text}


def _checked_source(source: Any) -> Any:
    """A source as a DAG gives it; files in the form of the request. Raises HoodieConfigurationError."""
    if _is_paths(source):
        return source_request(source)
    if is_query(source):
        query(source)
        return dict(source)
    if is_rows(source) or isinstance(incoming(source), Files):
        return source
    return source_request(source)


def _is_paths(source: Any) -> bool:
    """A path, or a mapping with one: what most sources are."""
    return isinstance(source, str) or (
        isinstance(source, Mapping)
        and isinstance(source.get("path"), str)
        and "sql" not in source
        and "conn_id" not in source
    )


def source_request(source: Any) -> dict[str, Any]:
    """Source argument, of files -> the request's source. Raises HoodieConfigurationError."""
    source = source if _is_paths(source) else plain(source)
    described = source if isinstance(source, Mapping) else {"path": source}
    if unknown := sorted(set(described) - {"path", "format", "options"}):
        raise HoodieConfigurationError(
            f"source has no field {', '.join(map(repr, unknown))}; use path, format, options"
        )
    path: Any = described.get("path")
    several = isinstance(path, (list, tuple)) and bool(path) and all(map(_is_text, path))
    if not several and not _is_text(path):
        raise HoodieConfigurationError(
            f"source path is {reprlib.repr(path)}; pass a path or glob, a list of them, or "
            '{"path": ..., "format": ...}'
        )
    request: dict[str, Any] = {"path": path if isinstance(path, str) else list(path)}
    if (kind := described.get("format")) != "sql" and not (isinstance(kind, str) and is_template(kind)):
        for item in [path] if isinstance(path, str) else path:
            check_source_path(item)
    if kind:
        if kind not in FORMATS and not (isinstance(kind, str) and is_template(kind)):
            raise HoodieConfigurationError(f"source format is {kind!r}; use one of {', '.join(FORMATS)}")
        request["format"] = kind
    if described.get("options") is not None and (options := option_texts(described["options"])):
        request["options"] = options
    return request


def check_source_path(path: str) -> None:
    """Raises HoodieConfigurationError for a path that is relative; templates are left out."""
    if not (is_template(path) or is_absolute(path)):
        raise HoodieConfigurationError(
            f"source path {path!r} is relative, so every worker would take another folder; use an "
            "absolute path, or a URI such as s3://bucket/folder"
        )


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
