"""Two writers of one table: one is refused, or was rightly taken for dead; nothing is mixed or lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from hoodie.errors import ConflictError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.crash.checks import committed, counted, hudi_rs_rows, leftovers, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import BASE, SCENARIOS, Row
from tests.crash.worker import Worker, answer
from tests.support.faults import Phase, wait_for
from tests.support.properties import rounds
from tests.support.tiers import full_but

pytestmark = pytest.mark.crash

LEFT, RIGHT = SCENARIOS["left"], SCENARIOS["right"]
MOR = SCENARIOS["mor_upsert"]
ROUNDS = rounds(12)


def everything(path: Path) -> list[str]:
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)


def check_rows(path: Path, *batches: list[Row]) -> None:
    expected = counted([row for batch in (BASE, *batches) for row in batch])
    assert our_rows(path) == expected
    assert hudi_rs_rows(path) == expected
    assert leftovers(path) == []


def test_second_live_writer_is_refused_and_leaves_nothing(
    bench: Bench, worker: Worker, tmp_path: Path
) -> None:
    path = bench.table(LEFT)
    pid = worker.start(LEFT, path, bench.place(LEFT, "open_output", ".parquet"), Phase.AFTER, tmp_path)
    wait_for(tmp_path / "holding")
    before = everything(path)
    with pytest.raises(ConflictError) as refused:
        RIGHT.run(path)
    assert everything(path) == before
    (tmp_path / "go").touch()
    assert worker.wait(pid) == 0
    assert refused.value.values["instant"] == answer(tmp_path)["instant"]
    assert refused.value.values["owner"].startswith(f"process {pid} on ")
    assert str(pid) in str(refused.value)
    check_rows(path, LEFT.rows)
    RIGHT.run(path)
    check_rows(path, LEFT.rows, RIGHT.rows)


@pytest.mark.parametrize("created", [True, False], ids=["a table", "no table yet"])
def test_writers_that_start_at_once_lose_nothing(
    bench: Bench, worker: Worker, tmp_path: Path, memory_path: Path, created: bool
) -> None:
    """Both may be refused, or one may wait for the other's commit and come after it; never both at a time."""
    for number in range(ROUNDS):
        path = bench.table(LEFT) if created else memory_path / f"{tmp_path.name}-{number}"
        pauses = {scenario: tmp_path / str(number) / scenario.name for scenario in (LEFT, RIGHT)}
        pids = {
            scenario: worker.start(scenario, path, 1, Phase.BEFORE, pauses[scenario]) for scenario in pauses
        }
        for pause in pauses.values():
            wait_for(pause / "holding")
        for pause in pauses.values():
            (pause / "go").touch()
        codes = {scenario: worker.wait(pid) for scenario, pid in pids.items()}
        answers = {scenario: answer(pause) for scenario, pause in pauses.items()}
        refused = [answers[scenario] for scenario in codes if codes[scenario] != 0]
        assert {error.get("code") for error in refused} <= {"table_busy", "fenced"}
        written = [row for scenario in codes if codes[scenario] == 0 for row in scenario.rows]
        expected = counted([*(BASE if created else []), *written])
        assert leftovers(path) == []
        assert our_rows(path) == expected
        assert Timeline.load(str(path)).filter([Action.ROLLBACK]) == []


#: where the writer sleeps: (change, end of its path, phase)
SLEEPS = {
    "before its files": ("create", ".inflight", Phase.AFTER),
    "between marker and file": ("create", ".marker.MERGE", Phase.AFTER),
    "with an open file": ("open_output", ".parquet", Phase.AFTER),
    "with written files": ("close_output", ".parquet", Phase.AFTER),
    "before it publishes": ("create", ".commit", Phase.BEFORE),
}


@pytest.mark.parametrize("where", full_but({"between marker and file", "before it publishes"}, SLEEPS))
def test_sleeper_taken_for_dead_can_not_publish(
    bench: Bench, worker: Worker, tmp_path: Path, where: str
) -> None:
    name, ending, phase = SLEEPS[where]
    path = bench.table(LEFT)
    pid = worker.start(LEFT, path, bench.place(LEFT, name, ending), phase, tmp_path)
    wait_for(tmp_path / "holding")
    os.kill(pid, signal.SIGSTOP)
    beats = list((path / ".hoodie/.heartbeat").iterdir())
    assert len(beats) == 1
    os.utime(beats[0], (1, 1))
    result = RIGHT.run(path)
    assert result.rolled_back == [beats[0].name]
    done = committed(path)
    (tmp_path / "go").touch()
    os.kill(pid, signal.SIGCONT)
    assert worker.wait(pid) == 1
    refusal = answer(tmp_path)
    assert refusal["code"] == "fenced"
    assert refusal["values"]["instant"] == beats[0].name
    assert committed(path) == done
    check_rows(path, RIGHT.rows)
    LEFT.run(path)
    check_rows(path, LEFT.rows, RIGHT.rows)


#: where a writer of logs sleeps
LOG_SLEEPS: dict[str, tuple[str, str | tuple[str, ...], Phase]] = {
    "between marker and log": ("create", (".marker.APPEND", ".log.1_1-2-3.marker.CREATE"), Phase.AFTER),
    "with an open log": ("open_output", "_1-2-3", Phase.AFTER),
    "before it publishes": ("create", ".deltacommit", Phase.BEFORE),
}


@pytest.mark.parametrize("where", full_but({"with an open log", "before it publishes"}, LOG_SLEEPS))
def test_sleeper_with_logs_taken_for_dead_can_not_publish(
    bench: Bench, worker: Worker, tmp_path: Path, where: str
) -> None:
    """Its successor may give its logs the very same names: they do not hold the instant."""
    name, ending, phase = LOG_SLEEPS[where]
    path = bench.table(MOR)
    pid = worker.start(MOR, path, bench.place(MOR, name, ending), phase, tmp_path)
    wait_for(tmp_path / "holding")
    os.kill(pid, signal.SIGSTOP)
    (beat,) = (path / ".hoodie/.heartbeat").iterdir()
    os.utime(beat, (1, 1))
    assert MOR.run(path).rolled_back == [beat.name]
    done = committed(path)
    (tmp_path / "go").touch()
    os.kill(pid, signal.SIGCONT)
    assert worker.wait(pid) == 1
    assert answer(tmp_path)["code"] == "fenced"
    assert committed(path) == done
    bench.check_after_repair(MOR, path)
