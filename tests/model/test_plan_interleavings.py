"""Plans of services beside a writer, in a forced order: cancelled, put late, executed beside a commit."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import HoodieError, TableBusy
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import begin_instant
from hoodie.write.transaction import Transaction
from tests.model.forcing import (
    AT_ONCE,
    BEFORE_LOCK,
    CLUSTER_NOW,
    COMPACT_NOW,
    COW,
    GIVING_WAY,
    MOR,
    NEWEST_ONLY,
    OPTIONS,
    PATIENCE_S,
    TYPE,
    Actor,
    aside,
    lose_heartbeat,
    lose_lock,
    lost,
    rows,
    stop,
    stop_before,
    table,
)
from tests.support.stores import store_at

LOGGED = {**AT_ONCE, TYPE: MOR, **COMPACT_NOW}
PLAIN = {**AT_ONCE, TYPE: COW, **CLUSTER_NOW}
#: the plan of a clustering, in both layouts of the timeline
CLUSTERING = (".replacecommit.requested", ".clustering.requested")


def upsert(path: str, w: str, how: dict[str, str], key: str = "k", **more: Any) -> hoodie.WriteResult:
    return hoodie.write_table(table(key, w=w), path, options=how, **more)


def logged(path: str, how: dict[str, str]) -> None:
    """A base file and a log of one key."""
    for w in ("0", "1"):
        upsert(path, w, how)


def two_groups(path: str) -> None:
    for key in ("k", "l"):
        upsert(path, "0", PLAIN, key)


def holds(path: str, writer: Any, before: str, *others: tuple[str, str, str]) -> None:
    """The row `k` has the writer's value if it has committed, and else the one that it had."""
    expected = ("p0", "k", before if lost(writer) else "W")
    assert rows(path) == sorted([expected, *others]), writer


# ------------------------------------------------------------------------------------------------
# a plan that is cancelled


@pytest.mark.parametrize("how", [AT_ONCE, OPTIONS], ids=["writers at once", "one writer"])
def test_a_plan_that_is_cancelled_between_a_look_and_an_instant(path: str, how: dict[str, str]) -> None:
    """A writer that has seen the plan writes to a log of the slice that the plan begins."""
    options = {**how, TYPE: MOR, **COMPACT_NOW}
    logged(path, options)
    plan = hoodie.compact_table(path, mode="schedule", options=options).scheduled
    assert plan

    def cancels() -> None:
        aside("X", lambda: hoodie.cancel_plan(path, plan, options=options))

    with stop_before(Transaction, "take", "W", cancels):
        writer = aside("W", lambda: upsert(path, "W", options))
    assert plan not in [instant.time for instant in Timeline.load(path).pending()]
    holds(path, writer, "1")


SORTED = {**PLAIN, "hoodie.clustering.plan.strategy.sort.columns": "id"}
ROLLING_BACK = {**PLAIN, **GIVING_WAY}


def clustered(path: str) -> str:
    """Two file groups, and the plan of a clustering of both."""
    two_groups(path)
    plan = hoodie.cluster_table(path, mode="schedule", options=SORTED).scheduled
    assert plan
    return plan


def archived(path: str, how: dict[str, str]) -> None:
    """The timeline begins after all that was done before: readers count files as old as that as committed."""
    before = Timeline.load(path).last_time
    retained = {"hoodie.cleaner.commits.retained": "1", "hoodie.clean.automatic": "false"}
    for w in "12345":
        hoodie.write_table(table("z", p="p9", w=w), path, options={**how, **retained})
    limits = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    hoodie.clean_table(path, options={**how, **retained})
    hoodie.archive_table(path, options={**how, **retained, **limits})
    assert Timeline.load(path).is_archived(before or "")


@pytest.mark.parametrize("by", ["a writer", "a cancel"])
def test_a_clustering_that_is_executed_while_its_plan_is_rolled_back(path: str, by: str) -> None:
    """W has listed the files of the clustering, which has none yet; then a process executes it."""
    plan = clustered(path)
    answers: dict[str, Any] = {}

    def executes() -> None:
        answers["S"] = aside("S", lambda: hoodie.cluster_table(path, mode="execute", options=SORTED))

    def rolls_back() -> Any:
        if by == "a writer":
            return upsert(path, "W", ROLLING_BACK)
        return hoodie.cancel_plan(path, plan, options=PLAIN)

    with stop("W", ".rollback.requested", executes):
        answers["W"] = aside("W", rolls_back)
    assert isinstance(answers["S"], TableBusy)
    assert not lost(answers["W"])
    expected = [("p0", "k", "W" if by == "a writer" else "0"), ("p0", "l", "0")]
    assert rows(path) == expected
    archived(path, PLAIN)
    assert rows(path) == [*expected, ("p9", "z", "5")]


