"""`hoodie doctor` and the look at a table: what is sound, what is found wrong, and what changes nothing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.cli import doctor, main
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.checkup import ERROR, NOTE, OK, WARNING, worst
from hoodie.table.doctor import check_table
from hoodie.table.heartbeat import Heartbeat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime
from scripts.environment import ROOT
from tests.support.handles import table_at
from tests.support.stores import store_at, timeline_at

STORAGE = LocalStorage()
OPTIONS = {"hoodie.datasource.write.recordkey.field": "id", "hoodie.index.bloom.num_entries": "100"}
PENDING = "20260102000000000"


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "orders")
    hoodie.write_table(pa.table({"id": ["a", "b"], "n": [1, 2]}), path, options=OPTIONS)
    return path


def found(path: str, check: str) -> list[tuple[str, str, str]]:
    """Status, text and remedy of the findings of a check; looking changed nothing."""
    before = snapshot(path)
    findings = check_table(path)
    assert snapshot(path) == before
    return [(item.status, item.text, item.remedy) for item in findings if item.check == check]


def snapshot(path: str) -> dict[str, tuple[int, int]]:
    files = [item for item in Path(path).rglob("*") if item.is_file()]
    return {str(item): (item.stat().st_mtime_ns, item.stat().st_size) for item in files}


def begin(path: str, action: Action, state: State = State.INFLIGHT, age_s: float = 0) -> Instant:
    """Files of an instant up to a state, so old."""
    for step in (State.REQUESTED, State.INFLIGHT):
        if step <= state:
            store_at(path).create(Instant(InstantTime(PENDING), action, step), b"")
            file = store_at(path).path(Instant(InstantTime(PENDING), action, step))
            os.utime(file, (time.time() - age_s, time.time() - age_s))
    return Instant(InstantTime(PENDING), action, state)


def test_a_sound_table(table: str) -> None:
    findings = check_table(table)
    assert worst(findings) == OK
    checks = [item.check for item in findings]
    assert checks == ["table", "storage", "metadata table", "timeline", "files", "pending", "services"]
    version = hoodie.Table(table).version
    assert findings[0].text.startswith(f"orders at {table}: COPY_ON_WRITE, table version {version}, keys id")


def test_no_table(tmp_path: Path) -> None:
    [finding] = check_table(str(tmp_path))
    assert (finding.check, finding.status) == ("table", ERROR)
    assert "no .hoodie folder" in finding.text
    [finding] = check_table("ftp://lake/orders")
    assert "no storage for scheme 'ftp'" in finding.text


def test_damaged_properties(table: str) -> None:
    Path(table, ".hoodie", "hoodie.properties").write_text("hoodie.table.name=orders\n")
    [finding] = check_table(table)
    assert finding.status == ERROR
    assert "restore the file from a copy" in finding.text


def test_a_newer_table(table: str) -> None:
    properties.update(STORAGE, table, {})
    file = Path(table, ".hoodie", "hoodie.properties")
    version = hoodie.Table(table).version
    file.write_text(file.read_text().replace(f"table.version={version}", "table.version=10"))
    [finding] = check_table(table)
    assert "table version 10" in finding.text


def test_an_interrupted_change_of_properties(table: str) -> None:
    file = Path(table, ".hoodie", "hoodie.properties")
    file.with_name("hoodie.properties.backup").write_bytes(file.read_bytes())
    [(status, _, remedy)] = found(table, "properties")
    assert (status, remedy) == (
        WARNING,
        "nothing, if no process is at work: the next write puts it right",
    )


def test_features_that_are_not_supported(table: str) -> None:
    properties.update(STORAGE, table, {properties.DROP_PARTITION_COLUMNS: "true"})
    [(status, text, _)] = found(table, "features")
    assert (status, "drop.partition.columns=true" in text) == (WARNING, True)


def test_the_metadata_table(table: str) -> None:
    properties.update(STORAGE, table, {properties.METADATA_PARTITIONS: "files"})
    [(status, text, _)] = found(table, "metadata table")
    assert (status, text) == (ERROR, "the properties name files, but .hoodie/metadata is missing")
    Path(table, ".hoodie", "metadata").mkdir()
    assert found(table, "metadata table")[0][0] == OK
    properties.update(STORAGE, table, {properties.METADATA_PARTITIONS: None})
    assert found(table, "metadata table")[0][0] == WARNING


@pytest.mark.parametrize("content", [b"", b'{"partitionToWriteStats": {"'])
def test_a_commit_that_can_not_be_read(table: str, content: bytes) -> None:
    [commit] = timeline_at(table).glob("*.commit")
    commit.write_bytes(content)
    _, (status, text, remedy) = found(table, "timeline")
    assert status == ERROR
    assert text.startswith(f"can't be read, empty or cut short: {commit.stem[:17]} commit completed")
    assert "hoodie rollback" in remedy


def test_an_instant_in_the_future(table: str) -> None:
    store_at(table).create(Instant(InstantTime("29990101000000000"), Action.CLEAN, State.COMPLETED), b"x")
    _, (status, text, _) = found(table, "timeline")
    assert (status, "instants in the future: 29990101000000000" in text) == (WARNING, True)


def test_files_of_the_newest_commit(table: str) -> None:
    [file] = Path(table).glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    [(status, text, _)] = found(table, "files")
    assert status == ERROR
    assert f"{file.name} has " in text
    file.unlink()
    assert found(table, "files")[0][1].endswith(f"{file.name} is missing")


@pytest.mark.parametrize(
    ("action", "state", "age_s", "status", "said"),
    [
        (Action.COMMIT, State.INFLIGHT, 3700, WARNING, "1 hour ago: a failed write"),
        (Action.DELTACOMMIT, State.REQUESTED, 0, WARNING, "a failed write"),
        (Action.ROLLBACK, State.REQUESTED, 0, WARNING, "it did not come to its end"),
        (Action.COMPACTION, State.REQUESTED, 0, NOTE, "a plan that waits to be carried out"),
        (Action.COMPACTION, State.REQUESTED, 200_000, WARNING, "2 days ago: a plan that waits"),
        (Action.COMPACTION, State.INFLIGHT, 0, WARNING, "begun, and no process is at work on it"),
        (Action.CLEAN, State.INFLIGHT, 0, NOTE, "a plan that waits"),
        (Action.INDEXING, State.REQUESTED, 0, NOTE, "a plan that waits"),
        (Action.REPLACECOMMIT, State.REQUESTED, 0, WARNING, "a failed write"),
    ],
)
def test_what_is_pending(
    table: str, action: Action, state: State, age_s: float, status: str, said: str
) -> None:
    begin(table, action, state, age_s)
    [(told, text, remedy)] = found(table, "pending")
    assert (told, said in text) == (status, True), text
    assert PENDING in text
    assert remedy


def test_a_live_writer(table: str) -> None:
    begin(table, Action.COMMIT)
    beat = Heartbeat(table_at(table), PENDING, 60_000, 2)
    beat.start()
    try:
        [(status, text, _)] = found(table, "pending")
        assert (status, f"process {os.getpid()} on " in text) == (NOTE, True)
        assert worst(check_table(table)) == NOTE
    finally:
        beat.silence()
    assert found(table, "pending")[0][0] == WARNING


def test_leftovers(table: str) -> None:
    heartbeats = Path(table, ".hoodie", ".heartbeat")
    heartbeats.mkdir(exist_ok=True)
    (heartbeats / PENDING).write_bytes(b"")
    os.utime(heartbeats / PENDING, (1, 1))
    Path(table, ".hoodie", ".temp", "20260101000000000").mkdir(parents=True)
    (first, text, _), (second, markers, _) = found(table, "leftovers")
    assert (first, second) == (NOTE, NOTE)
    assert text == f"heartbeats of processes that are gone: {PENDING}"
    assert markers == "markers of finished writes: 20260101000000000"


def test_services_that_do_not_keep_up(table: str) -> None:
    for number in range(101):
        for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
            store_at(table).create(Instant(InstantTime(f"20250101{number:09d}"), Action.COMMIT, state), b"{}")
    told = found(table, "services")
    assert [(status, text) for status, text, _ in told] == [
        (WARNING, "102 writes since the last clean"),
        (WARNING, "102 writes on the active timeline: archiving does not keep up"),
    ]
    assert told[0][2].startswith("hoodie clean; hoodie services plan")


# The machine and the command ------------------------------------------------------------------------


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("spark", "java", "status", "said"),
    [
        ("version 3.5.1", "17.0.2", (OK, OK), ""),
        ("version 4.2.0", "21.0.1", (OK, OK), ""),
        ("version 4.2.0", "1.8.0_392", (OK, WARNING), "Spark 4 takes 17, 21"),
        ("version 3.3.0", "11.0.1", (WARNING, OK), "3.3.0"),
        ("JAVA_HOME is not set", "17.0.2", (ERROR, OK), "JAVA_HOME is not set"),
    ],
)
def test_spark_and_java(tmp_path: Path, spark: str, java: str, status: tuple[str, str], said: str) -> None:
    program(tmp_path / "spark/bin/spark-submit", spark)
    program(tmp_path / "java/bin/java", f'openjdk version "{java}" 2024-01-16')
    environ = {"SPARK_HOME": str(tmp_path / "spark"), "JAVA_HOME": str(tmp_path / "java"), "PATH": "/bin"}
    told = {item.check: item for item in doctor.check_machine(environ=environ)}
    assert (told["spark"].status, told["java"].status) == status
    assert said in told["spark"].text + told["java"].text
    assert all(bool(told[name].remedy) == (told[name].status != OK) for name in ("spark", "java"))


def test_neither_spark_nor_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    told = {item.check: item for item in doctor.check_machine(environ={"PATH": str(tmp_path)})}
    assert told["spark"].text == "no spark-submit: not in SPARK_HOME, on PATH or in Python"
    assert told["java"].status == WARNING
    assert "no pyarrow, numpy, fastavro" in told["packages"].text


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"pyspark": "4.10.0", "pyspark-client": "4.2.0"}, "pyspark==4.2.0 pyspark-client==4.2.0"),
        ({"pyspark": "4.2.0", "pyspark-client": "4.2.0"}, None),
        ({"pyspark": "3.5.9"}, None),
    ],
)
def test_packages_that_write_the_same_files(
    versions: dict[str, str], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    told = [item for item in doctor.check_machine(environ={"PATH": ""}) if item.status == WARNING]
    remedies = [item.remedy for item in told if "write the same files" in item.text]
    assert remedies == ([f"pip install --force-reinstall --no-deps {said}"] if said else [])


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command without a look at the machine's Spark."""
    monkeypatch.setattr(doctor, "check_machine", lambda binary: [])
    return lambda *arguments: main(["doctor", *arguments])


def test_the_command(table: str, quiet: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert quiet("--table", table) == 0
    assert capsys.readouterr().out.endswith("7 findings: all is well\n")
    begin(table, Action.COMMIT)
    assert quiet("--table", table, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == WARNING
    assert {"check": "pending", "status": WARNING} in [
        {name: item[name] for name in ("check", "status")} for item in document["findings"]
    ]
    next(Path(table).glob("*.parquet")).unlink()
    assert quiet("--table", table) == 1
    out = capsys.readouterr().out
    assert "FAIL  files" in out
    assert out.endswith("7 findings: 1 error, 1 warning\n")


@pytest.mark.table_version(6)
def test_it_needs_the_standard_library_only(table: str) -> None:
    """As on Airflow's machines."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('pyarrow', 'numpy', 'fastavro', 'pyspark')));"
        "from hoodie.table.doctor import check_table; import hoodie.cli.doctor;"
        "print([item.status for item in check_table(sys.argv[1])])"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "spark_jobs")}
    run = subprocess.run(
        [sys.executable, "-c", code, table], env=environ, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == str([OK] * 7)
