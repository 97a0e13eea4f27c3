"""DeleteOperator, InsertOverwriteOperator and DeletePartitionOperator: what they send, do and tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.sdk import DAG
from airflow.sdk.execution_time.context import OutletEventAccessors

import hoodie
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieValidationError
from airflow_hoodie.operators import base
from airflow_hoodie.operators.write import DeleteOperator, DeletePartitionOperator, InsertOverwriteOperator
from airflow_hoodie.table import HoodieTable
from hoodie.write.operation import WriteResult

from .conftest import FakeSubmit

DAY = datetime(2026, 1, 5, tzinfo=timezone.utc)

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    """Three days of one row."""
    made = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id", partition_fields="day")
    days = ["2026-01-01", "2026-01-02", "2026-02-01"]
    options = made.options_for("upsert", {"hoodie.index.bloom.num_entries": 100})
    hoodie.write_table(pa.table({"id": ["a", "b", "c"], "day": days}), made.path, options=options)
    return made


def days(table: HoodieTable) -> list[str]:
    return sorted(hoodie.read_table(table.path, columns=["day"]).column(0).to_pylist())


def drop(table: HoodieTable, partitions: Any, **arguments: Any) -> Any:
    return DeletePartitionOperator(task_id="drop", table=table, partitions=partitions, **arguments)


def context(run_id: str = "scheduled__1") -> Any:
    task = SimpleNamespace(dag_id="d", task_id="drop", map_index=-1, run_id=run_id)
    run = SimpleNamespace(data_interval_start=DAY, data_interval_end=DAY, logical_date=DAY, run_id=run_id)
    return {"ti": task, "dag_run": run}


def instants(table: HoodieTable) -> int:
    return len(hoodie.instants(table.path))


@pytest.mark.parametrize(
    ("kind", "more", "operation"),
    [
        (DeleteOperator, {}, "delete"),
        (InsertOverwriteOperator, {}, "insert_overwrite"),
        (InsertOverwriteOperator, {"whole_table": True}, "insert_overwrite_table"),
    ],
)
def test_the_request(
    kind: Any,
    more: dict[str, Any],
    operation: str,
    committing: FakeSubmit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")
    table = HoodieTable(
        name="orders", path=str(tmp_path / "orders"), record_keys="id", partition_fields="day"
    )
    task = kind(
        task_id="write", table=table, source="/in/*.parquet", master="local[2]",
        spark_binary=str(committing.path), name="n", **more,
    )  # fmt: skip
    assert task.execute(context={})["operation"] == operation
    args = committing.call()["args"]
    assert args[args.index("--request") - 1] == str(tmp_path / "jobs" / "run.py")
    request = committing.request()
    assert table.options_for(operation).items() <= request.pop("options").items()
    assert request == {
        "table": table.path,
        "operation": operation,
        "source": {"path": "/in/*.parquet"},
        "extra_metadata": {},
        "engine": "spark",
    }
    assert [outlet.uri for outlet in task.outlets] == [table.asset.uri]


def test_partitions_are_deleted_on_the_worker(table: HoodieTable, logged: Callable[[], str]) -> None:
    result = drop(table, "2026-01-*").execute(context={})
    assert set(result) == {item.name for item in fields(WriteResult)} - {
        "dry_run",
        "planned",
        "validations",
        "num_late",
    }
    assert (result["status"], result["action"]) == ("committed", "replacecommit")
    assert (result["partitions"], result["num_replaced"]) == (["2026-01-01", "2026-01-02"], 2)
    assert days(table) == ["2026-02-01"]
    assert "2 file groups replaced" in logged()


def test_a_dry_run_writes_nothing_and_emits_no_event(table: HoodieTable, logged: Callable[[], str]) -> None:
    before = instants(table)
    task = drop(table, "2026-01-*", dry_run=True)
    result = task.execute(context={"outlet_events": OutletEventAccessors()})
    assert (result["status"], result["instant"], result["num_replaced"]) == ("planned", "", 2)
    assert [item["partition"] for item in result["planned"]] == ["2026-01-01", "2026-01-02"]
    assert (instants(table), len(days(table)), task.outlets) == (before, 3, [])
    assert "delete_partition would change 2 partitions of orders: 2 file groups with " in logged()


def test_a_retry_finds_the_commit(table: HoodieTable) -> None:
    """Before a job is started, and of the same partitions only."""
    first = drop(table, ["2026-01-01", "2026-01-02"]).execute(context())
    before = instants(table)
    again = drop(table, ["2026-01-02", "2026-01-01"]).execute(context("manual__7"))
    assert (again["status"], again["instant"]) == ("already_committed", first["instant"])
    assert set(again) == set(first)
    assert (again["partitions"], again["num_replaced"]) == (first["partitions"], first["num_replaced"])
    assert instants(table) == before
    with pytest.raises(HoodieValidationError, match="no partition '2026-01-01' with rows"):
        drop(table, "2026-01-01").execute(context())
    other = drop(table, ["2026-01-01", "2026-02-01"], missing_ok=True).execute(context())
    assert (other["status"], other["partitions"]) == ("committed", ["2026-02-01"])
    assert any("'2026-01-01'" in warning for warning in other["warnings"])
    assert any("its source changed" in warning for warning in other["warnings"])


def test_assets_tell_the_partitions(table: HoodieTable) -> None:
    events = OutletEventAccessors()
    task = drop(table, "2026-01-01", outlets=[table.partitions])
    task.execute({"outlet_events": events})
    assert [outlet.uri for outlet in task.outlets] == [table.partitions.uri, table.asset.uri]
    assert events[table.asset].extra["operation"] == "delete_partition"
    assert events[table.asset].extra["partitions"] == ["2026-01-01"]


@pytest.mark.parametrize("partitions", ["", [], [""], None, [3]])
def test_bad_partitions_fail_when_the_dag_is_read(table: HoodieTable, partitions: Any) -> None:
    with pytest.raises(HoodieConfigurationError, match="pass a partition path such as '2024-01-31'"):
        drop(table, partitions)


@pytest.mark.full
def test_blanks_belong_to_a_partition(table: HoodieTable) -> None:
    for named in ("2026-01-01 ", " "):
        with pytest.raises(HoodieValidationError, match=f"no partition '{named}' with rows"):
            drop(table, named).execute(context())


def test_templates_reach_the_job(table: HoodieTable) -> None:
    with DAG("d", start_date=DAY) as dag:
        task = drop(table, ["{{ params.day }}"])
    ti = SimpleNamespace(dag_id="d", task_id="drop", run_id="manual__1", map_index=-1)
    task.render_template_fields({"params": {"day": "2026-02-01"}, "dag": dag, "task": task, "ti": ti})
    assert task.execute(context={})["partitions"] == ["2026-02-01"]
    for name in (*task.template_fields, *task.template_fields_renderers):
        assert hasattr(task, name), name


def test_by_spark_submit(
    fake: FakeSubmit, table: HoodieTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")
    fake.body('say("RESULT", {"operation": "delete_partition", "status": "committed"})')
    task = drop(
        table, "2026-01-01", missing_ok=True, token="mine", engine="spark", master="local[2]",
        spark_binary=str(fake.path), name="n",
    )  # fmt: skip
    assert task.execute(context={})["status"] == "committed"
    request = fake.request()
    assert table.options_for("delete_partition").items() <= request.pop("options").items()
    assert request == {
        "table": table.path,
        "operation": "delete_partition",
        "partitions": ["2026-01-01"],
        "missing_ok": True,
        "extra_metadata": {},
        "token": "mine",
        "force": False,
    }
