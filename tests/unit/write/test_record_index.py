"""The record index of a metadata table that we write, and the index RECORD_INDEX, which asks it."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, StorageError
from hoodie.format.base_file import BaseFileReader
from hoodie.index.locations import KeySearch
from hoodie.metadata.partitions.record_index import locate_in
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.metadata.record_spool import RecordSpool
from hoodie.read import skipping
from hoodie.read.settings import SPILL_PATH
from hoodie.timeline.active import Timeline
from tests.contract.test_index import OPTIONS as SMALL_FILES
from tests.contract.test_index_histories import History
from tests.support.arrow import arrow_schema
from tests.support.metadata import disagreements
from tests.support.record_index import FEW_GROUPS, has_record_index, indexed, misplaced, stored
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.support.tiers import full_but
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, TYPES
from tests.unit.services.undo_support import History as Undone
from tests.unit.write.support import Templates

ASKING = {**FEW_GROUPS, "hoodie.index.type": "RECORD_INDEX"}
SCHEMA = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("region", pa.string()), ("val", pa.int64())])
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    **ASKING,
}


def rows_of(*rows: tuple[str, str, int]) -> pa.Table:
    made = [{"id": key, "ts": ts, "region": region, "val": ts} for key, region, ts in rows]
    return pa.Table.from_pylist(made, SCHEMA)


def made(path: Path, kind: str = COPY_ON_WRITE, versions: int = 3, **options: Any) -> Undone:
    history = Undone(path, kind, {**ASKING, **options})
    for version in range(1, versions + 1):
        history.change(version)
    return history


def agrees(history: Undone) -> None:
    assert has_record_index(history.path)
    assert disagreements(history.path) == []
    history.check()


@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_a_new_table_has_one(tmp_path: Path, templates: Templates, kind: str) -> None:
    history = templates.copy(tmp_path / "t", made, kind)
    agrees(history)
    folder = tmp_path / "t/.hoodie/metadata/record_index"
    assert len({path.name.split("_")[0] for path in folder.glob(".record-index-*")}) == 2


@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_a_table_that_is_there_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Of all keys that a query shows, also those that only logs have, in chunks."""
    monkeypatch.setattr("hoodie.write.participants.metadata.record_index._CHUNK_ROWS", 7)
    monkeypatch.setattr("hoodie.write.participants.metadata.record_index._SIDE_BY_SIDE_ROWS", 10)
    history = Undone(tmp_path / "t", kind)
    for version in range(1, 4):
        history.change(version)
    history.options = {**history.options, **ASKING}
    history.change(4)
    agrees(history)
    assert indexed(history.path) == stored(history.path)
    assert len(indexed(history.path)) > 7


@pytest.mark.full
def test_services_and_other_indexes_keep_it(tmp_path: Path) -> None:
    history = made(tmp_path / "t", MERGE_ON_READ)
    kept = {"hoodie.metadata.enable": "true"}
    history.options = {**history.options, **kept, "hoodie.index.type": "SIMPLE"}
    del history.options["hoodie.metadata.record.index.enable"]
    history.change(4)
    agrees(history)
    assert hoodie.compact_table(str(history.path), options={**COMPACT, **kept}).compacted
    agrees(history)
    assert hoodie.cluster_table(str(history.path), options=kept).clustered
    agrees(history)
    history.options = {**history.options, **ASKING}
    history.change(5)
    agrees(history)


@pytest.mark.full
def test_what_replaces_file_groups(tmp_path: Path) -> None:
    history = made(tmp_path / "t", MERGE_ON_READ)
    path = str(history.path)
    rows = as_table([row for row in small_rows(range(5, 12), 8) if row["region"] == "eu"], SMALL_SCHEMA)
    hoodie.write_table(rows, path, operation="insert_overwrite", options=history.options)
    assert disagreements(path) == []
    hoodie.delete_partitions(path, "us", options=ASKING)
    assert disagreements(path) == []
    assert {partition for partition, _ in indexed(path).values()} == {"eu", "apac"}
    rows = as_table(small_rows(range(2), 9), SMALL_SCHEMA)
    hoodie.write_table(rows, path, operation="insert_overwrite_table", options=history.options)
    assert disagreements(path) == []
    assert len(indexed(path)) == 2


