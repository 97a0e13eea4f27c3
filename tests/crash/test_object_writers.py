"""Writers of one table on an object store: several at once, killed, and asleep past their heartbeat."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie.errors import HoodieError
from hoodie.timeline.active import Timeline
from tests.crash.test_object_store import OPTIONS, state
from tests.support import at_once
from tests.support.races import upsert
from tests.support.s3_store import KEY, SECRET, Request, Store, served

pytestmark = [pytest.mark.crash, pytest.mark.full]

TABLE = "s3://lake/table"

#: a process that is silent so long is dead
BRIEF = {
    "hoodie.client.heartbeat.interval_in_ms": "300",
    "hoodie.client.heartbeat.tolerable.misses": "1",
    "hoodie.write.wait.for.writer.ms": "60000",
}


@pytest.fixture
def store() -> Iterator[Store]:
    with served() as store:
        yield store


def options_of(store: Store, **more: str) -> dict[str, str]:
    """Those of a process that has the environment of another test."""
    return {
        **OPTIONS,
        "hoodie.storage.s3.endpoint": store.endpoint,
        "hoodie.storage.s3.access.key": KEY,
        "hoodie.storage.s3.secret.key": SECRET,
        **more,
    }


@pytest.fixture(scope="module")
def processes() -> Any:
    """Forks of a process that has no threads, and has used no store."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.races", "tests.support.at_once", "hoodie.pipeline"])
    return context


def test_several_at_once(store: Store, processes: Any) -> None:
    """... wait for each other: each commits, and of each key there is the newest row."""
    writers, rounds = 4, 3
    options = options_of(store, **{"hoodie.write.wait.for.writer.ms": "120000"})
    works = [
        processes.Process(
            target=upsert, args=(TABLE, options, 6, [1 + writer + writers * turn for turn in range(rounds)])
        )
        for writer in range(writers)
    ]
    for work in works:
        work.start()
    for work in works:
        work.join(240)
    assert [work.exitcode for work in works] == [0] * writers
    assert state(TABLE) == [(str(number), writers * rounds) for number in range(6)]
    assert len(Timeline.load(TABLE).commits()) == writers * rounds
    assert not [name for name in store.objects if "/.temp/" in name or "/.heartbeat/" in name]


def requests_of_an_upsert(store: Store) -> int:
    """Of the second one; the table is as before then."""
    upsert(TABLE, OPTIONS, 10, [1])
    before = dict(store.objects)
    store.requests.clear()
    upsert(TABLE, OPTIONS, 6, [2])
    store.objects = before
    return len(store.requests)


@pytest.mark.parametrize("part", range(4))
def test_a_writer_that_is_killed(store: Store, processes: Any, part: int) -> None:
    """At each request: the next writer finds the table as before, or with the commit."""
    count = requests_of_an_upsert(store)
    before = dict(store.objects)
    for at in range(part, count + 1, 4):
        store.objects = dict(before)
        seen: list[Request] = []
        work = processes.Process(target=upsert, args=(TABLE, options_of(store), 6, [2]))

        def plan(request: Request, seen: list[Request] = seen, at: int = at, work: Any = work) -> None:
            seen.append(request)
            if len(seen) == at + 1:
                os.kill(work.pid, signal.SIGKILL)

        store.plan = plan
        work.start()
        work.join(60)
        store.plan = lambda _: None
        after = state(TABLE)
        assert after in ([(str(n), 1) for n in range(10)], [(str(n), 2 if n < 6 else 1) for n in range(10)])
        upsert(TABLE, OPTIONS, 3, [3])
        assert state(TABLE) == [(key, 3 if int(key) < 3 else version) for key, version in after]
        assert not [name for name in store.objects if "/.temp/" in name or "/.heartbeat/" in name]


def put_to_sleep(store: Store, work: Any, at: int) -> tuple[threading.Event, list[Request]]:
    """Start a process, which is stopped at its request of this number: the event says when. All requests from
    then on.
    """
    asleep, seen = threading.Event(), list[Request]()

    def plan(request: Request) -> None:
        seen.append(request)
        if len(seen) == at + 1:
            os.kill(work.pid, signal.SIGSTOP)
            asleep.set()

    store.plan = plan
    work.start()
    return asleep, seen


