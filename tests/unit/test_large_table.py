"""The large tables of benchmarks are true ones, for hudi-rs, both indexes and the doctor."""

from __future__ import annotations

from pathlib import Path

import hoodie
from hoodie.table.checkup import OK
from hoodie.table.doctor import check_table
from tests.support.large_table import OPTIONS, LargeTable
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows


def test_a_large_table(tmp_path: Path) -> None:
    table = LargeTable(str(tmp_path / "t"), 6, files=2, commits=5, rows=3)
    table.make()
    assert {item.status for item in check_table(table.path)} == {OK}
    for version, index in enumerate(("SIMPLE", "BLOOM"), 1):
        rows = table.upsert(range(version, version + 3), version)
        done = hoodie.write_table(rows, table.path, options={**OPTIONS, "hoodie.index.type": index})
        assert (done.num_updates, done.num_inserts) == (18, 0)
    found = hoodie.read_table(table.path)
    assert found.num_rows == 36
    assert_same_rows(read_hudi_rs(table.path), found)
