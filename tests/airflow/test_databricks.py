"""What is Databricks' own of a job on it (airflow_hoodie.clusters.databricks), against a stand-in for a
workspace; tests/airflow/test_platforms.py has what all platforms do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_hoodie.clusters import State
from airflow_hoodie.clusters.databricks import Databricks
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError
from tests.airflow.databricks_server import Workspace
from tests.airflow.machines import kill
from tests.airflow.platforms import Task
from tests.airflow.test_kill import wait_for
from tests.airflow.test_platforms import on_a_first_day
from tests.airflow.test_turns import writer

EXISTING = {"existing_cluster_id": "0930-1", "new_cluster": None}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    with on_a_first_day("databricks", tmp_path, monkeypatch) as found:
        yield found


def workspace(task: Task) -> Workspace:
    assert isinstance(task.platform, Workspace)
    return task.platform


def platform(task: Task, **options: Any) -> Databricks:
    return Databricks(**{**task.platform.options, **options})


def test_a_submission_whose_answer_is_lost(task: Task) -> None:
    """The hook repeats it, and its token makes one run of both."""
    workspace(task).lost = 1
    assert task.done()["status"] == "committed"
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (1, 1, [])


@pytest.mark.full
def test_all_answers_to_a_submission_are_lost(task: Task) -> None:
    """The task takes its run along, and its retry starts another one."""
    task.done()
    task.next_day("id,n\na,2\n")
    workspace(task).lost = 2
    with writer(task.table):
        with pytest.raises(HoodieJobError, match=r"Databricks is unreachable .*failed 2 times"):
            task.operator().execute(task.context)
        job = task.platform.machines.jobs[-1]
        wait_for(lambda: job.poll() is not None, "the run's end")
    assert task.done()["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (2, 3, [])


def test_what_a_run_is_submitted_with(task: Task) -> None:
    cluster = {**task.platform.options["new_cluster"], "spark_conf": {"a": "1", "spark.driver.memory": "1g"}}
    arguments = {
        "engine_options": {**task.platform.options, "new_cluster": cluster},
        "driver_memory": "4g",
        "packages": "org.x:y:1, org.x:z:2",
        "jars": "/Volumes/x.jar",
        "py_files": "/Volumes/own-1-py3-none-any.whl",
    }
    task.deferred(**arguments)
    [run] = task.platform.described
    [described] = run["tasks"]
    tag = task.store["hoodie_submission"]["tag"]
    assert (run["idempotency_token"], run["run_name"].split()[0]) == (tag, tag)
    assert described["new_cluster"] == {**cluster, "spark_conf": {"a": "1", "spark.driver.memory": "4g"}}
    volume = task.folder / "volume"
    script = described["spark_python_task"]
    assert script["parameters"] == ["--request", f"@{volume}/requests/{tag}.json"]
    own, *others = described["libraries"]
    assert (list(own), own["whl"]) == (["whl"], script["python_file"].removesuffix(".py") + ".whl")
    assert Path(own["whl"]).parent == volume
    assert others == [
        {"whl": "/Volumes/own-1-py3-none-any.whl"},
        {"jar": "/Volumes/x.jar"},
        {"maven": {"coordinates": "org.x:y:1"}},
        {"maven": {"coordinates": "org.x:z:2"}},
        {"pypi": {"package": "fastavro>=1.9"}},
    ]


def test_a_cluster_that_is_there(task: Task) -> None:
    options = {**task.platform.options, **EXISTING, "libraries": []}
    assert task.done(engine_options=options)["status"] == "committed"
    [described] = task.platform.described[0]["tasks"]
    assert described["existing_cluster_id"] == "0930-1"
    assert [list(library) for library in described["libraries"]] == [["whl"]]


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"new_cluster": None}, {}, "give one of the two"),
    ({"existing_cluster_id": "0930-1"}, {}, "give one of the two"),
    (EXISTING, {"driver_memory": "4g"}, r"spark\.driver\.memory would have no effect"),
    ({}, {"num_executors": 4}, r"spark\.executor\.instances has no effect .*num_workers"),
    ({}, {"repositories": "https://maven"}, r"spark\.jars\.repositories has no effect .*maven library"),
    ({}, {"py_files": "/Volumes/own.zip"}, r"takes no /Volumes/own\.zip.*wheels"),
    ({}, {"archives": "/Volumes/env.tar.gz"}, r"takes no /Volumes/env\.tar\.gz"),
    ({}, {"files": "/Volumes/x.json"}, r"takes no /Volumes/x\.json"),
]


@pytest.mark.parametrize(("options", "arguments", "text"), REFUSED)
def test_what_is_refused(options: dict[str, Any], arguments: dict[str, Any], text: str, task: Task) -> None:
    """Nothing is started."""
    with pytest.raises(HoodieConfigurationError, match=text):
        task.operator(engine_options={**task.platform.options, **options}, **arguments).execute(task.context)
    assert (task.platform.machines.jobs, task.left()) == ([], [])


@pytest.mark.parametrize(
    ("uploads", "path", "address"),
    [
        ("s3a://jobs/hoodie", None, "s3://jobs/hoodie"),
        ("abfss://jobs@account.dfs.core.windows.net/hoodie", None, None),
        ("s3://jobs/hoodie", "/Volumes/main/jobs/hoodie/", "/Volumes/main/jobs/hoodie"),
    ],
)
def test_addresses(uploads: str, path: str | None, address: str | None) -> None:
    found = Databricks(uploads=uploads, uploads_path=path, existing_cluster_id="0930-1")
    assert found.uploads_address() == (address or uploads)


def state(life: str, result: str = "", message: str = "", **more: Any) -> dict[str, Any]:
    return {"life_cycle_state": life, "result_state": result, "state_message": message, **more}


def test_states_of_a_run(task: Task) -> None:
    task.deferred()
    kill(task.platform.machines.jobs[0])
    asked, states = platform(task), workspace(task).states
    for life in ("QUEUED", "PENDING", "BLOCKED", "WAITING_FOR_RETRY", "TERMINATING", "of next year"):
        states[0] = state(life)
        assert asked.status("0").state is State.RUNNING
    states[0] = state("TERMINATING", user_cancelled_or_timedout=True)
    assert asked.status("0").state is State.ENDING
    ended = {"SUCCESS": State.SUCCEEDED, "CANCELED": State.KILLED, "TIMEDOUT": State.KILLED}
    for result in (*ended, "FAILED", "UPSTREAM_FAILED", "MAXIMUM_CONCURRENT_RUNS_REACHED"):
        states[0] = state("TERMINATED", result)
        assert asked.status("0").state is ended.get(result, State.FAILED)
    states[0] = state("INTERNAL_ERROR", "", "Library installation failed.")
    found = asked.status("0")
    assert (found.state, found.said.startswith("INTERNAL_ERROR: Library installation failed.")) == (
        State.FAILED,
        True,
    )
    assert asked.ui("0") == "https://workspace.example/#job/900/run/0"


def test_the_end_has_the_error_of_the_run(task: Task) -> None:
    """Of a script that fails before the job can leave its error beside the table."""
    script = task.folder / "own.py"
    script.write_text("raise ModuleNotFoundError('No module named fastavro')\n")
    with pytest.raises(HoodieJobError, match=r"FAILED: .*No module named fastavro"):
        task.done(application=str(script))


def test_a_run_that_is_not_known(task: Task) -> None:
    asked = platform(task)
    assert asked.status("7").state is State.UNKNOWN
    assert (asked.ui("7"), asked.find("no-such-tag")) == ("", None)
    asked.kill("7")


def test_credentials_that_are_wrong(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    given = json.loads(os.environ["AIRFLOW_CONN_DATABRICKS_DEFAULT"])
    for password, text in (
        ("other", "refuses to list runs with HTTP 403: .*Invalid access"),
        ("", "`login`"),
    ):
        monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps({**given, "password": password}))
        with pytest.raises(HoodieConfigurationError, match=text):
            task.operator().execute(task.context)
