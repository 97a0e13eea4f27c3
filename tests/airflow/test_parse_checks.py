"""What can be known when a DAG is read is an error then, which names the value and the next step."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_hoodie import (
    CommitSensor,
    FreshnessSensor,
    HoodieSQLOperator,
    HoodieTable,
    IndexOperator,
    IngestOperator,
    InsertOverwriteOperator,
    UpsertOperator,
    dags_of_tables,
)
from airflow_hoodie.engines import choose, missing_packages
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.operators import services
from hoodie.metadata.table import DEFINED
from hoodie.write.participants.metadata.registry import ALL_PARTITIONS

TABLE = HoodieTable(name="orders", path="/lake/orders", record_keys="id")


def index(**given: Any) -> IndexOperator:
    return IndexOperator(task_id="index", table=TABLE, **given)


def test_the_names_of_indexes_are_those_of_the_jobs() -> None:
    assert {item.partition.value for item in ALL_PARTITIONS} == set(services.INDEXES)
    assert services.OF_COLUMNS == DEFINED


@pytest.mark.parametrize("mode", ["create", "schedule"])
def test_names_of_indexes(mode: str) -> None:
    with pytest.raises(
        HoodieConfigurationError,
        match=r"no index 'colum_stats'; did you mean 'column_stats'; use some of files,",
    ):
        index(mode=mode, indexes=["files", "colum_stats"])
    for known in (
        "column_stats",
        "FILES,record_index",
        ["{{ params.index }}"],
        "secondary_index_city",
        "{{ x }}",
    ):
        assert index(mode=mode, indexes=known).indexes == known
    index(mode="drop", indexes="idx_city")  # whose name may begin otherwise in the table
    index(mode="create", indexes="idx_city", column="city")
    with pytest.raises(HoodieConfigurationError, match="using is 'bloom'; use one of secondary_index, "):
        index(mode="create", indexes="idx_city", column="city", using="bloom")


def test_a_template_of_an_index_is_checked_when_it_runs() -> None:
    task = index(mode="create", indexes="{{ x }}")
    task.indexes = "colum_stats"
    with pytest.raises(HoodieConfigurationError, match="did you mean 'column_stats'"):
        task.request()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * FROM orders",
            "'SELECT \\* FROM orders' is a query, which changes nothing; give one DELETE, UPDATE",
        ),
        ("-- counts\nwith a as (select 1) select * from a", "is a query, which changes nothing"),
        ("DROP TABLE orders", "is no statement that changes rows; give one DELETE"),
        ("CALL clean(table => 'orders')", "begins with CALL, which is the work of an operator of its own"),
        ("CREATE INDEX i ON orders (a)", "begins with CREATE, which is the work of an operator of its own"),
        ("7", "is no statement that changes rows"),
    ],
)
def test_statements(text: str, message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        HoodieSQLOperator(task_id="sql", table=TABLE, sql=text)
    task = HoodieSQLOperator(task_id="sql", table=TABLE, sql="{{ params.text }}")
    task.sql = text
    with pytest.raises(HoodieConfigurationError, match=message):
        task.request()


@pytest.mark.parametrize(
    "text", ["/* x */ delete from orders", "{% if a %}SELECT{% endif %}", "sql/merge.sql"]
)
def test_statements_that_may_be_right(text: str) -> None:
    assert HoodieSQLOperator(task_id="sql", table=TABLE, sql=text).sql == text


@pytest.mark.parametrize(
    "source",
    [
        "landing/orders.csv",
        ["/in/a.csv", "b.csv"],
        {"path": "landing", "format": "csv"},
        {"path": "other", "format": "table"},
        "~/in",
    ],
)
@pytest.mark.parametrize("kind", [UpsertOperator, InsertOverwriteOperator, IngestOperator])
def test_relative_sources(kind: Any, source: Any) -> None:
    if kind is IngestOperator and isinstance(source, dict) and source["format"] == "table":
        return
    with pytest.raises(
        HoodieConfigurationError, match=r"source path '.*' is relative.*; use an absolute path, or"
    ):
        kind(task_id="write", table=TABLE, source=source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ params.folder }}/x.csv",
        "s3://bucket/{{ ds }}/*.csv",
        "file:/in",
        {"path": "SELECT 1 AS id", "format": "sql"},
        {"path": "SELECT 1 AS id", "format": "{{ params.format }}"},
    ],
)
def test_sources_that_may_be_right(source: Any) -> None:
    UpsertOperator(task_id="write", table=TABLE, source=source)


@pytest.mark.parametrize(
    "tables",
    [{"news": "news"}, {"news": {"path": "lake/news"}}, {"news": {"source": {"path": ["/a", "b"]}}}],
)
def test_relative_tables_of_statements(tables: Any) -> None:
    with pytest.raises(HoodieConfigurationError, match="is relative, so every worker"):
        HoodieSQLOperator(task_id="sql", table=TABLE, sql="DELETE FROM orders", tables=tables)


@pytest.mark.parametrize("kind", [CommitSensor, FreshnessSensor])
def test_a_sensor_that_starts_from_the_trigger_is_not_rescheduled(kind: Any) -> None:
    with pytest.raises(
        HoodieConfigurationError, match="mode='reschedule' has no effect with start_from_trigger"
    ):
        kind(task_id="wait", table=TABLE, start_from_trigger=True, mode="reschedule")
    kind(task_id="wait", table=TABLE, mode="reschedule")


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (
            "61 * * * *",
            r"'61 \* \* \* \*', which is no cron text \(.*out of range\); write such as '30 6 \* \* \*'",
        ),
        ("*/10 * * *", r"which is no cron text \(it needs five fields"),
        ("daily", r"'daily', which is no cron text .*; did you mean '@daily'; write such as"),
        ("@dayly", "; did you mean '@daily'; write such as"),
        ("every hour at noon please", "which is no cron text"),
    ],
)
def test_cron_texts(schedule: str, message: str) -> None:
    dag = {"schedule": schedule}
    tables = {"orders": {"path": "/lake/orders", "record_keys": "id", "source": "/in", "dag": dag}}
    with pytest.raises(HoodieConfigurationError, match=f"table 'orders': schedule is .*{message}"):
        dags_of_tables({"tables": tables})


@pytest.mark.parametrize("schedule", ["@daily", "*/10 * * * *", "0 0 6 * * *", "@once", "@continuous", None])
def test_cron_texts_that_are_right(schedule: Any) -> None:
    dag = {"schedule": schedule, "start_date": "2026-01-01", "max_active_runs": 1}
    tables = {"orders": {"path": "/lake/orders", "record_keys": "id", "source": "/in", "dag": dag}}
    assert set(dags_of_tables({"tables": tables})) == {"orders"}


def test_what_a_statement_needs_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in ("duckdb", "sqlglot") else object()
    )
    assert missing_packages({}, "select 1") == ["duckdb"]
    assert missing_packages({}, None, "DELETE FROM orders") == ["duckdb", "sqlglot"]
    why = choose("/t", {"sql"}, None, 1, {}, statement="DELETE FROM o").why
    assert "(pip install duckdb sqlglot)" in why
    with pytest.raises(HoodieConfigurationError, match=r"no duckdb, sqlglot, .*pip install duckdb sqlglot "):
        HoodieLocalHook("sql").run({"table": "/t", "sql": "DELETE FROM orders"})
    with pytest.raises(HoodieConfigurationError, match=r"no duckdb, .*pip install duckdb there"):
        HoodieLocalHook("upsert").run({"table": "/t", "transform": "select * from source"})
