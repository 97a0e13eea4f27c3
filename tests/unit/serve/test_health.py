"""What the page says in an incident: who works, who waits, what was taken back, what needs a hand."""

from __future__ import annotations

import dataclasses
import io
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import hoodie
from hoodie.concurrency.queue import FOLDER
from hoodie.errors import JobError
from hoodie.serve import health
from hoodie.serve.health import DOCTOR, SERVICES, Examiner
from hoodie.serve.page import Page
from hoodie.serve.tables import Bounded, ShownTable
from hoodie.storage.local import LocalStorage
from hoodie.table.heartbeat import Heartbeat, Work
from hoodie.table.settings import WAIT_MS
from hoodie.timeline.commit import PlannedFile, inflight_metadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.timeline.rolled_back_commit import TAKEN_BACK_KEY, RolledBackCommit
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY
from tests.airflow.timelines import WrittenTimeline
from tests.support.handles import table_at
from tests.support.stores import instant_file, store_at

STORAGE = LocalStorage()
RUN = {
    RUN_KEY: "hourly/load/-1/run=r7",
    TOKEN_KEY: "hourly/load/-1/2026-01-01T00:00:00+00:00/2026-01-01T01:00:00+00:00",
}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
}
Ask = Callable[..., Any]


def asker(page: Page) -> Ask:
    def ask(path: str, query: str = "", status: int = 200) -> Any:
        reply = page.get(path, query)
        assert reply.status == status, reply.body
        return json.loads(reply.body)

    return ask


@pytest.fixture
def table(tmp_path: Path) -> WrittenTimeline:
    return WrittenTimeline.create(tmp_path)


@pytest.fixture
def ask(table: WrittenTimeline) -> Ask:
    return asker(Page(lambda: {"orders": table.path}, "http://air"))


def rows(number: int) -> pa.Table:
    return pa.table({"id": ["a", f"b{number}"], "ts": [number, number]})


# Who works, and who waits -------------------------------------------------------------------------


def test_a_running_write_names_its_task(table: WrittenTimeline, ask: Ask) -> None:
    begun = table.begin()
    beat = Heartbeat(table_at(table.path), begun.time, 60_000, 2, Work(extra=RUN))
    beat.start()
    try:
        [item] = ask("tables/orders/instants")["instants"]
    finally:
        beat.stop()
    assert (item["status"], item["run"]["href"]) == ("running", "http://air/dags/hourly/runs/r7/tasks/load")
    assert item["run"]["stands_for"] == "2026-01-01T00:00:00+00:00/2026-01-01T01:00:00+00:00"


def test_the_queue(table: WrittenTimeline, ask: Ask) -> None:
    """Services go before writers that came earlier; those at work are whom all wait for."""
    begun, now = table.begin(), STORAGE.now_ms()
    handle = table_at(table.path)
    beats = [
        Heartbeat(handle, begun.time, 60_000, 2, Work(extra={RUN_KEY: "backfill/load/3/run=b"})),
        Heartbeat(handle, f"1{now - 90_000:013d}000001", 60_000, 2, Work(extra=RUN), FOLDER),
        Heartbeat(handle, f"0{now - 30_000:013d}000001", 60_000, 2, folder=FOLDER),
        Heartbeat(handle, f"9{now:013d}000001", 60_000, 2, folder=FOLDER),  # of no rank that is known
    ]
    for beat in beats:
        beat.start()
    try:
        waiting = ask("tables/orders/instants")["waiting"]
        reasons = ask("tables/orders/health")["reasons"]
        assert ask("tables/orders/instants", f"before={begun.time}")["waiting"] == []
    finally:
        for beat in beats:
            beat.stop()
    assert [(item["rank"], item["ahead"], item["run"] and item["run"]["run_id"]) for item in waiting] == [
        ("service", 0, None),
        ("writer", 1, "r7"),
    ]
    assert 90_000 <= waiting[1]["waited_ms"] < 100_000
    assert [one["run"]["href"] for one in waiting[1]["for"]] == [
        "http://air/dags/backfill/runs/b/tasks/load/mapped/3"
    ]
    assert reasons == ["2 jobs wait"]


