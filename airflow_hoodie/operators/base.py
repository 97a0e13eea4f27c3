"""What all operators that submit a hoodie job share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hoodie.backfill import wait_option
from airflow_hoodie.compat.spark_provider import SubmitOperator
from airflow_hoodie.exceptions import from_error
from airflow_hoodie.hooks.hoodie import DEFAULT_SPARK_CONN, resolved
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.lineage import HoodieLineage
from airflow_hoodie.links.hoodie import LINKS, SparkUILink, TimelineLink
from airflow_hoodie.secrets import hide
from airflow_hoodie.table import HoodieTable, option_texts
from airflow_hoodie.tokens import run_metadata
from hoodie.bundle import bundle_zip, job_script
from hoodie.errors import HoodieError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

JOB_NAME = (
    "{{ ti.dag_id }}/{{ ti.task_id }}/{{ ti.run_id }}{% if ti.map_index >= 0 %}/{{ ti.map_index }}{% endif %}"
)


#: unless the user says otherwise, so that the task's log shows the job's progress (Spark 3.5 and later)
QUIET_SPARK = {"spark.log.level": "WARN"}


class HoodieSparkOperator(HoodieLineage, SubmitOperator):
    """Base of all operators: submits a hoodie job with a JSON request; its result is the XCom `return_value`.

    docs/results.md lists the fields of results. Other arguments are SparkSubmitOperator's; the job's own
    `py_files` and `application_args` precede them. The request and those settings of `conf` that contain
    secrets are passed in files that only this user can read; `application_args` are on the command line.

    :param table: HoodieTable or its dict form. (templated)
    :param options: `hoodie.*` settings of this task; they override the table's. (templated)
    :param extra_metadata: texts that the commit's extra metadata gets. (templated)
    :param hoodie_conn_id: connection of type `hoodie`; it replaces the table's.
    :param spark_conn_id: connection of type `spark`, which names the master unless `master` does. Default:
        that of the hoodie connection, else `spark_default`.
    :param master: Spark master, such as `local[2]`. (templated)
    :param wait_for_writer: timedelta or seconds that the job waits for another writer of the table, in the
        order of arrival. With 0 or None it raises HoodieConflictError at once.
    :param kill_grace_seconds: time between SIGTERM and SIGKILL, in which a killed job cleans up.
    :param name: Spark's name of the job. Default: DAG, task and run. (templated)
    """

    #: script in hoodie/jobs
    job: str

    template_fields: Sequence[str] = (
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
        spark_conn_id: str | None = None,
        master: str | None = None,
        wait_for_writer: timedelta | float | None = timedelta(hours=1),
        kill_grace_seconds: float = 30.0,
        name: str = JOB_NAME,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=spark_conn_id or DEFAULT_SPARK_CONN, name=name, **kwargs)
        self.table = HoodieTable.of(table).to_dict()
        if hoodie_conn_id:
            self.table["hoodie_conn_id"] = hoodie_conn_id
        self.options = option_texts(options)
        self.extra_metadata = dict(extra_metadata or {})
        self.master = master
        self.kill_grace_seconds = kill_grace_seconds
        self.wait_for_writer = wait_for_writer
        wait_option(wait_for_writer)
        self.spark_conn_id = spark_conn_id
        #: the job's result, once there is one, and the address of its Spark UI
        self.result: dict[str, Any] | None = None
        self.spark_ui: str | None = None
        self._heard: Callable[[Mapping[str, Any]], None] | None = None
        self._sent: dict[str, Any] | None = None

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
        return request

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; returns the WriteResult dict. Raises the exceptions of airflow_hoodie.exceptions."""
        self.resolve()
        self.extra_metadata = {**run_metadata(context), **self.extra_metadata}
        leave_link(context, TimelineLink(), self)
        try:
            script, bundle = job_script(self.job), bundle_zip()
        except HoodieError as error:
            raise from_error(error) from error
        self._sent = self.job_request(context)
        self.application = self.application or str(script)
        self.py_files = ",".join([str(bundle), *([self.py_files] if self.py_files else [])])
        if not self.properties_file:
            self.conf = {**QUIET_SPARK, **(self.conf or {})}
        self._heard = partial(self.on_progress, context)
        self.submit(context)
        result: dict[str, Any] = self.hook.result
        self.result = result
        return result

    def resolve(self) -> None:
        """Adds path, options and Spark connection of the table's connection; each `execute` begins with it.

        A second call changes nothing. Raises HoodieConfigurationError.
        """
        self.table, conn = resolved(self.table)
        if self.spark_conn_id is None:
            self.spark_conn_id = (conn.spark_conn_id if conn else None) or DEFAULT_SPARK_CONN

    def on_rendered(self) -> None:
        """Hides secrets: Airflow shows the rendered fields before the task runs."""
        hide({name: getattr(self, name, None) for name in self.template_fields if name != "token"})

    def on_progress(self, context: Context, value: Mapping[str, Any]) -> None:
        """Called with each progress message of the job."""
        if address := value.get("spark_ui"):
            self.spark_ui = str(address)
            leave_link(context, SparkUILink(), self)

    def on_kill(self) -> None:
        """End the job with all its processes; see HoodieSparkSubmitHook.on_kill."""
        if self.hook is not None:
            self.hook.on_kill()

    def make_hook(self) -> HoodieSparkSubmitHook:
        return HoodieSparkSubmitHook(
            conn_id=self.spark_conn_id or DEFAULT_SPARK_CONN,
            master=self.master,
            kill_grace_seconds=self.kill_grace_seconds,
            on_progress=self._heard,
            request=self._sent,
            **self.hook_arguments(),
        )


def leave_link(context: Context, link: BaseOperatorLink, operator: Any) -> None:
    """Make a task's link known while it runs; nothing outside of a run."""
    ti: Any = context.get("ti")
    if hasattr(ti, "xcom_push"):
        ti.xcom_push(key=link.xcom_key, value=link.get_link(operator, ti_key=ti))
