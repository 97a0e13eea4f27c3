"""File sizes as a user of a table sees them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.support.rows import assert_same_rows
from tests.unit.write.support import (
    BLOCK_SIZE,
    MAX_FILE,
    PLAIN,
    PLAIN_SCHEMA,
    RECORD_SIZE,
    SMALL_FILE,
    check_meta,
    data_files,
)

MAX = 400_000
#: random bytes as text, and about what such a row takes on storage
WIDTH, ROW = 1000, 1380
SIZES: dict[str, Any] = {
    **PLAIN,
    MAX_FILE: MAX,
    SMALL_FILE: MAX * 4 // 5,
    RECORD_SIZE: ROW,
    BLOCK_SIZE: 1 << 16,
}


def _rows(numbers: Iterable[int], ts: int = 1, width: int = WIDTH) -> pa.Table:
    chance = random.Random(ts)
    rows = [(f"k{number:06d}", ts, chance.randbytes(width).hex()) for number in numbers]
    return pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=PLAIN_SCHEMA)


def _sizes(table: Path) -> list[int]:
    return sorted(file.stat().st_size for file in data_files(table))


def test_a_load_is_cut_into_files_near_the_maximum(tmp_path: Path) -> None:
    hoodie.write_table(_rows(range(2000)), str(tmp_path / "t"), options=SIZES)
    sizes = _sizes(tmp_path / "t")
    assert len(sizes) == 7
    assert min(sizes) > MAX * 0.8, "no file holds just the rest of another"
    assert max(sizes) < MAX * 1.13, "a tenth more, as Apache Hudi's, and the bloom filter"


def test_daily_inserts_fill_small_files_before_new_ones(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for day in range(10):
        hoodie.write_table(_rows(range(day * 100, day * 100 + 100)), str(table), options=SIZES)
    sizes = _sizes(table)
    assert len(sizes) in (4, 5), sizes
    assert max(sizes) < MAX * 1.2
    assert hoodie.read_table(str(table)).num_rows == 1000
    groups = hoodie.file_groups(str(table))
    assert max(len(group["slices"]) for group in groups) > 3, "versions of the same file group"


def test_without_packing_every_write_makes_its_file(tmp_path: Path) -> None:
    for day in range(4):
        rows = _rows(range(day * 100, day * 100 + 100))
        hoodie.write_table(rows, str(tmp_path / "t"), options={**SIZES, SMALL_FILE: 0})
    assert len(data_files(tmp_path / "t")) == 4


VERSIONS = pytest.mark.parametrize("version", [6, 9])


@VERSIONS
def test_record_size_is_learnt_from_a_commit_that_was_big_enough(tmp_path: Path, version: int) -> None:
    """A wrong estimate makes too many files once, not twice."""
    wrong = {**SIZES, RECORD_SIZE: ROW * 20, SMALL_FILE: 1, "hoodie.write.table.version": version}
    first = hoodie.write_table(_rows(range(500)), str(tmp_path / "t"), options=wrong)
    second = hoodie.write_table(_rows(range(500, 1000)), str(tmp_path / "t"), options=wrong)
    assert first.num_files > 30
    assert second.num_files < 10


@VERSIONS
def test_record_size_is_learnt_without_packing(tmp_path: Path, version: int) -> None:
    """The threshold is a share of the small-file limit, so with a limit of 0 any commit tells."""
    wrong = {**SIZES, RECORD_SIZE: ROW * 20, SMALL_FILE: 0, "hoodie.write.table.version": version}
    first = hoodie.write_table(_rows(range(100)), str(tmp_path / "t"), options=wrong)
    second = hoodie.write_table(_rows(range(100, 200)), str(tmp_path / "t"), options=wrong)
    assert (first.num_files, second.num_files) == (7, 1)


def test_inserts_that_pass_the_maximum_of_their_file_go_to_new_groups(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(_rows(range(200)), str(table), options=SIZES)
    (before,) = data_files(table)
    tiny = {**SIZES, RECORD_SIZE: 1}
    result = hoodie.write_table(_rows(range(190, 2000), ts=2), str(table), options=tiny)
    files = data_files(table)
    assert (result.num_updates, result.num_inserts) == (10, 1800)
    assert len(files) > 3
    assert max(_sizes(table)) < MAX * 1.2
    kept = [file for file in files if file.name.partition("_")[0] == before.name.partition("_")[0]]
    assert len(kept) == 1, "the file group lives on"
    assert hoodie.read_table(str(table)).num_rows == 2000
    check_meta(hoodie.read_table(str(table)), table)
    again = hoodie.write_table(_rows(range(2000), ts=3), str(table), options=tiny)
    assert (again.num_updates, again.num_inserts) == (2000, 0), "every key is found where it went"


def test_a_file_that_updates_make_too_large_is_split(tmp_path: Path) -> None:
    """Rows move to a new group with their history; the next upsert finds them there."""
    table = tmp_path / "t"
    first = hoodie.write_table(_rows(range(400)), str(table), options=SIZES)
    wide = _rows(range(0, 400, 2), ts=2, width=8000)
    second = hoodie.write_table(wide, str(table), options=SIZES)
    assert second.num_updates == 200
    assert second.num_inserts == 0
    assert len(data_files(table)) > 3
    assert max(_sizes(table)) < MAX * 1.6
    expected = pa.concat_tables([wide, _rows(range(400)).filter(pa.array([n % 2 == 1 for n in range(400)]))])
    rows = hoodie.read_table(str(table))
    assert_same_rows(rows, expected)
    check_meta(rows, table)
    times = dict(
        zip(rows.column("id").to_pylist(), rows.column("_hoodie_commit_time").to_pylist(), strict=True)
    )
    assert {times[f"k{number:06d}"] for number in range(0, 400, 2)} == {second.instant}
    assert {times[f"k{number:06d}"] for number in range(1, 400, 2)} == {first.instant}
    third = hoodie.write_table(_rows(range(400), ts=3), str(table), options=SIZES)
    assert (third.num_updates, third.num_inserts) == (400, 0)


def test_a_block_size_above_the_maximum_does_not_make_files_larger(tmp_path: Path) -> None:
    options = {**SIZES, BLOCK_SIZE: 32 << 20, RECORD_SIZE: 1}
    hoodie.write_table(_rows(range(1500)), str(tmp_path / "t"), options=options)
    assert len(data_files(tmp_path / "t")) > 2
    assert max(_sizes(tmp_path / "t")) < MAX * 1.13


def test_how_far_new_rows_may_pass_the_maximum_is_a_setting(tmp_path: Path) -> None:
    sizes = {}
    for slack in (0, 0.5):
        options = {**SIZES, RECORD_SIZE: 1, BLOCK_SIZE: MAX, "hoodie.parquet.compression.ratio": slack}
        hoodie.write_table(_rows(range(420)), str(tmp_path / str(slack)), options=options)
        sizes[slack] = _sizes(tmp_path / str(slack))
    assert [len(found) for found in sizes.values()] == [2, 1]
    assert max(sizes[0]) < MAX * 1.06


def test_auto_split_off(tmp_path: Path) -> None:
    options = {
        **PLAIN,
        "hoodie.copyonwrite.insert.auto.split": False,
        "hoodie.copyonwrite.insert.split.size": 100,
    }
    result = hoodie.write_table(_rows(range(350)), str(tmp_path / "t"), options=options)
    assert result.num_files == 4
