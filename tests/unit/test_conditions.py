"""Which commits a sensor sees, and which it waits for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hoodie.commits import CommitHit, TableReader
from airflow_hoodie.conditions import CommitFilter, Commits, Since, commit_actions, condition, situation
from hoodie.errors import ConfigError
from hoodie.storage import FileInfo
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import ModificationTimes, Timeline
from hoodie.timeline.commit_details import CommitDetails
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, in_order
from hoodie.timeline.layouts.one import ONE
from scripts.environment import ROOT
from tests.support.storages import Behind, wrapped

T1, T2, T3, T4 = (f"2026010{day}000000000" for day in (1, 2, 3, 4))
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def timeline(**files: int) -> Timeline:
    """Timeline of file names (`t_` before, `__` for the dot) with completion times in ms."""
    mtimes = {name.removeprefix("t_").replace("__", "."): time for name, time in files.items()}
    best: dict[tuple[str, Action], Instant] = {}
    for name in mtimes:
        instant = ONE.parse(name)
        assert instant is not None, name
        key = (instant.time, instant.comparable_action)
        if key not in best or best[key].state < instant.state:
            best[key] = instant
    return Timeline("/lake/t", tuple(in_order(best.values())), mtimes)


def of(*names: str) -> Timeline:
    """Timeline of file names, completed one after the other."""
    return timeline(**{name: number for number, name in enumerate(names, start=1)})


class Reader(TableReader):
    """Knows what commits say; notes which were opened."""

    def __init__(self, details: Mapping[str, CommitDetails]) -> None:
        super().__init__("/lake/t")
        self._details = details
        self.opened: list[str] = []

    def details(self, instant: Instant) -> CommitDetails | None:
        self.opened.append(instant.time)
        return self._details.get(instant.time)


def found(
    line: Timeline,
    operations: dict[str, str] | None = None,
    actions: frozenset[Action] = COMMIT_ACTIONS,
    **bounds: Any,
) -> str | None:
    reader = Reader({time: CommitDetails(name) for time, name in (operations or {}).items()})
    hit = Commits(CommitFilter(actions), **bounds).find(reader, line)
    return None if hit is None else hit.instant.time


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, Since()),
        ("", Since()),
        (T1, Since(instant=T1)),
        (int(T1), Since(instant=T1)),
        ("20260101000000", Since(instant="20260101000000")),
        (NOON, 0),
        (NOON.replace(tzinfo=None), 0),
        (NOON.astimezone(timezone(timedelta(hours=5, minutes=30))), 0),
        ("2026-01-01T12:00:00", 0),
        ("2026-01-01T12:00:00Z", 0),
        ("2026-01-01 12:00:00+00:00", 0),
        ("2026-01-01T13:00:00+01:00", 0),
        ("20260101T120000", 0),
        ("20260101T130000+0100", 0),
        ("2026-01-01T12:00:00.250Z", 250),
        ("2026-01-01", -12 * 3_600_000),
        ("20260101", -12 * 3_600_000),
    ],
)
def test_since(value: object, expected: Since | int) -> None:
    if isinstance(expected, int):
        expected = Since(moment_ms=int(NOON.timestamp() * 1000) + expected)
    assert Since.parse(value) == expected


@pytest.mark.parametrize("value", ["yesterday", "None", "2026", "202601011200000", "2026-13-01", 1.5, [T1]])
def test_since_refuses(value: object) -> None:
    with pytest.raises(ConfigError, match="neither an instant") as caught:
        Since.parse(value)
    assert repr(value) in caught.value.message
    assert ("or ''" in caught.value.message) == (value == "None")


def test_nothing_on_an_empty_timeline_or_while_a_commit_runs() -> None:
    assert found(of()) is None
    assert found(of(f"{T1}.commit.requested", f"{T1}.inflight")) is None


def test_after_an_instant_is_exclusive_and_compares_texts() -> None:
    line = of(f"{T1}.commit", f"{T2}.commit")
    assert found(line, since=Since(instant=T1)) == T2
    assert found(line, since=Since(instant=T2)) is None
    assert found(line, since=Since(instant=T2[:14])) == T2  # a longer text with the same start is greater


@given(st.lists(st.one_of(st.just("begin"), st.just("look"), st.integers(0, 9)), max_size=60))
def test_looks_one_after_the_last_one_find_each_commit_once(steps: list[str | int]) -> None:
    """A number completes that pending instant: writers at once end in another order than they begin."""
    pending: list[int] = []
    completed: dict[str, int] = {}
    seen: list[str] = []
    last: str | None = None
    for number, step in enumerate([*steps, "look"], start=10):
        if step == "begin":
            pending.append(number)
        elif isinstance(step, int) and pending:
            completed[f"{pending.pop(step % len(pending))}.commit"] = number
        elif step == "look":
            line = timeline(**completed)
            until = found(line, since=Since(instant=last))
            if until is not None:
                after, end = Since(instant=last).on(line), Since(instant=until).on(line)
                times = [(item.time, item, completed[f"{item.time}.commit"]) for item in line.commits()]
                seen += [
                    time for time, item, ms in times if after.admits(item, ms) and not end.admits(item, ms)
                ]
                last = until
    assert sorted(f"{time}.commit" for time in seen) == sorted(completed)


def test_after_a_moment_compares_completion_not_the_instant() -> None:
    line = timeline(**{f"{T1}.commit": 5000, f"{T2}.commit": 4000})
    assert found(line, since=Since(moment_ms=4500)) == T1
    assert found(line, since=Since(moment_ms=4999)) == T1
    assert found(line, since=Since(moment_ms=5000)) is None


def test_the_hit_is_the_one_completed_last() -> None:
    assert found(timeline(**{f"{T1}.commit": 9, f"{T2}.commit": 8})) == T1
    assert found(timeline(**{f"{T1}.commit": 8, f"{T2}.commit": 8})) == T2


def test_a_minimum_of_commits() -> None:
    line = of(f"{T1}.commit", f"{T2}.deltacommit", f"{T3}.clean", f"{T4}.commit")
    assert found(line, min_commits=3) == T4
    assert found(line, min_commits=4) is None
    assert found(line, min_commits=2, since=Since(instant=T2)) is None


def test_actions() -> None:
    line = of(f"{T1}.deltacommit", f"{T2}.commit", f"{T3}.rollback", f"{T4}.savepoint")
    assert found(line) == T2
    assert found(line, actions=commit_actions(["deltacommit"])) == T1
    assert found(line, actions=commit_actions(["replacecommit"])) is None


@pytest.mark.parametrize("names", [["clean"], ["commit", "compaction"], [], "commit"])
def test_actions_refused(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="use a list of commit, deltacommit, replacecommit"):
        commit_actions(names)


def test_compactions_do_not_count() -> None:
    line = of(
        f"{T1}.deltacommit", f"{T2}.compaction.requested", f"{T2}.compaction.inflight", f"{T2}.commit",
        f"{T3}.logcompaction.requested", f"{T3}.deltacommit",
    )  # fmt: skip
    assert found(line) == T1
    assert found(line, min_commits=2) is None


def test_clusterings_do_not_count_and_overwrites_do() -> None:
    line = of(f"{T1}.replacecommit", f"{T2}.replacecommit", f"{T3}.replacecommit")
    operations = {T1: "INSERT_OVERWRITE", T2: "CLUSTER"}  # T3 can't be read yet
    assert found(line, operations) == T1
    assert found(line, operations, min_commits=2) is None


def test_replace_commits_are_opened_only_as_far_as_needed() -> None:
    reader = Reader({time: CommitDetails("INSERT_OVERWRITE") for time in (T1, T2, T3)})
    line = of(f"{T1}.replacecommit", f"{T2}.replacecommit", f"{T3}.replacecommit")
    assert Commits().find(reader, line) is not None
    assert reader.opened == [T3]


@given(
    commits=st.dictionaries(st.integers(10, 99), st.tuples(st.integers(0, 50), st.booleans()), max_size=12),
    bound=st.one_of(st.none(), st.integers(10, 99)),
    by_time=st.booleans(),
    minimum=st.integers(1, 4),
)
def test_equals_the_plain_definition(
    commits: dict[int, tuple[int, bool]], bound: int | None, by_time: bool, minimum: int
) -> None:
    """Random timelines of commits and clusterings against a list comprehension."""
    line = timeline(
        **{f"{time}.{'replacecommit' if c else 'commit'}": ms for time, (ms, c) in commits.items()}
    )
    since = Since() if bound is None else Since(moment_ms=bound) if by_time else Since(instant=str(bound))
    # an instant of the timeline is a place in the order of completion
    place = (commits[bound][0], bound) if bound in commits else (99, 0)
    free = 99 if bound is None or bound in commits else bound
    eligible = [
        (ms, time)
        for time, (ms, clustering) in commits.items()
        if not clustering
        and (bound is None or (ms > bound if by_time else (ms, time) > place or time > free))
    ]
    expected = str(max(eligible)[1]) if len(eligible) >= minimum else None
    operations = {str(time): "CLUSTER" for time in commits}
    assert found(line, operations, since=since, min_commits=minimum) == expected


def test_until_is_an_inclusive_upper_bound() -> None:
    line = timeline(**{f"{T1}.commit": 1000, f"{T2}.commit": 2000, f"{T3}.commit": 3000})
    assert found(line, until=Since(instant=T2)) == T2
    assert found(line, until=Since(moment_ms=2999)) == T2
    assert found(line, since=Since(moment_ms=2000), until=Since(moment_ms=3000)) == T3
    assert found(line, since=Since(moment_ms=2000), until=Since(moment_ms=2999)) is None
    assert found(line, until=Since(moment_ms=2999), min_commits=3) is None


def metadata(operation: str = "UPSERT", partitions: tuple[str, ...] = (), **extra: str) -> str:
    stats = {name: [{"fileId": "f-0", "path": f"{name}/f", "numInserts": 4}] for name in partitions}
    return json.dumps(
        {
            "partitionToWriteStats": stats,
            "operationType": operation,
            "extraMetadata": {"schema": "{}", **extra},
        }
    )


@pytest.fixture
def meta(tmp_path: Path) -> Path:
    (tmp_path / ".hoodie").mkdir()
    return tmp_path / ".hoodie"


def look(meta: Path, kind: str = "commits", **arguments: Any) -> Any:
    reader = TableReader(str(meta.parent))
    hit = condition(kind, arguments).find(reader, reader.poll())
    return hit and hit.to_dict()


def test_details_from_storage(meta: Path) -> None:
    (meta / f"{T1}.replacecommit").write_text(
        json.dumps({"operationType": "cluster", "partitionToReplaceFileIds": {"b": ["f"], "a": []}})
    )
    (meta / f"{T2}.replacecommit").write_text('{"operationType": "INS')
    (meta / f"{T3}.replacecommit").write_text("")
    (meta / f"{T4}.commit").write_text(metadata(partitions=("p", "o"), token="x"))
    reader = TableReader(str(meta.parent))
    clustering, torn, empty, commit = reader.poll()
    assert [reader.details(torn), reader.details(empty)] == [None, None]
    found = reader.details(clustering)
    assert found is not None
    assert (found.operation, found.partitions, found.is_service) == ("CLUSTER", ("a", "b"), True)
    found = reader.details(commit)
    assert found is not None
    assert (found.partitions, found.extra_metadata) == (("o", "p"), {"token": "x"})
    assert found.counts["num_inserts"] == 8
    assert not found.is_service


def test_a_commit_is_opened_once_and_forgotten_when_it_is_archived(meta: Path) -> None:
    (meta / f"{T1}.commit").write_text(metadata(operation="INSERT"))
    reader = TableReader(str(meta.parent))
    [instant] = reader.poll()
    (meta / f"{T1}.commit").write_text("torn")
    assert reader.details(instant) is None
    (meta / f"{T1}.commit").write_text(metadata(operation="INSERT"))
    first = reader.details(instant)
    (meta / f"{T1}.commit").unlink()
    assert reader.details(instant) is first
    reader.poll()
    assert reader.details(instant) is None


def test_a_poll_looks_at_what_is_new_since_the_last_one(meta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    completion = Timeline.completion_of

    def noted(timeline: Timeline, instant: Instant) -> int | None:
        looked.append(instant.time)
        return completion(timeline, instant)

    monkeypatch.setattr(Timeline, "completion_of", noted)
    for time_, name in ((T1, "x"), (T2, "y")):
        (meta / f"{time_}.commit").write_text(metadata(token=name))
    reader = TableReader(str(meta.parent))
    which = {name: Commits.of(extra_metadata={"token": name}) for name in ("x", "z")}
    assert which["z"].find(reader, reader.poll()) is None
    looked.clear()
    (meta / f"{T3}.commit").write_text("")
    assert which["z"].find(reader, reader.poll()) is None
    (meta / f"{T3}.commit").write_text(metadata(token="z"))
    hit = which["z"].find(reader, reader.poll())
    assert hit is not None
    assert (hit.instant.time, looked) == (T3, [T3, T3])
    hit = which["x"].find(reader, reader.poll())
    assert hit is not None
    assert hit.instant.time == T1


def test_over_a_network_a_first_look_at_many_times_is_a_listing(tmp_path: Path) -> None:
    class Far(LocalStorage):
        remote = True
        looks: ClassVar[list[str]] = []

        def info(self, path: str) -> FileInfo | None:
            self.looks.append("info")
            return super().info(path)

        def list(self, path: str) -> list[FileInfo]:
            self.looks.append("list")
            return super().list(path)

    names = frozenset(f"{number}.commit" for number in range(100, 150))
    for name in names:
        (tmp_path / name).touch()
    times = ModificationTimes(Far(), str(tmp_path), names, names)
    assert {times[name] for name in names} == {int((tmp_path / n).stat().st_mtime * 1000) for n in names}
    assert (Far.looks.count("list"), Far.looks.count("info")) == (1, 4)


def test_a_reader_of_many_conditions_answers_each(meta: Path) -> None:
    for time_, name in ((T1, "x"), (T2, "y")):
        (meta / f"{time_}.commit").write_text(metadata(partitions=(name,)))
    reader = TableReader(str(meta.parent))
    for _ in range(2):
        for number in range(40):
            assert Commits.of(partition=f"p{number}").find(reader, reader.poll()) is None
        found = [Commits.of(partition=name).find(reader, reader.poll()) for name in ("x", "y")]
        assert [hit and hit.instant.time for hit in found] == [T1, T2]


def test_a_partition_and_extra_metadata(meta: Path) -> None:
    (meta / f"{T1}.commit").write_text(metadata(partitions=("a", "b"), **{"airflow.token": "t1", "run": "7"}))
    (meta / f"{T2}.commit").write_text(metadata(partitions=("b",), run="8"))
    (meta / f"{T3}.commit").write_text('{"torn')
    assert look(meta, partition="a")["instant"] == T1
    assert look(meta, partition="b/")["instant"] == T2
    assert look(meta, partition=["a", "c"])["instant"] == T1
    assert look(meta, partition=["a", "b"], min_commits=3) is None
    assert look(meta, partition="c") is None
    assert look(meta, token="t1")["instant"] == T1
    assert look(meta, token="t1", after=T1) is None
    assert look(meta, token="t2") is None
    assert look(meta, extra_metadata={"run": "8"})["instant"] == T2
    assert look(meta, extra_metadata={"run": "7"}, token="t1")["instant"] == T1
    assert look(meta, extra_metadata={"run": "8"}, token="t1") is None


def test_partitions(meta: Path) -> None:
    (meta / f"{T2}.commit").write_text(metadata(partitions=("a", "b")))
    (meta / f"{T3}.deltacommit").write_text(metadata(partitions=("b",)))
    base = str(meta.parent)
    assert look(meta, "partitions", partitions=["a", "b"]) == {
        "base_path": base,
        "partitions": {"a": T2, "b": T3},
    }
    assert look(meta, "partitions", partitions=["a", "b"], after=T2) is None
    assert look(meta, "partitions", partitions="b", after=T2)["partitions"] == {"b": T3}
    assert look(meta, "partitions", partitions=["a", "c"]) is None


def test_a_deleted_partition_is_none_until_it_is_written_again(meta: Path) -> None:
    """Replacing a partition's files is writing it, where new ones come."""

    def replace(time: str, operation: str, written: tuple[str, ...], *replaced: str) -> None:
        commit = json.loads(metadata(operation, written))
        commit["partitionToReplaceFileIds"] = {name: ["f-0"] for name in replaced}
        (meta / f"{time}.replacecommit").write_text(json.dumps(commit))

    (meta / f"{T1}.commit").write_text(metadata(partitions=("a", "b")))
    replace(T2, "DELETE_PARTITION", (), "a")
    assert look(meta, "partitions", partitions="a") is None
    assert look(meta, "partitions", partitions="a", after=T1) is None
    assert look(meta, "partitions", partitions="b")["partitions"] == {"b": T1}
    replace(T3, "INSERT_OVERWRITE_TABLE", ("a",), "a", "b")
    assert look(meta, "partitions", partitions="a")["partitions"] == {"a": T3}
    assert look(meta, "partitions", partitions="b") is None
    (meta / f"{T4}.commit").write_text(metadata(partitions=("b",)))
    assert look(meta, "partitions", partitions=["a", "b"])["partitions"] == {"a": T3, "b": T4}