@pytest.mark.parametrize("part", range(4))
def test_a_writer_that_sleeps(store: Store, processes: Any, part: int) -> None:
    """From each request on, past its heartbeat, while another one writes: it commits, or it does not."""
    count = requests_of_an_upsert(store)
    before = dict(store.objects)
    for at in range(part, count, 4):
        store.objects = dict(before)
        work = processes.Process(target=upsert, args=(TABLE, options_of(store, **BRIEF), 6, [2]))
        asleep, seen = put_to_sleep(store, work, at)
        try:
            assert asleep.wait(60)
            store.plan = lambda _: None
            upsert(TABLE, {**OPTIONS, **BRIEF}, 3, [3])
            between = dict(state(TABLE))
        finally:
            os.kill(work.pid, signal.SIGCONT)
        work.join(60)
        after = dict(state(TABLE))
        done = work.exitcode == 0
        old = {str(n): 3 if n < 3 else 1 for n in range(10)}
        new = {str(n): 3 if n < 3 else 2 if n < 6 else 1 for n in range(10)}
        assert between in (old, new)
        # one that was not taken for dead yet writes after the other
        assert after == (new if done else between), (at, str(seen[at]), done)
        with contextlib.suppress(HoodieError):
            upsert(TABLE, OPTIONS, 1, [9])
        assert state(TABLE) == sorted({**after, "0": 9}.items())


#: writers at once, with a lock that a sleeping one loses soon
AT_ONCE = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "storage",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "1000",
    "hoodie.write.num.retries.on.conflict.failures": "200",
}


@pytest.mark.parametrize("workload", at_once.WORKLOADS)
@pytest.mark.parametrize("lock", ["storage", "filesystem"])
def test_writers_at_once(store: Store, processes: Any, tmp_path: Path, workload: str, lock: str) -> None:
    writers, rounds = 3, 3
    ways = options_of(store, **AT_ONCE)
    options = {
        **ways,
        **at_once.OPTIONS,
        "hoodie.write.lock.provider": lock,
        "hoodie.metadata.enable": "true",
    }
    works = [
        processes.Process(
            target=at_once.write_rounds,
            args=(tmp_path / "t", number, rounds, workload, options, 0, TABLE),
        )
        for number in range(writers)
    ]
    for work in works:
        work.start()
    for work in works:
        work.join(240)
    assert [work.exitcode for work in works] == [0] * writers
    at_once.check(tmp_path / "t", writers, rounds, TABLE)
    assert not [
        name
        for name in store.objects
        if any(f"/{part}/" in name for part in (".temp", ".heartbeat", "inside"))
    ]


SLEEPY = {
    **AT_ONCE,
    "hoodie.write.lock.provider": "filesystem",
    "hoodie.client.heartbeat.tolerable.misses": "1",
}


@pytest.mark.parametrize(("beat_ms", "part"), [(300, 0), (300, 3), (6000, 1), (6000, 4)])
def test_a_writer_at_once_that_sleeps(store: Store, processes: Any, beat_ms: int, part: int) -> None:
    """From each sixth request on, and those before its commit, past its lock, and, where it beats often, its
    heartbeat, while another one writes: it commits before or after that one, or not at all, and neither is
    lost.
    """
    options = {**SLEEPY, "hoodie.client.heartbeat.interval_in_ms": str(beat_ms)}
    upsert(TABLE, OPTIONS, 10, [1])
    before = dict(store.objects)
    store.requests.clear()
    upsert(TABLE, {**OPTIONS, **options}, 6, [2])
    count = len(store.requests)
    puts = (at for at, asked in enumerate(store.requests) if asked.kind == "PUT")
    published = next(at for at in puts if store.requests[at].key.endswith(".commit"))
    for at in sorted({*range(part, count, 6), *range(published - 3, published + 2)}):
        store.objects = dict(before)
        work = processes.Process(target=upsert, args=(TABLE, options_of(store, **options), 6, [2]))
        asleep, seen = put_to_sleep(store, work, at)
        waker = threading.Timer(3, os.kill, (work.pid, signal.SIGCONT))
        try:
            assert asleep.wait(60)
            store.plan = lambda _: None
            waker.start()
            time.sleep(0.5)  # until its last request is done
            for name in [name for name in store.objects if name.endswith("/.hoodie/lock")]:
                del store.objects[name]  # it has expired
            upsert(TABLE, {**OPTIONS, **options}, 3, [3])
            between = dict(state(TABLE))
        finally:
            waker.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.kill(work.pid, signal.SIGCONT)
        work.join(120)
        done = work.exitcode == 0
        after = dict(state(TABLE))
        without, both = ({str(n): 3 if n < 3 else mine if n < 6 else 1 for n in range(10)} for mine in (1, 2))
        # one that was taken for dead may have published before, which it can't know
        assert after == (both if done else between if beat_ms == 300 else without), (at, str(seen[at]), done)
        assert after in (without, both)
        upsert(TABLE, {**OPTIONS, **options}, 1, [9])
        assert state(TABLE) == sorted({**after, "0": 9}.items())
        assert not [name for name in store.objects if "/inside/" in name]
