"""Operators of table services: compaction, clustering, cleaning, archiving, indexes, sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook

from airflow_hoodie.arguments import is_later, is_template, nearest
from airflow_hoodie.engines import LOCAL, Choice
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.base import HoodieJobOperator
from airflow_hoodie.secrets import hide
from airflow_hoodie.storage_conn import aws_settings
from airflow_hoodie.table import HoodieTable, check_options

MODES = ("schedule", "execute", "run")
_CATALOG = "hoodie.meta.sync.client.tool.class"
_AWS_KEYS = ("hoodie.aws.access.key", "hoodie.aws.secret.key", "hoodie.aws.session.token")
#: indexes of all columns or keys, and how names of those of one column begin
INDEXES = ("files", "column_stats", "bloom_filters", "record_index", "partition_stats")
OF_COLUMNS = ("secondary_index_", "expr_index_")
_USING = ("secondary_index", "column_stats", "bloom_filters")
INDEX_MODES = ("show", "create", "schedule", "execute", "drop", "rebuild")


class RewriteOperator(HoodieJobOperator):
    """Base of the services that put a plan on the timeline and execute it.

    Writers may run while a plan is executed. To make one the job waits for writers at work
    (`wait_for_writer`), and writers wait for it, a short time. Other parameters: HoodieJobOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param mode: `schedule` makes a plan if one is due, `execute` executes the pending plans, oldest first,
        `run` does both. (templated)
    :param instant: with mode `execute` the plan to execute; a blank text means all pending plans. A plan that
        is completed is no error. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    template_fields: Sequence[str] = ("mode", "instant", *HoodieJobOperator.template_fields)

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        mode: str = "run",
        instant: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        check_options(self.job, table, options)
        if not (is_deferred(mode) or is_deferred(instant)):
            _check(mode, instant)
        self.mode = mode
        self.instant = instant

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        instant = (self.instant or "").strip() or None
        _check(self.mode, instant)
        return {
            "table": table.path,
            "operation": self.job,
            "mode": self.mode,
            **({"instant": instant} if instant else {}),
            "options": table.options_for(self.job, self.options),
            "extra_metadata": {name: str(value) for name, value in self.extra_metadata.items()},
        }


class CompactionOperator(RewriteOperator):
    """Merges the logs of a merge-on-read table into its base files.

    By default a compaction is due after 5 delta commits (`hoodie.compact.inline.max.delta.commits`). The XCom
    `return_value` is the job's CompactionResult (docs/results.md). Other parameters: RewriteOperator.

    :param table: HoodieTable or its dict form. (templated)
    """

    job = "compact"

    ui_color = "#e8dff5"

    def __init__(self, *, table: HoodieTable | Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(table=table, **kwargs)
        if not is_later(table):
            _check_type(HoodieTable.of(table))

    def request(self) -> dict[str, Any]:
        _check_type(HoodieTable.from_dict(self.table))
        return super().request()


class LogCompactionOperator(CompactionOperator):
    """Merges the logs of each file slice of a merge-on-read table of version 8 or 9 into one log.

    By default a log compaction is due after 5 delta commits (`hoodie.log.compaction.blocks.threshold`). The
    XCom `return_value` is the job's CompactionResult (docs/results.md). Parameters: CompactionOperator.
    """

    job = "log-compact"

    ui_color = "#eee5f5"


class ClusteringOperator(RewriteOperator):
    """Rewrites small files of a table into larger ones, sorted by columns that queries filter by.

    By default files below 300 MB are rewritten into files of up to 1 GB, and rows are not sorted
    (`hoodie.clustering.*`, `hoodie.layout.optimize.*`; `hoodie.clustering.plan.strategy.sort.columns` sorts).
    While a plan is pending, writers may add rows and change rows of other files. A write that updates rows of
    the plan's files fails, unless it may roll the plan back
    (`hoodie.clustering.rollback.pending.replacecommit.on.conflict`).

    The XCom `return_value` is the job's ClusteringResult (docs/results.md). Parameters: RewriteOperator.
    """

    job = "cluster"

    ui_color = "#dfeaf5"


class HoodieLocalOperator(HoodieJobOperator):
    """Base of the services that need no executors. Other parameters: HoodieJobOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    :param engine: `local` and `auto` run the job in a process on the worker, without Spark and its
        connection; the worker needs the packages of airflow-hoodie[local] and access to the table's storage.
        `spark` submits it. (templated)
    :param local_memory: bytes that a local job may allocate; None: no bound of its own.
    """

    distributed = False

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        engine: str = LOCAL,
        local_memory: str | int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, engine=engine, local_memory=local_memory, **kwargs)
        check_options(self.job, table, options)

    def auto_choice(self) -> Choice:
        return Choice(LOCAL, "the job needs no executors")

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        return {
            "table": table.path,
            "operation": self.job,
            "options": table.options_for(self.job, self.options),
        }