@pytest.mark.full
def test_jobs_that_wait_and_whom_for(tmp_path: Path) -> None:
    """A real write waits behind a live one; its place, its task and the other's are shown meanwhile."""
    path = str(tmp_path / "t")
    hoodie.write_table(rows(0), path, options=OPTIONS)
    ask = asker(Page(lambda: {"t": path}))
    holder = {RUN_KEY: "backfill/load/3/run=b"}
    beat = Heartbeat(table_at(path), "20290101000000000", 60_000, 2, Work(extra=holder))
    beat.start()
    options = {**OPTIONS, WAIT_MS.name: "60000"}
    write = threading.Thread(
        target=lambda: hoodie.write_table(rows(1), path, options=options, extra_metadata=RUN)
    )
    write.start()
    try:
        deadline = time.monotonic() + 30
        while not (waiting := ask("tables/t/instants")["waiting"]) and time.monotonic() < deadline:
            time.sleep(0.02)
        at_a_glance = ask("tables/t/health")
    finally:
        beat.stop()
        write.join()
    [item] = waiting
    assert (item["rank"], item["ahead"], item["run"]["run_id"]) == ("writer", 0, "r7")
    assert [(one["instant"], one["run"]["dag_id"], one["run"]["map_index"]) for one in item["for"]] == [
        ("20290101000000000", "backfill", 3)
    ]
    assert "1 job waits" in at_a_glance["reasons"]
    after = ask("tables/t/instants")
    assert after["waiting"] == []
    assert [one["run"] and one["run"]["run_id"] for one in after["instants"]] == [None, "r7"]


def test_a_look_leaves_dead_tickets_alone(table: WrittenTimeline, ask: Ask) -> None:
    ticket = Path(table.path, ".hoodie/.aux/waiting", "10000000000000000000")
    ticket.parent.mkdir(parents=True)
    ticket.write_text(json.dumps({"host": "h", "machine": "m", "pid": 1, "toleranceMs": 1}))
    time.sleep(0.01)
    assert ask("tables/orders/instants")["waiting"] == []
    assert ticket.exists()


# What was taken back ------------------------------------------------------------------------------


def test_a_rollback_names_the_write_that_it_took_back_and_its_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(0), path, options=OPTIONS)
    failed = "20290101000000000"
    planned = inflight_metadata(
        "UPSERT", {"": 412}, {"": [PlannedFile("f", InstantTime(""), num_updates=7, num_inserts=5)]}
    )
    planned = dataclasses.replace(planned, extra_metadata=RUN)
    for state, data in ((State.REQUESTED, b""), (State.INFLIGHT, planned.to_json())):
        store_at(path).create(Instant(InstantTime(failed), Action.COMMIT, state), data)
    ask = asker(Page(lambda: {"t": path}, ""))
    [open_] = [item for item in ask("tables/t/instants")["instants"] if item["instant"] == failed]
    assert (open_["status"], open_["run"]["run_id"]) == ("open", "r7"), "its inflight file names the task"
    assert ask("tables/t/health")["level"] == 2
    hoodie.write_table(rows(1), path, options=OPTIONS)
    [rollback] = [item for item in ask("tables/t/instants")["instants"] if item["action"] == "rollback"]
    back = rollback["taken_back"]
    assert (back["instant"], back["inserts"], back["updates"], back["planned"]) == (failed, 412, 7, True)
    assert back["run"]["href"] == "/dags/hourly/runs/r7/tasks/load"
    assert ask("tables/t/health")["reasons"] == ["1 rolled back in 24 h"]
    file = instant_file(path, rollback["instant"], "rollback").read_bytes()
    record: Any = next(iter(fastavro.reader(io.BytesIO(file))))
    assert record["commitsRollback"] == [failed], "another reader of Avro passes the text over"
    assert RollbackMetadata.from_bytes(file).commits == (failed,)


