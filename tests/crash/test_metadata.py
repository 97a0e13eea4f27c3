"""The metadata table of a table whose writes and services fail: at any moment readers of either see the same
files, and the next run leaves nothing else listed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from hoodie.errors import TableNotFound
from hoodie.timeline.active import Timeline
from tests.crash.cases import Case, Kind, every
from tests.crash.conftest import Bench
from tests.crash.metadata import KEPT, METADATA, MOR_KEPT
from tests.crash.scenarios import CHANGES, NO_ROWS, SCENARIOS, run
from tests.crash.survival import survival
from tests.crash.worker import Worker, answer
from tests.support.faults import Phase, wait_for
from tests.support.metadata import disagreements, has_metadata_table, misled

pytestmark = pytest.mark.crash

SWEPT = [
    pytest.param(name, kind, rest, id=f"{name}-{kind.value}{'-all else' * rest}")
    for name in METADATA
    for kind in Kind
    for rest in (False, True)
]


def sweep(bench: Bench, name: str, cases: Iterable[Case]) -> None:
    scenario = SCENARIOS[name]
    for case in cases:
        path = bench.table(scenario)
        try:
            check = survival(bench, scenario, path)
            failed = bench.fail(scenario, path, case)
            with contextlib.suppress(TableNotFound):
                assert misled(path) == []
            check.failed(failed)
            check.mended()
            assert disagreements(path) == []
            run(path, NO_ROWS, options=scenario.options)
            assert has_metadata_table(path)
            assert disagreements(path) == []
            assert Timeline.load(f"{path}/.hoodie/metadata").pending() == []
        except Exception as error:
            raise AssertionError(f"{name}, {case}") from error


def test_a_kill_between_the_two_commits(bench: Bench) -> None:
    """And one before the first of them."""
    scenario = METADATA["kept_upsert"]
    places = {
        bench.place(scenario, "create", ".deltacommit"),  # of the metadata table
        bench.place(scenario, "create", ".commit"),
    }
    cases = every(bench.changes(scenario), Kind.KILL, thorough=False)
    picked = [case for case in cases if case.number in places and case.phase is Phase.BEFORE]
    assert len(picked) == 2
    sweep(bench, scenario.name, picked)


@pytest.mark.full
@pytest.mark.parametrize(("name", "kind", "rest"), SWEPT)
def test_it_agrees_with_the_folders(bench: Bench, name: str, kind: Kind, rest: bool) -> None:
    """A failure of each class, or all else."""
    sweep(bench, name, bench.cases(METADATA[name], kind, rest=rest))


@pytest.mark.full
def test_a_clean_and_a_write_at_once(bench: Bench, worker: Worker, tmp_path: Path) -> None:
    """The clean waits at each of its steps in the metadata table until the write has made its own."""
    scenario = METADATA["kept_clean"]
    steps = [n for n, item in enumerate(bench.changes(scenario), 1) if "/.hoodie/metadata/" in item.path]
    assert steps
    for number in steps:
        path, pause = bench.table(scenario), tmp_path / str(number)
        pid = worker.start(scenario, path, number, Phase.BEFORE, pause)
        wait_for(pause / "holding")
        run(path, CHANGES, options=KEPT)
        (pause / "go").touch()
        assert worker.wait(pid) == 0, (number, answer(pause))
        assert disagreements(path) == [], number
        assert Timeline.load(f"{path}/.hoodie/metadata").pending() == []
        run(path, NO_ROWS, options=KEPT)
        assert disagreements(path) == [], number


@pytest.mark.full
def test_a_compaction_and_writes_at_once(bench: Bench, worker: Worker, tmp_path: Path) -> None:
    """The writes would compact the metadata table, which they leave until nothing is pending."""
    scenario = METADATA["kept_compaction"]
    steps = [n for n, item in enumerate(bench.changes(scenario), 1) if "/.hoodie/metadata/" in item.path]
    for number in (steps[0], steps[len(steps) // 2], steps[-1]):
        path, pause = bench.table(scenario), tmp_path / str(number)
        pid = worker.start(scenario, path, number, Phase.BEFORE, pause)
        wait_for(pause / "holding")
        for _ in range(12):
            run(path, NO_ROWS, options=MOR_KEPT)
        run(path, CHANGES, options=MOR_KEPT)
        (pause / "go").touch()
        assert worker.wait(pid) == 0, (number, answer(pause))
        assert disagreements(path) == [], number
        run(path, NO_ROWS, options=MOR_KEPT)
        assert disagreements(path) == [], number
