"""Tables on object stores with the credentials of Airflow's connections: who gets them, and who must not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import Connection

from airflow_hoodie import CommitSensor, HoodieTable, UpsertOperator
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException
from airflow_hoodie.hooks.hoodie import HoodieHook, located
from airflow_hoodie.storage_conn import storage_settings
from airflow_hoodie.triggers.commits import CommitEventTrigger
from airflow_hoodie.triggers.condition import ConditionTrigger
from hoodie.config.key import Config
from hoodie.mask import is_secret
from tests.support.processes import command_lines
from tests.support.s3_store import Store, environment, served

from .conftest import HOME, run_jobs_here

KEY, SECRET, TOKEN = "AKIAPLANTED7EXAMPLE0", "planted/secret+of=connections", "planted-session-token-1"
PLANTED = (KEY, SECRET, TOKEN, "planted%2Fsecret", "planted\\/secret")
PRIVATE = "-----BEGIN PRIVATE KEY-----\nplanted\n-----END PRIVATE KEY-----\n"


def settings(conn_type: str, **given: Any) -> dict[str, str]:
    extra = given.pop("extra", None)
    found = Connection(conn_id="c", conn_type=conn_type, extra=json.dumps(extra) if extra else None, **given)
    options = storage_settings("c", found)
    Config.of(options)
    return {name.removeprefix("hoodie.storage."): text for name, text in options.items()}


@pytest.mark.parametrize(
    ("conn_type", "given", "expected"),
    [
        ("aws", {}, {}),
        (
            "aws",
            {"login": "k", "password": "s", "extra": {"region_name": "eu-west-1", "aws_session_token": "t"}},
            {"s3.access.key": "k", "s3.secret.key": "s", "s3.session.token": "t", "s3.region": "eu-west-1"},
        ),
        (
            "aws",
            {"extra": {"aws_access_key_id": "k", "aws_secret_access_key": "s", "endpoint_url": "http://a",
                       "service_config": {"s3": {"endpoint_url": "http://b"}}, "config_kwargs": {"x": 1}}},
            {"s3.access.key": "k", "s3.secret.key": "s", "s3.endpoint": "http://b"},
        ),
        ("google_cloud_platform", {"extra": {"project": "p"}}, {}),
        (
            "google_cloud_platform",
            {"extra": {"extra__google_cloud_platform__key_path": "/keys/a.json"}},
            {"gcs.service.account.file": "/keys/a.json"},
        ),
        (
            "google_cloud_platform",
            {"extra": {"keyfile_dict": {"private_key": "p"}}},
            {"gcs.service.account.key": '{"private_key": "p"}'},
        ),
        (
            "wasb",
            {"login": "acc", "password": "k"},
            {"azure.account.name": "acc", "azure.account.key": "k"},
        ),
        (
            "wasb",
            {"host": "https://acc.blob.core.windows.net/", "extra": {"sas_token": "?sv=1&sig=x"}},
            {"azure.account.name": "acc", "azure.sas.token": "sv=1&sig=x"},
        ),
        (
            "wasb",
            {"host": "acc", "login": "app", "password": "s", "extra": {"tenant_id": "t"}},
            {"azure.account.name": "acc", "azure.tenant.id": "t", "azure.client.id": "app",
             "azure.client.secret": "s"},
        ),
        (
            "wasb",
            {"extra": {"connection_string": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5PT0=;"
                       "BlobEndpoint=http://127.0.0.1:10000/a;"}},
            {"azure.account.name": "a", "azure.account.key": "a2V5PT0=",
             "azure.endpoint": "http://127.0.0.1:10000/a"},
        ),
        (
            "webhdfs",
            {"host": "nn1,nn2", "port": 9870, "login": "me"},
            {"hdfs.http.address": "nn1:9870,nn2:9870", "hdfs.user": "me"},
        ),
    ],
)  # fmt: skip
def test_settings_of_a_connection(conn_type: str, given: dict[str, Any], expected: dict[str, str]) -> None:
    found = settings(conn_type, **given)
    assert found == expected
    secret = {"s3.access.key", "s3.secret.key", "s3.session.token", "gcs.service.account.key",
              "azure.account.key", "azure.sas.token", "azure.client.secret"}  # fmt: skip
    assert {name for name in found if is_secret(f"hoodie.storage.{name}")} == secret & set(found)


@pytest.mark.parametrize(
    ("conn_type", "given", "message"),
    [
        ("postgres", {}, "is of type 'postgres', which is no object store's"),
        ("aws", {"login": KEY}, "has an access key or its secret, not both"),
        ("aws", {"extra": {"role_arn": "arn:aws:iam::1:role/r"}}, "extra has role_arn, which .* the machine"),
        ("google_cloud_platform", {"extra": {"impersonation_chain": "a"}}, "has impersonation_chain"),
        ("wasb", {"extra": {"managed_identity_client_id": "a"}}, "has managed_identity_client_id"),
        ("wasb", {"extra": {"connection_string": SECRET}}, "connection_string has none of AccountName"),
    ],
)
def test_credentials_that_cannot_be_taken_over(conn_type: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=f"connection 'c'.*{message}") as caught:
        settings(conn_type, **given)
    assert not planted_in(str(caught.value))


def planted_in(text: str) -> list[str]:
    """Where a text has a secret."""
    return [text[max(0, at - 150) : at + 60] for mark in PLANTED if (at := text.find(mark)) >= 0]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """The connection `lake`, whose credentials are those of `keys`; the environment has none."""
    with served() as made:
        for name in environment(""):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        extra = {"endpoint_url": made.endpoint, "region_name": "us-east-1", "aws_session_token": TOKEN}
        keys = {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}
        lake = {"warehouse": "s3://lake/house", "storage_conn_id": "keys"}
        monkeypatch.setenv("AIRFLOW_CONN_KEYS", json.dumps(keys))
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "hoodie", "extra": lake}))
        yield made


@pytest.fixture
def source(tmp_path: Path) -> str:
    pq.write_table(pa.table({"id": ["a", "b"], "day": ["1", "2"], "ts": [1, 2]}), tmp_path / "in.parquet")
    return str(tmp_path / "in.parquet")


def orders(**given: Any) -> HoodieTable:
    made = {"path": "s3://lake/house/orders", "hoodie_conn_id": "lake", **given}
    return HoodieTable(
        name="orders", record_keys="id", partition_fields="day", ordering_field="ts", **made
    )  # fmt: skip


def event_of(trigger: Any) -> Any:
    """What the trigger says, revived from the arguments that Airflow's database keeps."""

    async def first() -> Any:
        async for event in again.run():
            return event
        raise AssertionError("no event")

    classpath, kwargs = trigger.serialize()
    again = type(trigger)(**Trigger._decrypt_kwargs(Trigger(classpath, kwargs).encrypted_kwargs))
    return asyncio.run(asyncio.wait_for(first(), 30)).payload


