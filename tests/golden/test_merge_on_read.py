"""Merge-on-read tables written by Apache Hudi 0.15.0, written on by us."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.errors import ConfigError, ConflictError, HoodieError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.support.golden import FEATURES, MERGE_ON_READ
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

FAILED_WRITES = {"mor_inflight"}
#: table -> (what the refusal is, what it says)
REFUSED: dict[str, tuple[type[HoodieError], str]] = {
    "all_instants": (ConflictError, "pending clustering"),
    "mor_bucket": (ConfigError, "BUCKET index"),
    "mor_bucket_compacted": (ConfigError, "BUCKET index"),
    "mor_resized_buckets": (ConfigError, "hash rings"),
}
#: hudi-rs fails on these or answers otherwise, see readers.HUDI_RS_GAPS; on mor_parquet_logs once it has Avro
NOT_BY_HUDI_RS = {
    "mor_compacted",
    "mor_late_overwrite",
    "mor_logs",
    "mor_parquet_logs",
    "mor_partial_payload",
    "mor_pending_compaction",
    "mor_rollback_failed",
}
CONTINUED = [name for name in MERGE_ON_READ if name not in REFUSED]


def golden(golden_tables: Path, tmp_path: Path, name: str) -> str:
    table = tmp_path / name
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", table)
    return str(table)


def ordering_of(golden_tables: Path, name: str) -> str:
    meta = json.loads((golden_tables / "0.15.0-v6" / name / "meta.json").read_text())
    options = {**meta["write_options"], **meta["properties"]}
    return str(
        options.get("hoodie.table.precombine.field") or options["hoodie.datasource.write.precombine.field"]
    )


def moved(rows: pa.Table, ordering: str, by: int) -> pa.Table:
    place = rows.schema.get_field_index(ordering)
    return rows.set_column(
        place, rows.schema.field(place), pc.add(rows.column(ordering), by).cast(rows.schema.field(place).type)
    )


def flagged(rows: pa.Table, flag: bool | None) -> pa.Table:
    """The rows, all with this delete flag."""
    if "_hoodie_is_deleted" in rows.column_names:
        rows = rows.drop_columns("_hoodie_is_deleted")
    return rows.append_column("_hoodie_is_deleted", pa.array([flag] * rows.num_rows, pa.bool_()))


def check(table: str, expected: pa.Table, name: str, what: str) -> None:
    assert_same_rows(hoodie.read_table(table), expected, what=f"{name} {what}")
    if name not in NOT_BY_HUDI_RS:
        assert_same_rows(read_hudi_rs(table), expected, what=f"{name} {what} by hudi-rs")


@pytest.mark.parametrize(
    "name",
    full_but(
        ((FEATURES & set(CONTINUED)) - {"mor_clean_commits", "mor_pending_compaction"})
        | FAILED_WRITES
        | {"mor_logs"},
        CONTINUED,
    ),
)
def test_upserts_continue_a_table_of_apache_hudi(golden_tables: Path, tmp_path: Path, name: str) -> None:
    """Half of the rows are written again, a quarter is deleted, deleted keys come back."""
    table = golden(golden_tables, tmp_path, name)
    ordering = ordering_of(golden_tables, name)
    before = hoodie.read_table(table, meta=False)
    half, quarter = before.num_rows // 2, before.num_rows // 4
    newer = moved(before.slice(0, half), ordering, 10**6)
    result = hoodie.write_table(newer, table)
    assert (result.action, result.num_updates, result.num_inserts) == ("deltacommit", half, 0)
    assert bool(result.rolled_back) == (name in FAILED_WRITES)
    expected = pa.concat_tables([newer, before.slice(half)])
    check(table, expected, name, "updated")

    gone = flagged(moved(newer.slice(0, quarter), ordering, 1), True)
    assert hoodie.write_table(gone, table).num_deletes == quarter
    expected = expected.slice(quarter)
    if "_hoodie_is_deleted" not in expected.column_names:
        expected = flagged(expected, None)
    check(table, expected, name, "deleted")

    fresh = flagged(moved(newer.slice(0, quarter), ordering, 2), None)
    assert hoodie.write_table(fresh, table).num_writes == quarter
    expected = pa.concat_tables([fresh.select(expected.column_names), expected])
    check(table, expected, name, "written again")


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_cannot_be_continued_are_refused(golden_tables: Path, tmp_path: Path, name: str) -> None:
    table = golden(golden_tables, tmp_path, name)
    rows = hoodie.read_table(table, meta=False)
    files = sorted(str(path) for path in Path(table).rglob("*"))
    error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        hoodie.write_table(rows, table)
    assert sorted(str(path) for path in Path(table).rglob("*")) == files


def test_the_log_of_a_failed_write_is_deleted_and_its_version_taken_again(
    golden_tables: Path, tmp_path: Path
) -> None:
    table = golden(golden_tables, tmp_path, "mor_inflight")
    (failed,) = [instant.time for instant in Timeline.load(table).pending()]
    rows = hoodie.read_table(table, meta=False, where="region = 'eu'")
    result = hoodie.write_table(moved(rows, "ts", 10**6), table)
    assert result.rolled_back == [failed]
    assert [instant.action for instant in Timeline.load(table)][-2:] == [Action.ROLLBACK, Action.DELTACOMMIT]
    logs = sorted(path.name.rpartition(".log.")[2] for path in (Path(table) / "eu").glob(".*.log.*[0-9]"))
    assert len(logs) == 2
    assert [log.split("_")[0] for log in logs] == ["1", "2"]
    assert not [path for path in Path(table).rglob("*") if failed in path.name]


def test_writes_go_on_over_a_pending_compaction(golden_tables: Path, tmp_path: Path) -> None:
    table = golden(golden_tables, tmp_path, "mor_pending_compaction")
    (pending,) = Timeline.load(table).filter([Action.COMPACTION])
    rows = hoodie.read_table(table, meta=False)
    hoodie.write_table(moved(rows, "ts", 10**6), table)
    assert Timeline.load(table).filter([Action.COMPACTION]) == [pending]
    assert hoodie.compact_table(table, mode="execute").compacted == [pending.time]
    assert_same_rows(hoodie.read_table(table), moved(rows, "ts", 10**6), what="compacted")
