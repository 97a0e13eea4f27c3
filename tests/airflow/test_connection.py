"""The connection type `hoodie`: its form, its test, and what tables take from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_hoodie import CommitSensor, HoodieTable, UpsertOperator
from airflow_hoodie.exceptions import HoodieConfigurationError
from airflow_hoodie.get_provider_info import get_provider_info
from airflow_hoodie.hooks.hoodie import HoodieHook, resolved
from airflow_hoodie.operators import base
from hoodie.table import properties

from .conftest import FakeSubmit
from .timelines import STORAGE, WrittenTimeline

Connect = Callable[..., None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Define connection `lake` by its extra, or another one."""

    def define(conn_id: str = "lake", conn_type: str = "hoodie", **extra: Any) -> None:
        value = json.dumps({"conn_type": conn_type, "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", value)

    return define


def test_the_form() -> None:
    """As Airflow's UI gets it; and Airflow's own loader has nothing to warn of."""
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    hook = ProvidersManagerTaskRuntime().hooks["hoodie"]  # type: ignore[no-untyped-call]
    assert hook is not None
    assert hook.hook_class_name == f"{HoodieHook.__module__}.{HoodieHook.__qualname__}"
    assert (hook.connection_id_attribute_name, hook.hook_name) == ("hoodie_conn_id", "Hoodie")
    (form,) = [item for item in HookMetaService.hook_meta_data() if item.connection_type == "hoodie"]
    assert form.standard_fields is not None
    hidden = [form.standard_fields.host, form.standard_fields.password, form.standard_fields.url_schema]
    assert all(field is not None and field.hidden for field in hidden)
    assert form.extra_fields is not None
    assert list(form.extra_fields) == ["warehouse", "options", "spark_conn_id", "storage_conn_id"]
    assert form.extra_fields["options"]["schema"]["format"] == "multiline"
    for info in get_provider_info()["connection-types"]:
        for field in info["conn-fields"].values():
            jsonschema.Draft7Validator.check_schema(field["schema"])


def test_tables_take_the_path_and_the_defaults(connect: Connect) -> None:
    connect(
        warehouse="/data/lake/",
        options={"hoodie.parquet.compression.codec": "snappy", "hoodie.index.type": "BLOOM"},
        spark_conn_id="spark_lake",
    )
    table = HoodieTable(
        name="t", path="sales/orders", record_keys="id", options={"hoodie.index.type": "SIMPLE"},
        hoodie_conn_id="lake",
    )  # fmt: skip
    value, conn = resolved(table.to_dict())
    assert value["path"] == "/data/lake/sales/orders"
    assert value["options"] == {
        "hoodie.parquet.compression.codec": "snappy",
        "hoodie.index.type": "SIMPLE",
    }
    assert conn is not None
    assert conn.spark_conn_id == "spark_lake"
    assert resolved(value)[0] == value
    assert HoodieTable.from_dict(value).options_for("upsert")["hoodie.parquet.compression.codec"] == "snappy"


@pytest.mark.parametrize(
    "options",
    [
        '{"hoodie.index.type": "BLOOM", "hoodie.clean.automatic": false}',
        "hoodie.index.type=BLOOM\n hoodie.clean.automatic = false\n",
    ],
)
def test_options_as_the_form_stores_them(connect: Connect, options: str) -> None:
    connect(options=options)
    found = HoodieHook("lake").get_conn().options
    assert found == {"hoodie.index.type": "BLOOM", "hoodie.clean.automatic": "false"}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"warehouse": "lake"}, "warehouse is 'lake'; give an absolute path"),
        ({"path": "/lake"}, "extra has 'path', which no hoodie connection has"),
        ({"options": "{"}, "no JSON"),
        (
            {"options": "hoodie.index.type"},
            "options are 'hoodie.index.type' without a '='; give",
        ),
        ({"options": [1]}, "options are a list; give"),
        ({"options": {"hoodie.index.type": None}}, "connection 'lake': option hoodie.index.type is None"),
    ],
)
def test_a_malformed_connection(connect: Connect, extra: dict[str, Any], message: str) -> None:
    connect(**extra)
    with pytest.raises(HoodieConfigurationError, match=message):
        HoodieHook("lake").get_conn()
    assert not HoodieHook("lake").test_connection()[0]


def test_another_connection_or_none(connect: Connect) -> None:
    with pytest.raises(HoodieConfigurationError, match=r"'lake' is not defined. Set AIRFLOW_CONN_LAKE="):
        HoodieHook("lake").get_conn()
    connect(conn_type="spark")
    with pytest.raises(HoodieConfigurationError, match="of type 'spark', not hoodie"):
        HoodieHook("lake").get_conn()


def test_paths_that_a_warehouse_does_not_hold(connect: Connect) -> None:
    connect(warehouse="/data/lake")
    conn = HoodieHook("lake").get_conn()
    assert conn.locate("a/../b") == "/data/lake/b"
    assert conn.locate("s3a://bucket/t") == "s3a://bucket/t"
    with pytest.raises(HoodieConfigurationError, match="leads out of the warehouse /data/lake"):
        conn.locate("../other")
    connect()
    with pytest.raises(HoodieConfigurationError, match="'lake' has no warehouse"):
        HoodieHook("lake").get_conn().locate("orders")
    with pytest.raises(HoodieConfigurationError, match="'~/orders' is relative"):
        HoodieTable(name="t", path="~/orders", record_keys="id", hoodie_conn_id="lake")


@pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")  # Airflow's own call
def test_the_test_button(connect: Connect, tmp_path: Path) -> None:
    """As the API does it: by the connection's own test_connection."""
    from airflow.models.connection import Connection

    def press() -> tuple[bool, str]:
        connect(warehouse=str(tmp_path / "lake"))
        told: tuple[bool, str] = Connection(conn_id="lake", conn_type="hoodie").test_connection()  # type: ignore[no-untyped-call]
        return told

    good, text = press()
    assert (good, text) == (
        False,
        f"Connection 'lake': no folder {tmp_path / 'lake'} is on this machine; make it, or correct the "
        "warehouse",
    )
    (tmp_path / "lake" / "_tmp").mkdir(parents=True)
    assert press() == (True, f"Connection 'lake': {tmp_path / 'lake'} is there and holds no table yet.")
    WrittenTimeline.create(tmp_path / "lake", "orders")
    nested = tmp_path / "lake" / "eu" / "flights"
    properties.create(STORAGE, str(nested), {properties.NAME: "flights", properties.TYPE: "MERGE_ON_READ"})
    good, text = press()
    assert good
    text = text.removeprefix("Connection 'lake': ")
    assert text == f"2 tables in {tmp_path / 'lake'}: eu/flights (MERGE_ON_READ), orders (COPY_ON_WRITE)"
    (nested / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=flig")
    good, text = press()
    assert not good
    why = f"1 of 2 tables in {tmp_path / 'lake'} can't be read: eu/flights: no whole hoodie"
    assert text.startswith(f"Connection 'lake': {why}")


@pytest.mark.parametrize(
    ("extra", "good", "message"),
    [
        ({}, True, "This connection: it names no warehouse"),
        ({"warehouse": "lake"}, False, "this connection: warehouse is 'lake'; give an absolute path"),
        (
            {"storage_conn_id": "none"},
            False,
            "this connection: storage_conn_id is 'none', which is not defined",
        ),
        ("{", False, "this connection: extra is no JSON"),
    ],
)
def test_the_name_that_the_form_makes_up_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, extra: Any, good: bool, message: str
) -> None:
    """Airflow's API puts what the form has under another name into the environment."""
    value = extra if isinstance(extra, str) else json.dumps(extra)
    monkeypatch.setenv("AIRFLOW_CONN_XK2QABCD", json.dumps({"conn_type": "hoodie", "extra": value}))
    told = HoodieHook("xK2qaBcD").test_connection()
    assert told[0] is good
    assert told[1].startswith(message)
    assert "xk2qabcd" not in told[1].lower()


def test_an_operator_submits_with_what_the_connection_says(
    connect: Connect, committing: FakeSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "job_script", lambda: tmp_path / "jobs" / "run.py")
    connect("spark_lake", "spark", **{"deploy-mode": "client"})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_LAKE", '{"conn_type": "spark", "host": "local[3]"}')
    options = {"hoodie.parquet.compression.codec": "snappy"}
    connect(warehouse=str(tmp_path), options=options, spark_conn_id="spark_lake")
    table = HoodieTable(name="orders", path="orders", record_keys="id", hoodie_conn_id="lake")
    task = UpsertOperator(
        task_id="write", table=table, source="/in", spark_binary=str(committing.path), name="n"
    )
    result = task.execute({})
    assert result["base_path"] == str(tmp_path / "orders")
    request = committing.request()
    assert request["table"] == str(tmp_path / "orders")
    assert request["options"]["hoodie.parquet.compression.codec"] == "snappy"
    assert committing.option("--master") == "local[3]"
    assert task.outlets == []  # no asset has a path that is not known when the DAG is read

    # another connection, by the task: its own warehouse and options
    connect("other", warehouse=str(tmp_path / "other"))
    given: dict[str, Any] = {
        "task_id": "w",
        "table": table,
        "source": "/in",
        "spark_binary": str(committing.path),
    }
    task = UpsertOperator(hoodie_conn_id="other", master="local[2]", name="n", **given)
    assert task.execute({})["base_path"] == str(tmp_path / "other" / "orders")
    assert "hoodie.parquet.compression.codec" not in committing.request()["options"]
    assert committing.option("--master") == "local[2]"


def test_a_missing_connection_fails_before_anything_is_submitted(fake: FakeSubmit) -> None:
    table = HoodieTable(name="t", path="t", record_keys="id", hoodie_conn_id="nowhere")
    task = UpsertOperator(task_id="w", table=table, source="/in", spark_binary=str(fake.path), name="n")
    with pytest.raises(HoodieConfigurationError, match="hoodie connection 'nowhere' is not defined"):
        task.execute({})
    assert not Path(f"{fake.path}.json").exists()


def test_a_sensor_in_a_warehouse(connect: Connect, tmp_path: Path) -> None:
    from airflow.providers.common.compat.sdk import TaskDeferred

    connect(warehouse=str(tmp_path))
    table = HoodieTable(name="orders", path="orders", record_keys="id", hoodie_conn_id="lake")
    sensor = CommitSensor(task_id="wait", table=table, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    assert deferred.value.trigger.table == str(tmp_path / "orders")
    instant = WrittenTimeline.create(tmp_path).commit()
    assert sensor.execute({})["instant"] == instant
    with pytest.raises(HoodieConfigurationError, match="starts from the trigger looks up no connection"):
        CommitSensor(task_id="wait", table=table, start_from_trigger=True)


def test_an_asset_needs_an_absolute_path() -> None:
    table = HoodieTable(name="orders", path="orders", record_keys="id", hoodie_conn_id="lake")
    with pytest.raises(HoodieConfigurationError, match="'orders' is relative to the warehouse of 'lake'"):
        _ = table.asset
