"""The writer of metadata tables: what was written is what readers find, whatever happened in between."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import TableError
from hoodie.metadata.instants import NEW_TABLE
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.partitions.record_index import locate
from hoodie.metadata.rollback import roll_back
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.metadata.written_table import MaintenancePolicy, WrittenTable
from hoodie.storage import Output
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.log_archive import LogArchive
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.compaction import CompactionOperation, CompactionPlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata
from hoodie.timeline.time import InstantTime
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.metadata import KEPT
from tests.support.metadata_records import Files, files, locations, make_records, statistics, write_records
from tests.support.stores import store_at
from tests.support.tiers import full_but

STORAGE = LocalStorage()
SMALL = MaintenancePolicy(compact_after=3, keep_commits=4, keep_least=5, keep_most=7)


def moment(number: int) -> str:
    return f"2024010100{number:07d}"


class World:
    """A table of instants without data, and what its metadata table has to say."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, dict[str, int]] = {}
        self.now = 0
        properties.create(STORAGE, str(path), {properties.NAME: "t"})

    @property
    def table(self) -> Table:
        return Table.open(str(self.path))

    @property
    def timeline(self) -> Timeline:
        return Timeline.load(f"{self.path}/.hoodie/metadata")

    @property
    def writer(self) -> MetadataWriter:
        writer = MetadataWriter.open(self.table)
        assert writer is not None
        return writer

    def tick(self) -> str:
        self.now += 1
        return moment(self.now)

    def make(self, found: Mapping[str, Mapping[str, int]], upto: str = NEW_TABLE) -> None:
        make_records(self.table, upto, {Partition.FILES: (files(found), 1)})
        self.named(Partition.FILES)
        self.files = {partition: dict(group) for partition, group in found.items()}

    def named(self, *partitions: Partition) -> None:
        texts = ",".join(sorted(partition.value for partition in partitions))
        properties.update(STORAGE, str(self.path), {properties.METADATA_PARTITIONS: texts})

    def instant(self, time: str, action: Action = Action.COMMIT, data: bytes = b"{}") -> Instant:
        store_at(self.path).create(Instant(InstantTime(time), action, State.REQUESTED))
        return Instant(InstantTime(time), action, State.INFLIGHT)

    def complete(self, instant: Instant, data: bytes = b'{"partitionToWriteStats":{}}') -> None:
        store_at(self.path).create(instant.with_state(State.COMPLETED), data)

    def apply(self, delta: Files) -> None:
        for partition, group in delta.items():
            there = self.files.setdefault(partition, {})
            for name, size in group.items():
                if size is None:
                    there.pop(name, None)
                else:
                    there[name] = max(size, there.get(name, 0))

    def commit(self, delta: Files) -> str:
        instant = self.instant(self.tick())
        write_records(self.writer, instant.time, {Partition.FILES: files(delta)})
        self.complete(instant)
        self.apply(delta)
        return instant.time

    def roll_back(self, instant: Instant, by: str) -> None:
        """As the table does: its metadata table first."""
        undoing = self.instant(by, Action.ROLLBACK)
        self.writer.rollback(instant.time, InstantTime(by))
        target = InstantInfo(instant.time, instant.action.value)
        store_at(self.path).delete(instant)
        self.complete(undoing, RollbackMetadata.of(InstantTime(by), 1, target, {}).to_bytes())

    def archive(self) -> None:
        """The table's own instants before the last compaction of the metadata table."""
        done = self.timeline.filter([Action.COMMIT], completed=True)
        timeline = self.table.timeline
        for instant in timeline.before(done[-1].time if done else "", timeline.commits()[:-2]):
            store_at(self.path).delete(instant)

    def found(self) -> dict[str, dict[str, int]]:
        metadata = MetadataTable.open(self.table)
        assert metadata is not None
        listing = MetadataListing(metadata, str(self.path))
        partitions = listing.partitions()
        listed = listing.many(partitions)
        return {partition: {item.name: item.size for item in listed[partition]} for partition in partitions}

    def located(self, keys: list[str]) -> dict[str, str]:
        metadata = MetadataTable.open(self.table)
        assert metadata is not None
        return {row["key"]: row["file_id"] for row in locate(metadata, pa.array(keys)).to_pylist()}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "t")