def test_a_commit_that_was_rolled_back_had_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(0), path, options=OPTIONS)
    last = hoodie.write_table(rows(1), path, options=OPTIONS, extra_metadata=RUN).to_dict()
    hoodie.rollback_table(path, instant=last["instant"])
    [rollback] = [
        item
        for item in asker(Page(lambda: {"t": path}))("tables/t/instants")["instants"]
        if item["action"] == "rollback"
    ]
    back = rollback["taken_back"]
    assert (back["instant"], back["inserts"], back["updates"], back["planned"]) == (
        last["instant"],
        1,
        1,
        False,
    )
    assert back["run"]["run_id"] == "r7"


@pytest.mark.parametrize(
    "change",
    [{"inserts": -1}, {"inserts": 2**63}, {"updates": "1"}, {"planned": 1}, {"task": ["x"]},
     {"task": {"a": 1}}, {"operation": None}, {"more": 1}],
)  # fmt: skip
def test_forged_texts_of_a_rollback_are_passed_over(change: dict[str, Any]) -> None:
    back = RolledBackCommit(
        instant=InstantTime("1"),
        action="commit",
        operation="upsert",
        inserts=1,
        updates=0,
        deletes=0,
        planned=True,
        task={},
    )
    plain = RollbackMetadata(InstantTime("2"), 1, 0, (), lost=back).to_bytes()
    assert RolledBackCommit.read(plain) == back
    text = back.to_text()
    forged = json.dumps({**json.loads(text), **change})
    schema = {"type": "record", "name": "r", "fields": []}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{}], metadata={TAKEN_BACK_KEY: forged})
    assert RolledBackCommit.read(out.getvalue()) is None
    assert RolledBackCommit.read(b"Obj\x01") is None


# What needs a hand --------------------------------------------------------------------------------


def test_a_table_is_late_by_its_own_rhythm(table: WrittenTimeline, ask: Ask, monkeypatch: Any) -> None:
    table.fill(60)
    table.compact()
    found = ask("tables/orders/health")["last_write"]
    assert (found["instant"], found["usual_ms"], found["late"]) == (table.commits[-1], 60_000, False)
    real = LocalStorage.now_ms
    monkeypatch.setattr(LocalStorage, "now_ms", lambda self: real(self) + 11 * 60_000)
    late = ask("tables/orders/health")
    assert late["last_write"]["late"]
    assert late["level"] == 2
    assert "no write for longer than usual" in late["reasons"]


def test_a_burst_of_writes_makes_no_table_late(table: WrittenTimeline, ask: Ask, monkeypatch: Any) -> None:
    """A catch-up writes six days in a row; a day later nothing is known of how often the table is written."""
    for _ in range(6):
        table.commit()
    real = LocalStorage.now_ms
    monkeypatch.setattr(LocalStorage, "now_ms", lambda self: real(self) + 24 * 3_600_000)
    found = ask("tables/orders/health")
    assert (found["last_write"]["usual_ms"], found["last_write"]["basis"]) == (None, None)
    assert (found["level"], found["reasons"]) == (0, [])
    table.commit(extra=RUN)
    known = ask("tables/orders/health")["last_write"]
    assert (known["usual_ms"], known["basis"], known["late"]) == (3_600_000, "intervals", True)


def test_a_glance_at_a_long_timeline_opens_few_commits(
    table: WrittenTimeline, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.fill(1000)
    read: list[str] = []
    original = LocalStorage.read

    def noted(self: LocalStorage, path: str) -> bytes:
        read.append(path)
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "read", noted)
    found = ask("tables/orders/health")
    assert [item["check"] for item in found["findings"]] == ["services", "services"]
    assert len([path for path in read if path.endswith(".commit")]) <= 21
    assert len(read) < 30


