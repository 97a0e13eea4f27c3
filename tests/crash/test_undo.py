"""Rollbacks, savepoints and restores that fail or are killed at every change: readers see a state of the
table that there was, and the next run leaves what an undisturbed one leaves.
"""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from hoodie.errors import TableError
from hoodie.storage.local import TMP_SUFFIX
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.crash.checks import counted, hudi_rs_rows, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import NO_ROWS, run
from tests.crash.test_sweep import cases
from tests.crash.undo import MANUAL, UNDO, Undo, upserted
from tests.support.faults import InjectedFault, Phase

pytestmark = pytest.mark.crash


@dataclass(frozen=True)
class Left:
    """Files but the logs of rollbacks, whose names do not depend on the run, and the timeline's actions."""

    files: frozenset[str]
    instants: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Left:
        files = {str(file.relative_to(path)) for file in path.glob("*/*") if ".hoodie" not in file.parts}
        instants = [f"{item.action.value} {item.state.name}" for item in Timeline.load(str(path))]
        return cls(frozenset(files), tuple(instants))


@pytest.fixture(scope="module")
def undisturbed(bench: Bench) -> dict[str, Left]:
    left: dict[str, Left] = {}
    for name, scenario in UNDO.items():
        path = bench.table(scenario)
        before = Left.of(path)
        scenario.run(path)
        left[name] = Left.of(path)
        assert left[name] != before, "there was something to do"
    return left


def check_failed(scenario: Undo, path: Path) -> None:
    rows = our_rows(path)
    assert rows in [counted(upserted(*batches)) for batches in scenario.states]
    if not Timeline.load(str(path)).filter([Action.COMPACTION], completed=False):
        assert hudi_rs_rows(path) == rows


def check_mended(bench: Bench, scenario: Undo, path: Path, expected: Left) -> None:
    scenario.again(path, False)
    scenario.again(path, False)  # after a hiccup in the first one's last step
    rows = bench.new(scenario)
    assert our_rows(path) == rows
    assert hudi_rs_rows(path) == rows
    left = Left.of(path)
    assert left.files == expected.files
    assert [item for item in left.instants if "rollback" not in item] == [
        item for item in expected.instants if "rollback" not in item
    ]
    assert all("COMPLETED" in item for item in left.instants)
    run(path, NO_ROWS, options={**scenario.options, **MANUAL})
    folders = (".hoodie/.temp/*", ".hoodie/.heartbeat/*", f"**/*{TMP_SUFFIX}")
    assert [found for pattern in folders for found in path.glob(pattern)] == []
    assert our_rows(path) == rows


@pytest.mark.parametrize("name", UNDO)
def test_it_fails_at_every_change(bench: Bench, undisturbed: dict[str, Left], name: str) -> None:
    scenario = UNDO[name]
    for faults in cases(bench.changes(scenario), (Phase.BEFORE, False), (Phase.AFTER, True)):
        if faults.once and faults.at % 3 and name.startswith("restore"):
            continue
        path = bench.table(scenario)
        try:
            with contextlib.suppress(InjectedFault):
                scenario.run(path, faults)
            assert faults.tripped
            check_failed(scenario, path)
            check_mended(bench, scenario, path, undisturbed[name])
        except Exception as error:
            raise AssertionError(f"{name}, {faults}") from error


@pytest.mark.parametrize("name", UNDO)
def test_it_is_killed(bench: Bench, undisturbed: dict[str, Left], name: str) -> None:
    scenario = UNDO[name]
    for number, change in enumerate(bench.changes(scenario), 1):
        if number % (3 if name.startswith("restore") else 2):
            continue
        for phase in (Phase.BEFORE, Phase.DURING) if change.splits else (Phase.BEFORE,):
            path = bench.table(scenario)
            assert bench.kill(scenario, path, number, phase) == -signal.SIGKILL
            try:
                check_failed(scenario, path)
                check_mended(bench, scenario, path, undisturbed[name])
            except Exception as error:
                raise AssertionError(f"{name}, killed {phase.value} change {number}: {change}") from error


@pytest.mark.parametrize(
    "name", ["rollback_commit", "rollback_deltas", "rollback_compaction", "rollback_clustering"]
)
def test_a_writer_finishes_a_rollback(bench: Bench, undisturbed: dict[str, Left], name: str) -> None:
    """Once its plan is on the timeline; before, nothing has happened."""
    scenario = UNDO[name]
    for faults in cases(bench.changes(scenario), (Phase.BEFORE, False)):
        path = bench.table(scenario)
        before = Left.of(path)
        with contextlib.suppress(InjectedFault):
            scenario.run(path, faults)
        begun = any(path.glob(".hoodie/*.rollback*"))
        run(path, NO_ROWS, options={**scenario.options, **MANUAL})
        wanted = scenario.states[-1] if begun else scenario.states[0]
        assert our_rows(path) == counted(upserted(*wanted)), faults
        assert hudi_rs_rows(path) == our_rows(path), faults
        assert Left.of(path).files == (undisturbed[name] if begun else before).files, faults
        assert Timeline.load(str(path)).pending() == [], faults


@pytest.mark.parametrize("name", ["restore_commits", "restore_deltas"])
def test_a_writer_waits_for_an_unfinished_restore(bench: Bench, name: str) -> None:
    scenario = UNDO[name]
    for faults in cases(bench.changes(scenario), (Phase.BEFORE, False)):
        path = bench.table(scenario)
        with contextlib.suppress(InjectedFault):
            scenario.run(path, faults)
        pending = Timeline.load(str(path)).filter([Action.RESTORE], completed=False)
        with pytest.raises(TableError, match="not finished") if pending else contextlib.nullcontext():
            run(path, NO_ROWS, options={**scenario.options, **MANUAL})
        if pending:
            check_failed(scenario, path)
