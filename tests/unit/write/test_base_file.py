"""Footers of base files: the filter knows and the range holds every key, also after merges."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import StorageError
from hoodie.format.base_file import BaseFileReader
from hoodie.format.bloom import BLOOM_FILTER_KEY, BLOOM_TYPE_KEY, KeyHashes
from hoodie.format.key_range import MAX_KEY_KEY, MIN_KEY_KEY
from hoodie.storage.local import LocalStorage
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import (
    BLOCK_SIZE,
    MAX_FILE,
    OPTIONS,
    PLAIN,
    RECORD_SIZE,
    data_files,
    plain,
    stored_keys,
    values,
)

BLOOM_OFF = "hoodie.parquet.bloom.filter.enabled"


def _footer(file: Path) -> dict[str, str]:
    with BaseFileReader(LocalStorage(), str(file)) as reader:
        return reader.footer


def _check(table: Path) -> int:
    """Every latest file's filter and range hold; returns how many rows there are."""
    rows = 0
    for file in data_files(table):
        keys = stored_keys(file)
        rows += len(keys)
        with BaseFileReader(LocalStorage(), str(file)) as reader:
            bloom, bounds = reader.bloom(), reader.key_bounds()
        if not keys:
            continue
        assert bloom is not None
        assert bounds is not None
        assert bloom.might_contain(KeyHashes(pa.array(keys))).all(), "a filter may not deny a key"
        assert bounds[0] <= min(keys), file
        assert bounds[1] >= max(keys), file
    return rows


def test_a_fresh_file(tmp_path: Path) -> None:
    rows = plain(("m", 1, "x"), ("a", 1, "x"), ("z", 1, "x"))
    hoodie.write_table(rows, str(tmp_path / "t"), options=PLAIN)
    (file,) = data_files(tmp_path / "t")
    footer = _footer(file)
    assert (footer[MIN_KEY_KEY], footer[MAX_KEY_KEY]) == ("a", "z")
    assert footer[BLOOM_TYPE_KEY] == "DYNAMIC_V0"
    assert footer["writer.model.name"] == "avro"
    with BaseFileReader(LocalStorage(), str(file)) as reader:
        bloom = reader.bloom()
    assert bloom is not None
    absent = pa.array([f"absent{number}" for number in range(2000)])
    assert not bloom.might_contain(KeyHashes(absent)).any()


def test_footers_after_random_writes(tmp_path: Path) -> None:
    """Inserts at both ends, updates, deletes of the least and greatest keys, packing, splits."""
    rng = random.Random(11)
    filters: list[dict[str, Any]] = [
        {},
        {"hoodie.bloom.index.filter.type": "SIMPLE"},
        {"hoodie.index.bloom.num_entries": 5, "hoodie.bloom.index.filter.dynamic.max.entries": 10},
    ]
    table = tmp_path / "t"
    for version in range(1, 7):
        low, high = 500 - version * 50, 500 + version * 50
        numbers = [rng.randrange(low, high) for _ in range(80)]
        rows = small_rows(numbers, version)
        if version % 2 == 0:
            rows += small_rows([*range(low, low + 70), *range(high - 70, high)], version, deleted=True)
        options = {**OPTIONS, MAX_FILE: 12000, BLOCK_SIZE: 4096, RECORD_SIZE: 150, **rng.choice(filters)}
        operation = rng.choice(("upsert", "upsert", "insert", "bulk_insert"))
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(table), operation=operation, options=options)
        assert _check(table) == hoodie.read_table(str(table)).num_rows


def test_keys_beyond_ascii(tmp_path: Path) -> None:
    keys = ["é", "日本", "\U0001f600", "￿", "z", "\U00010000a", "Z"]
    hoodie.write_table(plain(*[(key, 1, "x") for key in keys]), str(tmp_path / "t"), options=PLAIN)
    (file,) = data_files(tmp_path / "t")
    with BaseFileReader(LocalStorage(), str(file)) as reader:
        bloom, bounds = reader.bloom(), reader.key_bounds()
    assert bloom is not None
    assert bloom.might_contain(KeyHashes(pa.array(keys))).all()
    assert bounds == ("Z", "￿"), "as Java compares: by UTF-16 units, so that U+FFFF is the greatest"
    options = {"hoodie.index.type": "BLOOM"}
    result = hoodie.write_table(plain(*[(key, 2, "y") for key in keys]), str(tmp_path / "t"), options=options)
    assert result.num_updates == len(keys)


def test_all_rows_deleted_and_new_ones_added(tmp_path: Path) -> None:
    table = tmp_path / "t"
    hoodie.write_table(as_table(small_rows(range(30), 1), SMALL_SCHEMA), str(table), options=OPTIONS)
    hoodie.write_table(as_table(small_rows(range(30), 2, deleted=True), SMALL_SCHEMA), str(table))
    assert hoodie.read_table(str(table)).num_rows == 0
    assert all(stored_keys(file) == [] for file in data_files(table))
    for index in ("SIMPLE", "BLOOM"):
        options = {"hoodie.index.type": index}
        hoodie.write_table(as_table(small_rows(range(15, 45), 3), SMALL_SCHEMA), str(table), options=options)
    assert _check(table) == 30