class CleanOperator(HoodieLocalOperator):
    """Deletes file slices that are older than what the cleaner's settings keep.

    By default the cleaner keeps the last 10 commits (`hoodie.cleaner.commits.retained`); writes also clean by
    themselves (`hoodie.clean.automatic`). Writers may run while files are deleted. To make a plan the job
    waits for writers at work (`wait_for_writer`), and writers wait for it, a short time.

    The XCom `return_value` is the job's CleanResult (docs/results.md) without names of files. Other
    parameters: HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param mode: `schedule` makes a plan if one is due, `execute` executes the pending plans, oldest first,
        `run` does both. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = "clean"

    template_fields: Sequence[str] = ("mode", *HoodieJobOperator.template_fields)
    ui_color = "#e3f1e1"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        mode: str = "run",
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        if not is_deferred(mode):
            _check(mode, None)
        self.mode = mode

    def request(self) -> dict[str, Any]:
        _check(self.mode, None)
        return {**super().request(), "mode": self.mode}


class ArchiveOperator(HoodieLocalOperator):
    """Moves old instants from the active into the archived timeline.

    By default 20 to 30 commits stay (`hoodie.keep.min.commits`, `hoodie.keep.max.commits`); writes also
    archive by themselves (`hoodie.archive.automatic`). The job waits for writers at work (`wait_for_writer`),
    and writers wait for it, a short time.

    The XCom `return_value` is the job's ArchiveResult (docs/results.md). Parameters: HoodieLocalOperator.
    """

    job = "archive"

    ui_color = "#f1ece1"


class IndexOperator(HoodieLocalOperator):
    """Makes, plans, drops, rebuilds or shows indexes of the table's metadata table.

    `create` of an index that is there is no error, and neither is `drop` of one that is not there, so that a
    retry succeeds. The job waits for a writer or a service at work (`wait_for_writer`); a compaction, a
    clustering or a clean that is planned and not executed raises HoodieConflictError, which names it. Queries
    may run meanwhile.

    The XCom `return_value` is the job's IndexResult (docs/results.md). Other parameters: HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param mode: `create`, `drop`, `rebuild`, where indexes disagree with the table, or `show`; `schedule`,
        and `execute`, which makes what is planned beside writers. (templated)
    :param indexes: names: `files`, `column_stats`, `bloom_filters`, `record_index`, or a text with commas
        between them; None means all that the table has. `create` and `schedule` need some. (templated)
    :param column: with `create`, tables of versions 8 and 9: the column of a secondary index or of an index
        of an expression, whose name `indexes` has. (templated)
    :param using: with `column`: `secondary_index`, `column_stats` or `bloom_filters`. (templated)
    :param expression: with `column`: a function such as `lower`, or with options
        `expr='substring',pos='1',len='3'`. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = "index"

    template_fields: Sequence[str] = (
        *("mode", "indexes", "column", "using", "expression"),
        *HoodieJobOperator.template_fields,
    )
    ui_color = "#e6e3f4"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        mode: str,
        indexes: Sequence[str] | str | None = None,
        column: str | None = None,
        using: str | None = None,
        expression: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        listed = isinstance(indexes, (list, tuple))
        if not is_deferred(mode):
            named = _names(indexes) if listed or not is_deferred(indexes) else ["{{ }}"]
            _check_index(mode, named, column, using)
        self.mode = mode
        self.indexes = indexes
        self.column = column
        self.using = using
        self.expression = expression

    def request(self) -> dict[str, Any]:
        names = _names(self.indexes)
        _check_index(self.mode, names, self.column, self.using)
        return {
            **super().request(),
            "mode": self.mode,
            "indexes": ",".join(names) or None,
            "column": self.column,
            "using": self.using,
            "expression": self.expression,
        }


