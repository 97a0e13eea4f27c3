"""Cleans and archive runs that fail or are killed at every change: no row ever changes, and the next run
leaves what an undisturbed one leaves.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

import hoodie
from hoodie.storage.local import TMP_SUFFIX, LocalStorage
from hoodie.table.partition import PARTITION_FILE
from hoodie.timeline.active import Timeline
from hoodie.timeline.archived import archive_files, archive_folder, read_archived, read_file
from hoodie.timeline.clean_plan import CleanMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action
from tests.crash.checks import Rows, hudi_rs_rows, our_rows
from tests.crash.conftest import Bench
from tests.crash.scenarios import NO_ROWS, Scenario, run
from tests.crash.services import MANUAL, SERVICES
from tests.crash.test_sweep import cases
from tests.support.faults import Faults, InjectedFault, Phase

pytestmark = pytest.mark.crash

STORAGE = LocalStorage()


@dataclass(frozen=True)
class Left:
    """What does not depend on the time of a run."""

    files: frozenset[str]
    active: tuple[str, ...]
    archived: tuple[str, ...]
    pending: tuple[str, ...]
    aux: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Left:
        timeline = Timeline.load(str(path))
        files = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            if ".hoodie" not in Path(folder).parts
            for name in names
        ]
        entries = read_archived(STORAGE, archive_folder(str(path)))
        return cls(
            # the folder of an empty partition may stay where it could not be deleted
            frozenset(os.path.relpath(file, path) for file in files if PARTITION_FILE not in file),
            tuple(instant.time for instant in timeline.commits()),
            tuple(str(item.instant) for item in entries if item.instant.comparable_action in COMMIT_ACTIONS),
            tuple(str(instant) for instant in timeline.pending()),
            tuple(sorted(item.name for item in STORAGE.list(f"{path}/.hoodie/.aux") if not item.is_dir)),
        )


@pytest.fixture(scope="module")
def undisturbed(bench: Bench) -> dict[str, Left]:
    left: dict[str, Left] = {}
    for name, scenario in SERVICES.items():
        path = bench.table(scenario)
        before = Left.of(path)
        scenario.run(path)
        left[name] = Left.of(path)
        assert left[name] != before, "there was something to do"
        assert left[name].pending == ()
    return left


def history(path: Path) -> list[str]:
    """Completed commits, wherever they are."""
    left = Left.of(path)
    archived = [text.split()[0] for text in left.archived if text.endswith("completed")]
    return sorted({*left.active, *archived})


def check_failed(path: Path, rows: Rows, every: list[str]) -> None:
    """Readers see all rows; no commit is lost; the active timeline has no hole."""
    assert our_rows(path) == rows
    assert hudi_rs_rows(path) == rows
    assert history(path) == every
    active = Left.of(path).active
    assert list(active) == every[len(every) - len(active) :]
    for time in active[-1:]:
        assert hoodie.read_table(str(path), as_of=time).num_rows == rows.total()


def check_mended(scenario: Scenario, path: Path, rows: Rows, every: list[str], expected: Left) -> None:
    scenario.again(path, False)
    scenario.again(path, False)  # after a hiccup in the first one's last step
    check_failed(path, rows, every)
    left = Left.of(path)
    assert (left.files, left.active, left.pending) == (expected.files, expected.active, ())
    assert left.aux == expected.aux
    assert set(left.archived) == set(expected.archived)
    assert len(set(left.archived)) == len(left.archived)
    for clean in Timeline.load(str(path)).filter([Action.CLEAN], completed=True)[-1:]:
        done = CleanMetadata.from_bytes(Timeline.load(str(path)).read(clean))
        assert not any(item.failed for item in done.partitions.values())
    run(path, NO_ROWS, options={**scenario.options, **MANUAL})
    litter = [
        *path.glob(".hoodie/.temp/*"),
        *path.glob(".hoodie/.heartbeat/*"),
        *path.rglob(f"*{TMP_SUFFIX}"),
    ]
    assert litter == []
    assert our_rows(path) == rows


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_fails_at_every_change(bench: Bench, undisturbed: dict[str, Left], name: str) -> None:
    scenario = SERVICES[name]
    rows = bench.new(scenario)
    kinds = [(Phase.BEFORE, False), (Phase.AFTER, True)]
    if name != "mor_services":  # which has as many files again, and nothing else
        kinds += [(Phase.BEFORE, True), (Phase.DURING, False)]
    for faults in cases(bench.changes(scenario), *kinds):
        path = bench.table(scenario)
        every = history(path)
        try:
            with contextlib.suppress(InjectedFault):
                scenario.run(path, faults)
            assert faults.tripped
            check_failed(path, rows, every)
            check_mended(scenario, path, rows, every, undisturbed[name])
        except Exception as error:
            raise AssertionError(f"{name}, {faults}") from error


@pytest.mark.parametrize("name", SERVICES)
def test_a_killed_service_is_finished_by_the_next(
    bench: Bench, undisturbed: dict[str, Left], name: str
) -> None:
    scenario = SERVICES[name]
    rows = bench.new(scenario)
    changes = bench.changes(scenario)
    for number, change in enumerate(changes, 1):
        if number % 3 and change.name == "delete":
            continue
        for phase in (Phase.BEFORE, Phase.DURING) if change.splits else (Phase.BEFORE,):
            where = f"{name}, killed {phase.value} change {number}: {change}"
            path = bench.table(scenario)
            every = history(path)
            assert bench.kill(scenario, path, number, phase) == -signal.SIGKILL, where
            try:
                check_failed(path, rows, every)
                check_mended(scenario, path, rows, every, undisturbed[name])
            except Exception as error:
                raise AssertionError(where) from error


def test_no_instant_is_twice_in_the_archive_after_a_failure(bench: Bench) -> None:
    scenario = SERVICES["clean_and_archive"]
    changes = bench.changes(scenario)
    first = next(n for n, change in enumerate(changes, 1) if ".archive.1_" in change.path)
    for at in range(first, len(changes) + 1):
        path = bench.table(scenario)
        with contextlib.suppress(InjectedFault):
            scenario.run(path, Faults(at=at, phase=Phase.AFTER))
        scenario.again(path, False)
        folder = archive_folder(str(path))
        found = [
            entry.instant
            for item in archive_files(STORAGE, folder)
            for entry in read_file(STORAGE, item.path)
        ]
        assert len(found) == len(set(found)), at


def test_a_writer_begins_after_a_killed_archiver_and_cleaner(bench: Bench) -> None:
    """It does not wait for them: what they left does not hinder it, and the next services finish."""
    scenario = SERVICES["clean_and_archive"]
    rows = bench.new(scenario)
    for number in range(1, len(bench.changes(scenario)) + 1, 5):
        path = bench.table(scenario)
        assert bench.kill(scenario, path, number) == -signal.SIGKILL
        assert run(path, NO_ROWS, options={**scenario.options, **MANUAL}).warnings == []
        assert our_rows(path) == rows
        scenario.again(path, False)
        assert Left.of(path).pending == ()
        assert our_rows(path) == rows
