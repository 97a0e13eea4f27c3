"""What is Dataproc's own of a job on it (airflow_hoodie.clusters.dataproc), against a stand-in.
test_dataproc.py runs these where Google's packages are; test_platforms.py has what all platforms do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_hoodie.clusters import State
from airflow_hoodie.clusters.dataproc import Dataproc
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieJobError
from tests.airflow.dataproc_server import Controller
from tests.airflow.platforms import Task
from tests.airflow.test_kill import wait_for
from tests.airflow.test_platforms import on_a_first_day
from tests.airflow.test_turns import writer


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    with on_a_first_day("dataproc", tmp_path, monkeypatch) as found:
        yield found


def controller(task: Task) -> Controller:
    assert isinstance(task.platform, Controller)
    return task.platform


def platform(task: Task, **options: Any) -> Dataproc:
    return Dataproc(**{**task.platform.options, **options})


def test_a_submission_whose_answer_is_lost(task: Task) -> None:
    """Google's client repeats it, and its id makes one job of both."""
    controller(task).lost = 1
    assert task.done()["status"] == "committed"
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (1, 1, [])


def test_all_answers_to_a_submission_are_lost(task: Task) -> None:
    """The task takes its job along, and its retry starts another one."""
    task.done()
    task.next_day("id,n\na,2\n")
    controller(task).lost = 1_000_000
    with writer(task.table):
        with pytest.raises(HoodieJobError, match="Dataproc is unreachable"):
            task.operator().execute(task.context)
        job = task.platform.machines.jobs[-1]
        wait_for(lambda: job.poll() is not None, "the job's end")
    controller(task).lost = 0
    assert task.done()["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (2, 3, [])


def test_what_a_job_is_submitted_with(task: Task) -> None:
    task.deferred(
        engine_options={**task.platform.options, "labels": {"team": "lake"}},
        driver_memory="4g",
        num_executors=4,
        archives="gs://jobs/env.tar.gz#env",
        jars="gs://jobs/x.jar",
        py_files="gs://jobs/own.zip",
    )
    [job] = task.platform.described
    tag = task.store["hoodie_submission"]["tag"]
    assert (job["reference"]["job_id"], job["placement"]["cluster_name"]) == (tag, "lake")
    assert job["labels"] == {"team": "lake", "hoodie-submission": tag}
    spark, uploads = job["pyspark_job"], f"file://{task.folder}/uploads"
    assert spark["args"] == ["--request", f"@{uploads}/requests/{tag}.json"]
    own, *others = spark["python_file_uris"]
    assert (own.startswith(f"{uploads}/hoodie-"), own.endswith(".zip"), others) == (
        True,
        True,
        ["gs://jobs/own.zip"],
    )
    assert spark["main_python_file_uri"] == own.removesuffix(".zip") + ".py"
    assert (spark["archive_uris"], spark["jar_file_uris"]) == (
        ["gs://jobs/env.tar.gz#env"],
        ["gs://jobs/x.jar"],
    )
    assert spark["properties"] == {
        "spark.app.name": "n",
        "spark.driver.memory": "4g",
        "spark.executor.instances": "4",
    }


def test_states_of_a_job(task: Task) -> None:
    task.deferred()
    [tag] = controller(task).jobs
    asked = platform(task)
    expected = {
        **dict.fromkeys(("PENDING", "SETUP_DONE", "RUNNING", "ATTEMPT_FAILURE"), State.RUNNING),
        **dict.fromkeys(("CANCEL_PENDING", "CANCEL_STARTED"), State.ENDING),
        "CANCELLED": State.KILLED,
        "DONE": State.SUCCEEDED,
        "ERROR": State.FAILED,
    }
    for name, state in expected.items():
        controller(task).states[tag] = name
        assert asked.status(tag).state is state
    assert asked.status(tag).said == (
        f"ERROR: Job failed with message [see the driver's output].: gs://staging/jobs/{tag}/driveroutput"
    )
    assert asked.ui(tag).endswith(f"/jobs/{tag}?region=europe-west1&project=planted-project")


def test_a_job_that_is_not_known(task: Task) -> None:
    asked = platform(task)
    assert asked.status("no-such").state is State.UNKNOWN
    assert (asked.ui("no-such"), asked.find("no-such")) == ("", None)
    asked.kill("no-such")


def test_a_job_that_has_ended_is_cancelled(task: Task) -> None:
    task.done()
    [tag] = controller(task).jobs
    platform(task).kill(tag)
    assert platform(task).status(tag).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cluster_name": "pond"}, "refuses the request: .*Not found: Cluster"),
        ({"project_id": "another"}, "refuses the request: .*Not authorized on another"),
    ],
)
def test_what_is_refused(options: dict[str, Any], text: str, task: Task) -> None:
    given = {**task.platform.options, **options}
    with pytest.raises(HoodieConfigurationError, match=text):
        task.operator(engine_options=given).execute(task.context)
    assert (task.platform.machines.jobs, task.left()) == ([], [])
