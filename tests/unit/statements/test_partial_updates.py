"""MERGE INTO that logs changed columns: rows are those of whole rows, and of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.cli import main
from hoodie.errors import CommitConflict
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.table.doctor import check_table
from hoodie.table.handle import Table
from tests.support.at_once import OPTIMISTIC
from tests.support.metadata import stored_values
from tests.support.partial_updates import (
    COMMIT,
    EVENT,
    INDEXED,
    PARTIAL,
    SCHEMA,
    Twins,
    logs,
    options_of,
    partial_blocks,
    rows_of,
)

BLOCK = "hoodie.logfile.data.block.format"


def local(text: str, path: str, source: pa.Table, options: Mapping[str, str]) -> Any:
    return hoodie.sql(text, tables={"t": path, "s": source}, options=options)


@pytest.mark.parametrize(
    ("seed", "version", "mode", "indexed", "steps"),
    [
        (1, 9, EVENT, True, 6),
        *(
            pytest.param(seed, version, EVENT, bool(seed % 2), 20, marks=pytest.mark.full)
            for seed in range(2, 8)
            for version in (8, 9)
        ),
        pytest.param(1, 9, COMMIT, True, 20, marks=pytest.mark.full),
    ],
)
def test_random_statements(
    tmp_path: Path, seed: int, version: int, mode: str, indexed: bool, steps: int
) -> None:
    """Compactions, clusterings, rollbacks, updates, deletes and late upserts between the merges."""
    options = options_of(version, mode, INDEXED if indexed else None)
    twins = Twins(tmp_path, f"{seed} {version} {mode}", mode, options, local)
    for _ in range(steps):
        twins.step()
        twins.check()
    assert bool(twins.partial) == (mode == EVENT)
    findings = [item for item in check_table(twins.paths[0], deep=True) if item.status not in ("ok", "note")]
    assert not findings, findings


#: tables in which merges log whole rows, and the settings of these
WHOLE: dict[str, dict[str, str]] = {
    "version 6": {"hoodie.write.table.version": "6"},
    "copy-on-write": {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"},
    "order of commits": {"hoodie.write.record.merge.mode": COMMIT},
    "buckets": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    "change data": {"hoodie.table.cdc.enabled": "true"},
    "several ordering columns": {"hoodie.datasource.write.precombine.field": "ts,a"},
    "delete marker": {"hoodie.payload.delete.field": "b", "hoodie.payload.delete.marker": "D"},
    "nulls filled": {"hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload"},
    "a payload of version 8": {
        "hoodie.write.table.version": "8",
        "hoodie.datasource.write.payload.class": "OverwriteNonDefaultsWithLatestAvroPayload",
    },
    "rows that move": {"hoodie.index.type": "GLOBAL_SIMPLE"},
}
SET = "MERGE INTO t USING s ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET "


def row(key: str, ts: int, a: int | None, b: str = "b") -> dict[str, Any]:
    return {"id": key, "day": "d", "ts": ts, "a": a, "b": b, "c": 0.5, "d": None}


def made(
    folder: Path, mode: str | None = EVENT, more: Mapping[str, str] | None = None, schema: pa.Schema = SCHEMA
) -> str:
    path, options = str(folder / "t"), options_of(9, mode or "", more)
    if mode is None:
        del options["hoodie.write.record.merge.mode"]
    first = [row(key, 10, number) for number, key in enumerate("abc")]
    hoodie.write_table(pa.Table.from_pylist(first, schema), path, options=options)
    return path


def merge(path: str, sets: str, *rows: dict[str, Any], **options: str) -> Any:
    return local(SET + sets, path, rows_of(list(rows)), {"hoodie.clean.automatic": "false", **options})


def found(path: str, *names: str) -> dict[str, tuple[Any, ...]]:
    rows = hoodie.read_table(path, meta=False).to_pylist()
    return {item["id"]: tuple(item[name] for name in names) for item in rows}


def shown(path: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The blocks of the log files, oldest first."""
    blocks: list[dict[str, Any]] = []
    for log in logs(path):
        assert main(["log", str(log), "--records", "--json"]) == 0
        blocks += json.loads(capsys.readouterr().out)["blocks"]
    return sorted(blocks, key=lambda block: str(block["instant"]))


def test_a_block_has_the_changed_columns_and_the_ordering_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path)
    result = merge(path, "b = s.b", row("a", 99, 7, "new"), row("x", 1, 1))
    assert (result.num_updates, result.num_inserts) == (1, 0)
    (block,) = shown(path, capsys)
    assert block["changed_columns_only"]
    (logged,) = block["rows"]
    assert {name: logged[name] for name in logged if not name.startswith("_hoodie_")} == {
        "ts": 10,
        "b": "new",
    }
    assert logged["_hoodie_record_key"] == "a"
    assert found(path, "ts", "a", "b") == {"a": (10, 0, "new"), "b": (10, 1, "b"), "c": (10, 2, "b")}


