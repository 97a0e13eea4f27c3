"""Cleaning tables that we wrote: policies, what holds files, plans between runs, what fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.codec.avro import read_record, write_record
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.services.clean.plan import View, make
from hoodie.services.clean.policy import Retention
from hoodie.services.clean.run import CleanResult
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline, create_instant
from hoodie.timeline.clean_plan import ActionInstant, CleanFile, CleanMetadata, CleanPlan
from hoodie.timeline.clock import format_millis, instant_millis
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.write.transaction import Transaction
from tests.support.rows import assert_same_rows
from tests.support.tables import small_rows
from tests.unit.write.support import OPTIONS, Pair, listing

STORAGE = LocalStorage()
MANUAL = {**OPTIONS, "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
MOR = {**MANUAL, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
RETAINED = "hoodie.cleaner.commits.retained"
POLICY = "hoodie.cleaner.policy"
VERSIONS = "hoodie.cleaner.fileversions.retained"
REGIONS = {"eu": range(0, 30, 3), "us": range(1, 30, 3), "apac": range(2, 30, 3)}


def written(path: Path, versions: int, options: Mapping[str, Any] = MANUAL) -> Pair:
    """All three partitions in every commit."""
    pair = Pair(path, options)
    for version in range(1, versions + 1):
        pair.write(small_rows(range(30), version))
    return pair


@pytest.fixture
def table(tmp_path: Path) -> Pair:
    return written(tmp_path / "t", 6)


def clean(pair: Pair, mode: str = "run", *, dry_run: bool = False, **options: Any) -> CleanResult:
    given = {name.replace("__", "."): value for name, value in options.items()}
    return hoodie.clean_table(str(pair.path), mode=mode, options=given, dry_run=dry_run)


def keep(pair: Pair, commits: int, **options: Any) -> CleanResult:
    return clean(pair, hoodie__cleaner__commits__retained=commits, **options)


def timeline(pair: Pair) -> Timeline:
    return Timeline.load(str(pair.path), STORAGE)


def commits(pair: Pair) -> list[str]:
    return [instant.time for instant in timeline(pair).commits()]


def files(pair: Pair) -> set[str]:
    """Data files, relative to the table."""
    found = (path.relative_to(pair.path) for path in pair.path.rglob("*") if path.is_file())
    return {
        str(path)
        for path in found
        if path.parts[0] != ".hoodie" and (path.name[0] != "." or ".log." in path.name)
    }


def instants_of(names: Iterable[str]) -> set[str]:
    return {name.rsplit("_", 1)[1].split(".")[0] for name in names}


def result_of(pair: Pair, instant: str) -> CleanMetadata:
    return CleanMetadata.from_bytes((pair.path / f".hoodie/{instant}.clean").read_bytes())


def plan_of(pair: Pair, instant: str) -> CleanPlan:
    return CleanPlan.from_bytes((pair.path / f".hoodie/{instant}.clean.requested").read_bytes())


# --- policies ----------------------------------------------------------------------------------------------


def test_nothing_is_old_enough(table: Pair) -> None:
    before = listing(table.path)
    for mode in ("schedule", "run"):
        result = clean(table, mode)
        assert (result.status, result.scheduled, result.cleaned) == ("skipped", "", [])
        assert "the table has 6 commits, and the newest 10 commits are kept" in result.reason
    assert clean(table, "execute").reason == "no clean is pending"
    assert listing(table.path) == before


def test_commits_are_kept(table: Pair) -> None:
    times, before = commits(table), files(table)
    assert len(before) == 18
    result = keep(table, 2)
    assert (result.status, result.cleaned, result.pending) == ("cleaned", [result.instant], [])
    # what is as of the 5th commit, which is kept, needs its files; a query that began before it, the 4th's
    assert instants_of(files(table)) == set(times[3:])
    gone = before - files(table)
    assert set(result.files[result.instant]) == gone
    assert (result.num_files, result.failed, result.earliest) == (9, [], times[4])
    assert result.bytes > 9 * 1000
    table.check("after clean")
    with pytest.raises(ConfigError, match=times[4]):
        hoodie.read_table(str(table.path), as_of=times[1])
    assert hoodie.read_table(str(table.path), as_of=times[4]).num_rows == 30


def test_what_is_on_the_timeline_afterwards(table: Pair) -> None:
    times, before = commits(table), files(table)
    instant = keep(table, 2).instant
    folder = table.path / ".hoodie"
    requested, inflight = (folder / f"{instant}.clean.{state}" for state in ("requested", "inflight"))
    plan, done = plan_of(table, instant), result_of(table, instant)
    assert read_record("HoodieCleanerPlan", inflight.read_bytes()) == plan.to_record()
    assert requested.exists()
    assert plan.earliest == ActionInstant(times[4], "commit", "COMPLETED")
    assert (plan.last_completed, plan.policy, plan.version) == (times[5], "KEEP_LATEST_COMMITS", 2)
    assert (plan.delete_partitions, plan.extra_metadata) == ((), {})
    paths = {file.path for _, file in plan}
    assert paths == {f"{table.path}/{name}" for name in before - files(table)}
    assert (done.start_time, done.earliest, done.last_completed) == (instant, times[4], times[5])
    assert (done.total_files_deleted, done.version) == (9, 2)
    for partition, cleaned in done.partitions.items():
        names = tuple(file.name for file in plan.files[partition])
        assert cleaned.patterns == cleaned.deleted == names
        assert (cleaned.failed, cleaned.partition_deleted) == ((), False)


def test_versions_are_kept(table: Pair) -> None:
    times = commits(table)
    result = clean(
        table, **{POLICY.replace(".", "__"): "KEEP_LATEST_FILE_VERSIONS", VERSIONS.replace(".", "__"): 2}
    )
    assert instants_of(files(table)) == set(times[4:])
    assert (result.earliest, plan_of(table, result.instant).earliest) == ("", None)
    assert result_of(table, result.instant).earliest == ""
    table.check("after clean")


def test_hours_are_kept(tmp_path: Path) -> None:
    pair = written(tmp_path / "t", 4)
    loaded, config = timeline(pair), Config.of({"hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS"})
    times = [instant.time for instant in loaded.commits()]
    view = View.of(loaded, STORAGE, partitioned=True)

    def kept(now: int) -> set[str] | None:
        """As of a time, 24 hours after which commits are kept."""
        plan = make(view, Retention.of(config, now + 24 * 3_600_000, True), config).plan
        if plan is None:
            return None
        gone = {file.path for _, file in plan}
        assert plan.earliest is not None
        return instants_of(name for name in files(pair) if f"{pair.path}/{name}" not in gone)

    moments = [instant_millis(time, True) for time in times]
    assert kept(moments[0]) is None
    assert kept(moments[2]) == set(times[1:])
    assert kept(moments[2] - 1) == set(times[1:])
    assert kept(moments[3]) == set(times[2:])
    assert kept(moments[3] + 1) is None, "no commit is young enough, so it can't be told what is needed"
    assert clean(pair, hoodie__cleaner__policy="KEEP_LATEST_BY_HOURS").status == "skipped"


def test_an_instant_in_milliseconds_is_itself() -> None:
    for utc in (True, False):
        assert format_millis(instant_millis("20260102030405678", utc), utc) == "20260102030405678"


def test_when_a_clean_is_due(table: Pair) -> None:
    assert keep(table, 2, hoodie__clean__max__commits=3).status == "cleaned"
    result = keep(table, 1, hoodie__clean__max__commits=1)
    assert result.reason == "no clean is due: 0 of 1 commits since the last one (hoodie.clean.max.commits)"
    table.write(small_rows(range(30), 7))
    assert "1 of 2 commits" in keep(table, 1, hoodie__clean__max__commits=2).reason
    assert keep(table, 1, hoodie__clean__max__commits=1).num_files == 6
    assert keep(table, 1, hoodie__clean__max__commits=0).reason.startswith(
        "no file is older than what is kept"
    )


# --- where it looks ----------------------------------------------------------------------------------------


def one_region(pair: Pair, region: str, version: int) -> None:
    pair.write(small_rows(REGIONS[region], version))


def test_incremental_planning_looks_where_commits_changed_something(table: Pair) -> None:
    keep(table, 2)
    for version in range(7, 11):
        one_region(table, "eu", version)
    view = View.of(timeline(table), STORAGE, partitioned=True)
    seen: list[str] = []

    def spy(partition: str) -> Any:
        seen.append(partition)
        return STORAGE.list(f"{table.path}/{partition}")

    import dataclasses

    for incremental, expected in ((True, {"eu", "us", "apac"}), (False, {"eu", "us", "apac"})):
        config = Config.of({RETAINED: 2, "hoodie.cleaner.incremental.mode": incremental})
        make(dataclasses.replace(view, listing=spy), Retention.of(config, 0, True), config)
        assert set(seen) == expected
        seen.clear()
    assert keep(table, 2).partitions == ["apac", "eu", "us"]
    for version in range(11, 13):
        one_region(table, "eu", version)
    config = Config.of({RETAINED: 2})
    planned = make(
        dataclasses.replace(View.of(timeline(table), STORAGE, True), listing=spy),
        Retention.of(config, 0, True),
        config,
    )
    assert (set(seen), planned.looked_at) == ({"eu"}, 1)
    assert planned.plan is not None
    assert planned.plan.partitions == ["eu"]


def test_a_table_without_partitions(tmp_path: Path) -> None:
    options = {name: value for name, value in MANUAL.items() if "partitionpath" not in name}
    pair = Pair(tmp_path / "t", options, partition=())
    for version in range(1, 5):
        pair.write(small_rows(range(30), version))
    result = keep(pair, 1)
    assert (result.num_files, result.partitions, result.deleted_partitions) == (2, [""], [])
    assert all("/" not in name for name in result.files[result.instant])
    pair.write(small_rows(range(30), 5))
    assert keep(pair, 1).num_files == 1
    pair.check("after clean")


# --- what holds files --------------------------------------------------------------------------------------


def savepoint(pair: Pair, time: str) -> set[str]:
    """As Apache Hudi makes one: the latest files as of a commit."""
    saved: dict[str, Any] = {}
    for name in files(pair):
        folder, _, file = name.rpartition("/")
        if instants_of([name]) == {time}:
            saved.setdefault(folder, []).append(file)
    record = {
        "savepointedBy": "me",
        "savepointedAt": 0,
        "comments": "",
        "partitionMetadata": {
            path: {"partitionPath": path, "savepointDataFile": names} for path, names in saved.items()
        },
    }
    data = write_record("HoodieSavepointMetadata", record)
    create_instant(STORAGE, str(pair.path), Instant(time, Action.SAVEPOINT, State.COMPLETED), data)
    return {f"{path}/{name}" for path, names in saved.items() for name in names}


def test_a_savepoint_keeps_its_files_until_it_is_deleted(table: Pair) -> None:
    times = commits(table)
    saved = savepoint(table, times[1])
    assert len(saved) == 3
    result = keep(table, 1)
    assert instants_of(files(table)) == {times[1], *times[4:]}
    assert plan_of(table, result.instant).extra_metadata == {"savepointed_timestamps": times[1]}
    one_region(table, "eu", 7)
    keep(table, 1)
    assert saved <= files(table)
    (table.path / f".hoodie/{times[1]}.savepoint").unlink()
    one_region(table, "eu", 8)
    freed = keep(table, 1)
    assert saved <= set(freed.files[freed.instant]), "in partitions that no commit touched, too"
    table.check("after the savepoint")


def test_a_pending_compaction_keeps_what_it_reads(tmp_path: Path) -> None:
    pair = written(tmp_path / "t", 4, MOR)
    now = {"hoodie.compact.inline.max.delta.commits": 1}
    hoodie.compact_table(str(pair.path), options=now)
    pair.write(small_rows(range(30), 5))
    hoodie.compact_table(str(pair.path), mode="schedule", options=now)
    for version in (6, 7, 8):
        pair.write(small_rows(range(30), version))
    versions = {
        POLICY.replace(".", "__"): "KEEP_LATEST_FILE_VERSIONS",
        VERSIONS.replace(".", "__"): 1,
        "hoodie__clean__max__commits": 0,
    }
    before = files(pair)
    assert keep(pair, 1).status == "cleaned"
    assert clean(pair, **versions).status == "skipped"
    gone = before - files(pair)
    assert len(gone) == 12, "the first slices: three base files, nine logs"
    pair.check("pending")
    hoodie.compact_table(str(pair.path), mode="execute")
    pair.check("compacted")
    result = clean(pair, **versions)
    assert result.num_files == 6
    pair.check("all cleaned")
    assert len(files(pair)) == 3 + 9, "the compacted files, and the logs after it was scheduled"


def replace_commit(pair: Pair, partition: str) -> str:
    """What delete_partition leaves: a replacecommit of all groups of a partition."""
    groups = hoodie.file_groups(str(pair.path))
    ids = tuple(group["file_id"] for group in groups if group["partition"] == partition)
    last = timeline(pair).last_commit
    assert last is not None
    extra = CommitMetadata.parse(timeline(pair).read(last)).extra_metadata
    metadata = ReplaceCommitMetadata(
        {}, False, extra, "DELETE_PARTITION", partition_to_replace_file_ids={partition: ids}
    )
    time = f"{int(timeline(pair).last_time or 0) + 1}"
    for state, data in ((State.REQUESTED, b""), (State.INFLIGHT, b""), (State.COMPLETED, metadata.to_json())):
        create_instant(STORAGE, str(pair.path), Instant(time, Action.REPLACECOMMIT, state), data)
    gone = [row for row in pair.model.rows() if row["region"] == partition]
    pair.model.upsert([{**row, "_hoodie_is_deleted": True, "ts": 10**9} for row in gone])
    pair.check("replaced")
    return time


def test_replaced_groups_go_in_their_time_and_with_them_the_partition(table: Pair) -> None:
    replace_commit(table, "us")
    keep(table, 1)
    assert any(name.startswith("us/") for name in files(table)), "as of the commit before, it is there"
    one_region(table, "eu", 8)
    result = keep(table, 1)
    assert result.deleted_partitions == ["us"]
    assert not (table.path / "us").exists()
    assert result_of(table, result.instant).partitions["us"].partition_deleted
    table.check("without the partition")
    table.write(small_rows(range(100, 130), 9))
    table.check("the partition is back")


def test_a_partition_that_is_written_again_stays(table: Pair) -> None:
    replace_commit(table, "us")
    one_region(table, "eu", 8)
    one_region(table, "us", 10**7)
    result = keep(table, 1)
    assert (table.path / "us").exists()
    assert result.deleted_partitions == []
    table.check("written again")


def test_files_of_failed_writes_and_of_users_are_let_be(table: Pair) -> None:
    stranger = table.path / "us" / "notes.txt"
    stranger.write_text("mine")
    replace_commit(table, "us")
    one_region(table, "eu", 8)
    result = keep(table, 1)
    assert stranger.read_text() == "mine"
    assert result.deleted_partitions == []


def test_a_pending_write_keeps_what_a_query_before_it_reads(table: Pair) -> None:
    """Retention counts from the last commit before it, so that an async clean beside a writer is safe."""
    times = commits(table)
    later = f"{int(times[2]) + 1}"
    pending = Instant(later, Action.COMMIT, State.REQUESTED)
    create_instant(STORAGE, str(table.path), pending)
    assert Retention.of(Config.of({RETAINED: 1}), 0, True).earliest(timeline(table)) == Instant(
        times[2], Action.COMMIT, State.COMPLETED
    )


def test_a_pending_clustering_keeps_what_it_reads(table: Pair) -> None:
    times = commits(table)
    name = next(name for name in files(table) if name.startswith("eu/") and times[4] in name)
    item = {
        "dataFilePath": f"/elsewhere/{name}",
        "fileId": name.split("/")[1].split("_")[0],
        "partitionPath": "eu",
    }
    plan = {"inputGroups": [{"slices": [item]}]}
    data = write_record(
        "HoodieRequestedReplaceMetadata", {"operationType": "CLUSTER", "clusteringPlan": plan}
    )
    time = f"{int(times[4]) + 1}"
    create_instant(STORAGE, str(table.path), Instant(time, Action.REPLACECOMMIT, State.REQUESTED), data)
    result = clean(
        table, hoodie__cleaner__policy="KEEP_LATEST_FILE_VERSIONS", hoodie__cleaner__fileversions__retained=1
    )
    assert name in files(table)
    assert instants_of(name for name in files(table) if name[:2] != "eu") == {times[5]}
    assert instants_of(name for name in files(table) if name[:2] == "eu") == {times[4], times[5]}
    assert result.status == "cleaned"


# --- plans between runs ------------------------------------------------------------------------------------


def test_scheduled_now_and_executed_later(table: Pair) -> None:
    before = files(table)
    scheduled = clean(table, "schedule", hoodie__cleaner__commits__retained=2)
    assert (scheduled.status, scheduled.num_files, scheduled.pending) == ("scheduled", 9, [scheduled.instant])
    assert files(table) == before
    assert [str(item) for item in timeline(table).pending()] == [f"{scheduled.instant} clean requested"]
    table.write(small_rows(range(30), 7))
    done = clean(table, "execute")
    assert (done.status, done.cleaned, done.num_files) == ("cleaned", [scheduled.instant], 9)
    assert before - files(table) == set(done.files[scheduled.instant])
    table.check("executed")


def test_a_pending_plan_is_finished_first(table: Pair) -> None:
    first = clean(table, "schedule", hoodie__cleaner__commits__retained=4).instant
    some = plan_of(table, first).files["eu"][0].path
    Path(some).unlink()
    (table.path / f".hoodie/{first}.clean.inflight").write_bytes(plan_of(table, first).to_bytes())
    table.write(small_rows(range(30), 7))
    result = keep(table, 2)
    assert result.cleaned[0] == first
    assert len(result.cleaned) == 2
    assert result_of(table, first).total_files_deleted == 3, "a file that is gone was deleted"
    table.check("both")


def test_a_plan_of_a_copied_table_is_about_the_copy(table: Pair, tmp_path: Path) -> None:
    clean(table, "schedule", hoodie__cleaner__commits__retained=2)
    before = listing(table.path)
    copy = tmp_path / "copy"
    shutil.copytree(table.path, copy)
    assert hoodie.clean_table(str(copy), mode="execute").num_files == 9
    assert listing(table.path) == before
    assert_same_rows(hoodie.read_table(str(copy)), table.model.table(table.schema))


def test_a_plan_of_version_1(table: Pair) -> None:
    old = next(name for name in sorted(files(table)) if commits(table)[0] in name)
    partition, _, name = old.partition("/")
    record = {
        "policy": "KEEP_LATEST_COMMITS", "filesToBeDeletedPerPartition": {partition: [name]}, "version": 1
    }  # fmt: skip
    instant = Instant("20990101000000000", Action.CLEAN, State.REQUESTED)
    create_instant(STORAGE, str(table.path), instant, write_record("HoodieCleanerPlan", record))
    assert clean(table, "execute").files == {instant.time: [old]}
    assert old not in files(table)


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("left", [0, 40])
def test_a_plan_that_was_cut_while_it_was_written_is_removed(table: Pair, state: State, left: int) -> None:
    instant = clean(table, "schedule", hoodie__cleaner__commits__retained=2).instant
    requested = table.path / f".hoodie/{instant}.clean.requested"
    if state is State.INFLIGHT:
        requested.with_suffix(".inflight").write_bytes(requested.read_bytes()[:left])
    requested.write_bytes(requested.read_bytes()[:left])
    before = files(table)
    if state is State.INFLIGHT and left:
        with pytest.raises(TableError, match=f"clean {instant} was begun and its plan can't be read"):
            keep(table, 2)
        assert files(table) == before
        return
    assert clean(table, "execute", dry_run=True).pending == [instant]
    assert clean(table, "execute").reason == "no clean is pending"
    assert not list(table.path.glob(f".hoodie/{instant}.*"))
    assert files(table) == before
    assert keep(table, 2).num_files == 9


def test_an_empty_result_of_an_old_crash_makes_the_next_clean_look_everywhere(table: Pair) -> None:
    instant = keep(table, 3).instant
    (table.path / f".hoodie/{instant}.clean").write_bytes(b"")
    assert keep(table, 2).num_files == 3


def test_files_of_a_bootstrap_are_not_ours_to_delete(table: Pair) -> None:
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"eu": (CleanFile("/source/a.parquet", bootstrap=True),)})
    instant = Instant("20990101000000000", Action.CLEAN, State.REQUESTED)
    create_instant(STORAGE, str(table.path), instant, plan.to_bytes())
    with pytest.raises(TableError, match=r"bootstrapped.*run this clean with Apache Hudi"):
        clean(table, "execute")


# --- failures ----------------------------------------------------------------------------------------------


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of files that can't be deleted."""
    names: set[str] = set()
    delete = LocalStorage.delete

    def refuse(self: LocalStorage, path: str) -> None:
        if path.rpartition("/")[2] in names:
            raise PermissionError(13, "Permission denied", path)
        delete(self, path)

    monkeypatch.setattr(LocalStorage, "delete", refuse)
    return names


