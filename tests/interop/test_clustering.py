"""Clustering between us and Apache Hudi: one plans, the other executes; all read the same afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from tests.interop.test_compaction import OURS, Both
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows
from tests.support.tiers import full_but

pytestmark = pytest.mark.interop

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
TYPE = "hoodie.datasource.write.table.type"
SORT = "hoodie.clustering.plan.strategy.sort.columns"
#: each write makes files of its own
NO_PACKING = {"hoodie.parquet.small.file.limit": "0"}
#: decimals stay as Apache Hudi's own writers can read them (golden README, trap 3)
AVRO = "hoodie.datasource.write.row.writer.enable=false"


class Clustered(Both):
    """A table of one kind, in several files a partition."""

    def __init__(self, path: Path, hudi: HudiServer, kind: str) -> None:
        super().__init__(path, hudi, **NO_PACKING, **{TYPE: kind})

    def cluster(self, mode: str = "run", **options: str) -> Any:
        return hoodie.cluster_table(str(self.path), mode=mode, options={SORT: "val,id", **options})

    def call_clustering(self, op: str, settings: str = AVRO) -> list[dict[str, Any]]:
        return self.hudi.call("run_clustering", path=str(self.path), op=op, order="name", options=settings)

    def shown(self) -> list[tuple[str, str]]:
        rows = self.hudi.call("show_clustering", path=str(self.path), limit=10)
        return [(row["timestamp"], row["state"]) for row in rows]


@pytest.fixture(params=full_but((), KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_we_plan_and_apache_hudi_executes(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    table = Clustered(tmp_path / "planned_by_us", hudi_015, kind)
    table.ours(small_rows(range(60), 1))
    table.ours(small_rows(range(60, 90), 2) + small_rows(range(20), 2))
    planned = table.cluster("schedule").scheduled
    table.ours(small_rows(range(200, 220), 3))
    table.check("planned", others=(hudi_12,))
    assert table.shown() == [(planned, "REQUESTED")]
    done = table.call_clustering("execute")
    assert [(row["timestamp"], row["state"]) for row in done] == [(planned, "COMPLETED")]
    table.check("executed", others=(hudi_12,))
    assert hudi_015.timeline(table.path)[planned] == "CLUSTER"
    assert table.cluster("execute").reason == "no clustering is pending"
    table.ours(small_rows(range(50, 100), 4))
    table.check("written on", others=(hudi_12,))


@pytest.mark.full
def test_apache_hudi_plans_and_we_execute(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """And it goes on writing, and clustering, on top of what we made."""
    table = Clustered(tmp_path / "planned_by_hudi", hudi_015, kind)
    table.theirs(small_rows(range(60), 1), mode="overwrite")
    table.theirs(small_rows(range(60, 90), 2) + small_rows(range(20), 2))
    (row,) = table.call_clustering("schedule")
    result = hoodie.cluster_table(str(table.path), mode="execute")
    assert (result.clustered, result.pending) == ([row["timestamp"]], [])
    table.check("executed", others=(hudi_12,))
    assert table.shown() == [(row["timestamp"], "COMPLETED")]
    for group in hoodie.file_groups(str(table.path)):
        file = table.path / group["partition"] / group["slices"][0]["name"]
        names = pq.ParquetFile(file).read(["name"]).column(0).to_pylist()
        assert names == sorted(names, key=lambda name: (name is None, name))
    table.theirs(small_rows(range(0, 120, 3), 5))
    table.ours(small_rows(range(0, 90, 4), 6))
    table.check("written on", others=(hudi_12,))
    assert [done["state"] for done in table.call_clustering("scheduleAndExecute")] == ["COMPLETED"]
    table.check("clustered by Hudi", others=(hudi_12,))


@pytest.mark.full
def test_apache_hudi_refuses_updates_under_our_plan(tmp_path: Path, hudi_015: HudiServer) -> None:
    table = Clustered(tmp_path / "refused", hudi_015, KINDS[0])
    table.ours(small_rows(range(60), 1))
    planned = table.cluster("schedule").scheduled
    before = hoodie.read_table(str(table.path))
    rows = as_table(small_rows(range(10), 3), SMALL_SCHEMA)
    with pytest.raises(HudiError, match="clustering"):
        hudi_015.write(table.path, rows, table.their_options, mode="append")
    assert_same_rows(hoodie.read_table(str(table.path)), before)
    assert table.cluster("execute").clustered == [planned]
    table.check("executed")


@pytest.mark.full
def test_every_type_after_our_clustering(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    path = tmp_path / "types"
    for start in (0, 60):
        rows = as_table(full_rows(range(start, start + 60), 1, null_elements=False), FULL_SCHEMA)
        hoodie.write_table(rows, str(path), options={**OURS, **NO_PACKING, TYPE: kind})
    before = hoodie.read_table(str(path))
    options = {SORT: "c_dec18,c_str,c_double", "hoodie.layout.optimize.strategy": "hilbert"}
    assert hoodie.cluster_table(str(path), options=options).clustered
    assert_same_rows(hoodie.read_table(str(path)), before)
    for server in (hudi_015, hudi_12):
        for metadata in (True, False):
            assert_same_rows(server.read(path, metadata=metadata), before, what=f"Hudi {server.version}")
    assert_same_rows(read_hudi_rs(path), before, what="hudi-rs")


@pytest.mark.full
def test_incremental_queries_of_apache_hudi_after_our_clustering(
    tmp_path: Path, kind: str, hudi_015: HudiServer
) -> None:
    """Rows keep their commit times, so that a clustering brings no row twice."""
    table = Clustered(tmp_path / "t", hudi_015, kind)
    table.ours(small_rows(range(60), 1))
    table.ours(small_rows(range(60, 90), 2) + small_rows(range(20), 2))
    first, second = min(hudi_015.timeline(table.path)), max(hudi_015.timeline(table.path))
    changed = hudi_015.read_incremental(table.path, begin=first)
    assert table.cluster().clustered
    assert_same_rows(hudi_015.read_incremental(table.path, begin=first), changed, meta=False)
    assert hudi_015.read_incremental(table.path, begin=second).num_rows == 0


@pytest.mark.full
def test_the_golden_plan_executed_by_us(
    golden_tables: Path, tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6" / "cow_pending_clustering" / "table", path)
    expected = hudi_015.read(path)
    (done,) = hoodie.cluster_table(str(path), mode="execute").clustered
    for server in (hudi_015, hudi_12):
        assert_same_rows(server.read(path), expected, what=f"Hudi {server.version}")
    assert hudi_015.timeline(path)[done] == "CLUSTER"
