"""RollbackOperator, SavepointOperator and RestoreOperator, on the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG

import hoodie
from airflow_hoodie import (
    CancelOperator,
    HoodieTable,
    RestoreOperator,
    RollbackOperator,
    SavepointOperator,
)
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieConflictError, HoodieTableError
from hoodie.config.key import Config
from hoodie.services.restore.run import RestoreResult
from hoodie.services.rollback.run import CancelResult, RollbackResult
from hoodie.services.savepoint.run import SavepointResult
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    """Three commits of one row each."""
    made = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    options = made.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
    for number in range(3):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), made.path, options=options)
    return made


def rendered(task: Any, dag: DAG, **params: str) -> Any:
    ti = SimpleNamespace(dag_id="orders_dag", task_id=task.task_id, run_id="manual__1", map_index=-1)
    task.render_template_fields({"params": params, "dag": dag, "task": task, "ti": ti})
    return task


def run(task: Any) -> dict[str, Any]:
    result: dict[str, Any] = task.execute(context={})
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


def commits(table: HoodieTable) -> list[str]:
    return [item["instant"] for item in hoodie.instants(table.path) if item["action"] == "commit"]


def test_save_write_and_go_back(table: HoodieTable, logged: Callable[[], str]) -> None:
    """The savepoint says who made it; instants come from templates, as of an XCom."""
    first, second, third = commits(table)
    with DAG("d", start_date=START, params={"at": "x"}) as dag:
        save = SavepointOperator(task_id="save", table=table, instant="{{ params.at }}")
        undo = RollbackOperator(task_id="undo", table=table, instant="{{ params.at }}")
        back = RestoreOperator(task_id="back", table=table, instant="{{ params.at }}")
    saved = run(rendered(save, dag, at=first))
    assert set(saved) == {item.name for item in fields(SavepointResult)} - {"files"}
    assert (saved["status"], saved["instant"], saved["user"]) == ("created", first, "orders_dag/save")
    assert saved["comments"] == "manual__1"
    undone = run(rendered(undo, dag, at=third))
    assert set(undone) == {item.name for item in fields(RollbackResult)} - {"files", "voided"}
    assert (undone["status"], undone["target"]) == ("rolled_back", third)
    assert run(undo)["status"] == "skipped", "a retry is no error"
    restored = run(rendered(back, dag, at=first))
    assert set(restored) == {item.name for item in fields(RestoreResult)} - {"files", "voided"}
    assert [item["instant"] for item in restored["undone"]] == [second]
    assert commits(table) == [first]
    said = logged()
    assert f"savepoint {first} of orders" in said
    assert f"Rolled back completed commit {third} of orders by {undone['instant']}: 1 file of " in said
    assert f"Nothing to do for orders: {third} was rolled back by" in said
    assert f"Restored orders to {first}" in said
    deleted = run(
        SavepointOperator(task_id="free", table=table, instant=first, delete=True, user="", comments="")
    )
    assert deleted["status"] == "deleted"


@pytest.mark.full
def test_a_plan_is_cancelled(tmp_path: Path, logged: Callable[[], str]) -> None:
    table = HoodieTable(name="orders", path=str(tmp_path / "t"), record_keys="id", table_type="MERGE_ON_READ")
    options = table.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
    for number in range(2):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), table.path, options=options)
    due = {"hoodie.compact.inline.max.delta.commits": 1}
    plan = hoodie.compact_table(table.path, mode="schedule", options=due).scheduled
    with DAG("d", start_date=START, params={"at": "x"}) as dag:
        task = CancelOperator(task_id="drop", table=table, instant="{{ params.at }}")
    done = run(rendered(task, dag, at=plan))
    assert set(done) == {item.name for item in fields(CancelResult)} - {"files", "voided"}
    assert (done["status"], done["target"], done["target_action"]) == ("cancelled", plan, "compaction")
    assert run(task)["status"] == "skipped", "a retry is no error"
    said = logged()
    assert f"compaction {plan} of orders by {done['instant']}: its plan and 0 files" in said
    assert f"Nothing to do for orders: {plan} was cancelled by" in said


def test_what_stands_in_the_way_fails_the_task(table: HoodieTable) -> None:
    first, second, third = commits(table)
    with pytest.raises(HoodieTableError, match=f"later commits may depend on it .{third}"):
        run(RollbackOperator(task_id="undo", table=table, instant=second))
    hoodie.savepoint_table(table.path, InstantTime(second))
    with pytest.raises(HoodieTableError, match=f"savepoints can't be taken back: {second}"):
        run(RestoreOperator(task_id="back", table=table, instant=first))
    with Transaction(Table(TableRef(table.path), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        options = {"hoodie.write.wait.for.writer.ms": "0"}
        with pytest.raises(HoodieConflictError, match="another writer is at work"):
            run(RollbackOperator(task_id="undo", table=table, instant=third, options=options))
    assert commits(table)[-1] == third


def test_what_is_wrong_fails_when_the_dag_is_read(table: HoodieTable) -> None:
    for kind in (RollbackOperator, CancelOperator, RestoreOperator):
        for instant in (None, "", "yesterday", "2026-01-31"):
            with pytest.raises(HoodieConfigurationError, match="give the time of an instant"):
                kind(task_id="t", table=table, instant=instant)
    with pytest.raises(HoodieConfigurationError, match="give the time of an instant"):
        SavepointOperator(task_id="t", table=table, delete=True)
    task = SavepointOperator(task_id="t", table=table, instant="{{ none }}", delete=True)
    task.instant = " "
    with pytest.raises(HoodieConfigurationError, match="give the time of an instant"):
        task.request()
