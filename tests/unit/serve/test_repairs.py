"""What to run beside failed, frozen and late entries, as the page's health has it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hoodie.serve.page import Page
from hoodie.storage.local import LocalStorage
from hoodie.timeline.tokens import INTERVAL_KEY, RUN_KEY
from tests.airflow.timelines import WrittenTimeline

#: a writer that has begun
WRITER = """
import sys, time
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import Heartbeat
Heartbeat(Table(TableRef(sys.argv[1]), LocalStorage()), sys.argv[2], 60_000, 2).start()
print("begun", flush=True)
time.sleep(99)
"""


def repair(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Page(lambda: {"t": path}).get("tables/t/health").body)
    assert "error" not in found
    return dict(found["repair"])


def kinds(found: dict[str, Any]) -> list[str]:
    return [step["kind"] for step in found["steps"]]


def test_a_table_in_order_has_no_steps(tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    table.commit()
    assert repair(table.path)["steps"] == []


def test_a_failed_write(tmp_path: Path) -> None:
    """The command is for a shell, whatever the folder is called."""
    folder = tmp_path / "a lake; rm -rf $HOME"
    folder.mkdir()
    table = WrittenTimeline.create(folder)
    instant = table.begin().time
    found = repair(table.path)
    assert kinds(found) == ["failed"]
    assert found["steps"][0]["text"] == (
        f"commit {instant} did not end: the next write rolls it back, `hoodie services run` does at once"
    )
    assert shlex.split(found["maintain"]["command"]) == ["hoodie", "services", "run", table.path]


def test_the_operator_is_python(tmp_path: Path) -> None:
    from hoodie.table import properties

    table = WrittenTimeline.create(tmp_path)
    assert repair(table.path)["maintain"]["operator"] == "", "it has no record key"
    file = Path(table.path, properties.META_FOLDER, "hoodie.properties")
    file.write_text(file.read_text() + "hoodie.table.recordkey.fields=id,day\n")
    called: dict[str, Any] = {}
    text = repair(table.path)["maintain"]["operator"]
    eval(text, {"MaintenanceOperator": lambda **given: called.update(given), "HoodieTable": dict})
    assert called == {
        "task_id": "maintain",
        "table": {"name": "orders", "path": table.path, "record_keys": ["id", "day"]},
    }


def test_a_frozen_process_goes_first(tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    instant = table.begin().time
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, table.path, instant], stdout=subprocess.PIPE
    ) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            writer.send_signal(signal.SIGSTOP)
            os.utime(Path(table.path, ".hoodie/.heartbeat", instant), (1, 1))
            found = repair(table.path)
        finally:
            writer.kill()
    assert kinds(found) == ["frozen", "failed"]
    assert found["steps"][0]["command"] == f"kill -KILL {writer.pid}"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now is a day later."""
    real = LocalStorage.now_ms
    monkeypatch.setattr(LocalStorage, "now_ms", lambda self: real(self) + 24 * 3_600_000)


@pytest.mark.usefixtures("later")
def test_a_late_table_names_the_dag_that_wrote_it(tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    interval = "2026-01-31T10:00:00+00:00/2026-01-31T11:00:00+00:00"
    table.commit(extra={RUN_KEY: "hourly/upsert/-1/run=r1", INTERVAL_KEY: interval})
    found = repair(table.path)
    assert kinds(found) == ["late"]
    assert shlex.split(found["steps"][0]["command"]) == ["airflow", "dags", "trigger", "hourly"]


@pytest.mark.usefixtures("later")
def test_a_late_table_that_no_task_wrote(tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    table.fill(60)
    (step,) = repair(table.path)["steps"]
    assert (step["kind"], step["command"]) == ("late", "")
    assert "the program that writes the table" in step["text"]


def test_a_table_that_is_read_only_here(tmp_path: Path) -> None:
    table = WrittenTimeline.create(tmp_path)
    table.begin()
    file = Path(table.path, ".hoodie", "hoodie.properties")
    file.write_text(file.read_text().replace("hoodie.table.version=6", "hoodie.table.version=7"))
    found = repair(table.path)
    assert found["maintain"] == {"command": "", "operator": ""}
    assert "use Apache Hudi for it" in found["steps"][0]["text"]
