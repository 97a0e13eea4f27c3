"""Task groups and DAGs that are made from a description of tables."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, CronDataIntervalTimetable

import hoodie
from airflow_hoodie import HoodieTable, dags_of_tables, hoodie_table_group
from airflow_hoodie.exceptions import HoodieConfigurationError
from tests.house.test_docs import PAGES, blocks

from .test_dag import states

ORDERS = HoodieTable(name="shop.orders", path="/lake/orders", record_keys="id")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def edges(dag: DAG) -> dict[str, set[str]]:
    return {task.task_id: set(task.downstream_task_ids) for task in dag.tasks}


def test_the_tasks_of_a_group() -> None:
    with DAG("d", schedule=None, start_date=START) as dag:
        group = hoodie_table_group(
            ORDERS,
            "/in",
            write={"transform": "select * from source"},
            wait={"after": "{{ data_interval_end }}", "deferrable": True},
            sync={"database": "lake"},
            default_args={"engine": "local", "pool": "small"},
        )
    assert group.group_id == "shop_orders"
    assert edges(dag) == {
        "shop_orders.upsert": {"shop_orders.wait"},
        "shop_orders.wait": {"shop_orders.maintenance"},
        "shop_orders.maintenance": {"shop_orders.sync"},
        "shop_orders.sync": set(),
    }
    write: Any = dag.get_task("shop_orders.upsert")
    assert (write.transform, write.services, write.engine) == ("select * from source", "off", "local")
    assert {task.pool for task in dag.tasks} == {"small"}
    sync: Any = dag.get_task("shop_orders.sync")
    assert sync.database == "lake"


def test_a_group_of_a_write_alone() -> None:
    with DAG("d", schedule=None, start_date=START) as dag:
        hoodie_table_group(ORDERS, "/in", group_id="g", operation="bulk_insert", maintenance=False)
    assert edges(dag) == {"g.bulk_insert": set()}
    write: Any = dag.get_task("g.bulk_insert")
    assert write.services == "auto"


CONFIG = """
    defaults:
      dag: {{schedule: "@daily", start_date: 2026-01-01, tags: [lake], default_args: {{engine: local}}}}
      options: {{hoodie.index.bloom.num_entries: 100}}
    tables:
      orders:
        path: {folder}/orders
        record_keys: [id]
        table_type: MERGE_ON_READ
        operation: ingest
        source: {folder}/in
        write: {{max_files: 1}}
        options: {{hoodie.compact.inline.max.delta.commits: 1}}
      items:
        path: {folder}/items
        record_keys: [id]
        source: {{path: "{folder}/{{{{ ds }}}}", format: csv}}
        dag: {{dag_id: nightly_items, schedule: null}}
        maintenance: {{services: [clean]}}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tables.yaml"
    path.write_text(textwrap.dedent(CONFIG.format(folder=tmp_path)))
    return path


@pytest.mark.full
def test_dags_of_a_file_run(load_dags: Callable[[str], dict[str, Any]], config: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        pq.write_table(pa.table({"id": ["a", str(number)]}), tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (number, number))
    hoodie.ingest(
        str(tmp_path / "in"),
        str(tmp_path / "orders"),
        max_files=1,
        options={
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.table.name": "orders",
        },
    )
    dags = load_dags(f"from airflow_hoodie import dags_of_tables\ndags_of_tables({str(config)!r})")
    assert sorted(dags) == ["nightly_items", "orders"]
    run = dags["orders"].test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    assert states(run) == {"orders.ingest": "success", "orders.maintenance": "success"}
    rows = hoodie.read_table(str(tmp_path / "orders"), query="read_optimized")
    assert sorted(rows["id"].to_pylist()) == ["1", "2", "a"]  # the log of the update is compacted


def test_what_a_file_says(config: Path) -> None:
    made = dags_of_tables(config)
    orders, items = made["orders"], made["nightly_items"]
    assert isinstance(orders.timetable, CronDataIntervalTimetable)
    assert (orders.start_date, items.start_date) == (START, START)
    assert items.tags == {"lake"}
    task: Any = items.get_task("items.maintenance")
    assert (task.services, task.engine) == (["clean"], "local")
    written: Any = orders.get_task("orders.ingest")
    assert {name for name in written.table["options"] if "compact" in name or "bloom" in name} == {
        "hoodie.compact.inline.max.delta.commits",
        "hoodie.index.bloom.num_entries",
    }


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    [text] = (text for page in PAGES if page.name == "airflow.md" for text in blocks(page, "yaml"))
    (tmp_path / "tables.yaml").write_text(text)
    made = dags_of_tables(tmp_path / "tables.yaml")
    assert {name: [task.task_id for task in dag.tasks] for name, dag in made.items()} == {
        "orders": ["orders.upsert", "orders.maintenance", "orders.sync"],
        "events_every_ten_minutes": ["events.ingest", "events.maintenance"],
    }


TABLE = {"path": "/lake/t", "record_keys": "id", "source": "/in"}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "config: tables are none"),
        ({"t": {**TABLE, "sorce": "/in"}}, "config: table 't' has no key 'sorce'; did you mean 'source'"),
        ({"t": {"path": "/lake/t", "record_keys": "id"}}, "config: table 't' has no source"),
        ({"t": {"path": "/lake/t", "source": "/in"}}, "config: table 't': HoodieTable needs record_keys"),
        ({"t": {**TABLE, "operation": "upsrt"}}, "table 't': operation is 'upsrt'.*did you mean 'upsert'"),
        (
            {"t": {**TABLE, "dag": {"schedul": None}}},
            "table 't': dag has no key 'schedul'; did you mean 'schedule'",
        ),
        ({"t": {**TABLE, "dag": {"start_date": "soon"}}}, "table 't': the DAG can't be made"),
        ({"t": {**TABLE, "write": {"nosuch": 1}}}, "table 't': task 'upsert' of table 't': .*nosuch"),
        (
            {"t": {**TABLE, "maintenance": {"services": ["x"]}}},
            "task 'maintenance' of table 't': services are",
        ),
        ({"t": {**TABLE, "sync": "yes"}}, "sync is 'yes'; give a mapping"),
        ({"a.b": TABLE, "a_b": TABLE}, "the DAG 'a_b' is there twice; give a dag_id"),
        ({"t": None}, "table 't' is None; give a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        dags_of_tables({"tables": tables})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tables:\n  a: {}\n  a: {}\n", r"line 2: the key 'a' is there twice"),
        ("tables: [", "is no YAML: while parsing"),
        ("tables: {}\nextra: 1\n", "has no key 'extra'; there are defaults, tables"),
        ("defaults: {engin: x}\ntables: {a: {}}\n", "defaults has no key 'engin'"),
    ],
)
def test_a_file_that_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(HoodieConfigurationError, match=message):
        dags_of_tables(tmp_path / "t.yaml")
    with pytest.raises(HoodieConfigurationError, match=r"can't read .*none\.yaml: No such file"):
        dags_of_tables(str(tmp_path / "none.yaml"))
