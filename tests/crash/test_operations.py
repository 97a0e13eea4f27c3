"""Deletes and overwrites that fail at every change, or are killed."""

from __future__ import annotations

import signal

import pytest

from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.crash.checks import committed
from tests.crash.conftest import Bench
from tests.crash.operations import OPERATIONS
from tests.crash.test_kill import sampled
from tests.crash.test_sweep import sweep
from tests.support.faults import Phase

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "upsert_after_overwrite"])
def test_they_fail_at_every_change(bench: Bench, name: str) -> None:
    sweep(bench, name, (Phase.BEFORE, False), (Phase.DURING, False), (Phase.AFTER, True))


@pytest.mark.parametrize("name", ["mor_delete", "insert_overwrite_table", "delete_partition"])
def test_the_next_run_repairs_what_a_killed_one_left(bench: Bench, name: str) -> None:
    scenario = OPERATIONS[name]
    for number, phase in sampled(bench.changes(scenario)):
        where = f"{name}, killed {phase.value} change {number}: {bench.changes(scenario)[number - 1]}"
        path = bench.table(scenario)
        before = committed(path)
        assert bench.kill(scenario, path, number, phase) == -signal.SIGKILL, where
        try:
            done = bench.check_before_repair(scenario, path, before)
            scenario.again(path, done)
            bench.check_after_repair(scenario, path)
        except Exception as error:
            raise AssertionError(where) from error


def test_a_pending_overwrite_is_a_failed_write(bench: Bench) -> None:
    """Unlike a pending clustering, which is a replacecommit, too."""
    scenario = OPERATIONS["upsert_after_overwrite"]
    path = bench.table(scenario)
    (pending,) = Timeline.load(str(path)).pending()
    assert pending.action is Action.REPLACECOMMIT
    assert scenario.run(path).rolled_back == [pending.time]
