"""Archiving tables that we wrote: what is in the archive, what is left, and what comes between."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.codec.avro import read_record
from hoodie.config.key import Config
from hoodie.errors import ConflictError, StateUnavailable, TableError
from hoodie.services.archive import run
from hoodie.services.archive.run import ArchiveResult
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.active import Timeline
from hoodie.timeline.archive.archive import ArchivedEntry
from hoodie.timeline.archive.log_archive import (
    LogArchive,
    MergePlan,
    archive_name,
    archive_version,
    read_file,
)
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction
from tests.support.archives import archive_folder
from tests.support.faults import Faults, InjectedFault, Phase, die_at, injected
from tests.support.rows import assert_same_rows
from tests.support.stores import store_at
from tests.support.tables import small_rows
from tests.support.tiers import full_but
from tests.unit.write.support import OPTIONS, Pair, Templates, listing

#: archives of version 6 are log files
pytestmark = pytest.mark.table_version(6)

STORAGE = LocalStorage()
FEW = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 4}
MANUAL = {**OPTIONS, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MERGE = {
    **FEW,
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": 3,
}


def seven_commits(path: Path) -> Pair:
    """Cleaned after the fifth; with FEW five of them can go."""
    pair = Pair(path, MANUAL)
    for version in range(1, 6):
        pair.write(small_rows(range(12), version))
    hoodie.clean_table(str(pair.path), options={"hoodie.cleaner.commits.retained": 1})
    pair.write(small_rows(range(12), 6))
    pair.write(small_rows(range(12), 7))
    return pair


@pytest.fixture
def table(tmp_path: Path, templates: Templates) -> Pair:
    return templates.copy(tmp_path / "t", seven_commits)


def archive(pair: Pair, options: Mapping[str, Any] = FEW, **more: Any) -> ArchiveResult:
    return hoodie.archive_table(str(pair.path), options=options, **more)


def folder(pair: Pair) -> str:
    return archive_folder(str(pair.path))


def entries(pair: Pair) -> list[ArchivedEntry]:
    return list(LogArchive(STORAGE, folder(pair)).entries())


def timeline(pair: Pair) -> Timeline:
    return Timeline.load(str(pair.path), STORAGE)


def times(pair: Pair) -> list[str]:
    return [str(instant.time) for instant in timeline(pair).commits()]


def names(pair: Pair) -> set[str]:
    return {path.name for path in (pair.path / ".hoodie/archived").iterdir()}


# --- what is archived --------------------------------------------------------------------------------------


def test_nothing_to_archive_writes_nothing(table: Pair) -> None:
    before = listing(table.path)
    result = archive(table, {})
    assert (result.status, result.archived, result.held) == ("skipped", [], [])
    assert "7 commits, 1 cleans, 30 of each may stay" in result.reason
    assert listing(table.path) == before


def test_the_oldest_commits_move_with_all_their_states(table: Pair) -> None:
    before = {path.name: path.read_bytes() for path in table.path.glob(".hoodie/2*")}
    commits = times(table)
    result = archive(table)
    assert (result.status, result.num_files, result.archive_file) == ("archived", 15, archive_name(1))
    assert result.archived == [{"instant": time, "action": "commit"} for time in commits[:5]]
    assert (result.first, times(table)) == (commits[5], commits[5:])
    assert names(table) == {archive_name(1)}
    assert result.bytes == (Path(folder(table)) / archive_name(1)).stat().st_size
    found = entries(table)
    assert [str(entry.instant) for entry in found] == [
        f"{time} commit {state}" for time in commits[:5] for state in ("requested", "inflight", "completed")
    ]
    for entry in found:
        data = before[ONE.name(entry.instant)]
        assert not (table.path / ".hoodie" / ONE.name(entry.instant)).exists()
        assert entry.commit is not None
        commit = CommitMetadata.parse(data)
        assert entry.commit.partition_to_write_stats.keys() == commit.partition_to_write_stats.keys()
        assert {stat.path for stat in entry.commit.write_stats} == {stat.path for stat in commit.write_stats}
        assert entry.commit.num_writes == commit.num_writes
        assert entry.commit.operation_type == commit.operation_type
        assert entry.commit.extra_metadata == {**commit.extra_metadata, "ROLLING_STAT": ""}
    table.check("archived")
    table.write(small_rows(range(5, 20), 8))
    assert archive(table).status == "skipped"


def test_when_a_state_was_reached_is_kept(table: Pair) -> None:
    changed = dict(timeline(table).mtimes)
    archive(table)
    shown = hoodie.instants(str(table.path), archived=True)
    assert [item["changed_ms"] for item in shown] == [changed[f"{item['instant']}.commit"] for item in shown]


def test_the_archived_timeline_tells_what_commits_wrote(table: Pair) -> None:
    before = hoodie.instants(str(table.path))
    archive(table)
    archived = hoodie.instants(str(table.path), archived=True)
    active = hoodie.instants(str(table.path))
    both = sorted(archived + active, key=lambda item: str(item["instant"]))
    assert [{**item, "partitions": None} for item in both] == [
        {**item, "partitions": None} for item in before
    ]
    assert archived[0]["partitions"] == ["apac", "eu", "us"]
    assert len(archived) == 5


def test_cleans_are_archived_with_plan_and_result(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, **FEW})
    for version in range(1, 11):
        assert pair.write(small_rows(range(12), version)).warnings == []
    found = entries(pair)
    cleans = [entry for entry in found if entry.instant.action is Action.CLEAN]
    assert {entry.instant.state for entry in cleans} == set(State)
    for entry in cleans:
        assert entry.metadata is not None
        assert ("totalFilesDeleted" in entry.metadata) == entry.instant.completed
    shown = hoodie.instants(str(pair.path), archived=True)
    assert [item["action"] for item in shown if item["action"] == "clean"] == ["clean"] * (len(cleans) // 3)
    pair.check("after all")
    loaded = timeline(pair)
    assert len(loaded.commits()) <= 5
    assert len(loaded.filter([Action.CLEAN])) <= 4


def test_compactions_and_delta_commits(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**MANUAL, "hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    now = {"hoodie.compact.inline.max.delta.commits": 1}
    for version in range(1, 8):
        pair.write(small_rows(range(12), version))
        if version in (2, 4):
            hoodie.compact_table(str(pair.path), options=now)
    plans = {
        path.name: read_record("HoodieCompactionPlan", path.read_bytes())
        for path in pair.path.glob(".hoodie/*.compaction.requested")
    }
    loaded = timeline(pair).commits()
    result = archive(pair, {**FEW, **now})
    assert [item["action"] for item in result.archived] == [item.action.value for item in loaded[:7]]
    found = {entry.instant: entry for entry in entries(pair)}
    for name, plan in plans.items():
        instant = ONE.parse(name)
        assert instant is not None
        assert found[instant].metadata == plan
        assert found[instant.with_state(State.INFLIGHT)].metadata is None
        done = found[instant.with_state(State.COMPLETED)].commit
        assert done is not None
        assert (done.operation_type, done.compacted) == ("COMPACT", True)
    pair.check("archived")


def test_replacecommits_wait_for_the_cleaner(table: Pair) -> None:
    group = next(item for item in hoodie.file_groups(str(table.path)) if item["partition"] == "us")
    extra = CommitMetadata.parse(timeline(table).read(timeline(table).commits()[-1])).extra_metadata
    replaced = ReplaceCommitMetadata(
        {}, False, extra, "DELETE_PARTITION", partition_to_replace_file_ids={"us": (group["file_id"],)}
    )
    time = f"{int(timeline(table).last_time or 0) + 1}"
    for state in State:
        data = replaced.to_json() if state is State.COMPLETED else b""
        store_at(table.path).create(Instant(InstantTime(time), Action.REPLACECOMMIT, state), data)
    gone = [row for row in table.model.rows() if row["region"] == "us"]
    table.model.upsert([{**row, "_hoodie_is_deleted": True, "ts": 10**9} for row in gone])
    for version in range(8, 14):
        table.write(small_rows(range(0, 12, 3), version))
    first = archive(table)
    assert first.first == time
    assert first.held == [
        {"from": time, "why": f"replacecommit {time}, whose replaced files were not cleaned yet"}
    ]
    table.check("held")
    hoodie.clean_table(str(table.path), options={"hoodie.cleaner.commits.retained": 1})
    second = archive(table)
    assert {"instant": time, "action": "replacecommit"} in second.archived
    entry = next(item for item in entries(table) if item.instant.time == time and item.instant.completed)
    assert isinstance(entry.commit, ReplaceCommitMetadata)
    assert entry.commit.partition_to_replace_file_ids == {"us": (group["file_id"],)}
    states = [item.metadata for item in entries(table) if item.instant.time == time]
    assert states[:2] == [None, None]
    table.check("cleaned and archived")


def test_savepoints_hold_and_are_passed_over_when_asked_for(table: Pair) -> None:
    commits = times(table)
    store_at(table.path).create(Instant(InstantTime(commits[2]), Action.SAVEPOINT, State.COMPLETED), b"x")
    result = archive(table)
    assert [item["instant"] for item in result.archived] == commits[:2]
    assert result.held[0]["from"] == commits[2]
    table.write(small_rows(range(12), 8))
    table.write(small_rows(range(12), 9))
    beyond = archive(table, {**FEW, "hoodie.archive.beyond.savepoint": "true"})
    assert times(table)[0] == commits[2]
    assert commits[2] not in {item["instant"] for item in beyond.archived}
    assert len(times(table)) == 3
    table.check("beyond the savepoint")


def test_the_state_of_a_savepoint_has_no_rows_of_later_commits_that_are_archived(table: Pair) -> None:
    saved = times(table)[-1]
    before = hoodie.read_table(str(table.path), as_of=saved)
    hoodie.savepoint_table(str(table.path), InstantTime(saved))
    table.write(small_rows(range(12), 8))
    for version in (9, 10, 11):
        table.write(small_rows(range(0, 12, 3), version))  # in the other partitions the eighth is the newest
    hoodie.clean_table(str(table.path), options={"hoodie.cleaner.commits.retained": 1})
    archive(table, {**FEW, "hoodie.archive.beyond.savepoint": "true"})
    assert times(table)[0] == saved
    assert len(times(table)) == 3, "the eighth is archived"
    assert_same_rows(hoodie.read_table(str(table.path), as_of=saved), before)


# --- what goes with them, and what stays -------------------------------------------------------------------


def test_markers_and_old_copies_of_plans_go(table: Pair) -> None:
    commits = times(table)
    meta = table.path / ".hoodie"
    (meta / ".temp" / commits[0] / "eu").mkdir(parents=True)
    late = f"eu/{'0' * 8}-0000-0000-0000-000000000000-0_9-9-9_{commits[0]}.parquet"
    (table.path / late).write_bytes(b"of a late attempt")
    (meta / ".temp" / commits[0] / f"{late}.marker.CREATE").touch()
    aux = meta / ".aux"
    archived, kept = commits[4], commits[6]  # the newest that goes, and the newest
    for name in (*(f"{time}.compaction.requested" for time in (commits[1], archived, kept)), "other"):
        (aux / name).write_bytes(b"x")
    assert max(item["instant"] for item in archive(table).archived) == archived
    assert not (meta / ".temp" / commits[0]).exists()
    assert not (table.path / late).exists(), "nobody would know any more that it is no one's"
    assert {path.name for path in aux.iterdir() if path.is_file()} == {
        f"{kept}.compaction.requested",
        "other",
    }
    table.check("archived")


def test_a_metadata_table_stays_and_holds_what_it_needs(table: Pair) -> None:
    commits = times(table)
    metadata = table.path / ".hoodie" / "metadata" / ".hoodie"
    metadata.mkdir(parents=True)
    properties.update(STORAGE, str(table.path), {properties.METADATA_PARTITIONS: "files"})
    result = archive(table)
    assert result.reason == "held back by the metadata table, which has no compaction yet"
    (metadata / f"{commits[1]}001.commit").touch()
    result = archive(table)
    assert [item["instant"] for item in result.archived] == commits[:2]
    assert result.held == [{"from": f"{commits[1]}001", "why": "the newest compaction of the metadata table"}]
    assert metadata.exists()
    (metadata / "hoodie.properties").write_bytes((table.path / ".hoodie/hoodie.properties").read_bytes())
    with pytest.raises(TableError, match="is a metadata table"):
        hoodie.archive_table(str(metadata.parent))


def test_what_was_archived_can_not_be_read_as_of_then(table: Pair) -> None:
    commits = times(table)
    archive(table)
    with pytest.raises(StateUnavailable, match=f"begins with commit {commits[5]}"):
        hoodie.read_table(str(table.path), as_of=commits[0])
    with pytest.raises(StateUnavailable, match="older commits are archived"):
        hoodie.read_table(str(table.path), query="incremental", begin=commits[0])


# --- order, kills, and other processes ---------------------------------------------------------------------


def test_the_order_on_storage(table: Pair) -> None:
    commits = times(table)
    faults = Faults()
    with injected(faults):
        archive(table)
    changes = [
        (change.name, Path(change.path).name) for change in faults.log if ".heartbeat" not in change.path
    ]
    assert changes[:2] == [("sweep_partial", "archived"), ("create", archive_name(1))]
    deleted = [name for what, name in changes[2:] if what == "delete"]
    assert len(deleted) == 15
    assert set(deleted[:10]) == {
        f"{time}{end}" for time in commits[:5] for end in (".commit.requested", ".inflight")
    }
    assert deleted[10:] == [f"{time}.commit" for time in commits[:5]]


def test_a_killed_run_is_not_archived_twice(table: Pair) -> None:
    commits = times(table)
    archive(table, {**FEW, "hoodie.keep.min.commits": 3})
    pair = table
    for number in range(8, 12):
        pair.write(small_rows(range(12), number))
    before = times(pair)
    die_at(
        pair.path,
        lambda path: hoodie.archive_table(path, options=FEW),
        lambda change: change.name == "delete" and change.path.endswith(".inflight"),
    )
    assert set(before) == set(times(pair)), "only pending states are gone"
    pair.check("killed")
    assert archive(pair).status == "archived"
    seen = [
        entry.instant
        for name in LogArchive(STORAGE, folder(pair)).files()
        for entry in read_file(STORAGE, name.path)
    ]
    assert len(seen) == len(set(seen))
    assert {item.time for item in seen if item.completed} == {*commits, *before} - set(times(pair))
    pair.check("again")


def test_instants_of_very_many_bytes_have_archive_files_of_their_own(
    table: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Pair(tmp_path / "other", MANUAL)
    shutil.rmtree(other.path, ignore_errors=True)
    shutil.copytree(table.path, other.path)
    once = archive(other)
    monkeypatch.setattr(run, "_PART_BYTES", 1)
    result = archive(table)
    assert (result.archived, result.num_files) == (once.archived, once.num_files)
    assert (result.archive_file, names(table)) == (archive_name(5), {archive_name(at) for at in range(1, 6)})
    assert result.bytes == sum(path.stat().st_size for path in (table.path / ".hoodie/archived").iterdir())
    assert [(entry.instant, entry.record) for entry in entries(table)] == [
        (entry.instant, entry.record) for entry in entries(other)
    ]
    table.check("archived")


@pytest.mark.full
@pytest.mark.parametrize("phase", [Phase.BEFORE, Phase.AFTER])
def test_an_archive_in_parts_that_was_killed_is_finished(
    table: Pair, monkeypatch: pytest.MonkeyPatch, phase: Phase
) -> None:
    template = table.path.with_name("template")
    shutil.copytree(table.path, template)
    commits = times(table)
    monkeypatch.setattr(run, "_PART_BYTES", 1)
    faults = Faults()
    with injected(faults):
        archive(table)
    for at in range(1, len(faults.log) + 1):
        shutil.rmtree(table.path)
        shutil.copytree(template, table.path)
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            archive(table)
        left = times(table)
        assert commits[-len(left) :] == left, f"{at}: none in the middle is missing"
        assert all(instant.completed for instant in timeline(table)), at
        archive(table)
        left = times(table)
        found = [str(entry.instant.time) for entry in entries(table)]
        assert [*dict.fromkeys([*found, *left])] == commits, at
        assert {found.count(time) for time in found} == {3}, f"{at}: each in all states, once"


def test_a_writer_at_work_is_waited_for(table: Pair) -> None:
    with Transaction(Table(TableRef(str(table.path)), STORAGE), Config.of({}), True) as writer:
        writer.begin()
        before = listing(table.path)
        with pytest.raises(ConflictError, match="another writer is at work"):
            archive(table)
        assert {**listing(table.path), **before} == before
        assert archive(table, {}).status == "skipped", "with nothing to do nobody is in the way"
    with Transaction(Table(TableRef(str(table.path)), STORAGE), Config.of({}), True) as archiver:
        archiver.claim(repair=False)
        with pytest.raises(ConflictError, match="another writer is at work"):
            table.write(small_rows(range(3), 99))
    table.check("afterwards")


def test_who_was_taken_for_dead_deletes_nothing(table: Pair, monkeypatch: pytest.MonkeyPatch) -> None:

    write = run._write
    before = times(table)

    def slow(*args: Any) -> None:
        write(*args)
        for beat in (table.path / ".hoodie/.heartbeat").iterdir():
            beat.unlink()

    monkeypatch.setattr(run, "_write", slow)
    with pytest.raises(ConflictError, match="took this process for dead"):
        archive(table)
    assert times(table) == before


def test_an_instant_that_can_not_be_read_is_an_error_and_stays(table: Pair) -> None:
    commits = times(table)
    path = table.path / f".hoodie/{commits[2]}.commit"
    path.write_bytes(b'{"partitionToWriteStats": ')
    before = listing(table.path)
    with pytest.raises(TableError, match="can't be read"):
        archive(table)
    assert listing(table.path) == before


def test_empty_instants_are_archived_as_such_but_for_completed_commits(table: Pair) -> None:
    """Those name what they wrote; an empty one was damaged."""
    commits = times(table)
    emptied = table.path / f".hoodie/{commits[2]}.commit"
    whole = emptied.read_bytes()
    emptied.write_bytes(b"")
    (table.path / f".hoodie/{commits[1]}.inflight").write_bytes(b"")
    before = listing(table.path)
    with pytest.raises(TableError, match=f"{commits[2]}.commit is damaged: is empty"):
        archive(table)
    assert listing(table.path) == before
    emptied.write_bytes(whole)
    archive(table)
    found = {ONE.name(entry.instant): entry for entry in entries(table)}
    assert found[f"{commits[1]}.inflight"].commit == CommitMetadata(
        extra_metadata={"ROLLING_STAT": ""}, operation_type="UNKNOWN"
    )


def test_a_dry_run_changes_nothing_and_tells_all(table: Pair) -> None:
    before = listing(table.path)
    planned = archive(table, dry_run=True)
    assert listing(table.path) == before
    assert (planned.status, planned.dry_run, planned.archive_file) == ("planned", True, "")
    done = archive(table)
    assert (planned.archived, planned.num_files, planned.first) == (done.archived, done.num_files, done.first)
    assert json.loads(json.dumps(done.to_dict()))["operation"] == "archive"


# --- small archive files -----------------------------------------------------------------------------------


def grow(pair: Pair, options: Mapping[str, Any], runs: int, start: int = 8) -> list[ArchiveResult]:
    results = [archive(pair, options)]
    for number in range(start, start + 3 * (runs - 1)):
        pair.write(small_rows(range(12), number))
        if len(times(pair)) > 4:
            results.append(archive(pair, options))
    return results


def archived_thrice(path: Path) -> Pair:
    pair = seven_commits(path)
    grow(pair, FEW, 3)
    return pair


def test_small_archive_files_are_merged(table: Pair) -> None:
    results = grow(table, MERGE, 3)
    assert [item.merged for item in results] == [[], [], [archive_name(number) for number in (1, 2, 3)]]
    assert names(table) == {archive_name(4)}
    instants = [entry.instant for entry in entries(table)]
    assert len(instants) == len(set(instants)) == 3 * sum(len(item.archived) for item in results)
    assert instants == in_order(instants)
    table.check("merged")


def test_archive_files_stay_where_the_settings_ask_for_no_merge(table: Pair) -> None:
    results = grow(table, {**FEW, "hoodie.archive.merge.files.batch.size": 3}, 3)
    assert [item.merged for item in results] == [[], [], []]
    assert names(table) == {archive_name(number) for number in (1, 2, 3)}


def test_a_large_file_ends_the_row(table: Pair) -> None:
    grow(table, FEW, 3)
    sizes = [item.size for item in LogArchive(STORAGE, folder(table)).files()]
    assert len(sizes) == 3
    archive = LogArchive(STORAGE, folder(table))
    assert not archive.is_unmerged(max(sizes) - 1, 3)
    assert archive.merge(max(sizes) - 1, 3) == []
    assert archive.is_unmerged(max(sizes), 3)
    assert list(map(archive_version, archive.merge(max(sizes), 3))) == [1, 2, 3]


@pytest.mark.parametrize("phase", full_but({Phase.BEFORE, Phase.DURING}, Phase))
def test_a_killed_merge_is_finished_or_undone(tmp_path: Path, templates: Templates, phase: Phase) -> None:
    table = templates.copy(tmp_path / "t", archived_thrice)
    expected = [entry.instant for entry in entries(table)]
    faults = Faults()
    template = table.path.with_name("template")
    table.path.rename(template)
    shutil.copytree(template, table.path)
    with injected(faults):
        assert archive(table, MERGE).merged
    changes = [change for change in faults.log if ".heartbeat" not in change.path]
    assert [change.name for change in changes[1:]] == ["create"] * 2 + ["delete"] * 4
    for at in range(1, len(faults.log) + 1):
        shutil.rmtree(table.path)
        shutil.copytree(template, table.path)
        with injected(Faults(at=at, phase=phase)), contextlib.suppress(InjectedFault):
            archive(table, MERGE)
        assert [entry.instant for entry in entries(table)] == expected, at
        archive(table, MERGE)
        assert [entry.instant for entry in entries(table)] == expected, at
        assert names(table) == {archive_name(4)}, at


def test_a_torn_merge_plan_is_removed(table: Pair) -> None:
    grow(table, FEW, 2)
    before = names(table)
    plan = Path(folder(table)) / "mergeArchivePlan"
    plan.write_bytes(MergePlan(("a",), "b").to_bytes()[:50])
    assert archive(table, FEW).status == "skipped"
    assert names(table) == before


def test_a_merge_plan_in_avro() -> None:
    plan = MergePlan(("/t/.hoodie/archived/.commits_.archive.1_1-0-1",), archive_name(2))
    assert MergePlan.from_bytes(plan.to_bytes()) == plan
    assert plan.names == [archive_name(1)]


def test_a_damaged_archive_file(table: Pair) -> None:
    archive(table)
    path = Path(folder(table)) / archive_name(1)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"\xff" * 64 + data[len(data) // 2 + 64 :])
    with pytest.raises(TableError, match=r"damaged|no whole HoodieArchivedMetaEntry"):
        entries(table)
    path.write_bytes(data[:-20])
    assert len(entries(table)) == 10, "a torn block at the end, which a killed writer leaves, is passed over"
