"""insert: rows go beside what is there, no stored key is looked at."""

from __future__ import annotations

import random
from pathlib import Path

import hoodie
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import (
    MAX_FILE,
    OPTIONS,
    PLAIN,
    SMALL_FILE,
    Pair,
    check_meta,
    data_files,
    ids,
    plain,
    stored_keys,
    values,
)

COMBINE = "hoodie.combine.before.insert"


def test_random_inserts_and_upserts_equal_the_oracle(tmp_path: Path) -> None:
    """A key that was inserted twice has two rows; both meet a later upsert, as they share a file."""
    rng = random.Random(3)
    table = Pair(tmp_path / "t", OPTIONS)
    for version in range(1, 7):
        numbers = [rng.randrange(80) for _ in range(40)]
        operation = rng.choice(("insert", "upsert"))
        table.write(small_rows(numbers, version, ts=rng.randrange(5)), operation)
    check_meta(hoodie.read_table(str(table.path)), table.path)
    assert len(data_files(table.path)) == 3


def test_duplicates_in_the_batch_stay_unless_combined(tmp_path: Path) -> None:
    rows = plain(("a", 2, "newer"), ("a", 1, "older"), ("b", 1, "x"))
    result = hoodie.write_table(rows, str(tmp_path / "all"), operation="insert", options=PLAIN)
    assert result.num_inserts == 3
    assert values(tmp_path / "all", "val") == ["newer", "older", "x"]
    options = {**PLAIN, COMBINE: True}
    result = hoodie.write_table(rows, str(tmp_path / "one"), operation="insert", options=options)
    assert result.num_inserts == 2
    assert values(tmp_path / "one", "val") == ["newer", "x"]


def test_combined_inserts_do_not_touch_rows_of_the_small_file_they_are_packed_into(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(plain(("a", 1, "stored")), str(table), operation="insert", options=PLAIN)
    result = hoodie.write_table(
        plain(("a", 2, "again"), ("a", 3, "newest")), str(table), operation="insert", options={COMBINE: True}
    )
    assert (result.num_inserts, result.num_updates) == (1, 0)
    assert values(table, "val") == ["newest", "stored"]
    assert len(data_files(table)) == 1


def test_inserts_fill_the_small_file(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for version in (1, 2):
        rows = as_table(small_rows(range(version * 30, version * 30 + 30), version), SMALL_SCHEMA)
        result = hoodie.write_table(rows, str(table), operation="insert", options=OPTIONS)
    assert (result.num_inserts, result.num_writes, result.num_files) == (30, 60, 3)
    assert len(data_files(table)) == 3


def test_packing_off_makes_new_files(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for version in (1, 2):
        rows = as_table(small_rows(range(version * 30, version * 30 + 30), version), SMALL_SCHEMA)
        result = hoodie.write_table(rows, str(table), operation="insert", options={**OPTIONS, SMALL_FILE: 0})
    assert (result.num_inserts, result.num_writes) == (30, 30)
    assert len(data_files(table)) == 6


def test_deletes_are_not_inserted(tmp_path: Path) -> None:
    rows = small_rows(range(5), 1) + small_rows(range(5, 9), 1, deleted=True)
    result = hoodie.write_table(
        as_table(rows, SMALL_SCHEMA), str(tmp_path / "t"), operation="insert", options=OPTIONS
    )
    assert result.num_inserts == 5
    assert values(tmp_path / "t", "id") == ids(range(5))


def test_null_ordering_value_is_no_matter_where_nothing_is_compared(tmp_path: Path) -> None:
    """A row without ordering value is older than any: an upsert always replaces it."""
    hoodie.write_table(plain(("a", None, "x")), str(tmp_path / "t"), operation="insert", options=PLAIN)  # type: ignore[arg-type]
    hoodie.write_table(plain(("a", -(2**63), "y")), str(tmp_path / "t"))
    assert values(tmp_path / "t", "val") == ["y"]


def test_rows_of_one_key_share_a_file(tmp_path: Path) -> None:
    """So that a later upsert reaches them all."""
    options = {**PLAIN, MAX_FILE: 30000, "hoodie.copyonwrite.record.size.estimate": 1000, SMALL_FILE: 0}
    rows = plain(*[(f"k{number % 100:03d}", 1, f"v{number}") for number in range(300)])
    hoodie.write_table(rows, str(tmp_path / "t"), operation="insert", options=options)
    files = data_files(tmp_path / "t")
    assert len(files) > 5
    keys = [set(stored_keys(file)) for file in files]
    assert sum(len(group) for group in keys) == len(set().union(*keys)) == 100
    hoodie.write_table(plain(*[(f"k{number:03d}", 2, "new") for number in range(100)]), str(tmp_path / "t"))
    assert set(values(tmp_path / "t", "val")) == {"new"}
