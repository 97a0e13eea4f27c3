"""Savepoints: which commits may get one, which files it keeps, who respects it."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.services.savepoint import run as module
from hoodie.services.savepoint.run import SavepointResult
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackPlan
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.time import InstantTime
from tests.support.rows import assert_same_rows
from tests.support.stores import instant_file, store_at, timeline_at
from tests.support.tables import small_rows
from tests.support.tiers import full_but
from tests.unit.services.clean_support import files, instants_of, keep, timeline
from tests.unit.services.undo_support import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    TYPES,
    History,
    changed,
    three_commits,
)
from tests.unit.write.support import Templates, listing


@pytest.fixture(params=full_but({MERGE_ON_READ}, TYPES))
def history(request: pytest.FixtureRequest, tmp_path: Path, templates: Templates) -> History:
    return templates.copy(tmp_path / "t", three_commits, request.param)


def save(history: History, instant: str | None = None, dry_run: bool = False) -> SavepointResult:
    path = str(history.path)
    return hoodie.savepoint_table(path, instant, user="me", comments="why", dry_run=dry_run)


def kept(history: History, instant: str) -> set[str]:
    stored = SavepointMetadata.from_bytes(instant_file(history.path, instant, "savepoint").read_bytes())
    assert (stored.user, stored.comments, stored.version) == ("me", "why", 1)
    return {f"{partition}/{name}" for partition, names in stored.files.items() for name in names}


def test_the_newest_commit_by_default(history: History) -> None:
    newest, before = history.commits()[-1], listing(history.path)
    planned = save(history, dry_run=True)
    assert listing(history.path) == before
    made = save(history)
    assert (planned.status, made.status, made.instant) == ("planned", "created", newest)
    assert made.files == planned.files
    found = kept(history, newest)
    assert found == {f"{partition}/{name}" for partition, names in made.files.items() for name in names}
    assert made.bytes == sum((history.path / name).stat().st_size for name in found)
    if history.kind == MERGE_ON_READ:
        assert any(".log." in name for name in found)
    else:
        assert len(found) == 3
    for partition in made.files.values():  # base file first, then logs, newest first
        assert [".log." in name for name in partition] == sorted(".log." in name for name in partition)
    assert (timeline_at(history.path) / f"{newest}.savepoint.inflight").stat().st_size == 0
    again = save(history)
    assert (again.status, again.reason) == ("skipped", f"commit {newest} has a savepoint already by me: why")


@pytest.mark.parametrize("history", TYPES, indirect=True)
def test_an_older_commit_has_the_files_of_its_time(history: History) -> None:
    first = history.commits()[0]
    save(history, first)
    bases = {name for name in kept(history, first) if name.endswith(".parquet")}
    assert instants_of(bases) == {first}
    assert len(bases) == 3


def test_cleaner_and_archiver_keep_it_until_it_is_deleted(tmp_path: Path) -> None:
    history = History(tmp_path / "t")
    first = history.change(1)
    save(history)
    saved = kept(history, first)
    for version in range(2, 8):
        history.change(version)
    options = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    archive = {**options, "hoodie.cleaner.commits.retained": 1}
    keep(history, 1)
    assert hoodie.archive_table(str(history.path), options=archive).held[0]["why"].startswith("savepoint")
    assert saved <= files(history)
    assert_same_rows(
        hoodie.read_table(str(history.path), as_of=first), history.states[first].table(history.schema)
    )
    deleted = hoodie.delete_savepoint(str(history.path), InstantTime(first))
    assert (deleted.status, deleted.num_files) == ("deleted", len(saved))
    assert not list(timeline_at(history.path).glob("*savepoint*"))
    history.change(8)
    keep(history, 1)
    assert not saved & files(history)
    assert hoodie.archive_table(str(history.path), options=archive).status == "archived"
    history.check()


def test_deleting_what_is_not_there_is_no_error(history: History) -> None:
    first, second, _ = history.commits()
    save(history, second)
    before = listing(history.path)
    result = hoodie.delete_savepoint(str(history.path), InstantTime(first))
    assert (result.status, result.reason) == ("skipped", f"no savepoint of {first}; there are {second}")
    assert hoodie.delete_savepoint(str(history.path), InstantTime(second), dry_run=True).status == "planned"
    assert listing(history.path) == before


def test_no_such_commit(history: History) -> None:
    with pytest.raises(
        ConfigError, match=f"20200101000000000 is no completed commit .*{history.commits()[-1]}"
    ):
        save(history, "20200101000000000")
    clean = Instant(InstantTime("20260101000000000"), Action.CLEAN, State.REQUESTED)
    store_at(history.path).create(clean)
    with pytest.raises(ConfigError, match="no completed commit"):
        save(history, clean.time)


def test_a_cleaned_commit_is_refused(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", changed, COPY_ON_WRITE, 5)
    keep(history, 2)
    commits = history.commits()
    earliest = commits[3]
    with pytest.raises(TableError, match=f"{commits[2]} can't get a savepoint.*from {earliest} on"):
        save(history, commits[2])
    assert save(history, earliest).status == "created"


def test_files_that_a_pending_clean_is_going_to_delete(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", three_commits, COPY_ON_WRITE)
    options = {
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.cleaner.fileversions.retained": 1,
    }
    planned = hoodie.clean_table(str(history.path), mode="schedule", options=options)
    with pytest.raises(TableError, match=f"pending clean {planned.scheduled} is going to delete"):
        save(history, history.commits()[0])
    assert save(history).status == "created"


def test_a_slice_that_is_to_be_compacted_is_kept(tmp_path: Path) -> None:
    """What the compaction makes has no name yet; the cleaner would take what it is made of afterwards."""
    history = History(tmp_path / "t", MERGE_ON_READ)
    for version in (1, 3):
        history.change(version)
    history.compact("schedule")
    newest = history.commits()[-1]
    save(history)
    saved = kept(history, newest)
    assert {".log." in name for name in saved} == {True, False}
    history.compact("execute")
    for version in (5, 7):
        history.change(version)
        history.compact()
    keep(history, 1)
    assert saved <= files(history)
    hoodie.restore_table(str(history.path), InstantTime(newest))
    history.back_to(newest)


def test_who_comes_between_is_seen(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback, or a clean, that was begun after the first look: the savepoint is taken back."""
    path, newest = str(history.path), history.commits()[-1]
    look = module._files

    def rolled_back(*arguments: object) -> dict[str, tuple[str, ...]]:
        plan = RollbackPlan(InstantInfo(InstantTime(newest), "commit"), ())
        made = Instant(InstantTime(str(int(newest) + 1)), Action.ROLLBACK, State.REQUESTED)
        store_at(path).create(made, plan.to_bytes())
        return look(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_files", rolled_back)
    with pytest.raises(ConflictError, match=f"commit {newest} is being rolled back"):
        save(history)
    assert not list(timeline_at(history.path).glob("*savepoint*"))


def test_a_clean_that_comes_between_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, templates: Templates
) -> None:
    history = templates.copy(tmp_path / "t", three_commits, COPY_ON_WRITE)
    look = module._files

    def cleaned(*arguments: object) -> dict[str, tuple[str, ...]]:
        found = look(*arguments)  # type: ignore[arg-type]
        keep(history, 1)
        return found

    monkeypatch.setattr(module, "_files", cleaned)
    with pytest.raises(TableError, match="the cleaner may have taken files of it"):
        save(history, history.commits()[0])
    assert not list(timeline_at(history.path).glob("*savepoint*"))


