"""Writes on tables of schema-on-read evolution: older files keep their values, the history goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import ConfigError, SchemaError, TableError, ValidationFailed
from hoodie.format.internal_schema import parse_history
from hoodie.timeline.time import InstantTime
from tests.support.arrow import pc
from tests.support.evolved import changed, commits, rename
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

TABLES = ["evolved_cow", "evolved_mor"]
BOTH = pytest.mark.parametrize("table", TABLES, indirect=True)
COW_KEPT = pytest.mark.parametrize("table", full_but({"evolved_cow"}, TABLES), indirect=True)
MOR_KEPT = pytest.mark.parametrize("table", full_but({"evolved_mor"}, TABLES), indirect=True)
MOR = pytest.mark.parametrize("table", ["evolved_mor"], indirect=True)


@pytest.fixture
def table(request: pytest.FixtureRequest, evolved_tables: Path, tmp_path: Path) -> Path:
    shutil.copytree(evolved_tables / request.param, tmp_path / request.param)
    return tmp_path / str(request.param)


def rows_of(table: Path, **more: Any) -> pa.Table:
    found: pa.Table = hoodie.read_table(str(table), meta=False, **more)
    return found


def without(rows: pa.Table, *ids: str) -> pa.Table:
    return rows.filter(pc.invert(pc.is_in(rows["id"], pa.array(ids))))


def extra_of(table: Path, instant: str) -> dict[str, str]:
    (file,) = (table / ".hoodie").glob(f"{instant}.*commit")
    extra: dict[str, str] = json.loads(file.read_text())["extraMetadata"]
    return extra


def schemacommit(table: Path, instant: str) -> str:
    return (table / f".hoodie/.schema/{instant}.schemacommit").read_text()


@BOTH
def test_an_upsert_keeps_the_values_of_older_files(table: Path) -> None:
    """k003 is in a file of the oldest schema, k001 in one of the newest."""
    before = rows_of(table)
    history = schemacommit(table, commits(table)[-1])
    newer = changed(before, ["k001", "k003"], 50, {"title": "ours", "details": None})
    result = hoodie.write_table(newer, str(table))
    expected = pa.concat_tables([newer, without(before, "k001", "k003")])
    assert_same_rows(rows_of(table), expected)
    assert schemacommit(table, result.instant) == history
    latest = extra_of(table, result.instant)["latest_schema"]
    assert latest == parse_history(history)[-1].to_json()
    folder = table / ".hoodie/.schema"
    assert sorted(item.name for item in folder.glob(f"{result.instant}.*")) == [
        f"{result.instant}.schemacommit{suffix}" for suffix in ("", ".inflight", ".requested")
    ]


@COW_KEPT
def test_an_insert_and_a_delete_keep_them_too(table: Path) -> None:
    before = rows_of(table)
    new = changed(before, ["k003"], 50, {"id": "k900"})
    hoodie.write_table(new, str(table), operation="insert")
    gone = before.filter(pc.is_in(before["id"], pa.array(["k006", "k001"]))).select(["id", "region"])
    assert hoodie.write_table(gone, str(table), operation="delete").num_deletes == 2
    assert_same_rows(rows_of(table), pa.concat_tables([new, without(before, "k006", "k001")]))


@MOR_KEPT
def test_new_and_wider_columns_extend_the_history(table: Path) -> None:
    before = rows_of(table)
    history = parse_history(schemacommit(table, commits(table)[-1]))
    newer = changed(before, ["k003"], 50, {})
    place = newer.schema.get_field_index("note")
    newer = newer.set_column(place, "note", pa.array([2**40], pa.int64()))
    newer = newer.append_column("more", pa.array([{"p": 1, "q": ["x"]}]))
    result = hoodie.write_table(newer, str(table))
    now = parse_history(schemacommit(table, result.instant))
    assert now[:-1] == history
    assert now[-1].version == int(result.instant)
    assert now[-1].to_json() == extra_of(table, result.instant)["latest_schema"]
    more = now[-1].record.named("more")
    assert more is not None
    assert more.id == history[-1].max_id + 1
    assert now[-1].max_id == history[-1].max_id + 4
    found = rows_of(table)
    assert_same_rows(found.filter(pc.equal(found["id"], "k003")), newer)
    assert_same_rows(without(found, "k003").drop_columns(["more"]), without(before, "k003"))
    assert found["more"].null_count == before.num_rows - 1


@MOR_KEPT
def test_services_write_the_rows_of_older_files_in_the_newest_schema(table: Path) -> None:
    before = rows_of(table)
    if table.name == "evolved_mor":
        compacted = hoodie.compact_table(str(table))
        assert compacted.compacted
        assert_same_rows(rows_of(table), before)
        assert_same_rows(rows_of(table, query="read_optimized"), before)
        assert "latest_schema" in extra_of(table, compacted.compacted[0])
    options = {
        "hoodie.clustering.plan.strategy.sort.columns": "title",
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true",
    }
    clustered = hoodie.cluster_table(str(table), options=options)
    assert clustered.num_replaced == 3
    assert_same_rows(rows_of(table), before)
    assert "latest_schema" in extra_of(table, clustered.instant)


@MOR
def test_a_compaction_scheduled_before_a_change_writes_the_columns_of_then(table: Path) -> None:
    """Readers take its files for those of the schema at its instant."""
    before = rows_of(table)
    planned = hoodie.compact_table(str(table), mode="schedule").scheduled
    rename(table, "title", "label")
    expected = before.rename_columns(["label" if name == "title" else name for name in before.column_names])
    assert_same_rows(rows_of(table), expected)
    hoodie.compact_table(str(table), mode="execute")
    assert_same_rows(rows_of(table), expected)
    names = [pq.read_schema(file).names for file in table.rglob(f"*_{planned}.parquet")]
    assert names
    assert all("title" in each and "label" not in each for each in names)
    newer = changed(expected, ["k003", "k001"], 60, {"label": "ours"})
    hoodie.write_table(newer, str(table))
    assert_same_rows(rows_of(table), pa.concat_tables([newer, without(expected, "k003", "k001")]))


@COW_KEPT
def test_replaced_partitions_and_the_way_back(table: Path) -> None:
    before = rows_of(table)
    new = changed(before, ["k000", "k003"], 50, {"title": "only"})
    result = hoodie.write_table(new, str(table), operation="insert_overwrite")
    others = before.filter(pc.not_equal(before["region"], "p0"))
    assert_same_rows(rows_of(table), pa.concat_tables([new, others]))
    hoodie.rollback_table(str(table), result.instant)
    assert_same_rows(rows_of(table), before)
    instant = rename(table, "title", "label")
    assert "label" in rows_of(table).column_names
    hoodie.rollback_table(str(table), instant)
    assert_same_rows(rows_of(table), before)
    hoodie.write_table(changed(before, ["k003"], 70, {}), str(table))
    assert not list((table / ".hoodie/.schema").glob(f"{instant}*")), "swept with the next write"


@MOR_KEPT
def test_a_writer_without_the_setting_came_in_between(table: Path) -> None:
    """Its commit says nothing of ids; its files have the names of then, and the next write has ids again."""
    last = commits(table)[-1]
    (newest,) = (table / ".hoodie").glob(f"{last}.*commit")
    commit = json.loads(newest.read_text())
    before = rows_of(table)
    del commit["extraMetadata"]["latest_schema"]
    newest.write_text(json.dumps(commit))
    assert_same_rows(rows_of(table), before)
    newer = changed(before, ["k003"], 70, {})
    result = hoodie.write_table(newer, str(table))
    assert "latest_schema" in extra_of(table, result.instant)
    assert_same_rows(rows_of(table), pa.concat_tables([newer, without(before, "k003")]))


@COW_KEPT
def test_old_names_and_lost_key_columns_are_refused(table: Path) -> None:
    before = rows_of(table)
    files = sorted(table.rglob("*"))
    old = changed(before, ["k003"], 50, {})
    old = old.rename_columns(["name" if name == "title" else name for name in old.column_names])
    with pytest.raises(SchemaError, match="column title"):
        hoodie.write_table(old, str(table))
    with pytest.raises(ConfigError, match="latest_schema"):
        hoodie.write_table(before, str(table), extra_metadata={"latest_schema": "x"})
    assert sorted(table.rglob("*")) == files
    rename(table, "id", "key")
    with pytest.raises(TableError, match=r"columns id of .* were renamed or dropped"):
        hoodie.write_table(before, str(table))


@MOR
def test_logs_are_not_merged_by_an_ordering_column_that_lost_its_name(table: Path) -> None:
    then = commits(table)[-1]
    rename(table, "ts", "time")
    with pytest.raises(TableError, match=r"columns ts of .* were renamed or dropped"):
        rows_of(table)
    assert rows_of(table, query="read_optimized").num_rows == 30
    assert rows_of(table, as_of=then).num_rows == 30


@COW_KEPT
def test_archived_commits_leave_what_older_files_need(table: Path) -> None:
    """The commit of the newest schemacommit stays, though services came after it: Hudi looks for it there."""
    before = rows_of(table)
    options = {
        "hoodie.keep.min.commits": 1,
        "hoodie.keep.max.commits": 2,
        "hoodie.cleaner.commits.retained": 1,
    }
    often = {"hoodie.metadata.compact.max.delta.commits": 1}  # up to its compaction nothing is archived
    newer = changed(before, ["k001"], 50, {})
    last = hoodie.write_table(newer, str(table), options=often).instant
    for key in ("title", "id"):
        sort = {
            **often,
            "hoodie.clustering.plan.strategy.sort.columns": key,
            "hoodie.clustering.plan.strategy.single.group.clustering.enabled": "true",
        }
        if table.name == "evolved_mor":
            hoodie.compact_table(str(table), options={"hoodie.compact.inline.max.delta.commits": 1})
        assert hoodie.cluster_table(str(table), options=sort).num_replaced
    hoodie.clean_table(str(table), options=options)
    archived = hoodie.archive_table(str(table), options=options)
    assert archived.archived
    assert last in commits(table)
    expected = pa.concat_tables([newer, without(before, "k001")])
    assert_same_rows(rows_of(table), expected)
    newer = changed(before, ["k002"], 51, {})
    hoodie.write_table(newer, str(table))
    assert_same_rows(rows_of(table), pa.concat_tables([newer, without(expected, "k002")]))


@COW_KEPT
def test_quality_gates_see_older_files_by_their_present_names(table: Path) -> None:
    before = rows_of(table)
    newer = changed(before, ["k003"], 50, {"title": "ours"})
    single = "hoodie.precommit.validators.single.value.sql.queries"
    rows = before.filter(pc.equal(before["region"], "p0"))
    options = {
        "hoodie.precommit.validators": "single",
        single: f"SELECT count(title) FROM <TABLE_NAME>#{rows.num_rows}",
    }
    hoodie.write_table(newer, str(table), options=options)
    assert_same_rows(rows_of(table), pa.concat_tables([newer, without(before, "k003")]))
    wrong = {**options, single: "SELECT count(*) FROM <TABLE_NAME> WHERE title IS NULL#1"}
    with pytest.raises(ValidationFailed, match=r"found '?0"):
        hoodie.write_table(newer, str(table), options=wrong)


@MOR_KEPT
def test_known_keys_are_looked_up_in_older_files(table: Path) -> None:
    before = rows_of(table)
    known = changed(before, ["k003", "k001"], 50, {"title": "ours"})
    new = changed(before, ["k005"], 50, {"id": "k905"})
    drop = {"hoodie.datasource.insert.dup.policy": "drop"}
    hoodie.write_table(pa.concat_tables([known, new]), str(table), operation="insert", options=drop)
    assert_same_rows(rows_of(table), pa.concat_tables([before, new]))


@COW_KEPT
def test_another_column_of_a_partition_columns_name_is_refused(table: Path) -> None:
    """A predicate on it would rule out partitions by the values of another column."""
    then = commits(table)[-1]
    rename(table, "region", "area")
    assert rows_of(table, where="area = 'p0'").num_rows == 10
    rename(table, "title", "region")
    with pytest.raises(TableError, match=r"columns region of .* were renamed or dropped"):
        rows_of(table, where="region = 'ours'")
    assert rows_of(table, where="region = 'p0'", as_of=then).num_rows == 10


@MOR
def test_parquet_log_blocks_are_read_by_the_names_of_their_schema(table: Path) -> None:
    before = rows_of(table)
    newer = changed(before, ["k003", "k001"], 50, {"title": "ours"})
    hoodie.write_table(newer, str(table), options={"hoodie.logfile.data.block.format": "parquet"})
    rename(table, "title", "label")
    expected = pa.concat_tables([newer, without(before, "k003", "k001")])
    names = ["label" if name == "title" else name for name in expected.column_names]
    assert_same_rows(rows_of(table), expected.rename_columns(names))
    assert_same_rows(
        rows_of(table, columns=["id", "label"]), expected.rename_columns(names).select(["id", "label"])
    )


@MOR_KEPT
def test_a_restore_takes_the_columns_back(table: Path) -> None:
    before = rows_of(table)
    then = commits(table)[-1]
    hoodie.savepoint_table(str(table), InstantTime(then))
    rename(table, "title", "label")
    now = rows_of(table)
    more = changed(now, ["k003"], 50, {"label": "ours"}).append_column("more", pa.array(["x"]))
    hoodie.write_table(more, str(table))
    hoodie.restore_table(str(table), InstantTime(then))
    assert_same_rows(rows_of(table), before)
    newer = changed(before, ["k003"], 60, {"title": "after"}).append_column("other", pa.array([1]))
    result = hoodie.write_table(newer, str(table))
    history = parse_history(schemacommit(table, result.instant))
    assert [str(schema.version) for schema in history][-2:] == [then, result.instant]
    found = rows_of(table)
    assert_same_rows(found.filter(pc.equal(found["id"], "k003")), newer)
    assert_same_rows(without(found, "k003").drop_columns(["other"]), without(before, "k003"))
