"""Processes killed in the middle of a write: at every fourth change, and at those of instants."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from tests.crash.checks import committed
from tests.crash.conftest import Bench
from tests.crash.scenarios import SCENARIOS
from tests.support.faults import Change, Phase

pytestmark = pytest.mark.crash

#: instants, heartbeats, properties
STATE = re.compile(r"/\.hoodie/(\.heartbeat/)?(\d+(\.[a-z.]+)?|hoodie\.properties(\.backup)?)$")


def sampled(changes: list[Change]) -> Iterator[tuple[int, Phase]]:
    for number, change in enumerate(changes, 1):
        if number % 4 == 0 or number == len(changes) or STATE.search(change.path):
            yield number, Phase.BEFORE
            if change.splits:
                yield number, Phase.DURING


@pytest.mark.parametrize(
    "name",
    ["upsert", "waiting_upsert", "first", "repair", "metadata_table", "mor_upsert", "mor_repair_shared"],
)
def test_killed_writer_is_repaired_by_the_next(bench: Bench, name: str) -> None:
    scenario = SCENARIOS[name]
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