def test_a_partition_of_an_archived_commit_exists_and_one_of_a_failed_write_does_not(meta: Path) -> None:
    (meta / f"{T2}.commit").write_text(metadata(partitions=("a",)))
    for name, instant, files in (
        ("old", T1, ["f.parquet"]),
        ("empty", T1, []),
        ("failed", T3, ["f.parquet"]),
    ):
        folder = meta.parent / name
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text(f"#p\ncommitTime={instant}\npartitionDepth=1\n")
        (folder / "..hoodie_partition_metadata.crc").touch()
        for file in files:
            (folder / file).touch()
    assert look(meta, "partitions", partitions="old")["partitions"] == {"old": None}
    assert look(meta, "partitions", partitions="old", after=T1) is None
    assert look(meta, "partitions", partitions="empty") is None
    assert look(meta, "partitions", partitions="failed") is None


def test_freshness(meta: Path) -> None:
    (meta / f"{T1}.commit").write_text(metadata())
    (meta / f"{T2}.replacecommit").write_text(metadata(operation="CLUSTER"))
    assert look(meta, "freshness", max_age=60)["instant"] == T1
    old = time.time() - 3600
    os.utime(meta / f"{T1}.commit", (old, old))
    assert look(meta, "freshness", max_age=timedelta(hours=2))["instant"] == T1
    assert look(meta, "freshness", max_age=60) is None  # clustering makes nothing fresh