@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, TYPES))
def test_rollbacks(tmp_path: Path, templates: Templates, kind: str) -> None:
    history = templates.copy(tmp_path / "t", made, kind)
    *_, kept, gone = history.commits()
    hoodie.rollback_table(str(history.path), gone, options=ASKING)
    history.back_to(kept)
    agrees(history)
    history.change(4)
    agrees(history)


@pytest.mark.full
def test_the_rollback_of_what_is_compacted_there(tmp_path: Path) -> None:
    """What it had replaced in the index is not known any more: the next write makes the index again."""
    often = {"hoodie.metadata.compact.max.delta.commits": "2"}
    history = made(tmp_path / "t", COPY_ON_WRITE, 4, **often)
    actions = {item.action.value for item in Timeline.load(f"{history.path}/.hoodie/metadata")}
    assert "commit" in actions
    hoodie.rollback_table(str(history.path), history.commits()[-1], options=ASKING)
    assert disagreements(history.path) == []
    history.back_to(history.commits()[-1])
    history.change(5)
    agrees(history)


@pytest.mark.full
def test_it_compacts_itself(tmp_path: Path) -> None:
    often = {"hoodie.metadata.compact.max.delta.commits": "2"}
    history = Undone(tmp_path / "t", MERGE_ON_READ, {**ASKING, **often})
    for version in range(1, 6):
        history.change(version)
        agrees(history)
    assert list((tmp_path / "t/.hoodie/metadata/record_index").glob("*.hfile"))


@pytest.mark.full
def test_the_setting_removes_it(tmp_path: Path) -> None:
    history = made(tmp_path / "t")
    history.options = {
        **history.options,
        "hoodie.metadata.record.index.enable": "false",
        "hoodie.index.type": "SIMPLE",
    }
    history.change(4)
    assert not has_record_index(history.path)
    assert disagreements(history.path) == []
    assert not (history.path / ".hoodie/metadata/record_index").exists()


@pytest.mark.parametrize("moves", [True, False])
def test_no_file_is_opened_for_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moves: bool) -> None:
    options = {**OPTIONS, "hoodie.record.index.update.partition.path": moves}
    path = str(tmp_path / "t")
    hoodie.write_table(rows_of(("a", "eu", 1), ("b", "us", 1)), path, options=options)
    monkeypatch.setattr(KeySearch, "look", None)
    rows = rows_of(("a", "us", 2), ("b", "us", 2), ("c", "us", 2))
    result = hoodie.write_table(rows, path, options=options)
    counts = (result.num_inserts, result.num_updates, result.num_deletes)
    assert counts == ((2, 1, 1) if moves else (1, 2, 0))
    assert misplaced(path) == []
    assert {key: partition for key, (partition, _) in indexed(path).items()} == {
        "a": "us" if moves else "eu",
        "b": "us",
        "c": "us",
    }
    rows = rows_of(("a", "x", 3), ("d", "x", 3))
    gone = hoodie.write_table(rows, path, operation="delete", options=options)
    assert (gone.num_deletes, gone.num_missing) == (1, 1)
    assert misplaced(path) == []
    assert sorted(indexed(path)) == ["b", "c"]


def test_updates_read_no_keys_for_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows_of(("a", "eu", 1), ("b", "us", 1)), path, options=OPTIONS)
    opened: list[str] = []

    class Noted(BaseFileReader):
        def __init__(self, storage: Any, path: str) -> None:
            opened.append(path)
            super().__init__(storage, path)

    monkeypatch.setattr("hoodie.table.commit_keys.BaseFileReader", Noted)
    hoodie.write_table(rows_of(("a", "eu", 2), ("b", "us", 2)), path, options=OPTIONS)
    assert opened == []
    hoodie.write_table(rows_of(("a", "eu", 3), ("c", "eu", 3)), path, options=OPTIONS)
    assert len(opened) == 1
    assert misplaced(path) == []


def test_a_query_of_many_keys(tmp_path: Path) -> None:
    """Where most files have some of them, the others are not looked up."""
    path, asking = str(tmp_path / "t"), {"hoodie.read.record.index": "true"}
    rows = [(f"{region}{number:02d}", region, 1) for region in "abcd" for number in range(20)]
    hoodie.write_table(rows_of(*rows), path, options=OPTIONS)
    for keys, left_out in (
        ([f"a{number:02d}" for number in range(20)], 3),
        ([f"{region}{number:02d}" for region in "abcd" for number in range(5)], 0),
        ([f"{region}{number:02d}" for region in "ab" for number in range(2)], 2),
    ):
        where = f"id IN ({', '.join(map(repr, keys))})"
        steps = hoodie.explain_read(path, where=where, options=asking).steps
        assert {step.step: step.files for step in steps}["record index"] == left_out
        assert hoodie.read_table(path, where=where, options=asking).num_rows == len(keys)


