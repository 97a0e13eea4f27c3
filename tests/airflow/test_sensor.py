"""CommitSensor in poke mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowSensorTimeout, AirflowSkipException
from airflow.sdk import DAG, PokeReturnValue

import hoodie
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException, HoodieTableNotFoundError
from airflow_hoodie.sensors.commit import CommitSensor
from airflow_hoodie.sensors.freshness import FreshnessSensor
from airflow_hoodie.sensors.partition import PartitionSensor
from airflow_hoodie.table import HoodieTable
from scripts.environment import ROOT
from tests.support import webhdfs_store
from tests.support.s3_store import served

T1, T2, T3 = (f"2026010{day}000000000" for day in (1, 2, 3))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with one commit and one that runs."""
    meta = tmp_path / "orders" / ".hoodie"
    meta.mkdir(parents=True)
    for name in (f"{T1}.commit.requested", f"{T1}.inflight", f"{T1}.commit", f"{T2}.commit.requested"):
        (meta / name).write_text("{}")
    return tmp_path / "orders"


def poke(table: Any, **arguments: Any) -> PokeReturnValue:
    found = CommitSensor(task_id="wait", table=table, **arguments).poke({})
    assert isinstance(found, PokeReturnValue)
    return found


def seen(found: PokeReturnValue) -> dict[str, Any]:
    assert isinstance(found.xcom_value, dict)
    return found.xcom_value


def test_any_commit(table: Path) -> None:
    found = poke(str(table))
    assert found.is_done
    assert json.loads(json.dumps(found.xcom_value)) == {
        "base_path": str(table),
        "instant": T1,
        "completion": T1,
        "action": "commit",
        "completion_time": seen(found)["completion_time"],
    }
    completed = datetime.fromisoformat(seen(found)["completion_time"])
    assert abs(completed.timestamp() - (table / ".hoodie" / f"{T1}.commit").stat().st_mtime) < 0.002


def test_waits_for_the_commit_after(table: Path) -> None:
    assert not poke(str(table), after=T1).is_done
    (table / ".hoodie" / f"{T2}.commit").write_text("{}")
    assert seen(poke(str(table), after=T1))["instant"] == T2
    assert not poke(str(table), after=T1, min_commits=2).is_done
    assert not poke(str(table), actions=["deltacommit"]).is_done


def test_after_a_moment(table: Path) -> None:
    assert poke(str(table), after=datetime(2020, 1, 1, tzinfo=timezone.utc)).is_done
    assert poke(str(table), after="2020-01-01T00:00:00Z").is_done
    assert not poke(str(table), after="2999-01-01").is_done


@pytest.mark.parametrize("form", ["path", "uri", "table", "dict"])
def test_forms_of_the_table(form: str, table: Path) -> None:
    whole = HoodieTable(name="orders", path=str(table), record_keys="id")
    given = {"path": str(table), "uri": f"file://{table}", "table": whole, "dict": whole.to_dict()}[form]
    assert seen(poke(given))["base_path"] == str(table)


def test_a_missing_table(tmp_path: Path) -> None:
    assert not poke(str(tmp_path / "none")).is_done
    with pytest.raises(HoodieTableNotFoundError, match="none is no Hudi table"):
        poke(str(tmp_path / "none"), missing="fail")


def test_the_log_says_what_is_waited_for_and_what_is_there(
    table: Path, tmp_path: Path, logged: Callable[[], str]
) -> None:
    poke(str(tmp_path / "none"), partition="day=1")
    line = f"Waiting on {tmp_path}/none for a commit of rows to partition 'day=1'; no table is there yet"
    assert line in logged()
    old = datetime.now().timestamp() - 7200
    os.utime(table / ".hoodie" / f"{T1}.commit", (old, old))
    poke(str(table), after=T1)
    said = f"for a commit of rows after instant {T1}; its last commit of rows is {T1}, completed 2 h ago"
    assert said in logged()


def test_a_table_on_an_object_store() -> None:
    options = {"hoodie.table.name": "orders", "hoodie.datasource.write.recordkey.field": "id"}
    with served():
        with pytest.raises(HoodieTableNotFoundError, match="orders is no Hudi table"):
            poke("s3a://lake/orders", missing="fail")
        for _ in range(2):
            done = hoodie.write_table(pa.table({"id": ["1"]}), "s3://lake/orders", options=options)
        assert seen(poke("s3a://lake/orders"))["instant"] == done.instant
        assert not poke("s3a://lake/orders", after=done.instant).is_done


