"""The real triggerer, killed and started again while a table is written to: what it leaves in the database.

No scheduler and no worker runs, so what gets done is done by the triggerer alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.api_server import plugins_folder

from .timelines import WrittenTimeline

pytestmark = pytest.mark.crash

WATCHING = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG, Asset, AssetWatcher, task
    from airflow_hoodie.triggers.commits import CommitEventTrigger

    orders = Asset(
        "orders_events", uri="x-test://orders",
        watchers=[AssetWatcher(name="commits", trigger=CommitEventTrigger(
            table={path!r}, start="earliest", poke_interval=0.2))],
    )
    deltas = Asset(
        "orders_deltas", uri="x-test://deltas",
        watchers=[AssetWatcher(name="deltas", trigger=CommitEventTrigger(
            table={path!r}, start="earliest", poke_interval=0.2, actions=["deltacommit"]))],
    )

    with DAG("watching", schedule=(orders | deltas), start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        @task
        def seen(): ...
        seen()
"""


class Triggerer:
    """`airflow triggerer` in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environ = {
            **os.environ,
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins_folder(folder)),
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "3",
            "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        log = (self._folder / f"triggerer-{self.starts}.log").open("wb")
        command = [sys.executable, "-m", "airflow", "triggerer", "--skip-serve-logs"]
        with log:
            self._process = subprocess.Popen(
                command, env=self._environ, stdout=log, stderr=log, start_new_session=True
            )
        self.starts += 1

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, number)
            self._process.wait()
            self._process = None

    def log(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("triggerer-*.log")))


@pytest.fixture
def triggerer(tmp_path: Path) -> Iterator[Triggerer]:
    made = Triggerer(tmp_path)
    yield made
    made.kill()


def told(name: str) -> list[dict[str, Any]]:
    """Payloads of an asset's events, in the order in which they were stored."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
    with create_session() as session:
        rows = session.scalars(query.where(AssetModel.name == name).order_by(AssetEvent.id)).all()
    return [extra["payload"] for extra in rows]


def until(enough: Callable[[], bool], triggerer: Triggerer, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not enough():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not in {seconds} s; {triggerer.log()[-3000:]}")
        time.sleep(0.1)


def more_than(number: int) -> bool:
    return len(told("orders_events")) > number


@pytest.mark.full
def test_500_commits_and_a_triggerer_that_is_killed(
    load_dag: Callable[[str], Any],
    publish: Callable[[Any], None],
    triggerer: Triggerer,
    tmp_path: Path,
) -> None:
    from hoodie.timeline.instant import Action

    table = WrittenTimeline.create(tmp_path)
    publish(load_dag(WATCHING.format(path=table.path)))
    deltas = []
    triggerer.start()
    kills = {120: signal.SIGKILL, 250: signal.SIGKILL, 380: signal.SIGTERM}
    for number in range(1, 501):
        if number % 4 == 0:
            deltas.append(table.commit(f"day={number % 7}", Action.DELTACOMMIT))
        elif number % 9 == 0:
            table.overwrite()
        else:
            table.commit(f"day={number % 7}")
        if number % 5 == 0:
            table.serve(number // 5)
        if number in kills:
            # in the midst of it: some of the commits are told, and some are not
            until(partial(more_than, number - 100), triggerer)
            triggerer.kill(kills[number])
            triggerer.start()
        time.sleep(0.01)
    until(lambda: len(told("orders_events")) >= 500 and len(told("orders_deltas")) >= 125, triggerer)
    time.sleep(3)
    assert [event["instant"] for event in told("orders_events")] == table.commits
    assert [event["instant"] for event in told("orders_deltas")] == deltas
    assert triggerer.starts == 4


SENSORS = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import CommitSensor, FreshnessSensor, PartitionSensor

    with DAG("sensors_in_the_triggerer", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
             params={{"lake": {lake!r}, "after": {after!r}, "day": "day=5"}}):
        common = dict(table="{{{{ params.lake }}}}/orders", start_from_trigger=True, poke_interval=0.2)
        CommitSensor(task_id="commit", after="{{{{ params.after }}}}", token="{{{{ run_id }}}}", **common)
        PartitionSensor(task_id="partition", partitions=["{{{{ params.day }}}}"], **common)
        FreshnessSensor(task_id="fresh", max_age=3600, **common)
        CommitSensor(task_id="too_late", until="2020-01-01", timeout=6, soft_fail=True, **common)
"""


@pytest.mark.full
def test_sensors_that_start_from_the_trigger_never_take_a_worker_slot(
    load_dag: Callable[[str], Any],
    publish: Callable[[Any], None],
    schedule: Callable[[str, str], Callable[[], dict[str, Any]]],
    triggerer: Triggerer,
    tmp_path: Path,
) -> None:
    """Nothing but the triggerer runs: there is no worker that could have run a task."""
    table = WrittenTimeline.create(tmp_path)
    first = table.commit("day=1")
    publish(load_dag(SENSORS.format(lake=str(tmp_path), after=first)))
    states = schedule("sensors_in_the_triggerer", "run-1")
    assert {task: state for task, (state, _) in states().items()} == dict.fromkeys(
        ("commit", "partition", "fresh", "too_late"), "deferred"
    )
    triggerer.start()
    until(lambda: states()["fresh"][0] == "success", triggerer)
    assert states()["commit"][0] == states()["partition"][0] == "deferred"
    table.commit("day=5", extra={"airflow.token": "another"})
    last = table.commit("day=5", extra={"airflow.token": "run-1"})
    until(lambda: all(state not in ("deferred", None) for state, _ in states().values()), triggerer)
    found = states()
    assert {task: state for task, (state, _) in found.items()} == {
        "commit": "success",
        "partition": "success",
        "fresh": "success",
        "too_late": "skipped",
    }
    assert found["commit"][1]["instant"] == last
    assert found["partition"][1]["partitions"]["day=5"] in table.commits[1:]
    assert found["fresh"][1]["base_path"] == table.path
