"""Writes in deploy mode cluster: submitted to YARN, watched by a trigger, read from their commit.

YARN's ResourceManager is a server with recorded answers.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import Stats, TaskDeferred

from airflow_hoodie import HoodieTable, polling
from airflow_hoodie.clusters import State, Status
from airflow_hoodie.clusters.yarn import Yarn
from airflow_hoodie.exceptions import (
    HoodieConfigurationError,
    HoodieException,
    HoodieJobError,
    HoodieJobKilledError,
)
from airflow_hoodie.operators.write import DeletePartitionOperator, UpsertOperator
from hoodie.source.fingerprint import fingerprint
from hoodie.timeline.tokens import FINGERPRINT_KEY, TOKEN_KEY

from .conftest import FakeSubmit
from .detached import TOKEN, DetachedTask, run
from .resource_manager import APP, REPORT, ResourceManager, connect, running
from .timelines import WrittenTimeline


@pytest.fixture
def yarn() -> Iterator[ResourceManager]:
    with running() as manager:
        yield manager


@pytest.fixture
def timeline(tmp_path: Path) -> WrittenTimeline:
    return WrittenTimeline.create(tmp_path)


@dataclass(kw_only=True)
class Task(DetachedTask):
    yarn: ResourceManager


@pytest.fixture
def task(
    yarn: ResourceManager, timeline: WrittenTimeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Task:
    connect(yarn, tmp_path, monkeypatch)
    return Task(yarn=yarn, address=yarn.address, timeline=timeline, folder=tmp_path)


# --- a write ----------------------------------------------------------------------------------------------


def test_a_write_is_read_from_its_commit(task: Task) -> None:
    deferral = task.deferred(conf={"spark.yarn.tags": "mine"}, execution_timeout=timedelta(minutes=5))
    assert deferral.timeout == timedelta(minutes=5)
    call = task.call()
    assert call["args"][call["args"].index("--deploy-mode") + 1] == "cluster"
    assert call["conf"]["spark.yarn.submit.waitAppCompletion"] == "false"
    assert call["conf"]["spark.yarn.tags"].startswith("hoodie-")
    assert call["conf"]["spark.yarn.tags"].endswith(",mine")
    assert call["python"] is None, "the worker's Python is not on the cluster"
    assert call["request"]["token"] == TOKEN
    instant = task.commit()
    task.yarn.end("FINISHED", "SUCCEEDED")
    result = task.resumed(deferral)
    assert (result["status"], result["instant"], result["num_inserts"]) == ("committed", instant, 2)
    assert result["base_path"] == task.timeline.path


def test_metrics_are_those_of_the_commit(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a duration, which only the job knows; a commit that was there before has none."""
    sent: dict[str, Any] = {}
    monkeypatch.setattr(Stats, "incr", lambda name, count, tags: sent.update({name: count}))
    monkeypatch.setattr(Stats, "timing", lambda name, *_, **__: sent.update({name: None}))
    deferral = task.deferred()
    task.commit()
    task.yarn.end("FINISHED", "SUCCEEDED")
    task.resumed(deferral)
    assert sent.pop("hoodie.upsert.rows_inserted") == 2
    assert "hoodie.upsert.duration" not in sent
    sent.clear()
    deferral = task.deferred()
    task.yarn.end("FINISHED", "SUCCEEDED")
    task.resumed(deferral)
    assert sent == {}


def test_a_job_that_failed_after_its_commit_made_it(task: Task) -> None:
    deferral = task.deferred()
    instant = task.commit()
    task.yarn.end("FINISHED", "FAILED", "User application exited with status 1")
    assert task.resumed(deferral)["instant"] == instant


def test_a_commit_of_before_is_not_that_of_a_failed_job(task: Task) -> None:
    task.commit()
    deferral = task.deferred()
    task.yarn.end("FINISHED", "FAILED", "User application exited with status 1")
    with pytest.raises(HoodieJobError, match=rf"{APP} failed: User application exited .*yarn logs"):
        task.resumed(deferral)


def test_a_job_that_found_a_commit(task: Task) -> None:
    instant = task.commit()
    deferral = task.deferred()
    task.yarn.end("FINISHED", "SUCCEEDED")
    result = task.resumed(deferral)
    assert (result["status"], result["instant"]) == ("already_committed", instant)


@pytest.mark.parametrize(
    ("state", "final", "error", "message"),
    [
        ("KILLED", "KILLED", HoodieJobKilledError, "was killed"),
        ("FAILED", "FAILED", HoodieJobError, "failed: out of containers"),
        ("FINISHED", "SUCCEEDED", HoodieJobError, "has no result of it"),
    ],
)
def test_no_commit(state: str, final: str, error: type[HoodieException], message: str, task: Task) -> None:
    deferral = task.deferred()
    task.yarn.end(state, final, "out of containers")
    with pytest.raises(error, match=message):
        task.resumed(deferral)


SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import HoodieTable, UpsertOperator

    ORDERS = HoodieTable(name="orders", path={path!r}, record_keys="id")
    with DAG("deferred_write", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        UpsertOperator(
            task_id="write", table=ORDERS, source="/in/*.parquet", deferrable=True, token="{token}",
            spark_binary={binary!r}, poll_interval=0.05)
"""


@pytest.mark.full
def test_a_dag_whose_write_is_deferred(task: Task, load_dag: Callable[[str], Any]) -> None:
    """Airflow's task runner and trigger: the result and the asset's event are those of the commit."""
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    def job() -> None:
        task.commit()
        task.yarn.end("FINISHED", "SUCCEEDED")

    task.yarn.accepted = lambda: threading.Timer(0.5, job).start()
    dag = load_dag(SOURCE.format(path=task.timeline.path, token=TOKEN, binary=task.submitter()))
    done = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    (ti,) = done.get_task_instances()
    result = ti.xcom_pull(task_ids="write")
    assert (str(ti.state), result["status"]) == ("success", "committed")
    assert [result["instant"]] == task.timeline.commits
    assert ti.xcom_pull(task_ids="write", key="spark_application_id") == APP
    with create_session() as session:
        extras = session.scalars(
            select(AssetEvent.extra).where(AssetEvent.source_run_id == done.run_id)
        ).all()
    assert [extra["instant"] for extra in extras] == task.timeline.commits


def test_a_commit_that_is_there_defers_nothing(task: Task) -> None:
    """One of the same source: neither spark-submit nor a trigger is started."""
    source = task.folder / "in.csv"
    source.write_text("id\n1\n")
    described = task.operator(source=str(source)).described()
    extra = {TOKEN_KEY: TOKEN, FINGERPRINT_KEY: fingerprint("upsert", described)}
    instant = task.timeline.commit(extra=extra)
    result = task.operator(source=str(source)).execute(task.context)
    assert (result["status"], result["instant"]) == ("already_committed", instant)
    assert not task.submitted


def test_links_and_lineage_are_those_of_other_jobs(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application's page, before the task waits and after; Spark's own events name the task."""
    from airflow.providers.apache.spark.operators import spark_submit

    def inject(properties: dict[str, Any], context: Any) -> dict[str, Any]:
        return {**properties, "spark.openlineage.parentJobName": "dag.task"}

    monkeypatch.setattr(spark_submit, "inject_parent_job_information_into_spark_properties", inject)
    deferral = task.deferred(openlineage_inject_parent_job_info=True)
    assert task.call()["conf"]["spark.openlineage.parentJobName"] == "dag.task"
    proxied, history = str(REPORT["trackingUrl"]), "http://history:18080/history/app/"
    assert [value for key, value in task.pushed if key == "_link_SparkUILink"] == [proxied]
    task.commit()
    task.yarn.end("FINISHED", "SUCCEEDED")
    task.yarn.apps[APP]["trackingUrl"] = history
    task.resumed(deferral)
    assert [value for key, value in task.pushed if key == "_link_SparkUILink"] == [proxied, history]
    task.yarn.apps[APP]["trackingUrl"] = "N/A"
    assert Yarn(task.yarn.address).ui(APP) == ""


@pytest.mark.parametrize("event", [None, {}, {"state": "succeeded", "application": APP}])
def test_an_event_that_is_no_event(event: Any, task: Task) -> None:
    """As of a trigger that another release left in Airflow's database."""
    with pytest.raises(HoodieException, match=r"the trigger ended with .*clear the task"):
        task.operator().execute_complete(task.context, event)


# --- tries ------------------------------------------------------------------------------------------------


def test_a_retry_waits_for_the_application_that_runs(task: Task) -> None:
    first = task.deferred()
    task.forget()
    second = task.deferred()
    assert not task.submitted, "nothing is submitted"
    assert second.trigger.serialize() == first.trigger.serialize()


def test_a_worker_that_dies_while_it_submits_loses_no_application(task: Task) -> None:
    """spark-submit handed the application over, and its worker died before it looked."""
    task.store.set("hoodie_submission", {"tag": "hoodie-abc", "before": ""})
    task.yarn.add(applicationTags="hoodie-abc")
    assert task.deferred().trigger.serialize()[1]["application_id"] == APP
    assert not task.submitted


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED"])
def test_rows_lie_in_the_table_until_the_application_has_ended(task: Task, state: str) -> None:
    rows = [{"id": "a"}, {"id": "b"}]
    deferral = task.deferred(source=rows)
    (path,) = task.call()["request"]["source"]["path"]
    assert Path(path).is_relative_to(task.timeline.path)
    assert pq.read_table(path).to_pylist() == rows
    task.deferred(source=rows)  # a retry waits for the same application
    assert Path(path).exists()
    if state == "SUCCEEDED":
        task.commit()
    task.yarn.end("FINISHED", state)
    resumed = task.operator(source=rows)
    event = run(deferral.trigger)
    if state == "SUCCEEDED":
        assert resumed.execute_complete(task.context, event)["status"] == "committed"
    else:
        with pytest.raises(HoodieJobError):
            resumed.execute_complete(task.context, event)
    assert list(Path(path).parent.iterdir()) == []


def test_a_retry_submits_again_what_has_failed(task: Task) -> None:
    task.deferred()
    tags = task.call()["conf"]["spark.yarn.tags"]
    task.yarn.end("FAILED", "FAILED")
    task.deferred()
    assert task.call()["conf"]["spark.yarn.tags"] != tags


def test_nothing_is_submitted_while_an_earlier_application_may_run(task: Task) -> None:
    task.deferred()
    task.forget()
    task.yarn.broken = 1
    with pytest.raises(HoodieJobError) as caught:
        task.operator().execute(task.context)
    assert caught.value.code == "unreachable"
    assert not task.submitted


# --- the end of a task ------------------------------------------------------------------------------------


def test_killing_the_task_kills_the_application(task: Task) -> None:
    """The deferred one in the triggerer, and one that is between spark-submit and its deferral."""
    deferral = task.deferred()
    asyncio.run(deferral.trigger.on_kill())
    assert task.yarn.killed == [APP]
    operator = task.operator()
    task.yarn.end("KILLED", "KILLED")
    with pytest.raises(TaskDeferred):
        operator.execute(task.context)
    operator.on_kill()
    assert task.yarn.killed == [APP, APP]


def test_an_application_that_outlives_its_task(task: Task) -> None:
    """cancel_on_kill=False: it runs on, and the next try waits for it; a time-out ends it all the same."""
    deferral = task.deferred(cancel_on_kill=False)
    asyncio.run(deferral.trigger.on_kill())
    assert task.yarn.killed == []
    task.forget()
    assert task.deferred(cancel_on_kill=False).trigger.serialize() == deferral.trigger.serialize()
    assert not task.submitted
    deferral.trigger.timeout_after = datetime.now(timezone.utc)
    with pytest.raises(HoodieJobKilledError, match="execution_timeout is over"):
        task.resumed(deferral)
    assert task.yarn.killed == [APP]


@pytest.mark.parametrize("deferrable", [None, False])
def test_a_job_of_the_task_itself_ends_with_it(deferrable: bool | None, task: Task) -> None:
    with pytest.raises(HoodieConfigurationError, match=r"cancel_on_kill=False .*use deferrable=True"):
        task.operator(cancel_on_kill=False, deferrable=deferrable)


@pytest.mark.parametrize("ends_well", [False, True])
def test_a_submission_that_is_killed_leaves_no_application(ends_well: bool, task: Task) -> None:
    """spark-submit hands the application over while the task is being killed; SIGTERM ends it then, or it has
    ended by itself.
    """
    mask = "signal.pthread_sigmask(signal.SIG_{}BLOCK, [signal.SIGTERM])"
    task.begins, task.ends = mask.format(""), "" if ends_well else f"{mask.format('UN')}; signal.pause()"
    operator = task.operator()

    def kill() -> None:
        tagged, task.yarn.apps = task.yarn.apps, {}  # on_kill finds none yet
        operator.on_kill()
        task.yarn.apps = tagged

    task.yarn.accepted = kill
    with pytest.raises(HoodieJobKilledError, match="because the task was"):
        operator.execute(task.context)
    assert task.yarn.killed == [APP]


@pytest.mark.parametrize(("owner", "method"), [(UpsertOperator, "take_token"), (Yarn, "find")])
def test_a_task_that_is_killed_early_submits_nothing(
    owner: type, method: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has a hook, and before the hook starts spark-submit."""
    operator = task.operator()
    call = getattr(owner, method)

    def kill(*arguments: Any) -> Any:
        monkeypatch.setattr(owner, method, call)
        operator.on_kill()
        return call(*arguments)

    monkeypatch.setattr(owner, method, kill)
    with pytest.raises(HoodieJobKilledError, match="before spark-submit started"):
        operator.execute(task.context)
    assert (task.submitted, task.yarn.killed) == (False, [])


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("cancel_on_kill", [True, False])
def test_a_task_that_is_killed_before_it_waits_does_not_wait(
    cancel_on_kill: bool, earlier: bool, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its application ends, but for one that an earlier try left running on purpose."""
    if earlier:
        task.deferred(cancel_on_kill=cancel_on_kill)
    operator = task.operator(cancel_on_kill=cancel_on_kill)

    def kill(*_: Any) -> str:
        operator.on_kill()
        return ""

    monkeypatch.setattr(Yarn, "ui", kill)
    with pytest.raises(HoodieJobKilledError, match=f"before it waited for {APP}"):
        operator.execute(task.context)
    assert set(task.yarn.killed) == ({APP} if cancel_on_kill or not earlier else set())


def test_a_timeout_kills_the_application(task: Task) -> None:
    deferral = task.deferred()
    deferral.trigger.timeout_after = datetime.now(timezone.utc) + timedelta(seconds=5.2)
    with pytest.raises(HoodieJobKilledError, match="execution_timeout is over"):
        task.resumed(deferral)
    assert task.yarn.killed == [APP]


def test_the_trigger_outlives_a_cluster_that_does_not_answer(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine failed polls in a row are borne, a tenth is not."""
    monkeypatch.setattr(polling, "LONGEST", 0.05)
    deferral = task.deferred()
    task.yarn.end("FINISHED", "SUCCEEDED")
    task.yarn.broken = polling.MAX_FAILURES - 1
    assert run(deferral.trigger)["state"] == "succeeded"
    task.yarn.broken = polling.MAX_FAILURES
    with pytest.raises(HoodieJobError, match=r"may be running still: .*HTTP 503"):
        task.resumed(deferral)


# --- YARN -------------------------------------------------------------------------------------------------


def test_a_resource_manager_that_is_down_is_passed_by(yarn: ResourceManager) -> None:
    cluster = Yarn(f"127.0.0.1:1, {yarn.address}/")
    assert cluster.status(APP) == Status(State.UNKNOWN)
    yarn.add(state="ACCEPTED")
    assert cluster.status(APP) == Status(State.RUNNING)
    cluster.kill(APP)
    assert yarn.killed == [APP]


def test_a_refusal_is_no_outage(yarn: ResourceManager) -> None:
    yarn.broken, yarn.status = 1, 401
    with pytest.raises(HoodieConfigurationError, match=r"refuses GET .* HTTP 401; .*Kerberos"):
        Yarn(yarn.address).status(APP)


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"exactly_once": False}, "use exactly_once=True"),
        ({"post_submit_commands": ["true"]}, "would run before its end"),
        (
            {"master": "spark://h:7077", "deploy_mode": "cluster"},
            "standalone clusters take no Python applications",
        ),
        (
            {"master": "local[2]", "deploy_mode": "cluster"},
            "works with the masters yarn or k8s://.* only, not local",
        ),
    ],
)
def test_what_can_not_be_deferred(
    arguments: dict[str, Any], message: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    with pytest.raises(HoodieConfigurationError, match=message):
        task.operator(**arguments)
    assert not task.operator(**arguments, deferrable=None).may_defer()


@pytest.mark.parametrize(
    "arguments",
    [{"engine": "local"}, {"deploy_mode": "client"}, {"master": "spark://h:7077"}, {"master": "local[2]"}],
)
@pytest.mark.parametrize("deferrable", [True, None])
def test_a_job_on_the_worker_is_not_submitted_to_a_cluster(
    arguments: dict[str, Any], deferrable: bool | None, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task may wait for its turn in the triggerer (test_turns.py); the job ends with it."""
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    operator = task.operator(**arguments, exactly_once=False, deferrable=deferrable)
    assert not operator.may_defer()
    with pytest.raises(HoodieConfigurationError, match="with deploy mode 'cluster', or detached=True"):
        task.operator(**arguments, deferrable=deferrable, cancel_on_kill=False)


def test_a_local_operator_is_not_deferred_by_default(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    table = HoodieTable(name="orders", path=task.timeline.path, record_keys="id")
    assert not DeletePartitionOperator(task_id="drop", table=table, partitions="a").may_defer()
    assert task.deferred(deferrable=None).method_name == "execute_complete"


@pytest.mark.parametrize("deferrable", [True, None])
def test_a_connection_with_client_mode(
    deferrable: bool | None, task: Task, committing: FakeSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job runs beside the task, as of Airflow's setting, which is for all operators."""
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    value = {"conn_type": "spark", "host": "local[2]", "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(value))
    operator = task.operator(deferrable=deferrable, spark_binary=str(committing.path))
    assert operator.execute(task.context)["status"] == "committed"
    assert "--files" not in committing.call()["args"]
    assert not any("spark.yarn" in conf for conf in committing.options("--conf"))


@pytest.mark.parametrize(
    ("host", "extra", "message"),
    [
        ("yarn", {"deploy-mode": "cluster"}, "yarn_resourcemanager_webapp_address"),
        ("spark://h:7077", {"deploy-mode": "cluster"}, "takes no Python applications"),
    ],
)
def test_connections_that_can_not_defer(
    host: str, extra: dict[str, str], message: str, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {"conn_type": "spark", "host": host, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(value))
    with pytest.raises(HoodieConfigurationError, match=message):
        task.operator().execute(task.context)
    assert not task.submitted
