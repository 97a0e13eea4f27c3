"""The job of a task on a cluster, in deploy mode cluster, while the task waits in the triggerer; and that of
the local engine in a process that outlives the task (WorkerJob), which is watched by its table.

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
from functools import partial
from typing import Any, NoReturn

from airflow_hoodie import stats
from airflow_hoodie.arguments import default_deferrable, is_template
from airflow_hoodie.clusters import ClusterManager, State
from airflow_hoodie.clusters.choice import MASTERS, has_cluster
from airflow_hoodie.clusters.worker import WorkerJobs, readable
from airflow_hoodie.compat.spark_provider import add_lineage, hook_arguments
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
from airflow_hoodie.job_output import log_error, log_result
from airflow_hoodie.job_results import JobResult, check_table
from airflow_hoodie.publication import Publication, RunningOperator
from airflow_hoodie.runs import commit_of
from airflow_hoodie.secrets import any_secret
from airflow_hoodie.triggers.application import LOST, TIMED_OUT, ApplicationTrigger
from hoodie.errors import HoodieError
from hoodie.storage import normalize
from hoodie.timeline.job_reports import JobReport
from hoodie.timeline.tokens import TokenCommit

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


class ClusterJob:
    """Of a running operator, with its token, if it has one, its table and the publication of the run. Methods
    raise the exceptions of airflow_hoodie.exceptions.
    """

    def __init__(self, operator: RunningOperator, cluster: ClusterManager, publication: Publication) -> None:
        self._operator = operator
        self._cluster = cluster
        self._publication = publication
        self._context = publication.context
        self._log = operator.log
        self._note = _Note.of(self._context)
        #: the report of a job that no other try is to take
        self._read: JobResult | None = None
        #: is it an application that was submitted and that no trigger watches yet
        self._unwatched = False

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an earlier try's job; raises TaskDeferred where the cluster has one, old or new."""
        operator = self._operator
        application = self._running()
        if application is None:
            if (done := self._earlier_result()) is not None:
                return done
            if not operator.makes_table:
                check_table(operator.table["path"], operator.settings())
            application = self._submit(request)
        return self._defer(application)

    def _defer(self, application: str) -> NoReturn:
        operator, note = self._operator, self._noted()
        self._bind()
        if self._cluster.ON_SPARK:
            self._publication.application(application)
            self._show_ui(application)
        called = self._cluster.label(application)
        if operator.killed:  # Airflow may refuse the deferral of such a task, and no trigger would watch
            self.abandon()
            raise HoodieJobKilledError(f"the task was killed before it waited for {called}")
        self._log.info("%s runs; the task waits for its end in the triggerer", called)
        operator.defer(
            trigger=ApplicationTrigger(
                cluster=self._cluster.place(),
                application_id=application,
                before=note.before,  # dag.test() hands over no arguments but the event
                tag=note.tag,
                poll_interval=operator.poll_interval,
                cancel_on_kill=operator.cancel_on_kill,
            ),
            method_name="execute_complete",
            timeout=operator.execution_timeout,
        )
        raise AssertionError("defer raises")

    def _show_ui(self, application: str) -> None:
        """The link to what the cluster shows of the application: its Spark UI, or its history."""
        try:
            self._operator.spark_ui = self._cluster.ui(application)
        except HoodieException as error:
            self._log.warning("There is no link to the Spark UI: %s", error.message)
        if self._operator.spark_ui:
            self._publication.spark_ui(self._operator.spark_ui)

    # --- the job of an earlier try --------------------------------------------------------------------

    def _running(self) -> str | None:
        """The application that an earlier try submitted, while it runs and has not been killed."""
        if self._note is None:
            return None
        found = self._cluster.find(self._note.tag)
        if found is None or self._cluster.status(found).state is not State.RUNNING:
            return None
        called = self._cluster.label(found)
        self._log.info("%s, which an earlier try submitted, is running; waiting for its end", called)
        self._unwatched = self._operator.cancel_on_kill
        return found

    def _earlier_result(self) -> dict[str, Any] | None:
        """The result of an earlier try's job, which runs no more; None for none.

        Of a job with a token the commit counts, which has been looked for before: it may have been undone.
        """
        if self._note is None:
            return None
        self._show_output(self._note.tag)
        self._tried(self._forget)
        self._operator.handover.unshare(self._note.tag)
        if self._operator.token or self._note.taken:
            self._read = self._report_of(self._note.tag)
            return None
        report = self._report(self._note.tag)
        if report is None or report.result is None:
            return None
        self._log.info("The job of an earlier try has ended with a result; nothing is submitted")
        return log_result(self._log, report.result)

    # --- a new one ------------------------------------------------------------------------------------

    def _submit(self, request: Mapping[str, Any]) -> str:
        """The new application, which the cluster has accepted."""
        operator, cluster, before = self._operator, self._cluster, self._commit()
        tag = _TAG + secrets.token_hex(16)
        note = self._note = _Note(
            tag=tag,
            before=str(before.instant) if before else "",
            kept=self._keeps_request(request),
        )
        note.put(self._context)
        operator.submitted = {**operator.handover.shared(dict(request), tag), "result_tag": tag}
        start = self._starter(note)
        cluster.find(tag)  # who may not ask learns it before a job runs that can't be watched
        self._unwatched = True
        try:
            if note.kept:
                self._keep(tag)
            found = start()
        except HoodieException:
            self.abandon()  # spark-submit may have handed it over before it failed or was killed
            raise
        found = found or cluster.find(tag)
        if found is None:
            self.abandon()
            raise HoodieJobError(
                f"spark-submit ended without an error, but {cluster.NAME} has no application with the tag "
                f"{tag}; does its address in the Spark connection name the same cluster?"
            )
        return found

    def _starter(self, note: _Note) -> Callable[[], str | None]:
        """What starts the job of operator.submitted, and returns once the cluster has it: its id, if that is
        known.
        """
        operator, cluster, tag = self._operator, self._cluster, note.tag
        add_lineage(operator, self._context)
        given = operator.conf or {}
        operator.conf = {**given, **cluster.conf(tag, given)}
        if note.kept:
            operator.conf |= cluster.request_conf(tag)
        hook = operator.make_hook(detached=True, request_path=cluster.KEPT_REQUEST if note.kept else None)

        def start() -> None:
            hook.submit(operator.application)

        return start

    def _keeps_request(self, request: Mapping[str, Any]) -> bool:
        """Is the request to be kept for the application?"""
        return self._cluster.KEPT_REQUEST is not None and any_secret(request)

    def _keep(self, tag: str) -> None:
        """Keep the request of operator.submitted."""
        self._cluster.keep(tag, json.dumps(self._operator.submitted))

    def abandon(self) -> None:
        """End an application that was submitted and that no trigger watches yet."""
        if not self._unwatched:
            return
        try:
            if (found := self._cluster.find(self._noted().tag)) is not None:
                self._cluster.kill(found)
            self._forget()
            self._operator.handover.unshare(self._noted().tag)
        except HoodieException as error:
            self._log.error("The application may be running still: %s", error.message)

    # --- one that has ended ---------------------------------------------------------------------------

    def result(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """By the event of the trigger. A job that failed after its work has done it: its report says so, else
        the commit of its token.
        """
        application, state, said = (str(event[name]) for name in ("application", "state", "said"))
        tag = str(event.get("tag") or "")  # triggers of earlier releases have none
        if state != LOST:
            if self._cluster.ON_SPARK:
                self._show_ui(application)
            self._show_output(application)
            self._tried(partial(self._forget, tag))
        if tag and state != LOST:
            self._operator.handover.unshare(tag)
        report = self._report(tag)
        result = None if report is None else report.result
        if result is not None:
            result = log_result(self._log, result)
            stats.committed(result)
        elif report is not None and report.error is not None and state not in _KILLED:
            log_error(self._log, report.error)
            raise from_report(report.error)
        else:
            result = self._committed(state, str(event["before"]))
            if result is None:
                raise _failure(self._cluster, application, state, said)
            stats.committed(result, timed=False)
        if state != State.SUCCEEDED.value:
            called = self._cluster.label(application)
            self._log.warning("%s: %s, after its work was done; the result stays", called, state)
        return result

    def _show_output(self, tag: str) -> None:
        """What the task's log is to have of the job's output; that of an application is on its cluster."""

    def drop_report(self) -> None:
        """Deletes the report; where the worker may not do that, no try takes it again."""
        if self._read is None:
            return
        read = self._read
        self._tried(read.delete)
        self._read = None
        if self._note is not None and self._note.tag == read.tag:
            replace(self._note, taken=True).put(self._context)

    def _committed(self, state: str, before: str) -> dict[str, Any] | None:
        """The result by the commit of the token, where the job made it, or found it; else None."""
        table, found = self._operator.table, self._commit()
        made = found is not None and found.instant != before
        if found is None or not (made or state == State.SUCCEEDED.value):
            return None
        result = found.result(table["name"], normalize(table["path"]))
        return {**result, "status": "committed"} if made else result

    def _report(self, tag: str) -> JobReport | None:
        """Of the job with this tag, dropped at the end of this try, also where it is refused. One that the
        storage does not give, or that comes later, is left to the next try.
        """
        source = self._report_of(tag)
        try:
            report = source.read() if tag else None
        except HoodieTableError:
            self._read = source
            raise
        self._read = self._read if report is None else source
        return report

    def _report_of(self, tag: str) -> JobResult:
        return JobResult(path=self._operator.table["path"], options=self._operator.settings(), tag=tag)

    def _commit(self) -> TokenCommit | None:
        """The token's last commit, of any source; raises the exception of a table that can't be read."""
        operator = self._operator
        if not operator.token or operator.only_planned:
            return None
        try:
            return commit_of(operator.table["path"], operator.token, operator.settings())
        except HoodieError as error:
            raise from_error(error) from error

    def _noted(self) -> _Note:
        assert self._note is not None
        return self._note

    def _bind(self) -> None:
        """What the cluster keeps for the application is gone with it."""
        if self._noted().kept:
            self._tried(partial(self._cluster.bind_request, self._noted().tag))

    def _forget(self, tag: str = "") -> None:
        """What is kept for the job goes; `tag`: see `_tag`."""
        if self._note is not None and self._note.kept:
            self._cluster.forget(self._note.tag)

    def _tag(self, told: str) -> str:
        """The note's, or the one that the trigger's event told, as an Airflow before 3.3 stores no note."""
        return told if self._note is None else self._note.tag

    def _tried(self, action: Callable[[], None]) -> None:
        """Something about what is kept for the job, which needs it no more. A failure is logged."""
        try:
            action()
        except HoodieException as error:
            self._log.warning("What was kept for the job may stay for longer: %s", error.message)


class WorkerJob(ClusterJob):
    """The detached job of a running operator, in a process of the hook on this worker."""

    def __init__(self, operator: RunningOperator, publication: Publication, hook: Any = None) -> None:
        super().__init__(operator, WorkerJobs.of(operator), publication)
        self._hook = hook

    def _starter(self, note: _Note) -> Callable[[], str | None]:
        operator, cluster = self._operator, self._cluster
        request = {**(operator.submitted or {}), "detached": operator.kill_grace_seconds}

        def start() -> None:
            self._hook.detach(request, lambda: cluster.find(note.tag) is not None)

        return start

    def _show_output(self, tag: str) -> None:
        try:
            sign = WorkerJobs.of(self._operator).sign(tag)
        except HoodieException as error:
            self._log.warning("The output of the job can't be read: %s", error.message)
            return
        for line in () if sign is None else readable(sign.log):
            self._log.info("%s", line)

    def _forget(self, tag: str = "") -> None:
        if found := self._tag(tag):
            self._cluster.forget(found)


def check_deferrable(operator: Any) -> None:
    """Raises HoodieConfigurationError for arguments that can't be."""
    if operator.detached:
        check_detached(operator)
        return
    never = never_on_a_cluster(operator)
    if operator.deferrable and not never and (wrong := not_deferrable(operator)):
        raise HoodieConfigurationError(f"deferrable=True {wrong}, or leave deferrable out")
    if not (operator.cancel_on_kill or (operator.deferrable and not never)):
        raise HoodieConfigurationError(
            "cancel_on_kill=False leaves an application on a cluster running; another job ends with its "
            "task, so use deferrable=True with deploy mode 'cluster', or detached=True with engine='local', "
            "or leave cancel_on_kill out"
        )


def check_detached(operator: Any) -> None:
    """Raises HoodieConfigurationError for arguments of an operator with detached=True that can't be."""
    engine = operator.engine
    known = not (isinstance(engine, str) and is_template(engine))
    if known and engine != LOCAL:
        raise HoodieConfigurationError(
            f"detached=True is for jobs in a process on the worker, not for engine={engine!r}; use "
            "engine='local', or deferrable=True with a cluster in deploy mode 'cluster'"
        )
    if operator.deferrable is False:
        raise HoodieConfigurationError(
            "the task of a detached job waits in the triggerer, so deferrable=False can't be with "
            "detached=True; leave one of them out"
        )
    if operator.needs_token and not (operator.exactly_once or operator.token):
        raise HoodieConfigurationError(
            "detached=True runs a job that a retry on another machine may start again, and it would write "
            "twice; use exactly_once=True"
        )


def may_detach(operator: Any) -> bool:
    """By `deferrable`, else by Airflow's setting, where nothing that is known is against it. Raises
    HoodieConfigurationError for a detached job: this one is Spark's.
    """
    if operator.detached:
        check_detached(operator)
    wanted = default_deferrable() if operator.deferrable is None else operator.deferrable
    return bool(wanted) and not (never_on_a_cluster(operator) or not_deferrable(operator))


def never_on_a_cluster(operator: Any) -> bool:
    """Is it known that the job runs on the worker: locally, or with its driver in client mode? Such a task is
    deferred before its job only (airflow_hoodie.turns).
    """
    master, mode = operator.master, hook_arguments(operator)["deploy_mode"]
    named = isinstance(master, str) and not is_template(master)
    return (
        operator.engine == LOCAL
        or mode == "client"
        or (named and not has_cluster(master) and mode != "cluster")
    )


def not_deferrable(operator: Any) -> str:
    """Why the task of a job on a cluster can't be deferred, as the end of a sentence; "" where nothing is
    against it.
    """
    master = operator.master
    if operator.needs_token and not (operator.exactly_once or operator.token):
        return "runs a job that the cluster may start twice, and it would write twice; use exactly_once=True"
    if operator.post_submit_commands:
        return "submits a job and leaves it, so post_submit_commands would run before its end; use none"
    if isinstance(master, str) and not has_cluster(master) and not is_template(master):
        standalone = master.startswith("spark://")
        why = ", as Spark's standalone clusters take no Python applications in cluster mode"
        named = f"{master}{why if standalone else ''}"
        return f"works with the masters {MASTERS} only, not {named}; use one of them"
    return ""


def cluster_of(hook: HoodieSparkSubmitHook) -> ClusterManager | None:
    """What runs the driver of the hook's job; None in deploy mode client."""
    return hook.cluster() if hook.in_cluster_mode else None


def _failure(cluster: ClusterManager, application: str, state: str, said: str) -> HoodieException:
    more = f": {said}" if said else ""
    called = cluster.label(application)
    logs = f"; its log ({cluster.log_command(application)}) has the job's error"
    if state == State.SUCCEEDED.value:
        return HoodieJobError(
            f"{called} succeeded, but the table has no result of it, as far as this worker sees it; is "
            f"the table's path the same for both?{logs}"
        )
    if state == State.KILLED.value:
        return HoodieJobKilledError(f"{called} was killed{more}; the next write rolls back what it left")
    if state == TIMED_OUT:
        return HoodieJobKilledError(f"{called} was killed, as the task's execution_timeout is over")
    if state == LOST:
        return HoodieJobError(
            f"{called} may be running still: the cluster could not be asked{more}. A retry waits for it",
            code="unreachable",
        )
    if state == State.UNKNOWN.value:
        return HoodieJobError(f"{cluster.NAME} knows no {called}, and the table has no result of it{logs}")
    return HoodieJobError(f"{called} failed{more}{logs}")
