"""The trigger of deferred sensors, in an event loop and through Airflow."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk import DAG
from airflow.triggers.base import TaskFailedEvent, TaskSkippedEvent, TaskSuccessEvent

from airflow_hoodie import CommitSensor, FreshnessSensor, HoodieTable, PartitionSensor, polling
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import condition
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException, HoodieTableNotFoundError
from airflow_hoodie.triggers import condition as module
from airflow_hoodie.triggers.condition import ConditionTrigger
from hoodie.errors import TableError
from scripts.environment import ROOT

from .timelines import WrittenTimeline

SECONDS = 60


@pytest.fixture
def table(tmp_path: Path) -> WrittenTimeline:
    return WrittenTimeline.create(tmp_path)


def revived(trigger: Any) -> Any:
    """The trigger as another process makes it from Airflow's database."""
    classpath, kwargs = trigger.serialize()
    assert json.loads(json.dumps(kwargs)) == kwargs
    row = Trigger(classpath, kwargs)
    again = module.ConditionTrigger(**Trigger._decrypt_kwargs(row.encrypted_kwargs))
    assert again.serialize() == (classpath, kwargs)
    return again


async def first_event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event
    raise AssertionError("the trigger ended without an event")


def run(trigger: Any) -> Any:
    """Payload of the trigger's event."""
    return asyncio.run(asyncio.wait_for(first_event(trigger), SECONDS)).payload


