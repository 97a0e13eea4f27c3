"""The job protocol: what a script prints and returns, and once the real thing through spark-submit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

import hoodie
from hoodie.backend import Backend
from hoodie.backend.local import LocalBackend
from hoodie.backend.spark import SparkBackend
from hoodie.bundle import bundle_zip, job_script
from hoodie.errors import ConfigError, InputError
from hoodie.jobs import _main
from tests.conftest import require

Lines = list[tuple[str, dict[str, Any]]]
REQUEST: dict[str, Any] = {
    "table": "t",
    "source": {"path": "in.csv"},
    "options": {"hoodie.datasource.write.recordkey.field": "id"},
}


def marked(output: str) -> Lines:
    """The HOODIE_* lines: kind and value."""
    out: Lines = []
    for line in output.splitlines():
        kind, _, text = line.partition(" ")
        if kind.startswith("HOODIE_"):
            out.append((kind.removeprefix("HOODIE_"), json.loads(text)))
    return out


@pytest.fixture
def job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Any], tuple[int, Lines]]:
    """Runs `main` in this process, with Arrow in Spark's place."""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkBackend, "started", LocalBackend.started)

    def call(request: Any) -> tuple[int, Lines]:
        text = request if isinstance(request, str) else json.dumps(request)
        code = _main.main("upsert", ["--request", text])
        return code, marked(capsys.readouterr().out)

    return call


@pytest.mark.table_version(6)
def test_progress_then_the_result(job: Callable[[Any], tuple[int, Lines]]) -> None:
    Path("in.csv").write_text("id,t\n1,é\n2,b\n")
    code, lines = job({**REQUEST, "operation": "upsert", "extra_metadata": {"token": "x"}})
    assert code == 0
    kinds = [kind for kind, _ in lines]
    assert kinds == ["PROGRESS"] * (len(kinds) - 1) + ["RESULT"]
    assert all(set(value) == {"step", "text"} for _, value in lines[:-1])
    result = lines[-1][1]
    assert (result["status"], result["operation"], result["num_inserts"]) == ("committed", "upsert", 2)
    assert result["instant"] == hoodie.instants("t")[-1]["instant"]
    [commit] = Path("t", ".hoodie").glob("*.commit")
    assert json.loads(commit.read_text())["extraMetadata"]["token"] == "x"


