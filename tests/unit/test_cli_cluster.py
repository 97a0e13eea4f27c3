"""`hoodie cluster` as people and programs use it, and the job that spark-submit starts for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend
from hoodie.jobs import _main
from tests.support.cli import Run, said
from tests.unit.write.support import listing

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": 200,
    "hoodie.parquet.small.file.limit": 0,
}
SORTED = ("--option", "hoodie.clustering.plan.strategy.sort.columns=ts")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `hoodie cluster --table t` beside a table of two files: code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for keys in (["a", "b"], ["c", "d"]):
        hoodie.write_table(pa.table({"id": keys, "ts": [2, 1]}), "t", operation="insert", options=OPTIONS)

    def call(*arguments: str) -> tuple[int, str, str]:
        return said(capsys, ("cluster", "--table", "t", *arguments))

    return call


def test_a_dry_run_names_the_files_and_changes_nothing(run: Run) -> None:
    before = listing(Path("t"))
    code, out, err = run("--dry-run", *SORTED)
    assert (code, err) == (0, "")
    head, *files = out.splitlines()
    assert head == "A clustering of t would rewrite 2 file groups in 1 group into about 1 file"
    assert len(files) == 2
    assert all(Path("t", file.strip()).is_file() for file in files)
    planned = json.loads(run("--dry-run", "--json", *SORTED)[1])
    assert planned["files"] == {"": [file.strip() for file in files]}
    assert (planned["status"], planned["clustered"]) == ("planned", [])
    assert listing(Path("t")) == before


def test_by_default_it_schedules_and_executes(run: Run) -> None:
    code, out, err = run(*SORTED)
    assert code == 0
    head, work = out.splitlines()
    (instant,) = (entry["instant"] for entry in hoodie.instants("t") if entry["action"] == "replacecommit")
    assert head == f"Clustered t: {instant}"
    assert work.startswith("  2 file groups in 1 group rewritten into 1 file of ")
    assert ", 4 rows, " in work
    assert [line.partition(":")[0] for line in err.splitlines()] == ["schedule", "cluster", "commit"]
    assert run(*SORTED)[1].startswith("Nothing to do for t: rewriting the 1 small file slices would change")


def test_schedule_then_execute(run: Run) -> None:
    code, out, _ = run("--mode", "schedule", *SORTED)
    head, pending = out.splitlines()
    assert (code, head.partition(" of t")[2]) == (0, ": 2 file groups in 1 group")
    instant = head.split()[2]
    assert pending == f"  pending: {instant}"
    code, out, _ = run("--mode", "execute", "--dry-run")
    assert out.splitlines()[1] == f"  pending clustering {instant}:"
    assert run("--mode", "execute", "--instant", instant)[1].startswith(f"Clustered t: {instant}\n")
    again = run("--mode", "execute", "--instant", instant)
    assert again[:2] == (0, f"Nothing to do for t: clustering {instant} is completed already\n")


def test_what_is_wrong(run: Run) -> None:
    code, _, err = run("--instant", "20260101000000000")
    assert code == 1
    assert "instant 20260101000000000 is for mode execute" in err
    code, out, _ = run("--json", "--option", "hoodie.clustering.plan.strategy.sort.columns=nope")
    error = json.loads(out)["error"]
    assert (code, error["code"]) == (1, "configuration")
    assert "names nope, which the table does not have; it has _hoodie_commit_time" in error["message"]
    assert run("--mode", "all")[0] == 2


@pytest.fixture
def job(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Runs the job with the local engine in Spark's place: exit code and the last HOODIE_* line."""

    monkeypatch.setattr(SparkBackend, "started", LocalBackend.started)

    def call(request: Any) -> Any:
        capsys.readouterr()
        code = _main.main("cluster", ["--request", json.dumps(request)])
        kind, _, text = capsys.readouterr().out.splitlines()[-1].partition(" ")
        return code, kind, json.loads(text)

    return call


def test_the_job_reports_its_result(run: Run, job: Callable[[Any], Any]) -> None:
    code, kind, result = job({"table": "t", "mode": "run", "extra_metadata": {"by": "test"}})
    assert (code, kind, result["status"]) == (0, "HOODIE_RESULT", "clustered")
    assert "files" not in result
    code, kind, error = job({"table": "t", "mode": "execute", "instant": "1"})
    assert (code, kind, error["code"]) == (1, "HOODIE_ERROR", "configuration")
