"""Jobs on platforms (airflow_hoodie.clusters.platform): a daily upsert by each engine, against a stand-in
that runs the packaged job as a process; deaths of jobs and workers, and one commit in the end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie import HoodieTable
from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.platform import PLATFORMS, Platform, Submission, find_platform
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
)
from airflow_hoodie.operators.services import CleanOperator
from airflow_hoodie.operators.write import UpsertOperator
from hoodie.storage import storage_for
from tests.airflow.detached import OF_JOBS, killed, run
from tests.airflow.machines import Machines, kill
from tests.airflow.platforms import HERE, MAKERS, Task
from tests.airflow.test_kill import wait_for
from tests.airflow.test_turns import tickets, writer
from tests.support.s3_store import served
from tests.support.tiers import full_but

SECRET = "planted-option"


@contextmanager
def made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    machines = Machines(folder)
    with ExitStack() as stack:
        stack.callback(machines.end)
        platform = stack.enter_context(MAKERS[name](machines, str(folder / "uploads"), monkeypatch))
        table = HoodieTable(name="orders", path=str(folder / "orders"), record_keys="id")
        yield Task(platform=platform, table=table, folder=folder)


#: the cases of a test on all platforms, in the full tier but these
every = pytest.mark.parametrize("task", HERE, indirect=True)
first = pytest.mark.parametrize("task", full_but({"livy"} & set(HERE), HERE), indirect=True)


@pytest.fixture
def task(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    with made(request.param, tmp_path, monkeypatch) as found:
        yield found


@contextmanager
def on_a_first_day(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """A task of the platform, whose first day is to be written."""
    with made(name, folder, monkeypatch) as task:
        task.next_day("id,n\na,1\n")
        yield task


def submits_and(error: BaseException, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """A try whose job is submitted, and which ends with the error before it knows that."""
    kind = find_platform(task.platform.engine)
    submit = kind.submit

    def unanswered(self: Platform, job: Submission) -> str:
        submit(self, job)
        raise error

    with monkeypatch.context() as first_try:
        first_try.setattr(kind, "submit", unanswered)
        with pytest.raises(type(error), match=str(error)):
            task.operator().execute(task.context)


@pytest.fixture
def livy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    """For what is the same on all platforms."""
    with made("livy", tmp_path, monkeypatch) as found:
        yield found


def test_each_platform_has_a_stand_in() -> None:
    assert set(MAKERS) == set(PLATFORMS)
    own = {"dataproc"}
    assert set(HERE) in (own, set(PLATFORMS) - own)


# --- a job ------------------------------------------------------------------------------------------------


@pytest.mark.full
@every
def test_two_days(task: Task) -> None:
    task.next_day("id,n\na,1\nb,1\n")
    assert task.done()["num_inserts"] == 2
    task.next_day("id,n\nb,2\nc,2\n")
    result = task.done()
    assert (result["status"], result["num_inserts"], result["num_updates"]) == ("committed", 1, 1)
    assert task.rows() == {"a": 1, "b": 2, "c": 2}
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (2, 2, [])


@pytest.mark.spark
@pytest.mark.full
@every
def test_a_day_by_spark(task: Task, real_spark: dict[str, Any]) -> None:
    from airflow_hoodie.compat.spark_provider import installed_spark_home

    home = installed_spark_home()
    assert home is not None
    task.platform.machines.spark = {"SPARK_HOME": home}
    task.arguments = {"driver_memory": "1g", "conf": {"spark.ui.enabled": "false"}}
    before = pa.table({"id": ["a", "b"], "n": [1, 1]})
    hoodie.write_table(before, task.table.path, options=task.table.options_for("upsert"))
    task.next_day("id,n\nb,2\nc,2\n")
    assert task.done()["num_updates"] == 1
    assert task.rows() == {"a": 1, "b": 2, "c": 2}
    assert (task.commits(), task.left()) == (2, [])


@first
def test_the_error_is_that_of_the_job(task: Task) -> None:
    task.next_day("key,n\na,1\n")
    trigger = task.deferred()
    with pytest.raises(Exception, match="id") as caught:
        task.resumed(trigger)
    assert type(caught.value).__module__ == "airflow_hoodie.exceptions"
    assert type(caught.value) is not HoodieJobError
    assert task.left() == []


def test_a_service_on_a_platform(livy: Task) -> None:
    livy.next_day("id,n\na,1\n")
    livy.done()
    clean: Any = CleanOperator(
        task_id="write", table=livy.table, engine="livy", engine_options=livy.platform.options
    )
    livy.store.clear()
    with pytest.raises(BaseException) as caught:
        clean.execute(livy.context)
    result = clean.execute_complete(livy.context, run(caught.value.trigger, OF_JOBS))  # type: ignore[attr-defined]
    assert (result["status"], livy.left()) == ("skipped", [])


def test_uploads_on_an_object_store(livy: Task) -> None:
    """The driver reads its request by its URI, with credentials of its own."""
    livy.next_day("id,n\na,1\n")
    with served():
        options = {"uploads": "s3a://lake/jobs/"}
        assert livy.done(engine_options=options)["num_inserts"] == 1
        jobs = storage_for("s3://lake/jobs")
        files = sorted(PurePath(item.name).suffix for item in jobs.list("s3://lake/jobs") if not item.is_dir)
        assert (files, jobs.list("s3://lake/jobs/requests")) == ([".py", ".zip"], [])
    [described] = livy.platform.described
    assert described["file"].startswith("s3a://lake/jobs/hoodie-")
    assert described["args"][1].startswith("@s3a://lake/jobs/requests/hoodie-")
    assert livy.rows() == {"a": 1}


# --- deaths -----------------------------------------------------------------------------------------------


def waiting(task: Task) -> Any:
    """The trigger of a job that waits for another writer of the table."""
    before = len(task.platform.machines.jobs)
    trigger = task.deferred()
    assert len(task.platform.machines.jobs) == before + 1
    wait_for(lambda: bool(tickets(task.table)), "the job to wait in the queue of the table")
    return trigger


@every
def test_a_job_that_is_killed_and_its_retry(task: Task) -> None:
    """The task fails with what the platform says, the retry writes, and there is one commit of the day."""
    task.next_day("id,n\na,1\nb,1\n")
    task.done()
    task.next_day("id,n\nb,2\nc,2\n")
    with writer(task.table):
        trigger = waiting(task)
        kill(task.platform.machines.jobs[-1])
        with pytest.raises(HoodieJobError, match=r"(?s)failed: .*its log \(.*\) has the job's error"):
            task.resumed(trigger)
    assert task.commits() == 1
    assert task.done()["num_updates"] == 1
    assert task.rows() == {"a": 1, "b": 2, "c": 2}
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (2, 3, [])


@first
def test_a_retry_finds_the_job_of_a_worker_that_died(task: Task) -> None:
    task.next_day("id,n\na,1\n")
    task.done()
    task.next_day("id,n\na,2\n")
    with writer(task.table):
        waiting(task)
        trigger = task.deferred()  # the next try
    assert task.resumed(trigger)["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs)) == (2, 2)
    assert (task.rows(), task.left()) == ({"a": 2}, [])


@first
def test_a_worker_that_dies_before_it_has_the_answer(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry finds the job by its tag, and starts no second one."""
    task.next_day("id,n\na,1\n")
    task.done()
    task.next_day("id,n\na,2\n")
    with writer(task.table):
        submits_and(SystemExit("killed"), task, monkeypatch)
        trigger = task.deferred()
    assert task.resumed(trigger)["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs)) == (2, 2)
    assert (task.rows(), task.left()) == ({"a": 2}, [])


@first
def test_an_answer_that_is_lost(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task fails and takes its job along; the retry writes."""
    task.next_day("id,n\na,1\n")
    task.done()
    task.next_day("id,n\na,2\n")
    with writer(task.table):
        submits_and(HoodieJobError("no answer", code="unreachable"), task, monkeypatch)
        job = task.platform.machines.jobs[-1]
        wait_for(lambda: job.poll() is not None, "the job's end")
    assert task.done()["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs), task.left()) == (2, 3, [])


@pytest.mark.full
@every
def test_a_retry_after_the_job_has_ended(task: Task) -> None:
    """Its commit is found, and nothing is submitted."""
    task.next_day("id,n\na,1\n")
    task.deferred()
    task.platform.machines.jobs[0].wait()
    assert task.operator().execute(task.context)["status"] == "already_committed"
    assert (task.commits(), len(task.platform.machines.jobs)) == (1, 1)


@first
def test_a_task_that_is_killed(task: Task) -> None:
    """Its job goes with it, and the next try writes."""
    task.next_day("id,n\na,1\n")
    task.done()
    task.next_day("id,n\na,2\n")
    with writer(task.table):
        killed(waiting(task))
        job = task.platform.machines.jobs[-1]
        wait_for(lambda: job.poll() is not None, "the job's end")
    assert task.done()["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs)) == (2, 3)


@pytest.mark.full
@every
def test_a_task_whose_job_runs_on(task: Task) -> None:
    task.next_day("id,n\na,1\n")
    task.done()
    task.next_day("id,n\na,2\n")
    task.arguments = {"cancel_on_kill": False}
    with writer(task.table):
        killed(waiting(task))
        assert task.platform.machines.jobs[-1].poll() is None
        trigger = task.deferred()
    assert task.resumed(trigger)["num_updates"] == 1
    assert (task.commits(), len(task.platform.machines.jobs)) == (2, 2)


@first
def test_a_task_that_is_killed_before_it_waits(task: Task) -> None:
    task.next_day("id,n\na,1\n")
    operator = task.operator()
    operator.killed = True
    with pytest.raises(HoodieJobKilledError):
        operator.execute(task.context)
    [job] = task.platform.machines.jobs
    wait_for(lambda: job.poll() is not None, "the job's end")
    assert task.left() == []


# --- errors and secrets -----------------------------------------------------------------------------------


@first
def test_a_platform_that_is_out_of_reach(task: Task) -> None:
    task.next_day("id,n\na,1\n")
    task.platform.broken = True
    with pytest.raises(HoodieJobError, match="unreachable") as caught:
        task.operator().execute(task.context)
    assert caught.value.code == "unreachable"
    task.platform.broken = False
    assert task.done()["status"] == "committed"


@first
def test_secrets_are_in_the_request_alone(task: Task, logged: Callable[[], str]) -> None:
    """It is in a file of the uploads while the job runs, and nowhere that a platform or Airflow shows."""
    task.next_day("id,n\na,1\n")
    task.arguments = {"options": {"hoodie.metrics.datadog.api.key": SECRET}}
    task.done()
    task.next_day("id,n\na,1\n")
    with writer(task.table):
        trigger = waiting(task)
        [request] = (task.folder / "uploads/requests").iterdir()
        assert SECRET in request.read_text()
        shown = [task.platform.described, trigger.serialize(), task.pushed, task.store]
        assert SECRET not in json.dumps(shown, default=str)
    task.resumed(trigger)
    assert SECRET not in logged() + json.dumps(task.pushed)
    for planted in ("planted-login", SECRET):
        assert planted not in "".join(path.read_text() for path in task.folder.glob("job-*.log"))
    with pytest.raises(HoodieConfigurationError, match=r"conf has spark.some.password, a secret that"):
        task.operator(conf={"spark.some.password": SECRET}, token="b").execute(task.context)


@every
def test_a_provider_that_is_not_installed(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    task.next_day("id,n\na,1\n")
    kind = find_platform(task.platform.engine)
    for module in [item for item in sys.modules if item.startswith(kind.PROVIDER_MODULE)]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, kind.PROVIDER_MODULE, None)
    with pytest.raises(HoodieConfigurationError, match=rf"{kind.PROVIDER}.*airflow-hoodie\[{kind.EXTRA}\]"):
        task.operator().execute(task.context)


@every
def test_a_connection_that_is_not_there(task: Task) -> None:
    task.next_day("id,n\na,1\n")
    kind = find_platform(task.platform.engine)
    [field] = [name for name in kind.__dataclass_fields__ if name.endswith("_conn_id")]
    options = {**task.platform.options, field: "nowhere"}
    with pytest.raises(HoodieConfigurationError, match="the connection 'nowhere'"):
        task.operator(engine_options=options).execute(task.context)


def test_credentials_that_are_wrong(livy: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    livy.next_day("id,n\na,1\n")
    connection = json.loads(os.environ["AIRFLOW_CONN_LIVY_DEFAULT"])
    monkeypatch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", json.dumps({**connection, "password": "other"}))
    with pytest.raises(HoodieConfigurationError, match=r"Livy refuses GET .* HTTP 401"):
        livy.operator().execute(livy.context)


def test_uploads_that_can_not_be_written(livy: Task) -> None:
    livy.next_day("id,n\na,1\n")
    (livy.folder / "uploads").write_text("a file")
    with pytest.raises(HoodieException, match="the uploads of the engine"):
        livy.operator().execute(livy.context)
    assert livy.platform.machines.jobs == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"engine": "livi"}, "use one of local, spark, auto, livy"),
    ({"engine": "no.such:Class"}, "can't be imported"),
    ({"engine": 7}, "engine is 7"),
    ({"engine_options": {"upload": "/x"}}, "'upload', which Livy has not; did you mean 'uploads'"),
    ({"engine_options": {"uploads": "/x", "proxy_user": "AKIAIOSFODNN7EXAMPLE"}}, "hold a secret"),
    ({"engine_options": ["uploads"]}, "pass a dict"),
    ({"master": "yarn"}, "so master would have no effect"),
    ({"env_vars": {"A": "b"}}, "so env_vars would have no effect"),
    ({"deferrable": False}, "waits in the triggerer"),
    ({"detached": True}, "detached=True is for jobs in a process on the worker"),
    ({"exactly_once": False, "token": None}, "use exactly_once=True"),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_what_is_refused(arguments: dict[str, Any], text: str) -> None:
    """Where the DAG is parsed."""
    table = HoodieTable(name="orders", path="/lake/orders", record_keys="id")
    given = {"engine": "livy", "engine_options": {"uploads": "/x"}, **arguments}
    with pytest.raises(HoodieConfigurationError, match=text):
        UpsertOperator(task_id="write", table=table, source="/in", **given)


@pytest.mark.parametrize(
    ("options", "text"),
    [({}, "lack uploads"), ({"uploads": "in"}, "absolute"), ({"uploads": "s3://a:b@c/d"}, "hold a secret")],
)
def test_options_that_are_refused_when_the_task_runs(options: dict[str, Any], text: str, livy: Task) -> None:
    livy.next_day("id,n\na,1\n")
    with pytest.raises(HoodieConfigurationError, match=text):
        livy.operator(engine_options=options).execute(livy.context)


# --- one's own --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Own(Platform):
    """Runs a job at once."""

    color: str = "red"

    NAME: ClassVar[str] = "Own"
    MACHINES: ClassVar[Machines]

    def submit(self, job: Submission) -> str:
        self.MACHINES.start(job.script, job.arguments, job.package, job.conf).wait()
        return "run 0"

    def find(self, tag: str) -> str | None:
        return None

    def status(self, application_id: str) -> Status:
        return Status(State.SUCCEEDED)

    def kill(self, application_id: str) -> None:
        pass


@pytest.mark.parametrize("engine", [Own, f"{__name__}:Own"])
def test_a_platform_of_ones_own(engine: Any, livy: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "MACHINES", livy.platform.machines, raising=False)
    livy.next_day("id,n\na,1\n")
    options = {"uploads": livy.platform.options["uploads"], "color": "blue"}
    assert livy.done(engine=engine, engine_options=options)["status"] == "committed"
    assert (livy.rows(), livy.left()) == ({"a": 1}, [])
