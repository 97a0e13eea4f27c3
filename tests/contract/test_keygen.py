"""What every key generator of the folder does, whatever its rules."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hoodie.config.key import Config
from hoodie.keygen import KEY_GENERATORS, KeyGenerator, key_generator

PLUGINS = sorted(KEY_GENERATORS.places)
PARTITIONS = {
    "SimpleKeyGenerator": "day",
    "ComplexKeyGenerator": "day,region",
    "NonpartitionedKeyGenerator": "",
    "TimestampBasedKeyGenerator": "ms",
    "CustomKeyGenerator": "region:SIMPLE,ms:TIMESTAMP",
}
TIMED = "hoodie.keygen.timebased."


def rows(count: int) -> pa.Table:
    random = np.random.default_rng(3)
    days = random.integers(19_000, 19_010, count).astype(np.int32)
    return pa.table(
        {
            "id": pa.array([f"id{number}" for number in range(count)], pa.string()),
            "day": pa.array(days, pa.date32()),
            "region": pa.array([("eu", "us", None)[n] for n in random.integers(0, 3, count)], pa.string()),
            "ms": pa.array(days.astype(np.int64) * 86_400_000 + random.integers(0, 86_400_000, count)),
            "unused": pa.nulls(count, pa.binary()),
        }
    )


@pytest.fixture(params=PLUGINS)
def keys(request: pytest.FixtureRequest) -> KeyGenerator:
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": PARTITIONS[request.param.rpartition(".")[2]],
        "hoodie.datasource.write.keygenerator.class": request.param,
        f"{TIMED}timestamp.type": "EPOCHMILLISECONDS",
        f"{TIMED}output.dateformat": "yyyy/MM/dd",
    }
    return key_generator(Config.of(options), rows(1).schema)


def test_one_entry_a_row(keys: KeyGenerator) -> None:
    table = rows(500)
    made, paths = keys.record_keys(table), keys.partition_paths(table)
    assert made.type == pa.string()
    assert paths.type == pa.string()
    assert (len(made), len(paths)) == (500, 500)
    assert made.to_pylist() == table["id"].to_pylist()
    assert paths.null_count == 0
    codes: pa.Array[Any] = keys.partition_codes(table)
    assert codes.to_pylist() == paths.to_pylist()


def test_batches_and_chunks_give_the_same(keys: KeyGenerator) -> None:
    table = rows(100)
    chunked = pa.concat_tables([table.slice(0, 33), table.slice(33, 0), table.slice(33)])
    batch = table.slice(7, 60).combine_chunks().to_batches()[0]
    assert keys.record_keys(chunked).to_pylist() == keys.record_keys(table).to_pylist()
    assert keys.partition_paths(chunked).to_pylist() == keys.partition_paths(table).to_pylist()
    assert isinstance(keys.record_keys(batch), pa.Array)
    assert keys.record_keys(batch).to_pylist() == keys.record_keys(table).to_pylist()[7:67]
    assert keys.partition_paths(batch).to_pylist() == keys.partition_paths(table).to_pylist()[7:67]


def test_reads_its_columns_only(keys: KeyGenerator) -> None:
    table = rows(50)
    assert "unused" not in keys.key_columns
    lean = table.select(list(keys.key_columns))
    assert keys.record_keys(lean).to_pylist() == keys.record_keys(table).to_pylist()
    assert keys.partition_paths(lean).to_pylist() == keys.partition_paths(table).to_pylist()


def test_no_rows(keys: KeyGenerator) -> None:
    for empty in (rows(0), rows(1).schema.empty_table(), pa.Table.from_batches([], rows(1).schema)):
        assert len(keys.record_keys(empty)) == 0
        assert len(keys.partition_paths(empty)) == 0


def test_travels_to_executors(keys: KeyGenerator) -> None:
    there = pickle.loads(pickle.dumps(keys))
    assert there == keys
    assert there.partition_paths(rows(20)).equals(keys.partition_paths(rows(20)))
    assert there.persisted() == keys.persisted()


def test_what_a_table_remembers(keys: KeyGenerator) -> None:
    entries = keys.persisted()
    assert entries["hoodie.table.keygenerator.class"] == keys.java_class
    assert entries["hoodie.table.recordkey.fields"] == "id"
    assert entries["hoodie.table.partition.fields"] == ",".join(keys.partition_fields)
    assert not any(":" in field for field in keys.partition_fields)
    assert entries["hoodie.datasource.write.hive_style_partitioning"] == "false"
    assert (f"{TIMED}output.dateformat" in entries) == ("ms" in keys.partition_fields)
