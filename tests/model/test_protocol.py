"""The protocol of writers at once, in every order of a few actors (tests.model.protocol)."""

from __future__ import annotations

import pytest

from tests.model.explore import Scenario, explore
from tests.model.scenarios import BUCKETS, HUDI, LONG, MOVES, SHORT, SLOW_HUDI, without
from tests.support.tiers import full_but

SLEEPER = "compaction whose planner sleeps, object store, beside an upsert with a retry"
#: a rule that is turned off, by scenario; what is wrong then
MISSING = (
    (
        without("new key: upsert beside insert_overwrite", compare_completed=False, check_reads=False),
        "rows are p/k=A, p/k=B; by the order of completion they are p/k=B",
    ),
    (without("between: delete beside upsert of the key", check_reads=False), "rows are p/k=B;"),
    (without("between: delete_partition beside upsert", check_reads=False), "rows are p/k=B;"),
    (without("between: insert_overwrite beside upsert", check_reads=False), "rows are p/k=B, p/w=A;"),
    (without("read: UPDATE statement beside insert", check_reads=False), "rows are p/k=B, p/o=A;"),
    (without("read: insert with drop beside delete", check_reads=False), "rows are p/n=A;"),
    (without("planned compaction that is cancelled", check_plans=False), "rows are p/o=log;"),
    (
        without("compaction whose planner loses the lock", check_lock=False, check_sources=False),
        "rows are p/o=log;",
    ),
    (
        without("clustering whose planner loses the lock", check_lock=False, check_sources=False),
        "rows are p/o=seed, p/u=seed;",
    ),
    (
        without(
            "clustering beside an insert_overwrite that loses the lock",
            check_lock=False,
            cancel_outdated=False,
        ),
        "a clustering can't be executed",
    ),
    (
        without("global index: a move into a partition that is deleted", check_reads=False),
        "rows are q/o=B; by the order of completion they are none",
    ),
    (without("global index: a new key beside a delete", check_reads=False), "rows are q/k=B;"),
    (without("BUCKET, planned compaction that is cancelled", check_plans=False), "rows are p/o=log;"),
    (without("Apache Hudi beside upsert o, copy-on-write", wait_for_hudi=False), "rows are p/o=A;"),
    (without("Apache Hudi beside a compaction", wait_for_hudi=False), "rows are p/o=log;"),
    (without("Apache Hudi beside a clustering", wait_for_hudi=False), "rows are p/o=seed, p/u=seed;"),
    (without("non-blocking: two appends", completion_slices=False), "rows are p/o=B;"),
    (without("non-blocking: an append beside a compaction", completion_slices=False), "rows are p/o=log;"),
    (
        without("an instant that is put late, beside a follower", check_lock=False),
        "F saw commits [2], there are [1, 2]",
    ),
    (
        without(
            "a clean beside a delete_partition that sleeps and is rolled back, object store",
            check_zombies=False,
        ),
        "rows are none; by the order of completion they are p/o=seed",
    ),
    (without("a sleeping writer is rolled back, object store", inside=False), "rows are p/o=B;"),
    (without(SLEEPER, check_sources=False), "rows are p/o=log;"),
)
#: of Apache Hudi, of global indexes and of buckets
KEPT = {
    "Apache Hudi beside upsert o, merge-on-read",
    "Apache Hudi beside a compaction",
    "global index: a move into a partition that is deleted",
    "BUCKET, new key: two upserts",
}
#: one for each rule
QUICK = {
    "new key: upsert beside insert_overwrite, no compare_completed, no check_reads",
    "between: delete beside upsert of the key, no check_reads",
    "planned compaction that is cancelled, no check_plans",
    "Apache Hudi beside a compaction, no wait_for_hudi",
    "compaction whose planner loses the lock, no check_lock, no check_sources",
    "clustering beside an insert_overwrite that loses the lock, no check_lock, no cancel_outdated",
    "non-blocking: an append beside a compaction, no completion_slices",
}
#: no substitutes for the rule that reads are conflicts
SUBSTITUTES = (
    (without("new key: two upserts", check_reads=False, instant_first=True), "rows are p/k=B;"),
    (
        without("between: delete_partition beside upsert", check_reads=False, instant_first=True),
        "rows are p/k=B;",
    ),
)
#: of those of a few hundred states
SLOWER = {"clean beside an upsert and a reader", "a writer is killed", "new key: two insert_overwrites"}


@pytest.mark.parametrize(
    "scenario",
    full_but({each.name for each in SHORT} - SLOWER | KEPT, [*SHORT, *MOVES, *BUCKETS, *HUDI, *LONG], str),
    ids=str,
)
def test_the_rules_hold_in_every_order(scenario: Scenario) -> None:
    result = explore(scenario)
    assert not result.wrong, result
    assert result.complete
    assert result.outcomes


@pytest.mark.parametrize(
    ("scenario", "wrong"),
    [*full_but(QUICK, MISSING, str), *full_but((), SUBSTITUTES)],
    ids=[str(each) for each, _ in (*MISSING, *SUBSTITUTES)],
)
def test_a_rule_that_is_missing_shows(scenario: Scenario, wrong: str) -> None:
    result = explore(scenario)
    assert wrong in result.wrong, result
    assert result.trace


def test_an_instant_of_apache_hudi_that_is_requested_late() -> None:
    """A known limit: the instant is not on the timeline when others commit, and its views end before them."""
    result = explore(SLOW_HUDI)
    assert "rows are p/o=A;" in result.wrong, result