def test_freshness_by_the_tables_own_gaps(meta: Path) -> None:
    """Without an age a daily table is fresh for three days; while no gap is known it is waited for."""
    name = f"{T1}.commit"
    (meta / name).write_text(metadata())
    assert look(meta, "freshness") is None
    run = "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00"
    (meta / name).write_text(metadata("UPSERT", (), **{"airflow.token": f"daily/load/-1/{run}"}))
    assert look(meta, "freshness")["instant"] == T1
    for days, fresh in ((2, True), (4, False)):
        old = time.time() - days * 86_400
        os.utime(meta / name, (old, old))
        assert (look(meta, "freshness") is not None) is fresh


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("commits", {}, "a commit of rows"),
        ("commits", {"after": T1, "min_commits": 2}, f"2 commits of rows after instant {T1}"),
        (
            "commits",
            {"after": "2026-01-01", "until": "2026-01-02T00:00:00Z", "partition": ["b", "a"]},
            "a commit of rows to partition 'a' or 'b' after 2026-01-01T00:00:00+00:00 "
            "and not after 2026-01-02T00:00:00+00:00",
        ),
        (
            "commits",
            {"token": "t\x1b", "actions": ["commit"]},
            "with action commit with airflow.token='t\\x1b'",
        ),
        ("partitions", {"partitions": "day=1"}, "partition 'day=1'"),
        ("partitions", {"partitions": ["a", "b"], "after": T2}, f"'a', 'b' with a commit after instant {T2}"),
        ("freshness", {"max_age": 5400}, "a commit of rows of the last 1 h 30 min"),
        ("freshness", {}, "no older than three of the table's usual gaps"),
    ],
)
def test_what_is_waited_for_in_words(kind: str, arguments: dict[str, Any], words: str) -> None:
    assert words in condition(kind, arguments).words()


