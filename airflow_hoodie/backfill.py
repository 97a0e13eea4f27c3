"""Runs of one DAG at once and in any order: waiting, services that are left out, the end of a backfill."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from airflow_hoodie.compat.task_sdk import run_type
from airflow_hoodie.exceptions import HoodieConfigurationError

#: settings of a job (docs/settings.md)
WAIT_FOR_WRITER = "hoodie.write.wait.for.writer.ms"
SERVICES_ENABLED = "hoodie.table.services.enabled"
ALLOW_OUT_OF_ORDER = "hoodie.write.allow.out.of.order"
MAX_AMPLIFICATION = "hoodie.write.max.amplification"

SERVICES = ("auto", "on", "off")
#: a task in one of these states does nothing more in its run; None: it was not scheduled yet
FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


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
