"""How often a table is written, and whether its next write is late."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.freshness import EXPECTED_KEY, INTERVALS, STATED, WRITES, Freshness
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import INTERVAL_KEY, RUN_KEY, TOKEN_KEY
from tests.support.stores import store_at

STORAGE = LocalStorage()
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
NOW = int(datetime(2026, 3, 1, 12, tzinfo=timezone.utc).timestamp() * 1000)


class History:
    """Commits at given times; completed just then."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "t")
        properties.create(STORAGE, self.path, {properties.NAME: "t"})

    def commit(self, at: int, operation: str = "UPSERT", **extra: str) -> None:
        instant = Instant(InstantTime(format_millis(at, utc=True)), Action.COMMIT, State.REQUESTED)
        for state in (State.REQUESTED, State.INFLIGHT):
            store_at(self.path).create(instant.with_state(state))
        metadata = CommitMetadata({}, extra_metadata=extra, operation_type=operation)
        store_at(self.path).create(instant.with_state(State.COMPLETED), metadata.to_json())

    def freshness(self, age: int = 0) -> Freshness:
        timeline = Timeline.load(self.path, STORAGE)
        completed = max((timeline.completion_of(item) or 0 for item in timeline.commits()), default=0)
        return Freshness.of(timeline, lambda instant: timeline.details(instant, STORAGE), completed + age)


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def interval(day: int, days: int = 1) -> str:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(days=day)
    return f"{start.isoformat()}/{(start + timedelta(days=days)).isoformat()}"


def token(what: str) -> dict[str, str]:
    return {TOKEN_KEY: f"daily/load/-1/{what}", RUN_KEY: "daily/load/-1/run=r"}


def test_a_table_without_writes_is_not_late(history: History) -> None:
    found = history.freshness(age=100 * DAY)
    assert (found.last, found.usual_ms, found.basis, found.late) == (None, None, None, False)


def test_a_backfill_of_daily_runs_makes_no_table_late(history: History) -> None:
    """Twenty days are written in a minute: the table is still a daily one."""
    for day in range(20):
        history.commit(NOW + day * 3 * SECOND, **token(interval(day)))
    found = history.freshness(age=2 * DAY)
    assert (found.usual_ms, found.basis, found.late) == (DAY, INTERVALS, False)
    assert history.freshness(age=4 * DAY).late


def test_one_data_interval_is_enough(history: History) -> None:
    history.commit(NOW, **token(interval(0)))
    assert (history.freshness().usual_ms, history.freshness(age=4 * DAY).late) == (DAY, True)


def test_intervals_count_once_whatever_their_tasks(history: History) -> None:
    """Many mapped tasks write a day, a single one wrote a month."""
    history.commit(NOW, **token(interval(-40, days=31)))
    for day in range(2):
        for number in range(8):
            history.commit(NOW + DAY * (day + 1) + number * SECOND, **token(interval(day)))
    assert history.freshness().usual_ms == DAY


def test_runs_that_stand_for_moments(history: History) -> None:
    """As those of CronTriggerTimetable, whose intervals are empty: the moments are a day apart."""
    for day in range(6):
        start = interval(day).partition("/")[0]
        history.commit(NOW + day * SECOND, **token(f"{start}/{start}"))
    assert (history.freshness().usual_ms, history.freshness().basis) == (DAY, INTERVALS)


def test_an_interval_beside_the_run(history: History) -> None:
    """Of an operator without a token, or with one of the user's own."""
    extra = {RUN_KEY: "hourly/ingest/-1/run=r", INTERVAL_KEY: interval(0)}
    history.commit(NOW, **extra)
    history.commit(NOW + SECOND, **extra, **{TOKEN_KEY: "mine"})
    assert (history.freshness().usual_ms, history.freshness().basis) == (DAY, INTERVALS)


def test_a_burst_alone_says_nothing(history: History) -> None:
    for number in range(6):
        history.commit(NOW + number * 20 * SECOND)
    found = history.freshness(age=DAY)
    assert (found.usual_ms, found.basis, found.late) == (None, None, False)


@pytest.mark.parametrize(
    ("times", "usual"),
    [
        ([day * DAY for day in range(8)], DAY),
        ([*(day * DAY for day in range(8)), *(7 * DAY + n * SECOND for n in range(1, 40))], DAY),
        ([hour * HOUR + task * MINUTE for hour in range(8) for task in range(5)], HOUR),
        ([minute * MINUTE for minute in range(60)], MINUTE),
        ([-2 * HOUR, *(minute * MINUTE for minute in range(160))], MINUTE),
        ([0, DAY, 4 * DAY], 3 * DAY),
        ([0, 30 * SECOND, DAY, DAY + 30 * SECOND], DAY),
    ],
    ids=["daily", "a catch-up", "hourly by five tasks", "a stream", "it pauses", "few", "two bursts"],
)
def test_gaps_between_writes(history: History, times: list[int], usual: int) -> None:
    for time in times:
        history.commit(NOW + time)
    found = history.freshness()
    assert (found.usual_ms, found.basis) == (usual, WRITES)


def test_what_is_stated_goes_first(history: History) -> None:
    """The newest statement does; what is no number of milliseconds is none."""
    history.commit(NOW, **token(interval(0)), **{EXPECTED_KEY: str(7 * DAY)})
    history.commit(NOW + SECOND, **token(interval(1)), **{EXPECTED_KEY: str(HOUR)})
    history.commit(NOW + 2 * SECOND, **token(interval(2)))
    assert (history.freshness().usual_ms, history.freshness().basis) == (HOUR, STATED)
    for number, wrong in enumerate(("-1", "0", "٣", "1e9", "9" * 40)):
        history.commit(NOW + (3 + number) * SECOND, **token(interval(3)), **{EXPECTED_KEY: wrong})
    assert history.freshness().basis == STATED
    assert not history.freshness(age=2 * HOUR).late
    assert history.freshness(age=4 * HOUR).late


def test_services_are_no_writes(history: History) -> None:
    for day in range(6):
        history.commit(NOW + day * DAY)
        history.commit(NOW + day * DAY + HOUR, operation="COMPACT")
    found = history.freshness()
    assert (found.usual_ms, found.last and found.last.time) == (DAY, format_millis(NOW + 5 * DAY, utc=True))


def test_commits_carry_the_setting(tmp_path: Path) -> None:
    """Upserts and deletes of a table whose options state it; other tables' commits have nothing of it."""
    path, keys = str(tmp_path / "t"), {"hoodie.datasource.write.recordkey.field": "id"}
    options = {**keys, EXPECTED_KEY: DAY}
    rows = pa.table({"id": ["a", "b"]})
    hoodie.write_table(rows, path, options=options)
    hoodie.write_table(rows.slice(1), path, operation="delete", options=options)
    timeline = Timeline.load(path, STORAGE)
    stated = [timeline.details(item, STORAGE) for item in timeline.commits()]
    assert [item and item.extra_metadata.get(EXPECTED_KEY) for item in stated] == [str(DAY)] * 2
    found = Freshness.of(timeline, lambda item: timeline.details(item, STORAGE), STORAGE.now_ms() + 2 * DAY)
    assert (found.usual_ms, found.basis, found.late) == (DAY, STATED, False)
    hoodie.write_table(rows, str(tmp_path / "u"), options=keys)
    [other] = Timeline.load(str(tmp_path / "u"), STORAGE).commits()
    plain = Timeline.load(str(tmp_path / "u"), STORAGE).details(other, STORAGE)
    assert plain is not None
    assert EXPECTED_KEY not in plain.extra_metadata
