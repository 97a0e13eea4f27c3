from __future__ import annotations

import time

import pytest

from hoodie.timeline import clock
from hoodie.timeline.clock import format_millis, instant_millis, new_instant_time, parse_instant
from hoodie.timeline.time import REQUESTED, InstantTime

FUTURE = "29990101000000000"


def test_a_table_that_is_ahead_of_the_clock_stays_in_order_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_last", {})
    times = [new_instant_time(InstantTime(FUTURE)), new_instant_time(InstantTime(FUTURE))]
    assert times == ["29990101000000001", "29990101000000002"]
    assert REQUESTED.before(new_instant_time(None), FUTURE)


def test_a_table_that_is_ahead_a_little_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_last", {})
    new_instant_time(InstantTime(FUTURE))
    newest = format_millis(int(time.time() * 1000) + 60_000, False)
    assert str(newest) < str(new_instant_time(newest)) < FUTURE


def test_tables_of_both_time_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_last", {})
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    try:
        utc, local = new_instant_time(None, utc=True), new_instant_time(None, utc=False)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert 6.9 < (parse_instant(utc) - parse_instant(local)).total_seconds() / 3600 < 8.1


def test_no_time_is_given_out_twice() -> None:
    times = [new_instant_time(None) for _ in range(200)]
    assert sorted(set(map(str, times))) == times
    assert REQUESTED.after(new_instant_time(times[-1]), times[-1])


def test_milliseconds_of_instants() -> None:
    """Instants of releases before 0.10 have seconds only."""
    assert instant_millis("20260101000000", utc=True) == instant_millis("20260101000000000", utc=True)
    assert instant_millis("20260101000000123", utc=True) % 1000 == 123
