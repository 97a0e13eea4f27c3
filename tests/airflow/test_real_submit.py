"""An upsert and a refused one through the real spark-submit: connection, bundle, job, result, error."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from airflow_hoodie.exceptions import HoodieValidationError
from airflow_hoodie.operators.write import UpsertOperator
from airflow_hoodie.sensors.commit import CommitSensor
from airflow_hoodie.table import HoodieTable
from tests.conftest import require

pytestmark = [pytest.mark.spark, pytest.mark.full]


def write_rows(path: Path, ids: list[str | None], values: list[int]) -> str:
    pq.write_table(pa.table({"id": ids, "day": ["2026-01-01"] * len(ids), "ts": values}), path)
    return str(path)


def test_an_upsert_and_a_refused_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_hoodie.hooks.spark import installed_spark_home

    home = os.environ.get("SPARK_HOME") or installed_spark_home()
    require(home, "no Spark: neither SPARK_HOME nor pyspark")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    connection = {"conn_type": "spark", "host": "local[1]", "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_REAL", json.dumps(connection))
    table = HoodieTable(
        name="orders",
        path=str(tmp_path / "orders"),
        record_keys="id",
        partition_fields="day",
        ordering_field="ts",
    )
    common: dict[str, Any] = {
        "table": table,
        "spark_conn_id": "spark_real",
        "driver_memory": "1g",
        "conf": {"spark.ui.enabled": "true", "spark.sql.shuffle.partitions": "1"},
        "name": "test",
    }
    before = datetime.now(timezone.utc)
    source = write_rows(tmp_path / "1.parquet", ["a", "b", "a"], [1, 2, 3])
    task = UpsertOperator(task_id="upsert", source=source, **common)
    result = task.execute({})
    assert task.spark_ui is not None
    assert task.spark_ui.startswith("http://")
    assert (result["status"], result["operation"]) == ("committed", "upsert")
    assert (result["num_inserts"], result["num_updates"], result["num_deletes"]) == (2, 0, 0)
    assert result["partitions"] == ["2026-01-01"]
    assert result["warnings"] == []
    seen = CommitSensor(task_id="wait", table=table, after=before).poke({})
    assert seen.xcom_value["instant"] == result["instant"]
    found = hoodie.read_table(table.path, columns=["id", "ts"])
    assert sorted(zip(*found.select(["id", "ts"]).to_pydict().values(), strict=True)) == [("a", 3), ("b", 2)]

    source = write_rows(tmp_path / "2.parquet", ["d", None], [4, 4])
    with pytest.raises(HoodieValidationError, match="null"):
        UpsertOperator(task_id="bad", source=source, **common).execute({})
    assert not CommitSensor(task_id="wait", table=table, after=result["instant"]).poke({}).is_done
