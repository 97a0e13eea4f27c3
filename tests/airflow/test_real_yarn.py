"""Writes in deploy mode cluster on a real YARN, by the real spark-submit: a commit, a failure, a kill."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import TaskDeferred

import hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.exceptions import HoodieJobError, HoodieJobKilledError
from airflow_hoodie.operators.write import UpsertOperator
from scripts import environment
from tests.conftest import require
from tests.support.yarn import server
from tests.support.yarn.server import Yarn

from .detached import Store, context_of, run

pytestmark = [pytest.mark.spark, pytest.mark.full]

SECONDS = 300


@pytest.fixture(scope="module")
def yarn() -> Iterator[Yarn]:
    lacking = server.missing()
    require(lacking is None, lacking or "")
    with Yarn() as started, started.configured():
        started.await_node()
        yield started


def operator(yarn: Yarn, folder: Path, task_id: str, **arguments: Any) -> UpsertOperator:
    """Of the table `orders`; the driver's and the executor's Python is this one."""
    java = environment.spark_java()
    assert java is not None
    variables = {
        "JAVA_HOME": str(Path(java).resolve().parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }
    conf = {
        "spark.yarn.jars": f"local:{os.environ['SPARK_HOME']}/jars/*",
        "spark.yarn.stagingDir": (folder / "staging").as_uri(),
        "spark.yarn.maxAppAttempts": "1",
        "spark.sql.shuffle.partitions": "1",
        **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
    }
    defaults: dict[str, Any] = {
        "table": HoodieTable(name="orders", path=str(folder / "orders"), record_keys="id"),
        "source": str(folder / "*.parquet"), "deferrable": True, "poll_interval": 0.5, "name": task_id,
        "driver_memory": "512m", "executor_memory": "512m", "num_executors": 1, "conf": conf,
        "env_vars": variables,
    }  # fmt: skip
    return UpsertOperator(task_id=task_id, **{**defaults, **arguments})


def test_writes_on_yarn(yarn: Yarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(os.environ.get("SPARK_HOME"), "no SPARK_HOME")
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": yarn.address}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    pq.write_table(pa.table({"id": ["a", "b"], "value": [1, 2]}), tmp_path / "1.parquet")

    def deferred(task_id: str, store: Store, **arguments: Any) -> Any:
        with pytest.raises(TaskDeferred) as caught:
            operator(yarn, tmp_path, task_id, **arguments).execute(context_of(store))
        return caught.value.trigger

    def resumed(task_id: str, trigger: Any, store: Store) -> dict[str, Any]:
        return operator(yarn, tmp_path, task_id).execute_complete(context_of(store), run(trigger, SECONDS))

    store = Store()
    trigger = deferred("write", store, token="first")
    again = deferred("write", store, token="first")
    assert again.serialize() == trigger.serialize(), "a second try waits for the application of the first"
    result = operator(yarn, tmp_path, "write", token="first").execute_complete(
        context_of(store), run(trigger, SECONDS)
    )
    assert (result["status"], result["num_inserts"]) == ("committed", 2)
    found = hoodie.read_table(str(tmp_path / "orders"), columns=["id", "value"], meta=False)
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [("a", 1), ("b", 2)]

    trigger = deferred(
        "failing", Store(), token="second", options={"hoodie.datasource.write.precombine.field": "no"}
    )
    with pytest.raises(HoodieJobError, match=r"application_\d+_\d+ failed.*yarn logs -applicationId"):
        resumed("failing", trigger, Store())

    trigger = deferred("killed", Store(), token="third")
    asyncio.run(trigger.on_kill())
    with pytest.raises(HoodieJobKilledError, match=r"application_\d+_\d+ was killed"):
        resumed("killed", trigger, Store())
    assert [item["state"] for item in hoodie.instants(str(tmp_path / "orders"))] == ["completed"]
