"""What a task publishes of its job beside the result: XComs, links, metrics, events of the table's assets."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol

from airflow_hoodie import stats
from airflow_hoodie.arguments import is_absolute, is_later, is_template
from airflow_hoodie.assets.events import record_commit, with_outlets
from airflow_hoodie.exceptions import HoodieConflictError
from airflow_hoodie.links.hoodie import SparkUILink, history_url
from airflow_hoodie.table import HoodieTable

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

#: XCom with the id of the Spark application
APPLICATION_KEY = "spark_application_id"


class RunningOperator(Protocol):
    """What Publication and ClusterJob need of an operator, whose fields are rendered, and table resolved."""

    application: str
    cancel_on_kill: bool
    conf: Any
    execution_timeout: timedelta | None
    handover: Handover
    job: str
    kill_grace_seconds: float
    killed: bool
    makes_table: ClassVar[bool]
    only_planned: bool
    outlets: Any
    poll_interval: float
    spark_ui: str | None
    submitted: dict[str, Any] | None
    table: Any
    token: str | None

    @property
    def log(self) -> Any: ...
    def defer(self, *, trigger: Any, method_name: str, timeout: timedelta | None = None) -> NoReturn: ...
    def make_hook(self, *, detached: bool, request_path: str | None) -> Any: ...
    def settings(self) -> dict[str, Any]: ...


class Handover:
    """How a job gets rows that are in no files: here there are none (airflow_hoodie.sources)."""

    def staged(self) -> contextlib.AbstractContextManager[None]:
        """While it is open, they are in files of this machine, which the operator's request names."""
        return contextlib.nullcontext()

    def shared(self, request: dict[str, Any], tag: str) -> dict[str, Any]:
        """The request, with these files where Spark's executors see them, until `unshare` of the tag."""
        return request

    def unshare(self, tag: str) -> None:
        """Deletes them; where that fails, the log says so."""

    @contextlib.contextmanager
    def submitting(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The request of a job that ends with the task."""
        tag = secrets.token_hex(16)
        try:
            yield self.shared(request, tag)
        finally:
            self.unshare(tag)


class Publication:
    """Of one run of an operator. Outside of a run there are no XComs, and so no links."""

    def __init__(self, operator: RunningOperator, context: Context) -> None:
        self._operator = operator
        self.context: Any = context
        self._application: Mapping[str, Any] = {}

    def link(self, link: BaseOperatorLink) -> None:
        """Make a link of the task known while it runs."""
        operator: Any = self._operator
        self._push(link.xcom_key, link.get_link(operator, ti_key=self.context.get("ti")))

    def application(self, application_id: str) -> None:
        self._push(APPLICATION_KEY, application_id)

    def spark_ui(self, address: str) -> None:
        self._operator.spark_ui = address
        self.link(SparkUILink())

    def progress(self, value: Mapping[str, Any]) -> None:
        """A progress message of the job, which may name its application and its Spark UI."""
        if application := value.get("application_id"):
            self._application = dict(value)
            self.application(str(application))
        if address := value.get("spark_ui"):
            self.spark_ui(str(address))

    def history(self, server: str | None) -> None:
        """The link of an application that has ended: its history, or none, as others take its port."""
        if self._application:
            self.spark_ui(history_url(self._application, server))

    def publish(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result, which becomes the task's."""
        operator: Any = self._operator
        operator.result = result
        if operator.late_asset:
            operator.outlets = with_table_asset(operator.outlets, HoodieTable.from_dict(operator.table))
        if operator.changes_rows:
            self.events(operator.change(result))
        operator.check_result(result, self.context)
        return result

    def count(self, name: str) -> None:
        operator = self._operator
        stats.increment(getattr(operator, "operation", operator.job), operator.table["name"], name)

    @contextlib.contextmanager
    def counting_conflicts(self) -> Iterator[None]:
        """A conflict that is raised inside is counted in Airflow's metrics."""
        try:
            yield
        except HoodieConflictError:
            self.count("conflicts")
            raise

    def events(self, change: Mapping[str, Any] | None) -> None:
        """The assets' events contain the change; see `record_commit`."""
        operator = self._operator
        operator.outlets = record_commit(self.context, operator.outlets, change, operator.table["path"])

    def _push(self, key: str, value: str) -> None:
        ti = self.context.get("ti")
        if hasattr(ti, "xcom_push"):
            ti.xcom_push(key=key, value=value)


def emitting(operator: Any, table: Any, emit_asset: bool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The operator's arguments with the table's asset among the outlets, if it is to have events."""
    if not emit_asset:
        return arguments
    if is_later(table):
        operator.late_asset = True
        return arguments
    # no parameter of its own: Airflow would give a mapped task that parameter's default as outlets
    return {**arguments, "outlets": with_table_asset(arguments.get("outlets"), HoodieTable.of(table))}


def with_table_asset(outlets: Any, table: HoodieTable) -> Any:
    """Outlets with the table's asset, unless its path is a template or relative."""
    if is_absolute(table.path) and not is_template(table.path):
        return with_outlets(outlets, table.asset)
    return outlets