def test_a_table_on_hdfs() -> None:
    options = {"hoodie.table.name": "orders", "hoodie.datasource.write.recordkey.field": "id"}
    with webhdfs_store.served() as store:
        path = f"{store.uri}/lake/orders"
        assert not poke(path).is_done
        done = hoodie.write_table(pa.table({"id": ["1"]}), path, options=options)
        assert seen(poke(path))["instant"] == done.instant
        assert not poke(path, after=done.instant).is_done


def test_a_scheme_without_a_storage_is_an_error() -> None:
    with pytest.raises(HoodieException, match="no storage for scheme 'ftp'"):
        poke("ftp://lake/orders")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"after": "yesterday"}, "neither an instant"),
        ({"actions": ["clean"]}, "use a list of commit"),
        ({"min_commits": 0}, "min_commits is 0"),
        ({"min_commits": "2"}, "min_commits is '2'"),
        ({"missing": "ignore"}, "use 'wait' or 'fail'"),
        ({"table": "orders"}, "'orders' is relative"),
        ({"table": {"path": "/t"}}, "needs name, record_keys"),
        ({"table": 7}, "pass a HoodieTable"),
    ],
)
def test_bad_arguments_fail_when_the_dag_is_read(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        CommitSensor(**{"task_id": "wait", "table": "/lake/orders", **arguments})


def test_templates(table: Path) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        sensor = CommitSensor(task_id="wait", table="{{ params.lake }}/orders", after="{{ params.after }}")
    for field in (*sensor.template_fields, *sensor.template_fields_renderers):
        assert hasattr(sensor, field)
    params = {"lake": str(table.parent), "after": ""}
    sensor.render_template_fields({"params": params, "dag": dag, "task": sensor})
    assert sensor.poke({}).is_done
    sensor.after = "None"
    with pytest.raises(HoodieConfigurationError, match="or ''"):
        sensor.poke({})


@pytest.mark.parametrize(
    ("sensor", "arguments"),
    [
        (
            CommitSensor,
            {"token": "{{ run_id }}", "partition": ["{{ ds }}"], "extra_metadata": {"k": "{{ ds }}"}},
        ),
        (PartitionSensor, {"partitions": "day={{ ds }}", "after": "{{ ds }}"}),
        (FreshnessSensor, {"max_age": timedelta(hours=1)}),
    ],
)
def test_templated_fields_exist(sensor: type[Any], arguments: dict[str, Any]) -> None:
    made = sensor(task_id="wait", table="/lake/{{ ds }}", **arguments)
    for name in (*made.template_fields, *made.template_fields_renderers, *made.condition_fields):
        assert hasattr(made, name)
    assert set(arguments) - {"max_age"} <= set(made.template_fields) <= {"table", *made.condition_fields}


def test_the_result_and_the_timeout(table: Path) -> None:
    sensor = CommitSensor(task_id="wait", table=str(table), poke_interval=0)
    assert sensor.execute({})["instant"] == T1
    with pytest.raises(AirflowSensorTimeout):
        CommitSensor(task_id="wait", table=str(table), after=T3, poke_interval=0, timeout=0).execute({})
    with pytest.raises(AirflowSkipException):
        CommitSensor(
            task_id="wait", table=str(table), after=T3, poke_interval=0, timeout=0, soft_fail=True
        ).execute({})


@pytest.mark.full
def test_pokes_without_spark_and_arrow(table: Path) -> None:
    code = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "pyarrow", "fastavro", "duckdb"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Wall())
sys.path[:0] = sys.argv[2:]
from airflow_hoodie import CommitSensor, HoodieTable
table = HoodieTable(name="orders", path=sys.argv[1], record_keys=["id"])
print(CommitSensor(task_id="wait", table=table).poke({}).xcom_value["instant"])
"""
    command = [sys.executable, "-c", code, str(table), str(ROOT), str(ROOT / "spark_jobs")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1:] == [T1], run.stderr
