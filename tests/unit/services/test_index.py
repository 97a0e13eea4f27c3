"""Indexes of the metadata table made, dropped, shown and rebuilt; what the doctor says of them."""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, TableBusy
from hoodie.metadata.partitions.record_index import RECORD, Place, of_places
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.table import Partition
from hoodie.services.index.doctor import check_metadata_table, described, differing
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.checkup import ERROR, OK, WARNING
from hoodie.write.participants.metadata.registry import ALL_PARTITIONS
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.metadata import disagreements, has_metadata_table, misled
from tests.support.metadata_index import make_metadata_table, wrapped
from tests.support.tables import small_rows
from tests.support.tiers import full_but
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, History, three_commits
from tests.unit.write.support import Templates, listing

STORAGE = LocalStorage()
#: those that are kept, but for the list of files
#: tables before version 8 have no partition_stats
OTHERS = [
    kept.partition.value
    for kept in ALL_PARTITIONS
    if kept.partition not in (Partition.FILES, Partition.PARTITION_STATS)
]


def named(path: Path) -> set[str]:
    return set(properties.load(STORAGE, str(path)).metadata_partitions)


def found(path: Path, deep: bool = False) -> list[tuple[str, str]]:
    return [(item.status, item.text) for item in check_metadata_table(str(path), deep, {})]


@pytest.fixture
def history(tmp_path: Path, templates: Templates) -> History:
    """Three commits, no metadata table."""
    return templates.copy(tmp_path / "t", three_commits, MERGE_ON_READ)


@pytest.mark.table_version(6)
def test_an_index_is_made_kept_and_dropped(history: History) -> None:
    path, newest = str(history.path), history.commits()[-1]
    before = listing(history.path)
    planned = hoodie.index_table(path, "create", "files", dry_run=True)
    assert (planned.status, planned.made) == ("planned", ["files"])
    assert hoodie.index_table(path, "show").indexes == []
    assert listing(history.path) == before
    made = hoodie.index_table(path, "create", ["files"])
    assert (made.status, made.made, made.pending) == ("created", ["files"], [])
    [state] = made.indexes
    assert state["bytes"] > 0
    assert {name: state[name] for name in ("index", "state", "file_groups", "num_files", "compacted_to")} == {
        "index": "files", "state": "ready", "file_groups": 1, "num_files": 2, "compacted_to": newest,
    }  # fmt: skip
    assert disagreements(path) == []
    again = hoodie.index_table(path, "create", "files")
    assert (again.status, again.reason) == ("skipped", "the table has the indexes files already")
    history.change(4)
    assert disagreements(path) == []
    [state] = hoodie.index_table(path, "show").indexes
    assert (state["num_files"], state["num_logs"]) == (3, 2)
    dropped = hoodie.index_table(path, "drop")
    assert (dropped.status, dropped.dropped, dropped.indexes) == ("dropped", ["files"], [])
    assert not Path(path, ".hoodie/metadata").exists()
    assert hoodie.index_table(path, "drop", "files").status == "skipped"
    history.change(5)
    assert not has_metadata_table(path)
    history.check()


@pytest.mark.parametrize("name", full_but({"column_stats", "record_index"}, OTHERS))
def test_one_beside_the_list_of_files(history: History, name: str) -> None:
    path = str(history.path)
    made = hoodie.index_table(path, "create", name)
    assert made.made == ["files", name]
    assert named(history.path) == {"files", name}
    history.change(4)
    assert found(history.path, deep=True) == [
        (OK, f"{', '.join(sorted(['files', name]))}: agree with the table's files")
    ]
    rebuilt = hoodie.index_table(path, "rebuild", name)
    assert (rebuilt.made, rebuilt.dropped) == ([name], [name])
    assert [item for item in found(history.path, deep=True) if item[0] != OK] == []
    hoodie.index_table(path, "drop", name)
    assert named(history.path) == {"files"}
    assert not Path(path, ".hoodie/metadata", name).exists()
    history.change(5)
    assert disagreements(path) == []


def test_what_is_refused(history: History) -> None:
    path = str(history.path)
    before = listing(history.path)
    with pytest.raises(ConfigError, match="there is no index 'secondary' here; use some of files"):
        hoodie.index_table(path, "create", "files,secondary")
    with pytest.raises(ConfigError, match="names no index to create"):
        hoodie.index_table(path, "create")
    with pytest.raises(ConfigError, match="mode is 'make'; use one of show, create"):
        hoodie.index_table(path, "make")
    with pytest.raises(ConfigError, match="has no index files to rebuild"):
        hoodie.index_table(path, "rebuild", "files")
    with pytest.raises(ConfigError, match="leave the setting out"):
        hoodie.index_table(path, "create", "files", options={"hoodie.metadata.enable": "false"})
    assert hoodie.index_table(path, "rebuild").reason == "the table has no index"
    assert listing(history.path) == before


