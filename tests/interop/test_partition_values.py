"""Rows that Apache Hudi left in a partition that their column does not name: Hudi's answers and ours."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.support.hudi_client import HudiServer

pytestmark = pytest.mark.interop

SETTING = "hoodie.datasource.read.extract.partition.values.from.path"
DAY = dt.date(2024, 1, 1)
INCREMENTAL = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.read.begin.instanttime": "000",
}


def _rows(kind: pa.DataType, keys: str, parts: list[Any], ts: int) -> pa.Table:
    return pa.table(
        {
            "id": list(keys),
            "ts": [ts] * len(keys),
            "p": pa.array(parts, kind),
            "v": [f"{key}{ts}" for key in keys],
        }
    )


def _told(rows: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["_hoodie_partition_path"], row["p"], row["v"]) for row in rows.to_pylist())


@pytest.mark.full
@pytest.mark.parametrize(
    ("table", "kind", "parts", "elsewhere", "hive"),
    [
        ("COPY_ON_WRITE", pa.string(), ["eu", "us", None], "moved", "false"),
        ("MERGE_ON_READ", pa.string(), ["eu", "us", None], "moved", "true"),
        ("COPY_ON_WRITE", pa.int32(), [1, -2, None], 7, "true"),
        ("MERGE_ON_READ", pa.date32(), [DAY, DAY.replace(day=2), None], DAY.replace(day=3), "false"),
        ("COPY_ON_WRITE", pa.decimal128(12, 8), [Decimal("1E-8"), Decimal("-2.5"), None], Decimal(7), "true"),
    ],
)
def test_we_answer_what_apache_hudi_answers(
    hudi_015: HudiServer,
    hudi_12: HudiServer,
    tmp_path: Path,
    table: str,
    kind: pa.DataType,
    parts: list[Any],
    elsewhere: Any,
    hive: str,
) -> None:
    """0.15.0 takes the path's value for base files only, but looks for all rows by path; 1.2.0 and we take it
    always.
    """
    path = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table,
        "hoodie.datasource.write.hive_style_partitioning": hive,
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "false",
        "hoodie.metadata.enable": "false",
    }
    hudi_015.write(path, _rows(kind, "abn", parts, 1), operation="upsert", options=options, mode="overwrite")
    moved = _rows(kind, "a", [elsewhere], 2)
    hudi_015.write(path, moved, operation="upsert", options=options, mode="append")
    newest = hoodie.instants(path)[-1]["instant"]
    for asked, theirs in (
        ({}, {}),
        ({"query": "read_optimized"}, {"hoodie.datasource.query.type": "read_optimized"}),
        ({"as_of": newest}, {"as.of.instant": newest}),
        ({"begin": "earliest"}, INCREMENTAL),
    ):
        ours = _told(hoodie.read_table(path, **asked))
        assert [row[2] for row in ours] == [parts[0], parts[1], None]
        assert _told(hoodie.read_table(path, where="id <> ''", options={SETTING: True}, **asked)) == ours
        assert _told(hudi_12.read(path, options=theirs)) == ours, asked
        if "begin" not in asked and (table == "COPY_ON_WRITE" or "query" in asked):
            assert _told(hudi_015.read(path, options=theirs)) == ours, asked
    for where in ("p = 'moved'", "p = 'eu'", "p IS NULL") if kind == pa.string() else ():
        found = _told(hoodie.read_table(path, where=where))
        assert found == _told(hudi_12.read(path, where=where)), where
    if table == "MERGE_ON_READ":
        _compaction_keeps_what_is_stored(path, tmp_path / "compacted", elsewhere)


def _compaction_keeps_what_is_stored(path: str, copy: Path, elsewhere: Any) -> None:
    shutil.copytree(path, copy)
    before = set(copy.glob("**/*.parquet"))
    options = {"hoodie.compact.inline.max.delta.commits": 1}
    assert hoodie.compact_table(str(copy), options=options).instant
    (made,) = set(copy.glob("**/*.parquet")) - before
    stored = pq.read_table(made, partitioning=None)
    assert dict(zip(stored["id"].to_pylist(), stored["p"].to_pylist(), strict=True))["a"] == elsewhere
    assert _told(hoodie.read_table(str(copy))) == _told(hoodie.read_table(path))
