"""Restore: every later instant is taken back, or nothing is done and the error says why."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.services.restore import run as plans
from hoodie.services.restore.run import RestoreResult
from hoodie.table.heartbeat import Heartbeat, Work, heartbeat_path
from hoodie.table.markers import Marker, MarkerType, create_marker
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackPlan, RollbackRequest
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.write.rollback import executor
from tests.support.faults import Faults, InjectedFault, die_at, injected
from tests.support.handles import table_at
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.stores import instant_file, store_at, timeline_at
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.services.clean_support import STORAGE, files, keep, timeline
from tests.unit.services.undo_support import COPY_ON_WRITE, MERGE_ON_READ, TYPES, History, changed
from tests.unit.write.support import Templates, listing


def four_commits(path: Path, kind: str) -> History:
    """The second with a savepoint; in logs, too, a compaction among them."""
    made = History(path, kind)
    made.change(1)
    saved = made.change(3)
    hoodie.savepoint_table(str(made.path))
    made.write(small_rows(range(40, 45), 4), "insert_overwrite")
    if kind == MERGE_ON_READ:
        made.compact()
    made.change(5)
    assert made.commits()[1] == saved
    return made


@pytest.fixture(params=full_but({MERGE_ON_READ}, TYPES))
def history(request: pytest.FixtureRequest, tmp_path: Path, templates: Templates) -> History:
    return templates.copy(tmp_path / "t", four_commits, request.param)


def restore(history: History, instant: str, dry_run: bool = False) -> RestoreResult:
    return hoodie.restore_table(str(history.path), InstantTime(instant), dry_run=dry_run)


def test_back_to_a_savepoint(history: History) -> None:
    first, saved, *later = history.commits()
    before = files(history)
    result = restore(history, saved)
    assert (result.status, result.restored_to, result.resumed) == ("restored", saved, False)
    assert [item["instant"] for item in result.undone] == later[::-1]
    assert set(result.files) == before - files(history)
    assert (result.num_files, result.voided) == (len(result.files), [])
    history.back_to(saved)
    assert history.commits() == [first, saved]
    assert [str(item) for item in timeline(history)][2:] == [
        f"{saved} savepoint completed",
        f"{result.instant} restore completed",
    ]
    assert not list(history.path.glob(".hoodie/.temp/*"))
    again = restore(history, saved)
    assert (again.status, again.reason) == ("skipped", f"{saved} is the newest commit already")
    assert (again.instant, again.partitions) == (result.instant, result.partitions), "a retry finds it"
    history.change(6)
    history.change(7)
    history.check_hudi_rs()


def test_plan_and_result_are_as_apache_hudi_has_them(history: History) -> None:
    _, saved, *later = history.commits()
    actions = {str(item.time): item.action.value for item in timeline(history).commits()}
    result = restore(history, saved)
    requested = instant_file(history.path, result.instant, "restore.requested")
    plan = RestorePlan.from_bytes(requested.read_bytes())
    wanted = tuple(InstantInfo(InstantTime(time), actions[time]) for time in later[::-1])
    assert plan == RestorePlan(wanted, InstantTime(saved), 2)
    assert requested.with_suffix(".inflight").stat().st_size == 0
    done = RestoreMetadata.from_bytes(instant_file(history.path, result.instant, "restore").read_bytes())
    assert (done.start_time, done.instants, done.version) == (result.instant, wanted, 1)
    assert set(done.rollbacks) == set(later)
    assert done.total_files_deleted == result.num_files
    for time, (metadata,) in done.rollbacks.items():
        assert metadata.commits == (time,)
        assert REQUESTED.after(metadata.start_time, result.instant)


def test_a_dry_run_names_instants_and_files_and_changes_nothing(history: History) -> None:
    saved, before = history.commits()[1], listing(history.path)
    planned = restore(history, saved, dry_run=True)
    assert listing(history.path) == before
    done = restore(history, saved)
    assert (planned.status, done.status) == ("planned", "restored")
    assert (planned.files, planned.bytes, planned.undone) == (done.files, done.bytes, done.undone)


def test_any_commit_whose_files_are_there(history: History) -> None:
    commits = history.commits()
    restore(history, commits[2])
    history.back_to(commits[2])
    hoodie.delete_savepoint(str(history.path), InstantTime(commits[1]))
    restore(history, commits[0])
    history.back_to(commits[0])


@pytest.mark.parametrize("dry_run", [True, False])
def test_not_beyond_a_savepoint(history: History, dry_run: bool) -> None:
    first, before = history.commits()[0], listing(history.path)
    with pytest.raises(TableError, match="savepoint"):
        restore(history, first, dry_run=dry_run)
    assert listing(history.path) == before


def test_a_savepoint_that_is_made_meanwhile(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the restore and the savepoint that do not see each other at first, the restore gives way."""
    saved, *_, newest = history.commits()[1:]
    make, rows = plans.make, hoodie.read_table(str(history.path))

    def late(*arguments: Any) -> RestorePlan:
        made = make(*arguments)
        store_at(history.path).create(Instant(InstantTime(newest), Action.SAVEPOINT, State.COMPLETED), b"x")
        return made

    times = []

    def second(*arguments: Any) -> RestorePlan:
        times.append(1)
        return late(*arguments) if len(times) == 2 else make(*arguments)

    monkeypatch.setattr(plans, "make", second)
    with pytest.raises(TableError, match="savepoint"):
        restore(history, saved)
    assert timeline(history).filter([Action.RESTORE]) == []
    assert_same_rows(hoodie.read_table(str(history.path)), rows)