def _strip(file: Path, *names: str) -> None:
    """Take entries out of a footer, as if the file had been written without them."""
    parquet = pq.ParquetFile(file)
    rows = parquet.read()
    kept = {
        k: v
        for k, v in (parquet.metadata.metadata or {}).items()
        if k.decode() not in names and k != b"ARROW:schema"
    }
    with pq.ParquetWriter(file, rows.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(rows.replace_schema_metadata(None))
        writer.add_key_value_metadata({k.decode(): v.decode() for k, v in kept.items()})


@pytest.mark.parametrize(
    "stripped", [[BLOOM_FILTER_KEY], [MIN_KEY_KEY], [BLOOM_FILTER_KEY, MIN_KEY_KEY, MAX_KEY_KEY]]
)
def test_a_file_without_filter_or_range_gets_them_at_its_next_merge(
    tmp_path: Path, stripped: list[str]
) -> None:
    table = tmp_path / "t"
    hoodie.write_table(as_table(small_rows(range(30), 1), SMALL_SCHEMA), str(table), options=OPTIONS)
    for file in data_files(table):
        _strip(file, *stripped)
        assert stripped[0] not in _footer(file)
    rows = small_rows(range(3), 2, deleted=True) + small_rows(range(24, 36), 2)
    options = {"hoodie.index.type": "BLOOM"}
    result = hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(table), options=options)
    assert (result.num_updates, result.num_deletes, result.num_inserts) == (6, 3, 6)
    assert _check(table) == 33
    for file in data_files(table):
        keys = stored_keys(file)
        assert (_footer(file)[MIN_KEY_KEY], _footer(file)[MAX_KEY_KEY]) == (min(keys), max(keys))


def test_files_of_apache_hudi_without_filter_get_one(golden_tables: Path, tmp_path: Path) -> None:
    """Hudi's row-writing bulk insert leaves the filter out where the index does not ask for it."""
    table = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6" / "cow_bulk_insert_row" / "table", table)
    for file in data_files(table):
        _strip(file, BLOOM_FILTER_KEY, "com.uber.hoodie.bloomfilter")
    rows = hoodie.read_table(str(table), meta=False, options={"hoodie.read.verify.files": "false"})
    hoodie.write_table(rows, str(table))
    assert _check(table) == rows.num_rows
    assert all(BLOOM_FILTER_KEY in _footer(file) for file in data_files(table))


def test_a_filter_does_not_grow_with_keys_that_come_and_go(tmp_path: Path) -> None:
    table, schema = tmp_path / "t", SMALL_SCHEMA
    options = {**OPTIONS, "hoodie.index.bloom.num_entries": 20}
    rows, sizes = set[int](), []
    for day in range(16):  # all in one partition: five keys come and the oldest five go
        come, go = range(15 * day, 15 * day + 15, 3), range(15 * (day - 3), 15 * (day - 3) + 15, 3)
        batch = small_rows(come, day) + small_rows([key for key in go if key in rows], day, deleted=True)
        rows = (rows | set(come)) - set(go)
        hoodie.write_table(as_table(batch, schema), str(table), options=options)
        assert _check(table) == len(rows)
        (file,) = data_files(table)
        sizes.append(len(_footer(file)[BLOOM_FILTER_KEY]))
    assert len(rows) == 15
    assert max(sizes) <= 2 * sizes[0], "two rows of bits at most, for 15 keys and those of a write"
    assert sizes[-4:].count(sizes[0]) >= 1, "made anew, it has one"


def test_filters_can_be_left_out(tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = {**PLAIN, BLOOM_OFF: False, "hoodie.index.type": "BLOOM"}
    hoodie.write_table(plain(("a", 1, "x"), ("b", 1, "x")), str(table), options=options)
    (file,) = data_files(table)
    assert BLOOM_FILTER_KEY not in _footer(file)
    assert _footer(file)[MIN_KEY_KEY] == "a"
    hoodie.write_table(plain(("b", 2, "y")), str(table), options=options)
    assert values(table, "val") == ["x", "y"]
    hoodie.write_table(plain(("c", 2, "z")), str(table), options={BLOOM_OFF: True})
    assert _check(table) == 3


@pytest.mark.parametrize(
    ("codec", "parquet"),
    [
        ("zstd", "ZSTD"),
        ("gzip", "GZIP"),
        ("SNAPPY", "SNAPPY"),
        ("lz4_raw", "LZ4"),
        ("uncompressed", "UNCOMPRESSED"),
    ],
)
def test_codecs(tmp_path: Path, codec: str, parquet: str) -> None:
    options = {**PLAIN, "hoodie.parquet.compression.codec": codec}
    hoodie.write_table(plain(("a", 1, "x" * 1000)), str(tmp_path / "t"), options=options)
    (file,) = data_files(tmp_path / "t")
    assert pq.ParquetFile(file).metadata.row_group(0).column(2).compression == parquet
    assert values(tmp_path / "t", "id") == ["a"]


def test_row_groups_are_cut_by_the_block_size(tmp_path: Path) -> None:
    rows = plain(*[(f"k{number:05d}", 1, "x" * 100) for number in range(5000)])
    hoodie.write_table(rows, str(tmp_path / "t"), options={**PLAIN, BLOCK_SIZE: 1 << 17})
    (file,) = data_files(tmp_path / "t")
    metadata = pq.ParquetFile(file).metadata
    assert metadata.num_row_groups > 4
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) < 1500


def test_a_failed_write_closes_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On some file systems a file that is still open can't be deleted; warnings are errors in these tests."""
    table = tmp_path / "t"
    hoodie.write_table(as_table(small_rows(range(30), 1), SMALL_SCHEMA), str(table), options=OPTIONS)
    before = hoodie.read_table(str(table))

    def full(*args: Any) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr("hoodie.write.files.handles.OutputFile.insert", full)
    with pytest.raises(StorageError, match="no space left"):
        hoodie.write_table(as_table(small_rows(range(20, 50), 2), SMALL_SCHEMA), str(table))
    monkeypatch.undo()
    assert hoodie.read_table(str(table)) == before
    assert len(list(table.rglob("*.parquet"))) == 3