def test_what_a_table_has_in_words(meta: Path) -> None:
    """Of a table without properties, one without commits, and one whose last commit is some hours old."""
    reader = TableReader(str(meta.parent))
    assert situation(reader) == "no table is there yet"
    reader.poll()
    assert situation(reader) == "the table has no commit of rows yet"
    (meta / f"{T1}.commit").write_text(metadata())
    old = time.time() - 3.5 * 3600
    os.utime(meta / f"{T1}.commit", (old, old))
    (meta / f"{T2}.replacecommit").write_text(metadata(operation="CLUSTER"))
    reader.poll()
    assert situation(reader) == f"its last commit of rows is {T1}, completed 3 h 30 min ago"


def test_freshness_by_the_storages_clock(meta: Path) -> None:
    (meta / f"{T1}.commit").write_text(metadata())
    with wrapped(Behind):
        assert look(meta, "freshness", max_age=600)["instant"] == T1


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("commits", {"min_commits": True}, "min_commits is True"),
        ("commits", {"until": "soon"}, "until='soon' is neither"),
        ("commits", {"partition": 7}, "partition is 7"),
        ("commits", {"partition": ""}, "partition is ''"),
        ("commits", {"token": " "}, "token is blank"),
        ("commits", {"extra_metadata": "a=b"}, "extra_metadata is 'a=b'"),
        ("partitions", {"partitions": []}, r"partition is \[\]"),
        ("freshness", {"max_age": 0}, "max_age is 0"),
        ("freshness", {"max_age": "1h"}, "max_age is '1h'"),
    ],
)
def test_refused(kind: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        condition(kind, arguments)


def test_the_hit_as_a_dict() -> None:
    moment = int(NOON.timestamp() * 1000) + 7
    hit = Commits().find(Reader({}), timeline(**{f"{T1}.commit": moment}))
    assert isinstance(hit, CommitHit)
    assert json.loads(json.dumps(hit.to_dict())) == {
        "base_path": "/lake/t",
        "instant": T1,
        "completion": T1,
        "action": "commit",
        "completion_time": "2026-01-01T12:00:00.007+00:00",
    }


def test_all_commit_actions_are_default() -> None:
    assert commit_actions(("commit", "deltacommit", "replacecommit")) == COMMIT_ACTIONS


def test_needs_neither_airflow_nor_data_packages(tmp_path: Path) -> None:
    code = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"airflow", "pyspark", "pyarrow", "numpy", "pandas", "fastavro"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Wall())
sys.path[:0] = sys.argv[1:]
import airflow_hoodie, airflow_hoodie.get_provider_info
import airflow_hoodie.conditions, airflow_hoodie.watch_offset
print("ok")
"""
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT), str(ROOT / "spark_jobs")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout == "ok\n", run.stderr


def test_a_moment_without_a_zone_is_utc_wherever_this_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for naive in (datetime(2026, 1, 1), "2026-01-01T00:00:00", "2026-01-01"):
            assert Since.parse(naive).moment_ms == 1_767_225_600_000
    finally:
        monkeypatch.undo()
        time.tzset()
