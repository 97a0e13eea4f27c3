"""Compaction on Spark, classic and Connect: one slice a task, the same rows as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from tests.spark.answers import Servers
from tests.support.later_tables import new_tables_of
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, as_table, full_rows, without

pytestmark = pytest.mark.spark

OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.bloom.num_entries": 1000,
}
ALWAYS = {"hoodie.compact.inline.max.delta.commits": 1}
#: hudi-rs fails on a timestamp in a map of structs of a log block
SCHEMA = without(FULL_SCHEMA, "c_map_struct")


def compact(servers: Servers, mode: str, *jobs: tuple[Path, dict[str, Any]]) -> list[dict[str, Any]]:
    asked = [[str(path), given] for path, given in jobs]
    results: list[dict[str, Any]] = servers.ask("compaction", mode, asked)["results"]
    return results


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_plans_and_executions(tmp_path: Path, servers: Servers, mode: str) -> None:
    path = tmp_path / "t"
    for rows in (
        full_rows(range(90), 1),
        full_rows(range(30, 80), 2),
        full_rows(range(50, 60), 3, deleted=True),
    ):
        hoodie.write_table(as_table(rows, SCHEMA), str(path), options=OPTIONS)
    before = hoodie.read_table(str(path))
    late, first, again, gone = compact(
        servers,
        mode,
        (path, {"mode": "schedule"}),
        (path, {"options": ALWAYS}),
        (path, {"mode": "execute"}),
        (tmp_path / "nowhere", {}),
    )
    assert (late["status"], late["reason"].split(":")[0]) == ("skipped", "no compaction is due")
    assert (first["status"], first["num_slices"], first["num_files"]) == ("compacted", 3, 3)
    assert (again["status"], gone["code"]) == ("skipped", "table_not_found")
    assert_same_rows(hoodie.read_table(str(path)), before)
    assert_same_rows(hoodie.read_table(str(path), query="read_optimized"), before)
    assert_same_rows(read_hudi_rs(path), before, what="hudi-rs")
    tasks = {name.split("_")[1].split("-")[0] for name in files(path, first["instant"])}
    assert len(tasks) == 1, "small slices share a task"


@pytest.mark.full
def test_an_error_of_a_task_is_told_and_leaves_the_plan(tmp_path: Path, servers: Servers) -> None:
    path = tmp_path / "t"
    for version in (1, 2):
        rows = full_rows(range(40), version)
        hoodie.write_table(as_table(rows, SCHEMA), str(path), options=OPTIONS)
    planned = hoodie.compact_table(str(path), mode="schedule", options=ALWAYS).scheduled
    log = next(path.glob("*/.*.log.*"))
    kept = log.read_bytes()
    log.unlink()
    (failed,) = compact(servers, "classic", (path, {"mode": "execute"}))
    assert failed["code"] == "table"
    assert log.name in failed["message"]
    assert files(path, planned) == []
    log.write_bytes(kept)
    assert hoodie.compact_table(str(path), mode="execute").compacted == [planned]


def files(path: Path, instant: str) -> list[str]:
    return sorted(file.name for file in path.glob(f"*/*_{instant}.parquet"))


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_logs_into_logs(tmp_path: Path, servers: Servers, mode: str) -> None:
    path = tmp_path / "t"
    with new_tables_of(9):
        for number, rows in enumerate((range(90), range(30, 80), range(40, 85))):
            hoodie.write_table(as_table(full_rows(rows, number), SCHEMA), str(path), options=OPTIONS)
        gone = full_rows(range(50, 60), 3, deleted=True)
        hoodie.write_table(as_table(gone, SCHEMA), str(path), options=OPTIONS)
        before = hoodie.read_table(str(path))
        due = {"hoodie.log.compaction.blocks.threshold": 2}
        given = {"service": "log_compact_table", "options": due}
        (done,) = compact(servers, mode, (path, given))
        assert (done.get("status"), done["num_slices"], done["num_files"]) == ("compacted", 3, 3)
        assert_same_rows(hoodie.read_table(str(path)), before)
