"""`hoodie compact` as people and programs use it, and the job that spark-submit starts for it."""

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
from hoodie.cli import main
from hoodie.jobs import _main
from tests.support.cli import Run, said
from tests.unit.write.support import listing

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.bloom.num_entries": 200,
}
ONE = ("--option", "hoodie.compact.inline.max.delta.commits=1")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `hoodie compact --table t` beside a table of a base file and a log: code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for version in (1, 2):
        rows = pa.table({"id": ["a", "b"], "ts": [version, version]})
        hoodie.write_table(rows, "t", options=OPTIONS)

    def call(*arguments: str) -> tuple[int, str, str]:
        return said(capsys, ("compact", "--table", "t", *arguments))

    return call


def document(answer: tuple[int, str, str]) -> Any:
    assert answer[1].count("\n") == 1
    return json.loads(answer[1])


def test_a_dry_run_names_the_logs_and_changes_nothing(run: Run) -> None:
    before = listing(Path("t"))
    code, out, err = run("--dry-run", *ONE)
    assert (code, err) == (0, "")
    head, log = out.splitlines()
    assert head.startswith("A compaction of t would merge 1 log file of ")
    assert head.endswith(" in 1 file slice")
    assert Path("t", log.strip()).is_file()
    planned = document(run("--dry-run", "--json", *ONE))
    assert planned["files"] == {"": [log.strip()]}
    assert (planned["status"], planned["dry_run"], planned["compacted"]) == ("planned", True, [])
    code, out, _ = run("--dry-run")
    assert (code, out[:42]) == (0, "Nothing to do for t: no compaction is due:")
    assert listing(Path("t")) == before


def test_a_dry_run_tells_pending_plans(run: Run) -> None:
    planned = document(run("--mode", "schedule", "--json", *ONE))
    before = listing(Path("t"))
    code, out, _ = run("--mode", "execute", "--dry-run")
    assert code == 0
    assert out.splitlines()[1] == f"  pending compaction {planned['scheduled']}:"
    assert out.splitlines()[2].strip() in planned["files"][planned["scheduled"]]
    code, _, err = run("--mode", "execute", "--instant", "20200101000000000", "--dry-run")
    assert code == 1
    assert f"no compaction 20200101000000000 is pending on {Path('t').absolute()}" in err
    assert listing(Path("t")) == before


def test_by_default_it_schedules_and_executes(run: Run) -> None:
    code, out, err = run(*ONE)
    assert code == 0
    head, work = out.splitlines()
    (instant,) = (entry["instant"] for entry in hoodie.instants("t") if entry["action"] == "commit")
    assert head == f"Compacted t: {instant}"
    assert work.startswith("  1 log file of ")
    assert " in 1 file slice merged into 1 file of " in work
    assert ", 2 rows, " in work
    assert [line.partition(":")[0] for line in err.splitlines()] == ["schedule", "compact", "commit"]


def test_schedule_then_execute_for_people(run: Run) -> None:
    assert run("--mode", "schedule")[1].startswith("Nothing to do for t: no compaction is due: 2 of 5 delta")
    code, out, _ = run("--mode", "schedule", *ONE)
    head, pending = out.splitlines()
    assert code == 0
    assert head.startswith("Scheduled compaction 2")
    instant = head.split()[2]
    assert pending == f"  pending: {instant}"
    assert run("--mode", "execute", "--instant", instant)[1].startswith(f"Compacted t: {instant}\n")
    assert run("--mode", "execute")[1] == "Nothing to do for t: no compaction is pending\n"
    again = run("--mode", "execute", "--instant", instant)
    assert again[:2] == (0, f"Nothing to do for t: compaction {instant} is completed already\n")


def test_for_programs(run: Run) -> None:
    said = document(run("--json"))
    assert (said["status"], said["mode"], said["num_slices"]) == ("skipped", "run", 0)
    code, out, err = run("--json", "--mode", "schedule", *ONE)
    assert (code, err) == (0, "")
    scheduled = json.loads(out)
    assert scheduled["pending"] == [scheduled["scheduled"]]
    done = document(run("--json", "--mode", "execute"))
    assert (done["status"], done["compacted"]) == ("compacted", [scheduled["scheduled"]])
    assert (done["num_files"], done["num_writes"], done["num_log_files"]) == (1, 2, 1)
    assert done["bytes_written"] > 0


def test_what_is_wrong(run: Run) -> None:
    code, _, err = run("--instant", "20260101000000000")
    assert code == 1
    assert "instant 20260101000000000 is for mode execute" in err
    error = document(run("--json", "--mode", "execute", "--instant", "1"))["error"]
    assert (error["code"], "no compaction 1 is pending" in error["message"]) == ("configuration", True)
    assert run("--mode", "all")[0] == 2
    assert "--master is for --engine spark" in run("--master", "local[2]")[2]
    assert main(("compact", "--table", "nowhere")) == 1


def test_properties_file(run: Run) -> None:
    Path("c.properties").write_text("hoodie.compact.inline.max.delta.commits = 1\n")
    assert run("--properties", "c.properties")[1].startswith("Compacted t: ")


# --- the job -----------------------------------------------------------------------------------------------


@pytest.fixture
def job(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """Runs the job with the local engine in Spark's place: exit code and the HOODIE_* lines."""

    monkeypatch.setattr(SparkBackend, "started", LocalBackend.started)

    def call(request: Any) -> Any:
        capsys.readouterr()
        code = _main.main("compact", ["--request", json.dumps(request)])
        lines = [line.partition(" ") for line in capsys.readouterr().out.splitlines()]
        return code, [(kind, json.loads(text)) for kind, _, text in lines if kind.startswith("HOODIE_")]

    return call


def test_the_job_reports_its_result(run: Run, job: Callable[[Any], Any]) -> None:
    code, lines = job({"table": "t"})
    assert (code, lines[-1][0], lines[-1][1]["status"]) == (0, "HOODIE_RESULT", "skipped")
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    request = {"table": "t", "operation": "compact", "mode": "schedule", "options": options}
    _, lines = job({**request, "extra_metadata": {"token": "x"}})
    assert lines[-1][1]["status"] == "scheduled"
    code, lines = job({"table": "t", "mode": "execute", "instant": lines[-1][1]["instant"]})
    assert [kind for kind, _ in lines] == ["HOODIE_PROGRESS", "HOODIE_PROGRESS", "HOODIE_RESULT"]
    assert lines[-1][1]["status"] == "compacted"
    [commit] = Path("t", ".hoodie").glob("*.commit")
    assert json.loads(commit.read_text())["extraMetadata"]["token"] == "x"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "the request has no table; it needs table"),
        ({"table": "t", "source": {"path": "x"}}, "unknown fields source; there are table, operation, mode"),
        ({"table": "t", "operation": "upsert"}, "asks for 'upsert', this job does 'compact'"),
        ({"table": "t", "mode": "all"}, "mode is 'all'"),
        ({"table": "t", "options": "a=b"}, "the request's options are 'a=b'"),
    ],
)
def test_bad_requests(run: Run, job: Callable[[Any], Any], request_: Any, message: str) -> None:
    code, lines = job(request_)
    assert code == 1
    kind, error = lines[-1]
    assert (kind, error["code"]) == ("HOODIE_ERROR", "configuration")
    assert message in error["message"]
