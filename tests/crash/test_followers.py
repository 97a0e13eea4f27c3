"""Another job comes after one that failed: a writer, or `services run`, mends the table or waits."""

from __future__ import annotations

import contextlib
import re

import pytest

import hoodie
from hoodie.errors import TableError
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.crash.cases import Kind
from tests.crash.checks import committed, counted, hudi_rs_rows, leftovers, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import NO_ROWS, SCENARIOS, run
from tests.crash.services import SERVICES
from tests.crash.survival import Serviced, Undone, UndoSurvival
from tests.crash.undo import MANUAL, UNDO, upserted
from tests.support.faults import Phase
from tests.support.tiers import full_but

pytestmark = pytest.mark.crash

PUBLISHED = re.compile(r"\.(delta)?commit$")
COMPACT = {"hoodie.compact.inline.max.delta.commits": "100", "hoodie.index.bloom.num_entries": "100"}
tiers = pytest.mark.parametrize("rest", full_but({False}, [False, True]), ids=["classes", "all else"])


@tiers
@pytest.mark.parametrize("name", full_but({"mor_upsert"}, ["mor_upsert", "upsert", "execute"]))
def test_services_run_mends_what_a_kill_left(bench: Bench, name: str, rest: bool) -> None:
    """And `services plan` finds it before."""
    scenario = SCENARIOS[name]
    for case in bench.cases(scenario, Kind.KILL, rest):
        if case.phase is Phase.DURING and not PUBLISHED.search(case.change.path):
            continue
        path = bench.table(scenario)
        before = committed(path)
        bench.fail(scenario, path, case)
        rows = bench.new(scenario) if committed(path) - before else bench.old(scenario)
        told = hoodie.plan_services(str(path), options=COMPACT)
        stuck = [item["verdict"] for plan in told.services for item in plan.pending]
        assert "running" not in stuck, case
        assert bool(leftovers(path)) == bool(told.due), case
        result = hoodie.run_services(str(path), options=COMPACT)
        assert result.done == told.due, case
        assert result.failed == [], case
        assert leftovers(path) == [], case
        assert Timeline.load(str(path)).pending() == [], case
        assert our_rows(path) == rows == hudi_rs_rows(path), case
        assert hoodie.plan_services(str(path), options=COMPACT).due == [], case


@tiers
def test_a_writer_begins_after_a_killed_archiver_and_cleaner(bench: Bench, rest: bool) -> None:
    """It does not wait for them: what they left does not hinder it, and the next services finish."""
    scenario = SERVICES["clean_and_archive"]
    rows = bench.new(scenario)
    for case in bench.cases(scenario, Kind.KILL, rest):
        path = bench.table(scenario)
        bench.fail(scenario, path, case)
        assert run(path, NO_ROWS, options={**scenario.options, **MANUAL}).warnings == []
        assert our_rows(path) == rows, case
        scenario.again(path, False)
        assert Serviced.of(path).pending == (), case
        assert our_rows(path) == rows, case


@tiers
@pytest.mark.parametrize(
    "name",
    full_but(
        {"rollback_deltas", "rollback_compaction"},
        ["rollback_commit", "rollback_deltas", "rollback_compaction", "rollback_clustering"],
    ),
)
def test_a_writer_finishes_a_rollback(bench: Bench, name: str, rest: bool) -> None:
    """Once its plan is on the timeline; before, nothing has happened."""
    scenario = UNDO[name]
    after = bench.undisturbed(scenario, Undone.of)
    for case in bench.cases(scenario, Kind.DEAD_DISK, rest):
        path = bench.table(scenario)
        before = Undone.of(path)
        bench.fail(scenario, path, case)
        begun = bool(Timeline.load(str(path)).filter([Action.ROLLBACK]))
        run(path, NO_ROWS, options={**scenario.options, **MANUAL})
        wanted = scenario.states[-1] if begun else scenario.states[0]
        assert our_rows(path) == counted(upserted(*wanted)), case
        assert hudi_rs_rows(path) == our_rows(path), case
        assert Undone.of(path).files == (after if begun else before).files, case
        assert Timeline.load(str(path)).pending() == [], case


@tiers
@pytest.mark.parametrize("name", full_but({"restore_deltas"}, ["restore_commits", "restore_deltas"]))
def test_a_writer_waits_for_an_unfinished_restore(bench: Bench, name: str, rest: bool) -> None:
    scenario = UNDO[name]
    for case in bench.cases(scenario, Kind.DEAD_DISK, rest):
        path = bench.table(scenario)
        bench.fail(scenario, path, case)
        pending = Timeline.load(str(path)).filter([Action.RESTORE], completed=False)
        with pytest.raises(TableError, match="not finished") if pending else contextlib.nullcontext():
            run(path, NO_ROWS, options={**scenario.options, **MANUAL})
        if pending:
            UndoSurvival(bench, scenario, path).failed(None)
