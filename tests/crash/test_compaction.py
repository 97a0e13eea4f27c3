"""Executions of one compaction that meet, and writers beside them: no row ever changes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import hoodie
from hoodie.errors import ConflictError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.crash.checks import Rows, counted, hudi_rs_rows, leftovers, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import MOR_OPTIONS, NO_ROWS, SCENARIOS, Scenario, compact, in_region, run
from tests.crash.worker import Worker, answer
from tests.support.faults import Phase, wait_for
from tests.support.properties import rounds
from tests.support.tables import small_rows
from tests.support.tiers import full_but

pytestmark = pytest.mark.crash

EXECUTE = SCENARIOS["execute"]


def pending(path: Path) -> list[str]:
    return [str(item.time) for item in Timeline.load(str(path)).filter([Action.COMPACTION], completed=False)]


def check_failed(path: Path, rows: Rows) -> None:
    """What readers see of a compaction that did not end. hudi-rs has no notion of a pending one."""
    assert our_rows(path) == rows
    if not pending(path):
        assert hudi_rs_rows(path) == rows


def check_mended(scenario: Scenario, path: Path, rows: Rows) -> None:
    """The next run finishes the work; nothing is left of the failure once a writer has begun, nor of logs."""
    scenario.again(path, False)
    run(path, NO_ROWS, options=MOR_OPTIONS)
    assert leftovers(path) == []
    assert our_rows(path) == rows
    assert hudi_rs_rows(path) == rows
    assert hoodie.read_table(str(path), query="read_optimized").num_rows == rows.total()


def test_a_writer_after_a_killed_execution_leaves_it_alone(bench: Bench) -> None:
    """It appends on top of the pending compaction; who executes the plan next mends."""
    for change, ending in (("close_output", ".parquet"), ("create", ".commit")):
        number = bench.place(EXECUTE, change, ending)
        path = bench.table(EXECUTE)
        assert bench.kill(EXECUTE, path, number) == -signal.SIGKILL
        planned, rows = pending(path), upsert(bench, path)
        assert planned == pending(path)
        check_failed(path, rows)
        assert compact(path, "execute").compacted == planned
        check_mended(EXECUTE, path, rows)


def upsert(bench: Bench, path: Path) -> Rows:
    """Updates in a file group that is being compacted, and inserts; the rows after it."""
    changed = in_region(small_rows(range(0, 60, 5), 7), "eu") + in_region(
        small_rows(range(9000, 9010), 7), "us"
    )
    assert run(path, changed, options=MOR_OPTIONS).warnings == []
    keys = {row["id"] for row in changed}
    kept = [row for row in EXECUTE.new(bench) if row["id"] not in keys]
    return counted([*kept, *changed])


#: where an execution waits: (change, end of its path, phase)
WAITS = {
    "before its first file": ("create", ".compaction.inflight", Phase.AFTER),
    "with an open file": ("open_output", ".parquet", Phase.AFTER),
    "with written files": ("close_output", ".parquet", Phase.AFTER),
    "before it publishes": ("create", ".commit", Phase.BEFORE),
}


@pytest.mark.parametrize("where", full_but({"with an open file", "before it publishes"}, WAITS))
def test_writers_go_on_while_a_plan_is_executed_and_a_second_execution_is_refused(
    bench: Bench, worker: Worker, tmp_path: Path, where: str
) -> None:
    name, ending, phase = WAITS[where]
    path = bench.table(EXECUTE)
    (planned,) = pending(path)
    pid = worker.start(EXECUTE, path, bench.place(EXECUTE, name, ending), phase, tmp_path)
    wait_for(tmp_path / "holding")
    rows = upsert(bench, path)
    check_failed(path, rows)
    with pytest.raises(ConflictError, match=f"compaction {planned}") as refused:
        compact(path, "execute")
    assert refused.value.values["owner"].startswith(f"process {pid} on ")
    assert pending(path) == [planned]
    (tmp_path / "go").touch()
    assert worker.wait(pid) == 0
    assert answer(tmp_path)["compacted"] == [planned]
    check_failed(path, rows)
    check_mended(EXECUTE, path, rows)


@pytest.mark.parametrize("where", full_but({"before its first file", "before it publishes"}, WAITS))
def test_a_sleeping_execution_taken_for_dead_can_not_publish(
    bench: Bench, worker: Worker, tmp_path: Path, where: str
) -> None:
    name, ending, phase = WAITS[where]
    path = bench.table(EXECUTE)
    (planned,) = pending(path)
    pid = worker.start(EXECUTE, path, bench.place(EXECUTE, name, ending), phase, tmp_path)
    wait_for(tmp_path / "holding")
    os.kill(pid, signal.SIGSTOP)
    os.utime(path / ".hoodie/.heartbeat" / planned, (1, 1))
    assert compact(path, "execute").compacted == [planned]
    (tmp_path / "go").touch()
    os.kill(pid, signal.SIGCONT)
    assert worker.wait(pid) in (0, 1)
    told = answer(tmp_path)
    assert told.get("code") == "fenced" or told["compacted"] == []
    rows = bench.new(EXECUTE)
    check_failed(path, rows)
    check_mended(EXECUTE, path, rows)


def test_executions_that_start_at_once_compact_once(bench: Bench, worker: Worker, tmp_path: Path) -> None:
    """Each of two waits at its first change; both may be refused."""
    rows = bench.new(EXECUTE)
    for number in range(rounds(8)):
        path = bench.table(EXECUTE)
        (planned,) = pending(path)
        pauses = [tmp_path / str(number) / name for name in ("left", "right")]
        pids = [worker.start(EXECUTE, path, 1, Phase.BEFORE, pause) for pause in pauses]
        for pause in pauses:
            wait_for(pause / "holding")
        for pause in pauses:
            (pause / "go").touch()
        codes = [worker.wait(pid) for pid in pids]
        answers = [answer(pause) for pause in pauses]
        done = [told for told in answers if told.get("compacted") == [planned]]
        assert len(done) <= 1
        assert all(told.get("code") in (None, "table_busy", "fenced") for told in answers), codes
        check_failed(path, rows)
        check_mended(EXECUTE, path, rows)


def test_no_plan_is_made_while_a_writer_is_at_work(bench: Bench, worker: Worker, tmp_path: Path) -> None:
    writer, schedule = SCENARIOS["mor_upsert"], SCENARIOS["schedule"]
    path = bench.table(writer)
    number = bench.place(writer, "create", ".deltacommit")
    pid = worker.start(writer, path, number, Phase.BEFORE, tmp_path)
    wait_for(tmp_path / "holding")
    with pytest.raises(ConflictError, match="another writer is at work"):
        schedule.run(path)
    assert pending(path) == []
    (tmp_path / "go").touch()
    assert worker.wait(pid) == 0
    check_mended(schedule, path, bench.new(writer))