def test_a_defect_of_the_text_fails_no_job(
    job: Callable[[Any], tuple[int, Lines]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise KeyError("rows")

    monkeypatch.setattr(_main, "text_of", fail)
    Path("in.csv").write_text("id\n1\n")
    code, lines = job({**REQUEST, "engine": "local"})
    assert (code, lines[-1][0]) == (0, "RESULT")
    assert (lines[-1][1]["status"], lines[-1][1]["num_inserts"]) == ("committed", 1)
    assert lines[-1][1]["summary"] == "upsert is done; its text failed: KeyError: 'rows'"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_request_names_its_engine(
    engine: str, job: Callable[[Any], tuple[int, Lines]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    find = _main._backend

    def found(name: str) -> type[Backend]:
        asked.append(name)
        return find(name)

    monkeypatch.setattr(_main, "_backend", found)
    Path("in.csv").write_text("id\n1\n")
    assert job({**REQUEST, "engine": engine})[0] == 0
    assert asked == [engine]
    code, lines = job({**REQUEST, "engine": "flink"})
    assert (code, lines[-1][1]["code"]) == (1, "configuration")
    assert "flink" in lines[-1][1]["message"]


@pytest.mark.parametrize("error", [MemoryError("malloc of size 9 failed"), RuntimeError(_main._NO_THREAD)])
def test_a_job_without_memory_says_what_to_do(
    error: Exception, job: Callable[[Any], tuple[int, Lines]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise error

    monkeypatch.setattr(LocalBackend, "read_source", fail)
    code, lines = job({**REQUEST, "engine": "local"})
    assert (code, lines[-1][0]) == (1, "ERROR")
    assert lines[-1][1]["message"].endswith("; give the job more of it, or run it on Spark")
    assert lines[-1][1]["values"] == {"out_of_memory": True}


def test_an_error_of_ours(job: Callable[[Any], tuple[int, Lines]]) -> None:
    Path("in.csv").write_text("id,n\n1,1\n,2\n")
    code, lines = job(REQUEST)
    assert code == 1
    assert [kind for kind, _ in lines].count("ERROR") == 1
    kind, error = lines[-1]
    assert kind == "ERROR"
    assert error["code"] == InputError.code
    assert "null" in error["message"]
    assert not Path("t").exists()


def test_an_error_that_nobody_expected(
    job: Callable[[Any], tuple[int, Lines]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(hoodie, "write_table", broken, raising=False)
    Path("in.csv").write_text("id\n1\n")
    code, lines = job(REQUEST)
    assert code == 1
    assert lines[-1] == (
        "ERROR",
        {"code": "job", "message": "the job failed: ZeroDivisionError: division by zero", "values": {}},
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("{", "--request is no JSON"),
        ("[]", "--request is no JSON object"),
        ({"source": {"path": "x"}}, "the request has no table"),
        ({"table": "t"}, "the request has no source"),
        ({**REQUEST, "tabel": "t"}, "unknown fields tabel"),
        ({**REQUEST, "options": "a=b"}, "the request's options are 'a=b'"),
        ({**REQUEST, "operation": "insert"}, "asks for 'insert', this job does 'upsert'"),
    ],
)
def test_bad_requests(request_: Any, message: str, job: Callable[[Any], tuple[int, Lines]]) -> None:
    code, lines = job(request_)
    assert code == 1
    [(kind, error)] = lines
    assert kind == "ERROR"
    assert error["code"] == ConfigError.code
    assert message in error["message"]


@pytest.mark.parametrize("where", ["file", "standard input"])
def test_the_request_from_elsewhere(
    where: str,
    job: Callable[[Any], tuple[int, Lines]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("in.csv").write_text("id\n1\n")
    text = json.dumps({**REQUEST, "extra_metadata": {"by": "é"}}, ensure_ascii=False).encode()
    if where == "file":
        Path("request.json").write_bytes(text)
        given = "@request.json"
    else:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        given = "-"
    assert _main.main("upsert", ["--request", given]) == 0
    assert marked(capsys.readouterr().out)[-1][0] == "RESULT"
    assert _main.main("upsert", ["--request", "@missing.json"]) == 1
    error = marked(capsys.readouterr().out)[-1][1]
    assert (error["code"], "can't read the request @missing.json" in error["message"]) == (
        "configuration",
        True,
    )


def test_every_line_carries_the_nonce(
    job: Callable[[Any], tuple[int, Lines]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_text("id\n1\n")
    for source, last in (("in.csv", "RESULT"), ("missing.csv", "ERROR")):
        request = {**REQUEST, "source": source, "nonce": "n0nce"}
        _main.main("upsert", ["--request", json.dumps(request)])
        kinds = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()]
        assert all(kind.startswith("HOODIE_") and kind.endswith(":n0nce") for kind in kinds)
        assert kinds[-1] == f"HOODIE_{last}:n0nce"
    assert "letters and digits" in job({**REQUEST, "nonce": "a b"})[1][-1][1]["message"]


def test_a_job_says_no_secret(
    job: Callable[[Any], tuple[int, Lines]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever it says: progress, the result's warnings, its error, a traceback."""
    secret = "hunter-2/é"
    options = {**REQUEST["options"], "hoodie.metrics.datadog.api.key": secret}
    Path("in.csv").write_text("id\n1\n")
    told: list[Any] = []
    write = hoodie.write_table

    def talking(*args: Any, progress: Any, **kwargs: Any) -> Any:
        progress("test", f"with {secret}")
        if told:
            raise RuntimeError(f"refused {secret}")
        return replace(write(*args, progress=progress, **kwargs), warnings=[f"about {secret}"])

    monkeypatch.setattr(hoodie, "write_table", talking)
    for last in ("RESULT", "ERROR"):
        _main.main("upsert", ["--request", json.dumps({**REQUEST, "options": options})])
        said = capsys.readouterr()
        told = marked(said.out)
        assert told[-1][0] == last
        assert ("PROGRESS", {"step": "test", "text": "with ******"}) in told
        for text in (said.out, said.err):
            assert secret not in text
            assert "hunter" not in text
    assert "RuntimeError: refused ******" in said.err


def test_a_secret_is_not_committed(job: Callable[[Any], tuple[int, Lines]]) -> None:
    Path("in.csv").write_text("id\n1\n")
    for extra in ({"fs.s3a.access.key": "hunter-2"}, {"from": "jdbc:postgresql://u:hunter-2@h/db"}):
        code, lines = job({**REQUEST, "extra_metadata": extra})
        assert (code, lines[-1][1]["code"]) == (1, "configuration")
        assert f"extra metadata {next(iter(extra))!r} holds a secret" in lines[-1][1]["message"]
        assert "hunter" not in json.dumps(lines)
        assert not Path("t").exists()


@pytest.mark.parametrize("named", [True, False], ids=["by an argument", "by the request"])
def test_the_script_runs_the_job_that_is_named(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves with the code of the job, and just ends where that is 0: an exit may fail on a platform."""
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("id\n1\n")
    local = {**REQUEST, "engine": "local"}
    for fails, request in ((False, local), (True, {**local, "operation": "clean"})):
        request = request if named else {"operation": "insert", **request}
        arguments = [*(["insert"] if named else []), "--request", json.dumps(request)]
        monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
        left = pytest.raises(SystemExit, match=r"^1$") if fails else contextlib.nullcontext()
        with left:
            runpy.run_path(str(job_script()), run_name="__main__")
    assert len(hoodie.instants("t")) == 1


def test_a_job_in_a_thread(job: Callable[[Any], tuple[int, Lines]]) -> None:
    """No signal reaches it; a platform may run it there."""
    Path("in.csv").write_text("id\n1\n")
    with ThreadPoolExecutor(1) as pool:
        code, lines = pool.submit(job, REQUEST).result()
    assert (code, lines[-1][1]["status"]) == (0, "committed")


@pytest.mark.spark
@pytest.mark.full
def test_the_session_of_a_cluster_is_not_stopped(tmp_path: Path) -> None:
    """On Databricks other jobs use it. Elsewhere a job's session ends with the job."""
    require(os.environ.get("SPARK_HOME"), "no SPARK_HOME")
    code = """
import os
from hoodie.engine.session import spark_session
for cluster in (True, False):
    os.environ.update({"DATABRICKS_RUNTIME_VERSION": "17.3"} if cluster else {})
    with spark_session("local[1]") as spark:
        pass
    os.environ.pop("DATABRICKS_RUNTIME_VERSION", None)
    print("STOPPED", spark.sparkContext._jsc is None)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.findall("STOPPED (.*)", done.stdout) == ["False", "True"]


@pytest.mark.spark
def test_a_job_through_spark_submit(tmp_path: Path) -> None:
    """From an empty folder, with the zip alone: the executors find the package in it."""
    home = os.environ.get("SPARK_HOME")
    require(home, "no SPARK_HOME")
    data = tmp_path / "in"
    data.mkdir()
    rows = pa.table({"id": [1, 2, 3], "region": ["é", "us", "us"], "n": [1.5, 2.0, None]})
    pyarrow.csv.write_csv(rows, data / "a.csv")
    table = str(tmp_path / "t")
    request = {
        "table": table,
        "source": {"path": f"{data}/*.csv"},
        "options": {
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.index.bloom.num_entries": "200",
        },
    }
    empty = tmp_path / "empty"
    empty.mkdir()
    command = [
        f"{home}/bin/spark-submit",
        *["--master", "local[1]", "--conf", "spark.sql.codegen.wholeStage=true"],
        *["--conf", "spark.sql.codegen.factoryMode=FALLBACK"],  # Spark's defaults: code is generated
        *["--py-files", str(bundle_zip(tmp_path / "zip")), str(job_script()), "upsert"],
        *["--request", json.dumps(request)],
    ]
    environ = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, cwd=empty, env=environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    lines = marked(run.stdout)
    assert [kind for kind, _ in lines].count("RESULT") == 1
    assert lines[-1][1]["num_inserts"] == 3
    assert lines[-1][1]["partitions"] == ["us", "é"]
    found = hoodie.read_table(table, meta=False).sort_by("id")
    assert found.to_pylist() == rows.to_pylist()
    assert os.listdir(empty) == []
