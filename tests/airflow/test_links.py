"""The links of a task: left while it runs, and when it ends, as Airflow's servers read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hoodie import CleanOperator, HoodieTable, UpsertOperator
from airflow_hoodie.links import hoodie as links
from airflow_hoodie.operators import base

from .by_version import dag_serialization, operator_serialization
from .conftest import COMMITTING_JOB, FakeSubmit

WITH_UI = """
    say("PROGRESS", {"step": "spark", "text": "application app-1", "application_id": "app-1",
        "spark_ui": "http://driver:4040", **%s})
"""
LOGGED = {"event_log": "true"}
DAG_FILE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import HoodieTable, UpsertOperator

    with DAG("linked", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        UpsertOperator(
            task_id="write", source="/in", master="local[2]", spark_binary={binary!r}, name="n",
            exactly_once=False, table=HoodieTable(name="orders", path={path!r}, record_keys="id"))
"""


class NotedTi:
    """A task instance that notes what is pushed."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str]] = []

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed.append((key, value))


@pytest.mark.parametrize(
    ("said", "extra", "history"),
    [
        ({}, {"history-server": "http://history:18080/"}, ""),
        (LOGGED, {}, ""),
        (LOGGED, {"history-server": "http://history:18080/"}, "http://history:18080/history/app-1/"),
        ({**LOGGED, "history_server": "yarn:18080"}, {}, "http://yarn:18080/history/app-1/"),
    ],
)
def test_links_are_there_while_the_job_runs(
    said: dict[str, str],
    extra: dict[str, str],
    history: str,
    fake: FakeSubmit,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before its commit, which this job does not come to. Afterwards the port may be another job's."""
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "run.py")
    connection = {"conn_type": "spark", "host": "local[2]", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    fake.body(WITH_UI % said + '    say("ERROR", {"code": "job", "message": "it broke"})\n    sys.exit(1)')
    table = HoodieTable(name="orders", path="/lake/orders", record_keys="id")
    task = UpsertOperator(
        task_id="w", table=table, source="/in", spark_binary=str(fake.path), name="n",
        exactly_once=False,
    )  # fmt: skip
    ti = NotedTi()
    with pytest.raises(Exception, match="it broke"):
        task.execute({"ti": ti})  # type: ignore[typeddict-item]
    assert ti.pushed == [
        ("_link_TimelineLink", links.timeline_url("/lake/orders")),
        ("spark_application_id", "app-1"),
        ("_link_SparkUILink", "http://driver:4040"),
        ("_link_SparkUILink", history),
    ]
    given = {link.name: link.get_link(task, ti_key=SimpleNamespace()) for link in task.operator_extra_links}  # type: ignore[arg-type]
    assert given["Hudi commit"] == ""
    assert given["Spark UI"] == history


def test_a_service_on_the_worker_has_no_spark_ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_hoodie.hooks.local import HoodieLocalHook

    result = {"operation": "clean", "status": "cleaned", "instant": "20260101000000000", "base_path": "/b"}
    monkeypatch.setattr(HoodieLocalHook, "run", lambda self, request: result)
    task = CleanOperator(task_id="c", table=HoodieTable(name="o", path="/lake/o", record_keys="id"))
    ti = NotedTi()
    assert task.execute({"ti": ti}) == result  # type: ignore[typeddict-item]
    assert [key for key, _ in ti.pushed] == ["_link_TimelineLink"]
    commit = links.CommitLink().get_link(task, ti_key=SimpleNamespace())
    assert commit == links.timeline_url("/b", "20260101000000000")
    assert links.SparkUILink().get_link(task, ti_key=SimpleNamespace()) == ""


@pytest.mark.parametrize(
    ("kind", "engine", "spark"),
    [
        (UpsertOperator, "local", False),
        (UpsertOperator, "auto", True),
        (UpsertOperator, "{{ params.engine }}", True),
        (UpsertOperator, "spark", True),
        (CleanOperator, "local", False),
        (CleanOperator, "auto", False),
        (CleanOperator, "spark", True),
    ],
)
def test_a_task_that_starts_no_spark_has_no_dead_link(kind: Any, engine: str, spark: bool) -> None:
    """As Airflow's servers know its links, from the DAG as it is stored."""
    table = HoodieTable(name="orders", path="/lake/orders", record_keys="id")
    given = {"source": "/in"} if kind is UpsertOperator else {}
    task = kind(task_id="w", table=table, engine=engine, **given)
    stored = operator_serialization().serialize_operator(task)["_operator_extra_links"]
    assert list(stored) == ["Hudi timeline", "Hudi commit", *(["Spark UI"] if spark else [])]


def test_below_the_address_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert links.timeline_url("/lake/o").startswith("/hoodie/")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/airflow")
    assert links.timeline_url("/lake/o").startswith("https://host/airflow/hoodie/")


@pytest.mark.full
def test_airflow_finds_the_links_of_a_run(
    load_dag: Callable[[str], Any], fake: FakeSubmit, tmp_path: Path
) -> None:
    """The DAG as stored for the servers, and the links that it gives for a task that ended."""

    fake.body(WITH_UI % {**LOGGED, "history_server": "https://history"} + COMMITTING_JOB)
    path = str(tmp_path / "orders")
    dag = load_dag(DAG_FILE.format(binary=str(fake.path), path=path))
    run = dag.test()
    assert run.state == "success"
    [ti] = run.get_task_instances()
    result = ti.xcom_pull(task_ids="write")
    stored = dag_serialization().from_dict(dag_serialization().to_dict(dag)).get_task("write")
    assert set(stored.extra_links) == {"Hudi timeline", "Hudi commit", "Spark UI"}
    assert {name: stored.get_extra_links(ti, name) for name in stored.extra_links} == {
        "Hudi timeline": links.timeline_url(path),
        "Hudi commit": links.timeline_url(path, result["instant"], "commit"),
        "Spark UI": "https://history/history/app-1/",
    }
    assert ti.xcom_pull(task_ids="write", key="spark_application_id") == "app-1"