def deferred(sensor: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        sensor.execute({})
    return caught.value


def sensor(table: WrittenTimeline, **arguments: Any) -> CommitSensor:
    arguments = {"deferrable": True, "poke_interval": 0.05, **arguments}
    return CommitSensor(task_id="wait", table=table.path, **arguments)


def test_a_condition_that_holds_defers_nothing(table: WrittenTimeline) -> None:
    instant = table.commit()
    assert sensor(table).execute({})["instant"] == instant


def test_a_deferred_sensor_is_woken_by_its_commit(table: WrittenTimeline) -> None:
    first = table.commit()
    waiting = sensor(table, after=first, timeout=77)
    found = deferred(waiting)
    assert (found.method_name, found.timeout) == ("execute_complete", timedelta(seconds=77))

    async def scenario() -> Any:
        task = asyncio.create_task(first_event(revived(found.trigger)))
        await asyncio.sleep(0.2)
        table.compact()
        table.clean()
        await asyncio.sleep(0.2)
        assert not task.done()
        table.commit()
        return await asyncio.wait_for(task, SECONDS)

    event = asyncio.run(scenario()).payload
    value = waiting.execute_complete({}, event)
    assert value == sensor(table, after=first).execute({})
    assert value["instant"] == table.commits[-1]


def test_a_triggerer_that_dies_loses_nothing(table: WrittenTimeline) -> None:
    trigger = deferred(sensor(table, min_commits=2)).trigger

    async def killed() -> None:
        task = asyncio.create_task(first_event(trigger))
        await asyncio.sleep(0.1)
        table.commit()
        await asyncio.sleep(0.1)
        task.cancel()

    asyncio.run(killed())
    table.commit()
    assert run(revived(trigger))["value"]["instant"] == table.commits[-1]


@pytest.mark.parametrize(
    "made",
    [
        lambda path: CommitSensor(
            task_id="wait",
            table=HoodieTable(name="orders", path=path, record_keys="id"),
            deferrable=True,
            after=datetime(2026, 1, 1),
            until="2026-01-02",
            actions={"commit"},
            partition=("a", "b"),
            token="t",
            extra_metadata={"k": "v"},
            missing="wait",
        ),
        lambda path: PartitionSensor(
            task_id="wait", table=path, deferrable=True, partitions=["a"], after="20260101"
        ),
        lambda path: FreshnessSensor(
            task_id="wait", table=path, deferrable=True, max_age=timedelta(minutes=1)
        ),
    ],
)
def test_arguments_survive_the_database(made: Callable[[str], Any], table: WrittenTimeline) -> None:
    found = made(table.path)
    again = revived(deferred(found).trigger)
    assert again.table == table.path
    assert condition(again.kind, {name: getattr(again, name) for name in again._names}) == found._condition()


def test_the_poll_does_not_block_the_event_loop(
    table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll ends only when the loop, running beside it, lets it."""
    entered, released = threading.Event(), threading.Event()
    poll = TableReader.poll

    def slow(self: Any) -> Any:
        entered.set()
        assert released.wait(SECONDS)
        return poll(self)

    monkeypatch.setattr(TableReader, "poll", slow)
    table.commit()

    async def scenario() -> Any:
        task = asyncio.create_task(first_event(ConditionTrigger(kind="commits", table=table.path)))
        while not entered.is_set():
            await asyncio.sleep(0.01)
        released.set()
        return await task

    assert asyncio.run(asyncio.wait_for(scenario(), SECONDS)).payload["status"] == "success"


def test_a_missing_table(table: WrittenTimeline, tmp_path: Path) -> None:
    missing = ConditionTrigger(kind="commits", table=str(tmp_path / "none"), missing="fail", poke_interval=0)
    waiting = sensor(table)
    with pytest.raises(HoodieTableNotFoundError, match="none is no Hudi table"):
        waiting.execute_complete({}, run(missing))


def test_the_triggerer_says_once_what_it_waits_for(
    table: WrittenTimeline, capsys: pytest.CaptureFixture[str]
) -> None:
    """And again when the table has changed."""
    first = table.commit()
    trigger = ConditionTrigger(kind="commits", table=table.path, poke_interval=0, after=first, min_commits=2)

    async def scenario() -> Any:
        task = asyncio.create_task(first_event(trigger))
        for _ in range(2):
            await asyncio.sleep(0.3)
            table.commit()
        return await asyncio.wait_for(task, SECONDS)

    asyncio.run(scenario())
    lines = [line for line in capsys.readouterr().out.splitlines() if "Waiting on" in line]
    waited = (
        f"Waiting on {table.path} for 2 commits of rows after instant {first}; its last commit of rows is"
    )
    # files of a commit come one by one: what is said of the commit before may be said again
    said = [commit for line in lines for commit in table.commits if f"{waited} {commit}," in line]
    assert list(dict.fromkeys(said)) == table.commits[:2]
    assert len(said) == len(lines) <= 4


def test_hiccups_are_borne_and_a_dead_storage_is_not(
    table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "LONGEST", 0.05)
    failures = [polling.MAX_FAILURES - 1]
    poll = TableReader.poll

    def flaky(self: Any) -> Any:
        failures[0] -= 1
        if failures[0] >= 0:
            raise OSError("stale file handle")
        return poll(self)

    monkeypatch.setattr(TableReader, "poll", flaky)
    trigger = ConditionTrigger(kind="commits", table=table.path, poke_interval=0)
    table.commit()
    assert run(trigger)["value"]["instant"] == table.commits[0]
    failures[0] = 1000
    with pytest.raises(HoodieException, match=r"orders can't be read: stale file handle") as caught:
        sensor(table).execute_complete({}, run(revived(trigger)))
    assert caught.value.code == "storage"


def test_pauses_grow_while_polls_fail_and_end_with_the_task(
    table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubled up to five minutes, or the sensor's own interval where that is longer."""
    minute = [polling.backoff(60, failures) for failures in range(5)]
    assert minute == [60, 120, 240, 300, 300]
    assert [polling.backoff(900, failures) for failures in (0, 9, 5000)] == [900, 900, 900]
    left = datetime.now(timezone.utc) + timedelta(seconds=100)
    assert 80 < (polling.pause(60, 4, left, timedelta(seconds=10)) or 0) <= 90
    assert polling.pause(60, 0, left, timedelta(seconds=100)) is None
    asked: list[int] = []

    def noted(interval: float, failures: int, *_: Any) -> float:
        asked.append(failures)
        return 0.0

    monkeypatch.setattr(module, "pause", noted)

    def broken(self: TableReader) -> Any:
        raise OSError("stale file handle")

    monkeypatch.setattr(TableReader, "poll", broken)
    assert run(ConditionTrigger(kind="commits", table=table.path))["status"] == "error"
    assert asked == list(range(1, polling.MAX_FAILURES))


def test_an_event_that_is_no_event(table: WrittenTimeline) -> None:
    """As of a trigger that another release left in Airflow's database."""
    for event in (None, {}, {"status": "done"}):
        with pytest.raises(HoodieException, match="the trigger ended with"):
            sensor(table).execute_complete({}, event)


def test_airflows_default_makes_sensors_deferrable(
    table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not CommitSensor(task_id="wait", table=table.path).deferrable
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert CommitSensor(task_id="wait", table=table.path).deferrable
    assert not CommitSensor(task_id="wait", table=table.path, deferrable=False).deferrable
    deferred(CommitSensor(task_id="wait", table=table.path))


def test_a_text_of_the_table_begins_no_line_of_the_log(
    table: WrittenTimeline, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise TableError("partition 'a\nERROR forged\x1b[2J' is damaged")

    monkeypatch.setattr(module, "look", broken)
    monkeypatch.setattr(module, "MAX_FAILURES", 2)
    event = run(ConditionTrigger(kind="commits", table=table.path, poke_interval=0))
    with pytest.raises(HoodieException):
        sensor(table).execute_complete({}, event)
    lines = [line for line in capsys.readouterr().out.splitlines() if "forged" in line]
    assert ["a\\nERROR forged\\x1b[2J" in line for line in lines] == [True, True]


def test_a_wrong_rendered_argument_is_an_error_of_the_task(table: WrittenTimeline) -> None:
    event = run(ConditionTrigger(kind="commits", table=table.path, after="None"))
    with pytest.raises(HoodieConfigurationError, match="or ''"):
        sensor(table).execute_complete({}, event)


def starting(table: WrittenTimeline, **arguments: Any) -> CommitSensor:
    return CommitSensor(
        task_id="wait", table=table.path, start_from_trigger=True, poke_interval=0.05, **arguments
    )


def started(waiting: CommitSensor) -> ConditionTrigger:
    """The trigger with which Airflow starts the task."""
    arguments = waiting.start_trigger_args
    assert arguments is not None
    assert arguments.trigger_cls == f"{ConditionTrigger.__module__}.ConditionTrigger"
    return ConditionTrigger(**(arguments.trigger_kwargs or {}))


def event_of(trigger: ConditionTrigger) -> Any:
    return asyncio.run(asyncio.wait_for(first_event(trigger), SECONDS))


def test_started_from_the_trigger_the_task_ends_there(table: WrittenTimeline) -> None:
    instant = table.commit()
    event = event_of(started(starting(table)))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms is not None
    assert event.xcoms["return_value"]["instant"] == instant  # type: ignore[index, call-overload]


@pytest.mark.parametrize(("soft_fail", "kind"), [(False, TaskFailedEvent), (True, TaskSkippedEvent)])
def test_started_from_the_trigger_it_times_out_there(
    table: WrittenTimeline, soft_fail: bool, kind: type[Any]
) -> None:
    waiting = starting(table, soft_fail=soft_fail, timeout=5)
    assert waiting.start_trigger_args is not None
    assert waiting.start_trigger_args.timeout == timedelta(seconds=5)
    trigger = started(waiting)
    trigger.timeout_after = datetime.now(timezone.utc) + timedelta(seconds=1.2)  # the triggerer sets it
    assert isinstance(event_of(trigger), kind)


def test_started_from_the_trigger_an_error_fails_the_task(table: WrittenTimeline) -> None:
    assert isinstance(event_of(started(starting(table, after="{{ rendered_wrongly }}"))), TaskFailedEvent)


def test_no_xcomarg_when_started_from_the_trigger(table: WrittenTimeline) -> None:
    with DAG("d", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
        output: Any = CommitSensor(task_id="first", table=table.path).output
        with pytest.raises(HoodieConfigurationError, match=r"after: .* takes no XComArg; .*xcom_pull"):
            starting(table, after=output["instant"])
        CommitSensor(task_id="second", table=table.path, after=output["instant"], deferrable=True)


SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import CommitSensor, PartitionSensor

    with DAG("deferred_sensors", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
             params={{"day": "day=1"}}):
        common = dict(table={path!r}, poke_interval=0.05)
        CommitSensor(task_id="commit", after="{after}", deferrable=True, **common)
        for kind in ("deferrable", "start_from_trigger"):
            PartitionSensor(task_id=kind, partitions="{{{{ params.day }}}}", **{{kind: True}}, **common)
"""


def test_a_dag_of_deferred_sensors(load_dag: Callable[[str], Any], table: WrittenTimeline) -> None:
    first = table.commit("day=0")
    dag = load_dag(SOURCE.format(path=table.path, after=first))
    writer = threading.Timer(2, lambda: table.commit("day=1"))
    writer.start()
    done = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
    writer.join()
    found = {
        ti.task_id: (str(ti.state), ti.xcom_pull(task_ids=ti.task_id)) for ti in done.get_task_instances()
    }
    assert {state for state, _ in found.values()} == {"success"}
    assert found["commit"][1]["instant"] == table.commits[-1]
    for kind in ("deferrable", "start_from_trigger"):
        assert found[kind][1]["partitions"] == {"day=1": table.commits[-1]}


@pytest.mark.full
def test_polls_without_spark_and_arrow(table: WrittenTimeline) -> None:
    """Sensor, its trigger and the watcher of an asset, in a process that has no data packages."""
    table.commit(extra={"token": "t"})
    code = """
import asyncio, sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyspark", "pyarrow", "numpy", "fastavro", "duckdb"}:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
sys.meta_path.insert(0, Wall())
sys.path[:0] = sys.argv[2:]
from airflow_hoodie import CommitEventTrigger
from airflow_hoodie.triggers.condition import ConditionTrigger
async def first(trigger):
    async for event in trigger.run():
        return event.payload
waiting = ConditionTrigger(kind="commits", table=sys.argv[1], extra_metadata={"token": "t"})
found = asyncio.run(first(waiting))["value"]
told = asyncio.run(first(CommitEventTrigger(table=sys.argv[1], start="earliest")))
print(found["instant"], told["instant"])
"""
    command = [sys.executable, "-c", code, table.path, str(ROOT), str(ROOT / "spark_jobs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split()[-2:] == table.commits * 2, done.stderr


def test_commits_of_later_table_versions(later_tables: Path) -> None:
    """Tables that Apache Hudi 1.2.0 wrote: the sensor pokes, and its trigger gives the same."""
    for folder in ("1.2.0-v8/all_instants", "1.2.0-v9/cow_types"):
        path = str(later_tables / folder / "table")
        meta = json.loads((later_tables / folder / "meta.json").read_text())
        poked = CommitSensor(task_id="wait", table=path).poke({})
        assert poked.is_done
        waited = run(revived(ConditionTrigger(kind="commits", table=path, poke_interval=0)))["value"]
        assert waited == poked.xcom_value
        assert waited["instant"] in meta["completion"]
        assert CommitSensor(task_id="wait", table=path, partition="nowhere").poke({}).is_done is False
