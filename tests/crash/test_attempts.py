"""Attempts of tasks that nobody reports: retried, speculative, late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from hoodie.engine.local import LocalEngine, LocalFrame
from hoodie.engine.task import BatchFunction, Task
from hoodie.pipeline import write
from hoodie.write.blobs import ERROR
from hoodie.write.files.write_task import WriteFileGroups
from hoodie.write.operation import WriteRequest
from tests.crash.checks import hudi_rs_rows, leftovers, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.support.faults import Change, Faults, injected
from tests.support.tables import SMALL_SCHEMA, as_table
from tests.support.tiers import full_but

pytestmark = pytest.mark.crash

OTHERS = 1000
T = TypeVar("T")


class Speculative(LocalEngine):
    """Every writing task runs twice; the first answer is lost, wholly or after the first file group."""

    def __init__(self, *, whole: bool) -> None:
        super().__init__(1)
        self.whole = whole
        self.late: list[tuple[WriteFileGroups, list[pa.RecordBatch], Task]] = []
        self.lost: set[str] = set()

    def map_batches(self, frame: LocalFrame, function: BatchFunction, schema: pa.Schema) -> LocalFrame:
        if not isinstance(function, WriteFileGroups):
            made: LocalFrame = super().map_batches(frame, function, schema)
            return made

        def twice(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
            held = list(batches)
            other = Task(task.partition, task.stage, task.attempt + OTHERS)
            self.lost.add(other.token)
            for _ in function(iter(held), other):
                if not self.whole:
                    break
            self.late.append((function, held, Task(task.partition, task.stage, task.attempt + 2 * OTHERS)))
            yield from function(iter(held), task)

        doubled: LocalFrame = super().map_batches(frame, twice, schema)
        return doubled


def run(
    scenario: Scenario, path: Path, engine: Speculative, last: Callable[[Change], bool] | None = None
) -> None:
    """`last`: the disk is dead after this change."""
    faults = DiesAfter(last) if last else Faults()
    with injected(faults):
        rows = engine.frame(as_table(scenario.rows, SMALL_SCHEMA))
        write(engine, rows, WriteRequest(str(path), scenario.operation, scenario.options, {}))
    assert last is None or faults.tripped


class DiesAfter(Faults):
    def __init__(self, last: Callable[[Change], bool]) -> None:
        super().__init__()
        self._last = last

    def run(self, name: str, path: str, call: Callable[[], T], half: Callable[[], None] | None = None) -> T:
        result = super().run(name, path, call, half)
        self.tripped |= self._last(self.log[-1])
        return result


@pytest.mark.parametrize(
    ("whole", "name"),
    [
        (True, "mor_upsert"),
        (False, "upsert"),
        pytest.param(True, "upsert", marks=pytest.mark.full),
        pytest.param(False, "mor_upsert", marks=pytest.mark.full),
    ],
)
def test_files_of_lost_attempts_are_deleted_at_commit(bench: Bench, whole: bool, name: str) -> None:
    scenario = SCENARIOS[name]
    path = bench.table(scenario)
    seen: set[str] = set()
    logs: set[str] = set()

    class Watched(Speculative):
        def collect(self, frame: LocalFrame) -> list[dict[str, object]]:
            answers = super().collect(frame)
            seen.update(file.name.split("_")[1] for file in path.glob("*/*.parquet"))
            logs.update(file.name.split("_")[-1] for file in path.glob("*/.*.log.*"))
            return answers

    engine = Watched(whole=whole)
    run(scenario, path, engine)
    assert engine.lost <= seen | logs, "the lost attempts did write"
    assert bool(engine.lost & logs) == (name == "mor_upsert")
    bench.check_after_repair(scenario, path)


@pytest.mark.parametrize("name", full_but({"mor_upsert"}, ["upsert", "mor_upsert"]))
def test_files_of_lost_attempts_are_gone_when_the_commit_is_seen(bench: Bench, name: str) -> None:
    """The disk is dead after the publishing."""
    scenario = SCENARIOS[name]
    path = bench.table(scenario)

    def publishes(change: Change) -> bool:
        return change.path.endswith((".commit", ".deltacommit"))

    run(scenario, path, Speculative(whole=True), publishes)
    assert our_rows(path) == hudi_rs_rows(path) == bench.new(scenario)


@pytest.mark.parametrize("name", full_but({"mor_upsert"}, ["upsert", "mor_upsert"]))
def test_attempt_that_starts_after_the_commit_writes_nothing(bench: Bench, name: str) -> None:
    scenario = SCENARIOS[name]
    path = bench.table(scenario)
    engine = Speculative(whole=False)
    run(scenario, path, engine)
    assert engine.late
    for function, batches, task in engine.late:
        (answer,) = function(iter(batches), task)
        assert answer.column("kind").to_pylist() == [ERROR]
        assert b'"fenced"' in answer.column("payload")[0].as_py()
    assert leftovers(path) == []
    bench.check_after_repair(scenario, path)
