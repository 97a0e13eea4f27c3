"""Keys of one field by the complex key generator: a write goes on in the form that the table's files have."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import TableMismatch
from tests.unit.write.support import listing

NEW, CHECKED = "hoodie.write.complex.keygen.new.encoding", "hoodie.write.complex.keygen.validation.enable"
NEWS = pa.table({"id": pa.array([1, 4], pa.int32()), "day": ["a", "a"], "ts": [2, 2], "v": ["new", "new"]})
MIXED = pa.table({"id": pa.array([1], pa.int32()), "day": ["a"], "ts": [3], "v": ["odd"]})
OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "complex",
}
OF_LOGS = OPTIONS | {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.enable": "false",
}
SEED = pa.table({"id": pa.array([1, 2], pa.int32()), "day": ["a", "a"], "ts": [1, 1], "v": ["x", "x"]})


@pytest.fixture
def named(version6_tables: Path, tmp_path: Path) -> str:
    """A table of Apache Hudi 1.2.0 with the keys id:1, id:2 and id:3."""
    shutil.copytree(version6_tables / "prefixed_keys", tmp_path / "named")
    return str(tmp_path / "named")


def rows(path: str, *names: str) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(path)
    return sorted(tuple(row[name] for name in names) for row in found.to_pylist())


def test_an_upsert(named: str) -> None:
    hoodie.write_table(NEWS, named)
    keys = [("id:1", "new"), ("id:2", "x"), ("id:3", "x"), ("id:4", "new")]
    assert rows(named, "_hoodie_record_key", "v") == keys


def test_a_delete_and_an_insert_that_drops_what_is_there(named: str) -> None:
    hoodie.write_table(NEWS.slice(0, 1).select(["id", "day"]), named, operation="delete")
    drop = {"hoodie.datasource.insert.dup.policy": "drop"}
    more = pa.concat_tables([NEWS.set_column(0, "id", pa.array([2, 4], pa.int32()))])
    hoodie.write_table(more, named, operation="insert", options=drop)
    assert rows(named, "id", "v") == [(2, "x"), (3, "x"), (4, "new")]


def test_statements(named: str) -> None:
    hoodie.sql("UPDATE t SET v = 'u' WHERE id = 2", tables={"t": named})
    hoodie.sql("DELETE FROM t WHERE id = 3", tables={"t": named})
    merge = "MERGE INTO t USING s ON t.id = s.id AND t.day = s.day WHEN MATCHED THEN UPDATE SET v = s.v"
    hoodie.sql(f"{merge} WHEN NOT MATCHED THEN INSERT *", tables={"t": named, "s": NEWS})
    assert rows(named, "id", "v") == [(1, "new"), (2, "u"), (4, "new")]
    assert rows(named, "id", "v")[:1] == [(1, "new")]
    assert hoodie.read_table(named, where="id = 4").num_rows == 1


@pytest.mark.table_version(6)
def test_a_table_whose_rows_are_in_logs_only(tmp_path: Path) -> None:
    """As the bucket index of other writers leaves it: no base file says the form."""
    path = tmp_path / "t"
    for _ in range(2):  # base files, then logs
        hoodie.write_table(SEED, str(path), options={**OF_LOGS, NEW: "false"})
    first, second = sorted((path / ".hoodie").glob("*.deltacommit"))
    for file in (first, second):
        commit = json.loads(file.read_text())
        for stat in commit["partitionToWriteStats"]["a"]:
            stat["baseFile"] = ""
        commit["partitionToWriteStats"] = {} if file == first else commit["partitionToWriteStats"]
        file.write_text(json.dumps(commit))
    for base in path.glob("a/*.parquet"):
        base.unlink()
    hoodie.write_table(NEWS, str(path))
    keys = [("id:1", "new"), ("id:2", "x"), ("id:4", "new")]
    assert rows(str(path), "_hoodie_record_key", "v") == keys
    hoodie.sql("DELETE FROM t WHERE id = 2", tables={"t": str(path)})
    assert rows(str(path), "id") == [(1,), (4,)]


def test_logs_in_another_form_than_the_base_files_are_refused(tmp_path: Path) -> None:
    """As two releases of Apache Hudi leave them, one after the other."""
    path = str(tmp_path / "t")
    hoodie.write_table(SEED, path, options=OF_LOGS)
    hoodie.write_table(SEED, path, options={**OF_LOGS, NEW: "false", CHECKED: "false"})
    before = listing(Path(path))
    with pytest.raises(TableMismatch, match="has keys as 'id:1' and as '1'"):
        hoodie.write_table(NEWS, path)
    assert listing(Path(path)) == before


def test_a_table_that_says_nothing_of_its_key_generator(named: str) -> None:
    """As those of the first versions."""
    file = Path(named, ".hoodie/hoodie.properties")
    file.write_text(file.read_text().replace("hoodie.table.keygenerator.type=COMPLEX\n", ""))
    hoodie.write_table(NEWS, named)
    assert rows(named, "id", "v") == [(1, "new"), (2, "x"), (3, "x"), (4, "new")]


def test_another_form_than_the_table_has_is_refused(named: str, tmp_path: Path) -> None:
    bare = str(tmp_path / "bare")
    hoodie.write_table(NEWS, bare, options=OPTIONS)
    for path, asked, has in ((named, "true", "'id:1'"), (bare, "false", "'1'")):
        before = listing(Path(path))
        with pytest.raises(TableMismatch, match=f"{NEW}={asked}, but table .* has keys as {has}"):
            hoodie.write_table(NEWS, path, options={NEW: asked})
        assert listing(Path(path)) == before
        hoodie.write_table(NEWS, path, options={NEW: str(asked != "true").lower()})
    assert rows(bare, "_hoodie_record_key") == [("1",), ("4",)]


@pytest.mark.parametrize("clustered", [False, True], ids=["by commits", "in one file"])
def test_a_table_with_another_form_in_its_middle_is_refused(named: str, clustered: bool) -> None:
    """The oldest and the newest commit have one form; partitions without the other are written."""
    small = {"hoodie.parquet.small.file.limit": "0", CHECKED: "false"}
    many = pa.table({"id": pa.array(range(100, 400), pa.int32()), "day": ["m"] * 300, "ts": [1] * 300})
    hoodie.write_table(many.append_column("v", pa.array(["x"] * 300)), named, options={NEW: "false", **small})
    hoodie.write_table(MIXED.set_column(1, "day", [["m"]]), named, options={NEW: "true", **small})
    if clustered:
        hoodie.cluster_table(named, options={"hoodie.clustering.inline.max.commits": "1"})
    hoodie.write_table(NEWS, named, options={NEW: "false", **small})
    hoodie.write_table(NEWS, named)
    before = listing(Path(named))
    more = NEWS.set_column(1, "day", [["m", "m"]])
    with pytest.raises(TableMismatch, match="has keys as 'id:1' and as '1'"):
        hoodie.write_table(more, named)
    with pytest.raises(TableMismatch, match="has keys as 'id:1' and as '1'"):
        hoodie.write_table(more.select(["id", "day"]), named, operation="delete")
    assert listing(Path(named)) == before


def test_a_table_with_both_forms_is_refused(named: str) -> None:
    hoodie.write_table(MIXED, named, options={NEW: "true", CHECKED: "false"})
    before = listing(Path(named))
    with pytest.raises(TableMismatch, match="has keys as 'id:1' and as '1'"):
        hoodie.write_table(NEWS, named)
    assert listing(Path(named)) == before


def test_a_new_table(tmp_path: Path) -> None:
    """By the setting; without it keys are values, as Apache Hudi 0.15.0 writes them."""
    for asked, keys in ((None, ["1", "4"]), ("true", ["1", "4"]), ("false", ["id:1", "id:4"])):
        path = str(tmp_path / f"t{asked}")
        for _ in range(2):
            hoodie.write_table(NEWS, path, options=OPTIONS if asked is None else {**OPTIONS, NEW: asked})
        assert rows(path, "_hoodie_record_key") == [(key,) for key in keys]


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX", "BLOOM", "GLOBAL_SIMPLE"])
def test_every_index_finds_them(tmp_path: Path, index: str) -> None:
    path = str(tmp_path / "t")
    options = {
        **OPTIONS,
        NEW: "false",
        "hoodie.index.type": index,
        "hoodie.bucket.index.num.buckets": 3,
        "hoodie.metadata.record.index.enable": "true",
    }
    for number in range(3):
        hoodie.write_table(NEWS.set_column(2, "ts", pa.array([number] * 2)), path, options=options)
    assert rows(path, "_hoodie_record_key", "ts") == [("id:1", 2), ("id:4", 2)]