def test_a_clean_that_is_planned_meanwhile_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, templates: Templates
) -> None:
    """The savepoint was made when the clean had looked at the timeline, and had no plan on it yet."""
    history = templates.copy(tmp_path / "t", three_commits, COPY_ON_WRITE)
    encode, first = CleanPlan.to_bytes, history.commits()[0]

    def saved(plan: CleanPlan) -> bytes:
        monkeypatch.setattr(CleanPlan, "to_bytes", encode)
        save(history, first)
        return encode(plan)

    monkeypatch.setattr(CleanPlan, "to_bytes", saved)
    with pytest.raises(ConflictError, match="a savepoint was made while clean"):
        keep(history, 1)
    assert kept(history, first) <= files(history)
    assert timeline(history).filter([Action.CLEAN]) == []
    keep(history, 1)
    hoodie.restore_table(str(history.path), InstantTime(first))
    history.back_to(first)


def test_deleting_one_leaves_the_metadata_table_of_its_commit(history: History) -> None:
    path = str(history.path)
    kept: dict[str, Any] = {"hoodie.metadata.enable": True}
    history.write(small_rows(range(3), 9), **kept)
    newest = history.commits()[-1]
    before = hoodie.read_table(path).num_rows
    hoodie.savepoint_table(path, InstantTime(newest), options=kept)
    assert hoodie.delete_savepoint(path, InstantTime(newest), options=kept).status == "deleted"
    kept_there = Timeline.load(f"{path}/.hoodie/metadata").commits()
    assert newest in [instant.time for instant in kept_there if instant.completed]
    assert hoodie.read_table(path).num_rows == before


def test_what_a_kill_left_is_taken_over(history: History) -> None:
    newest = history.commits()[-1]
    inflight = Instant(InstantTime(newest), Action.SAVEPOINT, State.INFLIGHT)
    store_at(history.path).create(inflight)
    history.write(small_rows(range(3), 9))
    assert save(history, newest).status == "created"
    assert [item.state for item in timeline(history) if item.action is Action.SAVEPOINT] == [State.COMPLETED]
    instant_file(history.path, newest, "savepoint").unlink()
    assert hoodie.delete_savepoint(str(history.path), InstantTime(newest)).status == "deleted"
    assert not list(timeline_at(history.path).glob("*savepoint*"))


@pytest.mark.parametrize("name", ["cow_savepoint", "cow_savepoint_restore", "all_instants"])
def test_metadata_is_as_apache_hudi_writes_it(golden_tables: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", path)
    (made,) = path.glob(".hoodie/*.savepoint")
    theirs = SavepointMetadata.from_bytes(made.read_bytes())
    instant = made.name.split(".")[0]
    for clean in path.glob(".hoodie/*.clean*"):  # as when the savepoint was made
        clean.unlink()
    hoodie.delete_savepoint(str(path), InstantTime(instant))
    hoodie.savepoint_table(str(path), InstantTime(instant), user=theirs.user, comments=theirs.comments)
    ours = SavepointMetadata.from_bytes(made.read_bytes())
    assert {partition for partition, names in ours.files.items() if names} == set(theirs.files)
    for partition, names in theirs.files.items():
        later = [item for item in ours.files[partition] if item not in names]
        assert [item for item in ours.files[partition] if item in names] == list(names)
        assert all(".log." in item for item in later)  # of later delta commits, in the same slices
    assert (ours.user, ours.comments, ours.version) == (theirs.user, theirs.comments, theirs.version)
    assert Timeline.load(str(path)).filter([Action.SAVEPOINT], completed=True)


def test_the_metadata_table_has_the_files_of_a_commit_whose_savepoint_is_pending(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    options["hoodie.metadata.enable"] = "true"
    hoodie.write_table(pa.table({"id": ["1"]}), path, options=options)
    hoodie.savepoint_table(path, options=options)
    (completed,) = Path(path).glob(".hoodie/timeline/*.savepoint")
    completed.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it lists folders instead
        assert hoodie.read_table(path).num_rows == 1
