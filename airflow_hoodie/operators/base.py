"""What all operators that submit a hoodie job share."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hoodie import stats
from airflow_hoodie.backfill import wait_option
from airflow_hoodie.compat.spark_provider import DEFAULT_SPARK_BINARY, SubmitOperator, installed_spark_home
from airflow_hoodie.engines import (
    AUTO,
    DEFAULT_MAX_SIZE,
    LOCAL,
    SPARK,
    Choice,
    check_engine,
    check_no_spark_arguments,
    choose,
    size_of,
    task_memory,
)
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieConflictError,
    HoodieJobError,
    from_error,
)
from airflow_hoodie.hooks.hoodie import DEFAULT_SPARK_CONN, resolved
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.lineage import HoodieLineage
from airflow_hoodie.links.hoodie import LINKS, SparkUILink, TimelineLink, history_url
from airflow_hoodie.options import kept_options, known_options, option_texts
from airflow_hoodie.paths import is_later, is_template
from airflow_hoodie.preflight import check_master, check_source
from airflow_hoodie.secrets import hide
from airflow_hoodie.subclasses import check_templates
from airflow_hoodie.table import HoodieTable
from airflow_hoodie.tokens import run_metadata
from hoodie.bundle import bundle_zip, job_script
from hoodie.config.key import Config
from hoodie.errors import HoodieError
from hoodie.storage import storage_for

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

JOB_NAME = (
    "{{ ti.dag_id }}/{{ ti.task_id }}/{{ ti.run_id }}{% if ti.map_index >= 0 %}/{{ ti.map_index }}{% endif %}"
)


#: unless the user says otherwise, so that the task's log shows the job's progress (Spark 3.5 and later)
QUIET_SPARK = {"spark.log.level": "WARN"}
#: what a local job may allocate, unless its operator says otherwise
DEFAULT_MEMORY = "2g"
#: XCom with the id of the Spark application
APPLICATION_KEY = "spark_application_id"
#: exit codes of a process that the system killed, or that aborted, for lack of memory
_DIED = (-signal.SIGKILL, -signal.SIGABRT)


class HoodieJobOperator(HoodieLineage, SubmitOperator):
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
        those that say what a job on Spark has (`conf`, `py_files`, `driver_memory`) are refused. (templated)
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
    """

    #: script in hoodie/jobs
    job: str
    #: does the job distribute work, so that its request names an engine
    distributed: ClassVar[bool] = True

    template_fields: Sequence[str] = (
        "engine",
        "table",
        "options",
        "extra_metadata",
        "master",
        *SubmitOperator.template_fields,
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
        engine: str = SPARK,
        local_max_size: str | int = DEFAULT_MAX_SIZE,
        local_memory: str | int | None = DEFAULT_MEMORY,
        spark_conn_id: str | None = None,
        master: str | None = None,
        wait_for_writer: timedelta | float | None = timedelta(hours=1),
        dry_run: bool = False,
        kill_grace_seconds: float = 30.0,
        name: str = JOB_NAME,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=spark_conn_id or DEFAULT_SPARK_CONN, name=name, **kwargs)
        self.hoodie_conn_id = hoodie_conn_id
        self.table: Any = table if is_later(table) else self._located(table)
        self.options: Any = options if is_later(options) else kept_options(options)
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
        #: the job's result, once there is one, and the address of its Spark UI or of what is left of that
        self.result: dict[str, Any] | None = None
        self.spark_ui: str | None = None
        self._application: Mapping[str, Any] = {}
        self._heard: Callable[[Mapping[str, Any]], None] | None = None
        self._sent: dict[str, Any] | None = None
        self.engine = engine
        self.local_max_size = local_max_size
        self.local_memory = local_memory
        size_of("local_max_size", local_max_size)
        self._memory()
        if not (isinstance(engine, str) and is_template(engine)):
            self._check_engine()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_templates(cls)

    def request(self) -> dict[str, Any]:
        """The job's request, from the rendered fields."""
        raise NotImplementedError

    def run_options(self, context: Context) -> dict[str, str]:
        """Settings that follow from the operator's arguments and the run; `options` override them."""
        return wait_option(self.wait_for_writer)

    def job_request(self, context: Context) -> dict[str, Any]:
        """The request as it is sent: with the run's settings, where the job takes any."""
        request = self.request()
        if "options" in request:
            request["options"] = {**self.run_options(context), **request["options"]}
        return {**request, "dry_run": True} if self.only_planned else request

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns its result. Raises the exceptions of airflow_hoodie.exceptions."""
        self.resolve()
        return self.concluded(context, self.done_before(context) or self._executed(context))

    def done_before(self, context: Context) -> dict[str, Any] | None:
        """The result of an earlier run that did it all; None where a job has to run."""
        return None

    def concluded(self, context: Context, result: dict[str, Any]) -> dict[str, Any]:
        """What follows from the job's result, which becomes the task's. Raises where the task is to fail."""
        self.result = result
        return result

    def _executed(self, context: Context) -> dict[str, Any]:
        self.extra_metadata = {**run_metadata(context), **self.extra_metadata}
        leave_link(context, TimelineLink(), self)
        self._heard = partial(self.on_progress, context)
        if getattr(context.get("ti"), "try_number", 1) > 1:
            self._count("retries")
        with self.counting_conflicts():
            result = self._ran(context, self._chosen())
        stats.committed(result)
        return result

    @contextlib.contextmanager
    def counting_conflicts(self) -> Iterator[None]:
        """A conflict that is raised inside is counted in Airflow's metrics."""
        try:
            yield
        except HoodieConflictError:
            self._count("conflicts")
            raise

    def _count(self, name: str) -> None:
        stats.counted(getattr(self, "operation", self.job), self.table["name"], name)

    def _ran(self, context: Context, choice: Choice) -> dict[str, Any]:
        if choice.engine == SPARK:
            return self._submitted(context, choice)
        try:
            return self._run_here(context)
        except HoodieJobError as error:
            if not self._may_submit(error):
                raise
            self.log.warning("%s; engine='auto' submits the job to Spark", error)
            return self._submitted(context, Choice(SPARK, f"the local job failed: {error}"))

    def _run_here(self, context: Context) -> dict[str, Any]:
        hook = HoodieLocalHook(
            self.job,
            kill_grace_seconds=self.kill_grace_seconds,
            env_vars=self.env_vars,
            memory=self._memory(),
            on_progress=self._heard,
        )
        self._killable(hook)
        request = self._asked(context, LOCAL)
        if memory := self._memory():
            request["options"] = {**task_memory(memory), **request["options"]}
        return hook.run(request)

    def _submitted(self, context: Context, choice: Choice) -> dict[str, Any]:
        try:
            script, bundle = job_script(), bundle_zip()
        except HoodieError as error:
            raise from_error(error) from error
        self._sent = self._asked(context, SPARK)
        if "source" in self._sent:
            self.check_before_spark(self._sent["source"])
        self.application = self.application or str(script)
        self.py_files = ",".join([str(bundle), *([self.py_files] if self.py_files else [])])
        if not self.properties_file:
            self.conf = {**QUIET_SPARK, **(self.conf or {})}
        try:
            return self.run_submitted(context)
        except HoodieConfigurationError as error:
            if self.engine != AUTO or error.code:  # one of the job's own
                raise
            raise HoodieConfigurationError(f"engine='auto' takes Spark: {choice.why}. {error}") from None
        finally:
            self._leave_history(context)

    def run_submitted(self, context: Context) -> dict[str, Any]:
        """Runs the job that was made ready to its end; its result."""
        self.submit(context)
        result: dict[str, Any] = self.hook.result
        return result

    def _leave_history(self, context: Context) -> None:
        """The link of an application that has ended: its history, or none, as others take its port."""
        if self._application and self.hook is not None:
            self.spark_ui = history_url(self._application, self.hook.history_server)
            leave_link(context, SparkUILink(), self)

    def _asked(self, context: Context, engine: str) -> dict[str, Any]:
        """The request; raises the exception of wrong settings, before a process is started for it."""
        request = self.job_request(context)
        try:
            storage_for(request["table"])
            Config.of(request["options"])
        except HoodieError as error:
            raise from_error(error) from error
        return {**request, "engine": engine} if self.distributed else request

    def check_before_spark(self, source: Mapping[str, Any]) -> None:
        """Raises the exception of a source that the job would not find either."""
        arguments = self.hook_arguments()
        binary = arguments["spark_binary"] or DEFAULT_SPARK_BINARY
        environ = {**os.environ, **{name: str(value) for name, value in (self.env_vars or {}).items()}}
        if (home := installed_spark_home()) and not environ.get("SPARK_HOME"):
            environ["SPARK_HOME"] = home
        check_source(source, arguments["conf"] or {}, environ, binary)

    def _chosen(self) -> Choice:
        self._check_engine()
        if self.engine != AUTO:
            return Choice(self.engine, f"engine={self.engine!r}")
        choice = self.auto_choice()
        self.log.info("engine='auto' takes %s: %s", choice.engine, choice.why)
        return choice

    def auto_choice(self) -> Choice:
        """The engine that `auto` stands for; the fields are rendered, and the table is resolved."""
        limit = size_of("local_max_size", self.local_max_size)
        options = {**self.table["options"], **self.options}
        return choose(self.table["path"], {self.job}, None, limit, options)

    def _check_engine(self) -> None:
        if check_engine(self.engine) == LOCAL and self.distributed:
            check_no_spark_arguments(self.hook_arguments())

    def _memory(self) -> int | None:
        return None if self.local_memory is None else size_of("local_memory", self.local_memory)

    def _may_submit(self, error: HoodieJobError) -> bool:
        """Did a job of `auto` fail on the worker for lack of memory?"""
        short = error.values.get("out_of_memory") is True or error.exit_code in _DIED
        return self.engine == AUTO and short and not self.killed

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

    def _located(self, table: HoodieTable | Mapping[str, Any]) -> dict[str, Any]:
        own = {"hoodie_conn_id": self.hoodie_conn_id} if self.hoodie_conn_id else {}
        return {**HoodieTable.of(table).to_dict(), **own}

    def on_rendered(self) -> None:
        """Hides secrets: Airflow shows the rendered fields before the task runs."""
        hide({name: getattr(self, name, None) for name in self.template_fields if name != "token"})

    def on_progress(self, context: Context, value: Mapping[str, Any]) -> None:
        """Called with each progress message of the job."""
        if application := value.get("application_id"):
            self._application = dict(value)
            push(context, APPLICATION_KEY, str(application))
        if address := value.get("spark_ui"):
            self.spark_ui = str(address)
            leave_link(context, SparkUILink(), self)

    #: was `on_kill` called
    killed: bool = False
    #: what it ends: the hook that was made last, those before have ended
    _last_hook: HoodieLocalHook | HoodieSparkSubmitHook | None = None

    def on_kill(self) -> None:
        """End the job with all its processes; see HoodieSparkSubmitHook.on_kill. One that has not begun will
        not begin.
        """
        self.killed = True
        if self._last_hook is not None:
            self._last_hook.on_kill()

    def _killable(self, hook: HoodieLocalHook | HoodieSparkSubmitHook) -> None:
        """`on_kill` ends the hook's job from now on, also one that was called before."""
        self._last_hook = hook
        if self.killed:
            hook.on_kill()

    def make_hook(self, *, detached: bool = False, request_path: str | None = None) -> HoodieSparkSubmitHook:
        hook = HoodieSparkSubmitHook(
            detached=detached,
            request_path=request_path,
            conn_id=self.spark_conn_id or DEFAULT_SPARK_CONN,
            master=self.master,
            kill_grace_seconds=self.kill_grace_seconds,
            on_progress=self._heard,
            request=self._sent,
            **self.hook_arguments(),
        )
        self._killable(hook)
        return hook


def check_options(operation: str, table: Any, options: Any) -> None:
    """What is known of them when the DAG is read. Raises HoodieConfigurationError."""
    if not is_later(table):
        HoodieTable.of(table).options_for(operation, known_options(options))


def leave_link(context: Context, link: BaseOperatorLink, operator: Any) -> None:
    """Make a task's link known while it runs; nothing outside of a run."""
    ti: Any = context.get("ti")
    push(context, link.xcom_key, link.get_link(operator, ti_key=ti))


def push(context: Context, key: str, value: str) -> None:
    """An XCom of the running task; nothing outside of a run."""
    ti: Any = context.get("ti")
    if hasattr(ti, "xcom_push"):
        ti.xcom_push(key=key, value=value)
