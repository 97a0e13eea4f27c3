"""Detached jobs of the local engine: processes that outlive their task, are found by their tag, and end with
one commit, whatever is killed. They are watched by their table (hoodie.timeline.running_jobs).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

import hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.clusters.worker import WorkerJobs
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieJobError,
    HoodieJobKilledError,
    HoodieTableError,
)
from airflow_hoodie.operators.services import CleanOperator
from airflow_hoodie.operators.write import UpsertOperator
from hoodie.errors import StorageError
from hoodie.timeline import running_jobs
from hoodie.timeline.running_jobs import LifeSign, RunningJob

from .detached import Tries, killed, run
from .test_kill import wait_for
from .test_turns import writer


@dataclass(kw_only=True)
class Task(Tries):
    source: str

    def operator(self, **arguments: Any) -> Any:
        defaults: dict[str, Any] = {
            "task_id": "write", "table": self.table, "source": self.source, "engine": "local",
            "detached": True, "poll_interval": 0.1,
        }  # fmt: skip
        return UpsertOperator(**{**defaults, **arguments})

    @property
    def tag(self) -> str:
        return str(self.store["hoodie_submission"]["tag"])

    @property
    def sign(self) -> LifeSign | None:
        return RunningJob(path=self.table.path, options={}, tag=self.tag).read()

    @property
    def pid(self) -> int:
        assert self.sign is not None
        return self.sign.pid

    def left(self) -> list[str]:
        """Files that jobs left for tasks."""
        return [
            path.name
            for folder in ("airflow-jobs", "airflow-results", "airflow-rows")
            for path in Path(self.table.path, ".hoodie/.aux", folder).glob("*")
        ]

    def ids(self) -> list[str]:
        found: list[str] = hoodie.read_table(self.table.path, columns=["id"])["id"].to_pylist()
        return sorted(found)


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    """Of an upsert of one row into a table with another one."""
    table = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    hoodie.write_table(pa.table({"id": ["a"], "n": [0]}), table.path, options=table.options_for("upsert"))
    (tmp_path / "in.csv").write_text("id,n\nb,1\n")
    made = Task(table=table, source=str(tmp_path / "in.csv"))
    yield made
    if "hoodie_submission" in made.store and (sign := made.sign) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(sign.pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- a job ------------------------------------------------------------------------------------------------


def test_the_task_waits_in_the_triggerer_and_has_the_result_and_the_output(
    task: Task, logged: Callable[[], str]
) -> None:
    trigger = task.deferred()
    result = task.resumed(trigger)
    assert (result["status"], result["num_inserts"]) == ("committed", 1)
    assert task.ids() == ["a", "b"]
    assert "[source] csv" in logged(), "the progress of the job is in the task's log"
    assert task.left() == []
    assert not [key for key, _ in task.pushed if "spark" in key]


def test_the_error_is_that_of_the_job(task: Task) -> None:
    Path(task.source).write_text("key,n\nb,1\n")
    trigger = task.deferred()
    with pytest.raises(Exception, match="id") as caught:
        task.resumed(trigger)
    assert type(caught.value).__module__ == "airflow_hoodie.exceptions"
    assert type(caught.value) is not HoodieJobError
    assert task.left() == []
    assert task.ids() == ["a"]


def test_a_service(task: Task) -> None:
    clean: Any = CleanOperator(task_id="write", table=task.table, detached=True, poll_interval=0.1)
    with pytest.raises(TaskDeferred) as caught:
        clean.execute(task.context)
    assert clean.execute_complete(task.context, run(caught.value.trigger))["status"] == "skipped"
    assert task.left() == []


def test_an_airflow_without_a_store_leaves_nothing(task: Task) -> None:
    """Before Airflow 3.3 a task's state ends with its try."""
    trigger = task.deferred()
    task.store.clear()
    assert task.resumed(trigger)["status"] == "committed"
    assert task.left() == []


@pytest.mark.full
def test_rows_of_another_task(task: Task) -> None:
    assert task.done(source=[{"id": "c", "n": 2}])["num_inserts"] == 1
    assert task.ids() == ["a", "c"]
    assert task.left() == []


@pytest.mark.full
def test_a_table_that_is_not_there_yet(task: Task, tmp_path: Path) -> None:
    task.table = HoodieTable(name="new", path=str(tmp_path / "new"), record_keys="id")
    assert task.done()["status"] == "committed"
    assert task.ids() == ["b"]


SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import CleanOperator, HoodieTable, UpsertOperator

    ORDERS = HoodieTable(name="orders", path={path!r}, record_keys="id")
    default = dict(engine="local", detached=True, poll_interval=0.1)
    with DAG("detached", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        write = UpsertOperator(task_id="write", table=ORDERS, source={source!r}, **default)
        write >> CleanOperator(task_id="clean", table=ORDERS, detached=True, poll_interval=0.1)
"""


@pytest.mark.full
def test_a_dag_of_detached_jobs(task: Task, load_dag: Callable[[str], Any]) -> None:
    """Airflow's task runner and trigger; a cleared run finds its commit."""
    dag = load_dag(SOURCE.format(path=task.table.path, source=task.source))
    day = datetime(2026, 1, 2, tzinfo=timezone.utc)
    for status in ("committed", "already_committed"):
        done = dag.test(logical_date=day)
        states = {ti.task_id: str(ti.state) for ti in done.get_task_instances()}
        assert states == {"write": "success", "clean": "success"}
        pulled = done.get_task_instances()[0].xcom_pull(task_ids="write")
        assert pulled["status"] == status
    assert task.ids() == ["a", "b"]
    assert task.commits() == 2
    assert task.left() == []


# --- deaths -----------------------------------------------------------------------------------------------

WORKER = """
import json, sys, time
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow_hoodie.operators.write import UpsertOperator
from tests.airflow.detached import Store, context_of
class Printed(Store):
    def set(self, key, value):
        print(json.dumps({key: value}), flush=True)
        self[key] = value
try:
    UpsertOperator(**json.loads(sys.argv[1])).execute(context_of(Printed()))
except TaskDeferred:
    print("deferred", flush=True)
time.sleep(600)
"""


def killed_worker(task: Task, at: str) -> None:
    """A first try of the task in a process of its own, which is killed with its group after it has printed a
    line with this text.
    """
    arguments = {
        "task_id": "write", "table": task.table.to_dict(), "source": task.source, "engine": "local",
        "detached": True, "poll_interval": 0.1,
    }  # fmt: skip
    command = [sys.executable, "-c", WORKER, json.dumps(arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            if line.startswith('{"hoodie_submission"'):
                task.store.update(json.loads(line))
            if at in line:
                break
        if at != "deferred":
            wait_for(lambda: task.sign is not None, "the job to begin")
        os.killpg(worker.pid, signal.SIGKILL)
    assert "hoodie_submission" in task.store


@pytest.mark.parametrize("at", ["deferred", pytest.param("hoodie_submission", marks=pytest.mark.full)])
def test_a_job_outlives_its_worker_and_the_next_try_waits_for_it(at: str, task: Task) -> None:
    with writer(task.table):  # for which the job waits
        killed_worker(task, at)
        tag, pid = task.tag, task.pid
        trigger = task.deferred()
        assert (task.tag, task.pid, alive(pid)) == (tag, pid, True), "it is the same process"
    result = task.resumed(trigger)
    assert (result["status"], result["num_inserts"]) == ("committed", 1)
    assert task.commits() == 2
    assert task.left() == []


@pytest.mark.full
def test_a_try_that_comes_after_the_end_has_the_commit(task: Task) -> None:
    killed_worker(task, "deferred")
    wait_for(lambda: not alive(task.pid), "the job to end")
    assert task.operator().execute(task.context)["status"] == "already_committed"
    assert task.commits() == 2


def test_a_try_that_does_not_know_of_the_process_makes_no_second_commit(task: Task) -> None:
    """As on an Airflow without state of tasks: the queue and the token of the table decide."""
    with writer(task.table):
        first = task.deferred()
        pid = task.pid
        other = Task(table=task.table, source=task.source)
        second = other.deferred()
        assert other.pid != pid
    results = [task.resumed(first), other.resumed(second)]
    assert sorted(result["status"] for result in results) == ["already_committed", "committed"]
    assert task.commits() == 2


def test_a_job_that_is_killed_fails_the_task_and_the_next_try_runs_it_again(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(task.table):
        trigger = task.deferred()
        pid = task.pid
        os.kill(pid, signal.SIGKILL)
        monkeypatch.setattr(running_jobs, "SILENT_MS", 100)
        with pytest.raises(HoodieJobError, match=rf"process {pid} on .* has said nothing for"):
            task.resumed(trigger)
        monkeypatch.undo()
    assert task.done()["status"] == "committed"
    assert task.commits() == 2
    assert task.left() == []


def test_killing_the_task_ends_the_process(task: Task) -> None:
    with writer(task.table):
        trigger = task.deferred()
        pid = task.pid
        killed(trigger)
        wait_for(lambda: not alive(pid), "the job to end")
        with pytest.raises(HoodieJobKilledError, match=r"was killed; the next write rolls back"):
            task.resumed(trigger)
    assert task.commits() == 1


def test_a_cleared_task_does_not_keep_its_process_from_its_end(task: Task) -> None:
    """The next try comes before the process has seen that it is to end."""
    with writer(task.table):
        trigger = task.deferred()
        pid = task.pid
        killed(trigger)
        again = task.deferred()
        assert task.pid != pid
        wait_for(lambda: not alive(pid), "the first job to end")
    assert task.resumed(again)["status"] == "committed"
    assert task.commits() == 2


@pytest.mark.full
def test_a_process_may_be_left_running(task: Task) -> None:
    with writer(task.table):
        trigger = task.deferred(cancel_on_kill=False)
        killed(trigger)
        again = task.deferred(cancel_on_kill=False)
    assert task.resumed(again)["status"] == "committed"
    assert task.commits() == 2


def test_a_job_that_can_not_begin_fails_the_task(task: Task) -> None:
    """The worker may not write to the table, so that nobody could find the job."""
    folder = Path(task.table.path, ".hoodie/.aux")
    folder.mkdir(exist_ok=True)
    (folder / "airflow-jobs").write_text("no folder")
    with pytest.raises(Exception, match="airflow-jobs"):
        task.operator().execute(task.context)
    assert task.commits() == 1


def test_a_storage_out_of_reach_is_asked_again(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    trigger = task.deferred()
    read, failures = RunningJob.read, [StorageError("the storage is away", transient=True)]

    def flaky(self: RunningJob) -> LifeSign | None:
        if failures:
            raise failures.pop()
        return read(self)

    monkeypatch.setattr(RunningJob, "read", flaky)
    assert task.resumed(trigger)["status"] == "committed"
    assert not failures


def test_what_is_no_life_sign_is_refused(task: Task) -> None:
    folder = Path(task.table.path, ".hoodie/.aux/airflow-jobs")
    folder.mkdir(parents=True)
    jobs = WorkerJobs(task.table.path, {}, {})
    assert jobs.sign("hoodie-1") is None
    sound = {"tag": "hoodie-1", "host": "h", "pid": 1 << 40, "state": "succeeded", "log": ""}
    (folder / "hoodie-1.json").write_text(json.dumps(sound))
    assert jobs.sign("hoodie-1") is not None
    for wrong in ({"tag": "x"}, {"state": "?"}, {"host": 1}, {"pid": "1"}, {"log": None}, {"log": "\ud800"}):
        (folder / "hoodie-1.json").write_text(json.dumps({**sound, **wrong}))
        with pytest.raises(HoodieTableError, match="is no life sign of a job"):
            jobs.sign("hoodie-1")
    for text in ("", "[]", "[" * 100_000, json.dumps({**sound, "log": "x" * 600_000})):
        (folder / "hoodie-1.json").write_text(text)
        with pytest.raises(HoodieTableError, match="is no life sign of a job"):
            jobs.sign("hoodie-1")


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"engine": "spark"}, "is for jobs in a process on the worker, not for engine='spark'"),
        ({"engine": "auto"}, "use engine='local'"),
        ({"deferrable": False}, "deferrable=False can't be with detached=True"),
        ({"exactly_once": False}, "use exactly_once=True"),
    ],
)
def test_what_can_not_be_detached(arguments: dict[str, Any], why: str, task: Task) -> None:
    with pytest.raises(HoodieConfigurationError, match=why):
        task.operator(**arguments)


def test_a_rendered_engine_is_checked_when_the_task_runs(task: Task) -> None:
    operator = task.operator(engine="{{ params.engine }}")
    operator.engine = "spark"
    with pytest.raises(HoodieConfigurationError, match="not for engine='spark'"):
        operator.execute(task.context)
