"""What the timeline page answers, over tables that Apache Hudi wrote and timelines of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.serve import instants
from hoodie.serve.page import Page
from hoodie.storage.local import LocalStorage
from hoodie.table import heartbeat, properties
from hoodie.timeline.clock import format_millis, instant_millis
from hoodie.timeline.commit import VALIDATIONS_KEY, CommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import RUN_KEY, TOKEN_KEY, TaskRun
from tests.airflow.timelines import WrittenTimeline
from tests.support.golden import COPY_ON_WRITE, MERGE_ON_READ
from tests.support.handles import table_at
from tests.support.stores import store_at

STORAGE = LocalStorage()
Ask = Callable[..., Any]


def asker(tables: dict[str, str], airflow: str | None = None) -> Ask:
    """Path and query -> the document; another status than the expected one fails."""
    page = Page(lambda: tables, airflow)

    def ask(path: str, query: str = "", status: int = 200) -> Any:
        reply = page.get(path, query)
        assert reply.status == status, reply.body
        assert reply.content_type.startswith("application/json")
        return json.loads(reply.body)

    return ask


@pytest.fixture
def table(tmp_path: Path) -> WrittenTimeline:
    return WrittenTimeline.create(tmp_path)


@pytest.fixture
def ask(table: WrittenTimeline) -> Ask:
    return asker({"orders": table.path})


def listed(ask: Ask, query: str = "limit=1000") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask("tables/orders/instants", query)["instants"]
    return found


# Tables of Apache Hudi ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*COPY_ON_WRITE, *MERGE_ON_READ])
@pytest.mark.parametrize("archived", ["false", "true"])
def test_golden_tables(golden_tables: Path, name: str, archived: str) -> None:
    """The list has every instant with its counts, and each opens; the rows of its partitions add up."""
    path = golden_tables / "0.15.0-v6" / name / "table"
    ask = asker({"orders": str(path)})
    expected = hoodie.instants(str(path), archived=archived == "true")
    answer = ask("tables/orders/instants", f"limit=1000&archived={archived}")
    assert answer["total"] == len(expected)
    for shown, known in zip(answer["instants"], expected, strict=True):
        assert {"instant": shown["instant"], "action": shown["action"], "state": shown["state"]} == {
            key: known[key] for key in ("instant", "action", "state")
        }
        full = ask(
            f"tables/orders/instants/{shown['instant']}", f"action={shown['action']}&archived={archived}"
        )
        assert full["problem"] is None
        assert {key: full[key] for key in shown} == shown
        if "inserts" not in known:
            continue
        counts = (shown["num_inserts"], shown["num_updates"], shown["num_deletes"], shown["num_files"])
        assert counts == tuple(known[key] for key in ("inserts", "updates", "deletes", "files"))
        sums = [sum(row[key] for row in full["partition_rows"]) for key in ("inserts", "updates", "deletes")]
        assert sums == list(counts[:3])
        assert full["files_total"] == len(full["files"]) == known["files"]
        assert full["schema"] is None or json.loads(full["schema"])["type"] == "record"


def test_sizes_are_those_of_the_files(golden_tables: Path) -> None:
    path = golden_tables / "0.15.0-v6" / "mor_logs" / "table"
    ask = asker({"orders": str(path)})
    kinds = set()
    for item in listed(ask):
        for file in ask(f"tables/orders/instants/{item['instant']}")["files"]:
            kinds.add(file["kind"])
            found = path / file["partition"] / file["name"]
            assert found.stat().st_size == file["size"] > 0
    assert kinds == {"base", "log"}


def test_what_services_say(golden_tables: Path) -> None:
    ask = asker({"orders": str(golden_tables / "0.15.0-v6" / "all_instants" / "table")})
    shown = {(item["instant"], item["action"]): item for item in listed(ask)}
    kinds = {action for _, action in shown}
    assert kinds >= {"commit", "deltacommit", "replacecommit", "clean", "savepoint", "rollback", "restore"}
    assert all(item["service"] for item in shown.values() if item["action"] == "commit"), "compactions"

    def facts(action: str, status: str = "completed") -> dict[str, str]:
        [(time, _), *_] = [key for key, it in shown.items() if key[1] == action and it["status"] == status]
        return dict(ask(f"tables/orders/instants/{time}", f"action={action}")["facts"])

    assert int(facts("clean")["files deleted"]) > 0
    assert facts("restore")["rolled back"].count("2026") == 2
    assert "deltacommit" in facts("rollback")["rolled back"]
    assert facts("replacecommit", "scheduled") == {"operation": "cluster"}
    both = [item["instant"] for item in shown.values() if item["action"] == "savepoint"]
    assert ask(f"tables/orders/instants/{both[0]}")["action"] == "deltacommit"
    assert ask(f"tables/orders/instants/{both[0]}", "action=savepoint")["action"] == "savepoint"


# Pages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_pages_cover_every_instant_once(table: WrittenTimeline, ask: Ask, limit: int) -> None:
    for number in range(10):
        table.commit()
        table.serve(number)
    saved = Instant(InstantTime(table.commits[4]), Action.SAVEPOINT, State.COMPLETED)
    store_at(table.path).create(saved)
    seen: list[tuple[str, str]] = []
    query = f"limit={limit}"
    while True:
        page = ask("tables/orders/instants", query)
        keys = [(item["instant"], item["action"]) for item in page["instants"]]
        assert page["total"] == 21
        assert keys == sorted(keys)
        assert len({time for time, _ in keys}) <= limit
        seen = keys + seen
        if page["next_before"] is None:
            break
        query = f"limit={limit}&before={page['next_before']}"
    assert len(seen) == len(set(seen)) == 21
    assert seen == sorted(seen)


def test_unfinished_instants_older_than_the_page_are_told(table: WrittenTimeline, ask: Ask) -> None:
    begun = table.begin()
    for _ in range(5):
        table.commit()
    page = ask("tables/orders/instants", "limit=2")
    assert page["pending"] == 1
    assert [item["instant"] for item in page["older_pending"]] == [begun.time]
    assert ask("tables/orders/instants", f"limit=2&before={page['next_before']}")["older_pending"] == []
    assert ask("tables/orders/instants", "limit=6")["older_pending"] == []


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the commits that were read."""
    read: list[str] = []
    original = LocalStorage.read

    def noted(self: LocalStorage, path: str) -> bytes:
        if path.endswith(".commit"):
            read.append(path)
        return original(self, path)

    monkeypatch.setattr(LocalStorage, "read", noted)
    return read


