"""An upsert and a refused one through the real spark-submit: connection, bundle, job, result, error.

No command line on the way has a secret.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
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
from tests.support.processes import command_lines

pytestmark = [pytest.mark.spark, pytest.mark.full]


def write_rows(path: Path, ids: list[str | None], values: list[int]) -> str:
    pq.write_table(pa.table({"id": ids, "day": ["2026-01-01"] * len(ids), "ts": values}), path)
    return str(path)


def test_an_upsert_and_a_refused_batch(
    tmp_path: Path, real_spark: dict[str, Any], logged: Callable[[], str]
) -> None:
    table = HoodieTable(
        name="orders",
        path=str(tmp_path / "orders"),
        record_keys="id",
        partition_fields="day",
        ordering_field="ts",
    )
    common: dict[str, Any] = {
        "table": table,
        **real_spark,
        "conf": {
            "spark.ui.enabled": "true",
            "spark.sql.shuffle.partitions": "1",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": tmp_path.as_uri(),
            "spark.yarn.historyServer.address": "history:18080",
            "spark.hadoop.planted.password": "plánted = 1\\: #conf",
        },
        "options": {"hoodie.metrics.datadog.api.key": "planted-option"},
        "name": "test",
    }
    before = datetime.now(timezone.utc)
    rows = write_rows(tmp_path / "1.parquet", ["a", "b", "a"], [1, 2, 3])
    digest = hashlib.md5(common["conf"]["spark.hadoop.planted.password"].encode()).hexdigest()
    setting = "reflect('java.lang.System', 'getProperty', 'spark.hadoop.planted.password')"
    known = f"if(md5({setting}) = '{digest}', id, null)"
    source = {"path": f"SELECT {known} AS id, day, ts FROM parquet.`{rows}`", "format": "sql"}
    task = UpsertOperator(task_id="upsert", source=source, token="once", **common)
    with command_lines() as lines:
        result = task.execute({})
    again = UpsertOperator(task_id="upsert", table=table, source=source, token="once", engine="local")
    told = again.execute({})
    assert (told["status"], told["instant"]) == ("already_committed", result["instant"])
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in lines)
    assert any("run.py --request @" in line for line in lines)
    for text in (*lines, logged(), json.dumps(result)):
        assert "planted-option" not in text
        assert "plánted" not in text
    assert task.spark_ui is not None
    assert re.fullmatch(r"http://history:18080/history/local-\d+/", task.spark_ui)
    assert "FutureWarning" not in logged()
    assert (result["status"], result["operation"]) == ("committed", "upsert")
    assert (result["num_inserts"], result["num_updates"], result["num_deletes"]) == (2, 0, 0)
    assert result["partitions"] == ["2026-01-01"]
    seen = CommitSensor(task_id="wait", table=table, after=before).poke({})
    assert seen.xcom_value is not None
    assert seen.xcom_value["instant"] == result["instant"]
    found = hoodie.read_table(table.path, columns=["id", "ts"])
    assert sorted(zip(*found.select(["id", "ts"]).to_pydict().values(), strict=True)) == [("a", 3), ("b", 2)]

    bad = write_rows(tmp_path / "2.parquet", ["d", None], [4, 4])
    with pytest.raises(HoodieValidationError, match="null"):
        UpsertOperator(task_id="bad", source=bad, **common).execute({})
    assert not CommitSensor(task_id="wait", table=table, after=result["instant"]).poke({}).is_done


def test_rows_of_another_task(tmp_path: Path, real_spark: dict[str, Any]) -> None:
    """Executors read them in the table's folder, which has no table before, and nothing is left there."""
    table = HoodieTable(name="t", path=str(tmp_path / "t"), record_keys="id")
    rows = [{"id": "a", "n": 1}, {"id": "b", "n": None}]
    task = UpsertOperator(
        task_id="upsert", table=table, source=rows, token="once", **real_spark,
        conf={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"},
    )  # fmt: skip
    assert task.execute({})["num_inserts"] == 2
    found = hoodie.read_table(table.path, meta=False).to_pylist()
    assert sorted(found, key=lambda row: str(row["id"])) == rows
    assert list(Path(table.path, ".hoodie", ".aux", "airflow-rows").iterdir()) == []
    again = UpsertOperator(task_id="upsert", table=table, source=rows, token="once", engine="local")
    assert again.execute({})["status"] == "already_committed"
