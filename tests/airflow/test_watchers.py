"""The watcher of a table's commits in Airflow's own machinery for triggers that share a stream."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.models.trigger import Trigger
from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import SharedStreamManager

from airflow_hoodie import CommitEventTrigger, polling
from airflow_hoodie.commits import TableReader
from airflow_hoodie.exceptions import HoodieConfigurationError, HoodieException
from airflow_hoodie.triggers import commits as module
from airflow_hoodie.watch_offset import NewCommits, WatchOffset, new_commits
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import Action

from .timelines import WrittenTimeline

SECONDS = 60


@pytest.fixture
def table(tmp_path: Path) -> WrittenTimeline:
    return WrittenTimeline.create(tmp_path)


class Store:
    """An asset's state store; JSON only, as Airflow's."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.writes = 0
        self.held: asyncio.Event | None = None  # writes wait for it

    async def aget(self, key: str, default: Any = None) -> Any:
        return json.loads(self.values[key]) if key in self.values else default

    async def aset(self, key: str, value: Any) -> None:
        if self.held is not None:
            await self.held.wait()
        self.values[key] = json.dumps(value)
        self.writes += 1

    def offset(self, trigger: CommitEventTrigger) -> WatchOffset | None:
        return WatchOffset.from_dict(
            json.loads(self.values.get(f"{module.OFFSET_KEY}:{trigger.watcher}", "null"))
        )


class Triggerer:
    """Runs triggers as Airflow's TriggerRunner does; `stored` are the events that reached the database.

    What is stored is confirmed to the runner only by `confirm`, one sync round later. `lost` are the events
    that it took when their stream had ended, so that no poll waits for them: it dies before they are stored.
    """

    def __init__(self, *, dies: bool = False) -> None:
        self.streams = SharedStreamManager(ack_timeout=SECONDS)
        self.dies = dies
        self.stored: dict[int, list[str]] = {}
        self.lost: list[str] = []
        self.payloads: list[dict[str, Any]] = []
        self._unconfirmed: list[int] = []
        self._tasks: list[asyncio.Task[None]] = []

    def run(self, trigger: CommitEventTrigger, store: Any = None, crash_after: int | None = None) -> None:
        number = len(self._tasks)
        trigger.asset_state_store = store
        self.stored[number] = []
        self._tasks.append(asyncio.create_task(self._run(number, trigger, crash_after)))

    async def _run(self, number: int, trigger: CommitEventTrigger, crash_after: int | None) -> None:
        key = trigger.shared_stream_key()
        stream = self.streams.subscribe(trigger_id=number, trigger=trigger, key=key)
        try:
            await self._take(number, trigger.filter_shared_stream(stream), key, crash_after)
        finally:
            await self.streams.unsubscribe(number, key)

    async def _take(
        self, number: int, events: AsyncIterator[TriggerEvent], key: tuple[str, ...], crash_after: int | None
    ) -> None:
        async for event in events:
            await asyncio.sleep(0)  # Airflow logs the event before it binds it
            seq = self.streams.bind_pending_event(trigger_id=number, key=key)
            if seq is None and self.dies:
                self.lost.append(event.payload["instant"])
                continue
            assert seq is not None, "an event outside the window of its poll is not gated"
            self._unconfirmed.append(seq)
            self.stored[number].append(event.payload["instant"])
            self.payloads.append(event.payload)
            if crash_after is not None and len(self.stored[number]) == crash_after:
                await asyncio.Event().wait()

    def confirm(self) -> None:
        self.streams.confirm_persisted(self._unconfirmed)
        self._unconfirmed = []

    async def until(self, enough: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not enough():
                for task in self._tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.01)

        await asyncio.wait_for(wait(), SECONDS)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.streams.stop_all()


def watcher(table: WrittenTimeline, **arguments: Any) -> CommitEventTrigger:
    return CommitEventTrigger(
        **{"table": table.path, "poke_interval": 0.05, "start": "earliest", **arguments}
    )


def test_one_event_for_each_commit_with_what_it_wrote(table: WrittenTimeline) -> None:
    slow = table.begin()
    quick = table.commit("day=2")
    table.compact()
    table.commit("day=1", begun=slow)

    async def scenario() -> list[dict[str, Any]]:
        triggerer = Triggerer()
        triggerer.run(watcher(table))
        await triggerer.until(lambda: len(triggerer.payloads) == 2)
        table.overwrite("day=2")
        await triggerer.until(lambda: len(triggerer.payloads) == 3)
        await triggerer.stop()
        return triggerer.payloads

    events = asyncio.run(scenario())
    assert [event["instant"] for event in events] == table.commits == [quick, slow.time, table.commits[2]]
    assert json.loads(json.dumps(events)) == events
    completed = datetime.fromisoformat(events[0].pop("completion_time"))
    assert completed.tzinfo is not None
    assert events[0] == {
        "base_path": table.path,
        "instant": quick,
        "completion": quick,
        "action": "commit",
        "operation": "upsert",
        "partitions": ["day=2"],
        "num_inserts": 2,
        "num_updates": 1,
        "num_deletes": 0,
        "num_writes": 3,
        "num_files": 1,
        "bytes_written": 0,
        "watcher": table.path,
    }
    assert events[2]["operation"] == "insert_overwrite"
    assert events[2]["partitions"] == ["day=2"]


