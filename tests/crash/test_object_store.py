"""On an object store and on HDFS each request fails once, or its answer is lost, or all is gone after it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import HoodieError
from hoodie.storage import storage_for
from hoodie.timeline.active import Timeline
from hoodie.timeline.tokens import TOKEN_KEY
from tests.support import s3_store, webhdfs_store
from tests.support.s3_store import FAILS, LOST, RESET, TORN

pytestmark = pytest.mark.crash

Request = s3_store.Request | webhdfs_store.Request
Store = s3_store.Store | webhdfs_store.Store
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.bloom.num_entries": "100",
}
#: each request once
HASTY = {"hoodie.storage.retry.timeout.ms": "0"}
TOKEN = "dag/task/-1/2026-01-01/2026-01-02"


def rows(count: int, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [str(number) for number in range(count)],
            "region": [("eu", "us")[number % 2] for number in range(count)],
            "ts": [version] * count,
        }
    )


def upsert(table: str, kind: str, count: int, version: int, **options: str) -> hoodie.WriteResult:
    every = {**OPTIONS, "hoodie.datasource.write.table.type": kind, **options}
    metadata = {TOKEN_KEY: f"{TOKEN}/{version}"}
    return hoodie.write_table(
        rows(count, version), table, operation="upsert", options=every, extra_metadata=metadata
    )


def compact(table: str, **options: str) -> object:
    return hoodie.compact_table(table, options={"hoodie.compact.inline.max.delta.commits": "1", **options})


def state(table: str) -> list[tuple[str, int]]:
    found = hoodie.read_table(table, columns=["id", "ts"])
    return sorted(zip(found["id"].to_pylist(), found["ts"].to_pylist(), strict=True))


@pytest.fixture
def store(kind: str) -> Iterator[Store]:
    with s3_store.served() if kind == "s3" else webhdfs_store.served() as store:
        yield store


class Case:
    """A table of ten rows, and an action on it."""

    def __init__(self, store: Store, kind: str, act: Callable[..., object]) -> None:
        self.store, self.kind, self._act = store, kind, act
        self.table = f"{store.uri}/table"
        upsert(self.table, kind, 10, 1)
        upsert(self.table, kind, 4, 2)
        self.before: Any = dict(store.objects)
        self.act()
        self.rows = state(self.table)
        self.restore()
        store.requests.clear()
        self.act(**HASTY)
        self.requests = len(store.requests)

    def act(self, **options: str) -> object:
        return self._act(self.table, **options)

    def restore(self) -> None:
        self.restart()
        self.store.objects = dict(self.before)
        if isinstance(self.store, s3_store.Store):
            self.store.uploads.clear()

    def restart(self) -> None:
        self.store.plan = lambda _: None

    def check(self) -> None:
        """The rows are there once, and so is the instant."""
        self.restart()
        assert state(self.table) == self.rows
        timeline = Timeline.load(self.table, storage_for(self.table))
        assert len([item for item in timeline if item.completed and item.action.value != "rollback"]) == 3
        assert not [item for item in timeline if not item.completed]

    def check_swept(self) -> None:
        """Nothing is left of what failed."""
        left = [name for name in self.store.objects if "/.temp/" in name or "/.heartbeat/" in name]
        assert not left


ACTIONS: dict[str, tuple[str, Callable[..., object]]] = {
    "cow": ("COPY_ON_WRITE", lambda table, **options: upsert(table, "COPY_ON_WRITE", 6, 3, **options)),
    "mor": ("MERGE_ON_READ", lambda table, **options: upsert(table, "MERGE_ON_READ", 6, 3, **options)),
    "compaction": ("MERGE_ON_READ", compact),
}


def failing(at: int, outcome: str, then: str | None) -> Callable[[Request], str | None]:
    """The outcome of one request, counted from 0, and of those after it."""
    numbers = itertools.count()

    def plan(_: Request) -> str | None:
        number = next(numbers)
        return outcome if number == at else then if number > at else None

    return plan


#: a store, an action, and which of its requests fail: each n-th
SOME = [("s3", "cow", 11), ("webhdfs", "cow", 37)]
EVERY = [(kind, name, 1) for kind in ("s3", "webhdfs") for name in ACTIONS]


def sweeps(*fast: tuple[str, str], outcomes: Sequence[str] = (FAILS, LOST)) -> list[Any]:
    """All of them with the outcomes; `fast` are stores and outcomes of the fast tier."""
    return [
        pytest.param(
            outcome, *case, marks=[] if case in SOME and (case[0], outcome) in fast else [pytest.mark.full]
        )
        for case in [*SOME, *EVERY]
        for outcome in outcomes
        if case[0] == "s3" or outcome in (FAILS, LOST)
    ]


SWEEP = ("outcome", "kind", "name", "step")


ONCE = sweeps(("webhdfs", FAILS), ("s3", LOST), ("s3", TORN), outcomes=(FAILS, RESET, LOST, TORN))


@pytest.mark.parametrize(SWEEP, ONCE)
def test_a_request_that_fails_once(store: Store, kind: str, name: str, step: int, outcome: str) -> None:
    """It is made again; where it can't be found out whether it was done, with the action."""
    case = Case(store, *ACTIONS[name])
    for at in range(0, case.requests, step):
        case.restore()
        store.plan = failing(at, outcome, None)
        try:
            case.act()
        except HoodieError:
            if (kind, outcome) != ("webhdfs", LOST):
                raise
            case.act()
        case.check()
        case.check_swept()


@pytest.mark.parametrize(SWEEP, sweeps(("s3", FAILS), ("webhdfs", LOST)))
def test_a_store_that_is_gone_from_a_request_on(
    store: Store, kind: str, name: str, step: int, outcome: str
) -> None:
    """The action fails, or is done and says so; run again, it is done once."""
    case = Case(store, *ACTIONS[name])
    for at in range(0, case.requests, step):
        case.restore()
        store.plan = failing(at, outcome, FAILS)
        with contextlib.suppress(HoodieError):
            case.act(**HASTY)
        case.restart()
        case.act()
        case.check()
        upsert(case.table, case.kind, 1, 9)  # where the commit was there, the second attempt did nothing
        case.check_swept()
