"""Clusterings that fail or are killed, and writes that roll them back: no row ever changes by that."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.crash.checks import Rows, committed, hudi_rs_rows, our_rows
from tests.crash.clustering import CLUSTERINGS
from tests.crash.conftest import Bench
from tests.crash.scenarios import NO_ROWS, Scenario, run
from tests.crash.test_kill import sampled
from tests.crash.test_sweep import cases, check_exception
from tests.support.faults import Faults, InjectedFault, Phase

pytestmark = pytest.mark.crash

SERVICES = [name for name in CLUSTERINGS if name != "give_way"]


def pending(path: Path) -> list[str]:
    found = Timeline.load(str(path)).filter([Action.REPLACECOMMIT], completed=False)
    return [item.time for item in found]


def check_failed(path: Path, rows: Rows) -> None:
    assert our_rows(path) == rows
    assert hudi_rs_rows(path) == rows


def check_mended(scenario: Scenario, path: Path, rows: Rows) -> None:
    """The next run finishes the work, and nothing is left of the failure once a writer has begun."""
    scenario.again(path, False)
    assert pending(path) == []
    run(path, NO_ROWS, options=scenario.options)
    litter = [*path.glob(".hoodie/.temp/*"), *path.glob(".hoodie/.heartbeat/*"), *path.rglob("*.hoodie-tmp")]
    assert litter == []
    check_failed(path, rows)
    commits = committed(path)
    for file in path.rglob("*.parquet"):
        assert file.stem.rpartition("_")[2] in commits, f"{file} is of no commit"


@pytest.mark.parametrize("name", SERVICES)
def test_a_clustering_fails_at_every_change(bench: Bench, name: str) -> None:
    scenario = CLUSTERINGS[name]
    kinds = [(Phase.BEFORE, False), (Phase.AFTER, True)]
    if name == "cluster_execute":
        kinds.append((Phase.DURING, False))
    rows = bench.new(scenario)
    for faults in cases(bench.changes(scenario), *kinds):
        try:
            check_fault(bench, scenario, rows, faults)
        except Exception as error:
            raise AssertionError(f"{name}, {faults}") from error


def check_fault(bench: Bench, scenario: Scenario, rows: Rows, faults: Faults) -> None:
    path = bench.table(scenario)
    before, planned = committed(path), pending(path)
    raised = True
    try:
        scenario.run(path, faults)
        raised = False
    except InjectedFault:
        pass
    if not faults.tripped:
        return  # the inflight file of the attempt before is not created again
    check_failed(path, rows)
    done = bool(committed(path) - before)
    if scenario.name != "cluster_schedule":
        assert done != raised, "an error says that nothing was committed"
    assert done or set(planned) <= set(pending(path)), "the plan stays"
    check_mended(scenario, path, rows)


@pytest.mark.parametrize("name", SERVICES)
def test_a_killed_clustering_is_mended_by_the_next(bench: Bench, name: str) -> None:
    scenario = CLUSTERINGS[name]
    rows = bench.new(scenario)
    for number, phase in sampled(bench.changes(scenario)):
        where = f"{name}, killed {phase.value} change {number}: {bench.changes(scenario)[number - 1]}"
        path = bench.table(scenario)
        assert bench.kill(scenario, path, number, phase) == -signal.SIGKILL, where
        try:
            check_failed(path, rows)
            check_mended(scenario, path, rows)
        except Exception as error:
            raise AssertionError(where) from error


def test_a_write_that_rolls_a_clustering_back_fails_at_every_change(bench: Bench) -> None:
    scenario = CLUSTERINGS["give_way"]
    for faults in cases(bench.changes(scenario), (Phase.BEFORE, False), (Phase.AFTER, True)):
        try:
            check_exception(bench, scenario, faults)
        except Exception as error:
            raise AssertionError(f"{scenario.name}, {faults}") from error


def test_a_killed_write_that_rolls_a_clustering_back_is_repeated(bench: Bench) -> None:
    scenario = CLUSTERINGS["give_way"]
    for number, phase in sampled(bench.changes(scenario)):
        where = f"killed {phase.value} change {number}: {bench.changes(scenario)[number - 1]}"
        path = bench.table(scenario)
        before = committed(path)
        assert bench.kill(scenario, path, number, phase) == -signal.SIGKILL, where
        try:
            scenario.again(path, bench.check_before_repair(scenario, path, before))
            bench.check_after_repair(scenario, path)
        except Exception as error:
            raise AssertionError(where) from error
