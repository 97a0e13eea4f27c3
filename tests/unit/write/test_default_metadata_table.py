"""`hoodie.metadata.enable` left out: new tables get a metadata table, others stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie.table.handle import Table
from tests.support.faults import Change, Faults, die_at, injected
from tests.support.metadata import disagreements, has_metadata_table
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.services.undo_support import COPY_ON_WRITE, MERGE_ON_READ, TYPES, History, changed
from tests.unit.write.support import OPTIONS

pytestmark = pytest.mark.real_defaults

OFF = {"hoodie.metadata.enable": "false"}
AT_ONCE = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "filesystem",
}
ROWS = as_table(small_rows(range(9), 1), SMALL_SCHEMA)


def in_the_metadata_folder(change: Change) -> bool:
    return "/.hoodie/metadata/" in change.path


def of_the_folder_itself(change: Change) -> bool:
    return change.path.endswith("t/.hoodie/hoodie.properties")


def publishing(change: Change) -> bool:
    return change.path.endswith(".commit") and not in_the_metadata_folder(change)


@pytest.mark.parametrize("kind", full_but({COPY_ON_WRITE}, TYPES))
def test_a_new_table_has_one_with_its_files(tmp_path: Path, kind: str) -> None:
    history = changed(tmp_path / "t", kind, 2)
    assert Table.open(str(history.path)).properties.metadata_partitions == ("files",)
    assert disagreements(history.path) == []
    history.check()
    history.check_hudi_rs()


@pytest.mark.full
@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
def test_whatever_operation_makes_the_table(tmp_path: Path, operation: str) -> None:
    path = str(tmp_path / "t")
    for _ in range(2):
        result = hoodie.write_table(ROWS, path, operation=operation, options=OPTIONS)
        assert (result.warnings, result.metadata_table_removed) == ([], False)
    assert has_metadata_table(path)
    assert disagreements(path) == []


def test_a_table_with_commits_stays_without(tmp_path: Path) -> None:
    history = changed(tmp_path / "t", COPY_ON_WRITE, 1, OFF)
    del history.options["hoodie.metadata.enable"]
    history.change(2)
    assert not (history.path / ".hoodie/metadata").exists()
    history.options["hoodie.metadata.enable"] = "true"
    history.change(3)
    assert disagreements(history.path) == []
    history.options |= OFF
    history.change(4)
    del history.options["hoodie.metadata.enable"]
    history.change(5)
    assert not has_metadata_table(history.path)


@pytest.mark.full
@pytest.mark.parametrize("at", [of_the_folder_itself, in_the_metadata_folder, publishing])
def test_after_a_first_write_that_died_the_next_one_makes_it(
    tmp_path: Path, at: Callable[[Change], bool]
) -> None:
    """Died at each change of that kind, in turn."""
    counted = Faults(of=at)
    with injected(counted):
        hoodie.write_table(ROWS, str(tmp_path / "t"), options=OPTIONS)
    times = sum(at(change) for change in counted.log)
    assert times
    for nth in range(1, times + 1):
        path = tmp_path / f"{nth}" / "t"
        die_at(path, lambda to: hoodie.write_table(ROWS, to, options=OPTIONS), at, nth=nth)
        history = History(path)
        history.write(small_rows(range(9), 2))
        history.check()
        assert has_metadata_table(path), nth
        assert disagreements(path) == [], nth


@pytest.mark.full
def test_a_first_write_that_was_killed_may_have_left_it_without(tmp_path: Path) -> None:
    """By a writer that was to make none, whose instant is rolled back: the table is new still."""
    path = tmp_path / "t"
    die_at(path, lambda to: hoodie.write_table(ROWS, to, options={**OPTIONS, **OFF}), publishing)
    assert not has_metadata_table(path)
    hoodie.write_table(ROWS, str(path), options=OPTIONS)
    assert disagreements(path) == []
    assert has_metadata_table(path)


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_writers_at_once(tmp_path: Path, kind: str) -> None:
    history = changed(tmp_path / "t", kind, 2, AT_ONCE)
    assert has_metadata_table(history.path)
    assert disagreements(history.path) == []


@pytest.mark.full
def test_on_an_object_store() -> None:
    path = "memory://by-default/t"
    for _ in range(2):
        hoodie.write_table(ROWS, path, options=OPTIONS)
    table = Table.open(path)
    assert table.properties.metadata_partitions == ("files",)
    assert hoodie.read_table(path).num_rows == 9


@pytest.mark.full
def test_a_record_index_needs_its_own_setting_only(tmp_path: Path) -> None:
    asked = {"hoodie.metadata.record.index.enable": "true", "hoodie.index.type": "RECORD_INDEX"}
    history = changed(tmp_path / "t", MERGE_ON_READ, 2, asked)
    assert Table.open(str(history.path)).properties.metadata_partitions == ("files", "record_index")
    assert disagreements(history.path) == []
    history.check()
