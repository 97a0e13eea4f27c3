"""Which instants may be archived: every guard on timelines made by hand, and their rules on random ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.config.key import Config
from hoodie.services.archive.policy import Choice, Facts, choose, limits
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State, in_order
from hoodie.timeline.time import REQUESTED, InstantTime

#: two may go of each five
SETTINGS = {"hoodie.keep.min.commits": 3, "hoodie.keep.max.commits": 4, "hoodie.cleaner.commits.retained": 1}


def at(number: int) -> InstantTime:
    return InstantTime(f"{20260101000000000 + number}")


def instant(text: str) -> Instant:
    """`7 commit`, `8 compaction requested`; completed where no state is said."""
    number, action, *state = text.split()
    return Instant(
        InstantTime(at(int(number))), Action(action), State[state[0].upper()] if state else State.COMPLETED
    )


def timeline(*texts: str) -> Timeline:
    return Timeline("/t", tuple(in_order(map(instant, texts))), {})


def commits(count: int, action: str = "commit") -> list[str]:
    return [f"{number} {action}" for number in range(1, count + 1)]


def chosen(loaded: Timeline, facts: Facts | None = None, /, **options: Any) -> Choice:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return choose(loaded, Config.of({**SETTINGS, **given}), facts or Facts())


def numbers(choice: Choice) -> list[str]:
    return [f"{int(item.time) - int(at(0))} {item.action.value}" for item in choice.instants]


def test_up_to_the_limit_nothing_goes() -> None:
    choice = chosen(timeline(*commits(4), *(f"{10 + n} clean" for n in range(4))))
    assert choice.instants == ()
    assert (
        choice.reason == "the timeline has 4 commits, 4 cleans, 4 of each may stay (hoodie.keep.max.commits)"
    )


def test_beyond_it_the_oldest_go() -> None:
    assert numbers(chosen(timeline(*commits(7)))) == ["1 commit", "2 commit", "3 commit", "4 commit"]
    mixed = timeline("1 commit", "2 deltacommit", "3 replacecommit", "4 commit", "5 deltacommit")
    assert numbers(chosen(mixed)) == ["1 commit", "2 deltacommit"]


def test_cleans_and_rollbacks_are_counted_apart() -> None:
    cleans = [f"{n} clean" for n in range(20, 25)]
    rollbacks = [f"{n} rollback" for n in range(30, 36)]
    found = chosen(timeline(*commits(2), *cleans, *rollbacks, "40 clean requested", "41 rollback inflight"))
    assert numbers(found) == ["20 clean", "21 clean", "30 rollback", "31 rollback", "32 rollback"]
    assert numbers(chosen(timeline(*commits(2), *cleans[1:], *rollbacks[2:]))) == []


def test_restores_savepoints_and_indexing_stay() -> None:
    others = [f"{n} {action}" for n in range(30, 40) for action in ("restore", "indexing")]
    assert numbers(chosen(timeline(*commits(2), *others))) == []


@pytest.mark.parametrize(
    ("held_by", "left", "why"),
    [
        # the last commit before the oldest pending instant stays, too
        (["4 commit requested"], ["1 commit"], "pending commit 2026"),
        (["4 commit inflight"], ["1 commit"], "pending commit 2026"),
        (["3 deltacommit inflight"], ["1 commit"], "pending deltacommit"),
        (["3 compaction requested"], ["1 commit"], "pending compaction"),
        (["3 compaction inflight"], ["1 commit"], "pending compaction"),
        (["3 logcompaction requested"], ["1 commit"], "pending logcompaction"),
        (["3 replacecommit requested"], ["1 commit"], "pending replacecommit"),
        (["3 replacecommit inflight"], ["1 commit"], "pending replacecommit"),
        (["5 compaction requested", "3 replacecommit requested"], ["1 commit"], "pending replacecommit"),
        (["0 commit inflight"], [], "pending commit 20260101000000000"),
        # a pending clean, rollback or restore is no write
        (
            ["3 clean requested", "3 rollback inflight"],
            ["1 commit", "2 commit", "4 commit", "6 commit", "7 commit"],
            "",
        ),
        (["4 savepoint"], ["1 commit", "2 commit"], "savepoint 20260101000000004"),
        (["4 savepoint inflight"], ["1 commit", "2 commit"], "savepoint 20260101000000004"),
        (["2 savepoint"], ["1 commit"], "savepoint 20260101000000002"),
        (["6 savepoint", "2 savepoint"], ["1 commit"], "savepoint 20260101000000002"),
    ],
)
def test_what_holds_commits_back(held_by: list[str], left: list[str], why: str) -> None:
    some = ["1 commit", "2 commit", "4 commit", "6 commit", "7 commit", "8 commit", "9 commit"]
    taken = {int(item.split()[0]) for item in held_by if item.split()[1] == "commit"}
    loaded = timeline(*(item for item in some if int(item.split()[0]) not in taken), *held_by, "10 commit")
    choice = chosen(loaded)
    assert numbers(choice) == left
    if why:
        assert why in choice.held[0].why
        if not choice.instants:
            assert choice.reason == f"held back by {choice.held[0].why}"
    else:
        assert choice.held == ()


def test_commits_with_a_savepoint_are_passed_over_when_asked_for() -> None:
    loaded = timeline(*commits(8), "2 savepoint", "7 savepoint")
    assert numbers(chosen(loaded)) == ["1 commit"]
    beyond = chosen(loaded, hoodie__archive__beyond__savepoint=True)
    assert numbers(beyond) == ["1 commit", "3 commit", "4 commit"], "the newest three without one stay"


@pytest.mark.parametrize(
    ("strategy", "compacted", "held"),
    [
        ("NUM_COMMITS", 0, "6"),
        ("NUM_AND_TIME", 0, "6"),
        ("NUM_OR_TIME", 0, None),
        ("TIME_ELAPSED", 0, None),
        ("NUM_COMMITS", 2, "6"),
        ("NUM_COMMITS", 7, None),
    ],
)
def test_delta_commits_are_kept_that_make_a_compaction_due(
    strategy: str, compacted: int, held: str | None
) -> None:
    """Of ten delta commits the newest five, which are counted; with fewer, from the last compaction on."""
    loaded = timeline(*commits(10, "deltacommit"), *([f"{compacted} commit"] if compacted else []))
    options = {"hoodie__compact__inline__trigger__strategy": strategy}
    choice = chosen(loaded, Facts(merge_on_read=True), **options)
    last = int(numbers(choice)[-1].split()[0])
    assert last == (int(held) - 1 if held else {0: 7, 7: 6}[compacted])
    assert numbers(chosen(loaded, **options))[-1] == "7 deltacommit"


def test_a_compaction_that_was_lately_stays() -> None:
    loaded = timeline(*commits(6, "deltacommit"), "2 commit", "3 clean")
    few = chosen(
        timeline("1 deltacommit", "2 commit", "3 deltacommit", "4 commit", "5 deltacommit"),
        Facts(merge_on_read=True),
    )
    assert numbers(few) == ["1 deltacommit", "2 commit"]
    several = chosen(loaded, Facts(merge_on_read=True))
    assert "delta commits from 20260101000000002 on" in several.held[0].why
    assert numbers(several) == ["1 deltacommit"]


def test_a_replacecommit_stays_until_what_it_replaced_is_cleaned() -> None:
    loaded = timeline("1 commit", "2 replacecommit", "3 commit", "4 replacecommit", *commits(9)[4:])
    asked: list[str] = []

    def left(number: int) -> Facts:
        def look(item: Instant) -> bool:
            asked.append(item.time)
            return item.time == at(number)

        return Facts(replaced_left=look)

    assert numbers(chosen(loaded, left(2))) == ["1 commit"]
    assert asked == [at(2)], "later ones are not looked at"
    choice = chosen(loaded, left(4))
    assert numbers(choice) == ["1 commit", "2 replacecommit", "3 commit"]
    assert choice.held[0].why == f"replacecommit {at(4)}, whose replaced files were not cleaned yet"
    assert numbers(chosen(loaded, left(9)))[-1] == "6 commit"


def test_what_the_metadata_table_still_needs_stays() -> None:
    loaded = timeline(*commits(8), *(f"{n} clean" for n in range(20, 26)))
    every = numbers(chosen(loaded))
    assert every == ["20 clean", "21 clean", "22 clean", *commits(5)]
    compacted = chosen(loaded, Facts(metadata_compaction=lambda: InstantTime(f"{at(3)}001")))
    assert numbers(compacted) == ["1 commit", "2 commit", "3 commit"]
    none = chosen(loaded, Facts(metadata_compaction=lambda: InstantTime("")))
    assert none.instants == ()
    assert none.reason == "held back by the metadata table, which has no compaction yet"
    assert numbers(chosen(loaded, Facts(metadata_compaction=lambda: at(99)))) == every


@pytest.mark.parametrize(
    ("earliest", "expected"), [(None, (3, 4)), (9, (3, 4)), (8, (4, 5)), (3, (9, 10)), (1, (11, 12))]
)
def test_the_limits_follow_the_cleaner(earliest: int | None, expected: tuple[int, int]) -> None:
    """The commit before the earliest retained one, and all after it, stay."""
    found = limits(
        timeline(*commits(10)), Config.of(SETTINGS), at(earliest) if earliest is not None else None
    )
    assert found == expected


def test_what_a_killed_run_has_archived_goes_too() -> None:
    """It stopped among the completed files: fewer than the limit are left, and the oldest are archived."""
    loaded = timeline(*commits(4), *(f"{n} clean" for n in range(20, 24)))
    gone = {at(1), at(2), at(20)}
    facts = Facts(archived=lambda item: item.time in gone)
    assert numbers(chosen(loaded, facts)) == ["20 clean", "1 commit", "2 commit"]
    held = chosen(timeline(*commits(4), "2 savepoint"), facts)
    assert numbers(held) == ["1 commit"]
    later = Facts(archived=lambda item: item.time == at(2))
    assert numbers(chosen(timeline(*commits(4)), later)) == []


KINDS = [
    "commit", "deltacommit", "replacecommit", "clean", "rollback", "savepoint",
    "commit inflight", "deltacommit requested", "compaction requested", "compaction inflight",
    "replacecommit inflight", "logcompaction requested",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=60),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 60),
)
def test_the_rules_on_random_timelines(
    kinds: list[str], least: int, more: int, beyond: bool, uncleaned: int
) -> None:
    loaded = timeline(*(f"{number} {kind}" for number, kind in enumerate(kinds)))
    options = {
        "hoodie.keep.min.commits": least,
        "hoodie.keep.max.commits": least + more,
        "hoodie.archive.beyond.savepoint": beyond,
        "hoodie.compact.inline.trigger.strategy": "TIME_ELAPSED",
    }
    facts = Facts(replaced_left=lambda item: item.time == at(uncleaned))
    choice = choose(loaded, Config.of(options), facts)
    gone = set(choice.instants)
    assert all(item.completed for item in gone)
    done = loaded.commits()
    going = [item for item in done if item in gone]
    staying = [item for item in done if item not in gone]
    saved = {item.time for item in loaded if item.action is Action.SAVEPOINT}
    pending = [item.time for item in loaded.pending() if item.comparable_action in COMMIT_ACTIONS]
    if going:
        assert len(done) > least + more
        assert len(staying) >= least
        last = going[-1].time
        holes = [item for item in staying if REQUESTED.before(item.time, last)]
        assert all(beyond and item.time in saved for item in holes), "no hole but commits with a savepoint"
        assert not {item.time for item in going} & saved
        assert not saved or beyond or REQUESTED.before(last, min(saved, key=REQUESTED.key))
        first = REQUESTED.first(pending)
        before = [item for item in done if first is not None and REQUESTED.before(item.time, first)]
        assert not pending or (before and REQUESTED.before(last, before[-1].time))
        assert at(uncleaned) not in {item.time for item in going if item.action is Action.REPLACECOMMIT}
    for action in (Action.CLEAN, Action.ROLLBACK):
        both = loaded.filter([action], completed=True)
        kept = [item for item in both if item not in gone]
        assert len(kept) == (least if len(both) > least + more else len(both))
        assert kept == both[len(both) - len(kept) :]
    held = bool(pending or saved or any(item.action is Action.REPLACECOMMIT for item in done))
    if len(done) > least + more and not held:
        assert len(staying) == least
