"""Snapshots: columns, predicates, tables without rows, files or columns."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import ConfigError, TableError, TableNotFound
from hoodie.format.meta_fields import META_COLUMNS
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import crossed_but
from tests.unit.write.support import MAX_FILE, OPTIONS, PLAIN, RECORD_SIZE, data_files, plain

ROWS = as_table(small_rows(range(40), 1), SMALL_SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three partitions of several files, the second half of the rows written twice."""
    path = tmp_path_factory.mktemp("read") / "t"
    options = {**OPTIONS, MAX_FILE: 2000, RECORD_SIZE: 200}
    hoodie.write_table(as_table(small_rows(range(20, 40), 0), SMALL_SCHEMA), str(path), options=options)
    hoodie.write_table(ROWS, str(path), options=options)
    assert len(data_files(path)) == 6
    return path


def test_everything(table: Path) -> None:
    rows = hoodie.read_table(str(table))
    assert rows.schema.names == [*META_COLUMNS, *SMALL_SCHEMA.names]
    assert_same_rows(rows, ROWS)


def test_without_meta_columns(table: Path) -> None:
    rows = hoodie.read_table(str(table), meta=False)
    assert rows.schema == SMALL_SCHEMA
    assert_same_rows(rows, ROWS)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["val", "id"], ["val", "id"]),
        (["_hoodie_record_key"], ["_hoodie_record_key"]),
        (["name", "_hoodie_file_name", "region"], ["name", "_hoodie_file_name", "region"]),
        ("id", ["id"]),
    ],
)
@pytest.mark.parametrize("where", [None, "ts >= 0"])
def test_columns_come_in_the_order_asked_for(
    table: Path, columns: Any, names: list[str], where: str | None
) -> None:
    rows = hoodie.read_table(str(table), columns=columns, where=where)
    assert rows.schema.names == names
    assert rows.num_rows == 40


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("region = 'eu'", pc.field("region") == "eu"),
        ("val IS NULL", pc.is_null(pc.field("val"))),
        ("val > 0 AND name LIKE '%v1'", (pc.field("val") > 0) & pc.ends_with(pc.field("name"), "v1")),
        ("id IN ('k00003', 'k00004')", pc.is_in(pc.field("id"), pa.array(["k00003", "k00004"]))),
        ("_hoodie_partition_path = 'us'", pc.field("region") == "us"),
        ("\"id\" < 'k00010' -- up to ten", pc.field("id") < "k00010"),
        ("FALSE", pc.scalar(False)),
        ("length(name) = 0 OR TRUE", pc.scalar(True)),
    ],
)
@pytest.mark.parametrize("columns", [pytest.param(None, marks=pytest.mark.full), ["id", "val"]])
def test_predicates(table: Path, where: str, expected: pc.Expression, columns: list[str] | None) -> None:
    got = hoodie.read_table(str(table), where=where, columns=columns)
    wanted = ROWS.filter(expected)
    assert_same_rows(got, wanted.select(columns) if columns else wanted)


def test_unknown_column(table: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no column nope, Id in .*; it has _hoodie_commit_time, .*id, ts, region"
    ):
        hoodie.read_table(str(table), columns=["id", "nope", "Id"])


@pytest.mark.parametrize("columns", [[], ["id", "val", "id"]])
def test_no_column_or_one_twice(table: Path, columns: list[str]) -> None:
    with pytest.raises(ConfigError, match="name each column once"):
        hoodie.read_table(str(table), columns=columns)


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "it is empty"),
        ("id =", "syntax error"),
        ("nope = 1", '"nope" not found'),
        ("id = 'a'; DROP TABLE snapshot", "more than one statement"),
        ("name::int > 0", "Could not convert"),
    ],
)
def test_bad_predicate(table: Path, where: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=r"can't be evaluated") as caught:
        hoodie.read_table(str(table), where=where)
    assert repr(where) in str(caught.value)
    assert reason in str(caught.value)
    assert "columns are _hoodie_commit_time" in str(caught.value)


def test_a_table_with_a_commit_but_no_files(tmp_path: Path) -> None:
    hoodie.write_table(ROWS.slice(0, 0), str(tmp_path / "t"), options=OPTIONS)
    for where in (None, "val > 1"):
        rows = hoodie.read_table(str(tmp_path / "t"), where=where, meta=False)
        assert (rows.num_rows, rows.schema) == (0, SMALL_SCHEMA)
    assert hoodie.read_table(str(tmp_path / "t"), columns=["val", "id"]).schema.names == ["val", "id"]
    assert hoodie.file_groups(str(tmp_path / "t")) == []


