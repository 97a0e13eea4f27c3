"""Clustering on Spark, classic and Connect: groups cut over tasks, the same rows as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from tests.spark.answers import Servers
from tests.spark.test_spark_compaction import OPTIONS, SCHEMA, compact, files
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import as_table, full_rows

pytestmark = pytest.mark.spark

PREFIX = "hoodie.clustering.plan.strategy."
CURVE: dict[str, Any] = {
    PREFIX + "sort.columns": "c_int,c_str,c_dec18",
    "hoodie.layout.optimize.strategy": "hilbert",
}


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_plans_and_executions(tmp_path: Path, servers: Servers, mode: str) -> None:
    """First one partition alone, whose group is cut in two, then all; a plan of another size of files."""
    path = tmp_path / "t"
    for rows in (full_rows(range(90), 1), full_rows(range(60, 150), 2)):
        options = {**OPTIONS, "hoodie.parquet.small.file.limit": 0}
        hoodie.write_table(as_table(rows, SCHEMA), str(path), options=options)
    before = hoodie.read_table(str(path))
    size = sum(file.stat().st_size for file in path.glob("eu/*.parquet"))
    one = {PREFIX + "partition.selected": "eu", PREFIX + "target.file.max.bytes": size // 2 + 1}
    cut, planned, done, again, gone = compact(
        servers,
        mode,
        (path, {"service": "cluster_table", "options": {**one, PREFIX + "sort.columns": "c_long"}}),
        (path, {"service": "cluster_table", "mode": "schedule", "options": CURVE}),
        (path, {"service": "cluster_table", "mode": "execute"}),
        (path, {"service": "cluster_table", "options": CURVE}),
        (tmp_path / "nowhere", {"service": "cluster_table"}),
    )
    assert (cut["status"], cut["partitions"], cut["num_files"]) == ("clustered", ["eu"], 2)
    tasks = {name.split("_")[1].split("-")[0] for name in files(path, cut["instant"])}
    assert len(tasks) == 2, "each range had its own task"
    low, high = sorted(_ends(path / "eu" / name) for name in files(path, cut["instant"]))
    assert low[1] <= high[0]
    assert (planned["status"], done["clustered"]) == ("scheduled", [planned["instant"]])
    assert done["num_files"] == 3
    assert (again["status"], gone["code"]) == ("skipped", "table_not_found")
    assert_same_rows(hoodie.read_table(str(path)), before)
    assert_same_rows(read_hudi_rs(path), before, what="hudi-rs")


def _ends(file: Path) -> tuple[int, int]:
    values = [
        value for value in pq.ParquetFile(file).read(["c_long"]).column(0).to_pylist() if value is not None
    ]
    return min(values), max(values)