def test_a_commit_is_read_once(table: WrittenTimeline, ask: Ask, opened: list[str]) -> None:
    for _ in range(3):
        table.commit()
    assert [item["num_inserts"] for item in (*listed(ask), *listed(ask))] == [2] * 6
    assert len(opened) == 3


# States and times ---------------------------------------------------------------------------------


def beat(path: str, instant: str, pid: int) -> None:
    owner = {"host": "here", "machine": heartbeat.machine(), "pid": pid}
    STORAGE.write(heartbeat.heartbeat_path(path, instant), json.dumps(owner).encode())


@pytest.fixture
def gone() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_unfinished_instants(table: WrittenTimeline, ask: Ask, gone: int) -> None:
    dead, alive, silent = (table.begin().time for _ in range(3))
    beat(table.path, dead, gone)
    live = heartbeat.Heartbeat(table_at(table.path), alive, 60_000, 2)
    planned = Instant(InstantTime("20290101000000000"), Action.COMPACTION, State.REQUESTED)
    store_at(table.path).create(planned)
    live.start()
    try:
        found = {item["instant"]: item for item in listed(ask)}
    finally:
        live.stop()
    statuses = {time: item["status"] for time, item in found.items()}
    assert statuses == {dead: "failed", alive: "running", silent: "open", planned.time: "scheduled"}
    assert found[dead]["writer"]["owner"] == f"process {gone} on here"
    assert str(os.getpid()) in found[alive]["writer"]["owner"]


def write_times(path: str, instant: str, **seconds: float) -> None:
    """Times of the files of an instant's states, in seconds after it."""
    begun = instant_millis(instant, utc=True) / 1000
    for file in Path(path, ".hoodie").glob(f"{instant}.*"):
        found = ONE.parse(file.name)
        assert found is not None
        state = found.state.name.lower()
        os.utime(file, (begun + seconds[state],) * 2)


@pytest.fixture
def utc_table(tmp_path: Path) -> WrittenTimeline:
    written = WrittenTimeline(str(tmp_path / "orders"))
    texts = {properties.NAME: "orders", properties.TIMELINE_TIMEZONE: "UTC"}
    properties.create(STORAGE, written.path, texts)
    return written


