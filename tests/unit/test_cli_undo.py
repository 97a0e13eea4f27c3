"""`hoodie savepoint`, `hoodie rollback` and `hoodie restore`, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.jobs import _main
from tests.support.cli import Run
from tests.unit.write.support import listing


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Three commits of a row."""
    path = str(tmp_path / "orders")
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": 100}
    for number in range(3):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), path, options=options)
    return path


def times(table: str) -> list[str]:
    return [item["instant"] for item in hoodie.instants(table) if item["action"] == "commit"]


def document(out: str) -> dict[str, Any]:
    assert out.count("\n") == 1
    value: dict[str, Any] = json.loads(out)
    return value


def test_savepoint(run: Run, table: str) -> None:
    _, second, third = times(table)
    before = listing(Path(table))
    code, out, _ = run("savepoint", "--table", table, "--dry-run")
    assert (code, listing(Path(table))) == (0, before)
    (name,) = (path.name for path in Path(table).glob(f"*_{third}.parquet"))
    assert out.splitlines()[0].startswith(f"Savepoint {third} of orders would keep 1 file of ")
    assert out.splitlines()[1] == f"  {name}"
    made = run(
        "savepoint", "--table", table, "--instant", second, "--user", "me", "--comments", "x", "--json"
    )
    assert (made[0], document(made[1])["status"]) == (0, "created")
    code, out, _ = run("savepoint", "--table", table, "--instant", second)
    assert (code, out) == (0, f"Nothing to do for orders: commit {second} has a savepoint already by me: x\n")
    code, out, _ = run("timeline", "--table", table)
    assert [line.split()[:5] for line in out.splitlines() if "savepoint" in line] == [
        [second, "savepoint", "completed", "me,", "x"]
    ]
    code, out, err = run("savepoint", "--table", table, "--delete")
    assert code == 1
    assert "--delete needs --instant" in err
    code, out, _ = run("savepoint", "--table", table, "--instant", second, "--delete")
    assert out.startswith(f"Deleted savepoint {second} of orders: 1 file of ")


def test_rollback(run: Run, table: str) -> None:
    *_, second, third = times(table)
    before = listing(Path(table))
    code, out, _ = run("rollback", "--table", table, "--instant", third, "--dry-run")
    assert (code, listing(Path(table))) == (0, before)
    first_line, name = out.splitlines()
    assert first_line.startswith(f"A rollback of completed commit {third} of orders would delete 1 file of ")
    assert name.strip().endswith(f"_{third}.parquet")
    code, _, err = run("rollback", "--table", table, "--instant", second)
    assert (code, f"({third})" in err) == (1, True)
    done = document(run("rollback", "--table", table, "--instant", third, "--json")[1])
    assert (done["status"], done["target"], done["num_files"]) == ("rolled_back", third, 1)
    code, out, _ = run("timeline", "--table", table)
    assert [line.split()[:5] for line in out.splitlines() if "rollback" in line] == [
        [done["instant"], "rollback", "completed", "of", third]
    ]
    code, _, err = run("rollback", "--table", table)
    assert (code, "--instant" in err) == (2, True)


def test_restore(run: Run, table: str) -> None:
    first, second, third = times(table)
    before = listing(Path(table))
    code, out, _ = run("restore", "--table", table, "--instant", first, "--dry-run")
    assert (code, listing(Path(table))) == (0, before)
    lines = out.splitlines()
    assert lines[0].startswith(f"A restore of orders to {first} would take back 2 instants, 2 files of ")
    assert lines[1:3] == [f"  {third} commit", f"  {second} commit"]
    code, out, _ = run("restore", "--table", table, "--instant", first)
    assert code == 0
    assert out.startswith(f"Restored orders to {first} by ")
    (shown,) = (item for item in hoodie.instants(table) if item["action"] == "restore")
    assert (shown["restored_to"], shown["undone"]) == (first, [third, second])
    assert hoodie.read_table(table, columns=["n"]).to_pydict() == {"n": [0]}
    code, out, _ = run("restore", "--table", table, "--instant", first, "--json")
    assert (code, document(out)["status"]) == (0, "skipped")


@pytest.mark.parametrize("job", ["rollback", "savepoint", "restore"])
def test_as_jobs(table: str, job: str, capsys: pytest.CaptureFixture[str]) -> None:
    first, _, third = times(table)
    instant = first if job == "restore" else third
    request = {"table": table, "instant": instant, "options": {}}
    assert _main.main(job, ["--request", json.dumps(request)]) == 0
    kind, _, text = capsys.readouterr().out.strip().splitlines()[-1].partition(" ")
    assert (kind, json.loads(text)["operation"]) == ("HOODIE_RESULT", job)
    assert "files" not in json.loads(text)
    assert times(table) == {"rollback": times(table)[:2], "restore": [first]}.get(job, times(table))
    assert _main.main(job, ["--request", json.dumps({"table": table, "instant": "1", "delete": True})]) == (
        0 if job == "savepoint" else 1
    )


def test_a_savepoint_is_deleted_by_name_only(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main.main("savepoint", ["--request", json.dumps({"table": table, "delete": True})]) == 1
    assert "name that of the savepoint to delete" in capsys.readouterr().out
