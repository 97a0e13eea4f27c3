"""What killed jobs leave is found by `services plan` and mended by `services run`, without a write."""

from __future__ import annotations

import signal

import pytest

import hoodie
from hoodie.timeline.active import Timeline
from tests.crash.checks import committed, hudi_rs_rows, leftovers, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import SCENARIOS
from tests.support.faults import Phase

pytestmark = pytest.mark.crash

COMPACT = {"hoodie.compact.inline.max.delta.commits": "100", "hoodie.index.bloom.num_entries": "100"}


@pytest.mark.parametrize("name", ["mor_upsert", "upsert", "execute"])
def test_a_run_mends_what_a_kill_left(bench: Bench, name: str) -> None:
    scenario = SCENARIOS[name]
    changes = bench.changes(scenario)
    for number in range(1, len(changes) + 1, 5):
        where = f"{name}, killed before change {number}: {changes[number - 1]}"
        path = bench.table(scenario)
        before = committed(path)
        assert bench.kill(scenario, path, number, Phase.BEFORE) == -signal.SIGKILL, where
        rows = bench.new(scenario) if committed(path) - before else bench.old(scenario)
        told = hoodie.plan_services(str(path), options=COMPACT)
        stuck = [item["verdict"] for plan in told.services for item in plan.pending]
        assert "running" not in stuck, where
        assert bool(leftovers(path)) == bool(told.due), where
        result = hoodie.run_services(str(path), options=COMPACT)
        assert result.done == told.due, where
        assert result.failed == [], where
        assert leftovers(path) == [], where
        assert Timeline.load(str(path)).pending() == [], where
        assert our_rows(path) == rows == hudi_rs_rows(path), where
        assert hoodie.plan_services(str(path), options=COMPACT).due == [], where
