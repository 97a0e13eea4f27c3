"""Random steps on a table beside a model of it, failures included; what readers must see after each."""

from __future__ import annotations

import contextlib
import random
import signal
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import hoodie
from hoodie.errors import ConfigError, HoodieError, TableError
from hoodie.services.clean import run as clean_execution
from hoodie.services.clean.plan import last_clean
from hoodie.services.clean.policy import pending_plans
from hoodie.services.restore.run import begun
from hoodie.services.service_table import ServiceTable
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action
from hoodie.timeline.time import NO_TIME, REQUESTED
from tests.model.flavor import ODD, Row
from tests.model.steps import KINDS, SERVICES, TABLE, Refused, Step, draw, told
from tests.model.world import Rows, Version, World, counted, counted_table
from tests.support.faults import Faults, Phase, injected
from tests.support.metadata import KEPT as ENABLED
from tests.support.metadata import disagreements, has_metadata_table, misled
from tests.support.processes import forked
from tests.support.readers import read_hudi_rs
from tests.support.stores import after

STORAGE = LocalStorage()
#: the metadata table is compacted often
KEPT = {**ENABLED, "hoodie.metadata.compact.max.delta.commits": "3"}
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
CHANGES = {"hoodie.table.cdc.enabled": "true"}
#: operations of commits that change no row
_SERVICE_COMMITS = {"COMPACT", "CLUSTER"}


#: exit codes of a process whose storage was to fail
_MISSED, _MET = 0, 3


class Difference(AssertionError):
    """The table and the model differ, or a step failed that should not have; says how to repeat the run."""


@dataclass(frozen=True)
class Crash:
    """A failure in the step's n-th change: the process dies, the storage is gone, or has a hiccup."""

    at: int
    phase: Phase
    kind: str

    @classmethod
    def draw(cls, chance: random.Random) -> Crash:
        return cls(
            chance.choice((chance.randint(1, 12), chance.randint(1, 60))),
            chance.choice(list(Phase)),
            chance.choice(("kill", "dead disk", "hiccup")),
        )

    def faults(self) -> Faults:
        return Faults(self.at, self.phase, kill=self.kind == "kill", once=self.kind == "hiccup")

    def __str__(self) -> str:
        return f"CRASH {self.kind} {self.phase.value} change {self.at}"


