"""ClusteringOperator against a fake spark-submit: what it sends and says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import airflow_hoodie
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators import base
from airflow_hoodie.operators.services import ClusteringOperator
from airflow_hoodie.table import HoodieTable
from hoodie.services.clustering.run import ClusteringResult

from .conftest import FakeSubmit

T = "20260101000000000"
RESULT: dict[str, Any] = {
    "status": "clustered", "table": "orders", "base_path": "/t", "mode": "run", "dry_run": False,
    "instant": T, "scheduled": T, "clustered": [T], "pending": [], "reason": "", "partitions": ["eu"],
    "num_groups": 1, "num_replaced": 4, "num_outputs": 1, "num_files": 1, "num_writes": 70,
    "bytes_written": 4321, "duration_s": 0.5, "warnings": [], "rolled_back": [],
    "metadata_table_removed": False, "action": "replacecommit", "operation": "cluster",
}  # fmt: skip
SORT = "hoodie.clustering.plan.strategy.sort.columns"


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")


def operator(fake: FakeSubmit, table: HoodieTable, **arguments: Any) -> ClusteringOperator:
    defaults: dict[str, Any] = {
        "task_id": "cluster", "master": "local[2]", "spark_binary": str(fake.path), "name": "dag/cluster/run",
    }  # fmt: skip
    return ClusteringOperator(table=table, **{**defaults, **arguments})


def test_the_result_has_the_fields_of_a_real_one() -> None:
    assert set(RESULT) == {item.name for item in fields(ClusteringResult)} - {"files"}
    assert airflow_hoodie.ClusteringOperator is ClusteringOperator


def test_the_request_and_the_result(
    fake: FakeSubmit, table: HoodieTable, tmp_path: Path, logged: Callable[[], str]
) -> None:
    fake.body(f'say("RESULT", {RESULT!r})')
    task = operator(fake, table, mode="execute", instant=T, options={SORT: "city"}, extra_metadata={"by": 7})
    assert task.execute(context={}) == RESULT
    args = fake.call()["args"]
    assert args[args.index("--request") - 1] == str(tmp_path / "jobs" / "run.py")
    request = fake.request()
    assert (request["operation"], request["mode"], request["instant"]) == ("cluster", "execute", T)
    assert (request["options"][SORT], request["extra_metadata"]) == ("city", {"by": "7"})
    assert "cluster orders" in logged()


@pytest.mark.parametrize(
    "change",
    [
        {"status": "scheduled", "clustered": []},
        {"status": "skipped", "clustered": [], "scheduled": "", "reason": "nothing is due"},
    ],
)
def test_the_other_outcomes_are_no_failures(
    change: dict[str, Any], fake: FakeSubmit, table: HoodieTable, logged: Callable[[], str]
) -> None:
    fake.body(f'say("RESULT", { ({**RESULT, **change, "summary": "its text"})!r})')
    assert operator(fake, table).execute(context={}) == {**RESULT, **change}
    assert "its text" in logged()


def test_what_is_wrong_fails_when_the_dag_is_read(fake: FakeSubmit, table: HoodieTable) -> None:
    with pytest.raises(HoodieConfigurationError, match="mode is 'all'; use one of schedule, execute, run"):
        operator(fake, table, mode="all")
    with pytest.raises(HoodieConfigurationError, match=f"instant '{T}' is for mode='execute'"):
        operator(fake, table, instant=T)
    with pytest.raises(HoodieConfigurationError, match="contradicts"):
        operator(fake, table, options={"hoodie.table.name": "x"})