def test_a_new_table_has_none_and_then_its_first_files(world: World) -> None:
    assert MetadataWriter.open(world.table) is None
    world.make({})
    assert world.found() == {}
    world.commit({"p": {"a": 10}, "q/r": {"b": 20}})
    world.commit({"p": {"a": None, "c": 5}})
    assert world.found() == {"p": {"c": 5}, "q/r": {"b": 20}} == world.files
    times = [instant.time for instant in world.timeline]
    assert times == ["00000000000000010", moment(1), moment(2)]


def test_an_old_table_has_its_files_in_a_base_file(world: World) -> None:
    world.complete(world.instant(world.tick()))
    world.make({"p": {"a": 10}, "q": {}}, moment(1))
    assert world.found() == {"p": {"a": 10}, "q": {}}
    assert [instant.time for instant in world.timeline] == [f"{moment(1)}010"]
    names = sorted(item.name for item in STORAGE.list(f"{world.path}/.hoodie/metadata/files"))
    assert names == [
        f".files-0000-0_{moment(1)}010.log.1_0-0-0",
        ".hoodie_partition_metadata",
        f"files-0000-0_0-0-0_{moment(1)}010.hfile",
    ]


def test_a_commit_that_did_not_come_about_says_nothing(world: World) -> None:
    world.make({"p": {"a": 10}})
    pending = world.instant(world.tick())
    write_records(world.writer, pending.time, {Partition.FILES: files({"p": {"b": 1}})})
    assert world.found() == {"p": {"a": 10}}
    write_records(world.writer, pending.time, {Partition.FILES: files({"p": {"c": 1}})})
    world.complete(pending)
    assert world.found() == {"p": {"a": 10, "c": 1}}
    rollbacks = world.timeline.filter([Action.ROLLBACK])
    assert [(item.time, item.completed) for item in rollbacks] == [(f"{pending.time}006", True)]


def test_each_attempt_at_an_instant_is_rolled_back(world: World) -> None:
    """The command block of an earlier attempt voids nothing of a later one."""
    world.make({"p": {"a": 10}})
    pending = world.instant(world.tick())
    for name in "bcd":
        write_records(world.writer, pending.time, {Partition.FILES: files({"p": {name: 1}})})
    world.complete(pending)
    assert world.found() == {"p": {"a": 10, "d": 1}}
    assert len(world.timeline.filter([Action.ROLLBACK], completed=True)) == 2


def test_what_counts_is_not_written_again(world: World) -> None:
    """Two processes have executed the same clean: the second one comes too late."""
    world.make({"p": {"a": 10}})
    time = world.commit({"p": {"b": 1}})
    before = [instant.time for instant in world.timeline]
    write_records(world.writer, time, {Partition.FILES: files({"p": {"c": 1}})})
    assert [instant.time for instant in world.timeline] == before
    assert world.found() == {"p": {"a": 10, "b": 1}}


def test_what_was_rolled_back_stays_away(world: World) -> None:
    world.make({"p": {"a": 10}})
    failed = world.instant(world.tick())
    write_records(world.writer, failed.time, {Partition.FILES: files({"p": {"b": 1}})})
    world.roll_back(failed, by := world.tick())
    assert world.found() == {"p": {"a": 10}}
    assert world.timeline.filter([Action.ROLLBACK])[0].time == f"{by}006"
    assert not world.writer.rollback(failed.time, InstantTime(world.tick()))
    world.commit({"p": {"c": 2}})
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert world.found() == {"p": {"a": 10, "c": 2}}