def test_not_while_a_plan_waits(history: History) -> None:
    path = str(history.path)
    plan = hoodie.compact_table(path, mode="schedule", options=COMPACT).scheduled
    with pytest.raises(TableBusy, match=f"{plan} compaction requested"):
        hoodie.index_table(path, "create", "files")
    assert not has_metadata_table(path)
    hoodie.compact_table(path, mode="execute", options=COMPACT)
    assert hoodie.index_table(path, "create", "files").status == "created"


@pytest.mark.full
def test_a_killed_rebuild_is_finished_by_the_next_write(history: History) -> None:
    """At each of its changes: readers see the old one, none, or the new one."""
    hoodie.index_table(str(history.path), "create", "files")
    work, number = history.path.with_name("work"), 0
    while True:
        number += 1
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(history.path, work)
        try:
            with injected(Faults(at=number, phase=Phase.BEFORE)):
                hoodie.index_table(str(work), "rebuild")
            break
        except (InjectedFault, OSError):
            assert misled(work) == []
        if number % 3 == 0:
            again = History(work, MERGE_ON_READ)
            again.model = copy.deepcopy(history.model)
            again.change(4)
            again.check()
            assert has_metadata_table(work), number
            assert disagreements(work) == []
            assert begun_indexes(properties.load(STORAGE, str(work))) == ()
    assert number > 15
    assert disagreements(work) == []


@pytest.mark.parametrize(
    ("mode", "names", "left", "step"),
    [
        ("create", "files,bloom_filters", {"files", "bloom_filters"}, 10),
        ("drop", "bloom_filters", {"files"}, 1),
        pytest.param("drop", "files", set(), 1, marks=pytest.mark.full),
    ],
)
def test_a_killed_job_is_done_by_the_next_one(
    history: History, mode: str, names: str, left: set[str], step: int
) -> None:
    """At each of its changes, or each `step`th; writes go on meanwhile."""
    if mode == "drop":
        hoodie.index_table(str(history.path), "create", "files,bloom_filters")
    work, number, done = history.path.with_name("work"), 0, False
    while not done:
        number += step
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(history.path, work)
        try:
            with injected(Faults(at=number, phase=Phase.BEFORE)):
                hoodie.index_table(str(work), mode, names)
            done = True
        except (InjectedFault, OSError):
            assert misled(work) == [], number
        if number % 3 == 0:
            again = History(work, MERGE_ON_READ)
            again.model = copy.deepcopy(history.model)
            again.change(4)
            again.check()
        hoodie.index_table(str(work), mode, names)
        assert named(work) == left, number
        assert disagreements(work) == [], number
    assert number > 5


