"""What a DAG file costs, which the DAG processor reads again and again: counted in calls, not in seconds."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from airflow_hoodie import CleanOperator, HoodieTable, UpsertOperator

TABLE = HoodieTable(name="orders", path="/data/orders", record_keys="id", partition_fields="day")
KINDS: dict[str, Callable[..., Any]] = {
    "spark": lambda name: SparkSubmitOperator(task_id=name, application="/jobs/upsert.py", name="upsert"),
    "upsert": lambda name: UpsertOperator(task_id=name, table=TABLE, source="/in/{{ ds }}/*.parquet"),
    "clean": lambda name: CleanOperator(
        task_id=name, table=TABLE, options={"hoodie.cleaner.commits.retained": 3}
    ),
}


def calls(kind: str) -> int:
    """Python functions that are called for ten tasks of a DAG."""
    count = 0

    def noted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    with DAG("parsed", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        KINDS[kind]("first")  # what is cached is cached
        gc.disable()  # what it finalizes is of other tests
        sys.setprofile(noted)
        try:
            for number in range(10):
                KINDS[kind](f"{kind}{number}")
        finally:
            sys.setprofile(None)
            gc.enable()
    return count


def test_ten_operators_cost_at_most_twice_ten_of_the_spark_provider() -> None:
    found = {kind: calls(kind) for kind in KINDS}
    assert max(found.values()) <= 2 * found["spark"], found


@pytest.mark.full
def test_a_dag_file_imports_nothing_of_the_jobs() -> None:
    code = "import sys; from airflow_hoodie import *; UpsertOperator; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    heavy = {"pyspark", "pyarrow", "pandas", "numpy", "duckdb", "fastavro", "obstore", "hoodie.pipeline"}
    assert heavy & set(loaded.split()) == set()