class HiveSyncOperator(HoodieLocalOperator):
    """Enters the table in Hive's metastore or AWS Glue, or mends its columns, partitions, properties there.

    The table itself is not changed, and writers may be at work. A retry does what is left. The worker needs
    the extra `hive-metastore`, or `glue`.

    The XCom `return_value` is the job's SyncResult (docs/results.md). Other parameters: HoodieLocalOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param metastore: its address, `thrift://host:9083`, several with commas, or `glue` for AWS Glue; None
        means what `hoodie.meta.sync.client.tool.class` and `hoodie.datasource.hive_sync.metastore.uris` say.
        (templated)
    :param aws_conn_id: connection of type `aws`, for AWS Glue: its keys, and its region and endpoint where
        the options have none. None: the worker's own credentials, or those of the options. (templated)
    :param database: that of the entries; None means that of `hoodie.datasource.hive_sync.database`.
        (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    job = "sync"
    rank = None

    template_fields: Sequence[str] = (
        "metastore",
        "database",
        "aws_conn_id",
        *HoodieJobOperator.template_fields,
    )
    ui_color = "#f4e9dc"

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        metastore: str | None = None,
        database: str | None = None,
        aws_conn_id: str | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        self.metastore = metastore
        self.database = database
        self.aws_conn_id = aws_conn_id

    def request(self) -> dict[str, Any]:
        named = {"metastore": self.metastore, "database": self.database}
        texts = {name: (text or "").strip() or None for name, text in named.items()}
        request = {**super().request(), **texts}
        conn_id = (self.aws_conn_id or "").strip()
        if not conn_id:
            return request
        options = request["options"]
        tool = options.get(_CATALOG, "").lower()
        if "glue" not in (texts["metastore"] or tool).lower():
            raise HoodieConfigurationError(
                f"aws_conn_id is {conn_id!r}, but the table is not synced with AWS Glue; leave it out, or "
                "set metastore='glue'"
            )
        if own := sorted(name for name in options if name in _AWS_KEYS):
            raise HoodieConfigurationError(
                f"aws_conn_id is {conn_id!r}, and the options have {', '.join(own)}, too; leave one out"
            )
        return {**request, "options": {**_of_connection(conn_id), **options}}


def _of_connection(conn_id: str) -> dict[str, str]:
    """The settings of a connection for AWS Glue, hidden in logs. Raises HoodieConfigurationError."""
    try:
        conn = BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise HoodieConfigurationError(
            f"aws_conn_id is {conn_id!r}, which is not defined; define the connection, or correct the id"
        ) from None
    found = aws_settings(conn_id, conn, "glue", "hoodie.aws.glue")
    hide(found)
    return found


def _names(indexes: Sequence[str] | str | None) -> list[str]:
    names = (indexes or "").split(",") if indexes is None or isinstance(indexes, str) else indexes
    return [str(name).strip() for name in names if str(name).strip()]


def _check_index(mode: str, names: Sequence[str], column: Any, using: Any) -> None:
    """Raises HoodieConfigurationError for what no table can make; templates are left out."""
    if mode not in INDEX_MODES:
        raise HoodieConfigurationError(f"mode is {mode!r}; use one of {', '.join(INDEX_MODES)}")
    if using is not None and not is_deferred(using) and using not in _USING:
        raise HoodieConfigurationError(f"using is {using!r}; use one of {', '.join(_USING)}")
    if mode not in ("create", "schedule") or column:
        return
    if not names:
        raise HoodieConfigurationError(f"indexes are none; name those to {mode}, such as column_stats")
    for name in names:
        known = name.lower() in INDEXES or name.startswith(OF_COLUMNS)
        if not (known or is_template(name)):
            raise HoodieConfigurationError(
                f"there is no index {name!r}{nearest(name, INDEXES)}; use some of {', '.join(INDEXES)}, or "
                "give column= for an index of one column"
            )


def is_deferred(value: Any) -> bool:
    """Jinja, an XComArg or a mapped value, known when the task runs."""
    return is_template(value) if isinstance(value, str) else value is not None


def _check_type(table: HoodieTable) -> None:
    if table.table_type != "MERGE_ON_READ":
        raise HoodieConfigurationError(
            f"table {table.name!r} is {table.table_type}, which has no logs to compact; "
            'CompactionOperator is for tables with table_type="MERGE_ON_READ"'
        )


def _check(mode: str, instant: str | None) -> None:
    if mode not in MODES:
        raise HoodieConfigurationError(f"mode is {mode!r}; use one of {', '.join(MODES)}")
    if instant and mode != "execute":
        raise HoodieConfigurationError(
            f"instant {instant!r} is for mode='execute', which runs that plan only; leave it out for {mode!r}"
        )
