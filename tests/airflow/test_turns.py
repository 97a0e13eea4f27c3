"""Tasks whose job runs on the worker wait in the triggerer for their turn at a table: they keep their place
in its queue, whatever is killed meanwhile, and their jobs take it over.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.bases.operator import ExecutorSafeguard

import hoodie
from airflow_hoodie import HoodieTable, polling
from airflow_hoodie.exceptions import HoodieConflictError
from airflow_hoodie.operators.services import CleanOperator, HiveSyncOperator
from airflow_hoodie.operators.write import DeletePartitionOperator, UpsertOperator
from airflow_hoodie.triggers import turn as module
from airflow_hoodie.triggers.turn import TurnTrigger
from hoodie.concurrency.place import Place
from hoodie.concurrency.queue import FOLDER, Waiting, line
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import Heartbeat
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES, WAIT_MS, WAIT_PLACE

from .conftest import FakeSubmit
from .detached import Store, context_of

SECONDS = 20


@pytest.fixture
def table(tmp_path: Path) -> HoodieTable:
    made = HoodieTable(name="orders", path=str(tmp_path / "orders"), record_keys="id")
    hoodie.write_table(pa.table({"id": ["a"], "n": [0]}), made.path, options=made.options_for("upsert"))
    return made


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "in.csv").write_text("id,n\nb,1\n")
    return str(tmp_path / "in.csv")


@contextlib.contextmanager
def writer(table: HoodieTable) -> Iterator[str]:
    """Another process writes the table; its instant."""
    beat = Heartbeat(Table(TableRef(table.path), LocalStorage()), "20990101000000000", 60_000, 2)
    beat.start()
    try:
        yield str(beat.instant)
    finally:
        beat.stop()


def queue(table: HoodieTable) -> list[Waiting]:
    return line(
        Table(TableRef(table.path), LocalStorage()), INTERVAL_MS.default or 0, TOLERABLE_MISSES.default or 0
    )


def tickets(table: HoodieTable) -> list[str]:
    folder = Path(table.path, FOLDER)
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def upsert(table: HoodieTable, source: str, **arguments: Any) -> UpsertOperator:
    defaults: dict[str, Any] = {
        "task_id": "write", "table": table, "source": source, "engine": "local", "deferrable": True,
        "poll_interval": 0.05,
    }  # fmt: skip
    return UpsertOperator(**{**defaults, **arguments})


def deferred(task: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context_of(Store()))
    assert caught.value.method_name == "execute_in_turn"
    return caught.value


def revived(trigger: Any) -> TurnTrigger:
    """The trigger as another process makes it from Airflow's database."""
    classpath, kwargs = trigger.serialize()
    assert classpath == "airflow_hoodie.triggers.turn.TurnTrigger"
    assert json.loads(json.dumps(kwargs)) == kwargs
    again = TurnTrigger(**Trigger._decrypt_kwargs(Trigger(classpath, kwargs).encrypted_kwargs))
    assert again.serialize() == (classpath, kwargs)
    return again