def test_many_watchers_share_one_poll(table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch) -> None:
    polls: set[int] = set()
    opened: list[bytes] = []
    poll, parse = TableReader.poll, CommitDetails.parse

    def counted(self: TableReader) -> Any:
        polls.add(id(self))
        return poll(self)

    def opening(data: bytes, value: Any) -> Any:
        opened.append(data)
        return parse(data, value)

    monkeypatch.setattr(TableReader, "poll", counted)
    monkeypatch.setattr(CommitDetails, "parse", opening)

    async def scenario() -> dict[int, list[str]]:
        triggerer = Triggerer()
        for wanted in ({}, {"actions": ["deltacommit"]}, {"partition": "day=1"}, {"services": True}):
            triggerer.run(watcher(table, **wanted))
        for number in range(6):
            table.commit(f"day={number}", Action.DELTACOMMIT if number % 2 else Action.COMMIT)
            await asyncio.sleep(0.03)
        compaction = table.compact()
        await triggerer.until(lambda: [len(events) for events in triggerer.stored.values()] == [6, 3, 1, 7])
        assert compaction in triggerer.stored[3]
        await triggerer.stop()
        return triggerer.stored

    stored = asyncio.run(scenario())
    assert stored[0] == table.commits
    assert stored[1] == table.commits[1::2]
    assert stored[2] == table.commits[1:2]
    assert len(polls) == 1  # one reader for all
    assert len(opened) == 7  # each commit is opened once for all


def test_a_late_watcher_begins_with_its_own_offset(table: WrittenTimeline) -> None:
    store = Store()

    async def scenario() -> None:
        triggerer = Triggerer()
        triggerer.run(watcher(table))
        table.commit()
        table.commit()
        await triggerer.until(lambda: len(triggerer.stored[0]) == 2)
        triggerer.run(watcher(table, start=table.commits[0], actions=["commit"]))
        triggerer.run(watcher(table, start="latest", services=True), store)
        await triggerer.until(lambda: len(triggerer.stored[1]) == 1 and store.writes > 0)
        table.commit()
        await triggerer.until(
            lambda: all(items[-1:] == table.commits[2:] for items in triggerer.stored.values())
        )
        assert triggerer.stored == {0: table.commits, 1: table.commits[1:], 2: table.commits[2:]}
        await triggerer.stop()

    asyncio.run(scenario())


def test_the_offset_is_stored_after_the_events_and_not_before(table: WrittenTimeline) -> None:
    for _ in range(3):
        table.commit()
    store = Store()
    trigger = watcher(table)

    async def scenario() -> None:
        triggerer = Triggerer()
        triggerer.run(trigger, store)
        await triggerer.until(lambda: len(triggerer.payloads) == 3)
        await asyncio.sleep(0.3)
        assert store.offset(trigger) == WatchOffset()  # as it was at the start: nothing is known to be stored
        triggerer.confirm()
        await triggerer.until(lambda: (store.offset(trigger) or WatchOffset()).covers(table.commits[-1]))
        writes = store.writes
        await asyncio.sleep(0.3)
        assert store.writes == writes  # polls without news write nothing
        await triggerer.stop()

    asyncio.run(scenario())


def test_the_start_is_stored_so_that_a_restart_misses_nothing(table: WrittenTimeline) -> None:
    table.commit()
    store = Store()

    async def session(enough: Callable[[Triggerer], bool]) -> list[str]:
        triggerer = Triggerer()
        triggerer.run(watcher(table, start="latest"), store)
        await triggerer.until(lambda: enough(triggerer))
        triggerer.confirm()
        await triggerer.stop()
        return triggerer.stored[0]

    assert asyncio.run(session(lambda triggerer: store.writes > 0)) == []
    new = table.commit()
    assert asyncio.run(session(lambda triggerer: len(triggerer.payloads) > 0)) == [new]


