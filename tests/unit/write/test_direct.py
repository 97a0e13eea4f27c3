"""bulk_insert of Parquet files whose statistics tell the partition: straight from file to file."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.engine.local import LocalEngine
from hoodie.errors import InputError, JobError
from hoodie.source import Source
from hoodie.source.arrow import parquet_dataset
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import (
    BLOCK_SIZE,
    HIVE_STYLE,
    KEY,
    MAX_FILE,
    OPTIONS,
    PARTITION,
    PLAIN,
    SORT_MODE,
    URL_ENCODE,
    check_meta,
    data_files,
    plain,
)

ROWS = as_table(small_rows(range(900), 1), SMALL_SCHEMA)


def _by_region(folder: Path, rows: pa.Table = ROWS, **options: Any) -> ds.Dataset:
    """One file a region, three row groups each."""
    folder.mkdir()
    regions: list[Any] = rows.column("region").to_pylist()
    for region in sorted(set(regions)):
        mine = rows.filter(pa.array([value == region for value in regions]))
        pq.write_table(mine, folder / f"{region}.parquet", row_group_size=-(-len(mine) // 3), **options)
    return ds.dataset(folder)


def _load(rows: Any, table: Path, **options: Any) -> tuple[Any, bool]:
    """(result, was it written straight from the files)."""
    steps: list[str] = []
    result = hoodie.write_table(
        rows,
        str(table),
        operation="bulk_insert",
        options={**OPTIONS, **options},
        progress=lambda step, text: steps.append(text),
    )
    return result, any("straight from the source files" in text for text in steps)


def test_files_of_one_partition_each_are_not_shuffled(tmp_path: Path) -> None:
    result, direct = _load(_by_region(tmp_path / "in"), tmp_path / "t")
    assert direct
    assert (result.num_inserts, result.num_files, result.partitions) == (900, 3, ["apac", "eu", "us"])
    table = hoodie.read_table(str(tmp_path / "t"))
    assert_same_rows(table, ROWS)
    check_meta(table, tmp_path / "t")
    upserted = as_table(small_rows(range(600, 1200), 2), SMALL_SCHEMA)
    again = hoodie.write_table(upserted, str(tmp_path / "t"), options=OPTIONS)
    assert (again.num_updates, again.num_inserts) == (300, 300)


def test_mixed_files_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(ROWS, tmp_path / "in" / "all.parquet")
    result, direct = _load(ds.dataset(tmp_path / "in"), tmp_path / "t")
    assert not direct
    assert result.num_files == 3
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)


@pytest.mark.parametrize(
    ("options", "write"),
    [
        ({}, {"write_statistics": False}),
        ({SORT_MODE: "GLOBAL_SORT"}, {}),
        ({"hoodie.combine.before.insert": "true"}, {}),
    ],
    ids=["no statistics", "sorted", "de-duplicated"],
)
def test_what_has_to_be_looked_at_is_staged(
    tmp_path: Path, options: dict[str, Any], write: dict[str, Any]
) -> None:
    _, direct = _load(_by_region(tmp_path / "in", **write), tmp_path / "t", **options)
    assert not direct
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)


def test_partition_columns_in_folder_names(tmp_path: Path) -> None:
    ds.write_dataset(
        ROWS,
        tmp_path / "in",
        format="parquet",
        partitioning=ds.partitioning(flavor="hive", schema=pa.schema([ROWS.schema.field("region")])),
    )
    source = ds.dataset(tmp_path / "in", partitioning="hive")
    result, direct = _load(source, tmp_path / "t", **{HIVE_STYLE: "true"})
    assert direct
    assert result.partitions == ["region=apac", "region=eu", "region=us"]
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), ROWS)


def test_long_values_are_not_trusted(tmp_path: Path) -> None:
    """Writers may cut long texts in statistics, so equal bounds prove nothing."""
    rows = plain(*[(f"k{number}", number, "v" * 40) for number in range(30)])
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "1.parquet")
    _, direct = _load(ds.dataset(tmp_path / "in"), tmp_path / "t", **{PARTITION: "val"})
    assert not direct
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)


def test_not_partitioned_files_are_cut_by_size(tmp_path: Path) -> None:
    text = random.Random(3)
    rows = plain(*[(f"k{number:05d}", number, text.randbytes(40).hex()) for number in range(4000)])
    (tmp_path / "in").mkdir()
    for number in range(4):
        pq.write_table(
            rows.slice(number * 1000, 1000), tmp_path / "in" / f"{number}.parquet", row_group_size=100
        )
    result = hoodie.write_table(
        ds.dataset(tmp_path / "in"),
        str(tmp_path / "t"),
        operation="bulk_insert",
        options={**PLAIN, MAX_FILE: 40_000, BLOCK_SIZE: 1 << 14},
    )
    assert (result.num_inserts, result.num_files > 4) == (4000, True)
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)
    assert max(file.stat().st_size for file in data_files(tmp_path / "t")) < 80_000


def test_a_null_key_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    rows = plain(("a", 1, "x"), (None, 2, "x"))  # type: ignore[arg-type]
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "1.parquet")
    with pytest.raises(InputError, match="id"):
        _load(ds.dataset(tmp_path / "in"), tmp_path / "t", **{PARTITION: "val"})
    assert not (tmp_path / "t").exists()


def test_an_empty_key_found_while_writing_leaves_no_rows(tmp_path: Path) -> None:
    rows = plain(("a", 1, "x"), ("", 2, "x"))
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "1.parquet")
    with pytest.raises(InputError, match="id"):
        _load(ds.dataset(tmp_path / "in"), tmp_path / "t", **{PARTITION: "val"})
    assert hoodie.instants(str(tmp_path / "t")) == []
    assert not list((tmp_path / "t").rglob("*.parquet"))


def test_values_that_are_no_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(plain(("a", 1, "x:y")), tmp_path / "in" / "1.parquet")
    with pytest.raises(InputError, match="x:y"):
        _load(ds.dataset(tmp_path / "in"), tmp_path / "t", **{PARTITION: "val"})
    assert not (tmp_path / "t").exists()
    result, direct = _load(
        ds.dataset(tmp_path / "in"), tmp_path / "t", **{PARTITION: "val", URL_ENCODE: "true"}
    )
    assert direct
    assert result.partitions == ["x%3Ay"]


def test_a_file_that_changes_under_the_write_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _by_region(tmp_path / "in")
    begin = LocalEngine.tasks

    def swapped(engine: LocalEngine, count: int) -> Any:
        rows = ROWS.filter(pa.array([value == "eu" for value in ROWS.column("region").to_pylist()]))
        pq.write_table(rows, tmp_path / "in" / "us.parquet", row_group_size=100)
        return begin(engine, count)

    monkeypatch.setattr(LocalEngine, "tasks", swapped)
    with pytest.raises(JobError, match="promise partition 'us'"):
        _load(source, tmp_path / "t")
    assert not list((tmp_path / "t").rglob("*.parquet"))


def test_spark_and_files_only(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unfiltered pyarrow Dataset of Parquet files"):
        hoodie.write_table(ROWS, str(tmp_path / "t"), spark=object(), options=OPTIONS)
    filtered = _by_region(tmp_path / "in").filter(ds.field("region") == "eu")
    with pytest.raises(InputError, match="unfiltered"):
        hoodie.write_table(filtered, str(tmp_path / "t"), spark=object(), options=OPTIONS)
    hoodie.write_table(filtered, str(tmp_path / "t"), options=OPTIONS)
    assert set(hoodie.read_table(str(tmp_path / "t")).column("region").to_pylist()) == {"eu"}


@pytest.mark.parametrize(
    ("columns", "direct"),
    [
        ({"a": pa.array([1], pa.int64()), "b": pa.array([0], pa.timestamp("ms"))}, True),
        ({"a": pa.array([{"x": [1.5]}])}, True),
        ({"a": pa.array([1], pa.uint32())}, False),
        ({"a": pa.array([1], pa.int16())}, False),
        ({"a": pa.array([1], pa.time64("us"))}, False),
        ({"a": pa.array([0], pa.timestamp("us", "Europe/Berlin"))}, False),
        ({"a": pa.array([1]), "A": pa.array([1])}, False),
    ],
    ids=["plain", "nested", "unsigned", "short", "time", "zone", "case"],
)
def test_what_spark_would_read_differently_is_left_to_it(
    tmp_path: Path, columns: dict[str, Any], direct: bool
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "1.parquet")
    found = parquet_dataset(Source.of(str(tmp_path / "1.parquet")))
    assert (found is not None) == direct
    if found is not None and "b" in found.schema.names:
        assert found.schema.field("b").type == pa.timestamp("us")


def test_sources_that_only_spark_understands(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "day=1" / "1.parquet")
    pq.write_table(pa.table({"a": [1.5]}), tmp_path / "2.parquet")
    path = str(tmp_path)
    assert parquet_dataset(Source.of(path)) is None, "a partition column, whose type Spark infers"
    assert parquet_dataset(Source.of([f"{path}/day=1/1.parquet", f"{path}/2.parquet"])) is None, "two types"
    assert parquet_dataset(Source.of(f"{path}/{{1,2}}.parquet")) is None
    assert parquet_dataset(Source.of(f"{path}/none.parquet")) is None
    described = {"path": f"{path}/2.parquet", "format": "parquet", "options": {"pathGlobFilter": "x"}}
    assert parquet_dataset(Source.of(described)) is None
    assert parquet_dataset(Source.of(f"{path}/*.parquet")) is not None


def test_key_settings_hold(tmp_path: Path) -> None:
    """Several key and partition columns, of types that need a text."""
    rows = pa.table(
        {"a": [1, 2, 3], "b": ["x", "y", "z"], "day": pa.array([1, 1, 1], pa.date32()), "n": [7, 7, 7]}
    )
    pq.write_table(rows, tmp_path / "1.parquet")
    result, direct = _load(
        ds.dataset(tmp_path / "1.parquet"),
        tmp_path / "t",
        **{KEY: "a,b", PARTITION: "day,n", "hoodie.datasource.write.precombine.field": "a"},
    )
    assert direct
    assert result.partitions == ["1970-01-02/7"]
    found = hoodie.read_table(str(tmp_path / "t")).column("_hoodie_record_key").to_pylist()
    assert sorted(found) == ["a:1,b:x", "a:2,b:y", "a:3,b:z"]