def test_writes_of_two_instants_may_overlap(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has found the same last log file; the other's is begun meanwhile."""
    world.make({"p": {"a": 10}})
    first, second = world.instant(world.tick()), world.instant(world.tick())
    inner = LocalStorage.output
    begun: list[str] = []

    def output(self: LocalStorage, path: str, *, exclusive: bool = False) -> Output:
        if not begun:
            begun.append(path)
            write_records(world.writer, second.time, {Partition.FILES: files({"p": {"b": 1}})})
        return inner(self, path, exclusive=exclusive)

    monkeypatch.setattr(LocalStorage, "output", output)
    write_records(world.writer, first.time, {Partition.FILES: files({"p": {"c": 1}})})
    assert begun
    world.complete(second)
    assert world.found() == {"p": {"a": 10, "b": 1}}
    world.complete(first)
    assert world.found() == {"p": {"a": 10, "b": 1, "c": 1}}


def test_a_compaction_waits_for_what_is_pending_before_it(world: World) -> None:
    world.make({"p": {"a": 10}})
    pending = world.instant(world.tick())
    world.commit({"p": {"b": 1}})
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert world.timeline.filter([Action.COMMIT]) == []
    store_at(world.path).delete(pending)
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert [item.time for item in world.timeline.filter([Action.COMMIT])] == [f"{moment(2)}001"]
    assert not world.writer.rollback(InstantTime(moment(2)), InstantTime(world.tick())), (
        "it is in a base file"
    )
    assert world.found() == {"p": {"a": 10, "b": 1}}


def test_a_rollback_after_a_compaction_was_killed(world: World) -> None:
    """No log block takes back what the plan has: the caller's records do."""
    world.make({"p": {"a": 10}})
    time = world.commit({"p": {"b": 1}})
    with (
        pytest.raises(InjectedFault),
        injected(
            Faults(at=1, phase=Phase.AFTER, of=lambda change: change.path.endswith("compaction.requested"))
        ),
    ):
        world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert not world.writer.rollback(InstantTime(time), InstantTime(world.tick()))
    world.commit({"p": {"b": None, "c": 2}})
    assert world.found() == world.files == {"p": {"a": 10, "c": 2}}
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert len(world.timeline.filter([Action.COMMIT], completed=True)) == 2
    assert world.found() == world.files


def test_partitions_without_files_and_tables_without_partitions(world: World) -> None:
    world.make({})
    for delta, partitions in (({".": {"a": 1}}, {".": 0}), ({".": {"b": 1}}, {".": 0})):
        instant = world.instant(world.tick())
        write_records(world.writer, instant.time, {Partition.FILES: files(delta, partitions)})
        world.complete(instant)
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert world.found() == {"": {"a": 1, "b": 1}}
    instant = world.instant(world.tick())
    write_records(world.writer, instant.time, {Partition.FILES: files({".": {"a": None}}, {})})
    world.complete(instant)
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert world.found() == {"": {"b": 1}}


def random_delta(chance: random.Random, world: World) -> dict[str, dict[str, int | None]]:
    delta: dict[str, dict[str, int | None]] = {}
    for partition in chance.sample(["p", "q/r", "s=1", "\u00e9"], chance.randint(1, 3)):
        group = delta[partition] = {f"f{chance.randrange(40)}": chance.randrange(1, 99) for _ in range(4)}
        there = sorted(world.files.get(partition, {}))
        group.update(dict.fromkeys(chance.sample(there, min(2, len(there)))))
    return delta


def test_any_history_with_compactions_cleans_and_archives(world: World) -> None:
    chance = random.Random(1)
    world.make({"p": {"a": 10}, "q/r": {"b": 7}})
    for step in range(24):
        what = chance.random()
        world.writer.maintain(SMALL)
        if what < 0.15:
            failed = world.instant(world.tick())
            write_records(world.writer, failed.time, {Partition.FILES: files(random_delta(chance, world))})
            world.roll_back(failed, world.tick())
        elif what < 0.25:  # withdrawn
            failed = world.instant(world.tick())
            write_records(world.writer, failed.time, {Partition.FILES: files(random_delta(chance, world))})
            store_at(world.path).delete(failed)
        else:
            world.commit(random_delta(chance, world))
        world.archive()
        assert step % 3 < 2 or world.found() == world.files
    timeline = world.timeline
    assert len(timeline.filter([Action.COMMIT])) > 1
    assert timeline.filter([Action.CLEAN], completed=True)
    assert len(timeline.commits()) < 20
    assert timeline.pending() == []
    folder = f"{world.path}/.hoodie/metadata/.hoodie/archived"
    archived = {entry.instant for entry in LogArchive(STORAGE, folder).entries()}
    assert Instant(InstantTime(f"{NEW_TABLE}010"), Action.DELTACOMMIT, State.COMPLETED) in archived
    assert not archived & set(timeline)
    left = [item.name for item in STORAGE.list(f"{world.path}/.hoodie/metadata/files")]
    assert sum(name.endswith(".hfile") for name in left) < 5


def test_a_record_index_of_many_file_groups(world: World) -> None:
    keys = [f"key{number}" for number in range(200)]
    world.make({})
    first = {key: f"f{number % 3}" for number, key in enumerate(keys[:150])}
    make_records(world.table, NEW_TABLE, {Partition.RECORD_INDEX: (locations(first), 7)})
    world.named(Partition.FILES, Partition.RECORD_INDEX)
    assert world.timeline.instants[-1].time == f"{NEW_TABLE}011"
    assert world.located(keys) == first
    moved = dict.fromkeys(keys[100:], "g")
    steps = [locations(moved, keys[:30]), locations({keys[3]: "h"}), locations({}, keys[190:])]
    expected = dict(list((first | moved).items())[30:190]) | {keys[3]: "h"}
    for number, records in enumerate(steps):
        instant = world.instant(world.tick())
        given = {Partition.RECORD_INDEX: records, Partition.FILES: files({"p": {f"f{number}": 1}})}
        write_records(world.writer, instant.time, given)
        world.complete(instant)
    assert world.located(keys) == expected
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    assert len(world.timeline.filter([Action.COMMIT])) == 1
    assert world.located(keys) == expected
    instant = world.instant(world.tick())
    write_records(world.writer, instant.time, {Partition.RECORD_INDEX: locations({"new": "n"}, keys[40:50])})
    world.complete(instant)
    world.writer.maintain(MaintenancePolicy(compact_after=1))
    del (expected := {**expected, "new": "n"})[keys[40]]
    expected = {key: file for key, file in expected.items() if key not in keys[41:50]}
    assert world.located([*keys, "new"]) == expected
    assert world.found() == {"p": {"f0": 1, "f1": 1, "f2": 1}}


def test_statistics_of_one_file_are_not_added_up(world: World) -> None:
    """No file is written to twice here. Apache Hudi does so on storages that append, and adds them up."""
    world.make({})
    made = {Partition.COLUMN_STATS: (statistics({"a": False, "b": False}), 1)}
    make_records(world.table, NEW_TABLE, made)
    world.named(Partition.FILES, Partition.COLUMN_STATS)

    def write(found: Mapping[str, bool]) -> None:
        instant = world.instant(world.tick())
        write_records(world.writer, instant.time, {Partition.COLUMN_STATS: statistics(found)})
        world.complete(instant)

    write({"a": True, "c": False})
    write({"c": True})
    world.writer.maintain(MaintenancePolicy(compact_after=2))
    assert len(world.timeline.filter([Action.COMMIT], completed=True)) == 1
    write({"b": False})
    with pytest.raises(TableError, match="several statistics of one column in one file"):
        world.writer.maintain(MaintenancePolicy(compact_after=1))


def test_commits_of_the_metadata_table_name_what_they_wrote(world: World) -> None:
    world.make({"p": {"a": 10}})
    world.commit({"p": {"b": 1}})
    world.commit({"p": {"c": 1}})
    world.writer.maintain(MaintenancePolicy(compact_after=2))
    folder = world.path / ".hoodie/metadata"
    for instant in world.timeline.commits():
        commit = world.timeline.commit(instant)
        assert json.loads(commit.extra_metadata["schema"] or "")["name"] == "HoodieMetadataRecord"
        for stat in commit.write_stats:
            assert stat.file_size_in_bytes == (folder / (stat.path or "")).stat().st_size
            assert stat.file_id == "files-0000-0"
    told = world.timeline.commits()
    assert [world.timeline.commit(item).operation_type for item in told] == [
        "BULK_INSERT_PREPPED",
        "UPSERT_PREPPED",
        "UPSERT_PREPPED",
        "COMPACT",
    ]
    assert [world.timeline.commit(item).compacted for item in told] == [False, False, False, True]
    [stat] = world.timeline.commit(told[2]).write_stats
    assert stat.log_version == 3
    assert stat.prev_commit == f"{NEW_TABLE}010"
    [stat] = world.timeline.commit(told[3]).write_stats
    assert (stat.total_log_files_compacted, stat.total_log_records, stat.num_writes) == (3, 4, 2)


def test_a_plan_that_was_killed_while_it_was_made_goes(world: World) -> None:
    world.make({"p": {"a": 10}})
    place = f"{world.path}/.hoodie/metadata"
    for action in (Action.CLEAN, Action.COMPACTION, Action.ROLLBACK):
        store_at(place).create(Instant(InstantTime(moment(1)), action, State.REQUESTED))
    world.writer.maintain(SMALL)
    assert world.timeline.pending() == []
    store_at(place).create(Instant(InstantTime(moment(2)), Action.CLEAN, State.REQUESTED), b"torn")
    store_at(place).create(Instant(InstantTime(moment(2)), Action.CLEAN, State.INFLIGHT))
    with pytest.raises(TableError, match="no whole HoodieCleanerPlan"):
        world.writer.maintain(SMALL)


def test_a_plan_without_its_files_is_refused(world: World) -> None:
    world.make({"p": {"a": 10}})
    plan = CompactionPlan(
        (CompactionOperation("files", "files-0000-0", InstantTime("1"), None, (".files-0000-0_1.log.1",)),)
    )
    requested = Instant(InstantTime(moment(1)), Action.COMPACTION, State.REQUESTED)
    store_at(f"{world.path}/.hoodie/metadata").create(requested, plan.to_bytes())
    with pytest.raises(TableError, match=r"needs files/\.files-0000-0_1\.log\.1, which is not there"):
        world.writer.maintain(SMALL)


def test_a_commit_in_flight_that_leads_elsewhere_is_refused(world: World) -> None:
    world.make({"p": {"a": 10}})
    stats = {"files": (WriteStat(file_id="f", prev_commit=InstantTime("../../../x")),)}
    inflight = Instant(InstantTime(moment(1)), Action.DELTACOMMIT, State.INFLIGHT)
    place = f"{world.path}/.hoodie/metadata"
    store_at(place).create(inflight, CommitMetadata(stats).to_json())
    with pytest.raises(TableError, match=r"prevCommit '\.\./\.\./\.\./x' is no instant's time"):
        write_records(world.writer, moment(1), {})


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("left", [0, 40])
def test_what_a_deltacommit_wrote_goes_without_its_inflight_file(
    tmp_path: Path, version: int, left: int
) -> None:
    """A power failure took its content, and left the log file."""
    path = tmp_path / "t"
    options = {**KEPT, "hoodie.write.table.version": str(version)}
    for value in range(2):
        hoodie.Table(path).upsert([{"id": "a", "value": value}], keys="id", options=options)
    table = WrittenTable(Table.open(str(path)))
    newest = table.timeline.commits()[-1]
    table.store.delete_states([newest])
    inflight = Path(table.store.path(newest.with_state(State.INFLIGHT)))
    inflight.write_bytes(inflight.read_bytes()[:left])
    logs = set(Path(table.base_path, "files").glob(".files-*.log.*"))
    roll_back(table, table.refresh().pending()[0], table.rollback_time(newest.time))
    assert table.refresh().pending() == []
    assert logs - set(Path(table.base_path, "files").glob(".files-*.log.*"))


Step = Callable[[World], None]
NEXT = moment(100)


def _make(world: World) -> None:
    make_records(world.table, moment(1), {Partition.FILES: (files({"p": {"a": 10}}), 1)})


def _write(world: World) -> None:
    write_records(world.writer, NEXT, {Partition.FILES: files({"p": {"new": 1}})})


def _roll_back(world: World) -> None:
    world.writer.rollback(InstantTime(NEXT), InstantTime(moment(101)))


def _maintain(world: World) -> None:
    world.writer.maintain(SMALL)


def _pending(world: World) -> None:
    world.instant(NEXT)


def _written(world: World) -> None:
    world.instant(NEXT)
    _write(world)


#: name -> (what precedes, the step)
STEPS: dict[str, tuple[Step, Step]] = {
    "write": (_pending, _write),
    "write again": (_written, _write),
    "rollback": (_written, _roll_back),
    "maintain": (lambda world: None, _maintain),
    "maintain after a failed write": (_written, lambda world: _repaired(world)),
}


def _repaired(world: World) -> None:
    """The failed write left no instant of the table: its deltacommit is nothing any more."""
    STORAGE.delete_many([f"{world.path}/.hoodie/{NEXT}.commit.requested"])
    _maintain(world)


def _built(path: Path, commits: int) -> World:
    """With 14 commits it is due for a compaction, a clean and an archive run."""
    world = World(path)
    world.make({"p": {"a": 10}})
    for number in range(commits):
        if number in (3, 7, 10):
            world.writer.maintain(MaintenancePolicy(compact_after=3, keep_commits=50, keep_most=50))
        world.commit({"p": {f"f{number}": 1}})
    world.archive()
    return world


def places(run: Step, world: World) -> list[int]:
    """The changes at which a step fails: of equal ones that follow one another the first and the last."""
    with injected(Faults()) as faults:
        run(world)
    names = ["", *(change.name for change in faults.log), ""]
    between = zip(names, names[1:], names[2:], strict=False)
    return [at for at, (left, name, right) in enumerate(between, 1) if not left == name == right]


#: the rest of a step and phase is in the full tier
FAST = {("write", Phase.DURING), ("rollback", Phase.DURING)}
CASES = [pytest.param((name, phase), id=f"{name}, {phase.value}") for name in STEPS for phase in Phase]


@pytest.mark.parametrize("case", full_but(FAST, CASES))
def test_a_kill_at_any_change_leaves_what_was_there(tmp_path: Path, case: tuple[str, Phase]) -> None:
    """And the same step, run again, does the rest."""
    name, phase = case
    before, step = STEPS[name]
    world = _built(tmp_path / "whole", 14 if name.startswith("maintain") else 2)
    before(world)
    old = world.found()
    assert old == world.files

    def copy(at: int) -> World:
        path = tmp_path / str(at)
        shutil.copytree(world.path, path)
        copied = object.__new__(World)
        copied.__dict__ = {**world.__dict__, "path": path}
        return copied

    for at in places(step, copy(0)):
        broken = copy(at)
        with contextlib.suppress(InjectedFault), injected(Faults(at=at, phase=phase)) as faults:
            step(broken)
        assert faults.tripped
        assert broken.found() == old, faults
        step(broken)
        assert broken.found() == old, faults
        if step is _write:
            broken.complete(Instant(InstantTime(NEXT), Action.COMMIT, State.INFLIGHT))
            assert broken.found() == {"p": {**old["p"], "new": 1}}, faults
        _maintain(broken)
        assert broken.timeline.pending() == [], faults
        shutil.rmtree(broken.path)


@pytest.mark.parametrize("phase", full_but({Phase.DURING}, Phase))
def test_a_making_that_was_killed_begins_again(tmp_path: Path, phase: Phase) -> None:
    def begun(at: int) -> World:
        world = World(tmp_path / str(at))
        world.complete(world.instant(world.tick()))
        return world

    for at in places(_make, begun(0)):
        world = begun(at)
        with contextlib.suppress(InjectedFault), injected(Faults(at=at, phase=phase)) as faults:
            _make(world)
        assert faults.tripped
        _make(world)
        world.named(Partition.FILES)
        assert world.found() == {"p": {"a": 10}}, faults