@pytest.mark.parametrize("place", [".marker.CREATE", ".replacecommit"])
def test_a_clustering_that_slept_while_its_plan_was_rolled_back(path: str, place: str) -> None:
    """S counts as dead, and goes on to write, or to publish, when W has rolled its plan back."""
    clustered(path)
    answers: dict[str, Any] = {}

    def sleeps() -> None:
        lose_lock()
        lose_heartbeat(path)
        answers["W"] = aside("W", lambda: upsert(path, "W", ROLLING_BACK))

    with stop("S", place, sleeps, "after" if place == ".marker.CREATE" else "before") as stopped:
        answers["S"] = aside("S", lambda: hoodie.cluster_table(path, mode="execute", options=SORTED))
    assert stopped.reached
    assert isinstance(answers["S"], HoodieError)
    assert not lost(answers["W"])
    expected = [("p0", "k", "W"), ("p0", "l", "0")]
    assert rows(path) == expected
    archived(path, PLAIN)
    assert rows(path) == [*expected, ("p9", "z", "5")]


def test_a_clustering_that_was_done_before_a_writer_alone_rolls_its_plan_back(path: str) -> None:
    """W has seen the plan pending; then a process executes it."""
    clustered(path)
    how = {**OPTIONS, TYPE: COW, **CLUSTER_NOW}

    def completes() -> None:
        assert aside("S", lambda: hoodie.cluster_table(path, mode="execute", options=how)).clustered

    with stop_before(Transaction, "forget", "W", completes):
        writer = aside("W", lambda: upsert(path, "W", {**how, **GIVING_WAY, **NEWEST_ONLY}))
    assert not lost(writer)
    assert rows(path) == [("p0", "k", "W"), ("p0", "l", "0")]
    assert not Timeline.load(path).filter([Action.ROLLBACK])


# ------------------------------------------------------------------------------------------------
# a plan that is put late, or taken back


@pytest.mark.parametrize("when", ["before", "checked"])
def test_a_compaction_plan_whose_lock_was_lost(path: str, when: str) -> None:
    """S has made the plan and sleeps; W appends to a log of its file group; the plan lacks the log."""
    logged(path, LOGGED)
    answers: dict[str, Any] = {}

    def sleeps() -> None:
        lose_lock()
        answers["W"] = aside("W", lambda: upsert(path, "W", LOGGED))

    with stop("S", ".compaction.requested", sleeps, when) as stopped:
        answers["S"] = aside("S", lambda: hoodie.compact_table(path, mode="schedule", options=LOGGED))
    assert stopped.reached
    assert not lost(answers["W"])
    holds(path, answers["W"], "1")
    aside("X", lambda: hoodie.compact_table(path, mode="execute", options=LOGGED))
    holds(path, answers["W"], "1")


@pytest.mark.parametrize("inflight", [True, False], ids=["in flight", "committed"])
def test_a_plan_is_not_taken_back_once_a_write_has_seen_it(path: str, inflight: bool) -> None:
    """S puts its plan and sleeps, past the lock's expiry and its heartbeat's silence; W looks at the table,
    which has the plan, and is in flight, or has committed, when S wakes up.
    """
    logged(path, LOGGED)
    w_inflight, s_awake = threading.Event(), threading.Event()
    writers: list[Actor] = []

    def of_w(step: str, _: str) -> None:
        if step == "commit" and inflight:
            w_inflight.set()
            assert s_awake.wait(PATIENCE_S)

    def write() -> hoodie.WriteResult:
        try:
            return upsert(path, "W", LOGGED, progress=of_w)
        finally:
            w_inflight.set()

    def sleeps() -> None:
        lose_lock()
        lose_heartbeat(path)
        writers.append(Actor("W", write))
        assert w_inflight.wait(PATIENCE_S)
        if not inflight:
            writers[0].answer()

    with stop("S", ".compaction.requested", sleeps, "after") as stopped:
        aside("S", lambda: hoodie.compact_table(path, mode="schedule", options=LOGGED))
    assert stopped.reached
    s_awake.set()
    holds(path, writers[0].answer(), "1")


@pytest.mark.parametrize("when", ["before", "checked"])
def test_a_clustering_plan_whose_lock_was_lost(path: str, when: str) -> None:
    """S has made the plan and sleeps; W changes a file group of it. The plan would stop every writer."""
    two_groups(path)
    answers: dict[str, Any] = {}

    def sleeps() -> None:
        lose_lock()
        answers["W"] = aside("W", lambda: upsert(path, "W", PLAIN))

    with stop("S", CLUSTERING, sleeps, when) as stopped:
        answers["S"] = aside("S", lambda: hoodie.cluster_table(path, mode="schedule", options=PLAIN))
    assert stopped.reached
    executed = aside("X", lambda: hoodie.cluster_table(path, mode="execute", options=PLAIN))
    again = aside("W", lambda: upsert(path, "W", PLAIN))
    assert not (lost(executed) and lost(again)), (executed, again)
    holds(path, answers["W"], "0", ("p0", "l", "0"))


