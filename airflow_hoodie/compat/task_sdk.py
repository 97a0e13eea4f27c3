"""Privates of Airflow's Task SDK 1.1 to 1.3, the part of Airflow 3.1 to 3.3 that runs tasks and triggers."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any


def run_type(dag_id: str, run_id: str) -> str | None:
    """The type of a DAG run ("manual", "scheduled", "backfill", ...); None for an unknown run.

    Asks the supervisor of the running task, so it works in a task only. Airflow 3.1 has no such question:
    None of all runs.
    """
    try:
        from airflow.sdk.execution_time.comms import DagRunResult, GetDagRun
    except ImportError:
        return None
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    found = SUPERVISOR_COMMS.send(GetDagRun(dag_id=dag_id, run_id=run_id))
    return str(found.run_type) if isinstance(found, DagRunResult) else None


def inlet_events(inlets: Sequence[Any]) -> Mapping[Any, Any]:
    """The `inlet_events` of a task's context, for these inlets."""
    from airflow.sdk.execution_time.context import InletEventsAccessors

    return InletEventsAccessors(list(inlets))


def newest_events(asset: Any, limit: int) -> Sequence[Any]:
    """The newest events of an asset, newest first; none where this process is no running task, and
    none in Airflow 3.1.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError

    try:
        from airflow.sdk.execution_time.context import InletEventsAccessor

        return list(InletEventsAccessor(asset_uri=asset.uri).ascending(False).limit(limit))
    except (ImportError, AirflowRuntimeError):
        return ()


def asset_stores(store: Any) -> list[Any]:
    """The state stores of a trigger's assets, one each; none for None.

    `store` is the trigger's `asset_state_store`, whose own methods work for a single asset only.
    """
    if store is None:
        return []
    named = [*getattr(store, "_by_name", {}).values(), *getattr(store, "_by_uri", {}).values()]
    return named or [store]


def airflow_stats() -> Any:
    """Airflow's metrics, as this process has them: functions `incr` and `timing`."""
    from airflow.providers.common.compat.sdk import Stats

    return Stats


def cron_intervals(cron: str) -> Any:
    """The timetable of data intervals that a cron text in UTC bounds."""
    sdk = import_module("airflow.sdk")
    if not hasattr(sdk, "CronDataIntervalTimetable"):
        sdk = import_module("airflow.timetables.interval")  # of Airflow 3.1
    return sdk.CronDataIntervalTimetable(cron, timezone="UTC")


def look_up_as_server() -> None:
    """Lets this process look up connections in Airflow's database, as Airflow's own processes do."""
    os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")


@contextlib.contextmanager
def executing(operator: Any) -> Iterator[None]:
    """Inside, `execute` of the operator may be called, as the task runner does: it resumes a deferred task by
    another method.
    """
    from airflow.sdk.bases.operator import ExecutorSafeguard

    token = ExecutorSafeguard.tracker.set(operator)
    try:
        yield
    finally:
        ExecutorSafeguard.tracker.reset(token)
