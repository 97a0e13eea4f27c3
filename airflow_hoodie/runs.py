"""What a task's run stands for: its token, and the runs of one DAG at once and in any order.

- By its token a retry, a cleared task or a second run finds its commit. A token is DAG, task and map index,
  and one of these: the run's data interval, else its partition key, else its logical date. A run without any
  of them (an asset-triggered one) has its run id, which retries and clearing do not change.
- Runs at once have settings here: how long they wait for each other, which services they omit. The module
  also finds the end of a backfill.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow_hoodie.compat.task_sdk import run_type
from airflow_hoodie.exceptions import HoodieConfigurationError
from hoodie.config.key import Config
from hoodie.errors import HoodieError, TableNotFound
from hoodie.source.fingerprint import fingerprint
from hoodie.storage.settings import options_of
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.token_store import TokenStore
from hoodie.timeline.tokens import INTERVAL_KEY, RUN_KEY, TaskRun, TokenCommit

#: settings of a job (docs/settings.md)
WAIT_FOR_WRITER = "hoodie.write.wait.for.writer.ms"
WAIT_PLACE = "hoodie.write.wait.place"
SERVICES_ENABLED = "hoodie.table.services.enabled"
ALLOW_OUT_OF_ORDER = "hoodie.write.allow.out.of.order"
MAX_AMPLIFICATION = "hoodie.write.max.amplification"

SERVICES = ("auto", "on", "off")
#: a task in one of these states does nothing more in its run; None: it was not scheduled yet
FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


def task_token(context: Mapping[str, Any]) -> str:
    """`dag/task/map index/interval` of the running task; "" outside of a run."""
    if "ti" not in context or "dag_run" not in context:
        return ""
    task, run = context["ti"], context["dag_run"]
    return "/".join(
        [task.dag_id, task.task_id, str(getattr(task, "map_index", -1)), _stands_for(context, run)]
    )


def run_metadata(context: Mapping[str, Any]) -> dict[str, str]:
    """Extra metadata that names the task run and its data interval, for the timeline page; none outside of a
    run.
    """
    if "ti" not in context or "dag_run" not in context:
        return {}
    task, run = context["ti"], context["dag_run"]
    named = {RUN_KEY: TaskRun(task.dag_id, task.task_id, getattr(task, "map_index", -1), run.run_id).text()}
    interval = _interval(run)
    return {**named, INTERVAL_KEY: interval} if interval else named


def committed_before(
    path: str, token: str, operation: str, source: Mapping[str, Any], options: Mapping[str, str] | None = None
) -> TokenCommit | None:
    """The token's commit, if it was of the same source, as far as this machine sees it; None for no table.

    `options`: the table's, of which those of its storage count.
    """
    try:
        found = commit_of(path, token, options)
    except HoodieError:
        return None  # the job says what is wrong
    return (
        found if found is not None and found.fingerprint == fingerprint(operation, source, options) else None
    )


def commit_of(path: str, token: str, options: Mapping[str, str] | None = None) -> TokenCommit | None:
    """The token's commit, of any source; None for no table. Raises HoodieError where it can't be read."""
    try:
        table = Table(TableRef.of(path, Config.of(options_of(options or {}))))
        return TokenStore(table.timeline, table.storage).find(token)
    except TableNotFound:
        return None


def _stands_for(context: Mapping[str, Any], run: Any) -> str:
    if interval := _interval(run):
        return interval
    key = context.get("partition_key") or getattr(run, "partition_key", None)
    if key:
        return f"partition={key}"
    date = getattr(run, "logical_date", None)
    return _text(date) if date is not None else f"run={run.run_id}"


def _interval(run: Any) -> str:
    start, end = getattr(run, "data_interval_start", None), getattr(run, "data_interval_end", None)
    return f"{_text(start)}/{_text(end)}" if start is not None and end is not None else ""


def _text(moment: datetime) -> str:
    return moment.isoformat()


def is_backfill(context: Mapping[str, Any]) -> bool:
    """Is the running task part of a backfill?"""
    return getattr(context.get("dag_run"), "run_type", None) == "backfill"


def wait_option(wait: timedelta | float | None) -> dict[str, str]:
    """The setting for a time to wait for other writers, in seconds; none for None and 0.

    Raises HoodieConfigurationError.
    """
    seconds = wait.total_seconds() if isinstance(wait, timedelta) else wait
    if not isinstance(seconds, (int, float, type(None))) or isinstance(seconds, bool) or (seconds or 0) < 0:
        raise HoodieConfigurationError(
            f"wait_for_writer is {wait!r}; give a timedelta or seconds, 0 or None to fail at once when "
            "another writer is at work"
        )
    return {WAIT_FOR_WRITER: str(round(seconds * 1000))} if seconds else {}


def services_option(services: str, context: Mapping[str, Any]) -> dict[str, str]:
    """The setting that holds services after a write off, if they are to be in this run."""
    held = services == "off" or (services == "auto" and is_backfill(context))
    return {SERVICES_ENABLED: "false"} if held else {}


def check_services(services: str) -> str:
    if services not in SERVICES:
        raise HoodieConfigurationError(f"services is {services!r}; use one of {', '.join(SERVICES)}")
    return services


def writes_left(context: Mapping[str, Any], task_ids: Collection[str]) -> int:
    """How many of these tasks are still to be done in the runs of the backfill that the task is part of.

    The last caller always gets 0; of two that end at the same time both may. Airflow runs one backfill of a
    DAG at a time.
    """
    ti = context["ti"]
    states: Mapping[str, Mapping[str, Any]] = ti.get_task_states(dag_id=ti.dag_id, task_ids=sorted(task_ids))
    left = {run_id: sum(_unfinished(state) for state in found.values()) for run_id, found in states.items()}
    return sum(count for run_id, count in left.items() if count and _backfilled(ti.dag_id, run_id))


def _unfinished(state: Any) -> bool:
    return (None if state is None else str(getattr(state, "value", state))) not in FINISHED


def _backfilled(dag_id: str, run_id: str) -> bool:
    """A run that a backfill repeats keeps its name."""
    if run_id.startswith("backfill__"):
        return True
    return run_type(dag_id, run_id) == "backfill"
