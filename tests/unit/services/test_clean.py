"""Cleaning tables that we wrote: policies, where the planner looks, what holds files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.codec.avro import read_record, write_record
from hoodie.config.key import Config
from hoodie.errors import StateUnavailable
from hoodie.services.clean.plan import View, make
from hoodie.services.clean.policy import Examined, Retention
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import format_millis, instant_millis
from hoodie.timeline.commit import ReplaceCommitMetadata
from hoodie.timeline.instant import Action, Instant, State, in_order
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.models.clean import ActionInstant
from hoodie.timeline.time import InstantTime
from tests.support.handles import table_at
from tests.support.large_table import OPTIONS as LARGE
from tests.support.large_table import LargeTable
from tests.support.requests import counted
from tests.support.stores import instant_file, publish, store_at
from tests.support.tables import as_table, small_rows
from tests.unit.services.clean_support import (
    MANUAL,
    MOR,
    POLICY,
    RETAINED,
    STORAGE,
    VERSIONS,
    clean,
    commits,
    files,
    instants_of,
    keep,
    one_region,
    plan_of,
    result_of,
    savepoint,
    timeline,
    written,
)
from tests.unit.write.support import Pair, listing

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
    with pytest.raises(StateUnavailable, match=times[4]):
        hoodie.read_table(str(table.path), as_of=times[1])
    assert hoodie.read_table(str(table.path), as_of=times[4]).num_rows == 30


@pytest.mark.table_version(6)
def test_what_is_on_the_timeline_afterwards(table: Pair) -> None:
    times, before = commits(table), files(table)
    instant = keep(table, 2).instant
    folder = table.path / ".hoodie"
    requested, inflight = (folder / f"{instant}.clean.{state}" for state in ("requested", "inflight"))
    plan, done = plan_of(table, instant), result_of(table, instant)
    assert read_record("HoodieCleanerPlan", inflight.read_bytes()) == plan.to_record()
    assert requested.exists()
    assert plan.earliest == ActionInstant(InstantTime(times[4]), "commit", "COMPLETED")
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
    versions: dict[str, Any] = {
        POLICY.replace(".", "__"): "KEEP_LATEST_FILE_VERSIONS",
        VERSIONS.replace(".", "__"): 2,
    }
    result = clean(table, **versions)
    assert instants_of(files(table)) == set(times[4:])
    assert (result.earliest, plan_of(table, result.instant).earliest) == ("", None)
    assert result_of(table, result.instant).earliest == ""
    table.check("after clean")


def test_hours_are_kept(tmp_path: Path) -> None:
    pair = written(tmp_path / "t", 4)
    loaded, config = timeline(pair), Config.of({"hoodie.cleaner.policy": "KEEP_LATEST_BY_HOURS"})
    times = [instant.time for instant in loaded.commits()]
    view = View.of(table_at(loaded.base_path), loaded, partitioned=True)

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


def test_incremental_planning_looks_where_commits_changed_something(table: Pair) -> None:
    keep(table, 2)
    for version in range(7, 11):
        one_region(table, "eu", version)
    view = View.of(table_at(table.path), timeline(table), partitioned=True)
    seen: list[str] = []

    def spy(partition: str) -> Any:
        seen.append(partition)
        return STORAGE.list(f"{table.path}/{partition}")

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
        dataclasses.replace(View.of(table_at(table.path), timeline(table), True), listing=spy),
        Retention.of(config, 0, True),
        config,
    )
    assert seen == ["eu"]
    assert planned.plan is not None
    assert planned.plan.partitions == ["eu"]


def test_a_table_that_only_grows_is_not_looked_through_after_each_commit(tmp_path: Path) -> None:
    """Neither before commits are archived nor afterwards; what is to be cleaned is found all the same."""
    large = LargeTable(str(tmp_path / "t"), 40, files=1, commits=1, rows=2)
    large.make()
    options = {**LARGE, RETAINED: 2, "hoodie.keep.min.commits": 4, "hoodie.keep.max.commits": 6}
    looked: list[int] = []
    for number in range(14):
        with counted(large.path) as requests:
            rows = large.upsert(range(40 + number, 41 + number), 1)
            done = hoodie.write_table(rows, large.path, options=options)
        assert done.warnings == []
        looked.append(sum(name == "list" and path.startswith("/p") for name, path, _ in requests.calls))
    assert max(looked) > 40, "once"
    assert max(looked[looked.index(max(looked)) + 1 :]) < 10, looked
    for version in range(2, 8):
        hoodie.write_table(large.upsert(range(3, 4), version), large.path, options=options)
    assert len(list((tmp_path / "t" / "p000003").glob("*.parquet"))) <= 4
    (tmp_path / "t/.hoodie/.aux/airflow-examined.json").write_text("{")
    assert hoodie.clean_table(large.path, options=options).status == "skipped"


def test_a_note_without_its_commit_is_not_believed(tmp_path: Path) -> None:
    """Such as one that says too much: files would never be deleted again."""
    pair = Pair(tmp_path / "t", {**MANUAL, "hoodie.parquet.small.file.limit": "0"})
    for number in range(4):
        pair.write(small_rows(range(30 * number, 30 * number + 30), 1))
    assert keep(pair, 1).status == "skipped"
    newest = commits(pair)[-1]
    assert Examined.read(STORAGE, str(pair.path)) == Examined(InstantTime(newest), ())
    assert View.of(table_at(pair.path), timeline(pair), partitioned=True).since == newest
    for version in range(2, 4):
        pair.write(small_rows(range(30), version))
    for earliest in ("9" * 17, f"{int(newest) + 1}", "z"):
        Examined(InstantTime(earliest), ()).save(STORAGE, str(pair.path))
        view = View.of(table_at(pair.path), timeline(pair), partitioned=True)
        assert view.since is None
    assert keep(pair, 1).status == "cleaned"


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
    instant_file(table.path, times[1], "savepoint").unlink()
    one_region(table, "eu", 8)
    freed = keep(table, 1)
    assert saved <= set(freed.files[freed.instant]), "in partitions that no commit touched, too"
    table.check("after the savepoint")


def test_a_pending_compaction_keeps_what_it_reads(tmp_path: Path) -> None:
    pair = written(tmp_path / "t", 2, MOR)
    now = {"hoodie.compact.inline.max.delta.commits": 1}
    hoodie.compact_table(str(pair.path), options=now)
    pair.write(small_rows(range(30), 5))
    hoodie.compact_table(str(pair.path), mode="schedule", options=now)
    for version in (6, 7):
        pair.write(small_rows(range(30), version))
    versions: dict[str, Any] = {
        POLICY.replace(".", "__"): "KEEP_LATEST_FILE_VERSIONS",
        VERSIONS.replace(".", "__"): 1,
        "hoodie__clean__max__commits": 0,
    }
    before = files(pair)
    assert keep(pair, 1).status == "cleaned"
    assert clean(pair, **versions).status == "skipped"
    gone = before - files(pair)
    assert len(gone) == 6, "the first slices: three base files, three logs"
    pair.check("pending")
    hoodie.compact_table(str(pair.path), mode="execute")
    pair.check("compacted")
    result = clean(pair, **versions)
    assert result.num_files == 6
    pair.check("all cleaned")
    assert len(files(pair)) == 3 + 6, "the compacted files, and the logs after it was scheduled"


def replace_commit(pair: Pair, partition: str) -> str:
    """What delete_partition leaves: a replacecommit of all groups of a partition."""
    groups = hoodie.file_groups(str(pair.path))
    ids = tuple(group["file_id"] for group in groups if group["partition"] == partition)
    last = timeline(pair).last_commit
    assert last is not None
    extra = timeline(pair).commit(last).extra_metadata
    metadata = ReplaceCommitMetadata(
        {}, False, extra, "DELETE_PARTITION", partition_to_replace_file_ids={partition: ids}
    )
    time = f"{int(timeline(pair).last_time or 0) + 1}"
    for state in (State.REQUESTED, State.INFLIGHT):
        store_at(pair.path).create(Instant(InstantTime(time), Action.REPLACECOMMIT, state))
    publish(pair.path, Instant(InstantTime(time), Action.REPLACECOMMIT, State.COMPLETED), metadata)
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
    pending = Instant(InstantTime(later), Action.COMMIT, State.REQUESTED)
    store_at(table.path).create(pending)
    assert Retention.of(Config.of({RETAINED: 1}), 0, True).earliest(timeline(table)) == Instant(
        InstantTime(times[2]), Action.COMMIT, State.COMPLETED
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
    store = store_at(table.path)
    store.create(Instant(InstantTime(time), store.layout.clustering, State.REQUESTED), data)
    result = clean(
        table, hoodie__cleaner__policy="KEEP_LATEST_FILE_VERSIONS", hoodie__cleaner__fileversions__retained=1
    )
    assert name in files(table)
    assert instants_of(name for name in files(table) if name[:2] != "eu") == {times[5]}
    assert instants_of(name for name in files(table) if name[:2] == "eu") == {times[4], times[5]}
    assert result.status == "cleaned"


@pytest.mark.parametrize("pending", ["compaction.requested", "compaction.inflight", "deltacommit.inflight"])
def test_a_pending_compaction_or_write_bounds_what_may_go(pending: str) -> None:
    """A query of the state it began with stays, even where newer commits are enough."""
    names = [f"{number:017}.deltacommit" for number in (1, 2, 4, 5)] + [f"{3:017}.{pending}"]
    instants = tuple(in_order(item for item in map(ONE.parse, names) if item))
    retention = Retention.of(Config.of({"hoodie.cleaner.commits.retained": 1}), 0, True)
    found = retention.earliest(Timeline("/t", instants, {}))
    assert found is not None
    assert found.time == f"{2:017}"


def test_an_instant_that_is_archived_while_a_clean_is_planned(
    table: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process cleans and archives; the clean lists the timeline again."""
    rows = as_table(small_rows(range(3), 7), table.schema)
    hoodie.write_table(rows, str(table.path), operation="insert_overwrite")
    for number in range(3):
        hoodie.write_table(as_table(small_rows(range(3), 8 + number), table.schema), str(table.path))
    replaced = next(iter(timeline(table).filter([Action.REPLACECOMMIT], completed=True)))
    read, archived = LocalStorage.read, list[str]()

    def archiving(storage: LocalStorage, path: str) -> bytes:
        if replaced.time in path and path.endswith(".replacecommit") and not archived:
            archived.append(path)
            options = {"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2"}
            hoodie.clean_table(str(table.path), options=options)
            hoodie.archive_table(str(table.path), options={**options, "hoodie.keep.max.commits": "3"})
        return read(storage, path)

    monkeypatch.setattr(LocalStorage, "read", archiving)
    result = keep(table, 1)
    assert archived
    assert not timeline(table).filter([Action.REPLACECOMMIT])
    assert result.status == "skipped"
