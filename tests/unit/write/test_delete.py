"""The delete operation: keys only, whatever is stored, on copy-on-write and merge-on-read tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import InputError, SchemaError, TableError, TableNotFound
from tests.support.readers import read_hudi_rs
from tests.support.tables import SMALL_SCHEMA, as_table, key, small_rows
from tests.support.tiers import crossed_but, full_but
from tests.unit.write.merge_on_read import (
    MOR,
    NO_PACKING,
    PLAIN_MOR,
    MorPair,
    drop,
    log_paths,
    logged_deletes,
    put,
    stats,
)
from tests.unit.write.support import (
    OPTIONS,
    PARTITION,
    Pair,
    data_files,
    listing,
    values,
)

#: where what is shown does not depend on the type of the table, one type is in the fast tier
ON_COW = pytest.mark.parametrize("kind", full_but({"cow"}, ["cow", "mor"]))
ON_MOR = pytest.mark.parametrize("kind", full_but({"mor"}, ["cow", "mor"]))
KEYS = SMALL_SCHEMA.empty_table().select(["id", "region"]).schema


def keys(*numbers: int) -> pa.Table:
    return as_table(small_rows(numbers, 1), KEYS)


def pair(path: Path, kind: str) -> Pair:
    return MorPair(path, {**MOR, **NO_PACKING}) if kind == "mor" else Pair(path, OPTIONS)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_go_however_new_they_are(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 5))
    result = table.write(small_rows([*range(0, 30, 2), 3, 3], 1), "delete")
    assert (result.num_deletes, result.num_inserts, result.num_updates) == (16, 0, 0)
    assert result.action == ("deltacommit" if kind == "mor" else "commit")
    # older than what was deleted, and there again
    table.write(small_rows(range(10), 2))
    table.write(small_rows([4, 6, 8, 40], 9), "delete")
    table.write(small_rows(range(50), 3))


@ON_MOR
def test_keys_that_are_not_there_are_counted(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(9), 1))
    result = hoodie.write_table(keys(1, 2, 100, 101), str(table.path), operation="delete")
    assert (result.status, result.num_deletes, result.num_missing) == ("committed", 2, 2)
    # a partition of which the table knows nothing
    other = pa.table({"id": ["x"], "region": ["nowhere"]}, schema=KEYS)
    result = hoodie.write_table(other, str(table.path), operation="delete")
    assert (result.num_deletes, result.num_missing, result.num_files, result.partitions) == (0, 1, 0, [])
    assert not (table.path / "nowhere").exists()
    assert hoodie.read_table(str(table.path)).num_rows == 7


def test_the_input_needs_key_and_partition_only(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(as_table(small_rows(range(9), 1), SMALL_SCHEMA), path, options=OPTIONS)
    more = keys(1).append_column("what", pa.array(["ever"]))
    assert hoodie.write_table(more, path, operation="delete").num_deletes == 1
    assert "what" not in hoodie.read_table(path).schema.names, "the table's schema stays"
    with pytest.raises(InputError, match="lacks region; a delete needs"):
        hoodie.write_table(keys(2).drop(["region"]), path, operation="delete")
    bad = pa.table({"id": [None], "region": ["eu"]}, schema=KEYS)
    with pytest.raises(InputError, match="record key column 'id' is null"):
        hoodie.write_table(bad, path, operation="delete")
    with pytest.raises(SchemaError, match="column id"):
        hoodie.write_table(pa.table({"id": [True], "region": ["eu"]}), path, operation="delete")
    assert hoodie.read_table(path).num_rows == 8


def test_a_table_is_needed(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound, match="nothing to delete"):
        hoodie.write_table(keys(1), str(tmp_path / "none"), operation="delete", options=OPTIONS)
    assert not (tmp_path / "none").exists()


def test_key_columns_may_be_narrower_or_wider(tmp_path: Path) -> None:
    """As from CSV, where whole numbers are long."""
    path = str(tmp_path / "t")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    hoodie.write_table(rows, path, options=options)
    for wide, expected in ((pa.int64(), [2, 3]), (pa.int16(), [3])):
        number = 4 - len(expected) - 1
        hoodie.write_table(pa.table({"id": pa.array([number], wide)}), path, operation="delete")
        assert values(Path(path), "id") == expected
    with pytest.raises(InputError, match="does not fit"):
        hoodie.write_table(pa.table({"id": [2**40]}), path, operation="delete")


def test_a_file_without_rows_is_left_as_hudi_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.write_table(as_table(small_rows(range(9), 1), SMALL_SCHEMA), str(path), options=OPTIONS)
    result = hoodie.write_table(keys(0, 3, 6), str(path), operation="delete")
    (file,) = data_files(path, "eu")
    assert pq.ParquetFile(file).metadata.num_rows == 0
    assert (result.num_files, result.num_writes) == (1, 0)
    assert read_hudi_rs(path).num_rows == 6
    # its group takes rows again
    hoodie.write_table(as_table(small_rows([0], 1), SMALL_SCHEMA), str(path))
    assert len(data_files(path, "eu")) == 1
    assert hoodie.read_table(str(path)).num_rows == 7


@pytest.mark.table_version(6)
def test_logged_deletes_always_win(tmp_path: Path) -> None:
    """A delete block without ordering values, which is what Apache Hudi's delete operation writes."""
    path = tmp_path / "t"
    put(path, ("a", 50, "x"), ("b", 50, "x"))
    result = hoodie.write_table(pa.table({"id": ["a"]}), str(path), operation="delete")
    (log,) = log_paths(path)
    (records,) = logged_deletes(log)
    assert records.keys.to_pylist() == ["a"]
    assert records.ordering is None
    (stat,) = stats(path, result.instant)
    assert (stat["numDeletes"], stat["numWrites"], stat["numUpdateWrites"]) == (1, 0, 0)
    commit = json.loads((path / f".hoodie/{result.instant}.deltacommit").read_text())
    assert commit["operationType"] == "DELETE"
    assert '"name":"ts"' in commit["extraMetadata"]["schema"].replace(" ", "")


