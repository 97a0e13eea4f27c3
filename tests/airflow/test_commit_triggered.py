"""From a commit to the run of a consumer for each changed partition, with all of Airflow but its processes.

What the triggerer and the scheduler do is called in this process, with their own functions.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie import CommitEventTrigger
from airflow_hoodie.triggers import commits as module
from hoodie.timeline.active import Timeline
from scripts.environment import ROOT
from tests.conftest import require

EXAMPLES = ROOT / "dags_examples"
OPTIONS = {
    "hoodie.table.name": "flights",
    "hoodie.datasource.write.recordkey.field": "flight_date,carrier,flight,origin",
    "hoodie.datasource.write.partitionpath.field": "flight_date",
    "hoodie.datasource.write.precombine.field": "updated_at",
    "hoodie.datasource.write.hive_style_partitioning": "true",
}


def flights(statuses: dict[str, str], updated: int) -> pa.Table:
    """One flight a day, by day and status."""
    days = sorted(statuses)
    return pa.table(
        {
            "flight_date": days,
            "carrier": ["UA"] * len(days),
            "flight": [7] * len(days),
            "origin": ["EWR"] * len(days),
            "status": [statuses[day] for day in days],
            "updated_at": [updated] * len(days),
        }
    )


def write(home: Path, statuses: dict[str, str], updated: int) -> str:
    rows = flights(statuses, updated)
    return hoodie.write_table(rows, str(home / "table"), operation="upsert", options=OPTIONS).instant


def triggerer_runs_watchers(home: Path, enough: int) -> None:
    """Run the trigger of the assets until it gave so many events, and store those as the triggerer does."""
    from airflow.models.trigger import Trigger
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = [
            (row.id, row.classpath, row.kwargs)
            for row in session.scalars(select(Trigger))
            if list(row.assets) and row.kwargs.get("table") == str(home / "table")
        ]
    [(number, classpath, kwargs)] = rows
    assert classpath == f"{module.__name__}.CommitEventTrigger"
    trigger = CommitEventTrigger(**{**kwargs, "start": "earliest", "poke_interval": 0.05})

    async def events() -> list[Any]:
        found: list[Any] = []
        async for event in trigger.run():
            found.append(event)
            if len(found) == enough:
                break
        return found

    for event in asyncio.run(asyncio.wait_for(events(), 60)):
        Trigger.submit_event(number, event)


def scheduler_makes_runs() -> None:
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.utils.session import create_session
    from airflow.utils.sqlalchemy import prohibit_commit

    runner = SchedulerJobRunner(Job())  # type: ignore[no-untyped-call]
    with create_session() as session, prohibit_commit(session) as guard:  # type: ignore[no-untyped-call]
        runner._create_dagruns_for_dags(guard, session)


def worker_runs_tasks(dag: Any) -> dict[str | None, tuple[str, Any]]:
    """Run the one task of each queued run of the DAG; state and return value by partition key."""
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.utils.session import create_session
    from sqlalchemy import select

    done: dict[str | None, tuple[str, Any]] = {}
    with create_session(scoped=False) as session:  # the task's own calls end the scoped one
        query = select(DagRun).where(DagRun.dag_id == dag.dag_id, DagRun.state == "queued")
        for run in session.scalars(query).all():
            run.state = "running"
            session.commit()
            [ti] = run.get_task_instances(session=session)
            _run_task(ti=ti, task=dag.get_task(ti.task_id))
            session.refresh(ti)
            run.state = str(ti.state)
            done[run.partition_key] = (str(ti.state), ti.xcom_pull(task_ids=ti.task_id))
    return done


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLIGHTS_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return tmp_path / "home"


@pytest.fixture
def example(
    home: Path, load_dags: Callable[[str], dict[str, Any]], publish: Callable[[Any], None]
) -> dict[str, Any]:
    """The example's DAGs, known to Airflow."""
    dags = load_dags((EXAMPLES / "commit_triggered.py").read_text())
    for dag in dags.values():
        publish(dag)
    return dags


@pytest.mark.full
def test_a_commit_starts_a_run_for_each_changed_partition(example: dict[str, Any], home: Path) -> None:
    require(find_spec("duckdb"), "no duckdb, which reads for the example")
    first = write(home, {"2013-01-05": "scheduled", "2013-01-06": "scheduled"}, 1)
    second = write(home, {"2013-01-06": "landed", "2013-01-07": "scheduled"}, 2)
    triggerer_runs_watchers(home, 2)
    scheduler_makes_runs()
    relayed = worker_runs_tasks(example["flights_changed"])
    days = ["2013-01-05", "2013-01-06", "2013-01-07"]
    assert relayed == {None: ("success", {"instants": [first, second], "partitions": days})}
    scheduler_makes_runs()
    reports = worker_runs_tasks(example["day_report"])
    assert reports == {
        "2013-01-05": ("success", {"day": "2013-01-05", "scheduled": 1}),
        "2013-01-06": ("success", {"day": "2013-01-06", "landed": 1}),
        "2013-01-07": ("success", {"day": "2013-01-07", "scheduled": 1}),
    }
    assert json.loads((home / "reports" / "2013-01-06.json").read_text()) == reports["2013-01-06"][1]

    # the same two events again, as after a crash without the listener, and one new commit
    third = write(home, {"2013-01-05": "landed"}, 3)
    triggerer_runs_watchers(home, 3)
    scheduler_makes_runs()
    relayed = worker_runs_tasks(example["flights_changed"])
    assert relayed == {None: ("success", {"instants": [third], "partitions": ["2013-01-05"]})}
    scheduler_makes_runs()
    reports = worker_runs_tasks(example["day_report"])
    assert reports == {"2013-01-05": ("success", {"day": "2013-01-05", "landed": 1})}


def test_the_event_and_the_note_of_it_are_stored_together_or_not_at_all(
    example: dict[str, Any], home: Path, listening: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.assets.manager import AssetManager
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.models.asset_state_store import AssetStateStoreModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    def stored() -> tuple[list[str], list[str]]:
        asset = AssetModel.uri.contains(str(home))
        with create_session() as session:
            extras = session.scalars(select(AssetEvent.extra).join(AssetEvent.asset).where(asset)).all()
            query = select(AssetStateStoreModel.value).join(
                AssetModel, AssetModel.id == AssetStateStoreModel.asset_id
            )
            noted = session.scalars(query.where(asset)).all()
        return [extra["payload"]["instant"] for extra in extras], json.loads(noted[0]) if noted else []

    write(home, {"2013-01-05": "scheduled"}, 1)
    write(home, {"2013-01-05": "landed"}, 2)
    instants = [instant.time for instant in Timeline.load(str(home / "table")).commits()]
    triggerer_runs_watchers(home, 1)
    assert stored() == (instants[:1], instants[:1])

    queue = AssetManager._queue_dagruns

    def dies(**arguments: Any) -> None:
        queue(**arguments)
        raise KeyboardInterrupt("killed before the commit")

    monkeypatch.setattr(AssetManager, "_queue_dagruns", staticmethod(dies))
    with pytest.raises(KeyboardInterrupt):
        triggerer_runs_watchers(home, 2)
    assert stored() == (instants[:1], instants[:1])
