"""Writers at once in a forced order: rows as of one after the other, in the order of completion."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import hoodie
from tests.model.forcing import (
    AT_ONCE,
    BEFORE_LOCK,
    COW,
    MOR,
    PATIENCE_S,
    Actor,
    Effect,
    aside,
    effect,
    judge,
    keys,
    lose_lock,
    lost,
    once,
    rows,
    stop,
    table,
)
from tests.model.protocol import Row
from tests.support.stores import after
from tests.support.tiers import crossed_but

Write = Callable[..., Any]
TYPE = "hoodie.datasource.write.table.type"
RETRIED = {"hoodie.write.num.retries.on.conflict.failures": "2"}
DROP = {"hoodie.datasource.insert.dup.policy": "drop"}
COUNT = "INSERT INTO t SELECT 'count' AS id, 'p1' AS p, CAST(count(*) AS STRING) AS w FROM t"


def writes(operation: str, *names: str, p: str = "p0", w: str = "", **options: str) -> Write:
    def write(path: str, how: dict[str, str], **more: Any) -> hoodie.WriteResult:
        found = table(*names, p=p, w=w) if operation != "delete" else keys(*names, p=p)
        return hoodie.write_table(found, path, operation=operation, options={**how, **options}, **more)

    return write


def statement(text: str) -> Write:
    return lambda path, how: hoodie.sql(text, tables={"t": path}, options=how)


def delete_partition(path: str, how: dict[str, str], **more: Any) -> Any:
    return hoodie.delete_partitions(path, ["p0"], options=how, **more)


def counted(found: list[Row]) -> list[Row]:
    return [*found, ("p1", "count", str(len(found)))]


def seed(path: str, how: dict[str, str], *names: str, p: str = "p0") -> list[Row]:
    for name in names:
        hoodie.write_table(table(name, p=p, w="seed"), path, options=how)
    return [(p, name, "seed") for name in names]


# ------------------------------------------------------------------------------------------------
# one new key


@pytest.mark.parametrize(
    ("kind", "operation"),
    crossed_but(
        {"cow-upsert", "mor-insert_overwrite"},
        {"cow": COW, "mor": MOR},
        {name: name for name in ("upsert", "insert_overwrite")},
    ),
)
def test_a_new_key_of_a_write_that_was_seen_in_flight(path: str, kind: str, operation: str) -> None:
    """A begins once B has written its files; B looks while A is in flight, A completes, B gets the lock."""
    how = {**AT_ONCE, TYPE: kind}
    seeded = seed(path, how, "seed", p="q")
    b_written, a_inflight, a_may_end = (threading.Event() for _ in range(3))

    def of_a(step: str, _: str) -> None:
        if step == "commit":
            a_inflight.set()
            assert a_may_end.wait(PATIENCE_S)

    def of_b(step: str, _: str) -> None:
        if step == "commit":
            b_written.set()
            assert a_inflight.wait(PATIENCE_S)

    def b_gets_the_lock() -> None:
        if b_written.is_set():
            a_may_end.set()
            a.done.wait(PATIENCE_S)

    def first() -> Any:
        assert b_written.wait(PATIENCE_S)
        try:
            return writes("insert_overwrite", "k1", w="A")(path, how, progress=of_a)
        finally:
            a_inflight.set()

    BEFORE_LOCK["B"] = b_gets_the_lock
    a = Actor("A", first)
    b = Actor("B", lambda: writes(operation, "k1", w="B")(path, how, progress=of_b))
    answers = {"B": b.answer()}
    a_may_end.set()
    answers["A"] = a.answer()
    effects = {"A": effect("insert_overwrite", "A", "k1"), "B": effect(operation, "B", "k1")}
    judge(path, seeded, answers, effects)


# ------------------------------------------------------------------------------------------------
# what is committed between a look and the instant

_UPSERT = (writes("upsert", "new", w="B"), effect("upsert", "B", "new"))
#: by name: what A does, and its effect; what B does, which commits after A has looked; the seeded keys
BETWEEN: dict[str, tuple[Write, Effect, Write, Effect, tuple[str, ...]]] = {
    "delete_partition": (delete_partition, effect("delete_partition", "A"), *_UPSERT, ("old",)),
    "insert_overwrite": (
        writes("insert_overwrite", "ow", w="A"),
        effect("insert_overwrite", "A", "ow"),
        *_UPSERT,
        ("old",),
    ),
    "insert_overwrite_table": (
        writes("insert_overwrite_table", "ow", w="A"),
        lambda _: [("p0", "ow", "A")],
        *_UPSERT,
        ("old",),
    ),
    "insert_overwrite_table beside another partition": (
        writes("insert_overwrite_table", "ow", w="A"),
        lambda _: [("p0", "ow", "A")],
        writes("upsert", "new", p="p1", w="B"),
        effect("upsert", "B", "new", p="p1"),
        ("old",),
    ),
    "delete": (writes("delete", "old", "new"), effect("delete", "A", "old", "new"), *_UPSERT, ("old",)),
    "overwrites of an empty partition": (
        writes("insert_overwrite", "a", p="p1", w="A"),
        effect("insert_overwrite", "A", "a", p="p1"),
        writes("insert_overwrite", "b", p="p1", w="B"),
        effect("insert_overwrite", "B", "b", p="p1"),
        ("old",),
    ),
    "dropped beside a delete": (
        writes("insert", "old", "more", w="A", **DROP),
        effect("insert_drop", "A", "old", "more"),
        writes("delete", "old"),
        effect("delete", "B", "old"),
        ("old", "x"),
    ),
    "UPDATE": (
        statement("UPDATE t SET w = 'A' WHERE p = 'p0'"),
        effect("update_where", "A"),
        *_UPSERT,
        ("old",),
    ),
    "DELETE": (
        statement("DELETE FROM t WHERE p = 'p0'"),
        effect("delete_partition", "A"),
        *_UPSERT,
        ("old",),
    ),
    "INSERT of a count": (statement(COUNT), counted, *_UPSERT, ("old",)),
}


@pytest.mark.parametrize(
    ("options", "case"),
    crossed_but(
        {*(f"once-{name}" for name in BETWEEN), "retried-delete", "retried-INSERT of a count"},
        {"once": {}, "retried": RETRIED},
        {name: name for name in BETWEEN},
    ),
)
def test_a_commit_after_the_look(path: str, case: str, options: dict[str, str]) -> None:
    first, of_first, second, of_second, seeds = BETWEEN[case]
    how = {**AT_ONCE, **options, TYPE: COW}
    seeded = seed(path, how, *seeds)
    answers: dict[str, Any] = {}
    BEFORE_LOCK["A"] = once(lambda: answers.update(B=aside("B", lambda: second(path, how))))
    answers["A"] = aside("A", lambda: first(path, how))
    assert not lost(answers["B"])
    judge(path, seeded, answers, {"A": of_first, "B": of_second})


#: what A does while B, an upsert of `new`, has an earlier instant and is in flight
OVERTAKEN: dict[str, tuple[Write, Effect]] = {
    "insert_overwrite": BETWEEN["insert_overwrite"][:2],
    "delete_partition": BETWEEN["delete_partition"][:2],
    "delete": BETWEEN["delete"][:2],
}


@pytest.mark.parametrize("case", OVERTAKEN)
def test_an_earlier_write_that_was_in_flight(path: str, case: str) -> None:
    """B is before A by instants and by completion, and A, whose instant is later, did not see it."""
    act, of_a = OVERTAKEN[case]
    how = {**AT_ONCE, TYPE: COW}
    seeded = seed(path, how, "old")
    b_inflight, a_written = threading.Event(), threading.Event()

    def b_waits(step: str, _: str) -> None:
        if step == "commit":
            b_inflight.set()
            assert a_written.wait(PATIENCE_S)

    def a_waits(step: str, _: str) -> None:
        if step == "commit":
            a_written.set()
            assert b.done.wait(PATIENCE_S)

    b = Actor("B", lambda: writes("upsert", "new", w="B")(path, how, progress=b_waits))
    assert b_inflight.wait(PATIENCE_S)
    answers = {"A": aside("A", lambda: act(path, how, progress=a_waits))}
    a_written.set()
    answers["B"] = b.answer()
    judge(path, seeded, answers, {"A": of_a, "B": _UPSERT[1]})


# ------------------------------------------------------------------------------------------------
# an instant that is put late


@pytest.mark.parametrize("when", ["before", "checked"])
def test_an_instant_whose_lock_was_lost(path: str, when: str) -> None:
    """A chose it under the lock and sleeps; B commits a later one, which an incremental reader has passed."""
    how = {**AT_ONCE, TYPE: COW}
    first = hoodie.write_table(table("old", w="seed"), path, options=how).instant
    answers: dict[str, Any] = {}
    seen: list[Row] = []

    def sleeps() -> None:
        lose_lock()
        answers["B"] = aside("B", lambda: writes("upsert", "b", p="p1", w="B")(path, how))
        seen.extend(rows(path, begin=after(path, first)))

    with stop("A", ".commit.requested", sleeps, when) as stopped:
        answers["A"] = aside("A", lambda: writes("upsert", "a", p="p2", w="A")(path, how))
    assert stopped.reached
    assert not lost(answers["B"])
    seen += rows(path, begin=after(path, answers["B"].instant))
    assert sorted(seen) == [row for row in rows(path) if row[1] != "old"], answers
    judge(
        path,
        [("p0", "old", "seed")],
        answers,
        {
            "A": effect("upsert", "A", "a", p="p2"),
            "B": effect("upsert", "B", "b", p="p1"),
        },
    )