def test_pending_services_and_failed_writes_go(tmp_path: Path) -> None:
    history = History(tmp_path / "t", MERGE_ON_READ)
    for version in (1, 3):
        history.change(version)
    point = history.commits()[-1]
    planned = history.compact("schedule")
    history.change(5)
    rows = as_table(small_rows(range(20), 6), SMALL_SCHEMA)
    die_at(
        history.path,
        lambda path: hoodie.write_table(rows, path, options=history.options),
        lambda change: change.path.endswith(".deltacommit"),
    )
    failed = timeline(history).pending()[-1].time
    result = restore(history, point)
    assert result.rolled_back == [failed]
    assert [item["action"] for item in result.undone] == ["deltacommit", "compaction"]
    assert result.undone[1]["instant"] == planned
    history.back_to(point)
    assert history.actions() == ["deltacommit completed"] * 2 + ["restore completed"]
    assert all(planned not in name for name in files(history))
    history.change(7)
    history.compact()


def test_a_dry_run_names_what_a_pending_plan_wrote_without_a_marker(tmp_path: Path) -> None:
    history = History(tmp_path / "t", MERGE_ON_READ)
    history.change(1)
    point = history.change(3)
    planned, base = history.compact("schedule"), str(history.path)
    store_at(base).create(Instant(InstantTime(planned), Action.COMPACTION, State.INFLIGHT))
    made = {f"{partition}/a-0_0-1-2_{planned}.parquet" for partition in ("eu", "us")}
    for file in made:
        (history.path / file).write_bytes(b"PAR1")
    STORAGE.create(heartbeat_path(base, planned), b"")
    create_marker(STORAGE, base, InstantTime(planned), Marker(min(made), MarkerType.CREATE))
    STORAGE.delete(heartbeat_path(base, planned))
    assert set(restore(history, point, dry_run=True).files) == made
    assert set(restore(history, point).files) == made


def test_cleans_stay_and_earlier_rollbacks_go(tmp_path: Path) -> None:
    history = History(tmp_path / "t")
    for version in (1, 2):
        history.change(version)
    point = history.commits()[-1]
    hoodie.savepoint_table(str(history.path))
    for version in range(3, 7):
        history.change(version)
    hoodie.rollback_table(str(history.path), history.commits()[-1])
    assert keep(history, 1).num_files
    restore(history, point)
    history.back_to(point)
    assert history.actions()[-3:] == ["savepoint completed", "clean completed", "restore completed"]
    for version in range(7, 10):
        history.change(version)
    keep(history, 1)
    history.check()


class TestRefused:
    def test_an_unknown_commit(self, history: History) -> None:
        saved = history.commits()[1]
        with pytest.raises(ConfigError, match=f"2020 is no completed commit.*savepoints {saved}"):
            restore(history, "2020")

    def test_a_savepoint_in_between(self, history: History) -> None:
        first, saved, *_ = history.commits()
        before = listing(history.path)
        with pytest.raises(TableError, match=f"savepoints can't be taken back: {saved}.*--delete"):
            restore(history, first)
        assert listing(history.path) == before

    def test_cleaned_files(self, tmp_path: Path, templates: Templates) -> None:
        history = templates.copy(tmp_path / "t", changed, COPY_ON_WRITE, 5)
        keep(history, 1)
        before = listing(history.path)
        with pytest.raises(TableError, match="needs files that the cleaner has deleted: file group"):
            restore(history, history.commits()[1])
        assert listing(history.path) == before
        assert restore(history, history.commits()[3]).status == "restored"
        history.back_to(history.commits()[3])

    def test_archived_commits(self, tmp_path: Path) -> None:
        history = History(tmp_path / "t")
        point = history.change(1)
        hoodie.savepoint_table(str(history.path))
        for version in range(2, 9):
            history.change(version)
        keep(history, 1)
        options = {
            "hoodie.keep.min.commits": 1,
            "hoodie.keep.max.commits": 2,
            "hoodie.cleaner.commits.retained": 1,
            "hoodie.archive.beyond.savepoint": "true",
        }
        assert hoodie.archive_table(str(history.path), options=options).num_files
        assert history.commits()[0] == point
        with pytest.raises(TableError, match=f"can't go back to {point}: later commits are archived"):
            restore(history, point)

    def test_a_writer_or_a_service_at_work(self, history: History) -> None:
        for service in ("", "compaction 20990101000000000"):
            beat = Heartbeat(table_at(history.path), "20990101000000000", 60_000, 2, Work(service=service))
            beat.start()
            try:
                with pytest.raises(ConflictError, match="another writer is at work"):
                    restore(history, history.commits()[1])
            finally:
                beat.stop()
        history.check()