async def first_event(trigger: TurnTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    raise AssertionError("the trigger ended without an event")


def run(trigger: Any) -> Any:
    return asyncio.run(asyncio.wait_for(first_event(revived(trigger)), SECONDS))


async def cancelled(trigger: TurnTrigger) -> None:
    """The triggerer ends it, as it stops, or as the task was killed or cleared."""
    task = asyncio.create_task(first_event(trigger))
    await asyncio.sleep(0.2)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def ids(table: HoodieTable) -> list[str]:
    found: list[str] = hoodie.read_table(table.path, columns=["id"])["id"].to_pylist()
    return sorted(found)


def test_a_task_waits_in_the_triggerer_and_writes_in_its_turn(
    table: HoodieTable, source: str, jobs_here: None
) -> None:
    with contextlib.ExitStack() as at_work:
        at_work.enter_context(writer(table))
        deferral = deferred(upsert(table, source, execution_timeout=timedelta(minutes=5)))
        assert deferral.timeout == timedelta(minutes=5)
        (one,) = queue(table)
        assert one.beat.run is not None, "who looks at the table sees which task waits"
        assert (one.beat.run.dag_id, one.beat.run.task_id) == ("dag", "write")

        async def scenario() -> Any:
            waiting = asyncio.create_task(first_event(revived(deferral.trigger)))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            at_work.close()
            return await asyncio.wait_for(waiting, SECONDS)

        event = asyncio.run(scenario())
    assert [item.beat.instant for item in queue(table)] == [one.beat.instant], "the job is to take the place"
    result = upsert(table, source).execute_in_turn(context_of(Store()), event)
    assert (result["status"], result["num_inserts"]) == ("committed", 1)
    assert ids(table) == ["a", "b"]
    assert tickets(table) == []


def test_a_free_table_defers_nothing(table: HoodieTable, source: str, jobs_here: None) -> None:
    assert upsert(table, source).execute(context_of(Store()))["status"] == "committed"
    assert tickets(table) == []


def test_airflows_default_counts(
    table: HoodieTable, source: str, jobs_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with writer(table):
        with pytest.raises(HoodieConflictError, match=r"not free within 0\.2 s"):
            upsert(table, source, deferrable=None, wait_for_writer=0.2).execute(context_of(Store()))
        monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
        deferred(upsert(table, source, deferrable=None))


def test_tasks_go_in_the_order_in_which_they_came(table: HoodieTable, source: str) -> None:
    """The second one also waits while the first one's job is about to begin on a worker."""
    with writer(table):
        first, second = (deferred(upsert(table, source, task_id=name)).trigger for name in ("1", "2"))
        assert first.place < second.place

    async def scenario() -> None:
        behind = asyncio.create_task(first_event(revived(second)))
        event = await asyncio.wait_for(first_event(revived(first)), SECONDS)
        await asyncio.sleep(0.5)
        assert not behind.done()
        task = upsert(table, source, task_id="1")
        await asyncio.to_thread(task.execute_in_turn, context_of(Store()), event)
        await asyncio.wait_for(behind, SECONDS)

    asyncio.run(scenario())
    assert [name[1:] for name in tickets(table)] == [second.place]


def test_a_task_that_lets_its_turn_pass_is_passed_over(
    table: HoodieTable, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    with writer(table):
        deferred(upsert(table, source, task_id="never"))
        trigger = deferred(upsert(table, source)).trigger
    assert run(trigger)["place"] == trigger.place


def test_a_killed_task_leaves_its_place(table: HoodieTable, source: str) -> None:
    """A cleared one comes anew, at the end of the queue."""
    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
        asyncio.run(cancelled(revived(trigger)))
        assert tickets(table) == []
        assert deferred(upsert(table, source)).trigger.place > trigger.place


def test_a_place_that_is_given_up_stays_so(
    table: HoodieTable, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is killed while a thread of the trigger keeps the place."""
    hold = Place.hold

    def slow(self: Place) -> None:
        time.sleep(0.5)
        hold(self)

    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
        monkeypatch.setattr(Place, "hold", slow)
        asyncio.run(cancelled(revived(trigger)))
        assert tickets(table) == []


def test_a_triggerer_that_stops_and_starts_has_the_same_place(table: HoodieTable, source: str) -> None:
    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
        deferred(upsert(table, source, task_id="later"))
        asyncio.run(cancelled(revived(trigger)))
        asyncio.run(cancelled(revived(trigger)))
    assert run(trigger)["place"] == trigger.place
    assert tickets(table)[0][1:] == trigger.place


KILLED = """
import asyncio, sys
from airflow_hoodie.triggers.turn import TurnTrigger
async def wait():
    async for event in TurnTrigger(**eval(sys.argv[1])).run():
        print(event, flush=True)
async def main():
    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0.5)
    print("waits", flush=True)
    await waiting
asyncio.run(main())
"""


def test_a_triggerer_that_is_killed_loses_no_place(table: HoodieTable, source: str) -> None:
    """The place is a lease, so that others go behind it until another triggerer takes the trigger over."""
    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
        command = [sys.executable, "-c", KILLED, repr(trigger.serialize()[1])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as triggerer:
            assert triggerer.stdout is not None
            assert any(said == "waits\n" for said in triggerer.stdout)
            triggerer.send_signal(signal.SIGKILL)
        assert [str(one.beat.instant)[1:] for one in queue(table)] == [trigger.place]
        later = deferred(upsert(table, source, task_id="later")).trigger
    assert trigger.place < later.place
    assert run(trigger)["place"] == trigger.place


def test_who_has_waited_long_enough_says_for_whom(table: HoodieTable, source: str, jobs_here: None) -> None:
    with writer(table) as instant:
        event = run(deferred(upsert(table, source, wait_for_writer=0.3)).trigger)
        with pytest.raises(HoodieConflictError, match=f"is at work on .*{instant}"):
            upsert(table, source).execute_in_turn(context_of(Store()), event)
        assert tickets(table) == []


def test_the_job_has_the_last_word_where_the_table_can_not_be_read(
    table: HoodieTable, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "LONGEST", 0.05)

    def broken(*_: object) -> None:
        raise OSError("the storage is out of reach")

    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
        monkeypatch.setattr(Place, "state", broken)
        assert run(trigger)["place"] == trigger.place


def test_a_triggerer_that_may_not_write_waits_without_a_place(
    table: HoodieTable, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("read only")

    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
    for ticket in Path(table.path, FOLDER).iterdir():
        ticket.unlink()
    monkeypatch.setattr(Place, "hold", refused)
    assert run(trigger)["place"] == trigger.place


def test_a_commit_that_is_there_when_the_turn_comes(table: HoodieTable, source: str, jobs_here: None) -> None:
    """Another run of the task wrote meanwhile: its commit is the result, and the place is given up."""
    with writer(table):
        trigger = deferred(upsert(table, source)).trigger
    done = upsert(table, source, deferrable=False).execute(context_of(Store()))
    result = upsert(table, source).execute_in_turn(context_of(Store()), run(trigger))
    assert (result["status"], result["instant"]) == ("already_committed", done["instant"])
    assert len(hoodie.instants(table.path)) == 2
    assert [name for name in tickets(table) if name[1:] == trigger.place] == tickets(table)


class Noting(UpsertOperator):
    """One of a user's own, which does more."""

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override]
        return {**super().execute(context), "noted": True}


def test_a_class_of_your_own_is_resumed_as_it_begins(
    table: HoodieTable, source: str, jobs_here: None
) -> None:
    """With Airflow's check that `execute` is called by its runner alone."""
    arguments: dict[str, Any] = {
        "task_id": "write", "table": table, "source": source, "engine": "local", "deferrable": True,
        "allow_nested_operators": False,
    }  # fmt: skip
    with writer(table):
        runner = {"Noting__sentinel": ExecutorSafeguard.sentinel_value}
        with pytest.raises(TaskDeferred) as caught:
            Noting(**arguments).execute(context_of(Store()), **runner)
    result = Noting(**arguments).execute_in_turn(context_of(Store()), run(caught.value.trigger))
    assert (result["status"], result["noted"]) == ("committed", True)


def test_spark_in_client_mode(table: HoodieTable, source: str, committing: FakeSubmit) -> None:
    """The task waits before spark-submit starts, whose job has the place and what is left of the time."""

    def task() -> UpsertOperator:
        return upsert(
            table, source, engine="spark", master="local[1]", spark_binary=str(committing.path), name="n"
        )

    with writer(table):
        trigger = deferred(task()).trigger
        assert not Path(f"{committing.path}.json").exists()
    assert task().execute_in_turn(context_of(Store()), run(trigger))["status"] == "committed"
    options = committing.request()["options"]
    assert options[WAIT_PLACE.name] == trigger.place
    assert 0 < int(options[WAIT_MS.name]) <= 3_600_000
    assert tickets(table) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"wait_for_writer": 0},
        {"dry_run": True},
        {"deferrable": False},
        {
            "options": {
                "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
                "hoodie.write.lock.provider": "filesystem",
            }
        },
    ],
    ids=["no patience", "dry run", "not deferrable", "writers at once"],
)
def test_what_does_not_wait_in_the_triggerer(
    arguments: dict[str, Any], table: HoodieTable, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_hoodie.hooks.local.HoodieLocalHook.run", lambda *_: {"status": "ran"})
    with writer(table):
        result = upsert(table, source, **arguments, emit_asset=False).execute(context_of(Store()))
    assert result["status"] == "ran"


def test_services_wait_before_writers(table: HoodieTable, source: str) -> None:
    """Those that make a plan, and operators that write; not what carries a plan out, nor what reads."""
    with writer(table):
        behind = deferred(upsert(table, source)).trigger
        clean = deferred(CleanOperator(task_id="clean", table=table, deferrable=True)).trigger
        drop = DeletePartitionOperator(
            task_id="drop",
            table=table.to_dict() | {"partition_fields": ["n"]},
            partitions="1",
            deferrable=True,
        )
        assert (clean.rank, deferred(drop).trigger.rank) == ("service", "writer")
        assert tickets(table)[0][1:] == clean.place
        assert behind.place < clean.place
    assert run(clean)["place"] == clean.place


def test_services_that_do_not_queue(table: HoodieTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_hoodie.hooks.local.HoodieLocalHook.run", lambda *_: {"status": "ran"})
    execute = CleanOperator(task_id="clean", table=table, mode="execute", deferrable=True)
    sync = HiveSyncOperator(
        task_id="sync", table=table, metastore="thrift://h:9083", database="d", deferrable=True
    )
    with writer(table):
        assert [task.execute(context_of(Store()))["status"] for task in (execute, sync)] == ["ran", "ran"]


SOURCE = """
    from datetime import datetime, timezone
    from airflow.sdk import DAG
    from airflow_hoodie import HoodieTable, UpsertOperator

    ORDERS = HoodieTable(name="orders", path={path!r}, record_keys="id")
    with DAG("in_turn", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        UpsertOperator(
            task_id="write", table=ORDERS, source={source!r}, engine="local", deferrable=True,
            poll_interval=0.05)
"""


def test_a_dag_whose_write_waits(table: HoodieTable, source: str, load_dag: Callable[[str], Any]) -> None:
    """Airflow's task runner and trigger, and a job in a process of its own."""
    dag = load_dag(SOURCE.format(path=table.path, source=source))
    with contextlib.ExitStack() as at_work:
        at_work.enter_context(writer(table))

        def leave() -> None:
            while not tickets(table):
                time.sleep(0.01)
            at_work.close()

        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        done = dag.test(logical_date=datetime(2026, 1, 2, tzinfo=timezone.utc))
        leaving.join(SECONDS)
    (ti,) = done.get_task_instances()
    assert (str(ti.state), ti.xcom_pull(task_ids="write")["num_inserts"]) == ("success", 1)
    assert ids(table) == ["a", "b"]
    assert tickets(table) == []
