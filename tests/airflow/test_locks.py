"""HoodieTable(lock=...): what jobs get of it, and two runs of a backfill that write at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from airflow_hoodie import HoodieTable, UpsertOperator
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.hooks.hoodie import located, resolved
from hoodie.config.key import Config
from scripts.environment import ROOT

from .backfill_runs import backfill
from .conftest import OUR_WARNINGS, FakeSubmit

LOCK = "hoodie.write.lock."
AT_ONCE = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
SECRET = "planted-secret-of-a-lock"
Connect = Callable[..., None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def define(conn_id: str, conn_type: str = "hoodie_lock", **given: Any) -> None:
        value = json.dumps({"conn_type": conn_type, **given})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", value)

    return define


def orders(lock: Any, path: str = "/lake/orders", **given: Any) -> HoodieTable:
    return HoodieTable(
        name="orders", path=path, record_keys="id", partition_fields="day", ordering_field="ts", lock=lock,
        **given,
    )  # fmt: skip


def asked(table: HoodieTable) -> dict[str, str]:
    """What a job is told of concurrency."""
    found, _ = resolved(table.to_dict())
    assert "lock" not in found
    assert resolved(found)[0] == found
    options = HoodieTable.from_dict(found).options_for("upsert")
    Config.of(options)
    kept = (LOCK, "hoodie.write.concurrency", "hoodie.aws")
    return {name: text for name, text in options.items() if name.startswith(kept)}


def test_a_lock_by_its_settings() -> None:
    lock = {"provider": "zookeeper", "url": "zk:1", "base_path": "/l", "hoodie.write.lock.wait_time_ms": 5}
    expected = {
        **AT_ONCE,
        f"{LOCK}provider": "zookeeper",
        f"{LOCK}zookeeper.url": "zk:1",
        f"{LOCK}zookeeper.base_path": "/l",
        f"{LOCK}zookeeper.lock_key": "orders",
        f"{LOCK}wait_time_ms": "5",
    }
    table = orders(lock)
    assert asked(table) == expected
    assert expected.items() <= table.options_for("upsert").items()
    assert HoodieTable.from_dict(json.loads(json.dumps(table.to_dict()))) == table


def test_options_go_over_the_lock(connect: Connect) -> None:
    """... and the lock over what the warehouse says."""
    extra = {"options": {f"{LOCK}provider": "in_process", f"{LOCK}client.num_retries": "3"}}
    connect("lake", "hoodie", extra=extra)
    options = {"hoodie.write.concurrency.mode": "SINGLE_WRITER"}
    found = asked(orders({"provider": "storage"}, hoodie_conn_id="lake", options=options))
    assert found == {**options, f"{LOCK}provider": "storage", f"{LOCK}client.num_retries": "3"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"host": "zk1,zk2:99", "port": 2181, "extra": {"provider": "zookeeper", "base_path": "/l"}},
            {"provider": "zookeeper", "zookeeper.url": "zk1,zk2:99", "zookeeper.port": "2181",
             "zookeeper.base_path": "/l", "zookeeper.lock_key": "orders"},
        ),
        ({"extra": {"provider": "storage"}}, {"provider": "storage"}),
        (
            {"extra": {"provider": "filesystem", "settings": f"path=/locks\n{LOCK}wait_time_ms = 7"}},
            {"provider": "filesystem", "filesystem.path": "/locks", "wait_time_ms": "7"},
        ),
        (
            {"host": "hms", "schema": "lake", "extra": {"provider": "hivemetastore"}},
            {"provider": "hivemetastore", "hivemetastore.uris": "thrift://hms:9083",
             "hivemetastore.database": "lake", "hivemetastore.table": "orders"},
        ),
    ],
)  # fmt: skip
def test_a_lock_by_its_connection(connect: Connect, given: Any, expected: dict[str, str]) -> None:
    connect("locks", **given)
    found = asked(orders("locks"))
    assert found == {**AT_ONCE, **{f"{LOCK}{name}": text for name, text in expected.items()}}


def test_a_lock_with_credentials(connect: Connect, committing: FakeSubmit) -> None:
    """They are in the request, and in nothing else that is kept of the task."""
    connect("keys", "aws", login="AKIAPLANTED7EXAMPLE0", password=SECRET, extra={"region_name": "eu-west-1"})
    connect("locks", extra={"provider": "dynamodb", "table": "locks", "aws_conn_id": "keys"})
    task = UpsertOperator(
        task_id="w", table=orders("locks"), source="/in", master="local[2]", name="n",
        spark_binary=str(committing.path), emit_asset=False,
    )  # fmt: skip
    result = task.execute({})
    request = committing.request()["options"]
    assert request[f"{LOCK}dynamodb.table"] == "locks"
    assert request[f"{LOCK}dynamodb.region"] == "eu-west-1"
    assert request["hoodie.aws.secret.key"] == SECRET
    assert SECRET not in json.dumps([committing.call()["args"], result])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "connection 'locks' of a lock is not defined. Set AIRFLOW_CONN_LOCKS="),
        ({"conn_type": "hoodie"}, "is of type 'hoodie', not hoodie_lock"),
        ({"extra": {"url": "zk"}}, "no JSON object that names the lock's provider"),
        ({"login": "me", "extra": {"provider": "zookeeper"}}, "zookeeper takes no login and no password"),
        ({"extra": {"provider": "storage", "settings": "a=b\nretries 3"}}, "are 'retries' without a '='"),
        ({"extra": {"provider": "dynamodb", "aws_conn_id": "no"}}, "aws_conn_id is 'no', which is not def"),
    ],
)
def test_a_connection_that_names_no_lock(connect: Connect, given: Any, message: str) -> None:
    if given is not None:
        connect("locks", **given)
    with pytest.raises(HoodieConfigurationError, match=message):
        resolved(orders("locks").to_dict())


@pytest.mark.parametrize("lock", ["", " ", {}, 5, ["storage"]])
def test_what_is_no_lock(lock: Any) -> None:
    with pytest.raises(HoodieConfigurationError, match="give the id of a connection, or settings"):
        orders(lock)
    with pytest.raises(HoodieConfigurationError, match="lock of table 'orders' names no provider"):
        resolved(orders({"url": "zk:1"}).to_dict())


def test_who_only_reads_needs_no_lock() -> None:
    table = orders("nowhere", path="s3://lake/orders", options={"hoodie.storage.s3.region": "eu-west-1"})
    assert located(table) == ("s3://lake/orders", {"hoodie.storage.s3.region": "eu-west-1"})


BACKFILLED = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, CronDataIntervalTimetable
    from airflow_hoodie import HoodieTable, UpsertOperator

    table = HoodieTable(name="orders", path={path!r}, record_keys="id", partition_fields="day",
                        ordering_field="ts", lock={{"provider": "tests.airflow.meeting_lock:MeetingLock"}})
    with DAG("backfilled_upserts", start_date=datetime(2013, 1, 1, tzinfo=timezone.utc),
             schedule=CronDataIntervalTimetable("@daily", timezone="UTC"), catchup=False) as dag:
        UpsertOperator(task_id="upsert", table=table, source={folder!r} + "/{{{{ ds }}}}.parquet",
                       engine="local", env_vars={{"PYTHONPATH": {root!r}}})
"""


