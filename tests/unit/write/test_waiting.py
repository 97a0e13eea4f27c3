"""Writers that wait for one another: all get their turn, in the order of arrival; none stages in vain."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.concurrency import queue as module
from hoodie.concurrency.place import Place
from hoodie.concurrency.queue import FOLDER, Rank, Waiting, line, new_place
from hoodie.config.key import Config
from hoodie.engine.local import LocalEngine
from hoodie.engine.task import Task
from hoodie.errors import ConfigError, Fenced, TableBusy
from hoodie.pipeline import write
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import heartbeat_path
from hoodie.table.settings import WAIT_MS, WAIT_PLACE
from hoodie.timeline.instant import Action
from hoodie.write.input.stage import StageRows
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from hoodie.write.transaction import Transaction
from tests.crash.worker import environment, python
from tests.support.storages import DAY_MS, Behind, wrapped

STORAGE = LocalStorage()
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
    WAIT_MS.name: "60000",
}

#: a writer of its own, which tells when it waits
WRITER = """
import sys
import pyarrow as pa, hoodie
path, number, options = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
rows = pa.table({"id": ["shared", f"own-{number}"], "ts": [number, number]})
def tell(step, text):
    if step == "wait":
        print(text, flush=True)
hoodie.write_table(rows, path, options=options, progress=tell)
"""


def rows(number: int) -> pa.Table:
    return pa.table({"id": ["shared", f"own-{number}"], "ts": [number, number]})


def start(path: Path, number: int) -> subprocess.Popen[str]:
    return run(WRITER, path, number)


def run(program: str, path: Path, number: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        python("-c", program, str(path), str(number), repr(OPTIONS)),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output


def check(path: Path, numbers: range) -> None:
    """Each wrote its row and one that all of them write; the greatest of that one stays."""
    found = hoodie.read_table(str(path), meta=False).to_pydict()
    stored = dict(zip(found["id"], found["ts"], strict=True))
    assert stored == {"shared": max(numbers), **{f"own-{number}": number for number in numbers}}
    instants = hoodie.instants(str(path))
    assert [(entry["action"], entry["state"]) for entry in instants] == [("commit", "completed")] * len(
        numbers
    )
    assert os.listdir(path / ".hoodie/.heartbeat") == waiting(path) == []


def waiting(path: Path) -> list[str]:
    return sorted(STORAGE.names(str(path / FOLDER)))


def queue(handle: Table) -> list[Waiting]:
    return line(handle, 60_000, 2)


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    hoodie.write_table(rows(0), str(tmp_path / "t"), options=OPTIONS)
    return tmp_path / "t"


@contextlib.contextmanager
def held(path: Path) -> Iterator[str]:
    """Another writer is at work on the table."""
    with Transaction(Table(TableRef(str(path)), STORAGE), Config.of({}), True) as transaction:
        transaction.begin()
        yield transaction.instant


class Background(threading.Thread):
    """Runs in a thread; `join` raises what it raised."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__()
        self._call = run
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001  told by `join`
            self.error = error

    def join(self, timeout: float | None = 120) -> None:
        super().join(timeout)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


@pytest.mark.full
@pytest.mark.parametrize("made", [True, False], ids=["a table", "no table yet"])
def test_eight_processes_at_once(tmp_path: Path, made: bool) -> None:
    path = tmp_path / "t"
    if made:
        hoodie.write_table(rows(0), str(path), options=OPTIONS)
    writers = [start(path, number) for number in range(1, 9)]
    for writer in writers:
        finished(writer)
    check(path, range(0 if made else 1, 9))


def test_eight_threads_with_services_beside_them(table: Path) -> None:
    """Cleans are due after every commit, and want the table for themselves, too."""
    options = {**OPTIONS, "hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2"}
    options |= {"hoodie.keep.max.commits": "3"}

    def upsert(number: int) -> WriteResult:
        return hoodie.write_table(rows(number), str(table), options=options)

    writers = [Background(partial(upsert, number)) for number in range(1, 9)]
    for writer in writers:
        writer.join()
    assert [writer.result.warnings for writer in writers] == [[]] * 8
    assert "clean" in {entry["action"] for entry in hoodie.instants(str(table))}
    found = hoodie.read_table(str(table), meta=False)
    assert sorted(found.column("id").to_pylist()) == sorted(["shared", *(f"own-{n}" for n in range(9))])
    assert waiting(table) == []


