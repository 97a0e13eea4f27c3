"""Tables of each version are listed by the standard library alone: by commands, sensors and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from scripts.environment import ROOT
from tests.support.later_tables import new_tables_of

WALL = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "pyarrow", "numpy", "pandas", "fastavro", "duckdb"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Wall())
sys.path[:0] = sys.argv[1:3]
table = sys.argv[3]
"""
SAID = "fastavro is not installed; commits of table versions 8 and 9, and plans and results of table services"
FIGURES = ("operation", "partitions", "inserts", "updates", "deletes", "files", "bytes")


@pytest.fixture(params=[6, 8, 9])
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    with new_tables_of(request.param):
        yield request.param


def made(path: Path) -> hoodie.Table:
    table = hoodie.Table(path)
    for keys in ("ab", "bc"):
        table.upsert(pa.table({"id": list(keys), "ts": [1, 1]}), keys="id", ordering="ts")
    return table


def alone(code: str, table: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WALL + code, str(ROOT), str(ROOT / "spark_jobs"), table]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def command(name: str, table: str) -> tuple[int, Any, str]:
    code = f"from hoodie.cli import main; sys.exit(main([{name!r}, table, '--json']))"
    done = alone(code, table)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_instants_and_files_are_listed(tmp_path: Path, version: int) -> None:
    """With what commits say where that is no Avro; else a warning names what to install."""
    table = made(tmp_path / "t")
    found, document, said = command("timeline", table.path)
    expected = hoodie.instants(table.path)
    if version > 6:
        expected = [{name: item[name] for name in item if name not in FIGURES} for item in expected]
    assert (found, document["instants"]) == (0, expected)
    assert (SAID in said and "pip install fastavro" in said) is (version > 6)
    found, document, _ = command("files", table.path)
    assert (found, document["file_groups"]) == (0, hoodie.file_groups(table.path))


def test_a_savepoint_and_replaced_files(tmp_path: Path, version: int) -> None:
    """Savepoints are Avro in each version, and so is what says since version 8 which files were replaced."""
    table = made(tmp_path / "t")
    table.savepoint()
    table.insert_overwrite_table(pa.table({"id": ["d"], "ts": [1]}))
    found, document, said = command("timeline", table.path)
    assert [item["action"] for item in document["instants"]] == [
        "commit",
        "commit",
        "savepoint",
        "replacecommit",
    ]
    assert ("user" in document["instants"][2], found, SAID in said) == (False, 0, True)
    found, document, _ = command("files", table.path)
    if version == 6:
        assert (found, document["file_groups"]) == (0, hoodie.file_groups(table.path))
    else:
        assert (found, document["error"]["code"]) == (1, "configuration")
        assert document["error"]["message"].startswith(SAID)


def test_sensors_wait_for_commits(tmp_path: Path, version: int) -> None:
    """By their instants; what asks for a partition or a token names what to install."""
    table = made(tmp_path / "t")
    table.insert_overwrite_table(pa.table({"id": ["d"], "ts": [1]}))
    code = """
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import condition
from hoodie.errors import NotInstalled
reader = TableReader(table)
for kind, arguments in ("commits", {"min_commits": 3}), ("freshness", {"max_age": 3600}):
    print(condition(kind, arguments).find(reader, reader.poll()).to_dict()["instant"])
try:
    print(condition("commits", {"token": "t"}).find(reader, reader.poll()))
except NotInstalled as error:
    print(error)
"""
    done = alone(code, table.path)
    *found, last = done.stdout.splitlines()
    assert found == [hoodie.instants(table.path)[-1]["instant"]] * 2, done.stderr
    assert last.startswith("None" if version == 6 else SAID)


def test_the_doctor_and_the_page(tmp_path: Path, version: int) -> None:
    table = made(tmp_path / "t")
    code = """
import json
from hoodie.serve.page import Page
from hoodie.table.doctor import check_table
findings = {item.check: (item.status, item.text) for item in check_table(table)}
page = json.loads(Page(lambda: {"t": table}).get("tables/t/instants", "").body)
print(json.dumps([findings, page["instants"]]))
"""
    done = alone(code, table.path)
    assert done.returncode == 0, done.stderr
    findings, shown = json.loads(done.stdout)
    assert "error" not in {status for status, _ in findings.values()}
    assert ("not looked at: fastavro is not installed here" in findings["files"][1]) is (version > 6)
    known = [item["instant"] for item in hoodie.instants(table.path)]
    assert sorted(item["instant"] for item in shown) == known
    assert all((item.get("num_inserts") is None) is (version > 6) for item in shown)
