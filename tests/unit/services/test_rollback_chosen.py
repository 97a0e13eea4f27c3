"""Rollback of an instant that the user chose: what may be taken back, what it leaves, what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import Commits
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.services.rollback.run import RollbackResult
from hoodie.table.heartbeat import Heartbeat
from hoodie.timeline import tokens
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata, RollbackPlan, RollbackRequest
from hoodie.timeline.time import REQUESTED, InstantTime
from tests.support.faults import die_at
from tests.support.handles import table_at
from tests.support.stores import after, instant_file, store_at
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.services.clean_support import files, instants_of, keep, timeline
from tests.unit.services.undo_support import COPY_ON_WRITE, MERGE_ON_READ, TYPES, History, three_commits
from tests.unit.write.support import Templates, listing


@pytest.fixture(params=full_but({MERGE_ON_READ}, TYPES))
def history(request: pytest.FixtureRequest, tmp_path: Path, templates: Templates) -> History:
    return templates.copy(tmp_path / "t", three_commits, request.param)


def rollback(history: History, instant: str, dry_run: bool = False) -> RollbackResult:
    return hoodie.rollback_table(str(history.path), instant, dry_run=dry_run)


@pytest.mark.parametrize("history", TYPES, indirect=True)
def test_the_newest_commit_is_as_if_it_had_never_been(history: History) -> None:
    first, second, third = history.commits()
    before = files(history)
    result = rollback(history, third)
    assert (result.status, result.target, result.target_state) == ("rolled_back", third, "completed")
    assert set(result.files) == before - files(history)
    assert result.num_files == len(result.files) > 0
    assert history.commits() == [first, second]
    history.back_to(second)
    assert hoodie.read_table(str(history.path), begin=after(history.path, second)).num_rows == 0
    done = RollbackMetadata.from_bytes(timeline(history).read(timeline(history).instants[-1]))
    assert (done.commits, done.total_files_deleted) == ((third,), result.num_files)
    history.change(4)
    assert rollback(history, history.commits()[-1]).status == "rolled_back"
    assert rollback(history, second).status == "rolled_back"
    history.back_to(first)
    assert hoodie.read_table(str(history.path), begin="earliest").num_rows == len(history.model.rows())


def test_a_dry_run_names_the_files_and_changes_nothing(history: History) -> None:
    third, before = history.commits()[-1], listing(history.path)
    planned = rollback(history, third, dry_run=True)
    assert listing(history.path) == before
    assert (planned.status, planned.instant) == ("planned", "")
    sizes = sum((history.path / name).stat().st_size for name in planned.files)
    assert planned.bytes == sizes > 0
    assert rollback(history, third).files == planned.files


def test_rolled_back_twice_is_no_error(history: History) -> None:
    third = history.commits()[-1]
    done, before = rollback(history, third), listing(history.path)
    again = rollback(history, third)
    assert (again.status, again.reason) == ("skipped", f"{third} was rolled back by {done.instant} already")
    assert listing(history.path) == before


@pytest.mark.parametrize("history", full_but({COPY_ON_WRITE}, TYPES), indirect=True)
def test_sensors_and_tokens_do_not_count_it_any_more(history: History) -> None:
    path = str(history.path)
    extra = {tokens.TOKEN_KEY: "dag/task/day", tokens.FINGERPRINT_KEY: "x"}

    def write() -> str:
        rows = as_table(small_rows([1], 9), SMALL_SCHEMA)
        result = hoodie.write_table(rows, path, options=history.options, extra_metadata=extra)
        return f"{result.status} {result.instant}"

    status, instant = write().split()
    assert write() == f"already_committed {instant}"
    reader, condition = TableReader(path), Commits.of(after=history.commits()[-2])
    assert condition.find(reader, reader.poll()) is not None
    rollback(history, instant)
    assert condition.find(reader, reader.poll()) is None
    for version in range(4, 9):  # the timeline begins after it: it must not seem archived
        history.change(version)
    options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    hoodie.archive_table(path, options={**options, "hoodie.cleaner.commits.retained": 1})
    assert REQUESTED.after(history.commits()[0], instant)
    assert write().split()[0] == status == "committed"


def test_what_stands_in_the_way_is_named(history: History) -> None:
    path, (first, second, third) = str(history.path), history.commits()
    before = listing(history.path)
    with pytest.raises(TableError, match=rf"{second}.*later commits.*\({third}\).*--instant {first}"):
        rollback(history, second)
    with pytest.raises(ConfigError, match=f"no instant 20990101000000000 .*{third}"):
        rollback(history, "20990101000000000")
    assert listing(history.path) == before
    hoodie.savepoint_table(path, InstantTime(third))
    with pytest.raises(TableError, match=f"savepoint --table {path} --instant {third} --delete"):
        rollback(history, third)
    hoodie.delete_savepoint(path, InstantTime(third))
    assert rollback(history, third).status == "rolled_back"
    clean = Instant(InstantTime("20260101000000000"), Action.CLEAN, State.REQUESTED)
    store_at(path).create(clean, b"x")
    with pytest.raises(ConfigError, match="hoodie clean --mode execute"):
        rollback(history, clean.time)


@pytest.mark.parametrize("operation", ["upsert", "insert_overwrite"])
def test_not_without_the_files_of_the_commit_before(tmp_path: Path, operation: str) -> None:
    """Apache Hudi would lose the rows: a clean by versions has taken the slices before the newest."""
    history = History(tmp_path / "t")
    history.change(1)
    history.write(small_rows(range(12), 2), operation)
    options = {
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.cleaner.fileversions.retained": 1,
    }
    assert hoodie.clean_table(str(history.path), options=options).num_files
    before = listing(history.path)
    with pytest.raises(TableError, match=r"files that the cleaner has deleted: file group .* of partition"):
        rollback(history, history.commits()[-1])
    assert listing(history.path) == before


def test_a_pending_clean_counts_as_done(tmp_path: Path) -> None:
    history = History(tmp_path / "t")
    for version in (1, 2):
        history.change(version)
    options = {
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.cleaner.fileversions.retained": 1,
    }
    planned = hoodie.clean_table(str(history.path), mode="schedule", options=options)
    with pytest.raises(TableError, match=f"pending clean {planned.scheduled} is going to delete"):
        rollback(history, history.commits()[-1])


def test_not_where_all_commits_before_are_archived(tmp_path: Path) -> None:
    history = History(tmp_path / "t")
    for version in range(1, 6):
        history.change(version)
    keep(history, 1)
    options = {"hoodie.keep.min.commits": 1, "hoodie.keep.max.commits": 2}
    hoodie.archive_table(str(history.path), options={**options, "hoodie.cleaner.commits.retained": 1})
    while len(history.commits()) > 1:
        rollback(history, history.commits()[-1])
    with pytest.raises(TableError, match="all commits before it are archived"):
        rollback(history, history.commits()[-1])


def test_the_first_commit(tmp_path: Path) -> None:
    history = History(tmp_path / "t")
    first = history.change(1)
    rollback(history, first)
    assert hoodie.read_table(str(history.path)).num_rows == 0
    assert files(history) == set()
    history.model.stored.clear()
    history.change(2)


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_replaced_files_come_back(history: History, operation: str) -> None:
    before = history.commits()[-1]
    instant = history.write(small_rows(range(100, 103), 5), operation).instant
    assert rollback(history, instant).target_action == "replacecommit"
    history.back_to(before)


def test_deleted_partitions_come_back(history: History) -> None:
    before = history.commits()[-1]
    instant = hoodie.delete_partitions(str(history.path), ["eu"]).instant
    assert rollback(history, instant).num_files == 0
    history.back_to(before)


class TestCompactions:
    @pytest.fixture
    def planned(self, tmp_path: Path, templates: Templates) -> tuple[History, str]:
        """Delta commits, and a pending compaction."""
        history = templates.copy(tmp_path / "t", three_commits, MERGE_ON_READ)
        return history, history.compact("schedule")

    def test_a_completed_one_goes_with_its_plan(self, planned: tuple[History, str]) -> None:
        history, instant = planned
        history.compact("execute")
        before = files(history)
        result = rollback(history, instant)
        assert (result.target_action, result.target_state) == ("commit", "completed")
        assert instants_of(result.files) == {instant}
        assert files(history) == before - set(result.files)
        assert history.actions() == ["deltacommit completed"] * 3 + ["rollback completed"]
        history.check()
        history.change(4)
        history.compact()

    def test_not_once_there_are_delta_commits_on_top(self, planned: tuple[History, str]) -> None:
        history, instant = planned
        later = history.change(4)
        history.compact("execute")
        with pytest.raises(TableError, match=rf"later commits may depend on it \({later}\)"):
            rollback(history, instant)

    def test_a_delta_commit_that_a_plan_holds_stays(self, planned: tuple[History, str]) -> None:
        history, instant = planned
        with pytest.raises(TableError, match=f"pending compaction {instant} was planned on top of it"):
            rollback(history, history.commits()[-1])
        later = history.change(4)
        assert rollback(history, later).status == "rolled_back"
        history.back_to(history.commits()[-1])
        assert history.compact("execute") == instant

    def test_an_attempt_leaves_the_plan(self, planned: tuple[History, str]) -> None:
        history, instant = planned
        skipped = rollback(history, instant)
        assert skipped.status == "skipped"
        assert skipped.reason.startswith(f"compaction {instant} is planned")
        store_at(history.path).create(Instant(InstantTime(instant), Action.COMPACTION, State.INFLIGHT))
        group = next(iter(sorted(files(history)))).split("/")[1].split("_")[0]
        torn = history.path / f"apac/{group}_0-1-2_{instant}.parquet"
        torn.write_bytes(b"half")
        result = rollback(history, instant)
        assert (result.status, result.files) == ("rolled_back", [f"apac/{torn.name}"])
        assert "compaction requested" in history.actions()
        history.check()
        assert history.compact("execute") == instant


def test_a_pending_clustering_goes_with_its_plan(golden_tables: Path, tmp_path: Path) -> None:
    source = golden_tables / "0.15.0-v6/cow_pending_clustering"
    path = tmp_path / "t"
    shutil.copytree(source / "table", path)
    before = hoodie.read_table(str(path))
    (plan,) = path.glob(".hoodie/*.replacecommit.requested")
    instant = plan.name.split(".")[0]
    (path / f".hoodie/{instant}.replacecommit.inflight").touch()
    result = hoodie.rollback_table(str(path), instant)
    assert (result.status, result.target_state) == ("rolled_back", "inflight")
    assert [item for item in Timeline.load(str(path)) if item.action is Action.REPLACECOMMIT] == []
    assert hoodie.read_table(str(path)).sort_by("id").equals(before.sort_by("id"))
    rows = as_table(small_rows([0], 9), SMALL_SCHEMA).drop_columns("_hoodie_is_deleted")
    assert hoodie.write_table(rows, str(path)).status == "committed"


def test_an_attempt_at_a_clustering_that_apache_hudi_takes_back_leaves_the_plan(
    golden_tables: Path, tmp_path: Path
) -> None:
    """It was killed on the way; the next writer finishes that."""
    path = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6/cow_pending_clustering/table", path)
    (plan,) = path.glob(".hoodie/*.replacecommit.requested")
    instant = plan.name.split(".")[0]
    (path / f".hoodie/{instant}.replacecommit.inflight").touch()
    torn = path / f"eu/11111111-0_0-1-2_{instant}.parquet"
    torn.write_bytes(b"half")
    request = RollbackRequest("eu", files_to_delete=(str(torn),))
    rollback_ = Instant(InstantTime(str(int(instant) + 1)), Action.ROLLBACK, State.REQUESTED)
    made = RollbackPlan(InstantInfo(InstantTime(instant), "replacecommit"), (request,))
    store_at(path).create(rollback_, made.to_bytes())
    rows = as_table(small_rows([9000], 9), SMALL_SCHEMA).drop_columns("_hoodie_is_deleted")
    assert hoodie.write_table(rows, str(path)).rolled_back == [instant]
    assert not torn.exists()
    assert [str(item) for item in Timeline.load(str(path)).pending()] == [
        f"{instant} replacecommit requested"
    ]


@pytest.mark.parametrize("kind", TYPES)
def test_a_failed_write(tmp_path: Path, kind: str) -> None:
    history = History(tmp_path / "t", kind)
    first = history.change(1)
    rows: pa.Table = as_table(small_rows(range(20), 2), SMALL_SCHEMA)
    die_at(
        history.path,
        lambda path: hoodie.write_table(rows, path, options=history.options),
        lambda change: change.name == "create" and change.path.endswith((".commit", ".deltacommit")),
    )
    (failed,) = timeline(history).pending()
    before = listing(history.path)
    planned = rollback(history, failed.time, dry_run=True)
    assert listing(history.path) == before
    result = rollback(history, failed.time)
    assert (result.target_state, result.files) == ("inflight", planned.files)
    assert result.rolled_back == []
    history.back_to(first)
    assert timeline(history).pending() == []


def test_beside_a_writer_it_is_refused(history: History) -> None:
    third = history.commits()[-1]
    before = {name: text for name, text in listing(history.path).items() if "heartbeat" not in name}
    beat = Heartbeat(table_at(history.path), "20990101000000000", 60_000, 2)
    beat.start()
    try:
        with pytest.raises(ConflictError, match="another writer is at work"):
            rollback(history, third)
    finally:
        beat.stop()
    assert {name: text for name, text in listing(history.path).items() if "heartbeat" not in name} == before


def test_the_plan_names_each_file_once(history: History) -> None:
    result = rollback(history, history.commits()[-1])
    asked = instant_file(history.path, result.instant, "rollback.requested").read_bytes()
    paths = [path for item in RollbackPlan.from_bytes(asked).requests for path in item.files_to_delete]
    assert sorted(paths) == sorted({f"{history.path}/{name}" for name in result.files})
