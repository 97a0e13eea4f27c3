"""Every index gives the same table: random batches, several files a partition, both against a dictionary."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.support.arrow import arrow_schema
from tests.support.rows import assert_same_rows

SCHEMA = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("region", pa.string()), ("val", pa.int64())])
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    # many small files, so that a key has several candidates
    "hoodie.copyonwrite.record.size.estimate": 1000,
    "hoodie.parquet.max.file.size": 60000,
    "hoodie.parquet.small.file.limit": 0,
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.index.bloom.fpp": 0.2,
}


def _batch(rng: random.Random, version: int) -> list[dict[str, Any]]:
    keys = [rng.randrange(2000) for _ in range(rng.randrange(1, 600))]
    return [
        {
            "id": f"{'日本' if key % 17 == 0 else ''}k{key * 7919 % 2000:05d}",
            "ts": rng.randrange(1000),
            "region": f"r{key % 3}",
            "val": rng.randrange(10**6) + version,
        }
        for key in keys
    ]


def _apply(model: dict[tuple[str, str], dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    for row in rows:
        key = (row["region"], row["id"])
        if key not in model or model[key]["ts"] <= row["ts"]:
            model[key] = row


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "BLOOM without ranges"])
def test_random_upserts(tmp_path: Path, index: str, seed: int) -> None:
    rng = random.Random(seed)
    options = {**OPTIONS, "hoodie.index.type": index.split()[0]}
    if "without" in index:
        options["hoodie.bloom.index.prune.by.ranges"] = False
    model: dict[tuple[str, str], dict[str, Any]] = {}
    for version in range(6):
        rows = _batch(rng, version)
        _apply(model, rows)
        table = pa.Table.from_pylist(rows, SCHEMA)
        hoodie.write_table(table, str(tmp_path / "t"), options=options)
    expected = pa.Table.from_pylist(list(model.values()), SCHEMA)
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), expected)
    groups = hoodie.file_groups(str(tmp_path / "t"))
    assert len(groups) > 6, "the test means to have several files in a partition"
