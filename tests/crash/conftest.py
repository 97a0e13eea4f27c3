"""Tables that the crash tests begin with, each made once."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from hoodie.config.versions import EARLIEST
from hoodie.table import properties
from tests.crash.cases import Case, Kind, chosen, every, step
from tests.crash.checks import Rows, committed, counted, hudi_rs_rows, leftovers, our_rows
from tests.crash.scenarios import SCENARIOS, Make, Scenario, copy_table
from tests.crash.worker import Worker
from tests.support.faults import Change, Faults, InjectedFault, Phase
from tests.support.later_tables import new_tables_of

T = TypeVar("T")
#: modules whose tests run on tables of version 9, too
ON_LATER_TABLES = ("test_attempts", "test_compaction", "test_metadata", "test_writers")
_UNDISTURBED = "undisturbed"
_GOLDEN = {EARLIEST.number: ("golden_tables", "0.15.0-v6")}


class Bench:
    """Makes tables for cases; a Kit for scenarios."""

    def __init__(
        self, root: Path, worker: Worker, request: pytest.FixtureRequest, version: int = EARLIEST.number
    ) -> None:
        self.version = version
        self._root = root
        self.worker = worker
        self._request = request
        self._made: dict[Make, Path] = {}
        self._changes: dict[str, list[Change]] = {}
        self._left: dict[str, object] = {}
        self._new: dict[str, Rows] = {}

    def golden(self, name: str) -> Path:
        fixture, made_by = _GOLDEN.get(self.version, ("later_tables", f"1.2.0-v{self.version}"))
        folder: Path = self._request.getfixturevalue(fixture)
        return folder / made_by / name

    def kill(self, scenario: Scenario, path: str | Path, at: int, phase: Phase = Phase.BEFORE) -> int:
        return self.worker.kill(scenario, path, at, phase)

    def table(self, scenario: Scenario) -> Path:
        """A fresh table for one case, at a path of its own; the one before is gone."""
        return self._table(scenario, scenario.name)

    def _table(self, scenario: Scenario, name: str) -> Path:
        path = self._root / name
        shutil.rmtree(path, ignore_errors=True)
        if scenario.make is not None:
            if scenario.make not in self._made:
                template = self._root / f"made-{scenario.make.__module__}.{scenario.make.__name__}"
                scenario.make(self, template)
                self._made[scenario.make] = template
            copy_table(self._made[scenario.make], path)
        return path

    def old(self, scenario: Scenario) -> Rows | None:
        """Rows before the write; None: there is no table."""
        rows = scenario.old(self)
        return None if rows is None else counted(rows)

    def new(self, scenario: Scenario) -> Rows:
        """Rows after the write, from the oracle."""
        if scenario.name not in self._new:
            self._new[scenario.name] = counted(scenario.new(self))
        return self._new[scenario.name]

    def changes(self, scenario: Scenario) -> list[Change]:
        """What an undisturbed run changes, in order."""
        if scenario.name not in self._changes:
            faults = Faults()
            scenario.run(self._table(scenario, _UNDISTURBED), faults)
            self._changes[scenario.name] = faults.log
        return self._changes[scenario.name]

    def undisturbed(self, scenario: Scenario, left: Callable[[Path], T]) -> T:
        """What an undisturbed run leaves."""
        if scenario.name not in self._left:
            path = self._table(scenario, _UNDISTURBED)
            before = left(path)
            scenario.run(path)
            self._left[scenario.name] = left(path)
            assert self._left[scenario.name] != before, "there was something to do"
        return self._left[scenario.name]  # type: ignore[return-value]

    def cases(self, scenario: Scenario, kind: Kind, rest: bool) -> list[Case]:
        """Failures of this kind that stand for all, or all the others."""
        picked = chosen(self._steps(scenario), [self._steps(SCENARIOS[name]) for name in scenario.like], kind)
        few = [
            case
            for case in every(self.changes(scenario), kind, thorough=False)
            if (case.number, case.phase) in picked
        ]
        if not rest:
            return few
        return [case for case in every(self.changes(scenario), kind, scenario.thorough) if case not in few]

    def _steps(self, scenario: Scenario) -> list[str]:
        return [step(change, str(self._root / _UNDISTURBED)) for change in self.changes(scenario)]

    def fail(self, scenario: Scenario, path: Path, case: Case) -> bool | None:
        """Run it until it fails; did it say so? None: it was killed."""
        if case.kind is Kind.KILL:
            assert self.kill(scenario, path, case.number, case.phase) == -signal.SIGKILL
            return None
        faults, raised = case.faults(), True
        try:
            scenario.run(path, faults)
            raised = False
        except InjectedFault:
            pass
        # an inflight file of an earlier attempt is not created again, so nothing fails after that
        assert faults.tripped or (case.phase is Phase.AFTER and case.change.path.endswith(".inflight"))
        return raised

    def place(self, scenario: Scenario, name: str, ending: str | tuple[str, ...]) -> int:
        """Number of the first change of this name whose path ends so."""
        numbers = enumerate(self.changes(scenario), 1)
        return next(n for n, change in numbers if change.name == name and change.path.endswith(ending))

    def check_before_repair(self, scenario: Scenario, path: Path, before: frozenset[str]) -> bool:
        """Readers see all or nothing of a write that failed; gives whether it was committed."""
        done = bool(committed(path) - before)
        expected = self.new(scenario) if done else self.old(scenario)
        ours = our_rows(path)
        if expected is None:
            assert not ours
            return done
        assert ours == expected, "our reader"
        assert hudi_rs_rows(path) == expected, "hudi-rs"
        return done

    def check_after_repair(self, scenario: Scenario, path: Path) -> None:
        """The write is there once, and nothing else."""
        assert leftovers(path) == []
        expected = self.new(scenario)
        assert our_rows(path) == expected, "our reader"
        assert hudi_rs_rows(path) == expected, "hudi-rs"


@pytest.fixture(scope="session")
def _benches(memory_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[int], Bench]]:
    made: dict[int, Bench] = {}
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # no process is making the tables that are cut off here
        patch.setitem(properties.load.__kwdefaults__ or {}, "pause_s", 0.001)

        def bench_of(version: int) -> Bench:
            if version not in made:
                root = memory_path / f"version-{version}"
                root.mkdir()
                worker = stack.enter_context(Worker(version=version))
                made[version] = Bench(root, worker, request, version)
            return made[version]

        yield bench_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of these modules run on tables of version 9, too."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if "version" in metafunc.fixturenames and module in ON_LATER_TABLES:
        numbers = (9, 8) if module == "test_metadata" else (9,)
        later = [pytest.param(number, marks=pytest.mark.full) for number in numbers]
        ids = [f"version {number}" for number in (EARLIEST.number, *numbers)]
        metafunc.parametrize("version", [EARLIEST.number, *later], ids=ids)


@pytest.fixture
def version() -> int:
    """Of new tables; tests may be parametrized with it."""
    return EARLIEST.number


@pytest.fixture
def bench(_benches: Callable[[int], Bench], version: int) -> Iterator[Bench]:
    with new_tables_of(version):
        yield _benches(version)


@pytest.fixture
def worker(bench: Bench) -> Worker:
    return bench.worker
