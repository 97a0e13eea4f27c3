"""What must hold for a table when a scenario failed on it, and when the next run has mended that."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import pyarrow.parquet as pq

import hoodie
from hoodie.metadata.state import begun_indexes
from hoodie.services.clean.policy import Examined
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.partition import PARTITION_FILE
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.log_archive import read_file
from hoodie.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.models.clean import CleanMetadata
from tests.crash.checks import Rows, committed, counted, hudi_rs_rows, leftovers, litter, our_rows
from tests.crash.clustering import Clustering
from tests.crash.conftest import Bench
from tests.crash.metadata import Indexing
from tests.crash.scenarios import NO_ROWS, Compaction, LogCompaction, Scenario, Withdrawn, run
from tests.crash.services import Noted, Service
from tests.crash.undo import MANUAL, Undo, upserted

STORAGE = LocalStorage()
S = TypeVar("S", bound=Scenario)


class Survival(Generic[S]):
    """Of one run: made before it, asked once it failed, and again to mend the table.

    Of a write readers see all or nothing, and an error says that nothing was committed.
    """

    def __init__(self, bench: Bench, scenario: S, path: Path) -> None:
        self.bench = bench
        self.scenario = scenario
        self.path = path
        self.before = committed(path)
        self.done = False

    @property
    def rows(self) -> Rows:
        return self.bench.new(self.scenario)

    def failed(self, raised: bool | None) -> None:
        """`raised`: whether an error said so; None: the process was killed."""
        self.done = self.bench.check_before_repair(self.scenario, self.path, self.before)
        assert raised is None or self.done != raised, "an error says that nothing was committed"

    def mended(self) -> None:
        self.scenario.again(self.path, self.done)
        self.bench.check_after_repair(self.scenario, self.path)


class WithdrawnSurvival(Survival[Withdrawn]):
    """Of a write that is withdrawn: readers never see anything of it."""

    def failed(self, raised: bool | None) -> None:
        assert not self.bench.check_before_repair(self.scenario, self.path, self.before)

    def mended(self) -> None:
        self.scenario.again(self.path, False)
        self.bench.check_after_repair(self.scenario, self.path)


class PlanSurvival(Survival[S]):
    """Of compactions and clusterings: no row changes, and the plan stays until it was executed."""

    action: ClassVar[Action]

    def __init__(self, bench: Bench, scenario: S, path: Path) -> None:
        super().__init__(bench, scenario, path)
        self.planned = self.pending()

    def pending(self) -> set[str]:
        timeline = Timeline.load(str(self.path))
        replaces = self.action is Action.REPLACECOMMIT
        action = timeline.layout.clustering if replaces else self.action
        found = timeline.filter([action], completed=False)
        return {str(instant.time) for instant in found}

    def failed(self, raised: bool | None) -> None:
        self.check_rows()
        self.done = bool(committed(self.path) - self.before)
        if raised is not None and self.scenario.mode != "schedule":  # type: ignore[attr-defined]
            assert self.done != raised, "an error says that nothing was committed"
        assert self.done or self.planned <= self.pending(), "the plan stays"

    def mended(self) -> None:
        self.scenario.again(self.path, False)
        assert self.pending() == set()
        run(self.path, NO_ROWS, options=self.scenario.options)
        assert leftovers(self.path) == []
        self.check_rows()

    def check_rows(self) -> None:
        assert our_rows(self.path) == self.rows
        # hudi-rs has no notion of a pending compaction
        if self.action is not Action.COMPACTION or not self.pending():
            assert hudi_rs_rows(self.path) == self.rows


class CompactionSurvival(PlanSurvival[Compaction]):
    action = Action.COMPACTION

    def mended(self) -> None:
        super().mended()
        optimized = hoodie.read_table(str(self.path), query="read_optimized")
        assert optimized.num_rows == self.rows.total(), "nothing is left in logs"


class LogCompactionSurvival(PlanSurvival[LogCompaction]):
    action = Action.LOGCOMPACTION


class ClusteringSurvival(PlanSurvival[Clustering]):
    action = Action.REPLACECOMMIT


@dataclass(frozen=True)
class Serviced:
    """What does not depend on the time of a run."""

    files: frozenset[str]
    active: tuple[str, ...]
    archived: tuple[str, ...]
    pending: tuple[str, ...]
    aux: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Serviced:
        timeline = Timeline.load(str(path))
        files = [
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            if ".hoodie" not in Path(folder).parts
            for name in names
        ]
        archive = Table.open(str(path)).archive
        archived = [entry.instant for entry in archive.entries()]
        return cls(
            # the folder of an empty partition may stay where it could not be deleted
            frozenset(os.path.relpath(file, path) for file in files if PARTITION_FILE not in file),
            tuple(instant.time for instant in timeline.commits()),
            tuple(str(item) for item in archived if item.comparable_action in COMMIT_ACTIONS),
            tuple(str(instant) for instant in timeline.pending()),
            tuple(
                sorted(
                    item.name
                    for item in STORAGE.list(f"{path}/.hoodie/.aux")
                    # times of completion that a killed run agreed on stay until the instant is archived
                    if not item.is_dir and not ((found := ONE.parse(item.name)) and found.completed)
                )
            ),
        )

    @property
    def commits(self) -> list[str]:
        """Completed ones, wherever they are."""
        archived = [text.split()[0] for text in self.archived if text.endswith("completed")]
        return sorted({*map(str, self.active), *archived})


class ServiceSurvival(Survival[Service]):
    """Of cleans and archive runs: no row and no commit is ever lost, the active timeline has no hole, and the
    next run leaves what an undisturbed one leaves.
    """

    def __init__(self, bench: Bench, scenario: Service, path: Path) -> None:
        super().__init__(bench, scenario, path)
        self.commits = Serviced.of(path).commits

    def failed(self, raised: bool | None) -> None:
        assert our_rows(self.path) == self.rows
        assert hudi_rs_rows(self.path) == self.rows
        left = Serviced.of(self.path)
        assert left.commits == self.commits
        assert list(left.active) == self.commits[len(self.commits) - len(left.active) :]
        newest = hoodie.read_table(str(self.path), as_of=left.active[-1])
        assert newest.num_rows == self.rows.total()

    def mended(self) -> None:
        expected = self.bench.undisturbed(self.scenario, Serviced.of)
        assert expected.pending == ()
        self.scenario.again(self.path, False)
        self.check_archive()
        self.scenario.again(self.path, False)  # after a hiccup in the first one's last step
        self.failed(None)
        left = Serviced.of(self.path)
        assert (left.files, left.active, left.pending) == (expected.files, expected.active, ())
        assert left.aux == expected.aux
        assert set(left.archived) == set(expected.archived)
        assert len(set(left.archived)) == len(left.archived)
        timeline = Timeline.load(str(self.path))
        for clean in timeline.filter([Action.CLEAN], completed=True)[-1:]:
            done = CleanMetadata.from_bytes(timeline.read(clean, STORAGE))
            assert not any(item.failed for item in done.partitions.values())
        run(self.path, NO_ROWS, options={**self.scenario.options, **MANUAL})
        assert litter(self.path) == []
        assert our_rows(self.path) == self.rows

    def check_archive(self) -> None:
        """No instant is there twice."""
        table = Table.open(str(self.path))
        paths = [item.path for item in table.archive.files()]
        if table.layout is ONE:
            found = [str(entry.instant) for path in paths for entry in read_file(STORAGE, path)]
        else:
            read = [pq.read_table(path).select(["instantTime", "action"]) for path in paths]
            found = [str(row) for rows in read for row in rows.to_pylist()]
        assert len(found) == len(set(found))


class IndexingSurvival(Survival[Indexing]):
    """Of indexes made, dropped or made anew: rows and commits stay, and the next run leaves what was asked
    for and nothing that is begun.
    """

    def failed(self, raised: bool | None) -> None:
        assert committed(self.path) == self.before
        assert our_rows(self.path) == self.rows
        assert hudi_rs_rows(self.path) == self.rows

    def mended(self) -> None:
        self.scenario.again(self.path, False)
        self.scenario.again(self.path, False)  # after a hiccup in the first one's last step
        props = Table.open(str(self.path)).properties
        assert tuple(sorted(props.metadata_partitions)) == self.scenario.left
        assert begun_indexes(props) == ()
        run(self.path, NO_ROWS, options=self.scenario.options)
        assert leftovers(self.path) == []
        assert our_rows(self.path) == self.rows


class NotedSurvival(ServiceSurvival):
    """Of a clean that finds nothing to delete: its note is the old one or the new one, and the next clean
    leaves the new one and nothing that is unfinished.
    """

    def __init__(self, bench: Bench, scenario: Service, path: Path) -> None:
        super().__init__(bench, scenario, path)
        self.old = note(path)

    def failed(self, raised: bool | None) -> None:
        super().failed(raised)
        assert None not in (self.old, note(self.path))
        assert note(self.path) in (self.old, self.bench.undisturbed(self.scenario, note))

    def mended(self) -> None:
        self.scenario.again(self.path, False)
        self.failed(None)
        assert note(self.path) == self.bench.undisturbed(self.scenario, note)
        run(self.path, NO_ROWS, options={**self.scenario.options, **MANUAL})
        assert leftovers(self.path) == []
        assert our_rows(self.path) == self.rows


def note(path: Path) -> Examined | None:
    return Examined.read(STORAGE, str(path))


@dataclass(frozen=True)
class Undone:
    """Files but the logs of rollbacks, whose names do not depend on the run, and the timeline's actions."""

    files: frozenset[str]
    instants: tuple[str, ...]

    @classmethod
    def of(cls, path: Path) -> Undone:
        files = {str(file.relative_to(path)) for file in path.glob("*/*") if ".hoodie" not in file.parts}
        instants = [f"{item.action.value} {item.state.name}" for item in Timeline.load(str(path))]
        return cls(frozenset(files), tuple(instants))

    @property
    def kept(self) -> list[str]:
        """Instants but rollbacks."""
        return [item for item in self.instants if "rollback" not in item]


