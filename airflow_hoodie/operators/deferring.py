"""Operators whose Spark job may run detached, in deploy mode cluster, while the task waits in the triggerer.

The driver's output is on the cluster, so what a job did is read from the table: from the commit with the
task's token. A submission is noted before spark-submit starts, as its tag and the token's last commit, where
a retry sees it (Airflow's task_state_store); by the tag the retry finds the application that it left, and
the request with secrets that the cluster keeps for it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_hoodie import stats
from airflow_hoodie.clusters import ClusterManager, State
from airflow_hoodie.clusters.choice import MASTERS, cluster_at, has_cluster
from airflow_hoodie.engines import LOCAL
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
    from_error,
)
from airflow_hoodie.hooks.spark import HoodieSparkSubmitHook
from airflow_hoodie.links.hoodie import SparkUILink
from airflow_hoodie.operators.base import APPLICATION_KEY, leave_link, push
from airflow_hoodie.operators.emitting import HoodieEmittingOperator
from airflow_hoodie.paths import is_template
from airflow_hoodie.polling import default_deferrable
from airflow_hoodie.secrets import any_secret
from airflow_hoodie.tokens import commit_of
from airflow_hoodie.triggers.application import EVENT_FIELDS, LOST, TIMED_OUT, ApplicationTrigger
from hoodie.errors import HoodieError
from hoodie.storage import normalize
from hoodie.timeline.tokens import TokenCommit

if TYPE_CHECKING:
    from airflow.sdk import Context

#: of the note of a submission in the task's state store
_KEY = "hoodie_submission"
_TAG = "hoodie-"


@dataclass(frozen=True, kw_only=True)
class _Note:
    """Of a submission, in the task's state store.

    `tag`: the application's. `before`: the instant of the commit that the token had, "" for none.
    `kept`: the cluster keeps the job's request.
    """

    tag: str
    before: str
    kept: bool = False

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> _Note | None:
        """That of the last submission by this task; None where there is none."""
        store = context.get("task_state_store")
        found = store.get(_KEY) if store is not None else None
        if not (isinstance(found, Mapping) and {"tag", "before"} <= set(found)):
            return None
        return cls(tag=str(found["tag"]), before=str(found["before"]), kept=bool(found.get("kept")))

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


class HoodieDeferringOperator(HoodieEmittingOperator):
    """Base of the operators with a token. Parameters: HoodieEmittingOperator.

    Subclasses set what is declared here.
    """

    deferrable: bool | None = None
    poll_interval: float = 30.0
    cancel_on_kill: bool = True
    exactly_once: bool
    token: str | None

    def take_token(self, context: Context) -> None:
        """Sets the token of the running task, unless the operator has one."""
        raise NotImplementedError

    def check_deferrable(self) -> None:
        """What is known of deferrable=True when the DAG is read. Raises HoodieConfigurationError."""
        if self.deferrable and (wrong := self._not_deferrable()):
            raise HoodieConfigurationError(f"deferrable=True {wrong}, or leave deferrable out")
        if not (self.cancel_on_kill or self.deferrable):
            raise HoodieConfigurationError(
                "cancel_on_kill=False leaves an application on a cluster running; without deferrable=True "
                "the job ends with the task, so use deferrable=True, or leave cancel_on_kill out"
            )

    def may_defer(self) -> bool:
        """By the argument, else by Airflow's setting where nothing that is known here is against it."""
        if self.deferrable is not None:
            return self.deferrable
        return default_deferrable() and not self._not_deferrable()

    def _not_deferrable(self) -> str:
        """The reason, as the end of a sentence; "" where nothing is against it."""
        if not (self.exactly_once or self.token):
            return "finds a job's commit by its token; use exactly_once=True"
        if self.only_planned:
            return "reads what a job did from its commit, and dry_run=True makes none; use dry_run=False"
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

    def submit(self, context: Context) -> None:
        """Runs the job to its end, or raises TaskDeferred once the cluster has it."""
        if not self.may_defer():
            super().submit(context)
            return
        hook = self.make_hook(detached=True)
        if not hook.in_cluster_mode:
            if self.deferrable:
                raise HoodieConfigurationError(
                    f"deferrable=True needs deploy mode 'cluster', and the Spark connection "
                    f"{self.spark_conn_id!r} has another; pass deploy_mode='cluster', put "
                    '{"deploy-mode": "cluster"} into its extra, or leave deferrable out'
                )
            super().submit(context)
            return
        cluster = hook.cluster()
        if (note := _Note.of(context)) is not None:
            if found := _running(cluster, note.tag):
                self.log.info("%s, which an earlier try submitted, is running; waiting for its end", found)
                self._tried(partial(note.bind, cluster))
                self._defer(context, cluster, found, note.before)
            self._tried(partial(note.forget, cluster))
        before = self._commit()
        self.add_lineage(context)
        note = _Note(
            tag=_TAG + secrets.token_hex(16),
            before=before.instant if before else "",
            kept=cluster.KEPT_REQUEST is not None and any_secret(self._sent),
        )
        note.put(context)
        found = self._submit_detached(cluster, note)
        self._tried(partial(note.bind, cluster))
        self._defer(context, cluster, found, note.before)

    def _submit_detached(self, cluster: ClusterManager, note: _Note) -> str:
        """Id of the new application with the note's tag."""
        tag, given = note.tag, self.conf or {}
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

    def _defer(self, context: Context, cluster: ClusterManager, application: str, before: str) -> NoReturn:
        push(context, APPLICATION_KEY, application)
        self._leave_ui(context, cluster, application)
        self.log.info("%s is on the cluster; the task waits for its end in the triggerer", application)
        timeout: timedelta | None = self.execution_timeout
        self.defer(
            trigger=ApplicationTrigger(
                cluster=cluster.place(),
                application_id=application,
                before=before,  # dag.test() hands over no arguments but the event
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
        """After the trigger's event: the result as of `execute`, from the commit in the table.

        The event's `before` is the instant of the commit that the token had when the job was submitted, ""
        for none. A job that failed after its commit has made it: the commit stays.
        """
        if event is None or not set(event) >= EVENT_FIELDS:
            raise HoodieException(
                f"the trigger ended with {event!r}, which names no application; clear the task: it finds an "
                "application that runs, and a commit that was made"
            )
        application, before = str(event["application"]), str(event["before"])
        self.resolve()
        self.take_token(context)
        state, said = str(event["state"]), str(event["said"])
        cluster, note = cluster_at(event["cluster"]), _Note.of(context)
        if state != LOST:
            self._leave_ui(context, cluster, application)
            if note is not None:
                self._tried(partial(note.forget, cluster))
        found = self._commit()
        made = found is not None and found.instant != before
        if found is None or not (made or state == State.SUCCEEDED.value):
            raise _failure(cluster, application, state, said)
        result = found.result(self.table["name"], normalize(self.table["path"]))
        if made:
            result["status"] = "committed"
            if state != State.SUCCEEDED.value:
                self.log.warning(
                    "%s: %s, after the commit %s, which stays", application, state, found.instant
                )
        stats.committed(result, timed=False)
        return self.emitted(context, result)

    def _tried(self, action: Callable[[], None]) -> None:
        """Something about the request that a cluster keeps; the job needs neither. A failure is logged."""
        try:
            action()
        except HoodieException as error:
            self.log.warning("The cluster may keep the job's request for longer: %s", error.message)

    def _commit(self) -> TokenCommit | None:
        """The token's last commit, of any source; raises the exception of a table that can't be read."""
        options = {**self.table["options"], **self.options}
        try:
            return commit_of(self.table["path"], str(self.token), options)
        except HoodieError as error:
            raise from_error(error) from error


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
            f"{application} succeeded, but the table has no commit of this task's token, as far as this "
            f"worker sees it; is the table's path the same for both?{logs}"
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
            f"{cluster.NAME} knows no {application}, and the table has no commit of it{logs}"
        )
    return HoodieJobError(f"{application} failed{more}{logs}")