def test_what_can_not_be_deleted_is_recorded_and_tried_again(table: Pair, stuck: set[str]) -> None:
    old = next(name for name in sorted(files(table)) if name.startswith("eu/") and commits(table)[0] in name)
    stuck.add(old.split("/")[1])
    result = keep(table, 2)
    assert (result.status, result.num_files, result.failed) == ("cleaned", 8, [old])
    cleaned = result_of(table, result.instant).partitions["eu"]
    assert cleaned.failed == (old.split("/")[1],)
    assert len(cleaned.patterns) == 3
    assert len(cleaned.deleted) == 2
    assert old in files(table)
    again = keep(table, 2)
    assert again.files == {again.instant: [old]}, "due without a commit, and nothing but this file"
    assert again.failed == [old]
    stuck.clear()
    assert keep(table, 2).num_files == 1
    assert old not in files(table)
    assert keep(table, 2).status == "skipped"


def test_an_automatic_clean_that_can_not_delete_warns(table: Pair, stuck: set[str]) -> None:
    stuck |= {name.split("/")[1] for name in files(table)}
    options = {"hoodie__clean__automatic": "true", "hoodie__cleaner__commits__retained": 2}
    (warning,) = table.write(small_rows(range(30), 7), **options).warnings
    assert warning.startswith("12 old files could not be deleted, such as ")
    assert warning.endswith("; the next clean tries again")


