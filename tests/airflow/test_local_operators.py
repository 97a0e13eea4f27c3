"""Jobs on the worker in a process of their own, by CleanOperator, and HiveSyncOperator with AWS Glue."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieJobError,
    HoodieJobKilledError,
    HoodieTableNotFoundError,
)
from airflow_hoodie.hooks.local import HoodieLocalHook
from airflow_hoodie.job_output import JobOutput
from airflow_hoodie.operators.services import CleanOperator, HiveSyncOperator
from airflow_hoodie.table import HoodieTable
from tests.support.glue import SECRETS, Glue

from .conftest import run_jobs_here

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
FEW = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    """Five commits of one row each."""
    made = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    options = {
        **made.options_for("upsert", {"hoodie.index.bloom.num_entries": 100}),
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    for number in range(5):
        hoodie.write_table(pa.table({"id": ["a"], "n": [number]}), made.path, options=options)
    return made


def run(task: Any) -> dict[str, Any]:
    result: dict[str, Any] = task.execute(context={})
    return json.loads(json.dumps(result))  # type: ignore[no-any-return]


@pytest.mark.full
def test_a_sync_with_glue(table: HoodieTable, glue: Glue, logged: Callable[[], str]) -> None:
    """The catalog by its short name, and by the options."""
    sync = partial(HiveSyncOperator, table=table, database="by_operator", options=glue.options)
    result = run(sync(task_id="sync", metastore="glue"))
    assert (result["status"], result["catalog"]) == ("synced", "AWS Glue")
    assert result["entries"][0]["entry"] == "by_operator.orders"
    assert "by_operator.orders: created" in logged()
    again = run(sync(task_id="again"))
    assert (again["status"], again["change_requests"]) == ("skipped", 0)
    assert not any(secret in logged() for secret in SECRETS)


def connected(monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    found = {"conn_type": "aws", "login": SECRETS[0], "password": SECRETS[1], **given}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_AWS", json.dumps(found))


@pytest.mark.full
def test_a_sync_with_glue_by_a_connection(
    table: HoodieTable, glue: Glue, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = {"glue": {"endpoint_url": glue.endpoint}, "s3": {"endpoint_url": "http://127.0.0.1:9"}}
    connected(monkeypatch, extra={"region_name": "eu-west-1", "service_config": services})
    task = HiveSyncOperator(
        task_id="sync", table=table, metastore="glue", database="by_conn", aws_conn_id="lake_aws"
    )
    result = run(task)
    assert (result["status"], result["entries"][0]["entry"]) == ("synced", "by_conn.orders")
    for text in (logged(), json.dumps(result), str(task.options)):
        assert not any(secret in text for secret in SECRETS)


def test_the_keys_of_a_connection_are_in_the_request_only(
    table: HoodieTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected(monkeypatch, extra={"region_name": "eu-west-1", "aws_session_token": "planted-token"})
    options = {"hoodie.aws.glue.region": "eu-north-1", "hoodie.meta.sync.client.tool.class": "GLUE"}
    task = HiveSyncOperator(task_id="sync", table=table, aws_conn_id="lake_aws", options=options)
    task.resolve()
    asked = task.request()["options"]
    assert {name: asked[name] for name in asked if name.startswith("hoodie.aws.")} == {
        "hoodie.aws.access.key": SECRETS[0],
        "hoodie.aws.secret.key": SECRETS[1],
        "hoodie.aws.session.token": "planted-token",
        "hoodie.aws.glue.region": "eu-north-1",
    }
    shown = str({name: getattr(task, name) for name in task.template_fields})
    assert not any(secret in shown for secret in (*SECRETS, "planted-token"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"aws_conn_id": "none"}, "aws_conn_id is 'none', which is not defined"),
        ({"metastore": "thrift://h:9083"}, "is not synced with AWS Glue; leave it out"),
        ({"options": {"hoodie.aws.access.key": "k"}}, "options have hoodie.aws.access.key, too"),
        ({"conn": {"conn_type": "wasb"}}, "is of type 'wasb'; aws_conn_id names one of type aws"),
        ({"conn": {"extra": {"role_arn": "arn:x"}}}, "extra has role_arn"),
        ({"conn": {"password": ""}}, "has an access key or its secret, not both"),
    ],
)
def test_connections_that_can_not_be_followed(
    given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected(monkeypatch, **given.pop("conn", {}))
    table = HoodieTable(name="orders", path="/lake/orders", record_keys="id")
    arguments = {"metastore": "glue", "aws_conn_id": "lake_aws", **given}
    task = HiveSyncOperator(task_id="sync", table=table, **arguments)
    task.resolve()
    with pytest.raises(HoodieConfigurationError, match=message) as refused:
        task.request()
    assert SECRETS[1] not in str(refused.value)


def test_it_needs_no_spark_connection_and_no_home_folder(
    table: HoodieTable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor must what lies in the worker's folder get in the way."""
    (tmp_path / "work" / "hoodie").mkdir(parents=True)
    (tmp_path / "work" / "hoodie" / "__init__.py").write_text("raise ImportError('another hoodie')")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    assert run(CleanOperator(task_id="clean", table=table, options=FEW))["status"] == "cleaned"


def test_a_table_that_is_not_there(tmp_path: Path, jobs_here: None) -> None:
    other = HoodieTable(name="none", path=str(tmp_path / "none"), record_keys="id")
    with pytest.raises(HoodieTableNotFoundError, match="none"):
        run(CleanOperator(task_id="clean", table=other))


