"""Queries by the metadata tables that Apache Hudi keeps: its statistics of columns never lose a row."""

from __future__ import annotations

import math
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.read import duckdb_predicate
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table
from tests.support.hudi_client import HudiServer
from tests.support.predicates import SCHEMA, predicate, rows

pytestmark = pytest.mark.interop

WITHOUT = {"hoodie.metadata.enable": "false"}
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.block.size": "2048",
    "hoodie.parquet.page.size": "512",
}
GROUP = 300


def batch(seed: int, ids: range, ts: int) -> pa.Table:
    """Rows of a batch differ little; the second half of `odd` has a NaN in every row group."""
    pick, made = random.Random(seed), list[pa.Table]()
    while sum(part.num_rows for part in made) < len(ids):
        made.append(rows(pick, GROUP))
    given = pa.concat_tables(made).slice(0, len(ids))
    floats = [50.0 if number % 7 else math.nan for number in range(len(ids))]
    odd = [number * 1.0 if number < len(ids) // 2 else floats[number] for number in range(len(ids))]
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in ids],
            "part": [f"p{number % 2}" for number in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "odd": odd,
            "nested": pa.array(
                [{"a": number, "b": None} if number % 3 else None for number in ids],
                pa.struct([("a", pa.int64()), ("b", pa.string())]),
            ),
            **{name: given.column(name) for name in SCHEMA.names},
        }
    )


def ids(path: str, where: str, **more: Any) -> list[str]:
    found = hoodie.read_table(path, where=where, columns=["id"], **more)
    return sorted(found.column("id").to_pylist())


@pytest.fixture(params=["0.15.0", "1.2.0"])
def hudi(request: pytest.FixtureRequest) -> HudiServer:
    found: HudiServer = request.getfixturevalue({"0.15.0": "hudi_015", "1.2.0": "hudi_12"}[request.param])
    return found


@pytest.mark.full
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_answers_with_and_without_the_metadata_table(hudi: HudiServer, tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")
    options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    for number in range(3):
        given = batch(number, range(number * GROUP * 2, (number + 1) * GROUP * 2), 1)
        mode = "append" if number else "overwrite"
        hudi.write(path, given, operation="upsert", options=options, mode=mode)
    small = batch(4, range(9000, 9060), 1)
    hudi.write(path, small, operation="insert", options=options, mode="append")
    hudi.write(path, batch(8, range(0, GROUP, 5), 2), operation="upsert", options=options, mode="append")
    hudi.write(path, batch(9, range(1, GROUP, 40), 3), operation="delete", options=options, mode="append")
    pick, skipped = random.Random(3), 0
    asked = [predicate(pick) for _ in range(60)]
    asked += [
        "odd = 50",
        "odd = 59",
        "odd > 500",
        "isnan(odd)",
        "odd < 7",
        "nested.a = 7",
        "nested.b IS NULL",
    ]
    asked += ["nested IS NULL", "id = 'k00007'", "id LIKE 'k011%'", "ts > 1", "ts = 3", "ts < 1"]
    with warnings.catch_warnings():
        warnings.simplefilter("error", MetadataTableIgnored)
        for where in asked:
            for more in ({}, {"query": "read_optimized"}):
                try:
                    expected = ids(path, where, options=WITHOUT, **more)
                except ConfigError:  # of a value that can't be computed, in a row that may be left out
                    continue
                assert ids(path, where, **more) == expected, where
            with duckdb_predicate.connection() as connection:
                view = TableView.load(Table.open(path), where=duckdb_predicate.parsed(connection, where))
            assert view.metadata_table
            skipped += sum(len(step.dropped) for step in view.steps if step.name != "commit times")
    assert skipped > 20