def test_a_table_without_a_commit(tmp_path: Path) -> None:
    from hoodie.storage.local import LocalStorage
    from hoodie.table import properties

    properties.create(LocalStorage(), str(tmp_path / "t"), {"hoodie.table.name": "t"})
    rows = hoodie.read_table(str(tmp_path / "t"))
    assert (rows.num_rows, rows.schema.names) == (0, list(META_COLUMNS))
    assert hoodie.instants(str(tmp_path / "t")) == []


def test_a_table_with_files_but_no_rows(tmp_path: Path) -> None:
    hoodie.write_table(ROWS, str(tmp_path / "t"), options=OPTIONS)
    gone = as_table(small_rows(range(40), 2, deleted=True), SMALL_SCHEMA)
    hoodie.write_table(gone, str(tmp_path / "t"))
    for where in (None, "val > 1 OR val IS NULL"):
        assert hoodie.read_table(str(tmp_path / "t"), where=where).num_rows == 0


def test_paths_in_every_spelling(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    for path in (
        "t",
        "./t/",
        f"file:{table}",
        f"file://{table}",
        table,
        os.path.join("..", table.parent.name, "t"),
    ):
        given: Any = path
        assert hoodie.read_table(given).num_rows == 40


def test_uncommitted_files_are_not_shown(table: Path, tmp_path: Path) -> None:
    hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), options=PLAIN)
    (file,) = data_files(tmp_path / "t")
    file_id, token, instant = file.stem.split("_")
    later = str(int(instant) + 1)
    pq.write_table(pq.read_table(file), file.with_name(f"{file_id}_{token}_{later}.parquet"))
    pq.write_table(
        pq.read_table(file), file.with_name(f"00000000-0000-0000-0000-000000000000-0_{token}_{later}.parquet")
    )
    (file.parent / "notes.txt").write_text("no base file")
    for time in (later,):
        (tmp_path / "t" / ".hoodie" / f"{time}.inflight").write_bytes(b"")
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 1
    assert [file.name] == [path.name for path in data_files(tmp_path / "t")]


@pytest.mark.table_version(6)
def test_a_commit_that_is_torn(tmp_path: Path) -> None:
    result = hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), options=PLAIN)
    (tmp_path / "t" / ".hoodie" / f"{result.instant}.commit").write_text('{"partitionToWriteStats" : {')
    for action in (
        hoodie.read_table,
        hoodie.instants,
        lambda path: hoodie.write_table(plain(("b", 1, "y")), path),
    ):
        with pytest.raises(TableError, match="commit metadata can't be read"):
            action(str(tmp_path / "t"))


def test_a_missing_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="is no Hudi table"):
        hoodie.read_table(str(tmp_path / "nothing"), where="a = 1")


@pytest.mark.parametrize(
    ("hive", "encode"),
    crossed_but({"bare-encoded", "hive-raw"}, {"bare": False, "hive": True}, {"raw": False, "encoded": True}),
)
def test_partition_columns_that_only_the_path_has(tmp_path: Path, hive: bool, encode: bool) -> None:
    """As Apache Hudi stores them with hoodie.datasource.write.drop.partition.columns."""
    from tests.unit.write.support import HIVE_STYLE, URL_ENCODE

    regions = ["eu", "a b", None] + (["x/y"] if encode else [])
    rows = ROWS.set_column(2, "region", pa.array([regions[number % len(regions)] for number in range(40)]))
    options = {**OPTIONS, HIVE_STYLE: hive, URL_ENCODE: encode}
    hoodie.write_table(rows, str(tmp_path / "t"), options=options)
    for file in data_files(tmp_path / "t"):
        pq.write_table(pq.ParquetFile(file).read().drop_columns("region"), file, store_schema=False)
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    path.write_text(path.read_text().replace("drop.partition.columns=false", "drop.partition.columns=true"))
    asked: dict[str, Any] = {
        "options": {"hoodie.read.verify.files": "false"}
    }  # the files are shorter than was committed
    assert_same_rows(hoodie.read_table(str(tmp_path / "t"), **asked), rows)
    found = hoodie.read_table(str(tmp_path / "t"), where="region = 'a b'", columns=["id", "region"], **asked)
    assert_same_rows(found, rows.filter(pc.field("region") == "a b").select(["id", "region"]))
    with pytest.raises(ConfigError, match="is not written here yet"):
        hoodie.write_table(rows, str(tmp_path / "t"))