def test_a_worker_without_the_packages(table: HoodieTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in ("pyarrow", "fastavro") else importlib.util.find_spec,
    )
    with pytest.raises(HoodieConfigurationError, match=r"no fastavro, pyarrow.*pip install fastavro pyarrow"):
        run(CleanOperator(task_id="clean", table=table))


#: instead of the job: says its process id and that of a child, and waits
ENDLESS = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("cleaning up", flush=True), sys.exit(143)))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("pids", os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def endless(monkeypatch: pytest.MonkeyPatch, code: str = ENDLESS) -> None:
    monkeypatch.setattr(HoodieLocalHook, "_command", lambda self: [sys.executable, "-c", code])


def test_a_killed_task_ends_its_job(
    table: HoodieTable, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    endless(monkeypatch)
    task = CleanOperator(task_id="clean", table=table, kill_grace_seconds=5)
    said = threading.Event()
    pids: list[int] = []
    take = JobOutput.take

    def watch(self: JobOutput, line: str) -> bool:
        if line.startswith("pids"):
            pids.extend(map(int, line.split()[1:]))
            said.set()
        return take(self, line)

    monkeypatch.setattr(JobOutput, "take", watch)

    def kill() -> None:
        if said.wait(90):
            task.on_kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HoodieJobKilledError, match="killed because the task was"):
        run(task)
    killer.join()
    assert "cleaning up" in logged()
    for pid in pids:
        deadline = time.monotonic() + 90
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not Path(f"/proc/{pid}").exists() or _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


#: put before the clean job: it stops when it is about to write its plan, with the table claimed
HELD = """
import time
import hoodie.services.clean.run as module
module.CleanPlan.to_bytes = lambda self: (print("holding", flush=True), time.sleep(600))
"""


def test_a_killed_task_lets_the_job_give_the_table_back(
    table: HoodieTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real job: SIGTERM withdraws its claim, so that the next run need not wait for it to be dead."""
    command = HoodieLocalHook._command

    def held(self: HoodieLocalHook) -> list[str]:
        python, flag, boot, *rest = command(self)
        return [python, flag, boot.replace("runpy.run", f"exec({HELD!r}); runpy.run"), *rest]

    holding = threading.Event()
    take = JobOutput.take

    def watch(self: JobOutput, line: str) -> bool:
        if line == "holding":
            holding.set()
        return take(self, line)

    beats = Path(table.path, ".hoodie", ".heartbeat")
    seen: list[int] = []

    def kill() -> None:
        assert holding.wait(90)
        seen.append(len(list(beats.iterdir())))
        task.on_kill()

    with monkeypatch.context() as patched:
        patched.setattr(HoodieLocalHook, "_command", held)
        patched.setattr(JobOutput, "take", watch)
        task = CleanOperator(task_id="clean", table=table, options=FEW, kill_grace_seconds=20)
        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(HoodieJobKilledError, match="killed because the task was"):
            run(task)
        killer.join()
    assert seen == [1]
    assert list(beats.iterdir()) == []
    run_jobs_here(monkeypatch)
    assert run(CleanOperator(task_id="clean", table=table, options=FEW))["status"] == "cleaned"


def test_a_job_that_dies(table: HoodieTable, monkeypatch: pytest.MonkeyPatch) -> None:
    endless(monkeypatch, f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    with pytest.raises(HoodieJobKilledError, match="killed by signal 9") as killed:
        run(CleanOperator(task_id="clean", table=table))
    assert killed.value.exit_code == -signal.SIGKILL
    endless(monkeypatch, "print('no module of that name'); raise SystemExit(3)")
    with pytest.raises(HoodieJobError, match=r"exit code 3(.|\n)*no module of that name"):
        run(CleanOperator(task_id="clean", table=table))


def test_variables_reach_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    endless(
        monkeypatch,
        """
import json, os
nonce = json.load(open(0))["nonce"]
print("HOODIE_RESULT:" + nonce, json.dumps({"seen": os.environ["SEEN"]}))
""",
    )
    assert HoodieLocalHook("clean", env_vars={"SEEN": 7}).run({})["seen"] == "7"
    assert "SEEN" not in os.environ


def test_texts_of_a_table_begin_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Neither a job's own lines nor Spark's move the cursor or look like messages of a task."""
    text = "p=\x1b[2J\nERROR forged"
    output = JobOutput(logging.getLogger("job"), nonce="n")
    result = {"operation": "upsert", "table": text, "partitions": [text], "warnings": [text]}
    services = {"operation": "services", "summary": f"clean: {text}"}
    for kind, value in (
        ("PROGRESS", {"step": text, "text": text}),
        ("RESULT", result),
        ("RESULT", services),
        ("ERROR", {"code": "table", "message": text}),
    ):
        with caplog.at_level(logging.INFO):
            assert output.take(f"HOODIE_{kind}:n {json.dumps(value)}")
    assert len(caplog.messages) == 6  # each line of a summary is a message of its own
    assert not any("\x1b" in message or "\n" in message for message in caplog.messages)
    assert sum("p=\\x1b[2J\\nERROR forged" in message for message in caplog.messages) == 4
    assert output.report == {"code": "table", "message": text}
    assert output.other("\tat a.b\x1b[2J\x9b") == "\tat a.b\\x1b[2J\\x9b"
