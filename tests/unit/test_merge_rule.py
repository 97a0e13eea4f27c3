"""How rows merge, as hoodie.properties of every version say it; what is expected is what Apache Hudi does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoodie.format.java_properties import parse_properties
from hoodie.merge import MERGERS
from hoodie.table.merge_rule import MergeMode, MergeRule, PartialUpdateMode

EVENT, COMMIT, CUSTOM = MergeMode
IGNORE, FILL = PartialUpdateMode
EVENT_ID, COMMIT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"
CUSTOM_ID, BY_PAYLOAD = "1897ef5f-18bc-4557-939c-9d6a8afd1519", "00000000-0000-0000-0000-000000000000"
MODEL = "org.apache.hudi.common.model."
#: what the writers' options, and Apache Hudi's table of payload classes, make of tables that are not plain
GOLDEN = {
    "1.2.0-v9/mor_late_overwrite": (COMMIT, (), None, None),
    "1.2.0-v9/mor_late_event": (EVENT, ("ts",), None, "DefaultHoodieRecordPayload"),
    "1.2.0-v9/mor_partial_payload": (EVENT, ("ts",), IGNORE, "PartialUpdateAvroPayload"),
}


def test_every_golden_table(later_tables: Path) -> None:
    """Writers named an ordering field; where they named no mode either, it orders the rows."""
    seen = set()
    for file in later_tables.glob("*/*/meta.json"):
        meta, name = json.loads(file.read_text()), f"{file.parent.parent.name}/{file.parent.name}"
        asked = meta["write_options"]["hoodie.datasource.write.precombine.field"]
        rule = MergeRule.of(parse_properties((file.parent / "table/.hoodie/hoodie.properties").read_bytes()))
        mode, fields, partial, legacy = GOLDEN.get(name, (EVENT, (asked,), None, None))
        found = (rule.mode, rule.ordering_fields, rule.partial_update_mode, rule.legacy_payload_class)
        assert found == (mode, fields, partial, legacy and MODEL + legacy), name
        older = meta["table_version"] == 8
        assert (rule.strategy_id, rule.payload_class) == (
            EVENT_ID if older else None,
            MODEL + ("OverwriteWithLatestAvroPayload" if mode is COMMIT else "DefaultHoodieRecordPayload"),
        ), name
        assert (rule.delete_field, rule.delete_marker, rule.unavailable) == (None, None, None)
        assert (rule.problem, rule.by_mode) == (None, True), name
        seen.add((name, meta["table_version"]))
    assert len(seen) >= 72
    assert {version for _, version in seen} == {8, 9}
    assert GOLDEN.keys() <= {name for name, _ in seen}


def rule(version: int, **texts: str) -> MergeRule:
    """By the properties without `hoodie.`; underscores of the names are dots."""
    given = {f"hoodie.{name.replace('_', '.')}": text for name, text in texts.items()}
    return MergeRule.of({"hoodie.table.version": str(version), **given})


#: the properties that Apache Hudi 1.2.0 and 1.0.2 give tables; mode, ordering fields, partial update mode
LATER: dict[str, tuple[int, dict[str, str], tuple[MergeMode, tuple[str, ...], PartialUpdateMode | None]]] = {
    "several ordering fields": (
        9,
        {"record_merge_mode": "EVENT_TIME_ORDERING", "table_ordering_fields": "ts,val"},
        (EVENT, ("ts", "val"), None),
    ),
    "several ordering fields that do not count": (
        9,
        {"record_merge_mode": "COMMIT_TIME_ORDERING", "table_ordering_fields": "ts,val"},
        (COMMIT, (), None),
    ),
    "made by 1.0.2": (
        8,
        {
            "record_merge_mode": "EVENT_TIME_ORDERING",
            "table_precombine_field": "ts",
            "record_merge_strategy_id": EVENT_ID,
            "compaction_payload_class": MODEL + "DefaultHoodieRecordPayload",
        },
        (EVENT, ("ts",), None),
    ),
    "downgraded from 9": (
        8,
        {
            "record_merge_mode": "EVENT_TIME_ORDERING",
            "table_precombine_field": "ts",
            "record_merge_strategy_id": EVENT_ID,
            "compaction_record_merger_strategy": EVENT_ID,
        },
        (EVENT, ("ts",), None),
    ),
    "upgraded from 6": (
        9,
        {
            "record_merge_mode": "EVENT_TIME_ORDERING",
            "table_ordering_fields": "ts",
            "compaction_record_merger_strategy": EVENT_ID,
            "table_legacy_payload_class": MODEL + "DefaultHoodieRecordPayload",
        },
        (EVENT, ("ts",), None),
    ),
    "OverwriteWithLatestAvroPayload": (
        9,
        {
            "record_merge_mode": "COMMIT_TIME_ORDERING",
            "table_ordering_fields": "ts",
            "table_legacy_payload_class": MODEL + "OverwriteWithLatestAvroPayload",
        },
        (COMMIT, (), None),
    ),
    "OverwriteNonDefaultsWithLatestAvroPayload": (
        9,
        {
            "record_merge_mode": "COMMIT_TIME_ORDERING",
            "table_ordering_fields": "ts",
            "table_legacy_payload_class": MODEL + "OverwriteNonDefaultsWithLatestAvroPayload",
            "table_partial_update_mode": "IGNORE_DEFAULTS",
        },
        (COMMIT, (), IGNORE),
    ),
    "PostgresDebeziumAvroPayload": (
        9,
        {
            "record_merge_mode": "EVENT_TIME_ORDERING",
            "table_ordering_fields": "_event_lsn",
            "table_legacy_payload_class": MODEL + "debezium.PostgresDebeziumAvroPayload",
            "table_partial_update_mode": "FILL_UNAVAILABLE",
        },
        (EVENT, ("_event_lsn",), FILL),
    ),
    "a foreign payload class": (
        9,
        {
            "record_merge_mode": "CUSTOM",
            "table_ordering_fields": "ts",
            "compaction_payload_class": "com.example.Reverse",
            "record_merge_strategy_id": BY_PAYLOAD,
        },
        (CUSTOM, ("ts",), None),
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_later_versions(name: str) -> None:
    version, texts, expected = LATER[name]
    found = rule(version, **texts)
    assert (found.mode, found.ordering_fields, found.partial_update_mode) == expected


def test_a_strategy_goes_before_a_payload_class_since_version_8() -> None:
    """Under either name; the one of payloads leaves it to the class. Before, it stands beside any class."""
    payload = {"compaction_payload_class": MODEL + "DefaultHoodieRecordPayload"}
    for name in ("record_merge_strategy_id", "compaction_record_merger_strategy"):
        for number, mode in ((COMMIT_ID, COMMIT), (CUSTOM_ID, CUSTOM), (BY_PAYLOAD, EVENT)):
            found = rule(8, **{name: number.upper()}, **payload)
            assert (found.mode, found.strategy_id) == (mode, number)
            assert rule(6, **{name: number}, **payload).mode is EVENT


def test_modes_of_tables_that_name_none() -> None:
    for name, mode in (
        ("DefaultHoodieRecordPayload", EVENT),
        ("EventTimeAvroPayload", EVENT),
        ("OverwriteWithLatestAvroPayload", COMMIT),
        ("PartialUpdateAvroPayload", CUSTOM),
    ):
        assert rule(6, compaction_payload_class=MODEL + name).mode is mode
        assert rule(6, compaction_payload_class=f"com.uber.hoodie.common.model.{name}").mode is mode
    for version in (6, 8):
        assert rule(version).mode is COMMIT
        assert rule(version, table_precombine_field="ts").mode is EVENT
    assert rule(6, record_merge_strategy_id=COMMIT_ID, table_ordering_fields="ts").mode is COMMIT


def test_an_ordering_field_counts_beside_the_payload_class_of_the_newest_commit_up_to_version_6() -> None:
    """Apache Hudi 0.15.0 compares it in logs."""
    texts = {
        "compaction_payload_class": MODEL + "OverwriteWithLatestAvroPayload",
        "table_precombine_field": "ts",
    }
    assert rule(6, **texts).ordering_fields == ("ts",)
    assert rule(8, **texts).ordering_fields == ()


def test_deletes_by_a_marker() -> None:
    prefix = "hoodie.record.merge.property.hoodie."
    found = MergeRule.of(
        {
            "hoodie.table.version": "9",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            f"{prefix}payload.delete.field": "_change_operation_type",
            f"{prefix}payload.delete.marker": "d",
            f"{prefix}write.partial.update.unavailable.value": "__debezium_unavailable_value",
        }
    )
    assert (found.delete_field, found.delete_marker) == ("_change_operation_type", "d")
    assert found.unavailable == "__debezium_unavailable_value"
    assert (found.problem, found.by_mode) == (None, True)
    for name in ("payload.delete.field", "payload.delete.marker", "write.something"):
        texts = {"hoodie.table.version": "9", prefix + name: "x"}
        assert MergeRule.of(texts).problem == f"{prefix}{name}=x"


def test_what_version_8_brought_is_a_problem_of_version_6() -> None:
    """It was not known then; since version 8 it is followed."""
    for texts in (
        {"table_ordering_fields": "a,b"},
        {"table_partial_update_mode": "IGNORE_DEFAULTS"},
        {"table_legacy_payload_class": MODEL + "EventTimeAvroPayload"},
        {"record_merge_property_hoodie_payload_delete_marker": "D"},
        {
            "record_merge_mode": "EVENT_TIME_ORDERING",
            "compaction_payload_class": MODEL + "EventTimeAvroPayload",
        },
    ):
        old = rule(6, **texts)
        assert old.problem
        assert not old.by_mode
        if "record_merge_property_hoodie_payload_delete_marker" in texts:
            texts["record_merge_property_hoodie_payload_delete_field"] = "Op"
        assert rule(9, **texts).problem is None


def test_problems_since_version_8() -> None:
    event = {"record_merge_mode": "EVENT_TIME_ORDERING"}
    unknown = rule(9, **event, table_partial_update_mode="SOME")
    assert unknown.problem == "hoodie.table.partial.update.mode=SOME"
    fields = rule(8, **event, table_ordering_fields="a,b", table_precombine_field="a")
    assert fields.problem == "hoodie.table.ordering.fields=a,b beside hoodie.table.precombine.field=a"
    assert rule(8, **event, table_ordering_fields="a, b", table_precombine_field="a,b").problem is None
    payload = rule(8, **event, compaction_payload_class=MODEL + "PartialUpdateAvroPayload")
    assert payload.problem
    assert "PartialUpdateAvroPayload" in payload.problem
    custom = {"record_merge_mode": "CUSTOM", "compaction_payload_class": MODEL + "PartialUpdateAvroPayload"}
    assert (rule(8, **custom).problem, rule(8, **custom).by_mode) == (None, False)
    assert rule(9, record_merge_mode="CUSTOM").problem
    # a payload class has one ordering field, and what else it does is its own
    for name, text in (("table_ordering_fields", "a,b"), ("table_partial_update_mode", "IGNORE_DEFAULTS")):
        assert rule(9, **custom, **{name: text}).problem == f"hoodie.{name.replace('_', '.')}={text}"


def test_the_merger() -> None:
    """A table that says nothing has that of 0.15.0; one with a problem has none."""
    commit = MODEL + "OverwriteWithLatestAvroPayload"
    assert (rule(6).payload_class, rule(6).merger) == (None, commit)
    for mode, name in ((EVENT, MODEL + "DefaultHoodieRecordPayload"), (COMMIT, commit)):
        assert rule(6, record_merge_mode=mode.value).merger == name == MERGERS.name(name)
    assert rule(6, table_ordering_fields="a,b").merger is None