def test_a_late_clustering_plan_inside_a_commit(path: str) -> None:
    """S puts its plan late, when W has looked for conflicts under the lock; X executes it and looks whether
    its file groups were changed; then W publishes, and X does.
    """
    two_groups(path)
    w_looked, w_may_publish = threading.Event(), threading.Event()
    writers: list[Actor] = []

    def w_stops() -> None:
        w_looked.set()
        assert w_may_publish.wait(PATIENCE_S)

    def write() -> hoodie.WriteResult:
        try:
            return upsert(path, "W", PLAIN)
        finally:
            w_looked.set()

    def s_sleeps() -> None:
        lose_lock()
        writers.append(Actor("W", write))
        assert w_looked.wait(PATIENCE_S)

    def x_stops() -> None:
        w_may_publish.set()
        writers[0].answer()

    with stop("W", ".commit", w_stops), stop("S", CLUSTERING, s_sleeps) as stopped:
        aside("S", lambda: hoodie.cluster_table(path, mode="schedule", options=PLAIN))
        assert stopped.reached
        with stop_before(Transaction, "commit", "X", x_stops):
            aside("X", lambda: hoodie.cluster_table(path, mode="execute", options=PLAIN))
        w_may_publish.set()
        holds(path, writers[0].answer(), "0", ("p0", "l", "0"))


def test_a_plan_beside_a_commit_without_a_lock(path: str) -> None:
    """A, an insert_overwrite, has looked whether it has the lock, which expires; S plans a clustering of the
    file groups that A replaces; A publishes: the plan can't be executed.
    """
    two_groups(path)
    s_entered, a_lost = threading.Event(), threading.Event()
    locks: list[int] = []

    def s_gets_the_lock() -> None:  # the second time to plan
        locks.append(1)
        if len(locks) == 2:
            s_entered.set()
            assert a_lost.wait(PATIENCE_S)

    def loses() -> None:
        lose_lock()
        a_lost.set()
        assert planner.done.wait(PATIENCE_S)

    def overwrite() -> hoodie.WriteResult:
        return hoodie.write_table(table("k", w="W"), path, operation="insert_overwrite", options=PLAIN)

    BEFORE_LOCK["S"] = s_gets_the_lock
    planner = Actor("S", lambda: hoodie.cluster_table(path, mode="schedule", options=PLAIN))
    assert s_entered.wait(PATIENCE_S)
    with stop("A", ".replacecommit", loses, "checked") as stopped:
        overwritten = aside("A", overwrite)
    assert stopped.reached
    a_lost.set()
    planned = planner.answer()
    executed = aside("X", lambda: hoodie.cluster_table(path, mode="execute", options=PLAIN))
    assert lost(overwritten) or lost(planned) or not lost(executed), (overwritten, planned, executed)
    left = [("p0", "k", "0"), ("p0", "l", "0")] if lost(overwritten) else [("p0", "k", "W")]
    assert rows(path) == left


# ------------------------------------------------------------------------------------------------
# a write of Apache Hudi that has an instant, and has not looked at the table


@pytest.mark.parametrize("service", ["compaction", "clustering"])
def test_nothing_is_planned_beside_a_write_that_has_not_looked(path: str, service: str) -> None:
    """Apache Hudi takes its instant without the lock, and its views end there: it would not see the plan, nor
    what completes it, and write to the older file slice.
    """
    compacts = service == "compaction"
    how, run = (LOGGED, hoodie.compact_table) if compacts else (PLAIN, hoodie.cluster_table)
    for w in ("0", "1"):
        upsert(path, w, how)
    upsert(path, "0", how, "l")
    before = Timeline.load(path)
    instant = new_instant_time(before.last_time, True)
    action = Action.DELTACOMMIT if compacts else Action.COMMIT
    begin_instant(store_at(path), Instant(instant, action, State.REQUESTED))
    beat = Path(path, ".hoodie/.heartbeat", instant)
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    answer = aside("S", lambda: run(path, mode="run", options=how))
    assert lost(answer) or answer.status == "skipped", answer
    assert Timeline.load(path).commits() == before.commits()


def test_beside_a_write_that_has_looked_a_plan_is_made(path: str) -> None:
    """The inflight file of Apache Hudi says so."""
    for w in ("0", "1"):
        upsert(path, w, PLAIN)
    upsert(path, "0", PLAIN, "l")
    timeline = Timeline.load(path)
    pending = Instant(new_instant_time(timeline.last_time, True), Action.COMMIT, State.REQUESTED)
    begin_instant(store_at(path), pending)
    store_at(path).create(pending.with_state(State.INFLIGHT))
    beat = Path(path, ".hoodie/.heartbeat", pending.time)
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    answer = aside("S", lambda: hoodie.cluster_table(path, mode="schedule", options=PLAIN))
    assert (answer.status, answer.reason) == ("scheduled", "")