def test_the_order_of_arrival_and_one_stage_for_each(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staged: list[str] = []
    run = StageRows.__call__

    def counted(step: StageRows, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        staged.append("")
        return run(step, batches, task)

    monkeypatch.setattr(StageRows, "__call__", counted)

    def upsert(number: int) -> WriteResult:
        return hoodie.write_table(rows(number), str(table), options=OPTIONS)

    with held(table):
        writers = []
        for number in (3, 1, 2):
            writers.append(Background(partial(upsert, number)))
            until(lambda: len(waiting(table)) == len(writers))
        assert staged == [], "rows were staged that another commit would make stale"
    for writer in writers:
        writer.join()
    instants = [writer.result.instant for writer in writers]
    assert instants == sorted(instants)
    assert len(staged) == 3
    check(table, range(4))


def test_a_service_goes_before_writers_that_wait(table: Path) -> None:
    order: list[str] = []

    def schedule() -> None:
        with Transaction(
            Table(TableRef(str(table)), STORAGE), Config.of({WAIT_MS.name: "60000"}), True
        ) as transaction:
            transaction.schedule(Action.CLEAN, lambda timeline, now: order.append("service"))

    def upsert() -> None:
        hoodie.write_table(rows(1), str(table), options=OPTIONS)
        order.append("writer")

    with held(table):
        writer = Background(upsert)
        until(lambda: len(waiting(table)) == 1)
        service = Background(schedule)
        until(lambda: len(waiting(table)) == 2)
    writer.join()
    service.join()
    assert order == ["service", "writer"]


def test_a_waiter_that_is_killed_is_in_nobodys_way(table: Path) -> None:
    with held(table):
        killed = start(table, 7)
        until(lambda: len(waiting(table)) == 1)
        other = Background(lambda: hoodie.write_table(rows(1), str(table), options=OPTIONS))
        until(lambda: len(waiting(table)) == 2)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    other.join()
    check(table, range(2))


def test_tickets_have_the_time_of_the_storages_clock(table: Path) -> None:
    now = time.time() * 1000 - DAY_MS
    with held(table), wrapped(Behind):
        writer = Background(lambda: hoodie.write_table(rows(1), str(table), options=OPTIONS))
        until(lambda: any(map(str.isdigit, waiting(table))))
        (ticket,) = filter(str.isdigit, waiting(table))
    writer.join()
    assert abs(int(ticket[1:14]) - now) < 600_000


def test_the_one_at_work_is_killed(table: Path) -> None:
    """Its write is rolled back at once, and the next in the queue goes on."""
    hold = "import time; import hoodie.pipeline as p\n"
    hold += "p._write = lambda *a: (print(1, flush=True), time.sleep(99))\n"
    with run(hold + WRITER, table, 7) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        writer = Background(lambda: hoodie.write_table(rows(1), str(table), options=OPTIONS))
        until(lambda: waiting(table))
        busy.kill()
    writer.join()
    assert len(writer.result.rolled_back) == 1
    found = hoodie.read_table(str(table), meta=False)
    assert sorted(found.column("id").to_pylist()) == ["own-0", "own-1", "shared"]


def test_who_has_waited_long_enough_says_for_whom(table: Path) -> None:
    told: list[str] = []
    before = hoodie.instants(str(table))
    with held(table) as instant, pytest.raises(TableBusy, match=r"was not free within 0\.2 s") as refused:
        hoodie.write_table(
            rows(1),
            str(table),
            options={**OPTIONS, WAIT_MS.name: "200"},
            progress=lambda step, text: told.append(f"{step}: {text}"),
        )
    assert instant in str(refused.value)
    assert WAIT_MS.name in str(refused.value)
    assert refused.value.values["instant"] == instant
    assert told == [
        f"wait: instant {instant} of {refused.value.values['owner']} is at work; 0 go first; waited 0 s"
    ]
    assert hoodie.instants(str(table)) == before
    assert waiting(table) == []


def test_without_waiting_a_second_writer_is_refused_and_others_may_wait(table: Path) -> None:
    with held(table) as instant, pytest.raises(TableBusy, match=f"is at work on .*{instant}"):
        hoodie.write_table(rows(1), str(table), options={**OPTIONS, WAIT_MS.name: "0"})
    assert waiting(table) == []


def test_who_lets_its_turn_pass_is_passed_over(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another machine that sleeps with its ticket at the head of the queue."""
    ticket = "1" + "0" * 19
    STORAGE.create(heartbeat_path(str(table), ticket, FOLDER), b'{"host": "elsewhere"}')
    monkeypatch.setattr(module, "_GRACE_S", 0.3)
    monkeypatch.setattr(module, "_LONGEST_S", 0.02)  # looks come close together, as those of 1 s in 5 s
    begun = time.monotonic()
    hoodie.write_table(rows(1), str(table), options={**OPTIONS, WAIT_MS.name: "30000"})
    assert time.monotonic() - begun > 0.3
    assert waiting(table) == [ticket]
    os.utime(heartbeat_path(str(table), ticket, FOLDER), (1, 1))
    hoodie.write_table(rows(2), str(table), options=OPTIONS)
    check(table, range(3))


def test_a_place_that_was_kept_before_the_process_began(table: Path) -> None:
    """Its writer goes before those that came after; of its second write, which is at the end, no more."""
    handle = Table(TableRef(str(table)), STORAGE)
    place = Place(handle, Config.of({}), Rank.WRITER, digits := new_place(handle), {})

    def upsert(number: int, **more: str) -> WriteResult:
        return hoodie.write_table(rows(number), str(table), options={**OPTIONS, **more})

    assert not place.state()
    with held(table) as instant:
        place.hold()
        assert instant in place.state().holder
        later = Background(partial(upsert, 2))
        until(lambda: len(waiting(table)) == 2)
        assert place.state().earlier == ()
        first = Background(partial(upsert, 1, **{WAIT_PLACE.name: digits}))
        until(lambda: any(one.beat.pid and str(one.beat.instant)[1:] == digits for one in queue(handle)))
    for one in (first, later):
        one.join()
    assert first.result.instant < later.result.instant
    with held(table):
        place.hold()
        again = Background(partial(upsert, 3, **{WAIT_PLACE.name: digits}))
        until(lambda: len(waiting(table)) == 2)
        place.leave()
    again.join()
    check(table, range(4))


@pytest.mark.parametrize("text", ["1", "x" * 19, "\u0661" * 19, "1" * 20])
def test_a_place_has_its_digits(table: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="a place has 19 digits"):
        hoodie.write_table(rows(1), str(table), options={**OPTIONS, WAIT_PLACE.name: text})


def test_the_commit_that_was_waited_for_was_this_very_one(table: Path) -> None:
    """Two schedulers run one interval at once: the second finds the first one's commit."""
    extra = {"airflow.token": "d/t/-1/a/b"}
    engine = LocalEngine(1)

    def upsert() -> Any:
        request = WriteRequest(str(table), Operation.UPSERT, OPTIONS, extra)
        return write(engine, engine.frame(rows(1)), request)

    with held(table):
        both = [Background(upsert), Background(upsert)]
        until(lambda: len(waiting(table)) == 2)
    for one in both:
        one.join()
    assert sorted(one.result.status for one in both) == ["already_committed", "committed"]
    check(table, range(2))


def test_a_claim_that_was_lost_while_rows_were_staged_begins_nothing(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process slept; another writer took it for dead, and may be at work."""
    before = hoodie.instants(str(table))
    begin = Transaction.begin

    def slept(self: Transaction) -> None:
        for beat in (table / ".hoodie/.heartbeat").iterdir():
            beat.unlink()
        begin(self)

    monkeypatch.setattr(Transaction, "begin", slept)
    with pytest.raises(Fenced, match="took this process for dead"):
        hoodie.write_table(rows(1), str(table), options=OPTIONS)
    assert hoodie.instants(str(table)) == before
    assert os.listdir(table / ".hoodie/.heartbeat") == []
