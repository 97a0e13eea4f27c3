"""HoodieTable: what it accepts, what it refuses, what it gives the job."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any

import pytest

from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException
from airflow_hoodie.table import HoodieTable

ORDERS: dict[str, Any] = {
    "name": "orders",
    "path": "/lake/orders",
    "record_keys": ["id", "line"],
    "partition_fields": ["day"],
    "ordering_field": "ts",
    "options": {"hoodie.index.type": "SIMPLE", "hoodie.datasource.write.hive_style_partitioning": True},
}


def test_options_of_a_write() -> None:
    assert HoodieTable(**ORDERS).options_for("upsert") == {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id,line",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.index.type": "SIMPLE",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }


def test_overrides_of_a_task() -> None:
    overrides = {
        "hoodie.index.type": "BLOOM",
        "hoodie.x": [1, 2],
        "hoodie.datasource.write.operation": "insert",
    }
    options = HoodieTable(**ORDERS).options_for("insert", overrides)
    assert options["hoodie.index.type"] == "BLOOM"
    assert options["hoodie.x"] == "1,2"
    assert "hoodie.datasource.write.operation" not in options  # the request says it
    with pytest.raises(HoodieConfigurationError, match="contradicts the operator, which does upsert"):
        HoodieTable(**ORDERS).options_for("upsert", overrides)


def test_no_partition_and_no_ordering() -> None:
    options = HoodieTable(name="t", path="/t", record_keys="id").options_for("insert")
    assert options["hoodie.datasource.write.partitionpath.field"] == ""
    assert "hoodie.datasource.write.precombine.field" not in options


def test_json_round_trip_and_value_semantics() -> None:
    table = HoodieTable(**ORDERS)
    for other in (
        HoodieTable.from_dict(json.loads(json.dumps(table.to_dict()))),
        pickle.loads(pickle.dumps(table)),
        copy.deepcopy(table),
    ):
        assert other == table
        assert hash(other) == hash(table)
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.name = "x"  # type: ignore[misc]


def test_the_given_options_are_copied() -> None:
    options = {"hoodie.index.type": "SIMPLE"}
    table = HoodieTable(name="t", path="/t", record_keys="id", options=options)
    options["hoodie.index.type"] = "BLOOM"
    assert table.options["hoodie.index.type"] == "SIMPLE"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "name is ' '"),
        ({"path": ""}, "path is ''"),
        ({"path": None}, "path is None"),
        ({"path": "lake/orders"}, "'lake/orders' is relative"),
        ({"path": "~/orders"}, "'~/orders' is relative"),
        ({"table_type": "COW"}, "table_type is 'COW'; use one of COPY_ON_WRITE, MERGE_ON_READ"),
        ({"record_keys": []}, "record_keys is empty"),
        ({"record_keys": None}, "record_keys is None"),
        ({"record_keys": ["id", "id"]}, "names a column twice"),
        ({"record_keys": "id,line"}, "'id,line'; give one column name per item"),
        ({"partition_fields": [""]}, "partition_fields holds ''"),
        ({"ordering_field": ""}, "ordering_field is blank"),
        ({"options": {"hoodie.index.type": None}}, "hoodie.index.type is None"),
        ({"options": {1: "x"}}, "option name 1"),
        ({"options": "a=b"}, "pass a dict"),
        ({"options": {"hoodie.datasource.write.operation": "insert"}}, "operator's choice"),
        (
            {"options": {"hoodie.datasource.write.recordkey.field": "id"}},
            "recordkey.field='id' contradicts the table's own 'id,line'",
        ),
        ({"options": {"hoodie.datasource.write.precombine.field": "v"}}, "contradicts the table's own 'ts'"),
        ({"key": "id"}, "no field 'key'"),
        ({"version": 7}, "version is 7; use one of 6, 8, 9, or None"),
        ({"version": "nine"}, "version is 'nine'"),
        (
            {"version": 9, "options": {"hoodie.write.table.version": "6"}},
            "table.version='6' contradicts the table's own '9'",
        ),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        HoodieTable.from_dict({**ORDERS, **change})


def test_missing_fields_are_named() -> None:
    with pytest.raises(HoodieConfigurationError, match="needs name, record_keys"):
        HoodieTable.from_dict({"path": "/t"})
    with pytest.raises(HoodieConfigurationError, match="pass a HoodieTable"):
        HoodieTable.of("/t")  # type: ignore[arg-type]


def test_a_task_may_not_contradict_the_table() -> None:
    with pytest.raises(HoodieException, match="contradicts"):
        HoodieTable(**ORDERS).options_for("upsert", {"hoodie.table.name": "other"})


@pytest.mark.parametrize(
    "path", ["{{ var.value.lake }}/orders", "file:/lake/t", "file:///lake/t", "s3a://lake/t"]
)
def test_paths(path: str) -> None:
    assert HoodieTable(**{**ORDERS, "path": path}).path == path


def test_templates_are_compared_after_rendering() -> None:
    table = HoodieTable(**{**ORDERS, "name": "orders_{{ params.env }}"})
    assert table.options_for("upsert", {"hoodie.table.name": "orders_eu"})
    with pytest.raises(HoodieConfigurationError, match="contradicts"):
        HoodieTable(**{**ORDERS, "name": "orders_us"}).options_for(
            "upsert", {"hoodie.table.name": "orders_eu"}
        )
