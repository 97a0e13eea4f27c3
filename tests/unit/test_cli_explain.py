"""`hoodie explain`, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import hoodie
from tests.support.cli import Run
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import OPTIONS, Pair, listing


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path / "orders", {**OPTIONS, "hoodie.parquet.small.file.limit": 0})
    for version in (1, 2):
        pair.write(small_rows(range(30), version))
    pq.write_table(as_table(small_rows([*range(3), 40], 3), SMALL_SCHEMA), tmp_path / "day.parquet")
    return pair


def test_an_upsert(run: Run, pair: Pair) -> None:
    before = listing(pair.path)
    command = (
        "explain",
        "upsert",
        "--table",
        str(pair.path),
        "--source",
        str(pair.path.parent / "day.parquet"),
    )
    code, out, err = run(*command)
    assert (code, listing(pair.path)) == (0, before), err
    head, grid, *_ = out.splitlines()
    assert head == (
        "upsert would change 3 partitions of orders: 1 row inserted, 3 rows updated; nothing was written"
    )
    assert grid.split() == ["partition", "inserted", "updated", "new", "files", "about"]
    assert "  file groups: 3 rewritten\n" in out
    assert "of it stored rows: write amplification " in out
    assert "\nSIMPLE " in out
    assert "\nBLOOM " in out
    assert " fits best" in out
    code, out, _ = run(*command, "--json", "--option", "hoodie.write.max.amplification=1.5")
    found = json.loads(out)
    assert (code, found["rewritten_groups"], found["max_write_amplification"]) == (0, 3, 1.5)
    assert found["refused"].startswith("the write would write about ")
    assert listing(pair.path) == before


def test_what_is_in_the_way(run: Run, pair: Pair) -> None:
    pair.write(small_rows(range(50, 60), 1))
    planned = hoodie.cluster_table(str(pair.path), mode="schedule").scheduled
    source = str(pair.path.parent / "day.parquet")
    code, out, _ = run("explain", "delete", "--table", str(pair.path), "--source", source)
    assert code == 0
    assert f"  pending clustering {planned}: 3 file groups, the write is refused until it is done\n" in out
    assert "  the write would be refused: rows to update are in file group " in out
    assert "  1 row whose key is not in the table\n" in out


def test_a_query(run: Run, pair: Pair) -> None:
    """Footers show which files have no rows of the answer."""
    before = listing(pair.path)
    command = ("explain", "read", "--table", str(pair.path), "--where", "_hoodie_commit_time > '2999'")
    code, out, err = run(*command)
    assert (code, listing(pair.path)) == (0, before), err
    head, grid, *_ = out.splitlines()
    assert head == "snapshot query of orders, listed by its folders"
    assert grid.split() == ["by", "files", "left", "out", "bytes", "files", "left", "bytes"]
    assert "  0 files in 0 partitions of 3 to be read\n" in out
    code, out, _ = run(*command, "--json")
    found = json.loads(out)
    assert (found["files"], found["read_files"], found["metadata_table"]) == (3, 0, False)
    assert [step["step"] for step in found["steps"]] == ["partitions", "commit times", "parquet statistics"]
    assert sum(step["files"] for step in found["steps"]) == 3
    code, _, err = run("explain", "read", "--table", str(pair.path), "--where", "nothing(")
    assert (code, "can't be evaluated" in err) == (1, True)