def interrupted(history: History, instant: str, after: str, changes_after: int = 1) -> None:
    """A restore that fails at a change behind the second file with this ending, the first by default."""
    probe, changes = history.path.with_name("probe"), Faults()
    shutil.copytree(history.path, probe)
    with injected(changes):
        hoodie.restore_table(str(probe), InstantTime(instant))
    shutil.rmtree(probe)
    found = [number for number, change in enumerate(changes.log, 1) if change.path.endswith(after)]
    with injected(Faults(at=found[1] + changes_after)), pytest.raises(InjectedFault):
        restore(history, instant)


@pytest.mark.parametrize("after", [".rollback.requested", ".rollback.inflight", ".rollback"])
def test_what_was_killed_is_refused_by_writers_and_finished_by_the_next(history: History, after: str) -> None:
    first, saved, *later = history.commits()
    interrupted(history, saved, after)
    path = str(history.path)
    rows = as_table(small_rows([1], 9), SMALL_SCHEMA)
    remedy = f"hoodie restore --table {path} --instant {saved}"
    with pytest.raises(TableError, match=f"was not finished.*{remedy}"):
        hoodie.write_table(rows, path, options=history.options)
    with pytest.raises(TableError, match="was not finished"):
        hoodie.savepoint_table(path)
    with pytest.raises(TableError, match="was not finished"):
        hoodie.rollback_table(path, saved)
    with pytest.raises(ConfigError, match=f"to {saved} was not finished; finish it first"):
        restore(history, first)
    assert restore(history, saved, dry_run=True).resumed
    result = restore(history, saved)
    assert (result.status, result.resumed) == ("restored", True)
    history.back_to(saved)
    (done,) = timeline_at(history.path).glob("*.restore")
    assert set(RestoreMetadata.from_bytes(done.read_bytes()).rollbacks) == set(later)
    assert timeline(history).filter([Action.ROLLBACK]) == []
    history.change(7)


def test_files_of_a_commit_that_went_before_a_kill_are_deleted_by_the_next(history: History) -> None:
    _, saved, *later = history.commits()
    interrupted(history, saved, ".rollback.inflight", changes_after=4)
    left = [time for time in later if not [*timeline_at(history.path).glob(f"{time}*commit")]]
    assert any([*history.path.glob(f"*/*{time}*")] for time in left), (
        "it is off the timeline, its files are there"
    )
    assert restore(history, saved).resumed
    history.back_to(saved)
    assert [file for time in left for file in history.path.glob(f"*/*{time}*")] == []


def test_a_rollback_of_another_instant_that_is_under_way_stays_for_who_finishes_it(history: History) -> None:
    first, saved, *_ = history.commits()
    interrupted(history, saved, ".rollback")
    action = timeline(history).commits()[0].action.value
    pending = Instant(InstantTime("29990101000000000"), Action.ROLLBACK, State.REQUESTED)
    plan = RollbackPlan(InstantInfo(InstantTime(first), action), ()).to_bytes()
    store_at(history.path).create(pending, plan)
    assert restore(history, saved).resumed
    assert timeline(history).filter([Action.ROLLBACK]) == [pending]