@pytest.mark.parametrize(
    "sets",
    [
        "*",
        "ts = s.ts, a = s.a, b = s.b, c = s.c, d = s.d",
        "day = t.day, a = s.a",
    ],
)
def test_all_columns_and_those_of_the_partition_path_are_whole_rows(tmp_path: Path, sets: str) -> None:
    path = made(tmp_path)
    merge(path, sets, row("a", 11, 7))
    assert not partial_blocks(path)
    assert found(path, "a")["a"] == (7,)


def test_an_update_and_the_setting_write_whole_rows(tmp_path: Path) -> None:
    """As in Apache Hudi 1.2.0."""
    path = made(tmp_path)
    local("UPDATE t SET a = 8 WHERE id = 'b'", path, rows_of([]), {})
    merge(path, "a = s.a", row("a", 11, 7), **{PARTIAL: "false"})
    assert not partial_blocks(path)
    merge(path, "a = s.a", row("c", 11, 9))
    assert partial_blocks(path) == 1
    assert found(path, "a") == {"a": (7,), "b": (8,), "c": (9,)}


@pytest.mark.parametrize("kind", WHOLE)
def test_tables_of_whole_rows(tmp_path: Path, kind: str) -> None:
    payload = "hoodie.datasource.write.payload.class" in WHOLE[kind]
    path = made(tmp_path, None if payload or kind == "version 6" else EVENT, WHOLE[kind])
    index = {name: text for name, text in WHOLE[kind].items() if name.startswith("hoodie.index")}
    merge(path, "a = s.a", row("a", 11, 7), **index)
    assert not partial_blocks(path)
    assert found(path, "a")["a"] == (7,)


def test_a_table_with_a_column_of_deletes_has_whole_rows(tmp_path: Path) -> None:
    flagged = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    path = made(tmp_path, schema=flagged)
    merge(path, "a = s.a", row("a", 11, 7))
    assert not partial_blocks(path)
    assert found(path, "a")["a"] == (7,)


def test_an_index_of_the_table_that_moves_no_rows(tmp_path: Path) -> None:
    index = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
    path = made(tmp_path, more=index)
    merge(path, "a = s.a", row("a", 11, 7), **index)
    assert partial_blocks(path) == 1
    assert found(path, "a")["a"] == (7,)


def test_what_logs_have_of_a_key_is_followed_by_whole_rows(tmp_path: Path) -> None:
    """Until a compaction has merged them."""
    path = made(tmp_path)
    merge(path, "a = s.a", row("a", 0, 7))
    merge(path, "b = s.b", row("a", 0, None, "one"), row("b", 0, None, "two"))
    assert partial_blocks(path) == 2
    assert found(path, "ts", "a", "b") == {"a": (10, 7, "one"), "b": (10, 1, "two"), "c": (10, 2, "b")}
    hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": "1"})
    merge(path, "b = s.b", row("a", 0, None, "three"))
    assert partial_blocks(path) == 3
    assert found(path, "ts", "a", "b")["a"] == (10, 7, "three")


def test_a_late_row_fills_nothing(tmp_path: Path) -> None:
    """It is newer than the base file's row, and older than the changed columns in the log."""
    path = made(tmp_path)
    merge(path, "a = s.a, ts = s.ts", row("a", 20, 7))
    hoodie.write_table(rows_of([row("a", 15, 99, "late")]), path, options={"hoodie.clean.automatic": "false"})
    assert found(path, "ts", "a", "b")["a"] == (20, 7, "b")
    merge(path, "a = s.a, ts = s.ts", row("b", 5, 99))
    assert found(path, "ts", "a", "b")["b"] == (10, 1, "b")


def test_rows_that_a_merge_inserts_are_whole(tmp_path: Path) -> None:
    """Into a small file, and behind a logged delete of their key."""
    path = made(tmp_path, more={"hoodie.parquet.small.file.limit": "104857600"})
    local("DELETE FROM t WHERE id = 'b'", path, rows_of([]), {})
    source = [row("a", 20, 7, "new"), row("b", 20, 8, "again"), row("x", 20, 9, "first")]
    text = f"{SET} a = s.a WHEN NOT MATCHED THEN INSERT *"
    local(text, path, rows_of(source), {"hoodie.parquet.small.file.limit": "0"})
    assert found(path, "a", "b", "c") == {
        "a": (7, "b", 0.5),
        "b": (8, "again", 0.5),
        "c": (2, "b", 0.5),
        "x": (9, "first", 0.5),
    }
    local(text, path, rows_of([row("c", 30, 5), row("y", 30, 6, "small")]), {})
    assert found(path, "a", "b", "c")["y"] == (6, "small", 0.5)
    assert found(path, "a", "b", "c")["c"] == (5, "b", 0.5)


