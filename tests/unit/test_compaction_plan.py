"""Compaction plans as Avro files, against those that Apache Hudi wrote."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest

from hoodie.codec import avro
from hoodie.errors import TableError
from hoodie.timeline.models.compaction import CompactionOperation, CompactionPlan, PlannedStrategy
from hoodie.timeline.time import InstantTime


def decoded(data: bytes) -> dict[str, Any]:
    (record,) = fastavro.reader(io.BytesIO(data))
    assert isinstance(record, dict)
    return record


def test_every_golden_plan_field_by_field(golden_tables: Path) -> None:
    files = [
        *golden_tables.rglob(".hoodie/*.compaction.requested"),
        *golden_tables.rglob(".hoodie/*.logcompaction.requested"),
    ]
    assert len(files) >= 8
    for path in files:
        data = path.read_bytes()
        plan = CompactionPlan.from_bytes(data)
        assert plan.to_record() == decoded(data), path
        assert decoded(plan.to_bytes()) == decoded(data), path
        assert CompactionPlan.from_bytes(plan.to_bytes()) == plan
        assert plan.operations


def test_values_of_a_golden_plan(golden_tables: Path) -> None:
    folder = golden_tables / "0.15.0-v6" / "mor_pending_compaction" / "table" / ".hoodie"
    (path,) = folder.glob("*.compaction.requested")
    plan = CompactionPlan.from_bytes(path.read_bytes())
    assert plan.partitions == ["apac", "eu", "us"]
    assert (plan.version, plan.strategy, plan.extra_metadata) == (2, None, None)
    first = plan.operations[0]
    assert first.group == ("apac", "badaa0b0-ae3e-4baf-ab84-2ebb34a82266-0")
    assert first.base_instant == "20261121005840659"
    assert first.base_name == "badaa0b0-ae3e-4baf-ab84-2ebb34a82266-0_1-169-215_20261121005840659.parquet"
    assert first.log_names == (".badaa0b0-ae3e-4baf-ab84-2ebb34a82266-0_20261121005840659.log.1_1-196-249",)
    assert first.metric("TOTAL_LOG_FILES_SIZE") == 4137


def test_the_strategy_of_a_log_compaction(golden_tables: Path) -> None:
    folder = golden_tables / "0.15.0-v6" / "mor_logcompaction" / "table" / ".hoodie"
    (path,) = folder.glob("*.logcompaction.requested")
    plan = CompactionPlan.from_bytes(path.read_bytes())
    name = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
    assert plan.strategy == PlannedStrategy(name, {}, 1)
    assert plan.preserve_metadata


def test_paths_of_version_1_are_absolute() -> None:
    plan = CompactionPlan(
        (
            CompactionOperation(
                "p/q", "f", InstantTime("1"), "/t/p/q/f_0_1.parquet", ("file:/t/p/q/.f_1.log.1",)
            ),
        ),
        version=1,
    )
    (entry,) = CompactionPlan.from_bytes(plan.to_bytes()).operations
    assert (entry.base_name, entry.log_names) == ("f_0_1.parquet", (".f_1.log.1",))


def test_a_slice_without_base_file_and_absent_parts() -> None:
    old = avro.write_record(
        "HoodieCompactionPlan", {"operations": [{"baseInstantTime": "1", "fileId": "f"}], "version": 2}
    )
    plan = CompactionPlan.from_bytes(old)
    assert plan.operations == (CompactionOperation("", "f", InstantTime("1"), metrics=None),)
    assert plan.operations[0].base_name is None
    assert CompactionPlan.from_bytes(avro.write_record("HoodieCompactionPlan", {})).operations == ()


def test_a_plan_of_a_newer_release() -> None:
    """1.x adds which partitions could not be scheduled; the rest is as it was."""
    schema = avro.schema_json("HoodieCompactionPlan")
    more = {"name": "missingSchedulePartitions", "type": ["null", {"type": "array", "items": "string"}]}
    newer = fastavro.parse_schema({**schema, "fields": [*schema["fields"], more]}, named_schemas={})
    plan = CompactionPlan((CompactionOperation("p", "f", InstantTime("1")),))
    out = io.BytesIO()
    fastavro.writer(out, newer, [{**plan.to_record(), "missingSchedulePartitions": ["q"]}], codec="null")
    assert CompactionPlan.from_bytes(out.getvalue()) == plan


@pytest.mark.parametrize("cut", [0, 100, -5])
def test_torn_plan(cut: int) -> None:
    with pytest.raises(TableError, match="no whole HoodieCompactionPlan"):
        CompactionPlan.from_bytes(CompactionPlan(()).to_bytes()[:cut])
