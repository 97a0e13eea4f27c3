"""`hoodie index`, for people and for programs, and its job."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.jobs import _main
from tests.support.cli import Run


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "orders")
    options = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": 100}
    hoodie.write_table(pa.table({"id": ["a"], "n": [1]}), path, options=options)
    return path


def test_the_command(run: Run, table: str) -> None:
    assert run("index", "show", "--table", table)[:2] == (0, "orders has no indexes\n")
    code, out, _ = run("index", "create", "--table", table, "--indexes", "files", "--dry-run")
    assert (code, out) == (0, "hoodie index create of orders would change files\n")
    code, out, _ = run("index", "create", "--table", table, "--indexes", "files")
    assert code == 0
    assert out.startswith("Made files of orders\n  files          ready: 1 file group, 2 files of ")
    [newest] = [item["instant"] for item in hoodie.instants(table)]
    assert out.endswith(f"compacted up to {newest}\n")
    code, out, _ = run("index", "show", "--table", table, "--json")
    document = json.loads(out)
    assert (document["status"], document["indexes"][0]["index"]) == ("shown", "files")
    assert run("index", "rebuild", "--table", table)[1].startswith("Rebuilt files of orders\n")
    assert run("index", "drop", "--table", table)[1] == "Dropped files of orders\n"
    assert run("index", "drop", "--table", table)[1].startswith("Nothing to do for orders")
    code, _, err = run("index", "make", "--table", table)
    assert code == 2
    assert "invalid choice: 'make'" in err
    code, _, err = run("index", "create", "--table", table)
    assert code == 1
    assert "names no index to create" in err


def test_the_job(capsys: pytest.CaptureFixture[str], table: str) -> None:
    request = {"table": table, "mode": "create", "indexes": "files"}
    assert _main.main("index", ["--request", json.dumps(request)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    result = json.loads(last.removeprefix("HOODIE_RESULT "))
    assert (result["status"], result["made"], result["operation"]) == ("created", ["files"], "index")


@pytest.mark.full
def test_the_doctor(run: Run, table: str) -> None:
    hoodie.index_table(table, "create", "files")
    code, out, _ = run("doctor", "--table", table)
    assert "it lists the files that are there" in out
    [file] = Path(table).glob("*.parquet")
    file.rename(file.with_name("away"))
    code, out, _ = run("doctor", "--table", table)
    assert code == 1
    assert f"{file.name} is listed, and not there" in out
    assert f"hoodie index rebuild --table {table}" in out