def test_500_commits_with_restarts(table: WrittenTimeline) -> None:
    """Restarts with all that was stored confirmed, as when a trigger is moved to another triggerer.

    Commits go on while none runs. For the crashes see test_triggerer.py.
    """
    store = Store()
    trigger = watcher(table)
    stored: list[str] = []

    async def session() -> None:
        triggerer = Triggerer()
        triggerer.run(watcher(table), store)
        for number in range(100):
            table.commit(f"day={number % 5}")
            if number % 5 == 0:
                table.serve(number // 5)
            if number % 10 == 0:
                await asyncio.sleep(0.01)
        await triggerer.until(lambda: len(stored) + len(triggerer.payloads) == len(table.commits))
        triggerer.confirm()
        await triggerer.until(lambda: (store.offset(trigger) or WatchOffset()).covers(table.commits[-1]))
        await asyncio.sleep(0.2)
        stored.extend(triggerer.stored[0])
        await triggerer.stop()

    for _ in range(5):
        asyncio.run(session())
    assert stored == table.commits
    assert len(stored) == 500
    offset = store.offset(trigger)
    assert offset is not None
    assert len(offset.done) < 150  # the stored offset does not grow with the table's age


def test_a_crash_before_the_confirmation_repeats_and_loses_nothing(table: WrittenTimeline) -> None:
    """Airflow's own means alone, without the listener: at least once."""
    for _ in range(5):
        table.commit()
    store = Store()

    async def session(crash_after: int | None) -> list[str]:
        triggerer = Triggerer()
        triggerer.run(watcher(table), store, crash_after)
        await triggerer.until(lambda: len(triggerer.payloads) >= (crash_after or 5))
        await triggerer.stop()
        return triggerer.stored[0]

    assert asyncio.run(session(2)) == table.commits[:2]
    assert asyncio.run(session(None)) == table.commits


def test_events_of_a_poll_that_has_ended_are_not_in_the_offset(
    table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error ends the poll while an offset is written, and while another commit's event is on its way."""
    table.commit()
    store = Store()
    trigger = watcher(table)
    looking, ended = threading.Event(), threading.Event()
    poll = TableReader.poll

    def failing(self: TableReader) -> Any:
        if looking.is_set():
            raise RuntimeError("no error of a storage")
        return poll(self)

    def waiting(reader: TableReader, timeline: Timeline, *others: Any) -> NewCommits:
        if len(timeline.commits()) > 1:
            looking.set()
            assert ended.wait(SECONDS)
        return new_commits(reader, timeline, *others)

    monkeypatch.setattr(TableReader, "poll", failing)
    monkeypatch.setattr(module, "new_commits", waiting)

    async def scenario() -> list[str]:
        triggerer = Triggerer(dies=True)
        triggerer.run(trigger, store)
        await triggerer.until(lambda: len(triggerer.payloads) == 1)
        store.held = asyncio.Event()
        triggerer.confirm()
        table.commit()
        await triggerer.until(lambda: not triggerer.streams._groups)
        ended.set()
        with pytest.raises(RuntimeError, match="no error of a storage"):
            await triggerer.until(lambda: False)
        store.held.set()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), SECONDS)
        return triggerer.lost

    assert asyncio.run(scenario()) == table.commits[1:]
    offset = store.offset(trigger)
    assert offset is not None
    assert [offset.covers(instant) for instant in table.commits] == [True, False]


def test_events_beside_a_triggerers_end_are_not_in_the_offset(table: WrittenTimeline, tmp_path: Path) -> None:
    """The triggerer ends one table's poll after the other: the next ones go on, and nothing is stored."""
    other = WrittenTimeline.create(tmp_path, "others")
    first, second = Store(), Store()

    async def scenario() -> list[str]:
        triggerer = Triggerer(dies=True)
        for written, store in ((table, first), (other, second)):
            written.commit()
            triggerer.run(watcher(written), store)
        await triggerer.until(lambda: len(triggerer.payloads) == 2)
        first.held = asyncio.Event()
        triggerer.confirm()
        await triggerer.until(
            lambda: (second.offset(watcher(other)) or WatchOffset()).covers(other.commits[0])
        )
        end = asyncio.create_task(triggerer.streams.stop_all())
        await triggerer.until(lambda: not triggerer.streams._groups)
        for _ in range(3):
            other.commit()
            await triggerer.until(lambda: triggerer.lost == other.commits[1:])
        first.held.set()
        await asyncio.wait_for(end, SECONDS)
        await triggerer.stop()
        return triggerer.lost

    assert asyncio.run(scenario()) == other.commits[1:]
    offset = second.offset(watcher(other))
    assert offset is not None
    assert [offset.covers(instant) for instant in other.commits] == [True, False, False, False]


def test_what_the_listener_noted_is_not_told_again(table: WrittenTimeline) -> None:
    for _ in range(5):
        table.commit()
    store = Store()
    trigger = watcher(table)
    store.values[f"{module.OFFSET_KEY}:{trigger.watcher}"] = json.dumps(WatchOffset().to_dict())
    store.values[f"{module.EVENTS_KEY}:{trigger.watcher}"] = json.dumps(table.commits[:3])

    async def scenario() -> list[str]:
        triggerer = Triggerer()
        triggerer.run(trigger, store)
        await triggerer.until(lambda: len(triggerer.payloads) == 2)
        await triggerer.stop()
        return triggerer.stored[0]

    assert asyncio.run(scenario()) == table.commits[3:]


