"""Files that are deleted, or made too late, beside a writer, in a forced order."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.write.transaction import Transaction
from tests.model.forcing import (
    AT_ONCE,
    BEFORE_LOCK,
    COMPACT_NOW,
    MOR,
    NEWEST_ONLY,
    OPTIONS,
    PATIENCE_S,
    Actor,
    StoppingObjects,
    aside,
    effect,
    judge,
    lose_heartbeat,
    lose_lock,
    lost,
    reset,
    rows,
    stop,
    stop_before,
    table,
)
from tests.support.objects import SCHEME, stored
from tests.support.storages import registered


def upsert(path: str, how: dict[str, str], key: str, w: str, p: str = "p0") -> hoodie.WriteResult:
    return hoodie.write_table(table(key, p=p, w=w), path, options=how)


@pytest.mark.parametrize("how", [AT_ONCE, OPTIONS], ids=["writers at once", "one writer"])
def test_a_folder_that_is_cleaned_between_a_look_and_the_files(path: str, how: dict[str, str]) -> None:
    """All rows of the partition were deleted; W has found its folder, and the clean deletes it."""
    for key, partition in (("a", "p0"), ("z", "p1")):
        upsert(path, how, key, "seed", partition)
    hoodie.delete_partitions(path, ["p0"], options=how)

    def cleans() -> None:
        assert aside("C", lambda: hoodie.clean_table(path, options={**how, **NEWEST_ONLY})).deleted_partitions

    with stop_before(Transaction, "take", "W", cleans):
        writer = aside("W", lambda: upsert(path, how, "b", "W"))
    if not lost(writer):
        judge(path, [("p1", "z", "seed")], {"W": writer}, {"W": effect("upsert", "W", "b")})


def test_a_commit_of_a_zombie_on_an_object_store(tmp_path: Path) -> None:
    """A has looked whether it lives and has the lock, and sleeps before its request; B rolls it back and
    commits; A's request comes, and readers look before A takes its commit off the timeline again.
    """
    how = {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "9"}
    answers: dict[str, Any] = {}
    seen: list[Any] = []
    with stored(tmp_path) as bucket, registered(SCHEME, StoppingObjects):
        path = f"{bucket}/t"
        first = upsert(path, how, "old", "seed").instant

        def sleeps() -> None:
            lose_lock()
            lose_heartbeat(path)
            answers["B"] = aside("B", lambda: upsert(path, how, "b", "B"))

        def looks() -> None:
            seen.append(aside("R", lambda: rows(path)))
            seen.append(aside("R", lambda: rows(path, begin=first)))

        with stop("A", ".commit", sleeps, "checked") as slept, stop("A", ".commit", looks, "after"):
            answers["A"] = aside("A", lambda: upsert(path, how, "a", "A"))
        assert slept.reached
        assert lost(answers["A"])
        judge(path, [("p0", "old", "seed")], answers, {"B": effect("upsert", "B", "b")})
        right = [("p0", "b", "B"), ("p0", "old", "seed")]
        for found, expected in zip(seen, (right, right[:1]), strict=True):
            assert isinstance(found, HoodieError) or found == expected
    reset()


def test_a_plan_that_is_requested_late_on_an_object_store(tmp_path: Path) -> None:
    """S has looked whether it has the lock, and sleeps before its request, past the lock's expiry and its
    heartbeat's silence; W appends to a log of the plan's file group and commits; the plan lacks the log.
    """
    how = {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "9", **COMPACT_NOW}
    how |= {"hoodie.datasource.write.table.type": MOR}
    writers: list[Any] = []
    with stored(tmp_path) as bucket, registered(SCHEME, StoppingObjects):
        path = f"{bucket}/t"
        for w in ("0", "1"):
            upsert(path, how, "k", w)

        def sleeps() -> None:
            lose_lock()
            lose_heartbeat(path)
            writers.append(aside("W", lambda: upsert(path, how, "k", "W")))

        with stop("S", ".compaction.requested", sleeps, "checked") as slept:
            planned = aside("S", lambda: hoodie.compact_table(path, mode="schedule", options=how))
        assert slept.reached
        executed = aside("X", lambda: hoodie.compact_table(path, mode="execute", options=how))
        expected = "1" if lost(writers[0]) else "W"
        assert rows(path) == [("p0", "k", expected)], (writers, planned, executed)
    reset()


def test_a_clean_beside_a_commit_of_a_zombie_on_an_object_store(tmp_path: Path) -> None:
    """A, which deletes a partition, has looked whether it lives, and sleeps; B rolls it back and commits. C,
    a clean, enters the table; A's request comes; C makes its plan, and A takes its commit back after that.
    """
    how = {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "9", "hoodie.clean.automatic": "false"}
    answers: dict[str, Any] = {}
    entered, published = threading.Event(), threading.Event()
    locks: list[int] = []
    cleaners: list[Actor] = []

    def c_gets_the_lock() -> None:  # the second time to plan
        locks.append(1)
        if len(locks) == 2:
            entered.set()
            assert published.wait(PATIENCE_S)

    def clean() -> Any:
        try:
            return hoodie.clean_table(path, options={**how, **NEWEST_ONLY})
        finally:
            entered.set()

    def sleeps() -> None:
        lose_lock()
        lose_heartbeat(path)
        answers["B"] = aside("B", lambda: upsert(path, how, "z", "B", "p1"))
        cleaners.append(Actor("C", clean))
        assert entered.wait(PATIENCE_S)

    def cleans() -> None:
        published.set()
        answers["C"] = cleaners[0].answer()

    with stored(tmp_path) as bucket, registered(SCHEME, StoppingObjects):
        path = f"{bucket}/t"
        upsert(path, how, "old", "seed")
        upsert(path, how, "z", "seed", "p1")
        BEFORE_LOCK["C"] = c_gets_the_lock
        with stop("A", ".replacecommit", sleeps, "checked"), stop("A", ".replacecommit", cleans, "after"):
            answers["A"] = aside("A", lambda: hoodie.delete_partitions(path, ["p0"], options=how))
        assert lost(answers["A"]), answers
        assert rows(path) == [("p0", "old", "seed"), ("p1", "z", "B")], answers
    reset()