class UndoSurvival(Survival[Undo]):
    """Of rollbacks, savepoints and restores: readers see one of the states that the table had, and the next
    run leaves what an undisturbed one leaves.
    """

    def failed(self, raised: bool | None) -> None:
        rows = our_rows(self.path)
        assert rows in [counted(upserted(*batches)) for batches in self.scenario.states]
        if not Timeline.load(str(self.path)).filter([Action.COMPACTION], completed=False):
            assert hudi_rs_rows(self.path) == rows

    def mended(self) -> None:
        expected = self.bench.undisturbed(self.scenario, Undone.of)
        self.scenario.again(self.path, False)
        self.scenario.again(self.path, False)  # after a hiccup in the first one's last step
        assert our_rows(self.path) == self.rows
        assert hudi_rs_rows(self.path) == self.rows
        left = Undone.of(self.path)
        assert left.files == expected.files
        assert left.kept == expected.kept
        assert all("COMPLETED" in item for item in left.instants)
        run(self.path, NO_ROWS, options={**self.scenario.options, **MANUAL})
        assert litter(self.path) == []
        assert our_rows(self.path) == self.rows


def survival(bench: Bench, scenario: Scenario, path: Path) -> Survival[Scenario]:
    """Of this kind of scenario."""
    kinds: dict[type[Scenario], type[Survival[Scenario]]] = {
        Withdrawn: WithdrawnSurvival,  # type: ignore[dict-item]
        Compaction: CompactionSurvival,  # type: ignore[dict-item]
        LogCompaction: LogCompactionSurvival,  # type: ignore[dict-item]
        Clustering: ClusteringSurvival,  # type: ignore[dict-item]
        Service: ServiceSurvival,  # type: ignore[dict-item]
        Noted: NotedSurvival,  # type: ignore[dict-item]
        Indexing: IndexingSurvival,  # type: ignore[dict-item]
        Undo: UndoSurvival,  # type: ignore[dict-item]
    }
    return kinds.get(type(scenario), Survival)(bench, scenario, path)
