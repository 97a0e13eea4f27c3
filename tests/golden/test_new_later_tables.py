"""New tables of versions 8 and 9: what they say of themselves is what Apache Hudi 1.2.0 says of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import api
from hoodie.errors import ConfigError, TableMismatch
from hoodie.table.handle import Table
from hoodie.table.merge_rule import DELETE_FIELD, DELETE_MARKER, MergeMode
from hoodie.table.new_merging import NewMerging

MODEL = "org.apache.hudi.common.model."
NAMED = {
    "1.2.0-v8/mor_compacted": None,
    "1.2.0-v9/mor_compacted": None,
    "1.2.0-v9/mor_late_event": "DefaultHoodieRecordPayload",
    "1.2.0-v9/mor_partial_payload": "PartialUpdateAvroPayload",
    "more/delete_marker": None,
    "more/multi_ordering_mor": None,
    "more/payload_custom": "ReverseOrderHoodieRecordPayload",
    "more/payload_event_time": "EventTimeAvroPayload",
    "more/payload_nondefaults": "OverwriteNonDefaultsWithLatestAvroPayload",
    "more/payload_overwrite_latest": "OverwriteWithLatestAvroPayload",
    "more/payload_postgres_debezium": "debezium.PostgresDebeziumAvroPayload",
}
MERGING = ("merge.mode", "merge.strategy", "merge.property", "payload", "partial.update", "ordering.fields")
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.clean.automatic": "false",
}


@pytest.mark.parametrize("name", NAMED)
def test_merging(later_tables: Path, later_more: Path, name: str) -> None:
    tables = later_more if name.startswith("more/") else later_tables
    props = Table.open(str(tables / name / "table")).properties
    stored = {key: text for key, text in props.texts.items() if any(part in key for part in MERGING)}
    payload = NAMED[name]
    by_payload = payload is not None and "debezium" in payload
    asked = NewMerging(
        mode=None,
        payload=MODEL + payload if payload else None,
        ordering_fields=props.merge_rule.named_fields,
        delete_field=None if by_payload else props.get(DELETE_FIELD),
        delete_marker=None if by_payload else props.get(DELETE_MARKER),
    )
    assert asked.properties(props.version) == stored


def test_a_mode_that_the_payload_is_not() -> None:
    for version in (8, 9):
        asked = NewMerging(MergeMode.COMMIT_TIME_ORDERING, MODEL + "DefaultHoodieRecordPayload", ("ts",))
        with pytest.raises(ValueError, match="EVENT_TIME_ORDERING"):
            asked.properties(version)


def rows(ts: int, text: str, ids: tuple[int, ...] = (1, 2, 3)) -> pa.Table:
    made: list[dict[str, Any]] = [{"id": key, "part": f"p{key % 2}", "ts": ts, "v": text} for key in ids]
    return pa.Table.from_pylist(made)


def found(path: str) -> list[tuple[int, int, str]]:
    return sorted((row["id"], row["ts"], row["v"]) for row in api.read_table(path).to_pylist())


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", ["8", "NINE"])
def test_a_new_table(tmp_path: Path, version: str, kind: str) -> None:
    path = str(tmp_path / "t")
    options = {
        **OPTIONS,
        "hoodie.write.table.version": version,
        "hoodie.datasource.write.table.type": kind,
    }
    api.write_table(rows(3, "first"), path, options=options)
    api.write_table(rows(2, "late"), path, options=options)
    api.write_table(rows(4, "new", (2, 4)), path)
    api.write_table(rows(0, "", (3,)), path, operation="delete")
    assert found(path) == [(1, 3, "first"), (2, 4, "new"), (4, 4, "new")]
    table = Table.open(path)
    assert table.properties.version == {"8": 8, "NINE": 9}[version]
    assert table.properties["hoodie.timeline.layout.version"] == "2"
    assert all(item.completion for item in table.timeline.commits())
    with pytest.raises(TableMismatch, match=r"hoodie\.write\.table\.version"):
        api.write_table(rows(5, ""), path, options={"hoodie.write.table.version": "6"})


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_nulls_are_filled(tmp_path: Path, kind: str) -> None:
    """A late row fills the nulls of the stored one, a newer one is filled from it, in a batch, too."""
    path = str(tmp_path / "t")
    options = {
        **OPTIONS,
        "hoodie.write.table.version": "9",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.datasource.write.payload.class": "partial_update",
    }
    columns: dict[str, pa.DataType] = {
        "id": pa.int64(),
        "part": pa.string(),
        "ts": pa.int64(),
        "v": pa.string(),
        "w": pa.string(),
    }

    def write(*given: tuple[int, int, str | None, str | None]) -> None:
        made = [{"id": key, "part": "p", "ts": ts, "v": v, "w": w} for key, ts, v, w in given]
        api.write_table(pa.Table.from_pylist(made, pa.schema(columns)), path, options=options)

    write((1, 5, "a", None), (2, 5, None, "b"), (3, 5, "a", "a"))
    write((1, 4, "late", "late"), (2, 6, "new", None), (3, 6, None, "six"), (3, 7, None, None))
    table = api.read_table(path).to_pylist()
    assert sorted((row["id"], row["ts"], row["v"], row["w"]) for row in table) == [
        (1, 5, "a", "late"),
        (2, 6, "new", "b"),
        (3, 7, "a", "six"),
    ]
    only = api.read_table(path, columns=["id", "w"]).to_pylist()
    assert sorted((row["id"], row["w"]) for row in only) == [(1, "late"), (2, "b"), (3, "six")]


def test_options_of_a_table_of_a_mode(tmp_path: Path) -> None:
    """What contradicts the table is refused, what says the same is not."""
    path, named = str(tmp_path / "t"), "hoodie.datasource.write.payload.class"
    payload = MODEL + "PartialUpdateAvroPayload"
    api.write_table(
        rows(3, "first"), path, options={**OPTIONS, "hoodie.write.table.version": "9", named: payload}
    )
    for good in (
        {named: payload},
        {named: "partial_update"},
        {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"},
        {"hoodie.datasource.write.precombine.field": "ts"},
    ):
        api.write_table(rows(3, "again", (1,)), path, options=good)
    for bad in (
        {named: "event_time"},
        {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
        {"hoodie.datasource.write.precombine.field": "v"},
        {"hoodie.datasource.write.precombine.field": "ts,v"},
        {"hoodie.payload.delete.field": "v", "hoodie.payload.delete.marker": "D"},
    ):
        with pytest.raises(TableMismatch, match=next(iter(bad)).replace(".", r"\.")):
            api.write_table(rows(9, "bad"), path, options=bad)
    assert found(path)[0] == (1, 3, "again")


def test_versions_that_are_not_made(tmp_path: Path) -> None:
    for text, why in (
        ("7", "Give 6 or 8 or 9, or"),
        ("5", "no longer made"),
        ("ten", "6, 8, 9 for a new table"),
    ):
        with pytest.raises(ConfigError, match=rf"hoodie\.write\.table\.version=.*{why}"):
            api.write_table(
                rows(1, ""), str(tmp_path / "t"), options={**OPTIONS, "hoodie.write.table.version": text}
            )
    assert not (tmp_path / "t").exists()
