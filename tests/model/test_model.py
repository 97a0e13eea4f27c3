"""Random steps, a fifth of them made to fail, on a table beside a model of it. The long form is
`python -m tests.model --steps 2000 --seed N`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.timeline.active import Timeline
from tests.model.machine import Difference, Machine
from tests.model.steps import KINDS
from tests.model.world import Version

STEPS = 150


@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize("merge_on_read", [False, True], ids=["cow", "mor"])
def test_a_table_and_its_model_agree_after_every_step(memory_path: Path, merge_on_read: bool) -> None:
    machine = Machine(memory_path / f"model-{merge_on_read}", seed=7, merge_on_read=merge_on_read)
    machine.run(STEPS)
    counts = machine.counts
    assert counts["thorough checks"] == STEPS // machine.thorough
    assert counts["looks at the past"] > STEPS // machine.thorough
    kinds = {name for name, kind in KINDS.items() if merge_on_read or not kind.merge_on_read}
    assert len(kinds - counts.keys()) <= 2, "most kinds of steps were drawn"
    assert sum(count for name, count in counts.items() if name.endswith(" met")) > STEPS // 20
    refused = sum(count for name, count in counts.items() if name.endswith(" refused"))
    assert refused < STEPS // 6, "most steps are taken"


@pytest.mark.full
@pytest.mark.crash
@pytest.mark.parametrize("merge_on_read", [False, True], ids=["cow", "mor"])
def test_the_metadata_table_agrees_after_every_step(memory_path: Path, merge_on_read: bool) -> None:
    machine = Machine(memory_path / f"kept-{merge_on_read}", seed=8, merge_on_read=merge_on_read, kept=True)
    machine.run(STEPS // 2)
    assert machine.counts["tables with a metadata table"] > STEPS // 5


def test_a_difference_is_told_with_the_steps_that_lead_to_it(memory_path: Path) -> None:
    machine = Machine(memory_path / "told", seed=3, crash_rate=0)
    machine.run(2)
    newest = machine.world.versions[-1]
    machine.world.versions[-1] = Version(newest.instant, newest.rows[1:])
    with pytest.raises(Difference, match=r"our reader: \d rows? too many") as told:
        machine.run(1)
    text = str(told.value)
    assert "python -m tests.model --type cow --seed 3 --steps 3" in text
    assert text.splitlines()[-3].startswith("  1 upsert ")
    assert len(Timeline.load(str(machine.path)).commits()) >= 2


@pytest.mark.full
@pytest.mark.crash
@pytest.mark.parametrize("merge_on_read", [False, True], ids=["cow", "mor"])
def test_change_logs_stay_as_long_as_their_files(memory_path: Path, merge_on_read: bool) -> None:
    machine = Machine(memory_path / f"logs-{merge_on_read}", 10, merge_on_read, kept=True, changes=True)
    machine.run(STEPS // 2)
    assert machine.counts["change logs"] > STEPS
