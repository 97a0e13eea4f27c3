"""Upserts against the plain-Python oracle, and what the meta columns say about them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.engine.local import LocalEngine
from hoodie.errors import InputError, JobError
from hoodie.write.plan import WritePlan
from tests.support.tables import REGIONS, SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.write.support import (
    BLOCK_SIZE,
    BUDGET,
    HIVE_STYLE,
    KEY,
    KEYGEN,
    MAX_FILE,
    OPTIONS,
    ORDERING,
    PARTITION,
    PLAIN,
    RECORD_SIZE,
    Pair,
    check_meta,
    data_files,
    plain,
    values,
)

Row = dict[str, Any]
TIMED = "hoodie.keygen.timebased."


def _random_batch(rng: random.Random, keys: int, most: int) -> list[Row]:
    """Duplicates, equal ordering values, late rows, deletes of known and unknown keys, a moved partition."""
    rows = []
    for _ in range(rng.randrange(1, most)):
        number = rng.randrange(keys)
        rows.append(
            {
                "id": f"k{number:05d}",
                "ts": rng.randrange(6),
                "region": REGIONS[number % 3 if rng.random() < 0.95 else rng.randrange(3)],
                "val": rng.choice((None, rng.randrange(100))),
                "name": rng.choice((None, "", "日本", f"n{rng.randrange(1000)}")),
                "_hoodie_is_deleted": rng.choice((None, False, False, False, rng.random() < 0.5)),
            }
        )
    return rows


LAYOUTS: dict[str, tuple[dict[str, Any], tuple[str, ...] | Callable[[Row], object]]] = {
    "simple": ({PARTITION: "region"}, ("region",)),
    "hive style": ({PARTITION: "region", HIVE_STYLE: True}, ("region",)),
    "no partition": ({PARTITION: ""}, ()),
    "complex": (
        {KEY: "id,val", PARTITION: "region,_hoodie_is_deleted", KEYGEN: "complex"},
        ("region", "_hoodie_is_deleted"),
    ),
    "custom": (
        {
            PARTITION: "region:SIMPLE,ts:TIMESTAMP",
            KEYGEN: "org.apache.hudi.keygen.CustomKeyGenerator",
            f"{TIMED}timestamp.type": "SCALAR",
            f"{TIMED}timestamp.scalar.time.unit": "DAYS",
            f"{TIMED}output.dateformat": "yyyy/MM",
        },
        ("region",),
    ),
    "timestamp": (
        {
            PARTITION: "ts",
            KEYGEN: "timestamp",
            f"{TIMED}timestamp.type": "SCALAR",
            f"{TIMED}timestamp.scalar.time.unit": "DAYS",
            f"{TIMED}output.dateformat": "yyyy-MM",
        },
        lambda row: 0,
    ),
}


@pytest.mark.parametrize("layout", full_but({"hive style"}, LAYOUTS))
def test_random_upserts_equal_the_oracle(tmp_path: Path, layout: str) -> None:
    rng = random.Random(layout)
    more, partition = LAYOUTS[layout]
    options = {**OPTIONS, **more}
    table = Pair(tmp_path / "t", options, keys=str(options[KEY]).split(","), partition=partition)
    for _ in range(6):
        table.write(_random_batch(rng, 60, 80), hoodie__index__type=rng.choice(("SIMPLE", "BLOOM")))
    check_meta(hoodie.read_table(str(table.path)), table.path)


def test_random_upserts_over_many_files(tmp_path: Path) -> None:
    """Several file groups a partition, filled, split and merged again."""
    rng = random.Random(7)
    small_files = {RECORD_SIZE: 600, MAX_FILE: 20000, BLOCK_SIZE: 4096, "hoodie.index.bloom.num_entries": 50}
    table = Pair(tmp_path / "t", {**OPTIONS, **small_files})
    for _ in range(4):
        table.write(_random_batch(rng, 600, 500))
    assert len(data_files(table.path)) > 6
    check_meta(hoodie.read_table(str(table.path)), table.path)


def test_later_of_equal_ordering_values_wins_inside_a_batch(tmp_path: Path) -> None:
    result = hoodie.write_table(
        plain(("a", 1, "first"), ("a", 2, "newest"), ("a", 2, "newest, later"), ("a", 1, "late")),
        str(tmp_path / "t"),
        options=PLAIN,
    )
    assert values(tmp_path / "t", "val") == ["newest, later"]
    assert (result.num_inserts, result.num_updates) == (1, 0)


def test_without_ordering_field_the_later_row_wins(tmp_path: Path) -> None:
    options = {KEY: "id"}
    hoodie.write_table(plain(("a", 9, "x"), ("a", 1, "y")), str(tmp_path / "t"), options=options)
    assert values(tmp_path / "t", "val") == ["y"]
    hoodie.write_table(plain(("a", 0, "z")), str(tmp_path / "t"), options=options)
    assert values(tmp_path / "t", "val") == ["z"]


def test_late_updates_and_deletes_change_nothing(tmp_path: Path) -> None:
    table = tmp_path / "t"
    rows = small_rows(range(9), 5)
    hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(table), options=OPTIONS)
    before = hoodie.read_table(str(table), columns=["id", "name", "_hoodie_commit_time"]).sort_by("id")
    late = small_rows(range(4), 4) + small_rows(range(4, 9), 4, deleted=True)
    result = hoodie.write_table(as_table(late, SMALL_SCHEMA), str(table))
    assert (result.num_inserts, result.num_updates, result.num_deletes) == (0, 0, 0)
    assert (
        hoodie.read_table(str(table), columns=["id", "name", "_hoodie_commit_time"]).sort_by("id") == before
    )


def test_a_tie_with_the_table_goes_to_the_incoming_row(tmp_path: Path) -> None:
    hoodie.write_table(plain(("a", 1, "old"), ("b", 1, "old")), str(tmp_path / "t"), options=PLAIN)
    hoodie.write_table(plain(("a", 1, "new")), str(tmp_path / "t"))
    assert values(tmp_path / "t", "id", "val") == [("a", "new"), ("b", "old")]


def test_deletes_are_counted_and_unknown_keys_are_none(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(12), 1))
    result = table.write(small_rows(range(9, 30), 2, deleted=True))
    assert (result.num_inserts, result.num_updates, result.num_deletes) == (0, 0, 3)
    assert hoodie.read_table(str(table.path)).num_rows == 9


def test_deletes_only_of_unknown_keys_write_no_file(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(as_table(small_rows(range(3), 1), SMALL_SCHEMA), str(table), options=OPTIONS)
    gone = [{**row, "region": "new"} for row in small_rows(range(5), 2, deleted=True)]
    result = hoodie.write_table(as_table(gone, SMALL_SCHEMA), str(table))
    assert (result.num_files, result.num_deletes) == (0, 0)
    assert not (table / "new").exists()
    assert hoodie.read_table(str(table)).num_rows == 3


def test_all_rows_of_a_file_deleted_and_written_again(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(30), 1))
    result = table.write(small_rows(range(0, 30, 3), 2, deleted=True))
    assert result.num_deletes == 10
    assert {row["region"] for row in table.model.rows()} == {"us", "apac"}
    table.write(small_rows(range(30), 3))
    assert hoodie.read_table(str(table.path)).num_rows == 30


def test_deleted_and_written_again_inside_one_batch(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(3), 1))
    table.write(small_rows(range(3), 2, deleted=True) + small_rows(range(2), 3))
    assert values(table.path, "id") == ["k00000", "k00001"]


def test_meta_columns_tell_what_changed(tmp_path: Path) -> None:
    table = tmp_path / "t"
    first = hoodie.write_table(as_table(small_rows(range(30), 1), SMALL_SCHEMA), str(table), options=OPTIONS)
    before = {row["id"]: row for row in hoodie.read_table(str(table)).to_pylist()}
    changed = small_rows(range(0, 40, 4), 2)
    second = hoodie.write_table(as_table(changed, SMALL_SCHEMA), str(table))
    after = hoodie.read_table(str(table))
    check_meta(after, table)
    touched = {row["id"] for row in changed}
    for row in after.to_pylist():
        assert row["_hoodie_record_key"] == row["id"]
        assert row["_hoodie_partition_path"] == row["region"]
        if row["id"] in touched:
            assert row["_hoodie_commit_time"] == second.instant
        else:
            assert row["_hoodie_commit_time"] == first.instant
            assert row["_hoodie_commit_seqno"] == before[row["id"]]["_hoodie_commit_seqno"]
        assert second.instant in row["_hoodie_file_name"]
    assert (second.num_inserts, second.num_updates) == (2, 8)


def test_files_without_changes_are_left_alone(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(as_table(small_rows(range(30), 1), SMALL_SCHEMA), str(table), options=OPTIONS)
    before = {file.parent.name: file.name for file in data_files(table)}
    result = hoodie.write_table(as_table(small_rows([0, 3], 2), SMALL_SCHEMA), str(table))
    after = {file.parent.name: file.name for file in data_files(table)}
    assert result.partitions == ["eu"]
    assert {name for name in after if after[name] != before[name]} == {"eu"}
    assert after["eu"].partition("_")[0] == before["eu"].partition("_")[0], "same file group, next version"


def test_a_key_lives_once_in_every_partition(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    row = small_rows([0], 1)[0]
    table.write([row])
    table.write([{**row, "region": "us", "ts": 2000}])
    assert values(table.path, "_hoodie_partition_path") == ["eu", "us"]


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "dataset", "in memory", "partitioned dataset"])
def test_kinds_of_arrow_input(tmp_path: Path, kind: str) -> None:
    rows = as_table(small_rows(range(50), 1), SMALL_SCHEMA)
    source: Any = rows
    if kind == "batch":
        source = rows.to_batches()[0]
    elif kind == "reader":
        source = rows.to_reader(max_chunksize=7)
    elif kind == "dataset":
        for number in range(3):
            part = rows.slice(number * 20, 20)
            (tmp_path / "in").mkdir(exist_ok=True)
            pq.write_table(part, tmp_path / "in" / f"{number}.parquet")
        source = ds.dataset(tmp_path / "in")
    elif kind == "in memory":
        source = ds.dataset(rows)
    elif kind == "partitioned dataset":
        pq.write_to_dataset(rows, tmp_path / "in", partition_cols=["region"])
        source = ds.dataset(tmp_path / "in", partitioning="hive", schema=SMALL_SCHEMA)
    hoodie.write_table(source, str(tmp_path / "t"), options=OPTIONS)
    got = hoodie.read_table(str(tmp_path / "t"), meta=False)
    assert got.sort_by("id") == rows.sort_by("id")


def test_other_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't write a list; pass a Spark DataFrame, a pyarrow Table"):
        hoodie.write_table(["a"], str(tmp_path / "t"), options=PLAIN)
    with pytest.raises(InputError, match="unknown operation 'merge'; use one of upsert, insert, bulk_insert"):
        hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), operation="merge", options=PLAIN)
    assert not (tmp_path / "t").exists()


def test_a_reader_is_read_once_where_the_write_is_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after another writer's commit between the passes."""
    hoodie.write_table(plain(("a", 1, "x")), str(tmp_path / "t"), options=PLAIN)
    answers = iter([True, False, False])
    monkeypatch.setattr(WritePlan, "outdated", lambda self, storage: next(answers))
    hoodie.write_table(plain(("a", 2, "y")).to_reader(), str(tmp_path / "t"))
    assert values(tmp_path / "t", "val") == ["y"]
    assert next(answers, None) is None


