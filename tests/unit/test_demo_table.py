"""The demo's table (tests.support.demo_table): what the screenshots of the docs show."""

from __future__ import annotations

import datetime as dt

import pytest

import hoodie
from hoodie.timeline import clock
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.support import demo_table

pytestmark = pytest.mark.table_version(6)

HOURS = 6


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    return demo_table.write_table(tmp_path_factory.mktemp("demo"), HOURS)


def test_a_write_an_hour_with_its_interval(table: str) -> None:
    writes = [
        entry
        for entry in hoodie.instants(table)
        if (entry["action"], entry["state"]) == ("deltacommit", "completed")
    ]
    begun = [clock.instant_millis(entry["instant"], utc=True) / 1000 for entry in writes]
    hours = [int((time - demo_table.START.timestamp()) // 3600) for time in begun]
    assert hours == list(range(HOURS))


def test_one_write_died_and_was_rolled_back_and_one_is_left(table: str) -> None:
    timeline = Timeline.load(table)
    assert len(timeline.filter([Action.ROLLBACK], completed=True)) == 1
    (left,) = timeline.pending()
    assert left.action is Action.DELTACOMMIT
    end = demo_table.START + dt.timedelta(hours=HOURS)
    assert clock.instant_millis(left.time, utc=True) / 1000 >= end.timestamp()
    assert timeline.filter([Action.COMPACTION, Action.COMMIT], completed=True)


def test_rows_are_those_of_the_last_change(table: str) -> None:
    rows = hoodie.read_table(table, meta=False)
    assert rows.column("order_id").to_pylist() == list(dict.fromkeys(rows.column("order_id").to_pylist()))
    assert max(rows.column("updated_at").to_pylist()) == HOURS - 1


def test_times_of_files_are_those_of_the_past(table: str) -> None:
    timeline = Timeline.load(table)
    for instant in timeline.commits():
        late = (timeline.completion_of(instant) or 0) - clock.instant_millis(instant.time, utc=True)
        assert 60_000 <= late <= 421_000
    assert str(clock.new_instant_time(None, utc=True)) > "2026031", "the clock is this machine's again"
