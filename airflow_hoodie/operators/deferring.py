"""Operators whose Spark job may run detached, in deploy mode cluster, while the task waits in the triggerer.

The driver's output is on the cluster, so what a job did, or why it failed, is read from its table: from the
report that the job leaves there under its tag (hoodie.timeline.job_reports), else, of a job with a token that
died before it, from the token's commit. A submission is noted before spark-submit starts, as its tag and the
token's last commit, where a retry sees it (Airflow's task_state_store); by the tag the retry finds the
application that it left, its report, and the request with secrets that the cluster keeps for it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow_hoodie import stats
from airflow_hoodie.clusters import ClusterManager, State
from airflow_hoodie.clusters.choice import MASTERS, cluster_at, has_cluster
from airflow_hoodie.engines import LOCAL
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
    HoodieTableError,
    from_error,
    from_report,
)
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.job_output import log_result
from airflow_hoodie.job_results import JobResult, check_table
from airflow_hoodie.links.hoodie import SparkUILink
from airflow_hoodie.operators.base import APPLICATION_KEY, HoodieJobOperator, leave_link, push
from airflow_hoodie.paths import is_template
from airflow_hoodie.polling import default_deferrable
from airflow_hoodie.secrets import any_secret
from airflow_hoodie.tokens import commit_of
from airflow_hoodie.triggers.application import EVENT_FIELDS, LOST, TIMED_OUT, ApplicationTrigger
from hoodie.errors import HoodieError
from hoodie.storage import normalize
from hoodie.timeline.job_reports import JobReport
from hoodie.timeline.tokens import TokenCommit

if TYPE_CHECKING:
    from airflow.sdk import Context

#: of the note of a submission in the task's state store
_KEY = "hoodie_submission"
_TAG = "hoodie-"
#: ends of applications that a person or a clock brought about, whatever the job said
_KILLED = (State.KILLED.value, TIMED_OUT)


@dataclass(frozen=True, kw_only=True)
class _Note:
    """Of a submission, in the task's state store.

    `tag`: the application's. `before`: the instant of the commit that the token had, "" for none.
    `kept`: the cluster keeps the job's request. `taken`: the task had what the job's report says.
    """

    tag: str
    before: str
    kept: bool = False
    taken: bool = False

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> _Note | None:
        """That of the last submission by this task; None where there is none."""
        store = context.get("task_state_store")
        found = store.get(_KEY) if store is not None else None
        if not (isinstance(found, Mapping) and {"tag", "before"} <= set(found)):
            return None
        marks = {name: bool(found.get(name)) for name in ("kept", "taken")}
        return cls(tag=str(found["tag"]), before=str(found["before"]), **marks)

    def put(self, context: Mapping[str, Any]) -> None:
        store = context.get("task_state_store")
        if store is not None:
            store.set(_KEY, asdict(self))

    def bind(self, cluster: ClusterManager) -> None:
        if self.kept:
            cluster.bind_kept(self.tag)

    def forget(self, cluster: ClusterManager) -> None:
        if self.kept:
            cluster.forget(self.tag)


class HoodieDeferringOperator(HoodieJobOperator):
    """Base of the operators whose job may run detached, which are all. Other parameters: HoodieJobOperator.

    :param deferrable: with the master `yarn` or `k8s://...` and deploy mode `cluster`, submit the job, then
        wait in the triggerer without a worker slot until it has ended; the result comes through a file beside
        the table's timeline. Default: Airflow's setting `[operators] default_deferrable`, where that works.
    :param poll_interval: seconds between the triggerer's looks at a deferred job. Default: 30.
    :param cancel_on_kill: killing or clearing a task that waits in the triggerer kills its application. With
        False, which needs `deferrable=True`, it runs on: the next try of the task waits for its end.
        `execution_timeout` kills it in either case.
    """

    deferrable: bool | None = None
    poll_interval: float = 30.0
    cancel_on_kill: bool = True
    #: by which the job's commit is found, of operators that have one
    token: str | None = None
    #: does the job make a table where there is none
    makes_table: ClassVar[bool] = False
    #: the report of a job that no other try is to take
    _read: JobResult | None = None

    def __init__(
        self,
        *,
        deferrable: bool | None = None,
        poll_interval: float | None = None,
        cancel_on_kill: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        # an attribute of an operator is dear where a DAG file is parsed, and most have none of these
        if poll_interval is not None:
            self.poll_interval = poll_interval
        if deferrable is not None:
            self.deferrable = deferrable
            if deferrable and (wrong := self.not_deferrable()):
                raise HoodieConfigurationError(f"deferrable=True {wrong}, or leave deferrable out")
        if not cancel_on_kill:
            self.cancel_on_kill = False
            if not self.deferrable:
                raise HoodieConfigurationError(
                    "cancel_on_kill=False leaves an application on a cluster running; without "
                    "deferrable=True the job ends with the task, so use deferrable=True, or leave "
                    "cancel_on_kill out"
                )

    def take_token(self, context: Context) -> None:
        """Sets the token of the running task, of operators that have one."""

    def may_defer(self) -> bool:
        """By the argument, else by Airflow's setting where nothing that is known here is against it."""
        if self.deferrable is not None:
            return self.deferrable
        return default_deferrable() and not self.not_deferrable()

    def not_deferrable(self) -> str:
        """Why the task can't be deferred, as the end of a sentence; "" where nothing is against it."""
        if self.engine == LOCAL:
            return "is for jobs on a cluster, and engine is 'local'; use engine='spark'"
        if self.post_submit_commands:
            return "submits a job and leaves it, so post_submit_commands would run before its end; use none"
        if self.hook_arguments()["deploy_mode"] == "client":
            return "needs deploy_mode='cluster': in client mode the driver ends with the task's process"
        if isinstance(self.master, str) and not has_cluster(self.master) and not is_template(self.master):
            standalone = self.master.startswith("spark://")
            why = ", as Spark's standalone clusters take no Python applications in cluster mode"
            named = f"{self.master}{why if standalone else ''}"
            return f"works with the masters {MASTERS} only, not {named}; use one of them"
        return ""

    def check_before_spark(self, source: Mapping[str, Any]) -> None:
        """As before a job whose driver runs on this machine; another driver may have other files."""
        if not (self.may_defer() and self.make_hook(detached=True).in_cluster_mode):
            super().check_before_spark(source)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """As HoodieJobOperator; raises TaskDeferred where the cluster has the job."""
        try:
            return super().execute(context)
        finally:
            self._drop_report(context)

    def run_submitted(self, context: Context) -> dict[str, Any]:
        """Runs the job to its end, or raises TaskDeferred once the cluster has it."""
        if not self.may_defer():
            return super().run_submitted(context)
        hook = self.make_hook(detached=True)
        if not hook.in_cluster_mode:
            if self.deferrable:
                raise HoodieConfigurationError(
                    f"deferrable=True needs deploy mode 'cluster', and the Spark connection "
                    f"{self.spark_conn_id!r} has another; pass deploy_mode='cluster', put "
                    '{"deploy-mode": "cluster"} into its extra, or leave deferrable out'
                )
            return super().run_submitted(context)
        cluster = hook.cluster()
        note = _Note.of(context)
        if note is not None and (done := self._done_by(note, context, cluster)) is not None:
            return done
        if not self.makes_table:
            check_table(self.table["path"], self._settings())
        before = self._commit()
        self.add_lineage(context)
        note = _Note(
            tag=_TAG + secrets.token_hex(16),
            before=str(before.instant) if before else "",
            kept=cluster.KEPT_REQUEST is not None and any_secret(self._sent),
        )
        note.put(context)
        found = self._submit_detached(cluster, note)
        self._tried(partial(note.bind, cluster))
        return self._defer(context, cluster, found, note)

    def _done_by(self, note: _Note, context: Context, cluster: ClusterManager) -> dict[str, Any] | None:
        """The result of an earlier try's job; None for none. Raises TaskDeferred while that job runs.

        Of a job with a token the commit counts, which has been looked for before: it may have been undone.
        """
        if found := _running(cluster, note.tag):
            self.log.info("%s, which an earlier try submitted, is running; waiting for its end", found)
            if self.cancel_on_kill:
                self._abandon = partial(_abandon, cluster, note)
            self._tried(partial(note.bind, cluster))
            self._defer(context, cluster, found, note)
        self._tried(partial(note.forget, cluster))
        if self.token or note.taken:
            self._read = self._kept(note.tag)
            return None
        report = self._report(note.tag)
        if report is None or report.result is None:
            return None
        self.log.info("The job of an earlier try has ended with a result; nothing is submitted")
        return log_result(self.log, report.result)

    def _submit_detached(self, cluster: ClusterManager, note: _Note) -> str:
        """Id of the new application with the note's tag."""
        tag, given = note.tag, self.conf or {}
        self._sent = {**(self._sent or {}), "result_tag": tag}
        self.conf = {**given, **cluster.conf(tag, given), **(cluster.conf_of_kept(tag) if note.kept else {})}
        path = cluster.KEPT_REQUEST if note.kept else None
        hook: HoodieSparkSubmitHook = self.make_hook(detached=True, request_path=path)
        cluster.find(tag)  # who may not ask learns it before a job runs that can't be watched
        self._abandon = partial(_abandon, cluster, note)
        try:
            if note.kept:
                cluster.keep(tag, json.dumps(self._sent))
            self.submit_by(hook)
        except HoodieException:
            self._end_abandoned()  # spark-submit may have handed it over before it failed or was killed
            raise
        found = cluster.find(tag)
        if found is None:
            self._end_abandoned()
            raise HoodieJobError(
                f"spark-submit ended without an error, but {cluster.NAME} has no application with the tag "
                f"{tag}; does its address in the Spark connection name the same cluster?"
            )
        return found

    #: ends an application that was submitted and that no trigger watches yet
    _abandon: Callable[[], None] | None = None

    def on_kill(self) -> None:
        """End the job, also one that spark-submit has handed over to the cluster."""
        super().on_kill()
        self._end_abandoned()

    def _end_abandoned(self) -> None:
        if self._abandon is not None:
            try:
                self._abandon()
            except HoodieException as error:
                self.log.error("The application may be running still: %s", error.message)

    def _defer(self, context: Context, cluster: ClusterManager, application: str, note: _Note) -> NoReturn:
        push(context, APPLICATION_KEY, application)
        self._leave_ui(context, cluster, application)
        if self.killed:  # Airflow may refuse the deferral of such a task, and no trigger would watch
            self._end_abandoned()
            raise HoodieJobKilledError(f"the task was killed before it waited for {application}")
        self.log.info("%s is on the cluster; the task waits for its end in the triggerer", application)
        timeout: timedelta | None = self.execution_timeout
        self.defer(
            trigger=ApplicationTrigger(
                cluster=cluster.place(),
                application_id=application,
                before=note.before,  # dag.test() hands over no arguments but the event
                tag=note.tag,
                poll_interval=self.poll_interval,
                cancel_on_kill=self.cancel_on_kill,
            ),
            method_name="execute_complete",
            timeout=timeout,
        )
        raise AssertionError("defer raises")

    def _leave_ui(self, context: Context, cluster: ClusterManager, application: str) -> None:
        """The link to what the cluster shows of the application: its Spark UI, or its history."""
        try:
            self.spark_ui = cluster.ui(application)
        except HoodieException as error:
            self.log.warning("There is no link to the Spark UI: %s", error.message)
        if self.spark_ui:
            leave_link(context, SparkUILink(), self)

    def execute_complete(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """After the trigger's event: the result as of `execute`, or the exception, by the job's report.

        The event's `tag` is the application's, its `before` the instant of the commit that the token had when
        the job was submitted, "" for none.
        """
        if event is None or not set(event) >= EVENT_FIELDS:
            raise HoodieException(
                f"the trigger ended with {event!r}, which names no application; clear the task: it finds an "
                "application that runs, and what an ended one left"
            )
        self.resolve()
        self.take_token(context)
        cluster, note = cluster_at(event["cluster"]), _Note.of(context)
        if event["state"] != LOST:
            self._leave_ui(context, cluster, str(event["application"]))
            if note is not None:
                self._tried(partial(note.forget, cluster))
        try:
            with self.counting_conflicts():
                result = self._result_of(event, cluster)
            return self.concluded(context, result)
        finally:
            self._drop_report(context)

    def _result_of(self, event: Mapping[str, Any], cluster: ClusterManager) -> dict[str, Any]:
        """A job that failed after its work has done it: its report says so, else the commit of its token."""
        application, state, said = (str(event[name]) for name in ("application", "state", "said"))
        report = self._report(str(event.get("tag") or ""))  # triggers of earlier releases have no tag
        result = None if report is None else report.result
        if result is not None:
            result = log_result(self.log, result)
            stats.committed(result)
        elif report is not None and report.error is not None and state not in _KILLED:
            raise from_report(report.error)
        else:
            result = self._committed(state, str(event["before"]))
            if result is None:
                raise _failure(cluster, application, state, said)
            stats.committed(result, timed=False)
        if state != State.SUCCEEDED.value:
            self.log.warning("%s: %s, after its work was done; the result stays", application, state)
        return result

    def _committed(self, state: str, before: str) -> dict[str, Any] | None:
        """The result by the commit of the token, where the job made it, or found it; else None."""
        found = self._commit()
        made = found is not None and found.instant != before
        if found is None or not (made or state == State.SUCCEEDED.value):
            return None
        result = found.result(self.table["name"], normalize(self.table["path"]))
        return {**result, "status": "committed"} if made else result

    def _report(self, tag: str) -> JobReport | None:
        """Of the job with this tag, dropped at the end of this try, also where it is refused. One that the
        storage does not give, or that comes later, is left to the next try.
        """
        kept = self._kept(tag)
        try:
            report = kept.read() if tag else None
        except HoodieTableError:
            self._read = kept
            raise
        self._read = self._read if report is None else kept
        return report

    def _kept(self, tag: str) -> JobResult:
        return JobResult(path=self.table["path"], options=self._settings(), tag=tag)

    def _drop_report(self, context: Context) -> None:
        """Deletes the report; where the worker may not do that, no try takes it again."""
        read, note = self._read, _Note.of(context)
        if read is None:
            return
        self._tried(read.delete)
        self._read = None
        if note is not None and note.tag == read.tag:
            replace(note, taken=True).put(context)

    def _tried(self, action: Callable[[], None]) -> None:
        """Something about what is kept for the job, which needs it no more. A failure is logged."""
        try:
            action()
        except HoodieException as error:
            self.log.warning("What was kept for the job may stay for longer: %s", error.message)

    def _commit(self) -> TokenCommit | None:
        """The token's last commit, of any source; raises the exception of a table that can't be read."""
        if not self.token or self.only_planned:
            return None
        try:
            return commit_of(self.table["path"], self.token, self._settings())
        except HoodieError as error:
            raise from_error(error) from error

    def _settings(self) -> dict[str, Any]:
        return {**self.table["options"], **self.options}


def _running(cluster: ClusterManager, tag: str) -> str | None:
    """Id of the application with this tag, while it runs and has not been killed."""
    found = cluster.find(tag)
    return found if found is not None and cluster.status(found).state is State.RUNNING else None


def _abandon(cluster: ClusterManager, note: _Note) -> None:
    if (found := cluster.find(note.tag)) is not None:
        cluster.kill(found)
    note.forget(cluster)


def _failure(cluster: ClusterManager, application: str, state: str, said: str) -> HoodieException:
    more = f": {said}" if said else ""
    logs = f"; its log ({cluster.log_command(application)}) has the job's error"
    if state == State.SUCCEEDED.value:
        return HoodieJobError(
            f"{application} succeeded, but the table has no result of it, as far as this worker sees it; is "
            f"the table's path the same for both?{logs}"
        )
    if state == State.KILLED.value:
        return HoodieJobKilledError(f"{application} was killed{more}; the next write rolls back what it left")
    if state == TIMED_OUT:
        return HoodieJobKilledError(f"{application} was killed, as the task's execution_timeout is over")
    if state == LOST:
        return HoodieJobError(
            f"{application} may be running still: the cluster could not be asked{more}. A retry waits for it",
            code="unreachable",
        )
    if state == State.UNKNOWN.value:
        return HoodieJobError(
            f"{cluster.NAME} knows no {application}, and the table has no result of it{logs}"
        )
    return HoodieJobError(f"{application} failed{more}{logs}")
