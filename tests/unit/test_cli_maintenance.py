"""`hoodie services plan|run` for people and programs, and the job of MaintenanceOperator."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.backend import spark
from hoodie.cli import main
from hoodie.config.key import Config
from hoodie.engine.local import LocalEngine
from hoodie.jobs import _main
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.write.transaction import Transaction
from tests.support.cli import Run, said
from tests.unit.write.support import listing

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.bloom.num_entries": 100,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
DUE = {"hoodie.compact.inline.max.delta.commits": "2"}
SET = [part for name, value in DUE.items() for part in ("--option", f"{name}={value}")]


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A base file and two logs."""
    path = str(tmp_path / "orders")
    for number in range(3):
        hoodie.write_table(pa.table({"id": ["a", "b"], "n": [number] * 2}), path, options=OPTIONS)
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], table: str) -> Run:
    """`hoodie services ACTION --table t ...`: code, stdout, stderr."""

    def call(action: str, *arguments: str) -> tuple[int, str, str]:
        return said(capsys, ("services", action, "--table", table, *arguments))

    return call


def document(answer: tuple[int, str, str]) -> Any:
    assert answer[1].count("\n") == 1
    return json.loads(answer[1])


def test_the_plan_for_people(run: Run, table: str) -> None:
    before = listing(Path(table))
    code, out, err = run("plan", *SET)
    assert (code, err) == (0, "")
    head, _, columns, _, *rows = out.splitlines()
    assert head == "Services of orders (merge on read)"
    assert columns.split() == ["service", "due", "would", "why"]
    assert [row.split()[:2] for row in rows] == [
        ["restore", "no"],
        ["repair", "no"],
        ["compaction", "yes"],
        ["clustering", "no"],
        ["clean", "no"],
        ["archive", "no"],
    ]
    assert "merge 2 log files of 1 file slice, " in rows[2]
    assert "3 of 2 delta commits since " in rows[2]
    assert listing(Path(table)) == before


def test_what_is_stuck_or_at_work_is_told(run: Run, table: str) -> None:
    planned = hoodie.compact_table(table, mode="schedule", options=DUE).scheduled
    out = run("plan", *SET)[1]
    assert f"  compaction {planned} is waiting, requested for " in out
    with Transaction(Table(TableRef(table), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        out = run("plan", *SET)[1]
        assert f"  a writer is at work, instant {writer.instant}, process " in out


def test_a_run_for_people_and_for_programs(run: Run, table: str) -> None:
    before = listing(Path(table))
    code, out, _ = run("run", "--dry-run", *SET)
    assert code == 0
    assert "compaction: A compaction of orders would merge 2 log files" in out
    assert listing(Path(table)) == before
    code, out, err = run("run", *SET)
    assert code == 0
    assert [line.partition(":")[0] for line in out.splitlines() if not line.startswith(" ")] == [
        "restore",
        "repair",
        "compaction",
        "clustering",
        "clean",
        "archive",
    ]
    assert "compaction: Compacted orders: 2" in out
    assert "compact: instant " in err
    result = document(run("run", "--only", "clean, archive", "--json", *SET))
    assert (result["status"], list(result["services"])) == ("skipped", ["clean", "archive"])


def test_a_service_that_fails_is_exit_code_1(run: Run, table: str) -> None:
    with Transaction(Table(TableRef(table), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        code, out, _ = run("run", "--json", *SET)
        result = json.loads(out)
        assert (code, result["status"], result["failed"]) == (1, "failed", ["compaction"])
        assert result["services"]["compaction"]["error"]["code"] == "table_busy"
        code, out, _ = run("run", *SET)
        assert code == 1
        assert "compaction: failed: another writer is at work" in out
    code, out, _ = run("run", "--only", "vacuum", "--json")
    assert (code, document((code, out, ""))["error"]["code"]) == (1, "configuration")
    assert main(("services", "--table", table)) == 2


def test_the_job_starts_spark_only_when_there_is_work_for_it(
    table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []

    @contextlib.contextmanager
    def session(*_: Any) -> Iterator[str]:
        started.append("begun")
        yield "a session"
        started.append("ended")

    monkeypatch.setattr(spark, "spark_session", session)
    monkeypatch.setattr(spark.SparkBackend, "engine", lambda backend: LocalEngine())

    def job(**request: Any) -> dict[str, Any]:
        capsys.readouterr()
        given = {"table": table, "engine": "spark", "options": DUE, **request}
        assert _main.main("services", ["--request", json.dumps(given)]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        return json.loads(last.removeprefix("HOODIE_RESULT "))  # type: ignore[no-any-return]

    assert job(services=["clean", "archive"])["done"] == []
    assert started == []
    result = job()
    assert (result["done"], started) == (["compaction"], ["begun", "ended"])
    assert "files" not in result["services"]["compaction"]
    assert job()["done"] == []
    assert len(started) == 2