def test_a_write_a_failing_one_a_sensor_and_a_deferral(
    store: Store, source: str, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = orders(path="orders")
    sensor = CommitSensor(task_id="wait", table=table, deferrable=True, poke_interval=0.05)
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute({})
    seen: list[Any] = [caught.value.trigger.serialize()]
    upsert = UpsertOperator(task_id="w", table=table, source=source, engine="local", token="d/w/-1/1")
    with command_lines() as lines:
        result = upsert.execute({})
    assert result["base_path"] == "s3://lake/house/orders"
    assert (result["status"], result["num_inserts"]) == ("committed", 2)
    again = UpsertOperator(task_id="w", table=table, source=source, master="nowhere://", token="d/w/-1/1")
    assert again.execute({})["status"] == "already_committed"
    woken = event_of(caught.value.trigger)
    assert sensor.execute_complete({}, woken)["instant"] == result["instant"]
    assert sensor.execute({})["instant"] == result["instant"]
    watcher = CommitEventTrigger(table=orders(), start="earliest", poke_interval=0.05)
    watched = event_of(watcher)
    assert watched["instant"] == result["instant"]
    assert store.signers == {KEY}
    good, text = HoodieHook("lake").test_connection()
    assert (good, "orders (COPY_ON_WRITE)" in text) == (True, True)

    store.refusal = (403, "AccessDenied", f"<AWSAccessKeyId>{KEY}</AWSAccessKeyId>")
    run_jobs_here(monkeypatch)
    refused = UpsertOperator(task_id="w", table=table, source=source, engine="local")
    with pytest.raises(HoodieException, match=r"s3://lake/house/orders.*access is denied") as failed:
        refused.execute({})
    with pytest.raises(HoodieException, match="access is denied"):
        CommitSensor(task_id="wait", table=table, deferrable=False).poke({})
    seen += [result, woken, watched, watcher.serialize(), text, failed.value.values, logged(), *lines]
    seen += traceback.format_exception(failed.value)
    seen += [item.data.decode("latin-1") for item in store.objects.values()]
    assert [planted_in(repr(item)) for item in seen] == [[]] * len(seen)


def test_what_waits_in_the_triggerer_takes_no_secrets() -> None:
    table = orders(options={"hoodie.storage.s3.secret.key": SECRET, "hoodie.storage.s3.region": "eu-west-1"})
    with pytest.raises(HoodieConfigurationError, match=r"options have hoodie\.storage\.s3\.secret\.key,"):
        CommitSensor(task_id="wait", table=table, start_from_trigger=True)
    with pytest.raises(HoodieConfigurationError, match="storage_conn_id names"):
        table.commits()
    harmless = orders(options={"hoodie.storage.s3.region": "eu-west-1", "hoodie.index.type": "BLOOM"})
    sensor = CommitSensor(task_id="wait", table=harmless, start_from_trigger=True)
    assert sensor.start_trigger_args is not None
    kwargs = sensor.start_trigger_args.trigger_kwargs or {}
    assert kwargs["hoodie_conn_id"] == "lake"
    assert kwargs["options"] == {"hoodie.storage.s3.region": "eu-west-1"}
    assert ConditionTrigger(**kwargs).serialize()[1] == kwargs


def test_a_table_on_files_looks_nothing_up(tmp_path: Path) -> None:
    """Its sensors had no connection to look up before, and may have none."""
    assert located(orders(path=str(tmp_path), hoodie_conn_id="nowhere")) == (str(tmp_path), {})
    sensor = CommitSensor(task_id="wait", table=orders(path=str(tmp_path)), start_from_trigger=True)
    assert sensor.start_trigger_args is not None
    assert "hoodie_conn_id" not in (sensor.start_trigger_args.trigger_kwargs or {})


def test_connections_that_are_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_KEYS")
    message = "connection 'lake': storage_conn_id is 'keys', which is not defined; define it"
    with pytest.raises(HoodieConfigurationError, match=message):
        UpsertOperator(task_id="w", table=orders(), source="/in", engine="local").execute({})
    event = event_of(ConditionTrigger(kind="commits", table="s3://lake/t", hoodie_conn_id="lake"))
    assert message in event["report"]["message"]
    assert HoodieHook("lake").test_connection()[0] is False


def test_the_timeline_page(store: Store, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import hoodie
    from airflow_hoodie.plugins.timeline_app import page

    options = {**located(orders())[1], **orders().options_for("upsert")}
    hoodie.write_table(pq.read_table(source), "s3://lake/house/orders", options=options)
    tables = {
        "orders": {"path": "orders", "hoodie_conn_id": "lake"},
        "other": {"path": "s3://lake/house/orders", "conn": "lake"},
    }
    there = {"orders": tables["orders"], "lost": {"path": "s3://lake/x", "hoodie_conn_id": "nowhere"}}
    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES", json.dumps(there))
    answers = [page.get(path) for path in ("tables", "tables/orders/instants")]
    assert [answer.status for answer in answers] == [200, 200]
    lost, shown = json.loads(answers[0].body)["tables"]
    assert "hoodie connection 'nowhere' is not defined" in lost["error"]["message"]
    assert shown["type"] == "COPY_ON_WRITE"
    assert len(json.loads(answers[1].body)["instants"]) == 1
    monkeypatch.setenv("AIRFLOW__HOODIE__TABLES", json.dumps(tables))
    answers += [page.get("tables")]
    assert b"give its path, or path and hoodie_conn_id" in answers[-1].body
    assert planted_in(repr([answer.body for answer in answers])) == []


DAG = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import CommitSensor, HoodieTable, UpsertOperator

    table = HoodieTable(name="orders", path="orders", record_keys="id", partition_fields="day",
                        ordering_field="ts", hoodie_conn_id="lake")
    local = {{"table": table, "engine": "local"}}
    with DAG("keys", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), schedule=None) as dag:
        write = UpsertOperator(task_id="write", source={source!r}, **local)
        write >> CommitSensor(task_id="wait", table=table)
        wrong = {{"hoodie.index.typ": "x"}}
        write >> UpsertOperator(task_id="bad", source={source!r}, options=wrong, **local)
"""


@pytest.mark.full
def test_what_a_dag_leaves_behind(
    store: Store, source: str, load_dag: Callable[[str], Any], logged: Callable[[], str]
) -> None:
    """Command lines, Airflow's database and logs, the table."""
    dag = load_dag(DAG.format(source=source))
    with command_lines() as lines:
        run = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    states = {task.task_id: str(task.state) for task in run.get_task_instances()}
    assert states == {"write": "success", "wait": "success", "bad": "failed"}
    assert store.signers == {KEY}
    assert any("hoodie.jobs.run" in line for line in lines)
    with contextlib.closing(sqlite3.connect(HOME / "airflow.db")) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        rows = [str(row) for (name,) in names for row in connection.execute(f'SELECT * FROM "{name}"')]
    kept = [path for path in (HOME / "logs").rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("latin-1") for path in kept]
    objects = [item.data.decode("latin-1") for item in store.objects.values()]
    assert planted_in("\n".join([*lines, *rows, *texts, *objects, logged()])) == []