def test_which_tables_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real failures before late tables, what is not written yet last, before it what is well."""
    made = {name: WrittenTimeline.create(tmp_path, name) for name in ("failed", "late", "well", "new")}
    for table in made.values():
        if table is not made["new"]:
            table.commit(extra=RUN if table is made["late"] else None)
    beat = Heartbeat(table_at(made["failed"].path), made["failed"].begin().time, 60_000, 2)
    beat.start()
    beat.silence()  # as a writer that was killed leaves it
    real = LocalStorage.now_ms
    monkeypatch.setattr(LocalStorage, "now_ms", lambda self: real(self) + 24 * 3_600_000)
    tables = {name: table.path for name, table in made.items()} | {"none": str(tmp_path / "none")}
    ask = asker(Page(lambda: tables))
    found = {name: ask(f"tables/{name}/health") for name in tables}
    ranks = {name: item["rank"] for name, item in found.items()}
    assert ranks["failed"] > ranks["late"] > ranks["well"] > ranks["new"] == ranks["none"] == 0
    assert [found[name]["reasons"] for name in ("failed", "late", "well", "new")] == [
        ["1 failed write"], ["no write for longer than usual"], [], ["not written yet"],
    ]  # fmt: skip
    assert [found[name]["level"] for name in ("failed", "late", "well", "new")] == [2, 2, 0, 0]


def test_a_commit_that_no_task_made(table: WrittenTimeline, ask: Ask) -> None:
    """Where the page knows where Airflow is: else no table has tasks."""
    table.commit(extra=RUN)
    assert ask("tables/orders/health")["last_write"]["run"]["href"].endswith("/tasks/load")
    foreign = table.commit()
    table.compact()
    table.begin()
    last = ask("tables/orders/health")["last_write"]
    assert (last["instant"], last["run"], last["outside"]) == (foreign, None, True)
    items = ask("tables/orders/instants")["instants"]
    assert [item["outside"] for item in items] == [False, True, False, False]
    assert ask(f"tables/orders/instants/{foreign}")["outside"]
    alone = asker(Page(lambda: {"orders": table.path}))
    assert not alone("tables/orders/health")["last_write"]["outside"]
    assert not any(item["outside"] for item in alone("tables/orders/instants")["instants"])


FROZEN = """
import sys, time
from hoodie.concurrency.queue import FOLDER
from hoodie.table.heartbeat import Heartbeat, Work
from hoodie.table.handle import Table
for instant, folder in zip(sys.argv[2:], (".hoodie/.heartbeat", FOLDER)):
    Heartbeat(Table.open(sys.argv[1]), instant, 60_000, 2, Work(), folder).start()
print("beats", flush=True)
time.sleep(600)
"""


def test_a_frozen_process_stays_visible(table: WrittenTimeline, ask: Ask, monkeypatch: Any) -> None:
    """A stopped writer, and one that waits: first silent, then frozen, and a killed one is gone."""
    begun, ticket = table.begin(), f"1{STORAGE.now_ms():013d}000001"
    command = [sys.executable, "-c", FROZEN, table.path, begun.time, ticket]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGSTOP)
            assert ask("tables/orders/health")["reasons"] == ["1 job waits"]
            real = LocalStorage.now_ms
            monkeypatch.setattr(LocalStorage, "now_ms", lambda self: real(self) + 100_000)
            silent = ask("tables/orders/health")
            assert silent["reasons"][0].endswith("at work is silent for 1 min")
            assert silent["level"] == 1
            monkeypatch.setattr(LocalStorage, "now_ms", lambda self: real(self) + 600_000)
            frozen = ask("tables/orders/health")
        finally:
            process.kill()
    assert frozen["reasons"][:2] == [
        "1 failed write",
        f"process {process.pid} on {socket.gethostname()} is frozen",
    ]
    assert [item["writer"]["frozen"] for item in frozen["pending"]] == [True]
    assert [item["frozen"] for item in frozen["waiting"]] == [True]
    killed = ask("tables/orders/health")
    assert (killed["reasons"], killed["waiting"]) == (["1 failed write"], [])
    assert not killed["pending"][0]["writer"]["frozen"]


def test_one_bad_table_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that hangs costs its own look alone, and that ends in time; one that is gone says so."""
    written = {name: WrittenTimeline.create(tmp_path, name) for name in ("good", "hangs")}
    written["good"].commit()
    held = threading.Event()
    original = ShownTable.open.__func__  # type: ignore[attr-defined]

    def slow(cls: type[ShownTable], name: str, *more: Any) -> ShownTable:
        if name == "hangs":
            held.wait(90)
        shown: ShownTable = original(cls, name, *more)
        return shown

    monkeypatch.setattr(ShownTable, "open", classmethod(slow))
    tables = {name: table.path for name, table in written.items()} | {"gone": str(tmp_path / "nowhere")}
    ask = asker(Page(lambda: tables, bounded=Bounded(2)))
    started = time.monotonic()
    listed = {item["name"]: item for item in ask("tables")["tables"]}
    found = {name: ask(f"tables/{name}/health") for name in tables}
    levels = {name: item["level"] for name, item in found.items()}
    again = ask("tables/hangs/health")
    assert time.monotonic() - started < 60
    assert {name: "error" in item for name, item in listed.items()} == {
        "good": False, "hangs": True, "gone": True,
    }  # fmt: skip
    assert levels == {"good": 0, "hangs": 3, "gone": 0}
    assert found["gone"]["reasons"] == [f"not written yet: no table is at {tmp_path}/nowhere"]
    assert sorted(found, key=lambda name: found[name]["rank"]) == ["gone", "good", "hangs"]
    assert "did not answer within 2 s" in again["reasons"][0]
    looks = [thread for thread in threading.enumerate() if thread.name.startswith("hoodie-look-hangs")]
    assert len(looks) == 2, "one of the list and one at a glance, however often they are asked"
    held.set()
    for thread in looks:
        thread.join()
    assert ask("tables/hangs/health")["level"] == 0
    names = ask("tables", "open=false")["tables"]
    assert [item["name"] for item in names] == ["gone", "good", "hangs"]
    ask("tables/other/health", status=404)


