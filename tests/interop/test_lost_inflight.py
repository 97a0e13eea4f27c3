"""Apache Hudi 1.2.0 behind a killed write of ours whose inflight file in the metadata table lost its content.

It refuses one that is cut, so the content of inflight files is synced before a data file is written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from tests.support.faults import Change, die_at
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.oracle import Model
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
}


class Killed:
    """A table with commits, and a write that died before its deltacommit in the metadata table completed."""

    def __init__(self, path: Path, kind: str, version: int) -> None:
        self.path, self.model = path, Model(("id",), ("region",), "ts")
        self.options = {
            **OPTIONS,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.write.table.version": str(version),
        }
        for value in range(1, 4):
            rows = small_rows(range(30), value)
            self.write(rows)
            self.model.upsert(rows)
        die_at(path, lambda _: self.write(small_rows(range(20, 50), 9)), _completes)
        self.inflight = max(path.glob(".hoodie/metadata/.hoodie/timeline/*.deltacommit.inflight"))

    def write(self, rows: list[Row]) -> None:
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(self.path), options=self.options)

    def upsert_by(self, hudi: HudiServer, value: int) -> None:
        rows = small_rows(range(value, value + 10), value)
        hudi.write(self.path, as_table(rows, SMALL_SCHEMA), self.options)
        self.model.upsert(rows)


def _completes(change: Change) -> bool:
    return change.name == "create" and "/metadata/" in change.path and change.path.endswith(".deltacommit")


@pytest.mark.parametrize(("version", "kind"), [(8, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")])
def test_apache_hudi_rolls_back_behind_an_empty_inflight_file(
    tmp_path: Path, hudi_12: HudiServer, version: int, kind: str
) -> None:
    killed = Killed(tmp_path / "t", kind, version)
    killed.inflight.write_bytes(b"")
    for value in (5, 6):
        killed.upsert_by(hudi_12, value)
    expected = killed.model.table(SMALL_SCHEMA)
    assert_same_rows(hudi_12.read(killed.path), expected, what="Hudi 1.2.0")
    assert_same_rows(hoodie.read_table(str(killed.path)), expected, what="ours")


@pytest.mark.parametrize("zeros", [False, True], ids=["half", "zeros"])
def test_apache_hudi_refuses_a_torn_inflight_file_until_we_have_written(
    tmp_path: Path, hudi_12: HudiServer, zeros: bool
) -> None:
    killed = Killed(tmp_path / "t", "MERGE_ON_READ", 9)
    whole = killed.inflight.read_bytes()
    killed.inflight.write_bytes(bytes(len(whole)) if zeros else whole[: len(whole) // 2])
    with pytest.raises(HudiError, match="unable to read commit metadata"):
        killed.upsert_by(hudi_12, 5)
    rows = small_rows(range(6), 6)
    killed.write(rows)
    killed.model.upsert(rows)
    killed.upsert_by(hudi_12, 7)
    expected = killed.model.table(SMALL_SCHEMA)
    assert_same_rows(hudi_12.read(killed.path), expected, what="Hudi 1.2.0")
    assert_same_rows(hoodie.read_table(str(killed.path)), expected, what="ours")
