"""The record index of each partition that we write, and the index RECORD_LEVEL_INDEX, which asks it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.index.locations import KeySearch
from hoodie.metadata.index_definitions import index_definitions
from hoodie.services.index.doctor import check_metadata_table
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from tests.support.at_once import OPTIMISTIC
from tests.support.faults import Change, Faults, InjectedFault, injected
from tests.support.metadata import disagreements
from tests.support.record_index import OF_EACH, has_record_index, indexed, is_of_each, misplaced
from tests.support.tiers import full_but
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, TYPES
from tests.unit.services.undo_support import History as Undone
from tests.unit.write.test_record_index import rows_of

ASKING = {**OF_EACH, "hoodie.index.type": "RECORD_LEVEL_INDEX"}
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    **ASKING,
}
GLOBAL = "hoodie.metadata.record.index.enable"
EACH = "hoodie.metadata.record.level.index.enable"


def made(path: Path, kind: str = COPY_ON_WRITE, versions: int = 3, **options: Any) -> Undone:
    history = Undone(path, kind, {**ASKING, **options})
    for version in range(1, versions + 1):
        history.change(version)
    return history


def agrees(history: Undone) -> None:
    assert is_of_each(history.path)
    assert has_record_index(history.path)
    assert disagreements(history.path) == []
    (found,) = check_metadata_table(str(history.path), True, {})
    assert found.status == "ok"
    history.check()


def partitions(path: str | Path) -> set[str]:
    return {partition for partition, _ in indexed(path).values()}


@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_a_new_table_has_one(tmp_path: Path, kind: str) -> None:
    history = made(tmp_path / "t", kind)
    agrees(history)
    folder = tmp_path / "t/.hoodie/metadata/record_index"
    for partition in partitions(history.path):
        assert len({path.name.split("_")[0] for path in folder.glob(f".record-index-{partition}-*")}) == 2


@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_a_table_that_is_there_gets_one(tmp_path: Path, kind: str) -> None:
    """Of all keys that a query shows, also those that only logs have."""
    history = Undone(tmp_path / "t", kind, {"hoodie.write.table.version": "9"})
    for version in range(1, 4):
        history.change(version)
    history.options = {**history.options, **ASKING}
    history.change(4)
    agrees(history)


@pytest.mark.full
def test_services_and_other_indexes_keep_it(tmp_path: Path) -> None:
    often: dict[str, Any] = {"hoodie.metadata.compact.max.delta.commits": "2"}
    history = made(tmp_path / "t", MERGE_ON_READ, **often)
    kept = {"hoodie.metadata.enable": "true"}
    history.options = {**history.options, **kept, "hoodie.index.type": "SIMPLE"}
    del history.options[EACH]
    history.change(4)
    agrees(history)
    assert hoodie.compact_table(str(history.path), options={**COMPACT, **kept}).compacted
    agrees(history)
    assert hoodie.cluster_table(str(history.path), options=kept).clustered
    agrees(history)
    hoodie.index_table(str(history.path), "rebuild")
    agrees(history)
    history.options = {**history.options, **ASKING}
    history.change(5)
    agrees(history)
    assert list((tmp_path / "t/.hoodie/metadata/record_index").glob("*.hfile"))


def test_rollbacks(tmp_path: Path) -> None:
    history = made(tmp_path / "t", MERGE_ON_READ)
    *_, kept, gone = history.commits()
    hoodie.rollback_table(str(history.path), gone, options=ASKING)
    history.back_to(kept)
    agrees(history)
    history.change(4)
    agrees(history)


def test_a_key_is_in_several_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up of a partition opens no file of the table, and finds no key of another one."""
    path, asking = str(tmp_path / "t"), {"hoodie.read.record.index": "true"}
    hoodie.write_table(rows_of(("a", "eu", 1), ("a", "u.s/1-x", 1)), path, options=OPTIONS)
    monkeypatch.setattr(KeySearch, "look", None)
    rows = rows_of(("a", "u.s/1-x", 2), ("a", "asia", 2), ("b", "eu", 2))
    result = hoodie.write_table(rows, path, options=OPTIONS)
    assert (result.num_inserts, result.num_updates, result.warnings) == (2, 1, [])
    assert misplaced(path) == []
    assert sorted(indexed(path)) == ["asia/a", "eu/a", "eu/b", "u.s/1-x/a"]
    for where, count in (
        ("id = 'a'", 3),
        ("id = 'a' AND region = 'eu'", 1),
        ("id = 'b'", 1),
        ("id = 'c'", 0),
    ):
        assert hoodie.read_table(path, where=where, options=asking).num_rows == count
    steps = hoodie.explain_read(path, where="id = 'b'", options=asking).steps
    assert {step.step: step.files for step in steps}["record index"] == 2
    gone = hoodie.write_table(rows_of(("a", "asia", 3)), path, operation="delete", options=OPTIONS)
    assert gone.num_deletes == 1
    assert sorted(indexed(path)) == ["eu/a", "eu/b", "u.s/1-x/a"]
    hoodie.write_table(rows_of(("c", "eu", 4)), path, operation="insert_overwrite", options=OPTIONS)
    assert sorted(indexed(path)) == ["eu/c", "u.s/1-x/a"]
    hoodie.delete_partitions(path, "eu", options=ASKING)
    assert sorted(indexed(path)) == ["u.s/1-x/a"]