@pytest.mark.full
@pytest.mark.filterwarnings(*OUR_WARNINGS)
def test_two_runs_of_a_backfill_write_at_once(
    load_dag: Callable[[str], Any], publish: Callable[[Any], None], tmp_path: Path
) -> None:
    """Neither publishes before both have begun: see meeting_lock."""
    table, days = str(tmp_path / "orders"), ("2013-01-09", "2013-01-10")
    first = orders({"provider": "filesystem"}, table).options_for("upsert")
    for day in ("2013-01-08", *days):
        rows = pa.table({"id": [day, f"{day}b"], "day": [day, day], "ts": [1, 2]})
        pq.write_table(rows, tmp_path / f"{day}.parquet")
    hoodie.write_table(pq.read_table(tmp_path / "2013-01-08.parquet"), table, options=first)
    dag = load_dag(BACKFILLED.format(path=table, folder=str(tmp_path), root=str(ROOT)))
    publish(dag)
    runs = backfill(9, 10)
    command = [sys.executable, "-m", "tests.airflow.run_work", dag.fileloc]
    workers = [subprocess.Popen([*command, run_id], cwd=ROOT) for run_id in runs]
    assert [worker.wait(300) for worker in workers] == [0, 0]
    assert sorted(hoodie.read_table(table).column("id").to_pylist()) == sorted(
        [day + more for day in ("2013-01-08", *days) for more in ("", "b")]
    )
    assert len(hoodie.instants(table)) == 3
