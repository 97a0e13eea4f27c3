"""Operators of table services: compaction, clustering, cleaning, archiving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.links.hoodie import TimelineLink
from airflow_hoodie.operators.base import HoodieSparkOperator, leave_link
from airflow_hoodie.paths import is_template
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import Context

MODES = ("schedule", "execute", "run")
ENGINES = ("local", "spark")


class RewriteOperator(HoodieSparkOperator):
    """Base of the services that put a plan on the timeline and execute it on Spark.

    Writers may run while a plan is executed. To make one the job waits for writers at work
    (`wait_for_writer`), and writers wait for it, a short time. Other parameters: HoodieSparkOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param mode: `schedule` makes a plan if one is due, `execute` executes the pending plans, oldest first,
        `run` does both. (templated)
    :param instant: with mode `execute` the plan to execute; a blank text means all pending plans. A plan that
        is completed is no error. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    """

    template_fields: Sequence[str] = ("mode", "instant", *HoodieSparkOperator.template_fields)

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
        HoodieTable.of(table).options_for(self.job, options)
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
        declared = HoodieTable.of(table)
        if declared.table_type != "MERGE_ON_READ":
            raise HoodieConfigurationError(
                f"table {declared.name!r} is {declared.table_type}, which has no logs to compact; "
                'CompactionOperator is for tables with table_type="MERGE_ON_READ"'
            )


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


class HoodieLocalOperator(HoodieSparkOperator):
    """Base of the services that need no executors. Other parameters: HoodieSparkOperator.

    :param table: HoodieTable or its dict form. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    :param engine: `local` runs the job in a process on the worker, without Spark and its connection; the
        worker needs the packages of airflow-hoodie[local] and access to the table's storage. `spark` submits
        it.
    """

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        engine: str = "local",
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, options=options, **kwargs)
        HoodieTable.of(table).options_for(self.job, options)
        if engine not in ENGINES:
            raise HoodieConfigurationError(f"engine is {engine!r}; use one of {', '.join(ENGINES)}")
        self.engine = engine
        self._local: HoodieLocalHook | None = None

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields; raises HoodieConfigurationError."""
        table = HoodieTable.from_dict(self.table)
        return {
            "table": table.path,
            "operation": self.job,
            "options": table.options_for(self.job, self.options),
        }

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns its result as a dict. Raises the exceptions of airflow_hoodie.exceptions."""
        if self.engine == "spark":
            return super().execute(context)
        self.resolve()
        leave_link(context, TimelineLink(), self)
        request = self.job_request(context)
        self._local = HoodieLocalHook(
            self.job, kill_grace_seconds=self.kill_grace_seconds, env_vars=self.env_vars
        )
        self.result = self._local.run(request)
        return self.result

    def on_kill(self) -> None:
        """End the job with all its processes; the next run finishes what it had planned."""
        if self._local is not None:
            self._local.on_kill()
        else:
            super().on_kill()


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

    template_fields: Sequence[str] = ("mode", *HoodieSparkOperator.template_fields)
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


def is_deferred(value: Any) -> bool:
    """Jinja, an XComArg or a mapped value, known when the task runs."""
    return is_template(value) if isinstance(value, str) else value is not None


def _check(mode: str, instant: str | None) -> None:
    if mode not in MODES:
        raise HoodieConfigurationError(f"mode is {mode!r}; use one of {', '.join(MODES)}")
    if instant and mode != "execute":
        raise HoodieConfigurationError(
            f"instant {instant!r} is for mode='execute', which runs that plan only; leave it out for {mode!r}"
        )
