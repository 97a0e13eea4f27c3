"""`hoodie clean`, `hoodie archive` and `hoodie timeline --archived`, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from tests.support.cli import Run, document
from tests.unit.write.support import listing

FEW = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}
SET = [part for name, value in FEW.items() for part in ("--option", f"{name}={value}")]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Five commits of a row, none cleaned or archived."""
    path = str(tmp_path / "orders")
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.index.bloom.num_entries": 100,
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    for number in range(5):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), path, options=options)
    return path


def test_a_dry_run_of_a_clean_names_the_files_and_changes_nothing(run: Run, table: str) -> None:
    before = listing(Path(table))
    code, out, err = run("clean", "--table", table, "--dry-run", *SET)
    assert (code, err) == (0, "")
    head, *files = out.splitlines()
    assert head.startswith(
        "A clean of orders would delete 3 files in 1 partition; the table can be read as of 2"
    )
    assert [line[:2] for line in files] == ["  "] * 3
    assert all((Path(table) / line.strip()).is_file() for line in files)
    planned = document(run("clean", "--table", table, "--dry-run", "--json", *SET)[1])
    assert planned["files"] == {"": [line.strip() for line in files]}
    assert (planned["status"], planned["dry_run"], planned["num_files"]) == ("planned", True, 3)
    assert listing(Path(table)) == before


def test_a_clean_for_people(run: Run, table: str) -> None:
    code, out, err = run("clean", "--table", table, *SET)
    assert code == 0
    assert out.startswith("Cleaned orders, 2")
    assert ": 3 files in 1 partition, " in out
    assert " deleted; the table can be read as of 2" in out
    assert err.startswith("clean: instant 2")
    code, out, _ = run("clean", "--table", table, *SET)
    assert code == 0
    assert out.startswith("Nothing to do for orders: no clean is due: 0 of 1 commits since the last one")


def test_planned_and_executed_apart(run: Run, table: str) -> None:
    code, out, _ = run("clean", "--table", table, "--mode", "schedule", *SET)
    assert code == 0
    instant = out.split()[2]
    assert out.startswith(f"Scheduled clean {instant} of orders: 3 files in 1 partition")
    assert f"  pending: {instant}" in out
    shown = run("clean", "--table", table, "--mode", "execute", "--dry-run")[1]
    assert f"  pending clean {instant}:" in shown
    done = document(run("clean", "--table", table, "--mode", "execute", "--json")[1])
    assert (done["cleaned"], done["num_files"]) == ([instant], 3)


def test_a_dry_run_of_archiving_names_the_instants_and_changes_nothing(run: Run, table: str) -> None:
    before = listing(Path(table))
    times = [item["instant"] for item in hoodie.instants(table)]
    code, out, err = run("archive", "--table", table, "--dry-run", *SET)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "An archive run on orders would move 3 instants (9 files)",
        *(f"  {time} commit" for time in times[:3]),
        f"  the active timeline begins with commit {times[3]}",
    ]
    assert listing(Path(table)) == before


@pytest.mark.table_version(6)
def test_archiving_and_the_archived_timeline(run: Run, table: str) -> None:
    before = [item["instant"] for item in hoodie.instants(table)]
    code, out, _ = run("archive", "--table", table, *SET)
    assert code == 0
    assert out.startswith("Archived 3 instants (9 files) of orders into .commits_.archive.1_1-0-1, ")
    code, out, _ = run("timeline", "--table", table, "--archived")
    assert code == 0
    lines = out.splitlines()
    assert lines[-1] == f"{len(before)} instants"
    assert [line.split()[0] for line in lines[2:-2]] == before
    assert all(line.split()[1:4] == ["commit", "completed", "upsert"] for line in lines[2:5])
    every = document(run("timeline", table, "--archived", "--json")[1])["instants"]
    active = document(run("timeline", table, "--json")[1])["instants"]
    assert [item["instant"] for item in every] == before
    assert every[3:] == active
    assert set(every[0]) == set(active[0])
    code, out, _ = run("archive", "--table", table, *SET)
    assert code == 0
    assert out.startswith("Nothing to do for orders: the timeline has 2 commits, 3 of each may stay")


@pytest.mark.table_version(6)
def test_what_holds_instants_back_is_told(run: Run, table: str) -> None:
    times = [item["instant"] for item in hoodie.instants(table)]
    (Path(table) / f".hoodie/{times[1]}.savepoint").write_bytes(b"x")
    code, out, _ = run("archive", "--table", table, "--dry-run", *SET)
    assert code == 0
    assert (
        f"  held back from {times[1]} on: savepoint {times[1]} (hoodie.archive.beyond.savepoint is off)"
        in out
    )
    held = document(run("archive", "--table", table, "--json", *SET)[1])["held"]
    assert [item["from"] for item in held] == [times[1]]


def test_settings_from_a_file_and_errors(run: Run, table: str, tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("hoodie.keep.min.commits=2\nhoodie.keep.max.commits=2\n")
    code, out, err = run("archive", "--table", table, "--properties", str(file))
    assert (code, out) == (1, "")
    assert err.startswith("hoodie: hoodie.keep.min.commits=2 must be less than hoodie.keep.max.commits=2")
    code, out, _ = run("clean", "--table", str(tmp_path / "none"), "--json")
    assert (code, document(out)["error"]["code"]) == (1, "table_not_found")
    code, _, err = run("clean", "--table", table, "--engine", "spark")
    assert code == 2
    assert "--engine" in err
