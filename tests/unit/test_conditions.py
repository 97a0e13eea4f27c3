"""Which commits a sensor sees, and which it waits for."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hoodie.conditions import Since, commit_actions, newest_commit, read_operation
from hoodie.errors import ConfigError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant
from scripts.environment import ROOT

T1, T2, T3, T4 = (f"2026010{day}000000000" for day in (1, 2, 3, 4))
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def timeline(**files: int) -> Timeline:
    """Timeline of file names (`t_` before, `__` for the dot) with completion times in ms."""
    mtimes = {name.removeprefix("t_").replace("__", "."): time for name, time in files.items()}
    best: dict[tuple[str, Action], Instant] = {}
    for name in mtimes:
        instant = Instant.parse(name)
        assert instant is not None, name
        key = (instant.time, instant.comparable_action)
        if key not in best or best[key].state < instant.state:
            best[key] = instant
    return Timeline("/lake/t", tuple(sorted(best.values())), mtimes)


def of(*names: str) -> Timeline:
    """Timeline of file names, completed one after the other."""
    return timeline(**{name: number for number, name in enumerate(names, start=1)})


def found(line: Timeline, operations: dict[str, str] | None = None, **condition: object) -> str | None:
    condition.setdefault("since", Since())
    hit = newest_commit(
        line,
        operation_of=lambda instant: (operations or {}).get(instant.time),
        **condition,  # type: ignore[arg-type]
    )
    return hit and hit.instant.time


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
    opened: list[str] = []

    def operation_of(instant: Instant) -> str:
        opened.append(instant.time)
        return "INSERT_OVERWRITE"

    line = of(f"{T1}.replacecommit", f"{T2}.replacecommit", f"{T3}.replacecommit")
    assert newest_commit(line, since=Since(), operation_of=operation_of) is not None
    assert opened == [T3]


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
    eligible = [
        (ms, time)
        for time, (ms, clustering) in commits.items()
        if not clustering and (bound is None or (ms > bound if by_time else time > bound))
    ]
    expected = str(max(eligible)[1]) if len(eligible) >= minimum else None
    operations = {str(time): "CLUSTER" for time in commits}
    assert found(line, operations, since=since, min_commits=minimum) == expected


def test_operation_from_storage(tmp_path: Path) -> None:
    meta = tmp_path / ".hoodie"
    meta.mkdir()
    (meta / f"{T1}.replacecommit").write_text(json.dumps({"operationType": "cluster"}))
    (meta / f"{T2}.replacecommit").write_text('{"operationType": "INS')
    (meta / f"{T3}.replacecommit").write_text("")
    line = Timeline.load(str(tmp_path))
    assert [read_operation(line, instant) for instant in line] == ["CLUSTER", None, None]
    (meta / f"{T1}.replacecommit").unlink()
    assert read_operation(line, line.instants[0]) is None


def test_the_hit_as_a_dict() -> None:
    hit = newest_commit(timeline(**{f"{T1}.commit": int(NOON.timestamp() * 1000) + 7}), since=Since())
    assert hit is not None
    assert json.loads(json.dumps(hit.to_dict())) == {
        "base_path": "/lake/t",
        "instant": T1,
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
import airflow_hoodie, airflow_hoodie.get_provider_info, airflow_hoodie.conditions
print("ok")
"""
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT), str(ROOT / "spark_jobs")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.stdout == "ok\n", run.stderr
