"""What all operators share: they run a hoodie job, on Spark or on the worker.

An operator says what its job is asked (`request`), and the rest is here, from `execute` downwards. It
delegates where the job runs (airflow_hoodie.engines), how it is submitted (the hooks, and ClusterJob where a
task waits in the triggerer) and what it publishes (Publication).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hoodie import engines, stats
from airflow_hoodie.arguments import is_later, is_template, option_texts, task_options
from airflow_hoodie.clusters import job as jobs
from airflow_hoodie.compat.spark_provider import (
    SparkSubmitOperator,
    add_lineage,
    calls_on_rendered,
    check_tracking,
    hook_arguments,
)
from airflow_hoodie.engines import AUTO, DEFAULT_MAX_SIZE, LOCAL, SPARK, Choice
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError, from_error
from airflow_hoodie.hooks.hoodie import DEFAULT_SPARK_CONN, resolved
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.links.hoodie import LINKS, WITHOUT_SPARK, TimelineLink
from airflow_hoodie.preflight import check_master, check_settings, check_source
from airflow_hoodie.publication import Handover, Publication
from airflow_hoodie.runs import run_metadata, task_token, wait_option
from airflow_hoodie.secrets import hide
from airflow_hoodie.subclasses import check_templates
from airflow_hoodie.table import HoodieTable
from airflow_hoodie.turns import TableTurn, resumed
from hoodie.bundle import bundle_zip, job_script
from hoodie.concurrency.queue import Rank
from hoodie.errors import HoodieError

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

JOB_NAME = (
    "{{ ti.dag_id }}/{{ ti.task_id }}/{{ ti.run_id }}{% if ti.map_index >= 0 %}/{{ ti.map_index }}{% endif %}"
)

#: unless the user says otherwise, so that the task's log shows the job's progress (Spark 3.5 and later)
QUIET_SPARK = {"spark.log.level": "WARN"}
#: what a local job may allocate, unless its operator says otherwise
DEFAULT_MEMORY = "2g"


@calls_on_rendered
class HoodieJobOperator(SparkSubmitOperator):
    """Base of all operators: runs a hoodie job with a JSON request; its result is the XCom `return_value`.

    docs/results.md lists the fields of results. Other arguments are SparkSubmitOperator's; the job's own
    `py_files` and `application_args` precede them. The request and those settings of `conf` that contain
    secrets are passed in files that only this user can read; `application_args` are on the command line.

    :param table: HoodieTable or its dict form, or an XComArg of that form. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. They, or values of them, may
        be XComArgs. (templated)
    :param extra_metadata: texts that the commit's extra metadata gets; XComArgs as in options. (templated)
    :param hoodie_conn_id: connection of type `hoodie`; it replaces the table's.
    :param engine: `spark` submits the job. `local` runs it in a process on the worker, without Spark, a JVM
        and their connection; the worker needs the packages of airflow-hoodie[local] and access to the table's
        storage. `auto` runs small jobs locally and submits others. Arguments that say where and how Spark
        runs (`master`, `spark_conn_id`, `spark_binary`, `name`) have no effect on a local job; with `local`
        those that say what a job on Spark has (`conf`, `py_files`, `driver_memory`) are refused. A platform,
        such as `livy`, or its class runs the job (docs/clusters.md). (templated)
    :param engine_options: of a platform, such as its connection and `uploads`. (templated)
    :param local_max_size: with `auto`, the largest job that runs locally: bytes of the source's files and of
        what the last commits of the operation wrote, such as 64m.
    :param local_memory: bytes that a local job may allocate, such as 2g; beyond them it fails, or with `auto`
        is submitted. None: no bound of its own.
    :param spark_conn_id: connection of type `spark`, which names the master unless `master` does. Default:
        that of the hoodie connection, else `spark_default`.
    :param master: Spark master, such as `local[2]`. (templated)
    :param wait_for_writer: timedelta or seconds that the job waits for another writer of the table, in the
        order of arrival. With 0 or None it raises HoodieConflictError at once.
    :param dry_run: change nothing. The result has the status `planned` and says what would be done; no asset
        gets an event.
    :param kill_grace_seconds: time between SIGTERM and SIGKILL, in which a killed job cleans up.
    :param name: Spark's name of the job. Default: DAG, task and run. (templated)
    :param deferrable: wait in the triggerer without a worker slot: with the master `yarn` or `k8s://...` and
        deploy mode `cluster` until the job, once submitted, has ended (the result comes through a file beside
        the table's timeline); else, before the job, for writers at work, at most for `wait_for_writer`.
        Default: Airflow's setting `[operators] default_deferrable`, where that works.
    :param poll_interval: seconds between the triggerer's looks at a deferred job, or at the table: there 5 at
        most. Default: 30.
    :param cancel_on_kill: killing or clearing a task that waits in the triggerer kills its job. False, with
        `deferrable=True` or `detached=True`, lets it run: the next try waits for its end, or its time-out.
    :param detached: with `engine="local"`, run the job in a process that outlives the task's, and wait for
        its end in the triggerer, without a worker slot. A retry waits for the same process.
    """

    #: script in hoodie/jobs
    job: str
    #: does the job distribute work, so that its request names an engine
    distributed: ClassVar[bool] = True
    #: does it change rows, so that the table's assets have events of it
    changes_rows: ClassVar[bool] = False
    #: does it make a table where there is none
    makes_table: ClassVar[bool] = False
    #: would one that runs twice write twice, but for a token
    needs_token: ClassVar[bool] = False
    #: is a source without files an error
    needs_source: ClassVar[bool] = True
    #: of the job in the queue of its table; None where it waits for no writer
    rank: ClassVar[Rank | None] = Rank.SERVICE

    # an attribute of an operator is dear where a DAG file is parsed, and most have none of these
    exactly_once: bool = False
    #: by which the job's commit is found, of operators that have one
    token: str | None = None
    deferrable: bool | None = None
    poll_interval: float = 30.0
    cancel_on_kill: bool = True
    detached: bool = False
    engine_options: Any = None
    #: the job's result, once there is one, and the address of its Spark UI or of what is left of that
    result: dict[str, Any] | None = None
    spark_ui: str | None = None
    #: was `on_kill` called
    killed: bool = False
    #: what it ends: the hook that was made last, those before have ended
    _last_hook: HoodieLocalHook | HoodieSparkSubmitHook | None = None
    _cluster_job: jobs.ClusterJob | None = None
    _publication: Publication | None = None
    _turn: TableTurn
    #: of the trigger, where the task has waited for its turn
    turn_event: Mapping[str, Any] | None = None
    #: of a source that is no files
    handover = Handover()
    #: the request as it was sent to Spark
    submitted: dict[str, Any] | None = None
    #: the table is known when the task runs, and its asset then
    late_asset: bool = False

    template_fields: Sequence[str] = (
        "engine",
        "engine_options",
        "table",
        "options",
        "extra_metadata",
        "master",
        *SparkSubmitOperator.template_fields,
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "table": "json",
        "options": "json",
        "extra_metadata": "json",
        "conf": "json",
        "env_vars": "json",
        "application_args": "json",
    }
    ui_color = "#d6e9f8"
    operator_extra_links = LINKS

    def __init__(
        self,
        *,
        table: HoodieTable | Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        hoodie_conn_id: str | None = None,
        engine: Any = SPARK,
        engine_options: Mapping[str, Any] | None = None,
        local_max_size: str | int = DEFAULT_MAX_SIZE,
        local_memory: str | int | None = DEFAULT_MEMORY,
        spark_conn_id: str | None = None,
        master: str | None = None,
        wait_for_writer: timedelta | float | None = timedelta(hours=1),
        dry_run: bool = False,
        kill_grace_seconds: float = 30.0,
        name: str = JOB_NAME,
        deferrable: bool | None = None,
        poll_interval: float | None = None,
        cancel_on_kill: bool = True,
        detached: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=spark_conn_id or DEFAULT_SPARK_CONN, name=name, **kwargs)
        self.hoodie_conn_id = hoodie_conn_id
        self.table: Any = table if is_later(table) else self._located(table)
        self.options: Any = options if is_later(options) else task_options(options)
        self.extra_metadata: Any = extra_metadata if is_later(extra_metadata) else dict(extra_metadata or {})
        self.master = master
        if isinstance(master, str) and not is_template(master):
            check_master(master)
        self.kill_grace_seconds = kill_grace_seconds
        #: operators of Airflow have a method `dry_run`
        self.only_planned = dry_run
        self.wait_for_writer = wait_for_writer
        wait_option(wait_for_writer)
        self.spark_conn_id = spark_conn_id
        self.engine = engine
        self.local_max_size = local_max_size
        self.local_memory = local_memory
        engines.size_of("local_max_size", local_max_size)
        self._memory()
        if poll_interval is not None:
            self.poll_interval = poll_interval
        if deferrable is not None:
            self.deferrable = deferrable
        if not cancel_on_kill:
            self.cancel_on_kill = False
        if detached:
            self.detached = True
        if engine_options is not None:
            self.engine_options = engine_options
        if not self._check_engine():
            jobs.check_deferrable(self)
        if engine == LOCAL or (engine == AUTO and not self.distributed):
            self.operator_extra_links = WITHOUT_SPARK

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_templates(cls)

    # --- what operators say of their job --------------------------------------------------------------

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields."""
        raise NotImplementedError

    def run_options(self, context: Context) -> dict[str, str]:
        """Settings that follow from the operator's arguments and the run; `options` override them."""
        return wait_option(self.wait_for_writer)

    def auto_choice(self) -> Choice:
        """The engine that `auto` stands for; the fields are rendered, and the table is resolved."""
        limit = engines.size_of("local_max_size", self.local_max_size)
        operation = self.job.replace("-", "_")  # of its commits
        return engines.choose(self.table["path"], {operation}, None, limit, self.settings())

    def done_before(self, context: Context) -> dict[str, Any] | None:
        """The result of an earlier run that did it all; None where a job has to run."""
        return None

    def change(self, result: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The part of the result that says which rows are others than before; None where all are the same.

        Its status is `assets.events.FOUND` for a change that an earlier run may have emitted.
        """
        return result

    def check_result(self, result: Mapping[str, Any], context: Context) -> None:
        """Raises where the task is not to succeed with this result."""

    # --- a run, from top to bottom --------------------------------------------------------------------

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns its result. Raises the exceptions of airflow_hoodie.exceptions, and
        TaskDeferred where a cluster has the job, or the table is not free for it.
        """
        self._turn = TableTurn(self, self.turn_event)
        self.resolve()
        self.take_token(context)
        publication = self._publication = Publication(self, context)
        try:
            result = self.done_before(context)
            if result is None:
                self.extra_metadata = {**run_metadata(context), **self.extra_metadata}
                publication.link(TimelineLink())
                if self.turn_event is None and getattr(context.get("ti"), "try_number", 1) > 1:
                    publication.count("retries")
                with publication.counting_conflicts(), self.handover.staged():
                    choice = self._chosen()
                    if choice.engine == LOCAL:
                        result = self._run_here(context, publication)
                    elif choice.engine != SPARK:
                        result = self._run_on_platform(context, publication)
                    else:
                        result = self._run_on_spark(context, choice, publication)
                stats.committed(result)
            return publication.publish(result)
        finally:
            self._turn.over()
            if self._cluster_job is not None:
                self._cluster_job.drop_report()

    def execute_in_turn(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """`execute`, after the trigger's event."""
        return resumed(self, context, event)

    def resolve(self) -> None:
        """Adds path, options and Spark connection of the table's connection; each `execute` begins with it.

        A second call changes nothing. Raises HoodieConfigurationError.
        """
        self.table, conn = resolved(self._located(self.table))
        self.options = option_texts(self.options)
        if not isinstance(self.extra_metadata, Mapping):
            raise HoodieConfigurationError(
                f"extra_metadata is {self.extra_metadata!r}; pass a dict of names and texts"
            )
        if self.spark_conn_id is None:
            self.spark_conn_id = (conn.spark_conn_id if conn else None) or DEFAULT_SPARK_CONN

    def take_token(self, context: Context) -> None:
        """Sets the token of the running task, of operators that have one."""
        if self.exactly_once and not self.token:
            self.token = task_token(context)

    def _chosen(self) -> Choice:
        self._check_engine()
        if self.engine != AUTO:
            return Choice(str(self.engine), f"engine={self.engine!r}")
        choice = self.auto_choice()
        self.log.info("engine='auto' takes %s: %s", choice.engine, choice.why)
        return choice

    def job_request(self, context: Context) -> dict[str, Any]:
        """The request as it is sent: with the run's settings, where the job takes any."""
        request = self.request()
        if "options" in request:
            request["options"] = {**self.run_options(context), **request["options"]}
        return {**request, "dry_run": True} if self.only_planned else request

    def _checked_request(self, context: Context, engine: str) -> dict[str, Any]:
        """The request; raises the exception of wrong settings, before a process is started for it."""
        request = self.job_request(context)
        check_settings(request)
        return {**request, "engine": engine} if self.distributed else request

    def _run_here(self, context: Context, publication: Publication) -> dict[str, Any]:
        """The result of a job on the worker; `auto` submits one that had too little memory."""
        hook = HoodieLocalHook(
            self.job,
            kill_grace_seconds=self.kill_grace_seconds,
            env_vars=self.env_vars,
            memory=self._memory(),
            on_progress=publication.progress,
        )
        self._killable(hook)
        try:
            request = self._checked_request(context, LOCAL)
            if memory := self._memory():
                request["options"] = {**engines.task_memory(memory), **request["options"]}
            if self.detached:
                self._cluster_job = jobs.WorkerJob(self, publication, hook)
                return self._cluster_job.run(request)
            self._turn.take(request)
            return hook.run(request)
        except HoodieJobError as error:
            if self.engine != AUTO or self.killed or not engines.lacked_memory(error):
                raise
            self.log.warning("%s; engine='auto' submits the job to Spark", error)
            choice = Choice(SPARK, f"the local job failed: {error}")
        return self._run_on_spark(context, choice, publication)

    def _run_on_spark(self, context: Context, choice: Choice, publication: Publication) -> dict[str, Any]:
        """The result of a job that is submitted; raises TaskDeferred where a cluster has it."""
        try:
            script, bundle = job_script(), bundle_zip()
        except HoodieError as error:
            raise from_error(error) from error
        self.submitted = self._checked_request(context, SPARK)
        if "source" in self.submitted:
            self.check_before_spark(self.submitted["source"])
        self.application = self.application or str(script)
        self.py_files = ",".join([str(bundle), *([self.py_files] if self.py_files else [])])
        if not self.properties_file:
            self.conf = {**QUIET_SPARK, **(self.conf or {})}
        try:
            if self.may_defer() and (cluster := jobs.cluster_of(self.make_hook(detached=True))):
                self._cluster_job = jobs.ClusterJob(self, cluster, publication)
                return self._cluster_job.run(self.submitted)
            self._turn.take(self.submitted)
            add_lineage(self, context)
            with self.handover.submitting(self.submitted) as self.submitted:
                hook = self.make_hook()
                check_tracking(self, hook)
                hook.submit(self.application)
                return hook.result
        except HoodieConfigurationError as error:
            if self.engine != AUTO or error.code:  # one of the job's own
                raise
            raise HoodieConfigurationError(f"engine='auto' takes Spark: {choice.why}. {error}") from None
        finally:
            if isinstance(self._last_hook, HoodieSparkSubmitHook):
                publication.history(self._last_hook.history_server)

    def _run_on_platform(self, context: Context, publication: Publication) -> dict[str, Any]:
        """The result of an earlier try's job; raises TaskDeferred where a platform has it."""
        from airflow_hoodie.clusters.platform_job import PlatformJob

        self.submitted = self._checked_request(context, SPARK)
        self._cluster_job = PlatformJob(self, publication)
        return self._cluster_job.run(self.submitted)

    def check_before_spark(self, source: Mapping[str, Any]) -> None:
        """Raises the exception of a source that the job would not find either, where its driver runs on this
        machine; another driver may have other files.
        """
        if not self.needs_source or (self.may_defer() and self.make_hook(detached=True).in_cluster_mode):
            return
        check_source(source, self.conf or {}, self.env_vars or {}, hook_arguments(self)["spark_binary"])

    def make_hook(self, *, detached: bool = False, request_path: str | None = None) -> HoodieSparkSubmitHook:
        hook = HoodieSparkSubmitHook(
            detached=detached,
            request_path=request_path,
            conn_id=self.spark_conn_id or DEFAULT_SPARK_CONN,
            master=self.master,
            kill_grace_seconds=self.kill_grace_seconds,
            on_progress=self._publication.progress if self._publication else None,
            request=self.submitted,
            **hook_arguments(self),
        )
        self._killable(hook)
        return hook

    # --- a job on a cluster, for which the task waits in the triggerer --------------------------------

    def may_defer(self) -> bool:
        """By the argument, else by Airflow's setting, where nothing that is known here is against it."""
        return jobs.may_detach(self)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """After the trigger's event: the result as of `execute`, or the exception, by the job's report.

        The event's `before` is the instant of the token's commit when the job was submitted, "" for none.
        """
        from airflow_hoodie.clusters.platform_job import after_event

        self.resolve()
        self.take_token(context)
        publication = self._publication = Publication(self, context)
        job = self._cluster_job = after_event(self, publication, event)
        try:
            with publication.counting_conflicts():
                result = job.result(event or {})
            return publication.publish(result)
        finally:
            job.drop_report()

    # --- what Airflow calls beside `execute` ----------------------------------------------------------

    def on_rendered(self) -> None:
        """Hides secrets: Airflow shows the rendered fields before the task runs."""
        hide({name: getattr(self, name, None) for name in self.template_fields if name != "token"})

    def on_kill(self) -> None:
        """End the job with all its processes, also one that spark-submit has handed over to a cluster; see
        HoodieSparkSubmitHook.on_kill. One that has not begun will not begin.
        """
        self.killed = True
        if self._last_hook is not None:
            self._last_hook.on_kill()
        if self._cluster_job is not None:
            self._cluster_job.abandon()

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any]:
        """Inputs and outputs by name, from the rendered fields. Airflow's OpenLineage provider calls it."""
        from airflow_hoodie import lineage_facets

        return lineage_facets.of_task(self, {})

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """The same, with what was committed: columns, version, rows, files and bytes."""
        from airflow_hoodie import lineage_facets

        return lineage_facets.of_task(self, self.result or {})

    # --- arguments ------------------------------------------------------------------------------------

    def _check_engine(self) -> bool:
        """Is it a platform? Raises HoodieConfigurationError."""
        if engines.is_on_platform(self.engine):
            from airflow_hoodie.clusters.platform_job import check_on_platform

            check_on_platform(self)
            return True
        if self.engine == LOCAL and self.distributed:
            engines.check_no_spark_arguments(hook_arguments(self))
        return False

    def _memory(self) -> int | None:
        return None if self.local_memory is None else engines.size_of("local_memory", self.local_memory)

    def settings(self) -> dict[str, Any]:
        """The table's options, and the task's over them."""
        return {**self.table["options"], **self.options}

    def _located(self, table: HoodieTable | Mapping[str, Any]) -> dict[str, Any]:
        own = {"hoodie_conn_id": self.hoodie_conn_id} if self.hoodie_conn_id else {}
        return {**HoodieTable.of(table).to_dict(), **own}

    def _killable(self, hook: HoodieLocalHook | HoodieSparkSubmitHook) -> None:
        """`on_kill` ends the hook's job from now on, also one that was called before."""
        self._last_hook = hook
        if self.killed:
            hook.on_kill()