@pytest.mark.parametrize("archived", [True, False])
def test_commits_that_may_have_been_archived_unseen_are_warned_of(
    table: WrittenTimeline, caplog: pytest.LogCaptureFixture, archived: bool
) -> None:
    for _ in range(4):
        table.commit()
    store = Store()
    trigger = watcher(table)
    store.values[f"{module.OFFSET_KEY}:{trigger.watcher}"] = json.dumps({"low": table.commits[0], "done": []})
    for instant in table.commits[: 2 if archived else 1]:
        table.archive(instant)
    if not archived:
        store.values[f"{module.EVENTS_KEY}:{trigger.watcher}"] = json.dumps(table.commits[1:2])

    async def scenario() -> list[str]:
        triggerer = Triggerer()
        triggerer.run(trigger, store)
        await triggerer.until(lambda: len(triggerer.payloads) == 2)
        await triggerer.stop()
        return triggerer.stored[0]

    assert asyncio.run(scenario()) == table.commits[2:]
    assert ("was not watched since" in caplog.text) == archived


def test_assets_that_share_a_trigger_share_its_offset(table: WrittenTimeline) -> None:
    """Airflow gives equal watchers of several assets one trigger, and one state store for each asset."""

    class Stores:
        def __init__(self) -> None:
            self._by_name = {"a": Store(), "b": Store()}

        async def aget(self, key: str, default: Any = None) -> Any:
            raise ValueError("which asset?")

    stores = Stores()
    table.commit()

    async def session(number: int) -> list[str]:
        triggerer = Triggerer()
        triggerer.run(watcher(table), stores)
        await triggerer.until(lambda: len(triggerer.payloads) == number)
        triggerer.confirm()
        await triggerer.until(
            lambda: all(
                (store.offset(watcher(table)) or WatchOffset()).covers(table.commits[-1])
                for store in stores._by_name.values()
            )
        )
        await triggerer.stop()
        return triggerer.stored[0]

    assert asyncio.run(session(1)) == table.commits
    second = table.commit()
    assert asyncio.run(session(1)) == [second]


def test_a_table_that_comes_later_and_a_storage_that_hiccups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polling, "LONGEST", 0.05)
    poll = TableReader.poll
    failures = [3]

    def flaky(self: TableReader) -> Any:
        failures[0] -= 1
        if failures[0] >= 0:
            raise OSError("stale file handle")
        return poll(self)

    monkeypatch.setattr(TableReader, "poll", flaky)

    async def scenario() -> None:
        triggerer = Triggerer()
        triggerer.run(CommitEventTrigger(table=f"file://{tmp_path}/orders", poke_interval=0.05))
        await triggerer.until(lambda: failures[0] < -3)
        table = WrittenTimeline.create(tmp_path)
        first = table.commit()
        await triggerer.until(lambda: triggerer.stored[0] == [first])
        failures[0] = 3
        second = table.commit()
        await triggerer.until(lambda: triggerer.stored[0] == [first, second])
        await triggerer.stop()

    asyncio.run(scenario())


def test_arguments_survive_the_database(table: WrittenTimeline) -> None:
    trigger = watcher(
        table,
        start=datetime(2026, 1, 1),
        actions={"deltacommit", "commit"},
        partition=("a", "b"),
        extra_metadata={"k": "v"},
    )
    classpath, kwargs = trigger.serialize()
    row = Trigger(classpath, kwargs)
    again = CommitEventTrigger(**Trigger._decrypt_kwargs(row.encrypted_kwargs))
    assert again.serialize() == (classpath, kwargs)
    assert again.which == trigger.which
    assert again.watcher == trigger.watcher != table.path
    assert again.watcher.startswith(table.path)
    assert CommitEventTrigger.hash(classpath, kwargs) == CommitEventTrigger.hash(*again.serialize())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "orders"}, "'orders' is relative"),
        ({"table": "{{ params.lake }}/orders"}, "no template"),
        ({"start": "yesterday"}, "start='yesterday' is neither"),
        ({"actions": ["clean"]}, "use a list of commit"),
        ({"partition": ""}, "partition is ''"),
    ],
)
def test_wrong_arguments_fail_when_the_dag_is_read(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(HoodieConfigurationError, match=message):
        CommitEventTrigger(**{"table": "/lake/orders", **arguments})
    with pytest.raises(HoodieException, match="no storage for scheme 'ftp'"):
        CommitEventTrigger(table="ftp://lake/orders")
