"""A DAG file as users write it, run by Airflow: upsert, then a sensor on its commit, then the next task."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from .conftest import FakeSubmit

SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, task
    from airflow_hoodie import CommitSensor, HoodieTable, UpsertOperator

    ORDERS = HoodieTable(name="orders", path={path!r}, record_keys=["id"], partition_fields=["day"])

    with DAG({dag_id!r}, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        upsert = UpsertOperator(
            task_id="upsert", table=ORDERS, source="/in/{{{{ ds }}}}/*.csv", spark_binary={binary!r}{master}
        )
        commit = CommitSensor(
            task_id="commit", table=ORDERS, after="{{{{ dag_run.start_date }}}}", poke_interval=0.1,
            timeout=20,
        )

        @task
        def report(write, seen):
            import json
            open({out!r}, "w").write(json.dumps([write, seen]))

        upsert >> commit
        report(upsert.output, commit.output)
"""


def dag_source(tmp_path: Path, fake: FakeSubmit, dag_id: str, master: str = ', master="local[2]"') -> str:
    return SOURCE.format(
        path=str(tmp_path / "orders"),
        binary=str(fake.path),
        dag_id=dag_id,
        out=str(tmp_path / "out"),
        master=master,
    )


def states(run: Any) -> dict[str, str]:
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


@pytest.fixture(autouse=True)
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_hoodie.operators import base

    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "run.py")


def test_upsert_then_sensor(load_dag: Callable[[str], Any], committing: FakeSubmit, tmp_path: Path) -> None:
    dag = load_dag(dag_source(tmp_path, committing, "upsert_then_sensor"))
    run = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    assert states(run) == {"upsert": "success", "commit": "success", "report": "success"}
    write, seen = json.loads((tmp_path / "out").read_text())
    assert write["num_inserts"] == 3
    assert seen["instant"] == write["instant"]
    assert seen["base_path"] == write["base_path"] == str(tmp_path / "orders")
    assert committing.request()["source"]["path"] == "/in/2026-01-02/*.csv"
    assert committing.option("--name") == f"upsert_then_sensor/upsert/{run.run_id}"


def test_a_failed_upsert_stops_the_run(
    load_dag: Callable[[str], Any], fake: FakeSubmit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.body("""
        say("ERROR", {"code": "conflict", "message": "writer 20260101000000000 is alive; wait for it"})
        sys.exit(1)
    """)
    run = load_dag(dag_source(tmp_path, fake, "failed_upsert")).test()
    assert states(run) == {"upsert": "failed", "commit": "upstream_failed", "report": "upstream_failed"}
    assert not (tmp_path / "out").exists()


def test_no_connection_fails_the_task_with_the_remedy(
    load_dag: Callable[[str], Any], committing: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_NOWHERE", raising=False)
    source = dag_source(tmp_path, committing, "no_connection", master=', spark_conn_id="spark_nowhere"')
    run = load_dag(source).test()
    assert states(run)["upsert"] == "failed"
    assert not Path(f"{committing.path}.json").exists()
