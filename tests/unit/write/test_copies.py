"""A key that inserts stored in several file groups: a write changes every copy (seen in Apache Hudi 0.15.0,
SIMPLE, copy-on-write), but none that a log has deleted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet
import pytest

import hoodie
from tests.support.tiers import full_but

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
}
REGION = {"hoodie.datasource.write.partitionpath.field": "p"}
TYPE = "hoodie.datasource.write.table.type"
TYPES = pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"], ids=["cow", "mor"])
WAYS = {"on the driver": "on the driver", "by tasks": "by tasks"}
INDEXES = pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])


@pytest.fixture(params=full_but({"on the driver"}, WAYS))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "by tasks":
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
        monkeypatch.setattr("hoodie.write.tagging.tag._UNIT_BYTES", 1)
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def rows(ts: int, keys: dict[int, str], p: str = "a", **more: Any) -> pa.Table:
    found = {"k": [*keys], "ts": [ts] * len(keys), "v": [*keys.values()], "p": [p] * len(keys)}
    return pa.table({**found, **{name: [item] * len(keys) for name, item in more.items()}})


def written(path: str, table: pa.Table, operation: str = "upsert", **options: Any) -> hoodie.WriteResult:
    return hoodie.write_table(table, path, operation=operation, options={**OPTIONS, **options})


def three(path: str, **options: Any) -> None:
    """The keys 1 and 2, three times each."""
    for number in range(3):
        written(path, rows(number, {1: f"v{number}", 2: f"v{number}"}), "bulk_insert", **options)


def values(path: str, key: int) -> list[str]:
    found = hoodie.read_table(path, columns=["k", "v"]).to_pylist()
    return sorted(row["v"] for row in found if row["k"] == key)


@TYPES
@INDEXES
def test_an_upsert_changes_every_copy(path: str, kind: str, index: str, way: str) -> None:
    options = {TYPE: kind, "hoodie.index.type": index}
    three(path, **options)
    done = written(path, rows(9, {1: "x", 5: "new", 6: "new"}), **options)
    assert (done.num_updates, done.num_inserts) == (3, 2)
    assert values(path, 1) == ["x", "x", "x"]
    assert values(path, 2) == ["v0", "v1", "v2"]
    assert values(path, 5) == values(path, 6) == ["new"]


@TYPES
def test_a_row_that_is_older_than_some_copies(path: str, kind: str, way: str) -> None:
    three(path, **{TYPE: kind})
    written(path, rows(1, {1: "x"}), **{TYPE: kind})
    assert values(path, 1) == ["v2", "x", "x"]


@TYPES
def test_a_row_that_deletes_its_key(path: str, kind: str, way: str) -> None:
    three(path, **{TYPE: kind})
    written(path, rows(9, {1: "gone", 7: "gone"}, _hoodie_is_deleted=True), **{TYPE: kind})
    assert (values(path, 1), values(path, 7)) == ([], [])
    assert values(path, 2) == ["v0", "v1", "v2"]


def test_rows_of_files_whose_keys_alone_are_staged(path: str, tmp_path: Path) -> None:
    three(path)
    source = tmp_path / "rows.parquet"
    pa.parquet.write_table(rows(9, {8: "new", 1: "x", 9: "new", 2: "y"}), source)
    done = hoodie.write_table(ds.dataset(source), path, operation="upsert", options=OPTIONS)
    assert (done.num_updates, done.num_inserts) == (6, 2)
    assert [values(path, key) for key in (1, 2, 8, 9)] == [["x"] * 3, ["y"] * 3, ["new"], ["new"]]


def test_statements_change_every_row_that_they_find(path: str) -> None:
    three(path)
    hoodie.sql("UPDATE t SET v = 'u' WHERE k = 1", tables={"t": path})
    assert values(path, 1) == ["u", "u", "u"]
    hoodie.sql("DELETE FROM t WHERE k = 2", tables={"t": path})
    assert values(path, 2) == []


@pytest.mark.parametrize("policy", ["drop", "fail"])
def test_known_keys_are_counted_once(path: str, policy: str) -> None:
    three(path)
    options = {"hoodie.datasource.insert.dup.policy": policy}
    if policy == "fail":
        with pytest.raises(hoodie.errors.DuplicateKey, match="1 of 2 rows"):
            written(path, rows(9, {1: "x", 5: "new"}), "insert", **options)
        return
    done = written(path, rows(9, {1: "x", 5: "new"}), "insert", **options)
    assert (done.num_dropped, done.num_inserts) == (1, 1)
    assert (values(path, 1), values(path, 5)) == (["v0", "v1", "v2"], ["new"])


@INDEXES
def test_a_copy_that_a_log_has_deleted_does_not_come_back(path: str, index: str, way: str) -> None:
    """The index finds its key in the base file still."""
    options = {TYPE: "MERGE_ON_READ", "hoodie.index.type": index}
    written(path, rows(0, {1: "old", 2: "old"}), "bulk_insert", **options)
    written(path, rows(1, {1: "old"}).select(["k"]), "delete", **options)
    written(path, rows(2, {1: "mid", 3: "mid"}), "bulk_insert", **options)
    written(path, rows(9, {1: "x", 2: "x"}), **options)
    assert (values(path, 1), values(path, 2)) == (["x"], ["x"])
    written(path, rows(10, {1: "old"}).select(["k"]), "delete", **options)
    done = written(path, rows(11, {1: "y", 4: "y"}), **options)
    assert (values(path, 1), values(path, 4)) == (["y"], ["y"])
    assert done.num_inserts >= 1


def in_partitions(path: str, *partitions: str, **options: Any) -> None:
    """The key 1 in each of them, and one more key."""
    for number, name in enumerate(partitions):
        written(path, rows(number, {1: f"v{number}", 10 + number: "other"}, name), "bulk_insert", **options)


def places(path: str) -> list[tuple[str, str]]:
    found = hoodie.read_table(path).to_pylist()
    return sorted((row["p"], row["v"]) for row in found if row["k"] == 1)


@TYPES
@pytest.mark.parametrize(
    ("there", "home"),
    [(("a", "b"), "c"), (("a", "b"), "b"), (("a", "b"), "a"), (("a", "b", "a"), "a"), (("a", "a"), "b")],
    ids=lambda item: "".join(item),
)
def test_copies_of_a_global_index_become_one_row_where_records_move(
    path: str, there: tuple[str, ...], home: str, kind: str, way: str
) -> None:
    options = {TYPE: kind, "hoodie.index.type": "GLOBAL_SIMPLE", **REGION}
    options["hoodie.simple.index.update.partition.path"] = "true"
    in_partitions(path, *there, **options)
    written(path, rows(9, {1: "x", 50: "new"}, home), **options)
    assert places(path) == [(home, "x")] * max(1, there.count(home))
    assert hoodie.read_table(path).num_rows == len(there) + 1 + len(places(path))
    written(path, rows(10, {1: "gone"}, home, _hoodie_is_deleted=True), **options)
    assert places(path) == []


@TYPES
def test_copies_of_a_global_index_stay_where_records_do_not_move(path: str, kind: str, way: str) -> None:
    options = {TYPE: kind, "hoodie.index.type": "GLOBAL_BLOOM", **REGION}
    options["hoodie.bloom.index.update.partition.path"] = "false"
    in_partitions(path, "a", "b", "b", **options)
    done = written(path, rows(9, {1: "x", 50: "new"}, "c"), **options)
    assert (done.num_updates, done.num_inserts) == (3, 1)
    assert places(path) == [("a", "x"), ("b", "x"), ("b", "x")]


@TYPES
def test_a_mark_deletes_every_copy_of_a_global_index(path: str, kind: str, way: str) -> None:
    options = {TYPE: kind, "hoodie.index.type": "GLOBAL_SIMPLE", **REGION}
    in_partitions(path, "a", "b", "b", **options)
    written(path, rows(9, {1: "gone"}, "c", _hoodie_is_deleted=True), **options)
    assert places(path) == []


def test_an_insert_beside_an_index_that_knows_one_place_says_so(path: str) -> None:
    options = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.enable": "true"}
    options["hoodie.metadata.record.index.enable"] = "true"
    assert written(path, rows(0, {1: "v0"}), "insert", **options).warnings == []
    again = written(path, rows(1, {2: "v0"}), "insert", **options)
    assert [text for text in again.warnings if "a row whose key is stored already is there twice" in text]
    drop = {"hoodie.datasource.insert.dup.policy": "drop"}
    assert written(path, rows(1, {1: "v1"}), "insert", **options, **drop).warnings == []
    assert written(path, rows(2, {1: "v1"}), **options).warnings == []