def test_a_reader_that_was_read_is_not_taken_for_empty() -> None:
    engine = LocalEngine()
    frame: Any = engine.frame(plain(("a", 1, "x")).to_reader())
    assert len(engine.collect(frame)) == 1
    with pytest.raises(JobError, match="can be read only once"):
        engine.collect(frame)


def test_fewer_tasks_give_the_same_table(tmp_path: Path) -> None:
    rows = as_table(small_rows(range(200), 1) + small_rows(range(100), 2), SMALL_SCHEMA)
    for name, parallelism in (("one", 1), ("many", 8)):
        options = {**OPTIONS, "hoodie.upsert.shuffle.parallelism": parallelism, BUDGET: 1 << 16}
        hoodie.write_table(rows, str(tmp_path / name), options=options)
    one, many = (
        hoodie.read_table(str(tmp_path / name), meta=False).sort_by("id") for name in ("one", "many")
    )
    assert one == many


def test_ordering_by_a_nested_or_text_column(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("meta", pa.struct([("at", pa.string())])), ("val", pa.int32())])

    def batch(at: str, val: int) -> pa.Table:
        return pa.Table.from_pylist([{"id": "a", "meta": {"at": at}, "val": val}], schema=schema)

    options = {KEY: "id", ORDERING: "meta.at"}
    hoodie.write_table(batch("2024-05", 1), str(tmp_path / "t"), options=options)
    hoodie.write_table(batch("2024-04", 2), str(tmp_path / "t"))
    assert values(tmp_path / "t", "val") == [1]
    hoodie.write_table(batch("2024-06", 3), str(tmp_path / "t"))
    assert values(tmp_path / "t", "val") == [3]
