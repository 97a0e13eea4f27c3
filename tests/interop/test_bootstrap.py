"""Tables that Apache Hudi 0.15.0 bootstrapped, changed by us: it reads the same rows, and goes on writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.data.bootstrap.recipe import CASES, make, rows
from tests.support.bootstrap import allowed
from tests.support.hudi_client import HudiServer
from tests.support.rows import assert_same_rows

pytestmark = pytest.mark.interop

CLUSTERING = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
}
COMPACTION = {"hoodie.compact.inline.max.delta.commits": "1"}


class Judged:
    """A table that both sides write; the rows are known without either."""

    def __init__(self, server: HudiServer, folder: Path, name: str) -> None:
        case = CASES[name]
        CASES[name].steps, steps = [], case.steps
        try:
            make(server, folder, name)
        finally:
            CASES[name].steps = steps
        self.server, self.path, self.options = server, folder / "table", dict(case.options)
        self.files = {path: path.read_bytes() for path in (folder / "source").rglob("*.parquet")}
        self.rows: dict[str, dict[str, Any]] = {}
        for relative, table in case.source.items():
            region = relative.split("/")[0].removeprefix("region=")
            self.put(table.append_column("region", pa.array([region] * table.num_rows)))

    def put(self, table: pa.Table) -> pa.Table:
        self.rows |= {row["id"]: row for row in table.to_pylist()}
        return table

    def check(self, what: str) -> None:
        expected = pa.Table.from_pylist(list(self.rows.values()))
        ours = hoodie.read_table(str(self.path), options=allowed(self.path))
        assert_same_rows(ours, expected, what=f"{what}: ours")
        assert_same_rows(
            self.server.read(self.path), ours, meta=True, ignore={"_hoodie_file_name"}, what=what
        )
        assert {path: path.read_bytes() for path in self.files} == self.files

    def ours(self, table: pa.Table, **arguments: Any) -> None:
        hoodie.write_table(table, str(self.path), options=allowed(self.path), **arguments)

    def theirs(self, table: pa.Table) -> None:
        self.server.write(self.path, table, self.options)


@pytest.mark.full
def test_copy_on_write(hudi_015: HudiServer, tmp_path: Path) -> None:
    table = Judged(hudi_015, tmp_path, "metadata_only")
    table.ours(table.put(rows(range(2, 4), 2, region="eu")))
    table.check("our upsert")
    table.theirs(table.put(rows(range(3, 9), 3, region="eu")))
    table.ours(rows(range(11, 12), 9, region="us"), operation="delete")
    del table.rows["k011"]
    table.check("its upsert, our delete")
    table.theirs(table.put(rows(range(12, 13), 4, region="us")))
    table.check("its upsert of what we rewrote")


@pytest.mark.full
def test_clustering(hudi_015: HudiServer, tmp_path: Path) -> None:
    table = Judged(hudi_015, tmp_path, "metadata_only")
    hoodie.cluster_table(str(table.path), options=CLUSTERING | allowed(table.path))
    table.check("our clustering")
    table.theirs(table.put(rows(range(12, 13), 4, region="us")))
    table.check("its upsert")


@pytest.mark.full
def test_merge_on_read(hudi_015: HudiServer, tmp_path: Path) -> None:
    table = Judged(hudi_015, tmp_path, "mor")
    table.ours(table.put(rows(range(2, 4), 2, region="eu")))
    table.check("our log on a skeleton")
    table.theirs(table.put(rows(range(3, 5), 3, region="eu")))
    hoodie.compact_table(str(table.path), options=COMPACTION | allowed(table.path))
    table.check("our compaction of both logs")
    table.ours(table.put(rows(range(12, 13), 4, region="us")))
    hoodie.compact_table(str(table.path), mode="schedule", options=COMPACTION | allowed(table.path))
    table.server.call("run_compaction", op="run", path=str(table.path))
    table.check("its compaction of our plan")
