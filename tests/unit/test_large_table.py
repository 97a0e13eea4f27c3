"""The large tables of benchmarks are true ones, for hudi-rs, both indexes and the doctor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hoodie
from hoodie.table.checkup import OK
from hoodie.table.doctor import check_table
from tests.support.large_table import OPTIONS, LargeTable
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_large_table(tmp_path: Path, version: int, kind: str) -> None:
    table = LargeTable(str(tmp_path / "t"), 6, files=2, commits=5, rows=3, version=version, kind=kind)
    table.make()
    assert {item.status for item in check_table(table.path)} == {OK}
    for number, index in enumerate(("SIMPLE", "BLOOM"), 1):
        rows = table.upsert(range(number, number + 3), number)
        done = hoodie.write_table(rows, table.path, options={**OPTIONS, "hoodie.index.type": index})
        assert (done.num_updates, done.num_inserts) == (18, 0)
    found = hoodie.read_table(table.path)
    assert found.num_rows == 36
    assert_same_rows(read_hudi_rs(table.path), found)


def test_a_large_table_of_links(tmp_path: Path) -> None:
    table = LargeTable(str(tmp_path / "t"), 8, files=2, commits=3, rows=3, version=9, real=4)
    table.make()
    assert {item.status for item in check_table(table.path)} == {OK}
    links = [os.stat(file).st_nlink for file in sorted(Path(table.path).glob("p*/*.parquet"))]
    assert links == [1] * 8 + [4] * 8
    done = hoodie.write_table(table.upsert(range(4), 1), table.path, options=OPTIONS)
    assert (done.num_updates, done.num_inserts) == (24, 0)
    assert len(hoodie.file_groups(table.path)) == 16