def test_a_restore_that_apache_hudi_began_is_finished(history: History) -> None:
    """It does not complete the rollbacks: the first is done, and the second has its plan."""
    _, saved, *later = history.commits()
    path = str(history.path)
    commits = {str(item.time): item for item in timeline(history).commits()}
    plan = RestorePlan(tuple(InstantInfo.of(commits[time]) for time in later[::-1]), InstantTime(saved))
    now = int(later[-1])
    begun = Instant(InstantTime(f"{now + 1}"), Action.RESTORE, State.REQUESTED)
    store_at(path).create(begun, plan.to_bytes())
    store_at(path).create(begun.with_state(State.INFLIGHT))
    for number, time in enumerate(later[:-3:-1], 1):
        made = executor.plan(table_at(path), commits[time], forget=True)
        there = f"file:/elsewhere{path}"
        requests = tuple(
            RollbackRequest(
                item.partition_path,
                "",
                InstantTime(""),
                tuple(name.replace(path, there) for name in item.files_to_delete),
            )
            for item in made.requests
        )
        data = RollbackPlan(InstantInfo.of(commits[time]), requests).to_bytes()
        planned = Instant(InstantTime(f"{now + 1 + number}"), Action.ROLLBACK, State.REQUESTED)
        store_at(path).create(planned, data)
        store_at(path).create(planned.with_state(State.INFLIGHT))
        if number == 1:
            executor.unpublish(table_at(path), commits[time])
            for name in (name for item in made.requests for name in item.files_to_delete):
                STORAGE.delete(name)
    result = restore(history, saved)
    assert (result.resumed, result.instant) == (True, begun.time)
    history.back_to(saved)
    assert timeline(history).pending() == []


def test_a_plan_that_was_cut_is_dropped(history: History) -> None:
    saved = history.commits()[1]
    cut = timeline_at(history.path) / "20260101000000000.restore.requested"
    cut.write_bytes(b"Obj\x01cut")
    assert restore(history, saved).resumed is False
    assert not cut.exists()
    history.back_to(saved)


@pytest.mark.full
@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_a_random_walk(tmp_path: Path, kind: str) -> None:
    """Writes, services, rollbacks, savepoints and restores, in any order, beside the model."""
    chance = random.Random(f"undo {kind}")
    history = History(tmp_path / "t", kind)
    history.change(1)
    path, saved, rollbacks, restores = str(history.path), "", 0, 0
    for number in range(2, 34):
        commits = history.commits()
        step = chance.random()
        if step < 0.45:
            history.write(small_rows(chance.sample(range(60), 8), number))
        elif step < 0.55:
            history.write(small_rows(chance.sample(range(60), 3), number), "insert_overwrite")
        elif step < 0.65 and kind == MERGE_ON_READ:
            history.compact(chance.choice(["run", "schedule"]))
        elif step < 0.75:
            keep(history, chance.choice([2, 3]))
        elif step < 0.85 and len(commits) > 1:
            try:
                hoodie.rollback_table(path, commits[-1])
            except TableError:
                continue
            history.back_to(commits[-2])
            rollbacks += 1
        elif not saved:
            saved = hoodie.savepoint_table(path).instant
        else:
            hoodie.restore_table(path, InstantTime(saved))
            history.back_to(saved)
            hoodie.delete_savepoint(path, InstantTime(saved))
            saved, restores = "", restores + 1
        history.check_hudi_rs(f"after step {number}")
    assert min(rollbacks, restores) > 0


GOLDEN = [
    "cow_clustered", "cow_insert_overwrite_table", "cow_cdc", "mor_compacted", "mor_pending_compaction",
    "mor_clustered", "mor_logcompaction", "mor_inflight", "mor_bucket",
]  # fmt: skip


@pytest.mark.parametrize("name", full_but({"cow_clustered", "mor_logcompaction"}, GOLDEN))
def test_golden_tables_go_back_to_each_of_their_commits(
    golden_tables: Path, tmp_path: Path, name: str
) -> None:
    """What is read afterwards is what a query as of that time gave before."""
    source = golden_tables / "0.15.0-v6" / name / "table"
    commits = Timeline.load(str(source)).filter(COMMIT_ACTIONS, completed=True)
    expected = {item.time: hoodie.read_table(str(source), as_of=item.time) for item in commits}
    path = tmp_path / "t"
    shutil.copytree(source, path)
    for item in commits[-2::-1]:
        hoodie.restore_table(str(path), item.time)
        rows = hoodie.read_table(str(path))
        assert_same_rows(rows, expected[item.time].select(rows.column_names), what=item.time)
        if name not in ("mor_compacted", "mor_pending_compaction"):  # which hudi-rs can't read
            assert_same_rows(read_hudi_rs(path), rows, what=f"{item.time}: hudi-rs")
    names = {file.name for file in path.rglob("*.parquet") if ".hoodie" not in file.parts}
    assert {name.rsplit("_", 1)[1].split(".")[0] for name in names} <= {commits[0].time}
    assert all(pq.ParquetFile(file).metadata.num_rows for file in path.glob("*/*.parquet"))
