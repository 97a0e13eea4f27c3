"""Every pair of actors, with every fault, in every order: in parts, each of which the share may take."""

from __future__ import annotations

import pytest

from tests.model.explore import explore
from tests.model.sweep import scenarios

PARTS = 160
#: of one scenario: those with more states are seen in part, the shortest ways first
STATES = 10_000


@pytest.mark.full
@pytest.mark.parametrize("part", range(PARTS))
def test_the_rules_hold_for_every_pair(part: int) -> None:
    complete = 0
    for scenario in scenarios()[part::PARTS]:
        result = explore(scenario, STATES)
        assert not result.wrong, f"{scenario}: {result}"
        complete += result.complete
    assert complete > len(scenarios()) // PARTS // 2


def test_each_scenario_is_in_one_part() -> None:
    names = [scenario.name for scenario in scenarios()]
    assert len(set(names)) == len(names) == 3200