def test_a_table_without_partitions(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {key: value for key, value in OPTIONS.items() if "partitionpath" not in key}
    for ts in (1, 2):
        result = hoodie.write_table(rows_of(("a", "eu", ts), (f"b{ts}", "eu", ts)), path, options=options)
    assert (result.num_inserts, result.num_updates) == (1, 1)
    assert sorted(indexed(path)) == ["/a", "/b1", "/b2"]
    assert misplaced(path) == []


def test_one_kind_replaces_the_other(tmp_path: Path) -> None:
    history = made(tmp_path / "t", versions=2)
    history.options = {**history.options, "hoodie.index.type": "SIMPLE", GLOBAL: "true"}
    del history.options[EACH]
    history.change(3)
    assert not is_of_each(history.path)
    assert disagreements(history.path) == []
    del history.options[GLOBAL]
    history.options[EACH] = "true"
    history.change(4)
    agrees(history)
    history.options[EACH] = "false"
    history.change(5)
    assert not has_record_index(history.path)
    assert "record_index" not in index_definitions(Table.open(str(history.path)))
    history.check()


def test_both_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a table has one record index"):
        hoodie.write_table(rows_of(("a", "eu", 1)), str(tmp_path / "t"), options={**OPTIONS, GLOBAL: "true"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_table_before_version_8_is_refused(tmp_path: Path, there: bool) -> None:
    path, options = str(tmp_path / "t"), {**OPTIONS, "hoodie.write.table.version": "6"}
    if there:
        hoodie.write_table(rows_of(("a", "eu", 1)), path, options={**options, "hoodie.index.type": "SIMPLE"})
        assert not has_record_index(path)
    with pytest.raises(ConfigError, match="needs a table of version 8 or 9"):
        hoodie.write_table(rows_of(("a", "eu", 2)), path, options=options)


def test_a_table_without_one_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    plain = {key: value for key, value in OPTIONS.items() if key != EACH}
    with pytest.raises(
        ConfigError, match=r"needs the record index of each partition .* set hoodie.index.type to S"
    ):
        hoodie.write_table(rows_of(("a", "eu", 2)), path, options=plain)


@pytest.mark.parametrize(("kind", "asked"), [("RECORD_INDEX", EACH), ("RECORD_LEVEL_INDEX", GLOBAL)])
def test_the_other_kind_is_refused(tmp_path: Path, kind: str, asked: str) -> None:
    """Until the setting of this one makes it."""
    path = str(tmp_path / "t")
    options = {key: value for key, value in OPTIONS.items() if key != EACH}
    hoodie.write_table(
        rows_of(("a", "eu", 1)), path, options={**options, asked: "true", "hoodie.index.type": "SIMPLE"}
    )
    asking = {**options, "hoodie.index.type": kind}
    with pytest.raises(ConfigError, match="has none; set hoodie"):
        hoodie.write_table(rows_of(("a", "eu", 2)), path, options=asking)
    asking[GLOBAL if asked == EACH else EACH] = "true"
    result = hoodie.write_table(rows_of(("a", "eu", 2), ("a", "us", 2)), path, options=asking)
    assert result.num_inserts == (1 if asked == GLOBAL else 0)
    assert is_of_each(path) == (asked == GLOBAL)
    assert misplaced(path) == []


def test_a_path_that_no_file_name_can_have(tmp_path: Path) -> None:
    """The index goes, with a warning, before such a partition is there."""
    path = str(tmp_path / "t")
    hoodie.write_table(rows_of(("a", "eu", 1)), path, options=OPTIONS)
    plain = {**OPTIONS, "hoodie.index.type": "SIMPLE"}
    del plain[EACH]
    done = hoodie.write_table(rows_of(("a", "-" * 70, 1)), path, options=plain)
    assert any("is too long for the names of its files" in warning for warning in done.warnings)
    assert not has_record_index(path)


def test_it_is_made_beside_writers(tmp_path: Path) -> None:
    """Of a partition, too, that comes meanwhile."""
    path = str(tmp_path / "t")
    plain = {key: value for key, value in OPTIONS.items() if key != EACH} | {"hoodie.index.type": "SIMPLE"}
    hoodie.write_table(rows_of(("a", "eu", 1), ("b", "us", 1)), path, options=plain)
    hoodie.index_table(path, "schedule", "record_index", options={EACH: "true"})
    hoodie.write_table(rows_of(("a", "asia", 1)), path, options=plain)
    hoodie.index_table(path, "execute", options={EACH: "true"})
    assert is_of_each(path)
    assert sorted(indexed(path)) == ["asia/a", "eu/a", "us/b"]
    assert misplaced(path) == []


def test_a_damaged_list_of_files_keeps_its_kind(tmp_path: Path) -> None:
    """The metadata table is made anew, with an index of the same kind."""
    history = made(tmp_path / "t", versions=2)
    del history.options[EACH]
    shutil.rmtree(tmp_path / "t/.hoodie/metadata/files")
    history.options["hoodie.index.type"] = "SIMPLE"
    history.change(3)
    history.change(4)
    agrees(history)
    assert Timeline.load(f"{history.path}/.hoodie/metadata").pending() == []


def test_the_doctor_finds_what_it_lacks(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows_of(("a", "eu", 1), ("a", "us", 1)), path, options=OPTIONS)
    for log in (tmp_path / "t/.hoodie/metadata/record_index").glob(".record-index-us-*-1-1"):
        log.unlink()
    found = check_metadata_table(path, True, {})
    assert [item.status for item in found] == ["error"]


def test_file_groups_of_a_write_that_died_stay(tmp_path: Path) -> None:
    """Another writer, at work at once, goes on with them, and the rollback of the first takes none away: the
    number of a partition's file groups says where its keys are.
    """
    path, count = str(tmp_path / "t"), "hoodie.metadata.record.level.index.min.filegroup.count"
    options = {**OPTIONS, **OPTIMISTIC, "hoodie.index.type": "SIMPLE", count: "3"}
    options["hoodie.parquet.small.file.limit"] = "0"
    hoodie.write_table(rows_of(("a", "eu", 1)), path, options=options)

    def publishes(change: Change) -> bool:
        return change.name == "create" and "/metadata/" not in change.path and change.path.endswith(".commit")

    with injected(Faults(at=1, of=publishes)), pytest.raises(InjectedFault):
        hoodie.write_table(rows_of(("a", "us", 1)), path, options=options)
    (tmp_path / "t/.hoodie/lock").unlink()
    dead = Table.open(path).timeline.pending()[-1].time
    folder = tmp_path / "t/.hoodie/metadata/record_index"
    assert len(list(folder.glob(f".record-index-us-*_{dead}.log.1_0-0-0"))) == 3
    expired = {**options, "hoodie.index.type": "RECORD_LEVEL_INDEX"}
    del expired["hoodie.write.concurrency.mode"]
    heartbeat = tmp_path / "t/.hoodie/.heartbeat" / dead
    heartbeat.write_bytes(b"")  # as of Apache Hudi: it is alive as long as it is young
    hoodie.write_table(rows_of(("b", "us", 2)), path, options={**options, count: "1"})
    os.utime(heartbeat, (0, 0))
    result = hoodie.write_table(rows_of(("b", "us", 3), ("c", "us", 3)), path, options=expired)
    assert not list(folder.glob(f".*_{dead}.log.*"))
    assert (result.num_inserts, result.num_updates) == (1, 1)
    groups = {name.name.split("_")[0] for name in folder.glob(".record-index-us-*")}
    assert len(groups) == 3
    assert misplaced(path) == []


def test_a_table_without_rows_has_no_file_groups(tmp_path: Path) -> None:
    """After the rollback of its first commit; the next write goes on."""
    path = str(tmp_path / "t")
    first = hoodie.write_table(rows_of(("a", "eu", 1)), path, options=OPTIONS)
    hoodie.rollback_table(path, first.instant, options=ASKING)
    assert not list((tmp_path / "t/.hoodie/metadata/record_index").glob(".record-index-*"))
    assert [item.status for item in check_metadata_table(path, True, {})] == ["ok"]
    result = hoodie.write_table(rows_of(("a", "eu", 2)), path, options=OPTIONS)
    assert (result.num_inserts, result.warnings) == (1, [])
    assert sorted(indexed(path)) == ["eu/a"]