def without(name: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    def change(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for record in records:
            (record["filesystemMetadata"] or {}).pop(name, None)
        return records

    return change


@pytest.mark.table_version(6)
def test_the_doctor_finds_a_file_that_is_not_listed(tmp_path: Path) -> None:
    history = History(tmp_path / "t", COPY_ON_WRITE)
    history.change(1)
    assert found(history.path) == []
    [lost, *_] = sorted(history.path.glob("*/*.parquet"))
    make_metadata_table(history.path, change=without(lost.name))
    path = lost.relative_to(history.path)
    assert found(history.path) == [(ERROR, f"{path} is committed, and is not listed")]
    assert hoodie.index_table(str(history.path), "rebuild").status == "rebuilt"
    assert found(history.path) == [(OK, "it lists the files that are there")]
    assert disagreements(history.path) == []


def test_the_doctor_finds_a_file_that_is_gone(tmp_path: Path) -> None:
    history = History(tmp_path / "t", COPY_ON_WRITE)
    history.change(1)
    hoodie.index_table(str(history.path), "create", "files")
    history.change(2)
    old = min(history.path.glob("*/*.parquet"), key=lambda file: file.name.rpartition("_")[2])
    old.unlink()
    path = old.relative_to(history.path)
    assert found(history.path) == [(WARNING, f"{path} is listed, and not there")]
    hoodie.index_table(str(history.path), "rebuild")
    assert found(history.path) == [(OK, "it lists the files that are there")]


@pytest.mark.table_version(6)
def test_the_doctor_finds_filters_of_other_files(tmp_path: Path) -> None:
    history = History(tmp_path / "t", COPY_ON_WRITE)
    history.change(1)

    def mixed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        blooms = [record for record in records if record["type"] == 4]
        for record, other in zip(blooms, blooms[1:] + blooms[:1], strict=True):
            record["BloomFilterMetadata"] = dict(other["BloomFilterMetadata"])
        return records

    make_metadata_table(history.path, blooms=True, change=mixed)
    assert [status for status, _ in found(history.path)] == [OK]
    [(status, text)] = found(history.path, deep=True)
    assert status == ERROR
    assert "records of bloom_filters say otherwise than the files" in text
    hoodie.index_table(str(history.path), "rebuild", "bloom_filters")
    assert [status for status, _ in found(history.path, deep=True)] == [OK]


@pytest.mark.table_version(6)
@pytest.mark.parametrize(("kind", "value"), [("String", "z"), ("Long", 5)], ids=["narrow", "of another type"])
def test_the_doctor_finds_statistics_that_leave_values_out(tmp_path: Path, kind: str, value: object) -> None:
    history = History(tmp_path / "t", COPY_ON_WRITE)
    history.change(1)

    def wrong(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for record in records:
            if record["type"] == 3:
                record["ColumnStatsMetadata"] |= dict.fromkeys(["minValue", "maxValue"], wrapped(kind, value))
        return records

    make_metadata_table(history.path, stats=["id"], change=wrong)
    [(status, text)] = found(history.path, deep=True)
    assert status == ERROR
    assert "records of column_stats say otherwise than the files: column id of " in text
    hoodie.index_table(str(history.path), "rebuild", "column_stats")
    assert [status for status, _ in found(history.path, deep=True)] == [OK]


@pytest.mark.table_version(6)
@pytest.mark.parametrize(("name", "type_"), [("column_stats", 3), ("bloom_filters", 4)])
def test_the_doctor_finds_an_index_without_records(name: str, type_: int, tmp_path: Path) -> None:
    history = History(tmp_path / "t", COPY_ON_WRITE)
    history.change(1)

    def emptied(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [record for record in records if record["type"] != type_]

    make_metadata_table(history.path, stats=None, blooms=True, change=emptied)
    [(status, text)] = found(history.path, deep=True)
    assert status == WARNING
    assert re.match(rf"[1-9]\d* records of {name} are missing: (column \w+ of \S+\.parquet|key '\S+')$", text)


@pytest.mark.table_version(6)
def test_the_doctor_expects_the_columns_that_an_index_has(tmp_path: Path) -> None:
    """Nothing says which ones the settings of the writer named."""
    path = tmp_path / "t"
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.column.stats.column.list": "id,s.a",
    }
    for name in ("a", "b"):
        rows = pa.table({"id": [name], "part": ["p"], "s": [{"a": 1, "b": 2}], "c": [3]})
        hoodie.write_table(rows, str(path), operation="bulk_insert", options=options)
    assert [status for status, _ in found(path, deep=True)] == [OK]

    def without_one(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
        stats = [record for record in records if record["type"] == 3]
        return records if not stats else records[:-1]

    shutil.rmtree(path / ".hoodie/metadata")
    make_metadata_table(path, stats=["id", "c"], change=without_one)
    [(status, text)] = found(path, deep=True)
    assert status == WARNING
    assert text.startswith("1 records of column_stats are missing: column c of ")


def test_places_that_differ_are_named() -> None:
    keys = pa.array(["a", "b"])
    here, there = Place("p", "00000000-0000-0000-0000-000000000001-0", 1), Place("", "g", 1)
    truth, said = (
        of_places([(keys[:1], here), (keys[1:], place)]).rows.column(RECORD).combine_chunks()
        for place in (here, there)
    )
    assert list(differing(Partition.RECORD_INDEX, truth, truth)) == []
    assert list(differing(Partition.RECORD_INDEX, truth, said)) == [1]
    text = described(Partition.RECORD_INDEX, keys[1:], truth[1:], said[1:])
    assert text == f"a key in p {here.file_id} is said to be in . g"
    assert described(Partition.RECORD_INDEX, keys[1:], truth[1:]) == "key 'b'"


def test_the_doctor_knows_an_index_that_has_nothing_to_say(tmp_path: Path) -> None:
    """The only file has a column without bounds."""
    path = tmp_path / "t"
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
    }
    large = pa.array([Decimal(10**20)], pa.decimal128(38, 0))
    hoodie.write_table(pa.table({"id": ["a"], "c": large}), str(path), options=options)
    assert named(path) == {"files", "column_stats"}
    assert [status for status, _ in found(path, deep=True)] == [OK]


def test_a_damaged_one_is_found_and_made_anew_by_the_next_write(history: History) -> None:
    path = str(history.path)
    hoodie.index_table(path, "create", "files")
    for file in history.path.glob(".hoodie/metadata/files/*.hfile"):
        file.write_bytes(file.read_bytes()[:-100])
    [(status, text)] = found(history.path)
    assert (status, text.partition(":")[0]) == (ERROR, "it can't be read")
    shutil.rmtree(history.path / ".hoodie/metadata")
    [(status, text)] = found(history.path)
    assert status == ERROR
    result = history.write(small_rows(range(3), 9))
    assert "was damaged, and is made anew: its folder is gone" in " ".join(result.warnings)
    assert disagreements(path) == []
    assert has_metadata_table(path)
