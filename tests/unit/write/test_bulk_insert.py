"""bulk_insert: sort modes, file sizes, no look at what is there."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import TableError
from hoodie.format.base_file import footer_of
from hoodie.storage.local import LocalStorage
from hoodie.timeline import store
from hoodie.timeline.active import Timeline
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.write.support import (
    BLOCK_SIZE,
    BUDGET,
    MAX_FILE,
    OPTIONS,
    PLAIN,
    PLAIN_SCHEMA,
    SORT_MODE,
    Pair,
    check_meta,
    data_files,
    plain,
    stored_keys,
    values,
)

MODES = ["NONE", "GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION"]
#: several file groups of several files
MAX = 50_000
SMALL_FILES: dict[str, Any] = {**PLAIN, MAX_FILE: MAX, BLOCK_SIZE: 1 << 14, BUDGET: 1 << 19}


def _shuffled(count: int) -> pa.Table:
    numbers = list(range(count))
    random.Random(1).shuffle(numbers)
    text = random.Random(2)
    rows = [(f"{number:06d}_drone", number, text.randbytes(40).hex()) for number in numbers]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return pa.Table.from_arrays(columns, schema=PLAIN_SCHEMA)


@pytest.mark.parametrize("mode", full_but({"NONE", "GLOBAL_SORT"}, MODES))
def test_every_sort_mode_keeps_every_row(tmp_path: Path, mode: str) -> None:
    rows = _shuffled(6000)
    options = {**SMALL_FILES, SORT_MODE: mode}
    result = hoodie.write_table(rows, str(tmp_path / "t"), operation="bulk_insert", options=options)
    assert (result.num_inserts, result.num_updates, result.operation) == (6000, 0, "bulk_insert")
    table = hoodie.read_table(str(tmp_path / "t"))
    assert_same_rows(table, rows)
    check_meta(table, tmp_path / "t")
    sizes = [file.stat().st_size for file in data_files(tmp_path / "t")]
    assert len(sizes) > 6
    assert max(sizes) < 1.5 * MAX


def test_each_file_group_gets_about_as_many_rows(tmp_path: Path) -> None:
    hoodie.write_table(_shuffled(6000), str(tmp_path / "t"), operation="bulk_insert", options=SMALL_FILES)
    rows = Counter[str]()
    for file in data_files(tmp_path / "t"):
        group, _, _ = file.name.partition("_")
        rows[group.rpartition("-")[0]] += pq.read_metadata(file).num_rows
    assert len(rows) > 1
    assert max(rows.values()) < 1.2 * min(rows.values())


def test_global_sort_gives_disjoint_sorted_key_ranges(tmp_path: Path) -> None:
    options = {**SMALL_FILES, SORT_MODE: "GLOBAL_SORT"}
    hoodie.write_table(_shuffled(8000), str(tmp_path / "t"), operation="bulk_insert", options=options)
    files = data_files(tmp_path / "t")
    assert len({file.name.rpartition("-")[0][:36] for file in files}) > 2, (
        "the test means to have several file groups"
    )
    ranges = []
    for file in files:
        keys = stored_keys(file)
        assert keys == sorted(keys)
        footer = footer_of(LocalStorage(), str(file))
        assert (footer["hoodie_min_record_key"], footer["hoodie_max_record_key"]) == (keys[0], keys[-1])
        ranges.append((keys[0], keys[-1]))
    ranges.sort()
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ranges))


def test_global_sort_of_partitions(tmp_path: Path) -> None:
    numbers = list(range(3000))
    random.Random(4).shuffle(numbers)
    rows = as_table(small_rows(numbers, 1), SMALL_SCHEMA)
    options = {**OPTIONS, MAX_FILE: 20000, BLOCK_SIZE: 1 << 14, BUDGET: 1 << 16, SORT_MODE: "GLOBAL_SORT"}
    hoodie.write_table(rows, str(tmp_path / "t"), operation="bulk_insert", options=options)
    for region in ("eu", "us", "apac"):
        keys = [stored_keys(file) for file in data_files(tmp_path / "t", region)]
        assert len(keys) > 2
        assert [key for group in sorted(keys) for key in group] == sorted(
            key for group in keys for key in group
        )


def test_global_sort_with_more_groups_than_keys(tmp_path: Path) -> None:
    """One key makes most of the rows; boundaries repeat, and some file groups stay empty."""
    rows = plain(*[("same", number, "x" * 200) for number in range(4000)], ("z", 1, "y"), ("a", 1, "y"))
    options = {**SMALL_FILES, SORT_MODE: "GLOBAL_SORT"}
    result = hoodie.write_table(rows, str(tmp_path / "t"), operation="bulk_insert", options=options)
    assert result.num_inserts == 4002
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)


def test_partition_sort_sorts_every_file(tmp_path: Path) -> None:
    options = {**SMALL_FILES, SORT_MODE: "PARTITION_SORT"}
    hoodie.write_table(_shuffled(8000), str(tmp_path / "t"), operation="bulk_insert", options=options)
    for file in data_files(tmp_path / "t"):
        keys = stored_keys(file)
        assert keys == sorted(keys)


def test_none_keeps_the_order_of_arrival(tmp_path: Path) -> None:
    rows = _shuffled(500)
    hoodie.write_table(rows, str(tmp_path / "t"), operation="bulk_insert", options=PLAIN)
    (file,) = data_files(tmp_path / "t")
    assert stored_keys(file) == rows.column("id").to_pylist()


def test_keys_are_not_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Pair(tmp_path / "t", OPTIONS)
    table.write(small_rows(range(9), 1), "bulk_insert")
    before = {file.name for file in data_files(table.path)}

    def opened(*args: Any) -> None:
        raise AssertionError("a bulk insert opened a stored file")

    with monkeypatch.context() as patch:
        patch.setattr("hoodie.format.base_file.BaseFileReader.__init__", opened)
        rows = as_table(small_rows(range(9), 2), SMALL_SCHEMA)
        result = hoodie.write_table(rows, str(table.path), operation="bulk_insert")
    assert (result.num_inserts, result.num_updates, result.num_files) == (9, 0, 3)
    assert before < {file.name for file in data_files(table.path)}
    assert hoodie.read_table(str(table.path)).num_rows == 18


@pytest.mark.parametrize("mode", MODES)
def test_combine_before_insert(tmp_path: Path, mode: str) -> None:
    rows = plain(("b", 1, "old"), ("a", 2, "new"), ("b", 3, "newest"), ("a", 1, "late"), ("c", 1, "only"))
    options = {**PLAIN, SORT_MODE: mode, "hoodie.combine.before.insert": True}
    hoodie.write_table(rows, str(tmp_path / "t"), operation="bulk_insert", options=options)
    assert values(tmp_path / "t", "id", "val") == [("a", "new"), ("b", "newest"), ("c", "only")]


def test_upsert_on_top_of_a_sorted_load(tmp_path: Path) -> None:
    table = Pair(tmp_path / "t", {**OPTIONS, SORT_MODE: "GLOBAL_SORT", "hoodie.index.type": "BLOOM"})
    table.write(small_rows(range(90), 1), "bulk_insert")
    result = table.write(small_rows(range(60, 120), 2))
    assert (result.num_updates, result.num_inserts) == (30, 30)


@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
def test_more_files_than_a_commit_can_name_are_refused_before_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(as_table(small_rows(range(3), 1), SMALL_SCHEMA), path, options=OPTIONS)
    before = sorted(file.name for file in tmp_path.rglob("*") if file.suffix in (".parquet", ".commit"))
    monkeypatch.setattr(store, "MAX_READ_BYTES", 2000)
    rows = as_table(small_rows(range(3), 2), SMALL_SCHEMA)
    with pytest.raises(TableError, match="a reader takes at most 2000: too many files for one instant"):
        hoodie.write_table(rows, path, operation=operation, options=OPTIONS)
    after = sorted(file.name for file in tmp_path.rglob("*") if file.suffix in (".parquet", ".commit"))
    assert after == before
    assert Timeline.load(path, LocalStorage()).pending() == []
