"""Compaction between us and Apache Hudi: one plans, the other executes; all read the same afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from tests.support.hudi_client import HudiServer
from tests.support.oracle import Model
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows

pytestmark = pytest.mark.interop

ALWAYS = {"hoodie.compact.inline.max.delta.commits": "1"}
OURS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.bloom.num_entries": 1000,
}
THEIRS = {
    **{name: str(value) for name, value in OURS.items()},
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.compact.inline": "false",
}


class Both:
    """A table that both write, and its model."""

    def __init__(self, path: Path, hudi: HudiServer, **more: str) -> None:
        self.our_options = {**OURS, **more}
        self.their_options = {**THEIRS, "hoodie.table.name": path.name, **more}
        self.path = path
        self.hudi = hudi
        self.model = Model(["id"], ["region"], "ts")

    def ours(self, rows: list[dict[str, Any]]) -> None:
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(self.path), options=self.our_options)
        self.model.upsert(rows)

    def theirs(self, rows: list[dict[str, Any]], mode: str = "append") -> None:
        self.hudi.write(self.path, as_table(rows, SMALL_SCHEMA), self.their_options, mode=mode)
        self.model.upsert(rows)

    def compact(self, mode: str) -> Any:
        return hoodie.compact_table(str(self.path), mode=mode, options=ALWAYS)

    def call(self, op: str) -> list[dict[str, Any]]:
        """Apache Hudi's own procedure."""
        settings = ",".join(f"{name}={value}" for name, value in ALWAYS.items())
        return self.hudi.call("run_compaction", op=op, path=str(self.path), options=settings)

    def check(self, what: str, *, rust: bool = True, others: tuple[HudiServer, ...] = ()) -> None:
        """hudi-rs can't read a table with a pending compaction and logs on top of it."""
        expected = self.model.table(SMALL_SCHEMA)
        assert_same_rows(hoodie.read_table(str(self.path)), expected, what=f"{what}: ours")
        for server in (self.hudi, *others):
            for metadata in (True, False):
                rows = server.read(self.path, metadata=metadata)
                assert_same_rows(rows, expected, what=f"{what}: Hudi {server.version}, {metadata}")
        if rust:
            assert_same_rows(read_hudi_rs(self.path), expected, what=f"{what}: hudi-rs")


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    ["mor_logs", "mor_parquet_logs", "mor_rollback", "mor_bucket", "mor_late_overwrite", "mor_logcompaction"],
)
def test_logs_of_apache_hudi_compacted_by_us(
    golden_tables: Path, tmp_path: Path, name: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """Both releases read the same rows, and only base files, afterwards."""
    source = golden_tables / "0.15.0-v6" / name
    path = tmp_path / name
    shutil.copytree(source / "table", path)
    expected = pq.read_table(source / "expected" / "snapshot.parquet")
    assert hoodie.compact_table(str(path), options=ALWAYS).compacted
    assert_same_rows(hoodie.read_table(str(path)), expected, what="ours")
    for server in (hudi_015, hudi_12):
        for metadata in (True, False):
            assert_same_rows(server.read(path, metadata=metadata), expected, what=f"Hudi {server.version}")
        assert_same_rows(server.read_optimized(path), expected, what=f"Hudi {server.version}, read-optimized")
    timeline = hudi_015.timeline(path)
    assert timeline[max(timeline)] == "COMPACT"


@pytest.mark.full
def test_a_pending_plan_of_apache_hudi_executed_by_us(
    golden_tables: Path, tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    source = golden_tables / "0.15.0-v6" / "mor_pending_compaction"
    path = tmp_path / "t"
    shutil.copytree(source / "table", path)
    (planned,) = hoodie.compact_table(str(path), mode="execute").compacted
    expected = pq.read_table(source / "expected" / "snapshot.parquet")
    for server in (hudi_015, hudi_12):
        assert_same_rows(server.read(path), expected, what=f"Hudi {server.version}")
    optimized = hoodie.read_table(str(path), query="read_optimized")
    assert_same_rows(hudi_015.read_optimized(path), optimized, meta=True)
    assert hudi_015.timeline(path)[planned] == "COMPACT"


@pytest.mark.full
def test_we_plan_and_apache_hudi_executes(tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    table = Both(tmp_path / "planned_by_us", hudi_015)
    table.ours(small_rows(range(60), 1))
    table.ours(small_rows(range(20, 50), 2))
    table.ours(small_rows(range(40, 55), 3, deleted=True))
    planned = table.compact("schedule").scheduled
    table.ours(small_rows(range(10, 45), 4))
    table.check("planned", rust=False, others=(hudi_12,))
    shown = hudi_015.call("show_compaction", path=str(table.path), limit=10)
    assert [(row["timestamp"], row["state"].upper()) for row in shown] == [(planned, "REQUESTED")]
    done = table.call("run")
    assert [(row["timestamp"], row["state"]) for row in done] == [(planned, "COMPLETED")]
    table.check("executed", others=(hudi_12,))
    assert table.compact("execute").reason == "no compaction is pending"
    table.ours(small_rows(range(30, 80), 5))
    assert table.compact("run").compacted
    table.check("compacted by us", others=(hudi_12,))


@pytest.mark.full
def test_apache_hudi_plans_and_we_execute(tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """And it goes on writing, and compacting, on top of what we made."""
    table = Both(tmp_path / "planned_by_hudi", hudi_015)
    table.theirs(small_rows(range(60), 1), mode="overwrite")
    table.theirs(small_rows(range(20, 50), 2))
    (row,) = table.call("schedule")
    table.theirs(small_rows(range(10, 45), 3))
    table.ours(small_rows(range(40, 70), 4))
    table.check("planned", rust=False)
    result = table.compact("execute")
    assert (result.compacted, result.pending) == ([row["timestamp"]], [])
    table.check("executed", others=(hudi_12,))
    table.theirs(small_rows(range(0, 90, 3), 5))
    table.ours(small_rows(range(0, 90, 4), 6))
    table.check("written on", others=(hudi_12,))
    assert [row["state"] for row in table.call("scheduleAndExecute")] == ["COMPLETED"]
    table.check("compacted by Hudi", others=(hudi_12,))


@pytest.mark.full
def test_every_type_after_our_compaction(tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """Lists without null elements: Apache Hudi's logs can hold them, its own base files can't."""
    path = tmp_path / "types"
    for rows in (
        full_rows(range(60), 1, null_elements=False),
        full_rows(range(30, 90), 2, null_elements=False),
        full_rows(range(50, 70), 3, deleted=True, null_elements=False),
    ):
        hoodie.write_table(as_table(rows, FULL_SCHEMA), str(path), options=OURS)
    before = hoodie.read_table(str(path))
    assert hoodie.compact_table(str(path), options=ALWAYS).compacted
    assert_same_rows(hoodie.read_table(str(path)), before)
    for server in (hudi_015, hudi_12):
        assert_same_rows(server.read(path), before, what=f"Hudi {server.version}")
    assert_same_rows(read_hudi_rs(path), before, what="hudi-rs")


@pytest.mark.full
def test_incremental_queries_of_apache_hudi_after_our_compaction(
    tmp_path: Path, hudi_015: HudiServer
) -> None:
    """Rows keep their commit times, so that a compaction brings no row twice."""
    table = Both(tmp_path / "t", hudi_015)
    table.ours(small_rows(range(60), 1))
    table.ours(small_rows(range(20, 50), 2))
    second = max(hudi_015.timeline(table.path))
    first = min(hudi_015.timeline(table.path))
    changed = hudi_015.read_incremental(table.path, begin=first)
    assert table.compact("run").compacted
    assert_same_rows(hudi_015.read_incremental(table.path, begin=first), changed, meta=False)
    assert hudi_015.read_incremental(table.path, begin=second).num_rows == 0
