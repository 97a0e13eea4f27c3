"""MaintenanceOperator, on the worker and by spark-submit, and the example DAG that maps it over tables."""

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

import airflow_hoodie
import hoodie
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieConflictError
from airflow_hoodie.operators import base
from airflow_hoodie.operators.maintenance import SERVICES, MaintenanceOperator
from airflow_hoodie.table import HoodieTable
from hoodie.config.key import Config
from hoodie.services.planner.run import ServicesResult
from hoodie.services.registry import planned
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.write.transaction import Transaction
from scripts.environment import ROOT

from .conftest import FakeSubmit

SETTINGS = {
    "hoodie.compact.inline.max.delta.commits": 1,
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
    "hoodie.index.bloom.num_entries": 100,
}
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}

pytestmark = pytest.mark.usefixtures("jobs_here")


def written(path: Path, name: str, table_type: str = "MERGE_ON_READ", commits: int = 5) -> HoodieTable:
    """A row, updated again and again; of a merge-on-read table the first three commits are compacted."""
    table = HoodieTable(name=name, path=str(path / name), record_keys="id", table_type=table_type)
    options = {**table.options_for("upsert", {"hoodie.index.bloom.num_entries": 100}), **OFF}
    for number in range(commits):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), table.path, options=options)
        if number == 2 and table_type == "MERGE_ON_READ":
            hoodie.compact_table(table.path, options=SETTINGS)
    return table


def run(task: Any, **context: Any) -> dict[str, Any]:
    result: dict[str, Any] = task.execute(context=context)
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


def test_all_services_on_the_worker(tmp_path: Path, logged: Callable[[], str]) -> None:
    table = written(tmp_path, "orders")
    result = run(MaintenanceOperator(task_id="m", table=table, options=SETTINGS, engine="local"))
    assert set(result) == {item.name for item in fields(ServicesResult)}
    assert (result["status"], result["done"]) == ("done", ["compaction", "clean", "archive"])
    assert result["skipped"] == ["restore", "repair", "log_compaction", "clustering"]
    assert result["failed"] == []
    assert list(result["services"]) == list(SERVICES)
    assert result["services"]["compaction"]["num_log_files"] == 2
    assert result["services"]["clean"]["num_files"] == 3
    assert "files" not in result["services"]["clean"]
    said = logged()
    assert "compaction: Compacted orders: " in said
    assert "repair: nothing to do: no write has failed, and nothing is left over" in said
    again = run(MaintenanceOperator(task_id="m", table=table, options=SETTINGS, engine="local"))
    assert (again["status"], again["done"]) == ("skipped", [])


def test_some_services(tmp_path: Path) -> None:
    table = written(tmp_path, "orders", "COPY_ON_WRITE")
    task = MaintenanceOperator(
        task_id="m", table=table, services=["archive", "clean"], options=SETTINGS, engine="local"
    )
    result = run(task)
    assert list(result["services"]) == result["done"] == ["clean", "archive"]
    assert result["services"]["clean"]["status"] == "cleaned"