def test_a_writer_at_work_keeps_a_plan_away_but_not_its_execution(table: Pair) -> None:
    instant = clean(table, "schedule", hoodie__cleaner__commits__retained=4).instant
    table.write(small_rows(range(30), 7))
    with Transaction(STORAGE, str(table.path), Config.of({}), True) as writer:
        writer.begin()
        before = listing(table.path)
        with pytest.raises(ConflictError, match="another writer is at work"):
            clean(table, "schedule", hoodie__cleaner__commits__retained=2)
        assert {**listing(table.path), **before} == before
        assert clean(table, "execute").cleaned == [instant]


def test_two_processes_with_one_plan(table: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    instant = clean(table, "schedule", hoodie__cleaner__commits__retained=2).instant
    from hoodie.services.clean import execute

    complete = execute._complete

    def late(*args: Any) -> None:
        monkeypatch.setattr(execute, "_complete", complete)
        assert clean(table, "execute").cleaned == [instant]
        complete(*args)

    monkeypatch.setattr(execute, "_complete", late)
    result = clean(table, "execute")
    assert (result.status, result.cleaned) == ("skipped", [])
    assert result.reason == f"clean {instant} was completed by another process"


# --- dry run, settings, and after writes -------------------------------------------------------------------


def test_a_dry_run_changes_nothing_and_tells_all(table: Pair) -> None:
    savepoint(table, commits(table)[0])
    before = listing(table.path)
    result = clean(table, dry_run=True, hoodie__cleaner__commits__retained=2)
    assert (result.status, result.dry_run, result.cleaned, result.scheduled) == ("planned", True, [], "")
    assert listing(table.path) == before
    done = keep(table, 2)
    assert result.files == {"": done.files[done.instant]}
    assert (result.num_files, result.bytes, result.earliest) == (done.num_files, done.bytes, done.earliest)
    assert clean(table, dry_run=True, hoodie__cleaner__commits__retained=2).reason.startswith(
        "no clean is due"
    )


def test_settings_are_checked_against_each_other_before_any_write(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", MANUAL)
    wrong: list[tuple[dict[str, int], str]] = [
        ({RETAINED: 21}, r"hoodie.cleaner.commits.retained=21 must be at most hoodie.keep.min.commits=20"),
        ({"hoodie.keep.min.commits": 30}, r"=30 must be less than hoodie.keep.max.commits=30"),
        ({"hoodie.keep.max.commits": 20}, r"hoodie.keep.min.commits=20 must be less than"),
    ]  # fmt: skip
    for options, said in wrong:
        with pytest.raises(ConfigError, match=said):
            pair.write(small_rows(range(3), 1), **{name.replace(".", "__"): n for name, n in options.items()})
        assert not pair.path.exists()
    pair.write(small_rows(range(3), 1))
    for options, said in wrong:
        for service in (hoodie.clean_table, hoodie.archive_table):
            with pytest.raises(ConfigError, match=said):
                service(str(pair.path), options=options)  # type: ignore[operator]
    allowed = {RETAINED: 21, "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}
    assert hoodie.clean_table(str(pair.path), options=allowed).status == "skipped"


def test_a_wrong_mode(table: Pair) -> None:
    with pytest.raises(ConfigError, match="mode is 'now'; use one of schedule, execute, run"):
        clean(table, "now")


def test_writes_clean_by_themselves(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, RETAINED: 2})
    for version in range(1, 7):
        assert pair.write(small_rows(range(30), version)).warnings == []
    assert instants_of(files(pair)) == set(commits(pair)[3:])
    assert len(timeline(pair).filter([Action.CLEAN], completed=True)) == 3
    assert pair.write(small_rows(range(30), 7), hoodie__clean__automatic="false").warnings == []
    assert len(timeline(pair).filter([Action.CLEAN])) == 3


def test_what_fails_after_a_write_is_a_warning(table: Pair) -> None:
    folder = table.path / ".hoodie"
    create_instant(STORAGE, str(table.path), Instant("20990101000000000", Action.CLEAN, State.INFLIGHT))
    (folder / "20990101000000000.clean.requested").write_bytes(b"torn")
    (warning,) = table.write(small_rows(range(30), 7), hoodie__clean__automatic="true").warnings
    assert warning.startswith("the rows are committed, but the inline clean failed: clean 20990101000000000")
    assert warning.endswith("(hoodie clean repeats it)")


def test_the_result_is_json(table: Pair) -> None:
    assert json.loads(json.dumps(keep(table, 2).to_dict()))["operation"] == "clean"
