"""Cleans from run to run: plans that wait, failures, other processes, dry runs, and those after writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.codec.avro import write_record
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError, ServiceError, TableError
from hoodie.services.settings import FAIL
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanFile, CleanPlan
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write.transaction import Transaction
from tests.support.rows import assert_same_rows
from tests.support.stores import instant_file, store_at, timeline_at
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.services.clean_support import (
    MANUAL,
    RETAINED,
    STORAGE,
    clean,
    commits,
    files,
    instants_of,
    keep,
    plan_of,
    result_of,
    savepoint,
    timeline,
)
from tests.unit.write.support import OPTIONS, Pair, listing

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
    (timeline_at(table.path) / f"{first}.clean.inflight").write_bytes(plan_of(table, first).to_bytes())
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
    instant = Instant(InstantTime("20990101000000000"), Action.CLEAN, State.REQUESTED)
    store_at(table.path).create(instant, write_record("HoodieCleanerPlan", record))
    assert clean(table, "execute").files == {instant.time: [old]}
    assert old not in files(table)


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("left", [0, 40])
def test_a_plan_that_was_cut_while_it_was_written_is_removed(table: Pair, state: State, left: int) -> None:
    instant = clean(table, "schedule", hoodie__cleaner__commits__retained=2).instant
    requested = instant_file(table.path, instant, "clean.requested")
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
    assert requested.exists()
    gone = f"clean {instant} had nothing to do and was taken off the timeline"
    assert clean(table, "execute").reason == gone
    assert not list(timeline_at(table.path).glob(f"{instant}*"))
    assert files(table) == before
    assert keep(table, 2).num_files == 9


def test_an_empty_result_of_an_old_crash_makes_the_next_clean_look_everywhere(table: Pair) -> None:
    instant = keep(table, 3).instant
    instant_file(table.path, instant, "clean").write_bytes(b"")
    assert keep(table, 2).num_files == 3


def test_files_of_a_bootstrap_are_not_ours_to_delete(table: Pair) -> None:
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"eu": (CleanFile("/source/a.parquet", bootstrap=True),)})
    instant = Instant(InstantTime("20990101000000000"), Action.CLEAN, State.REQUESTED)
    store_at(table.path).create(instant, plan.to_bytes())
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
    options: dict[str, Any] = {"hoodie__clean__automatic": "true", "hoodie__cleaner__commits__retained": 2}
    (warning,) = table.write(small_rows(range(30), 7), **options).warnings
    assert warning.startswith("12 old files could not be deleted, such as ")
    assert warning.endswith("; the next clean tries again")


def test_a_writer_at_work_keeps_a_plan_away_but_not_its_execution(table: Pair) -> None:
    instant = clean(table, "schedule", hoodie__cleaner__commits__retained=4).instant
    table.write(small_rows(range(30), 7))
    with Transaction(Table(TableRef(str(table.path)), STORAGE), Config.of({}), True) as writer:
        writer.begin()
        before = listing(table.path)
        with pytest.raises(ConflictError, match="another writer is at work"):
            clean(table, "schedule", hoodie__cleaner__commits__retained=2)
        assert {**listing(table.path), **before} == before
        assert clean(table, "execute").cleaned == [instant]


def test_two_processes_with_one_plan(table: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    instant = clean(table, "schedule", hoodie__cleaner__commits__retained=2).instant
    complete = Transaction.complete

    def late(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(Transaction, "complete", complete)
        assert clean(table, "execute").cleaned == [instant]
        complete(*args, **more)

    monkeypatch.setattr(Transaction, "complete", late)
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
    wrong: list[tuple[dict[str, Any], str]] = [
        ({RETAINED: 21}, r"hoodie.cleaner.commits.retained=21 must be at most hoodie.keep.min.commits=20"),
        ({RETAINED: 30}, r"and, if it is less than 31, hoodie.keep.max.commits"),
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
                service(str(pair.path), options=options)
    allowed = {RETAINED: 21, "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS"}
    assert hoodie.clean_table(str(pair.path), options=allowed).status == "skipped"


def test_tables_of_other_files_are_left_to_hudi(table: Pair) -> None:
    properties.update(STORAGE, str(table.path), {properties.BASE_FILE_FORMAT: "ORC"})
    with pytest.raises(ConfigError, match=r"hoodie.table.base.file.format=ORC.*clean it with Apache Hudi"):
        keep(table, 1)


def test_a_wrong_mode(table: Pair) -> None:
    with pytest.raises(ConfigError, match="mode is 'now'; use one of schedule, execute, run"):
        clean(table, "now")


def test_writes_clean_by_themselves(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, RETAINED: 2})
    for version in range(1, 7):
        assert pair.write(small_rows(range(30), version)).warnings == []
    assert instants_of(files(pair)) == set(commits(pair)[3:])
    assert len(timeline(pair).filter([Action.CLEAN], completed=True)) == 3
    for setting in ("hoodie__clean__automatic", "hoodie__table__services__enabled"):
        assert pair.write(small_rows(range(30), 7), **{setting: "false"}).warnings == []
        assert len(timeline(pair).filter([Action.CLEAN])) == 3, setting


def test_what_fails_after_a_write_is_a_warning(table: Pair) -> None:
    folder = timeline_at(table.path)
    store_at(table.path).create(Instant(InstantTime("20990101000000000"), Action.CLEAN, State.INFLIGHT))
    (folder / "20990101000000000.clean.requested").write_bytes(b"torn")
    warnings = table.write(small_rows(range(30), 7), hoodie__clean__automatic="true").warnings
    warning, *others = sorted(warnings, key=lambda text: "clean" not in text)
    assert [text for text in others if " ahead of the clock of " not in text] == []
    assert warning.startswith("the rows are committed, but the inline clean failed: clean 20990101000000000")
    assert warning.endswith("(hoodie clean repeats it)")


def test_what_fails_after_a_write_is_an_error_where_the_settings_say_so(table: Pair) -> None:
    """The rows are committed; the retry of their token finds them and does not fail."""
    store_at(table.path).create(Instant(InstantTime("20990101000000000"), Action.CLEAN, State.INFLIGHT))
    (timeline_at(table.path) / "20990101000000000.clean.requested").write_bytes(b"torn")
    rows = as_table(small_rows(range(30), 7), SMALL_SCHEMA)
    options = {**table.options, "hoodie.clean.automatic": "true", FAIL.name: "true"}
    token = {TOKEN_KEY: "dag.task.2024-01-01"}
    with pytest.raises(
        ServiceError, match=r"committed at .*don't write them again.*inline clean failed"
    ) as caught:
        hoodie.write_table(rows, str(table.path), options=options, extra_metadata=token)
    assert caught.value.values["instant"] == commits(table)[-1]
    table.model.upsert(small_rows(range(30), 7))
    table.check()
    again = hoodie.write_table(rows, str(table.path), options=options, extra_metadata=token)
    assert (again.status, again.instant) == ("already_committed", commits(table)[-1])


def test_the_result_is_json(table: Pair) -> None:
    assert json.loads(json.dumps(keep(table, 2).to_dict()))["operation"] == "clean"
