"""IndexOperator, on the worker."""

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
from airflow_hoodie import HoodieTable, IndexOperator
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieConflictError
from hoodie.services.index.run import IndexResult

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    made = HoodieTable(name="orders", path=str(tmp_path / "t"), record_keys="id", table_type="MERGE_ON_READ")
    options = made.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
    for number in range(2):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), made.path, options=options)
    return made


def run(task: Any) -> dict[str, Any]:
    result: dict[str, Any] = task.execute(context={})
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


def test_made_and_dropped(table: HoodieTable, logged: Callable[[], str]) -> None:
    """What to do, and to which indexes, comes from templates."""
    with DAG("d", start_date=START, params={"mode": "x", "names": "x"}) as dag:
        task = IndexOperator(
            task_id="index", table=table, mode="{{ params.mode }}", indexes="{{ params.names }}"
        )
    ti = SimpleNamespace(dag_id="d", task_id="index", run_id="manual__1", map_index=-1)
    context: Any = {"params": {"mode": "create", "names": "files"}, "dag": dag, "task": task, "ti": ti}
    task.render_template_fields(context)
    made = run(task)
    assert set(made) == {item.name for item in fields(IndexResult)}
    assert (made["status"], made["made"]) == ("created", ["files"])
    assert run(task)["status"] == "skipped", "a retry is no error"
    shown = run(IndexOperator(task_id="show", table=table, mode="show"))
    assert [item["index"] for item in shown["indexes"]] == ["files"]
    dropped = run(IndexOperator(task_id="drop", table=table, mode="drop", indexes=["files"]))
    assert (dropped["status"], dropped["indexes"]) == ("dropped", [])
    said = logged()
    assert "Made files of orders" in said
    assert "Nothing to do for orders: the table has the indexes files already" in said
    assert "Dropped files of orders" in said


def test_a_plan_that_waits_fails_the_task(table: HoodieTable) -> None:
    due = {"hoodie.compact.inline.max.delta.commits": 1}
    plan = hoodie.compact_table(table.path, mode="schedule", options=due).scheduled
    with pytest.raises(HoodieConflictError, match=plan):
        run(IndexOperator(task_id="index", table=table, mode="create", indexes="files"))


def test_what_is_wrong_fails_when_the_dag_is_read(table: HoodieTable) -> None:
    with pytest.raises(HoodieConfigurationError, match="mode is 'make'; use one of show, create"):
        IndexOperator(task_id="t", table=table, mode="make", indexes="files")
    empty: tuple[Any, ...] = (None, "", [], " , ")
    for names in empty:
        with pytest.raises(HoodieConfigurationError, match="name those to create"):
            IndexOperator(task_id="t", table=table, mode="create", indexes=names)