# Other processes ----------------------------------------------------------------------------------


def shown(table: WrittenTimeline) -> ShownTable:
    return ShownTable.open("orders", table.path)


@pytest.mark.full
def test_the_planner_and_the_doctor_are_asked_in_a_process_of_their_own(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        hoodie.write_table(rows(number), path, options={**OPTIONS, "hoodie.clean.automatic": "false"})
    ask = asker(Page(lambda: {"t": path}))
    before = sorted(Path(path).rglob("*"))
    services = ask("tables/t/services")
    assert [item["service"] for item in services["services"]][:2] == ["restore", "repair"]
    assert all(item["reason"] for item in services["services"] if not item["due"])
    findings = ask("tables/t/doctor")["findings"]
    assert {"files", "timeline", "services"} <= {item["check"] for item in findings}
    assert sorted(Path(path).rglob("*")) == before, "a look changes nothing"
    started = time.monotonic()
    assert ask("tables/t/services")["services"] == services["services"]
    assert time.monotonic() - started < 0.5, "of an unchanged timeline the answer is kept"


@pytest.mark.parametrize(
    ("code", "seconds", "says"),
    [
        ("import time; time.sleep(60)", 0.2, "took more than 0.2 s and was ended"),
        ("raise SystemExit(3)", 30, "exit code 3 and no answer"),
        ("print('[')", 30, "and no answer"),
        ('print(\'{"error": {"message": "no Arrow"}}\')', 30, "no Arrow"),
    ],
)
def test_a_look_that_fails_says_why(
    table: WrittenTimeline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    seconds: float,
    says: str,
) -> None:
    (tmp_path / "look.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(health, "_MODULE", "look")
    page = Page(lambda: {"orders": table.path}, examiner=Examiner(seconds=seconds))
    assert says in asker(page)("tables/orders/services")["problem"]


def test_looks_are_few_and_kept(table: WrittenTimeline, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(self: Examiner, what: str, shown: ShownTable) -> dict[str, Any]:
        asked.append(what)
        return {"n": len(asked)}

    monkeypatch.setattr(Examiner, "_examined", answer)
    examiner = Examiner()
    assert examiner.ask(SERVICES, shown(table))["n"] == examiner.ask(SERVICES, shown(table))["n"] == 1
    assert examiner.ask(DOCTOR, shown(table))["n"] == 2
    assert examiner.ask(SERVICES, shown(table), again=True)["n"] == 3
    table.commit()
    assert examiner.ask(SERVICES, shown(table))["n"] == 4, "the timeline is another"
    busy = Examiner(seconds=0.1, at_once=1)
    monkeypatch.undo()
    busy._free.acquire()
    with pytest.raises(JobError, match="other looks are under way"):
        busy.ask(SERVICES, shown(table))
