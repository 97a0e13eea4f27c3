"""`hoodie delete`, `insert-overwrite` and `delete-partitions`, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from tests.support.cli import Run, document
from tests.unit.write.support import HIVE_STYLE, KEY, PARTITION, listing


@pytest.fixture
def run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Two rows on each of three days."""
    path = str(tmp_path / "orders")
    days = [f"2026-01-0{number // 2 + 1}" for number in range(6)]
    rows = pa.table({"id": [f"k{number}" for number in range(6)], "day": days, "n": list(range(6))})
    hoodie.write_table(rows, path, options={KEY: "id", PARTITION: "day", HIVE_STYLE: True})
    return path


def csv(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def rows(table: str) -> list[tuple[str, int]]:
    found = hoodie.read_table(table, columns=["id", "n"]).to_pylist()
    return sorted((row["id"], row["n"]) for row in found)


def test_delete(run: Run, table: str) -> None:
    source = csv("keys.csv", "id,day\nk0,2026-01-01\nk5,2026-01-03\nk9,2026-01-03\n")
    before = listing(Path(table))
    code, out, _ = run("delete", "--table", table, "--source", source, "--dry-run")
    assert code == 0
    head, *lines = out.splitlines()
    assert head == "delete would change 2 partitions of orders: 2 rows deleted; nothing was written"
    assert lines[0].split() == ["partition", "deleted", "new", "files", "about"]
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["day=2026-01-01", "1", "1"],
        ["day=2026-01-03", "1", "1"],
    ]
    assert lines[-1] == "  1 row whose key is not in the table"
    assert listing(Path(table)) == before
    code, out, _ = run("delete", "--table", table, "--source", source)
    assert out.startswith("Committed delete 2")
    assert ": 0 inserted, 0 updated, 2 deleted" in out
    assert "  1 row whose key is not in the table" in out
    assert [key for key, _ in rows(table)] == ["k1", "k2", "k3", "k4"]


def test_delete_without_the_partition_column(run: Run, table: str) -> None:
    code, out, _ = run("delete", "--table", table, "--source", csv("keys.csv", "id\nk0\n"), "--json")
    assert code == 1
    error = document(out)["error"]
    assert error["code"] == "input"
    assert (
        "the input lacks day; a delete needs the columns of record key and partition path: id, day"
        in (error["message"])
    )


def test_insert_overwrite(run: Run, table: str) -> None:
    source = csv("rows.csv", "id,day,n\nk7,2026-01-01,7\n")
    dry = document(run("insert-overwrite", "--table", table, "--source", source, "--dry-run", "--json")[1])
    assert (dry["status"], dry["dry_run"], dry["num_replaced"]) == ("planned", True, 1)
    (planned,) = dry["planned"]
    assert (planned["partition"], planned["inserts"], planned["replaced_rows"]) == ("day=2026-01-01", 1, 2)
    code, out, _ = run("insert-overwrite", "--table", table, "--source", source)
    assert code == 0
    assert out.startswith("Committed insert_overwrite 2")
    assert "  1 file group replaced" in out
    assert rows(table) == [("k2", 2), ("k3", 3), ("k4", 4), ("k5", 5), ("k7", 7)]
    whole = ["insert-overwrite-table", table, "--source", source]
    code, out, _ = run(*whole, "--dry-run")
    assert out.startswith(
        "insert_overwrite_table would change 3 partitions of orders: 1 row inserted, 3 file groups with "
    )
    result = document(run(*whole, "--json")[1])
    assert (result["operation"], result["num_replaced"]) == ("insert_overwrite_table", 3)
    assert rows(table) == [("k7", 7)]


def test_delete_partition(run: Run, table: str) -> None:
    command = ["delete-partitions", table, "--partition"]
    code, out, _ = run(*command, "day=2026-01-0*", "--dry-run")
    assert code == 0
    head, heads, _, *lines = out.splitlines()
    assert head == (
        "delete_partition would change 3 partitions of orders: 3 file groups with 6 rows replaced; "
        "nothing was written"
    )
    assert heads.split("  ")[0] == "partition"
    assert [line.split()[:3] for line in lines] == [[f"day=2026-01-0{n}", "1", "2"] for n in (1, 2, 3)]
    code, _, err = run(*command, "2026-01-02")
    assert code == 1
    assert "hoodie: no partition '2026-01-02' with rows in the table; the nearest are day=2026-01-02" in err
    code, out, _ = run(*command, "day=2026-01-02", "--partition", "day=2027-01-01", "--missing-ok")
    assert code == 0
    assert out.startswith("Committed delete_partition 2")
    assert "warning: no partition 'day=2027-01-01'" in out
    assert [key for key, _ in rows(table)] == ["k0", "k1", "k4", "k5"]


def test_every_write_has_a_dry_run(run: Run, table: str) -> None:
    source = csv("rows.csv", "id,day,n\nk0,2026-01-01,8\nk9,2026-01-09,9\n")
    before = listing(Path(table))
    for command, expected in (("upsert", (1, 1)), ("insert", (2, 0)), ("bulk-insert", (2, 0))):
        result = document(run(command, "--table", table, "--source", source, "--dry-run", "--json")[1])
        assert (result["num_inserts"], result["num_updates"]) == expected, command
    assert listing(Path(table)) == before
