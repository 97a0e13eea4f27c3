"""CompactionOperator against a fake spark-submit: what it sends, returns and raises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

import airflow_hoodie
from airflow_hoodie.backfill import WAIT_FOR_WRITER
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieConflictError
from airflow_hoodie.operators import base
from airflow_hoodie.operators.services import CompactionOperator
from airflow_hoodie.table import HoodieTable
from hoodie.services.compaction.run import CompactionResult

from .conftest import FakeSubmit

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
T = "20260101000000000"
RESULT: dict[str, Any] = {
    "status": "compacted", "table": "orders", "base_path": "/t", "mode": "run", "dry_run": False,
    "instant": T, "scheduled": T, "compacted": [T], "pending": [], "reason": "", "partitions": ["eu"],
    "num_slices": 2, "num_log_files": 5, "log_bytes": 6000, "num_files": 2, "num_writes": 70,
    "bytes_written": 4321, "duration_s": 0.5, "warnings": [], "rolled_back": [],
    "metadata_table_removed": False, "action": "compaction", "operation": "compact",
}  # fmt: skip


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    return HoodieTable(
        name="orders", path=str(tmp_path / "orders"), record_keys="id", table_type="MERGE_ON_READ"
    )


@pytest.fixture
def compacting(fake: FakeSubmit) -> FakeSubmit:
    return fake.body(f'say("RESULT", {RESULT!r})')


def operator(fake: FakeSubmit, table: HoodieTable, **arguments: Any) -> CompactionOperator:
    defaults: dict[str, Any] = {
        "task_id": "compact", "master": "local[2]", "spark_binary": str(fake.path), "name": "dag/compact/run",
    }  # fmt: skip
    return CompactionOperator(table=table, **{**defaults, **arguments})


def test_the_result_has_the_fields_of_a_real_one() -> None:
    assert set(RESULT) == {item.name for item in fields(CompactionResult)} - {"files"}


def test_the_request_and_the_result(
    compacting: FakeSubmit, table: HoodieTable, tmp_path: Path, logged: Callable[[], str]
) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": 1}
    task = operator(compacting, table, options=options, extra_metadata={"by": 7})
    assert task.execute(context={}) == RESULT
    args = compacting.call()["args"]
    assert args[args.index("--request") - 1] == str(tmp_path / "jobs" / "run.py")
    assert compacting.request() == {
        "table": table.path,
        "operation": "compact",
        "mode": "run",
        "options": {WAIT_FOR_WRITER: "3600000", **table.options_for("compact", options)},
        "extra_metadata": {"by": "7"},
        "engine": "spark",
    }
    assert "compact orders" in logged()


@pytest.mark.parametrize(
    "change",
    [
        {"status": "scheduled", "compacted": []},
        {"status": "skipped", "compacted": [], "scheduled": "", "reason": "nothing is due"},
    ],
)
def test_the_other_outcomes_are_no_failures(
    change: dict[str, Any], fake: FakeSubmit, table: HoodieTable, logged: Callable[[], str]
) -> None:
    fake.body(f'say("RESULT", { ({**RESULT, **change, "summary": "its text"})!r})')
    assert operator(fake, table, mode="schedule").execute(context={}) == {**RESULT, **change}
    assert "its text" in logged()


def test_one_instant(compacting: FakeSubmit, table: HoodieTable) -> None:
    operator(compacting, table, mode="execute", instant=T).execute(context={})
    request = compacting.request()
    assert (request["mode"], request["instant"]) == ("execute", T)


def test_templates_reach_the_job(compacting: FakeSubmit, tmp_path: Path) -> None:
    table = HoodieTable(
        name="orders", path=f"{tmp_path}/{{{{ params.env }}}}", record_keys="id", table_type="MERGE_ON_READ"
    )
    with DAG("d", start_date=START, params={"env": "eu"}) as dag:
        task = CompactionOperator(
            task_id="compact", table=table, mode="{{ params.mode }}", instant="{{ params.instant }}",
            options={"hoodie.compaction.target.io": "{{ params.io }}"}, master="local[2]",
            spark_binary=str(compacting.path),
        )  # fmt: skip
    ti: Any = SimpleNamespace(dag_id="d", task_id="compact", run_id="manual__1", map_index=-1)
    params = {"env": "eu", "mode": "execute", "instant": T, "io": "7"}
    task.render_template_fields({"params": params, "ds": "2026-01-01", "dag": dag, "task": task, "ti": ti})
    task.execute(context={})
    request = compacting.request()
    assert (request["table"], request["mode"], request["instant"]) == (f"{tmp_path}/eu", "execute", T)
    assert request["options"]["hoodie.compaction.target.io"] == "7"


def test_a_blank_instant_means_all_pending_plans(compacting: FakeSubmit, table: HoodieTable) -> None:
    task = operator(compacting, table, mode="execute", instant="{{ x }}")
    task.instant = " "
    task.execute(context={})
    assert "instant" not in compacting.request()


def test_what_is_wrong_fails_when_the_dag_is_read(fake: FakeSubmit, table: HoodieTable) -> None:
    with pytest.raises(HoodieConfigurationError, match="mode is 'all'; use one of schedule, execute, run"):
        operator(fake, table, mode="all")
    with pytest.raises(HoodieConfigurationError, match=f"instant '{T}' is for mode='execute'"):
        operator(fake, table, instant=T)
    with pytest.raises(HoodieConfigurationError, match="contradicts"):
        operator(fake, table, options={"hoodie.table.name": "x"})
    plain = HoodieTable(name="orders", path="/t", record_keys="id")
    with pytest.raises(HoodieConfigurationError, match="'orders' is COPY_ON_WRITE, which has no logs"):
        operator(fake, plain)


def test_what_is_wrong_after_rendering_fails_before_the_job(fake: FakeSubmit, table: HoodieTable) -> None:
    task = operator(fake, table, mode="{{ x }}")
    task.mode = "all"
    with pytest.raises(HoodieConfigurationError, match="mode is 'all'"):
        task.execute(context={})
    assert not Path(f"{fake.path}.json").exists()


def test_a_conflict_is_told_apart(fake: FakeSubmit, table: HoodieTable) -> None:
    fake.body('say("ERROR", {"code": "conflict", "message": "at work", "values": {}}); sys.exit(1)')
    with pytest.raises(HoodieConflictError, match="at work"):
        operator(fake, table).execute(context={})


def test_template_fields_exist(fake: FakeSubmit, table: HoodieTable) -> None:
    task = operator(fake, table)
    assert all(hasattr(task, name) for name in task.template_fields)
    assert set(task.template_fields_renderers) <= set(task.template_fields)
    assert {"mode", "instant", "table", "options"} <= set(task.template_fields)
    assert airflow_hoodie.CompactionOperator is CompactionOperator