def test_durations(utc_table: WrittenTimeline) -> None:
    """A write lasts from its begin; of a plan, the time until it is carried out is told apart."""
    ask = asker({"orders": utc_table.path})
    upsert, compaction, copied = utc_table.commit(), utc_table.compact(), utc_table.commit()
    write_times(utc_table.path, upsert, requested=0.5, inflight=10, completed=60.5)
    write_times(utc_table.path, compaction, requested=1, inflight=3601, completed=3661)
    write_times(utc_table.path, copied, requested=700_000, inflight=700_000, completed=700_001)
    lengths = {
        item["instant"]: (item["elapsed_ms"], item["waited_ms"], item["duration_ms"]) for item in listed(ask)
    }
    assert lengths == {
        upsert: (60_000, None, 60_000),
        compaction: (3_660_000, 3_600_000, 60_000),
        copied: (None, None, None),
    }
    [page] = [ask("tables/orders/instants")]
    assert page["table"]["zone"] == "UTC"
    moment = instant_millis(upsert, utc=True)
    assert page["instants"][0]["start_ms"] == moment
    assert format_millis(moment, utc=True) == upsert


@pytest.mark.parametrize(
    ("late_s", "told"),
    [(0.2, True), (-3 * 3600 + 1, True), (5.5 * 3600, True), (45, True), (420, False), (7 * 86400, False)],
)
def test_a_local_timeline_may_be_of_another_zone(
    table: WrittenTimeline, ask: Ask, late_s: float, told: bool
) -> None:
    time = table.commit()
    write_times(table.path, time, requested=late_s, inflight=late_s, completed=late_s + 2)
    assert [item["duration_ms"] for item in listed(ask)] == [2000 if told else None]
    assert "local time of the writers" in ask("tables")["tables"][0]["zone"]


def test_instants_that_are_no_times(table: WrittenTimeline, ask: Ask) -> None:
    store_at(table.path).create(
        Instant(InstantTime("00000000000000010"), Action.COMMIT, State.COMPLETED), b"{}"
    )
    [found] = listed(ask)
    assert found["start_ms"] is None
    assert found["duration_ms"] is None


# Task runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("d/t.x/-1/run=manual__1", TaskRun("d", "t.x", -1, "manual__1", "")),
        ("d/t/3/2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00",
         TaskRun("d", "t", 3, "", "2026-01-01T00:00:00+00:00/2026-01-02T00:00:00+00:00")),
        ("d/t/-1/partition=a/b", TaskRun("d", "t", -1, "", "partition=a/b")),
        ("d/t/-1/run=with/slash", TaskRun("d", "t", -1, "with/slash", "")),
        ("my own token", None),
        ("a/b/c/d", None),
        ("d/t/1", None),
        ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_texts_of_task_runs(text: str | None, run: TaskRun | None) -> None:
    assert TaskRun.parse(text) == run
    if run is not None and run.run_id:
        assert run.text() == text


def test_the_run_that_wrote_is_a_link(table: WrittenTimeline) -> None:
    token, run = "d/t/-1/2026-01-01/2026-01-02", "d/t/-1/run=scheduled__2026-01-02T00:00:00+00:00"
    table.commit(extra={TOKEN_KEY: token, RUN_KEY: run})
    table.commit(extra={TOKEN_KEY: "d/t.u/2/2026-01-01/2026-01-02"})
    table.commit(extra={RUN_KEY: "d/t/2/run=r"})
    table.commit(extra={TOKEN_KEY: "mine"})
    runs = [item["run"] for item in listed(asker({"orders": table.path}, "http://airflow:8080/air"))]
    assert runs[0]["stands_for"] == "2026-01-01/2026-01-02"
    assert [run and run["href"].removeprefix("http://airflow:8080/air/dags/d") for run in runs] == [
        "/runs/scheduled__2026-01-02T00%3A00%3A00%2B00%3A00/tasks/t",
        "/tasks/t.u",
        "/runs/r/tasks/t/mapped/2",
        None,
    ]
    assert all("href" not in item["run"] for item in listed(asker({"orders": table.path}))[:3])


# Errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["tables/other/instants", "tables/../instants", "tables/%2e%2e/instants", "tables//instants",
     "tables/%2Fetc%2Fpasswd/instants", "../page.css", "%2e%2e/page.css", "static/page.css", "page.py",
     "tables/orders", "tables/orders/instants/20260101000000000", "tables/orders/instants/1/2",
     "..%2fpage.py"],
)  # fmt: skip
def test_what_is_not_there(ask: Ask, path: str) -> None:
    error = ask(path, status=404)["error"]
    assert error["code"] in ("not_found", "table_not_found")
    assert "root:" not in error["message"]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=٣", "before=abc",
     "before=2026-01-01", "archived=yes"],
)  # fmt: skip
def test_wrong_queries(ask: Ask, query: str) -> None:
    error = ask("tables/orders/instants", query, status=400)["error"]
    assert error["code"] == "configuration"
    assert query.split("=")[1] in error["message"]


def test_tables_that_cannot_be_opened_say_why(table: WrittenTimeline, tmp_path: Path) -> None:
    torn, newer = (WrittenTimeline.create(tmp_path, name) for name in ("torn", "newer"))
    Path(torn.path, ".hoodie", "hoodie.properties").write_bytes(b"hoodie.table.name=torn\n")
    texts = Path(newer.path, ".hoodie", "hoodie.properties")
    texts.write_text(texts.read_text().replace("hoodie.table.version=6", "hoodie.table.version=10"))
    missing = str(tmp_path / "nowhere")
    ask = asker({"orders": table.path, "torn": torn.path, "newer": newer.path, "gone": missing})
    found = {item["name"]: item.get("error", {}).get("code") for item in ask("tables")["tables"]}
    assert found == {
        "orders": None,
        "torn": "torn_properties",
        "newer": "unsupported_version",
        "gone": "table_not_found",
    }
    assert "restore the file" in ask("tables/torn/instants", status=422)["error"]["message"]
    assert "Apache Hudi" in ask("tables/newer/instants", status=422)["error"]["message"]
    assert missing in ask("tables/gone/instants", status=404)["error"]["message"]


def test_a_torn_commit_spoils_only_itself(table: WrittenTimeline, ask: Ask) -> None:
    torn, whole = table.commit(), table.commit()
    Path(table.path, ".hoodie", f"{torn}.commit").write_bytes(b'{"partitionToWriteStats"')
    assert [item.get("num_inserts") for item in listed(ask)] == [None, 2]
    assert "can't be read" in ask(f"tables/orders/instants/{torn}")["problem"]
    assert ask(f"tables/orders/instants/{whole}")["problem"] is None


def test_a_table_without_instants(ask: Ask) -> None:
    page = ask("tables/orders/instants")
    assert (page["instants"], page["total"], page["next_before"]) == ([], 0, None)
    assert ask("tables/orders/instants", "archived=true")["instants"] == []


def test_long_commits_are_cut(table: WrittenTimeline, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.serve.details.MAX_LISTED", 3)
    written = [table.commit(f"p={number}") for number in range(5)]
    stats: dict[str, Any] = {}
    for one in written:
        data = Path(table.path, ".hoodie", f"{one}.commit").read_bytes()
        stats |= dict(CommitMetadata.parse(data).partition_to_write_stats)
    time = table.complete(table.begin(), CommitMetadata(stats))
    full = ask(f"tables/orders/instants/{time}")
    assert (len(full["partition_rows"]), full["partitions_total"]) == (3, 5)
    assert (len(full["files"]), full["files_total"]) == (3, 5)


def test_a_page_of_a_long_timeline_opens_what_it_shows(
    table: WrittenTimeline, ask: Ask, opened: list[str]
) -> None:
    table.fill(1200)
    page = ask("tables/orders/instants")
    assert (len(page["instants"]), page["total"]) == (instants.LIMIT, 1200)
    assert [item["instant"] for item in page["instants"]] == table.commits[-instants.LIMIT :]
    assert len(opened) == instants.LIMIT


def test_validators_of_a_commit(table: WrittenTimeline, ask: Ask) -> None:
    row = {"validator": "v", "query": "q", "passed": True, "expected": "0", "found": "0"}
    table.commit(extra={VALIDATIONS_KEY: json.dumps([row]), "note": "x"})
    table.commit(extra={VALIDATIONS_KEY: "no rows"})
    found = ask(f"tables/orders/instants/{table.commits[0]}")
    assert (found["validations"], found["extra_metadata"]) == ([row], {"note": "x"})
    found = ask(f"tables/orders/instants/{table.commits[1]}")
    assert (found["validations"], found["extra_metadata"]) == ([], {VALIDATIONS_KEY: "no rows"})
