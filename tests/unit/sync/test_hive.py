"""What Hive's metastore should have of a table, and what a sync changes of what it has: nothing is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from hoodie.config.key import Config
from hoodie.errors import ConfigError, HoodieError, SchemaError, TableError, TableMismatch
from hoodie.sync.hive.catalog import (
    EntryChange,
    PartitionChange,
    Stored,
    Values,
    adopted,
    check_entry,
    entry_change,
    partition_change,
)
from hoodie.sync.hive.desired_entry import (
    INPUT,
    OUTPUT,
    REALTIME_INPUT,
    SERDE,
    Column,
    DesiredEntry,
    Entry,
    desired_entry_of,
    hive_type,
    partition_values,
    widens,
)
from hoodie.table.properties import TableProperties

_TS = pa.timestamp("us", "UTC")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("id", pa.int32(), nullable=False),
    pa.field("day", pa.string()),
    pa.field("at", _TS),
    pa.field("Tags", pa.list_(pa.field("element", pa.struct([pa.field("A", pa.decimal128(5, 2))])))),
    pa.field("m", pa.map_(pa.string(), pa.float64())),
]
COLUMNS = pa.schema(_FIELDS)
AVRO = json.dumps({"fields": [{"name": "id", "doc": "the key"}, {"name": "day"}]})


def want(path: str = "/lake/orders", table_type: str = "COPY_ON_WRITE", **given: str) -> DesiredEntry:
    settings = {key: text for key, text in given.items() if "." not in key}
    props = {
        "hoodie.table.name": "Orders",
        "hoodie.table.type": table_type,
        "hoodie.table.partition.fields": settings.pop("fields", "day"),
        "hoodie.datasource.write.hive_style_partitioning": settings.pop("hive_style", "true"),
    }
    options = {f"hoodie.datasource.hive_sync.{name}": text for name, text in settings.items()}
    options |= {name: text for name, text in given.items() if "." in name}
    return desired_entry_of(path, TableProperties(props), Config.of(options), COLUMNS, AVRO)


def merge_on_read(given: dict[str, str]) -> DesiredEntry:
    return want(**{"table_type": "MERGE_ON_READ", **given})


def stored(entry: Entry, **changes: Any) -> Stored:
    """The entry as a metastore has it."""
    as_made = Stored(
        location=entry.location,
        columns=tuple(replace(item, name=item.name.lower(), comment="") for item in entry.columns),
        partition_columns=entry.partition_columns,
        input_format=entry.input_format,
        output_format=OUTPUT,
        serde=SERDE,
        parameters={"EXTERNAL": "TRUE", **entry.parameters},
        serde_parameters=entry.serde_parameters,
    )
    return replace(as_made, **changes)


def test_an_entry_has_what_spark_and_hive_look_for() -> None:
    target = want(sync_comment="true", support_timestamp="true", table_properties="a=1\nb = two")
    assert (target.database, target.extractor) == ("default", "HiveStylePartitionValueExtractor")
    [entry] = target.entries
    assert (entry.name, entry.location, entry.input_format) == ("orders", "file:/lake/orders", INPUT)
    types = {item.name: item.type for item in entry.columns if not item.name.startswith("_hoodie_")}
    assert types == {
        "id": "int",
        "at": "timestamp",
        "Tags": "array<struct<a:decimal(5,2)>>",
        "m": "map<string,double>",
    }
    assert [item.comment for item in entry.columns if item.name == "id"] == ["the key"]
    assert entry.partition_columns == (Column("day", "string"),)
    assert entry.serde_parameters == {
        "serialization.format": "1",
        "path": "file:/lake/orders",
        "hoodie.query.as.ro.table": "false",
    }
    parameters = dict(entry.parameters)
    schema = json.loads(parameters.pop("spark.sql.sources.schema.part.0"))
    assert parameters == {
        "a": "1",
        "b": "two",
        "spark.sql.sources.provider": "hudi",
        "spark.sql.sources.schema.numParts": "1",
        "spark.sql.sources.schema.numPartCols": "1",
        "spark.sql.sources.schema.partCol.0": "day",
    }
    names = [item["name"] for item in schema["fields"]]
    assert (names[0], names[-1], len(names)) == ("_hoodie_commit_time", "day", 10)
    [tags] = [item["type"] for item in schema["fields"] if item["name"] == "Tags"]
    assert tags["elementType"]["fields"][0]["type"] == "decimal(5,2)"


def test_a_long_schema_has_parts() -> None:
    [whole], [entry] = want().entries, want(schema_string_length_thresh="100").entries
    count = int(entry.parameters["spark.sql.sources.schema.numParts"])
    parts = [entry.parameters[f"spark.sql.sources.schema.part.{at}"] for at in range(count)]
    assert max(map(len, parts)) == 100
    assert "".join(parts) == whole.parameters["spark.sql.sources.schema.part.0"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, {"orders_ro": (INPUT, "true"), "orders_rt": (REALTIME_INPUT, "false"),
              "orders": (REALTIME_INPUT, "false")}),
        ({"hoodie.meta.sync.sync_snapshot_with_table_name": "false"},
         {"orders_ro": (INPUT, "true"), "orders_rt": (REALTIME_INPUT, "false")}),
        ({"skip_ro_suffix": "true"}, {"orders": (INPUT, "true"), "orders_rt": (REALTIME_INPUT, "false")}),
        ({"hoodie.datasource.hive_sync.table.strategy": "ro", "table": "mine"}, {"mine": (INPUT, "true")}),
        ({"hoodie.datasource.hive_sync.table.strategy": "RT"}, {"orders": (REALTIME_INPUT, "false")}),
    ],
)  # fmt: skip
def test_entries_of_a_merge_on_read_table(given: dict[str, str], names: dict[str, tuple[str, str]]) -> None:
    entries = merge_on_read(given).entries
    assert {
        item.name: (item.input_format, item.serde_parameters["hoodie.query.as.ro.table"]) for item in entries
    } == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": "a-b"}, "'a-b' is no name that metastores and readers take"),
        ({"mode": "jdbc"}, "expected hms"),
        ({"create_managed_table": "true"}, "would delete the files"),
        ({"use_spark_catalog": "true"}, r"set hoodie\.datasource\.hive_sync\.mode=hms"),
        ({"partition_extractor_class": "org.example.Mine"}, "none of Apache Hudi's extractors"),
        ({"table_properties": "lone=a=b"}, "no line `key=value`"),
        ({"partiton_fields": "x"}, r"unknown setting.*did you mean '.*partition_fields'"),
        ({"hoodie.datasource.meta.sync.base.path": "s3a://b/orders"}, "is another folder"),
        (
            {"hoodie.meta.sync.sync_snapshot_with_table_name": "true", "skip_ro_suffix": "true"},
            "both ask for",
        ),
    ],
)
def test_settings_that_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merge_on_read(given)


@pytest.mark.parametrize(
    ("name", "path", "values"),
    [
        ("SinglePartPartitionValueExtractor", "2026/01/02", ("2026-01-02",)),
        ("HiveStylePartitionValueExtractor", "day=a%2Fb", ("a/b",)),
        ("MultiPartKeysValueExtractor", "r=eu/2026", ("eu", "2026")),
        ("SlashEncodedDayPartitionValueExtractor", "y=2026/1/02", ("2026-01-02",)),
        ("SlashEncodedHourPartitionValueExtractor", "2026/01/02/3", ("2026-01-02-03",)),
    ],
)
def test_values_of_paths(name: str, path: str, values: tuple[str, ...]) -> None:
    columns = ["r", "d"][: len(values)]
    assert partition_values(name, path, columns, decode=True) == values
    with pytest.raises(TableError, match=rf"can't be entered by {name}.*partition_extractor_class"):
        partition_values(name, "a/b/c/d/e" if name[:3] in ("Mul", "Sla") else "", columns, decode=True)


def test_two_paths_with_the_same_values_are_refused() -> None:
    target = want(hive_style="false")
    with pytest.raises(TableError, match="'a-b' and 'a/b' both have the values a-b"):
        target.values(["a-b", "a/b"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "bigint"),
        ("bigint", "double"),
        ("float", "string"),
        ("decimal(5,2)", "decimal(7,3)"),
        ("int", "decimal(10,0)"),
        ("array<int>", "array<bigint>"),
        ("map<string,struct<a:int,b:int>>", "map<string,struct<a:int,b:bigint,c:map<string,int>>>"),
    ],
)
def test_types_widen_one_way(old: str, new: str) -> None:
    assert widens(old, old)
    assert widens(old, new)
    assert not widens(new, old)


def test_a_type_that_hive_has_not() -> None:
    with pytest.raises(SchemaError, match="Hive has no type for"):
        hive_type(pa.time64("us"), timestamps=True)


def test_an_entry_that_is_as_it_should_be_does_not_change() -> None:
    for entry in merge_on_read({}).entries:
        assert entry_change("d.t", entry, stored(entry)) == EntryChange()


def test_columns_change_at_their_places_and_new_ones_come_last() -> None:
    [entry] = want().entries
    has = stored(entry)
    older = tuple(
        replace(item, type="smallint", comment="kept") if item.name == "id" else item
        for item in has.columns
        if item.name != "at"
    )
    change = entry_change("d.t", entry, replace(has, columns=(*older, Column("gone", "int", ""))))
    assert (change.added, change.retyped, change.dropped) == (("at",), ("id: smallint -> int",), ("gone",))
    assert [item.name.lower() for item in change.columns] == [*(item.name for item in older), "at"]
    assert [item.comment for item in change.columns if item.name == "id"] == ["kept"]
    assert change.of_partitions


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"location": "file:/lake/other"}, TableMismatch, "is the table at file:/lake/other, not the one at"),
        ({"location": "s3://b/lake/orders"}, TableMismatch, "is the table at s3://b/lake/orders"),
        ({"input_format": "x.TextInputFormat", "parameters": {}}, TableMismatch, "is no Hudi table"),
        ({"partition_columns": ()}, TableMismatch, "is partitioned by nothing, the table by day"),
        (
            {"columns": (Column("id", "bigint"), Column("m", "map<string,string>"))},
            SchemaError,
            "can't change column id from bigint to int, m from map<string,string> to map<string,double>",
        ),
    ],
)
def test_what_can_not_be_mended_is_refused(
    changes: dict[str, Any], error: type[HoodieError], message: str
) -> None:
    [entry] = want().entries
    has = stored(entry, **changes)
    with pytest.raises(error, match=message):
        _compared(entry, has)


def _compared(entry: Entry, has: Stored) -> EntryChange:
    check_entry("d.t", entry, has)
    return entry_change("d.t", entry, has)


def test_the_metastores_name_of_a_folder_is_kept_unless_another_is_asked_for() -> None:
    [entry] = want("s3://b/orders").entries
    has = stored(
        entry,
        location="s3a://b/orders",
        serde_parameters={**entry.serde_parameters, "path": "s3a://b/orders"},
    )
    check_entry("d.t", entry, has)
    assert entry_change("d.t", adopted(entry, has, asked=False), has).empty
    assert set(entry_change("d.t", adopted(entry, has, asked=True), has).properties) == {"path", "location"}


def test_partitions_are_added_moved_and_dropped() -> None:
    [entry] = want().entries
    home = "file:/lake/orders"
    has: dict[Values, str] = {
        ("a",): f"{home}/day=a",
        ("b",): "file:/old/day=b",
        ("c",): f"{home}/day=c",
        ("d",): "file:/own/d",
    }
    written: dict[Values, str] = {(name,): f"day={name}" for name in "abn"}
    change = partition_change(entry, written, has, gone=[("c",), ("d",), ("e",)])
    assert change == PartitionChange(added={("n",): "day=n"}, moved={("b",): "day=b"}, dropped=(("c",),))