def test_a_query_of_many_keys_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once some of the keys lie there, no other one can rule it out."""
    path, asking = str(tmp_path / "t"), {"hoodie.read.record.index": "true"}
    keys = [f"{number:02d}" for number in range(50)]
    hoodie.write_table(rows_of(*((key, "eu", 1) for key in keys)), path, options=OPTIONS)
    asked: list[int] = []

    def noted(metadata: Any, keys: Any, partitions: Any) -> Any:
        asked.append(len(keys))
        return locate_in(metadata, keys, partitions)

    monkeypatch.setattr(skipping, "locate_in", noted)
    where = f"id IN ({', '.join(map(repr, keys))})"
    assert hoodie.read_table(path, where=where, options=asking).num_rows == len(keys)
    assert asked == [17]


@pytest.mark.parametrize("there", [True, False])
def test_a_table_without_one_is_refused(tmp_path: Path, there: bool) -> None:
    path = str(tmp_path / "t")
    plain = {**OPTIONS, "hoodie.index.type": "SIMPLE", "hoodie.metadata.record.index.enable": "false"}
    if there:
        hoodie.write_table(rows_of(("a", "eu", 1)), path, options=plain)
    asking = {**plain, "hoodie.index.type": "RECORD_INDEX"}
    with pytest.raises(ConfigError, match=r"needs the record index .* has none; set hoodie"):
        hoodie.write_table(rows_of(("a", "eu", 2)), path, options=asking)
    assert len(list((tmp_path / "t").glob("*/*.parquet"))) == there


def test_while_a_plan_is_pending_all_files_are_searched(tmp_path: Path) -> None:
    history = Undone(tmp_path / "t", MERGE_ON_READ)
    for version in range(1, 4):
        history.change(version)
    hoodie.compact_table(str(history.path), mode="schedule", options=COMPACT)
    history.options = {**history.options, **ASKING}
    with pytest.warns(MetadataTableIgnored, match=r"it gets a record index once instant \d+ is done"):
        history.change(4)
    history.check()
    assert not has_record_index(history.path)


@pytest.mark.table_version(6)
@pytest.mark.parametrize("place", full_but({10}, [None, 10]))
@pytest.mark.parametrize("way", full_but({"on the driver"}, ["on the driver", "by tasks"]))
def test_a_damaged_index_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, place: int | None
) -> None:
    if way == "by tasks":
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
    history = made(tmp_path / "t")
    for log in (history.path / ".hoodie/metadata/record_index").glob(".record-index-*.log.2_*"):
        data = bytearray(log.read_bytes())
        data[len(data) // 2 if place is None else place] ^= 0xFF
        log.write_bytes(bytes(data))
    with pytest.warns(MetadataTableIgnored, match="all files are searched"):
        history.change(4)
    history.check()


def test_records_are_spilled_where_the_setting_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecordSpool, "__init__", partialmethod(RecordSpool.__init__, in_memory=0))
    making, writing, taken = (tmp_path / name for name in ("making", "writing", "taken"))
    history = made(tmp_path / "t", versions=1, **{SPILL_PATH.name: str(making)})
    assert making.is_dir()
    history.options[SPILL_PATH.name] = str(writing)
    history.change(2)
    assert writing.is_dir()
    agrees(history)
    taken.touch()
    history.options[SPILL_PATH.name] = str(taken)
    with pytest.raises(StorageError, match="can't spill to"):
        history.change(3)


@pytest.mark.full
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM without moves"])
@pytest.mark.parametrize("merge_on_read", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_random_histories_with_another_index(
    tmp_path: Path, index: str, merge_on_read: bool, seed: int
) -> None:
    kind, _, without = index.partition(" ")
    moves = f"hoodie.{kind.removeprefix('GLOBAL_').lower()}.index.update.partition.path"
    options = {**SMALL_FILES, **FEW_GROUPS, "hoodie.index.type": kind, moves: not without}
    History(tmp_path / "t", index, options, merge_on_read, seed).run()
