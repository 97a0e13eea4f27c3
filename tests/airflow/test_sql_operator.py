"""HoodieSQLOperator: a statement as a job on the worker, and what it asks a submitted job for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.operators.sql import HoodieSQLOperator
from airflow_hoodie.table import HoodieTable
from hoodie.backend.local import LocalBackend
from hoodie.errors import ConfigError
from hoodie.jobs._main import parse_request, run
from hoodie.progress import silent
from hoodie.timeline.tokens import TOKEN_KEY

MERGE = """
    MERGE INTO orders USING news ON orders.id = news.id
    WHEN MATCHED AND news.n > 20 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *
"""


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    made = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    hoodie.write_table(rows, made.path, options=made.options_for("upsert"))
    return made


def values(table: HoodieTable) -> dict[str, int]:
    found = hoodie.read_table(table.path, columns=["id", "n"])
    return dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))


def test_a_statement_is_run_once_for_a_token(table: HoodieTable, tmp_path: Path, jobs_here: None) -> None:
    pq.write_table(pa.table({"id": ["a", "b", "c"], "n": [10, 30, 40]}), tmp_path / "new.parquet")
    tables = {"news": {"source": str(tmp_path / "*.parquet")}}

    def task() -> HoodieSQLOperator:
        return HoodieSQLOperator(
            task_id="merge", table=table, sql=MERGE, tables=tables, token="one", engine="local"
        )

    assert [asset.uri for asset in task().outlets] == [table.asset.uri]
    result = task().execute(context={})
    assert (result["status"], result["operation"]) == ("committed", "upsert")
    assert values(table) == {"a": 10, "c": 40}
    assert task().execute(context={})["status"] == "already_committed"
    asked = {**task().request(), "engine": "local"}
    assert run(LocalBackend(), parse_request(asked, "sql"), silent)["status"] == "already_committed"
    pq.write_table(pa.table({"id": ["a"], "n": [11]}), tmp_path / "new.parquet")
    assert run(LocalBackend(), parse_request(asked, "sql"), silent)["status"] == "committed"


def test_the_job_changes_rows_only(table: HoodieTable) -> None:
    def asked(sql: str, **more: Any) -> dict[str, Any]:
        request = HoodieSQLOperator(task_id="sql", table=table, sql="DELETE FROM orders").request()
        asked = {**request, "sql": sql, "engine": "local", **more}
        return run(LocalBackend(), parse_request(asked, "sql"), silent)

    assert asked("UPDATE orders SET n = n + 1")["num_updates"] == 2
    assert asked("DELETE FROM orders", dry_run=True)["status"] == "planned"
    assert values(table) == {"a": 2, "b": 3}
    for text in ("SELECT 1", "CALL clean(table => 'orders')", "DROP TABLE orders"):
        with pytest.raises(ConfigError, match="one DELETE, UPDATE, MERGE INTO or INSERT"):
            asked(text)


def test_the_request_is_that_of_the_job(table: HoodieTable) -> None:
    task = HoodieSQLOperator(task_id="sql", table=table, sql="DELETE FROM orders", extra_metadata={"a": "b"})
    asked = task.request()
    assert (asked["sql"], asked["name"], asked["tables"]) == ("DELETE FROM orders", "orders", {})
    assert parse_request({**asked, "engine": "spark"}, "sql")["dry_run"] is False
    assert TOKEN_KEY not in asked["extra_metadata"]
    with pytest.raises(HoodieConfigurationError, match="name others otherwise"):
        HoodieSQLOperator(
            task_id="sql", table=table, sql="DELETE FROM orders", tables={"Orders": "/x"}
        ).request()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sql": " "}, "give one statement"),
        ({"sql": "DELETE FROM orders", "tables": ["x"]}, "give names with paths"),
        ({"sql": "DELETE FROM orders", "tables": {"x": 3}}, "give a path, or a mapping with one"),
    ],
)
def test_wrong_arguments_fail_when_the_dag_is_read(
    table: HoodieTable, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(HoodieConfigurationError, match=said):
        HoodieSQLOperator(task_id="sql", table=table, **given)