def test_statistics_of_a_log_are_those_of_whole_rows(tmp_path: Path) -> None:
    """Apache Hudi leaves out a slice none of whose files has rows of both values."""
    path = made(tmp_path, more=INDEXED)
    merge(path, "b = s.b", row("a", 99, None, "zz"))
    metadata = MetadataTable.open(Table.open(path))
    assert metadata is not None
    stats = {
        item["columnName"]: (item["minValue"], item["maxValue"])
        for item in stored_values(metadata, Partition.COLUMN_STATS).values()
        if item["fileName"].startswith(".")
    }
    assert [text for side in stats["a"] for text in side.values()] == ["0", "0"]
    assert [text for side in stats["b"] for text in side.values()] == ["zz", "zz"]
    rows = hoodie.read_table(path, meta=False, where="a = 0 AND b = 'zz'").to_pylist()
    assert [item["id"] for item in rows] == ["a"]


def test_two_merges_at_once_change_two_columns(tmp_path: Path) -> None:
    """The second one to commit is evaluated again, and finds what the first one changed."""
    path = made(tmp_path)
    at_once = {"hoodie.clean.automatic": "false", **OPTIMISTIC}
    done: list[Any] = []

    def other(stage: str, text: str) -> None:
        if stage == "commit" and not done:
            done.append(None)
            done[0] = local(f"{SET} b = s.b", path, rows_of([row("a", 0, None, "theirs")]), at_once)

    tables = {"t": path, "s": rows_of([row("a", 0, 7)])}
    with pytest.raises(CommitConflict):
        hoodie.sql(f"{SET} a = s.a", tables=tables, options=at_once, progress=other)
    hoodie.sql(f"{SET} a = s.a", tables=tables, options=at_once)
    assert done[0].num_updates == 1
    assert found(path, "a", "b")["a"] == (7, "theirs")


def test_a_way_back_to_version_6_leaves_no_changed_columns(tmp_path: Path) -> None:
    path = made(tmp_path)
    merge(path, "b = s.b", row("a", 99, None, "new"))
    assert partial_blocks(path) == 1
    done = hoodie.downgrade_table(path, "8")
    assert (done.status, found(path, "a", "b")["a"]) == ("downgraded", (0, "new"))
    hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": "1"})
    merge(path, "b = s.b", row("b", 99, None, "two"))
    before = found(path, "ts", "a", "b", "c", "d")
    assert hoodie.downgrade_table(path, "6").to_version == 6
    assert found(path, "ts", "a", "b", "c", "d") == before
    assert not partial_blocks(path)


@pytest.mark.parametrize("block", ["avro", "parquet"])
def test_both_forms_of_blocks(tmp_path: Path, block: str) -> None:
    path = made(tmp_path)
    merge(path, "d = s.d", {**row("a", 0, None), "d": {"n": 1, "s": None}}, **{BLOCK: block})
    assert partial_blocks(path) == 1
    assert found(path, "a", "d")["a"] == (0, {"n": 1, "s": None})


def test_changes_of_the_schema_in_between(tmp_path: Path) -> None:
    """Columns that came, or were widened, before and after a merge of changed columns."""
    path = made(tmp_path)
    more = rows_of([row("c", 20, 3)]).append_column("e", pa.array([1], pa.int32()))
    hoodie.write_table(more, path, options={"hoodie.clean.automatic": "false"})
    source = rows_of([row("a", 30, 7)]).append_column("e", pa.array([5], pa.int32()))
    local(f"{SET} e = s.e", path, source, {})
    assert partial_blocks(path) == 1
    assert found(path, "a", "b", "e") == {"a": (0, "b", 5), "b": (1, "b", None), "c": (3, "b", 1)}
    wider = rows_of([row("b", 20, 3)]).append_column("e", pa.array([2**40], pa.int64()))
    hoodie.write_table(wider, path, options={"hoodie.clean.automatic": "false"})
    assert found(path, "a", "b", "e") == {"a": (0, "b", 5), "b": (3, "b", 2**40), "c": (3, "b", 1)}
    hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": "1"})
    assert found(path, "a", "b", "e") == {"a": (0, "b", 5), "b": (3, "b", 2**40), "c": (3, "b", 1)}
