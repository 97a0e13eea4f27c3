"""Backfills: what their runs do otherwise, the pass at their end, and which failures are worth a retry."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_hoodie import HOODIE_RETRIES, BackfillMaintenanceOperator, CompactionOperator, UpsertOperator
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieConflictError, from_report
from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.retries import HoodieRetryPolicy
from airflow_hoodie.runs import ALLOW_OUT_OF_ORDER, SERVICES_ENABLED, WAIT_FOR_WRITER
from airflow_hoodie.table import HoodieTable

TABLE = HoodieTable(name="t", path="/t", record_keys="id", ordering_field="ts")


def context(run_type: str = "scheduled", states: Any = None) -> Any:
    run = SimpleNamespace(run_type=run_type, run_id=f"{run_type}__1")
    ti = SimpleNamespace(dag_id="d", task_id="t", get_task_states=lambda **asked: states or {})
    return {"dag_run": run, "ti": ti}


def options(run_type: str, **arguments: Any) -> dict[str, str]:
    task = UpsertOperator(task_id="t", table=TABLE, source="/in", **arguments)
    found: dict[str, str] = task.job_request(context(run_type))["options"]
    return found


@pytest.mark.parametrize(
    ("run_type", "services", "held"),
    [
        ("scheduled", "auto", False),
        ("backfill", "auto", True),
        ("backfill", "on", False),
        ("manual", "off", True),
    ],
)
def test_services_are_held_off(run_type: str, services: str, held: bool) -> None:
    assert (options(run_type, services=services).get(SERVICES_ENABLED) == "false") is held


def test_the_users_own_settings_go_before_those_of_the_run() -> None:
    assert options("backfill", options={SERVICES_ENABLED: True})[SERVICES_ENABLED] == "true"
    assert options("manual")[WAIT_FOR_WRITER] == "3600000"
    assert options("manual", options={WAIT_FOR_WRITER: 5})[WAIT_FOR_WRITER] == "5"
    assert options("manual", wait_for_writer=timedelta(seconds=2))[WAIT_FOR_WRITER] == "2000"
    assert options("manual", wait_for_writer=0.5)[WAIT_FOR_WRITER] == "500"
    assert WAIT_FOR_WRITER not in options("manual", wait_for_writer=None)
    assert ALLOW_OUT_OF_ORDER not in options("manual")
    assert options("manual", allow_out_of_order=True)[ALLOW_OUT_OF_ORDER] == "true"


def test_wrong_arguments() -> None:
    with pytest.raises(HoodieConfigurationError, match="wait_for_writer is -1"):
        options("manual", wait_for_writer=-1)
    with pytest.raises(HoodieConfigurationError, match="wait_for_writer is 'long'"):
        CompactionOperator(
            task_id="t", table={**TABLE.to_dict(), "table_type": "MERGE_ON_READ"}, wait_for_writer="long"
        )
    with pytest.raises(HoodieConfigurationError, match="use one of auto, on, off"):
        options("manual", services="never")


def run_of(*states: Any, name: str = "backfill__1") -> dict[str, dict[str, Any]]:
    return {name: {f"upsert_{number}": state for number, state in enumerate(states)}}


@pytest.mark.parametrize(
    ("run_type", "states", "why"),
    [
        ("scheduled", {}, "no backfill"),
        ("backfill", {**run_of("success"), **run_of(None, "queued", name="backfill__2")}, "2 writes"),
        ("backfill", {**run_of("success"), **run_of("up_for_retry", name="backfill__2")}, "1 writes"),
        ("backfill", {**run_of("success"), **run_of("failed", "upstream_failed", name="backfill__2")}, ""),
    ],
)
def test_the_last_run_does_the_pass(
    run_type: str, states: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MaintenanceOperator, "execute", lambda self, context: {"status": "done"})
    monkeypatch.setattr(BackfillMaintenanceOperator, "template_fields", ())
    task = BackfillMaintenanceOperator(task_id="m", table=TABLE, writes=["upsert"])
    assert task.trigger_rule == "all_done"
    if why:
        with pytest.raises(AirflowSkipException, match=why):
            task.execute(context(run_type, states))
    else:
        assert task.execute(context(run_type, states)) == {"status": "done"}


def test_which_failures_are_retried_and_when() -> None:
    policy = HoodieRetryPolicy(timedelta(seconds=10), timedelta(seconds=60))

    def decision(code: str, tries: int = 1) -> Any:
        return policy.evaluate(from_report({"code": code, "message": "x"}), tries, 5)

    delays = [decision("table_busy", tries).retry_delay.total_seconds() for tries in (1, 2, 3, 4, 40)]
    for delay, middle in zip(delays, (10, 20, 40, 60, 60), strict=True):
        assert 0.75 * middle <= delay <= 1.25 * middle
    for code, reason in (
        ("conflict", "another writer is at work"),
        ("table_busy", "another writer is at work"),
        ("lock_timeout", "holds the lock"),
        ("commit_conflict", "came between"),
        ("fenced", "took the job for dead"),
    ):
        assert decision(code).action.value == "retry"
        assert reason in decision(code).reason
    assert decision("source_not_found").action.value == "retry"
    assert 15 <= decision("source_not_found", 2).retry_delay.total_seconds() <= 25
    unknown = {"code": "commit_unknown", "message": "x"}
    for repeatable, action in ((True, "retry"), (False, "fail")):
        report = {**unknown, "values": {"repeatable": repeatable}}
        assert policy.evaluate(from_report(report), 1, 5).action.value == action
    assert decision("commit_unknown").action.value == "fail"
    for code in ("configuration", "table_mismatch", "input", "schema", "out_of_order", "not_retained"):
        assert decision(code).action.value == "fail"
    assert decision("job").action.value == decision("").action.value == "default"
    assert policy.evaluate(ValueError(), 1, 5).action.value == "default"
    assert vars(HoodieRetryPolicy.deserialize(json.loads(json.dumps(policy.serialize())))) == vars(policy)
    with pytest.raises(HoodieConfigurationError, match="give 0 < base <= longest"):
        HoodieRetryPolicy(timedelta(0))


def test_airflow_asks_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the way that a failed task takes."""
    from airflow.sdk.execution_time import task_runner

    task = UpsertOperator(task_id="t", table=TABLE, source="/in", **HOODIE_RETRIES)
    ti = SimpleNamespace(task=task, try_number=2, _ti_context_from_server=SimpleNamespace(max_tries=5))
    log = SimpleNamespace(info=lambda *args, **more: None)
    assert (task.retries, task.has_retry_policy) == (5, True)
    wrong = task_runner._evaluate_retry_policy(ti, HoodieConfigurationError("x"), log)  # type: ignore[arg-type]
    busy = task_runner._evaluate_retry_policy(ti, HoodieConflictError("x"), log)  # type: ignore[arg-type]
    assert wrong is not None
    assert busy is not None
    assert (wrong.action.value, busy.action.value) == ("fail", "retry")
    assert busy.retry_delay is not None
