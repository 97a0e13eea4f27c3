"""A write that fails at every one of its changes: readers see old or new rows, and the next run mends all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hoodie.timeline.plans import RollbackMetadata
from tests.crash.checks import committed
from tests.crash.conftest import Bench
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.support.faults import Change, Faults, InjectedFault, Phase

pytestmark = pytest.mark.crash


def cases(changes: list[Change], *kinds: tuple[Phase, bool]) -> Iterator[Faults]:
    """A failure at every change, for every (phase, once); a phase in the middle where there is one."""
    for number, change in enumerate(changes, 1):
        for phase, once in kinds:
            if phase is not Phase.DURING or change.splits:
                yield Faults(at=number, phase=phase, once=once)


def check_exception(bench: Bench, scenario: Scenario, faults: Faults) -> None:
    path = bench.table(scenario)
    before = committed(path)
    raised = True
    try:
        scenario.run(path, faults)
        raised = False
    except InjectedFault:
        pass
    assert faults.tripped
    done = bench.check_before_repair(scenario, path, before)
    assert done != raised, "an error says that nothing was committed"
    scenario.again(path, done)
    bench.check_after_repair(scenario, path)


def sweep(bench: Bench, name: str, *kinds: tuple[Phase, bool]) -> None:
    scenario = SCENARIOS[name]
    for faults in cases(bench.changes(scenario), *kinds):
        try:
            check_exception(bench, scenario, faults)
        except Exception as error:
            raise AssertionError(f"{name}, {faults}") from error


@pytest.mark.parametrize("once", [False, True], ids=["dead disk", "hiccup"])
def test_upsert_fails_at_every_change(bench: Bench, once: bool) -> None:
    sweep(bench, "upsert", *((phase, once) for phase in Phase))


@pytest.mark.parametrize(
    "name", ["first", "repair", "metadata_table", "empty", "insert", "bulk_insert", "direct", "once"]
)
def test_other_writes_fail_at_every_change(bench: Bench, name: str) -> None:
    sweep(bench, name, (Phase.BEFORE, False), (Phase.DURING, False), (Phase.AFTER, True))


@pytest.mark.parametrize("name", ["mor_upsert", "mor_first", "mor_repair", "mor_repair_shared", "mor_insert"])
def test_delta_commits_fail_at_every_change(bench: Bench, name: str) -> None:
    """They append to logs, pack into a file, make new ones, and roll back others that did."""
    sweep(bench, name, (Phase.BEFORE, False), (Phase.DURING, False), (Phase.AFTER, True))


def test_the_rollback_of_a_delta_commit_deletes_its_logs_and_voids_its_blocks_among_others(
    bench: Bench,
) -> None:
    """That is: the scenarios of the sweep do what they are for."""
    for name, commands in (("mor_repair", 0), ("mor_repair_shared", 1)):
        path = bench.table(SCENARIOS[name])
        result = SCENARIOS[name].run(path)
        assert len(result.rolled_back) == 1
        (done,) = path.glob(".hoodie/*.rollback")
        deleted = RollbackMetadata.from_bytes(done.read_bytes()).partitions["eu"].deleted
        assert [file for file in deleted if ".log." in file]
        assert len(list(path.glob("eu/.*.log.*_1-0-1"))) == commands