def test_late_rows_after_a_hard_delete_are_there_for_every_reader(tmp_path: Path) -> None:
    """Over an update in the log of a deleted row readers would show the older base row again."""
    path = tmp_path / "t"

    def check(*expected: tuple[str, int]) -> None:
        assert values(path, "id", "ts") == sorted(expected)
        rows = read_hudi_rs(path).select(["id", "ts"]).to_pylist()
        assert sorted((row["id"], row["ts"]) for row in rows) == sorted(expected)

    def delete(*names: str) -> None:
        hoodie.write_table(pa.table({"id": list(names)}), str(path), operation="delete")

    put(path, ("a", 50, "x"), ("b", 50, "x"))
    delete("a")
    put(path, ("a", 5, "late"))
    check(("a", 5), ("b", 50))
    put(path, ("a", 7, "later"))
    check(("a", 7), ("b", 50))
    delete("a", "b")
    check()
    put(path, ("a", 60, "new"), ("b", 60, "new"))
    check(("a", 60), ("b", 60))
    drop(path, ("b", 70))
    delete("b")
    put(path, ("b", 65, "before the flagged delete, after the hard one"))
    check(("a", 60), ("b", 65))
    hoodie.compact_table(str(path), options={"hoodie.compact.inline.max.delta.commits": 1})
    check(("a", 60), ("b", 65))
    put(path, ("a", 61, "on"), ("b", 66, "on"))
    check(("a", 61), ("b", 66))


def test_a_delete_while_a_compaction_is_pending(tmp_path: Path) -> None:
    table = MorPair(tmp_path / "t", {**MOR, **NO_PACKING})
    table.hudi_rs = False
    table.write(small_rows(range(30), 1))
    table.write(small_rows(range(15), 2))
    due = {"hoodie.compact.inline.max.delta.commits": 1}
    hoodie.compact_table(str(table.path), mode="schedule", options=due)
    table.write(small_rows(range(10), 1), "delete")
    table.write(small_rows(range(5), 1))
    hoodie.compact_table(str(table.path), mode="execute")
    table.check("after the compaction")
    table.write(small_rows(range(3), 1), "delete")


@pytest.mark.parametrize(
    ("kind", "index"),
    crossed_but(
        {"cow-BLOOM", "mor-SIMPLE"}, {"cow": "cow", "mor": "mor"}, {"SIMPLE": "SIMPLE", "BLOOM": "BLOOM"}
    ),
)
def test_every_row_of_a_key_goes(tmp_path: Path, kind: str, index: str) -> None:
    """Inserts made several, in several files and, copy-on-write, in one. (Of several in one base file a
    logged delete takes only one for hudi-rs, and all for us.)
    """
    again = range(10) if kind == "cow" else range(0)
    table = pair(tmp_path / "t", kind)
    table.options["hoodie.index.type"] = index
    table.write(small_rows([*range(30), *again], 1), "bulk_insert")
    table.write(small_rows(range(5, 20), 2), "bulk_insert")
    result = table.write(small_rows([*range(15), 99], 1), "delete")
    assert (result.num_deletes, result.num_missing) == (15 + len(again) + 10, 1)


def test_bloom_index(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", {**OPTIONS, "hoodie.index.type": "BLOOM"})
    table.write(small_rows(range(90), 1))
    table.write(small_rows(range(40, 50), 1), "delete")


def test_a_dataset_is_read_in_its_key_columns_only(tmp_path: Path) -> None:
    import pyarrow.dataset as ds

    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(90), 1))
    rows = small_rows(range(30, 60), 1)
    source = tmp_path / "keys.parquet"
    # a column of a type that no table can have would be an error if it were read
    odd = as_table(rows, SMALL_SCHEMA).append_column("odd", pa.array([None] * 30, pa.duration("s")))
    pq.write_table(odd, source)
    result = hoodie.write_table(ds.dataset(source), str(table.path), operation="delete")
    assert result.num_deletes == 30
    table.model.delete(rows)
    table.check()


