"""A watcher's place on a timeline: every commit once, whatever the order, the restarts and the archival."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hoodie import watch_offset
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import CommitFilter, Since
from airflow_hoodie.watch_offset import WatchOffset, new_commits
from hoodie.timeline.active import ModificationTimes, Timeline
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.time import InstantTime
from tests.support.storages import Behind, wrapped

ALL = CommitFilter(services=True)


class Reader(TableReader):
    def __init__(self) -> None:
        super().__init__("/lake/t")

    def details(self, instant: Instant) -> CommitDetails | None:
        return CommitDetails("UPSERT", ("p",), {"num_inserts": 1})


def timeline(completed: dict[str, int], pending: set[str] = frozenset()) -> Timeline:  # type: ignore[assignment]
    instants = [
        *(Instant(InstantTime(name), Action.COMMIT, State.COMPLETED) for name in completed),
        *(Instant(InstantTime(name), Action.COMMIT, State.INFLIGHT) for name in pending),
    ]
    return Timeline(
        "/lake/t", tuple(in_order(instants)), {f"{name}.commit": ms for name, ms in completed.items()}
    )


def told(seen: WatchOffset, line: Timeline) -> list[str]:
    return [event["instant"] for event in new_commits(Reader(), line, seen, ALL).events]


@given(
    st.lists(st.one_of(st.just("begin"), st.just("poll"), st.just("restart"), st.integers(0, 9)), max_size=80)
)
def test_every_commit_once(steps: list[str | int]) -> None:
    """A number completes that pending instant; the oldest completed ones are archived once they were told."""
    saved, seen = WatchOffset(), WatchOffset()
    pending: list[str] = []
    completed: dict[str, int] = {}
    finished: list[str] = []
    events: list[str] = []
    kept = watch_offset.KEPT
    watch_offset.KEPT = 3
    try:
        for number, step in enumerate([*steps, "poll"]):
            if step == "begin":
                pending.append(f"{number:03d}")
            elif isinstance(step, int) and pending:
                finished.append(pending.pop(step % len(pending)))
                completed[finished[-1]] = number
            elif step == "poll":
                line = timeline(completed, set(pending))
                found = new_commits(Reader(), line, seen, ALL)
                events += [event["instant"] for event in found.events]
                seen = saved = seen.plus(found.instants).compacted(line)
                for old in sorted(completed)[:-5]:
                    del completed[old]
            elif step == "restart":
                again = WatchOffset.from_dict(json.loads(json.dumps(saved.to_dict())))
                assert again is not None
                seen = again
        assert events == finished
        assert len(seen.done) <= 3 + len(finished)
    finally:
        watch_offset.KEPT = kept


def test_order_of_completion_not_of_instants() -> None:
    assert told(WatchOffset(), timeline({"1": 30, "2": 10, "3": 20, "4": 20})) == ["2", "3", "4", "1"]


def test_a_commit_that_becomes_visible_late_with_an_older_time_is_told() -> None:
    """Its file got its time before that of another commit which was visible earlier."""
    seen = WatchOffset().plus(told(WatchOffset(), timeline({"1": 10, "3": 30})))
    assert told(seen, timeline({"1": 10, "2": 20, "3": 30})) == ["2"]


def test_the_bound_rises_and_stays_below_what_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_offset, "KEPT", 2)
    done = WatchOffset().plus("12345")
    assert done.compacted(timeline({})) == WatchOffset("3", frozenset("45"))
    assert done.compacted(timeline({}, {"3"})) == WatchOffset("2", frozenset("345"))
    assert done.compacted(timeline({}, {"0"})) == done
    assert WatchOffset("3", frozenset("45")).covers("1")
    assert not WatchOffset("3", frozenset("45")).covers("6")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("latest", []),
        ("earliest", ["1", "2", "3"]),
        (Since(instant="1"), ["2", "3"]),
        (Since(moment_ms=20), ["3"]),
    ],
)
def test_starts(first: str | Since, expected: list[str]) -> None:
    line = timeline({"1": 10, "2": 20, "3": 30}, {"0"})
    seen = WatchOffset.start(line, first)
    assert told(seen, line) == expected
    late = timeline({"0": 40, "1": 10, "2": 20, "3": 30})
    assert "0" in told(seen, late)


def test_a_merge_has_dealt_with_what_either_had() -> None:
    merged = WatchOffset("2", frozenset("5")).merged(WatchOffset("3", frozenset("47")))
    assert merged == WatchOffset("3", frozenset("457"))


@pytest.mark.parametrize("value", [None, "x", [], {}, {"low": 1, "done": []}, {"low": "1", "done": "23"}])
def test_what_is_no_place_is_none(value: object) -> None:
    assert WatchOffset.from_dict(value) is None


def test_a_commit_that_is_being_written_holds_back_itself_and_later_ones(tmp_path: Path) -> None:
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    now = time.time()
    for number, text in enumerate(("{}", "", "{}"), start=1):
        (meta / f"{number}.commit").write_text(text)
        os.utime(meta / f"{number}.commit", (now - 10 + number, now - 10 + number))
    reader = TableReader(str(tmp_path))
    found = new_commits(reader, reader.poll(), WatchOffset(), CommitFilter())
    assert found.instants == ("1",)
    (meta / "2.commit").write_text("{}")
    os.utime(meta / "2.commit", (now - 8, now - 8))
    seen = WatchOffset().plus(found.instants)
    assert new_commits(reader, reader.poll(), seen, CommitFilter()).instants == ("2", "3")


def test_a_commit_that_stays_torn_is_told_without_its_details(tmp_path: Path) -> None:
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    (meta / "1.commit").write_text('{"torn')
    os.utime(meta / "1.commit", (1, 1))
    reader = TableReader(str(tmp_path))
    [event] = new_commits(reader, reader.poll(), WatchOffset(), CommitFilter()).events
    assert (event["instant"], event["operation"], event["partitions"], event["num_inserts"]) == (
        "1",
        None,
        [],
        None,
    )


def test_a_torn_commit_ages_by_the_storages_clock(tmp_path: Path) -> None:
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    (meta / "1.commit").write_text('{"torn')
    with wrapped(Behind):
        reader = TableReader(str(tmp_path))
    assert new_commits(reader, reader.poll(), WatchOffset(), CommitFilter()).instants == ()


def test_services_are_dealt_with_and_told_only_on_demand(tmp_path: Path) -> None:
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    for number, operation in ((1, "UPSERT"), (2, "COMPACT"), (3, "CLUSTER"), (4, "INSERT_OVERWRITE")):
        action = "replacecommit" if number > 2 else "commit"
        (meta / f"{number}.{action}").write_text(json.dumps({"operationType": operation}))
    reader = TableReader(str(tmp_path))
    rows = new_commits(reader, reader.poll(), WatchOffset(), CommitFilter())
    assert set(rows.instants) == set("1234")
    assert {event["operation"] for event in rows.events} == {"upsert", "insert_overwrite"}
    everything = new_commits(reader, reader.poll(), WatchOffset(), ALL)
    assert len(everything.events) == 4


def test_a_start_after_an_instant_misses_none_that_began_before_it() -> None:
    line = timeline({"100": 1, "102": 2}, {"101"})
    seen = WatchOffset.start(line, Since(instant="102"))
    assert told(seen, timeline({"100": 1, "102": 2, "101": 3})) == ["101"]
    assert told(WatchOffset.start(line, Since(instant="099")), line) == ["100", "102"]


def in_a_thread(run: Callable[..., Any], *arguments: Any) -> None:
    other = threading.Thread(target=run, args=arguments)
    other.start()
    other.join()


def test_commits_are_opened_while_the_table_is_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher may open one whenever the poll looks at a commit that is opened already."""
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    for number in range(1, 10):
        (meta / f"{number}.commit").write_text("{}")
    reader = TableReader(str(tmp_path))
    first, second, *others = reader.poll().instants
    later = iter(others)
    opened = [first, second]
    for instant in opened:
        assert reader.details(instant) is not None
    polling, plain = threading.current_thread(), Instant.__hash__

    def opening(self: Instant) -> int:
        if self is first and threading.current_thread() is polling:
            opened.append(next(later))
            in_a_thread(reader.details, opened[-1])
        return plain(self)

    (meta / "2.commit").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(Instant, "__hash__", opening)
        reader.poll()
    assert len(opened) > 2
    for path in meta.iterdir():
        path.unlink()
    assert [reader.details(instant) is not None for instant in opened] == [
        instant is not second for instant in opened
    ]


def test_times_are_looked_up_while_a_later_listing_takes_them_over(tmp_path: Path) -> None:
    """A watcher may ask for one whenever the poll looks at a file's name."""
    taking: list[threading.Thread] = []

    class Name(str):
        def __hash__(self) -> int:
            if threading.current_thread() in taking:
                in_a_thread(earlier.get, next(asked))
            return super().__hash__()

    names = [Name(f"{number}.commit") for number in range(9)]
    for name in names:
        (tmp_path / name).write_text("{}")
    asked = iter(names)
    storage = TableReader(str(tmp_path)).storage
    earlier, later = (ModificationTimes(storage, str(tmp_path), frozenset(names), names) for _ in range(2))
    assert earlier[next(asked)]
    assert earlier[next(asked)]
    taking.append(threading.current_thread())
    later.take(earlier)
    taking.clear()
    assert dict(later) == dict(earlier)