def test_a_service_that_fails_fails_the_task_and_not_the_others(tmp_path: Path) -> None:
    """A writer keeps the cleaner from planning; a compaction that is planned already goes on beside it."""
    table = written(tmp_path, "orders")
    hoodie.compact_table(table.path, mode="schedule", options=SETTINGS)
    pushed: dict[str, Any] = {}
    ti = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    task = MaintenanceOperator(
        task_id="m", table=table, services=["compaction", "clean"], options=SETTINGS, engine="local",
        wait_for_writer=0,
    )  # fmt: skip
    with Transaction(Table(TableRef(table.path), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        with pytest.raises(HoodieConflictError, match=r"(clean|compaction) of orders: another writer"):
            task.execute({"ti": ti})  # type: ignore[typeddict-item]
    result = pushed["return_value"]
    assert result["status"] == "failed"
    assert "clean" in result["failed"]
    compacted = [item for item in hoodie.instants(table.path) if item["action"] == "commit"]
    assert [item["operation"] for item in compacted] == ["COMPACT", "COMPACT"]


def test_by_spark_submit(
    fake: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")
    answer = {"operation": "services", "status": "skipped", "table": "orders", "services": {}, "failed": []}
    fake.body(f'say("RESULT", {answer!r})')
    table = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    task = MaintenanceOperator(
        task_id="m", table=table, services="clean, archive", extra_metadata={"by": 7}, master="local[2]",
        spark_binary=str(fake.path), name="n", wait_for_writer=None,
    )  # fmt: skip
    assert run(task) == answer
    args = fake.call()["args"]
    assert args[args.index("--request") - 1] == str(tmp_path / "jobs" / "run.py")
    request = fake.request()
    assert request.pop("options").items() >= table.options_for("services").items()
    assert request == {
        "table": table.path,
        "operation": "services",
        "services": ["clean", "archive"],
        "engine": "spark",
        "extra_metadata": {"by": "7"},
    }


def test_what_is_wrong_fails_when_the_dag_is_read(tmp_path: Path) -> None:
    table = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    for services in (["clean", "vacuum"], [], "vacuum"):
        with pytest.raises(HoodieConfigurationError, match="name some of restore, repair, compaction"):
            MaintenanceOperator(task_id="m", table=table, services=services)


def test_the_names_are_those_of_the_services() -> None:
    assert tuple(planned()) == SERVICES
    assert airflow_hoodie.MaintenanceOperator is MaintenanceOperator


@pytest.mark.full
def test_the_example_looks_after_all_tables(
    load_dag: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [written(tmp_path, "logged"), written(tmp_path, "plain", "COPY_ON_WRITE", 2)]
    listed = tmp_path / "tables.json"
    listed.write_text(json.dumps([table.to_dict() for table in tables]))
    monkeypatch.setenv("MAINTENANCE_TABLES", str(listed))
    dag = load_dag((ROOT / "dags_examples" / "maintenance.py").read_text())
    run = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    assert run.state == "success"
    instances = run.get_task_instances()
    assert {ti.task_id: ti.state for ti in instances} == {
        "tables": "success",
        "services": "success",
        "report": "success",
    }
    assert sorted(ti.map_index for ti in instances if ti.task_id == "services") == [0, 1]
    (report,) = (ti for ti in instances if ti.task_id == "report")
    assert report.xcom_pull(task_ids="report") == ["logged: compaction", "plain: nothing to do"]
    rows = hoodie.read_table(tables[0].path, query="read_optimized", meta=False).to_pylist()
    assert rows == [{"id": "a", "n": 4}]


def test_the_example_by_the_button_of_the_page(
    load_dag: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's conf names one of the tables; a path that is not among them is none of the DAG's."""
    tables = [written(tmp_path, name, "COPY_ON_WRITE", 2) for name in ("first", "second")]
    listed = tmp_path / "tables.json"
    listed.write_text(json.dumps([table.to_dict() for table in tables]))
    monkeypatch.setenv("MAINTENANCE_TABLES", str(listed))
    dag = load_dag((ROOT / "dags_examples" / "maintenance.py").read_text())
    chosen = dag.get_task("tables").python_callable
    run = dag.test(
        logical_date=datetime(2026, 1, 3, tzinfo=timezone.utc),
        run_conf={"hoodie_table": {"name": "second", "path": tables[1].path}},
    )
    (report,) = (ti for ti in run.get_task_instances() if ti.task_id == "report")
    assert report.xcom_pull(task_ids="report") == ["second: nothing to do"]
    elsewhere = SimpleNamespace(conf={"hoodie_table": {"name": "first", "path": "/elsewhere"}})
    assert chosen(elsewhere) == []
    assert [table["name"] for table in chosen(SimpleNamespace(conf={}))] == ["first", "second"]