@ON_COW
def test_a_dry_run_writes_nothing_and_counts(tmp_path: Path, kind: str) -> None:
    table = pair(tmp_path / "t", kind)
    table.write(small_rows(range(60), 1))
    before = listing(table.path)
    result = hoodie.write_table(keys(0, 1, 3, 500), str(table.path), operation="delete", dry_run=True)
    assert listing(table.path) == before
    assert (result.status, result.instant, result.dry_run) == ("planned", "", True)
    assert (result.num_deletes, result.num_missing, result.num_files) == (3, 1, 2)
    assert [(item.partition, item.deletes, item.files) for item in result.planned] == [
        ("eu", 2, 1),
        ("us", 1, 1),
    ]
    done = hoodie.write_table(keys(0, 1, 3, 500), str(table.path), operation="delete")
    assert (done.num_deletes, done.num_missing, done.num_files) == (3, 1, 2)


def test_exactly_once(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(9), 1))
    token = {"airflow.token": "dag/delete/1"}

    def delete() -> hoodie.write.operation.WriteResult:
        return hoodie.write_table(keys(1, 77), str(table.path), operation="delete", extra_metadata=token)

    first, again = delete(), delete()
    assert (again.status, again.instant) == ("already_committed", first.instant)
    assert (again.num_deletes, again.num_missing) == (1, 1)


@pytest.mark.parametrize(
    "name",
    full_but(
        {"mor_logs", "cow_complex"}, ["idx_simple", "mor_logs", "cow_complex", "mor_compacted", "cow_nonpart"]
    ),
)
def test_on_tables_of_apache_hudi(tmp_path: Path, golden_tables: Path, name: str) -> None:
    """Half of the keys that Hudi's snapshot shows, given as a reader of the table would give them."""
    golden = golden_tables / "0.15.0-v6" / name
    path = tmp_path / "t"
    shutil.copytree(golden / "table", path)
    rows = hoodie.read_table(str(path), meta=False)
    meta = hoodie.read_table(str(path), columns=["_hoodie_record_key", "_hoodie_partition_path"])
    chosen = list(range(0, rows.num_rows, 2))
    properties = (path / ".hoodie/hoodie.properties").read_text()
    fields = [
        line.partition("=")[2].split(",")
        for name in ("hoodie.table.recordkey.fields", "hoodie.table.partition.fields")
        for line in properties.splitlines()
        if line.startswith(f"{name}=")
    ]
    columns = [column for group in fields for column in group if column]
    result = hoodie.write_table(rows.select(columns).take(pa.array(chosen)), str(path), operation="delete")
    assert (result.num_deletes, result.num_missing) == (len(chosen), 0)
    left = {tuple(row.values()) for number, row in enumerate(meta.to_pylist()) if number % 2}
    found = hoodie.read_table(str(path), columns=["_hoodie_record_key", "_hoodie_partition_path"])
    assert {tuple(row.values()) for row in found.to_pylist()} == left
    assert found.num_rows == len(left)


def test_keys_that_only_a_log_has_are_refused(tmp_path: Path, golden_tables: Path) -> None:
    """Tables of the BUCKET index, as for an upsert."""
    path = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6" / "mor_bucket" / "table", path)
    before = listing(path)
    rows = hoodie.read_table(str(path), columns=["id", "region"])
    with pytest.raises(TableError, match="rows in its log only"):
        hoodie.write_table(rows, str(path), operation="delete")
    assert listing(path) == before


def test_a_table_without_commits_has_no_such_key(tmp_path: Path) -> None:
    path = tmp_path / "t"
    empty = SMALL_SCHEMA.empty_table()
    hoodie.write_table(empty, str(path), options={**OPTIONS, PARTITION: "region"})
    result = hoodie.write_table(keys(1), str(path), operation="delete")
    assert (result.num_missing, result.num_deletes) == (1, 0)
    hoodie.write_table(as_table(small_rows(range(3), 1), SMALL_SCHEMA), str(path))
    assert values(path, "id") == [key(number) for number in range(3)]


def test_partial_payloads_do_not_keep_a_row(tmp_path: Path) -> None:
    """The table's own merger has no say."""
    path = tmp_path / "t"
    payload = {"hoodie.datasource.write.payload.class": "partial_update"}
    hoodie.write_table(
        pa.table({"id": ["a", "b"], "ts": [5, 5], "val": ["x", "y"]}),
        str(path),
        options={**PLAIN_MOR, **payload},
    )
    hoodie.write_table(pa.table({"id": ["a"]}), str(path), operation="delete")
    assert values(path, "id") == ["b"]