@dataclass
class Machine:
    """A run. `steps` tells what was done so far; `checks` and `crashes` count."""

    path: Path
    seed: int
    merge_on_read: bool = False
    odd: bool = False
    #: is the metadata table kept up to date
    kept: bool = False
    #: are change logs written
    changes: bool = False
    crash_rate: float = 0.2
    thorough: int = 10
    world: World = field(default_factory=World)
    steps: list[str] = field(default_factory=list)
    #: does the run go on with another writer's table
    adopted: bool = False
    #: commits that a rollback or restore, which may have been killed, takes back
    undone: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    #: operations of archived commits, and the files that have them, which never change
    _archived: dict[str, str] = field(default_factory=dict)
    _archive_files: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.odd:
            self.world.flavor = ODD

    def adopt(self) -> None:
        """Begin with the table that is there, whoever wrote it."""
        for instant in Timeline.load(str(self.path)).commits():
            rows = hoodie.read_table(str(self.path), as_of=instant.time).to_pylist()
            adopted = tuple({**row, "_at": row["_hoodie_commit_time"]} for row in rows)
            self.world.versions.append(Version(instant.time, adopted))
        self.steps.append(f"a table of {len(self.world.rows)} rows")
        self.adopted = True
        self._look()
        self._check(random.Random(self.seed), thorough=True)

    def run(self, steps: int) -> None:
        """Raises Difference."""
        for number in range(1, steps + 1):
            chance = random.Random(f"{self.seed}/{self.merge_on_read}{self.odd or ''}/{number}")
            step = draw(chance, self.world, number, self.merge_on_read)
            if "hoodie.index.type" in step.options and self.merge_on_read:
                step = replace(step, options={**step.options, **MERGE_ON_READ})
            crash = Crash.draw(chance) if chance.random() < self.crash_rate else None
            self.steps.append(f"{step} {crash or ''}".rstrip())
            try:
                self._step(step, crash)
                self._check(chance, thorough=number % self.thorough == 0)
            except Exception as error:
                raise Difference(self._story(error)) from error

    def _step(self, step: Step, crash: Crash | None) -> None:
        before = self._committed()
        self._count(step.kind)
        if KINDS[step.kind].undoes:
            instant = step.arguments["instant"]
            later = {time for time in before if time > instant}
            self.undone |= {instant} if step.kind == "rollback" else later
        sure = crash is None
        if crash is not None:
            self._fail(step, crash)
        else:
            with self._repeatable(step):
                try:
                    KINDS[step.kind].run(str(self.path), step)
                except Refused as refusal:
                    self._count(f"{step.kind} refused")
                    self.steps[-1] += f" REFUSED {refusal}"
                    sure = False
        self._reconcile(step, before, sure)

    def _fail(self, step: Step, crash: Crash) -> None:
        """Run the step in a process of its own, as its heartbeats die with that. An error is fine once the
        storage has failed; without a failure the step has done its work.
        """
        code = forked(lambda: self._run(step, crash.faults()))
        if code not in (_MISSED, _MET, -signal.SIGKILL):
            raise AssertionError("the step failed in its process, and not because of the storage; see above")
        self._count(f"{crash.kind} {'missed' if code == _MISSED else 'met'}")

    def _run(self, step: Step, faults: Faults) -> int:
        with injected(faults), self._repeatable(step):
            try:
                KINDS[step.kind].run(str(self.path), step)
            except (HoodieError, OSError):
                if not faults.tripped:
                    raise
            except Refused:
                pass
        return _MET if faults.tripped else _MISSED

    @contextlib.contextmanager
    def _repeatable(self, step: Step) -> Iterator[None]:
        """File names are the same in every run of the seed; files come in one order."""
        chance = random.Random(f"{self.seed}/{step.number}/names")

        def name() -> uuid.UUID:
            return uuid.UUID(int=chance.getrandbits(128), version=4)

        kept = mock.patch.dict(SERVICES, KEPT if self.kept else {})
        changes = mock.patch.dict(TABLE, CHANGES if self.changes else {})
        one_thread = mock.patch.object(clean_execution, "_THREADS", 1)
        with mock.patch("uuid.uuid4", name), one_thread, kept, changes:
            yield

    def _reconcile(self, step: Step, before: set[str], sure: bool) -> None:
        """Take over into the model what was committed and undone."""
        after = self._committed()
        lost = before - after - self.undone
        assert not lost, f"commits are gone: {sorted(lost)}"
        self.world.keep(after)
        new = sorted(after - before)
        mine = [time for time in new if self._operation(time) not in _SERVICE_COMMITS]
        if step.change is not None:
            assert len(mine) <= 1, f"one write, several commits: {mine}"
            assert mine or not sure, "a write without a commit"
            for time in mine:
                self.world.commit(time, step.change)
        else:
            assert not mine, f"a service made the commits {mine}"
        self._look()

    def _look(self) -> None:
        """What the next steps can be drawn from."""
        if not self._exists():
            return
        timeline = Timeline.load(str(self.path))
        saved = timeline.filter([Action.SAVEPOINT], completed=True)
        self.world.savepoints = tuple(str(instant.time) for instant in saved)
        self.world.commits = tuple(str(instant.time) for instant in timeline.commits())
        target = ServiceTable.open(str(self.path), {})
        restore = begun(timeline, target)
        self.world.restoring = str(restore.point) if restore and restore.point is not None else None
        if not restore and not timeline.filter([Action.ROLLBACK], completed=False):
            self.undone.clear()

    def _check(self, chance: random.Random, thorough: bool) -> None:
        if not self.world.versions and not self._exists():
            return
        self._check_metadata_table()
        if self.changes:
            self._check_change_logs()
        expected = counted(self.world.rows)
        try:
            rows = self._read()
        except TableError:
            if self.world.restoring is None:
                raise
            self._count("refused between two states")  # what a clean took on the way back
            return
        _same(rows, expected, "our reader")
        if thorough:
            self._count("thorough checks")
            timeline = Timeline.load(str(self.path))
            if not timeline.filter([Action.COMPACTION], completed=False):  # a gap of hudi-rs
                _same(counted_table(read_hudi_rs(self.path)), expected, "hudi-rs")
            self._check_past(chance, timeline)

    def _check_metadata_table(self) -> None:
        """Readers by it see what the folders have; after steps that did not fail nothing else is listed."""
        if self.kept and self.world.restoring is None:
            assert misled(self.path) == []
            sure = not any(word in self.steps[-1] for word in ("CRASH", "REFUSED"))
            sure = sure and not self.adopted  # another writer's statistics are other ones
            if sure and not Timeline.load(str(self.path)).pending():
                assert disagreements(self.path) == []
                self._count("tables with a metadata table" if has_metadata_table(self.path) else "without")

    def _check_change_logs(self) -> None:
        """A file has its change log as long as it is there; no others are left by steps that did not fail."""
        timeline, named = Timeline.load(str(self.path)), dict[str, int]()
        for instant in timeline.commits():
            for stat in timeline.commit(instant).write_stats:
                if stat.path and (self.path / stat.path).exists():
                    named |= stat.cdc_stats or {}
        if self.world.restoring is None:
            assert {path: (self.path / path).stat().st_size for path in named} == named
        self._count("change logs", len(named))
        if "CRASH" not in self.steps[-1] and not timeline.pending():
            paths = [path.relative_to(self.path) for path in self.path.glob("*/.*.cdc")]
            oldest = str(REQUESTED.first(instant.time for instant in timeline.commits()) or NO_TIME)
            young = {str(path) for path in paths if path.name.partition(".log.")[0][-17:] >= oldest}
            assert young <= named.keys(), "change logs of no commit"

    def _check_past(self, chance: random.Random, timeline: Timeline) -> None:
        """Kept commits as of their time, what was written since each, and between it and a later one."""
        last = last_clean(timeline, STORAGE)
        bounds = [plan.earliest.time for _, plan in pending_plans(timeline, STORAGE) if plan.earliest]
        earliest = NO_TIME if self.odd else REQUESTED.last([*bounds, last.earliest if last else NO_TIME])
        newest = [item.time for item in timeline.commits()[-9 if self.odd else -3 :]]
        versions = [
            item
            for item in self.world.versions
            if item.instant in newest and REQUESTED.since(item.instant, earliest or NO_TIME)
        ]
        for place, version in enumerate(versions):
            at = version.instant
            later = chance.choice(versions[place:])
            with self._answered_or_refused(at != newest[-1]):
                _same(self._read(as_of=at), counted(version.rows), f"as of {at}")
                rows = self._read(query="incremental", begin=after(self.path, at))
                _same(rows, _since(at, self.world.rows), f"since {at}")
                self._count("looks at the past")
            with self._answered_or_refused(later.instant != newest[-1]):
                span = {"begin": after(self.path, at), "end": after(self.path, later.instant)}
                rows = self._read(query="incremental", **span)
                _same(rows, _since(at, later.rows), f"from {at} to {later.instant}")

    @contextlib.contextmanager
    def _answered_or_refused(self, refusable: bool) -> Iterator[None]:
        """Where clean policies take turns the past may be gone; what is answered must be right."""
        try:
            yield
        except (ConfigError, TableError) as error:
            if not (self.odd and refusable and "kept" in error.message):
                raise
            self._count("looks at a past that is gone")

    def _read(self, **query: Any) -> Rows:
        return counted_table(hoodie.read_table(str(self.path), **query))

    def _exists(self) -> bool:
        return (self.path / ".hoodie" / "hoodie.properties").exists()

    def _committed(self) -> set[str]:
        """Times of completed commits, wherever they are."""
        if not self._exists():
            return set()
        found = {str(instant.time) for instant in Timeline.load(str(self.path)).commits()}
        archive = Table.open(str(self.path)).archive
        names = frozenset(file.name for file in archive.files())
        if names != self._archive_files:
            self._archive_files = names
            self._archived = {
                str(entry.instant.time): str(entry.commit.operation_type if entry.commit else None)
                for entry in archive.entries()
                if entry.instant.completed and entry.instant.action in COMMIT_ACTIONS
            }
        return found | self._archived.keys()

    def _operation(self, time: str) -> str:
        """A plan that was pending for long may be archived as soon as it is carried out."""
        timeline = Timeline.load(str(self.path))
        for commit in timeline.commits():
            if commit.time == time:
                return str(timeline.commit(commit).operation_type)
        return self._archived[time]

    def _count(self, what: str, times: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + times

    def _story(self, error: Exception) -> str:
        kind = ("mor" if self.merge_on_read else "cow") + " --odd" * self.odd
        return (
            f"{type(error).__name__}: {error}\nin step {len(self.steps)} of `python -m tests.model "
            f"--type {kind} --seed {self.seed} --steps {len(self.steps)}`, table {self.path}"
            f"{', its metadata table kept' if self.kept else ''}; the last "
            f"steps:\n{told(self.steps[-25:])}"
        )


def _since(instant: str, rows: Iterable[Row]) -> Rows:
    return counted(row for row in rows if row["_at"] > instant)


def _same(found: Rows, expected: Rows, who: str) -> None:
    if found != expected:
        more, fewer = found - expected, expected - found
        raise AssertionError(
            f"{who}: {more.total()} rows too many, {fewer.total()} missing\n"
            + "".join(f"  too many {str(row)[:300]}\n" for row in list(more)[:4])
            + "".join(f"  missing  {str(row)[:300]}\n" for row in list(fewer)[:4])
        )
