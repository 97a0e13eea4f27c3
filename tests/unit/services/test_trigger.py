"""When a compaction is due: counted as Apache Hudi 0.15.0 counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.codec.avro import write_record
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.services.clustering.strategy import due as clustering_due
from hoodie.services.clustering.strategy import last_clustering
from hoodie.services.compaction.run import due
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import in_order
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.time import InstantTime

STRATEGY = "hoodie.compact.inline.trigger.strategy"
COMMITS = "hoodie.compact.inline.max.delta.commits"
SECONDS = "hoodie.compact.inline.max.delta.seconds"


def timeline(*names: str) -> Timeline:
    """Of file names such as `20260101000000000.deltacommit`."""
    instants = [ONE.parse(name) for name in names]
    assert None not in instants
    return Timeline("/t", tuple(in_order(item for item in instants if item)), {})


def at(minute: int) -> str:
    return f"202601010{minute // 60}{minute % 60:02d}00000"


def deltas(*minutes: int) -> list[str]:
    return [f"{at(minute)}.deltacommit" for minute in minutes]


def asked(trigger: str, commits: int, seconds: int) -> Config:
    return Config.of({STRATEGY: trigger, COMMITS: commits, SECONDS: seconds})


def test_by_default_five_delta_commits() -> None:
    config = Config.of({})
    four = due(timeline(*deltas(1, 2, 3, 4)), config, InstantTime(at(300)))
    assert not four.due
    assert four.reason.startswith(f"4 of 5 delta commits since {at(1)}")
    assert due(timeline(*deltas(1, 2, 3, 4, 5)), config, InstantTime(at(5))).due


def test_delta_commits_count_from_the_last_completed_compaction() -> None:
    config = asked("NUM_COMMITS", 2, 0)
    before = [*deltas(1, 2, 3), f"{at(4)}.commit"]
    none = due(timeline(*before), config, InstantTime(at(9)))
    assert (none.due, none.reason[:36]) == (False, "0 of 2 delta commits since " + at(4)[:9])
    assert not due(timeline(*before, *deltas(5)), config, InstantTime(at(9))).due
    assert due(timeline(*before, *deltas(5, 6)), config, InstantTime(at(9))).due


def test_a_pending_compaction_counts_only_after_the_last_request() -> None:
    pending = [*deltas(1, 2, 3), f"{at(4)}.compaction.requested", *deltas(5)]
    assert due(timeline(*pending), asked("NUM_COMMITS", 3, 0), InstantTime(at(9))).due
    assert not due(timeline(*pending), asked("NUM_COMMITS_AFTER_LAST_REQUEST", 2, 0), InstantTime(at(9))).due
    assert due(
        timeline(*pending, *deltas(6)), asked("NUM_COMMITS_AFTER_LAST_REQUEST", 2, 0), InstantTime(at(9))
    ).due


@pytest.mark.parametrize(
    ("trigger", "commits", "seconds", "expected"),
    [
        ("TIME_ELAPSED", 99, 540, True),
        ("TIME_ELAPSED", 1, 541, False),
        ("NUM_AND_TIME", 2, 540, True),
        ("NUM_AND_TIME", 3, 540, False),
        ("NUM_AND_TIME", 2, 541, False),
        ("NUM_OR_TIME", 3, 540, True),
        ("NUM_OR_TIME", 2, 541, True),
        ("NUM_OR_TIME", 3, 541, False),
    ],
)
def test_time_runs_from_the_last_compaction_or_the_first_delta_commit(
    trigger: str, commits: int, seconds: int, expected: bool
) -> None:
    config = asked(trigger, commits, seconds)
    fresh = due(timeline(*deltas(1, 2)), config, InstantTime(at(10)))
    again = due(timeline(*deltas(0), f"{at(1)}.commit", *deltas(2, 3)), config, InstantTime(at(10)))
    assert (fresh.due, again.due) == (expected, expected)


def test_the_reason_tells_both_numbers() -> None:
    answer = due(timeline(*deltas(1)), asked("NUM_AND_TIME", 5, 60), InstantTime(at(2)))
    assert "1 of 5 delta commits" in answer.reason
    assert "60 of 60 s" in answer.reason


def test_a_table_without_delta_commits_is_never_due() -> None:
    for names in ([], [f"{at(1)}.clean"]):
        answer = due(timeline(*names), asked("NUM_OR_TIME", 1, 0), InstantTime(at(9)))
        assert (answer.due, answer.reason) == (False, "the table has no delta commits")


def test_instants_of_other_writers_clocks_and_lengths() -> None:
    """Seconds only, as Hudi before 0.10 wrote them."""
    assert due(timeline("20260101000000.deltacommit"), asked("TIME_ELAPSED", 1, 59), InstantTime(at(1))).due


@pytest.mark.parametrize(
    ("name", "value"), [(STRATEGY, "SOMETIMES"), (COMMITS, "0"), (COMMITS, "x"), (SECONDS, "-1")]
)
def test_malformed_settings(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        Config.of({name: value})


def test_commits_count_from_the_last_of_two_clusterings(tmp_path: Path) -> None:
    plan = clustering_plan_bytes()
    names = [f"{at(1)}.commit", f"{at(2)}.replacecommit", f"{at(3)}.commit", f"{at(4)}.replacecommit"]
    for name in names:
        stored = tmp_path / ".hoodie" / name
        stored.parent.mkdir(exist_ok=True)
        stored.write_bytes(b"{}")
        if "replace" in name:
            stored.with_name(f"{name}.requested").write_bytes(plan)
    line = Timeline.load(str(tmp_path))
    newest = last_clustering(line, LocalStorage())
    assert newest is not None
    assert newest.time == at(4)
    config = Config.of({"hoodie.clustering.inline": True, "hoodie.clustering.inline.max.commits": 2})
    answer = clustering_due(line, LocalStorage(), config)
    assert (answer.due, answer.reason[:29]) == (False, f"0 of 2 commits since {at(4)}"[:29])


def clustering_plan_bytes() -> bytes:
    plan: dict[str, Any] = {
        "clusteringPlan": {"inputGroups": [], "strategy": None, "extraMetadata": None, "version": 1}
    }
    return write_record("HoodieRequestedReplaceMetadata", {"operationType": "CLUSTER", **plan})
