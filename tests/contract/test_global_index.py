"""GLOBAL_SIMPLE and GLOBAL_BLOOM: a key names one record in the whole table. Expected answers are those of
Apache Hudi 0.15.0, which tests/interop/test_global_index.py asks.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConflictError, InputError
from hoodie.format.base_file import BaseFileReader
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.index.locations import KeySearch
from hoodie.storage.local import LocalStorage
from tests.support.tiers import full_but

COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "region": pa.string(),
    "val": pa.int64(),
    "note": pa.string(),
}
SCHEMA = pa.schema(COLUMNS)
DELETES = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
}
PAYLOAD = "hoodie.datasource.write.payload.class"
MOVES = {
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
}
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
#: each index and each type once in the fast tier
PAIRS = [
    ("GLOBAL_SIMPLE", "COPY_ON_WRITE"),
    ("GLOBAL_BLOOM", "MERGE_ON_READ"),
    pytest.param("GLOBAL_SIMPLE", "MERGE_ON_READ", marks=pytest.mark.full),
    pytest.param("GLOBAL_BLOOM", "COPY_ON_WRITE", marks=pytest.mark.full),
]


@pytest.fixture(params=["on the driver", pytest.param("by tasks", marks=pytest.mark.full)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the index is asked; the answers are the same."""
    if request.param == "by tasks":
        monkeypatch.setattr("hoodie.write.input.stage.DRIVER_KEY_BYTES", 0)
        monkeypatch.setattr("hoodie.write.tagging.tag._UNIT_BYTES", 1)
    return str(request.param)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose keys the index compares, in their order."""
    found: list[str] = []
    look = KeySearch.look

    def noted(self: KeySearch, reader: BaseFileReader, number: int) -> None:
        found.append(reader.path)
        look(self, reader, number)

    monkeypatch.setattr(KeySearch, "look", noted)
    return found


class Written:
    """A table and the options of its writes."""

    def __init__(self, path: Path, table: str = "COPY_ON_WRITE", index: str = "GLOBAL_SIMPLE", **more: Any):
        self.path = str(path / "t")
        self.options = {
            **OPTIONS,
            "hoodie.datasource.write.table.type": table,
            "hoodie.index.type": index,
            **more,
        }

    def write(
        self, *rows: tuple[Any, ...], operation: str = "upsert", schema: Any = SCHEMA, **more: Any
    ) -> Any:
        made = [dict(zip(schema.names, row, strict=False)) for row in rows]
        table = pa.Table.from_pylist(made, schema)
        return hoodie.write_table(table, self.path, operation=operation, options={**self.options, **more})

    def delete(self, **columns: list[Any]) -> Any:
        return hoodie.write_table(pa.table(columns), self.path, operation="delete", options=self.options)

    def shown(self, *names: str) -> list[tuple[Any, ...]]:
        rows = hoodie.read_table(self.path, meta=True)
        wanted = ["_hoodie_partition_path", "id", *(names or ("ts", "val"))]
        return sorted(tuple(row[name] for name in wanted) for row in rows.to_pylist())


@pytest.mark.parametrize(("index", "table"), PAIRS)
def test_a_record_moves_to_its_new_partition(tmp_path: Path, way: str, table: str, index: str) -> None:
    written = Written(tmp_path, table, index)
    written.write(("a", 1, "eu", 1), ("b", 1, "eu", 2), ("c", 1, "us", 3))
    result = written.write(("a", 2, "us", 10), ("c", 2, "us", 30), ("d", 2, "apac", 40))
    assert written.shown() == [
        ("apac", "d", 2, 40),
        ("eu", "b", 1, 2),
        ("us", "a", 2, 10),
        ("us", "c", 2, 30),
    ]
    assert result.num_deletes == 1
    written.write(("a", 3, "eu", 100))
    assert written.shown()[1:3] == [("eu", "a", 3, 100), ("eu", "b", 1, 2)]
    assert len(written.shown()) == 4


@pytest.mark.parametrize(("index", "table"), PAIRS)
def test_without_moves_a_record_is_updated_where_it_is(
    tmp_path: Path, way: str, table: str, index: str
) -> None:
    written = Written(tmp_path, table, index, **{MOVES[index]: "false"})
    written.write(("a", 1, "eu", 1), ("b", 1, "us", 2))
    result = written.write(("a", 2, "us", 10), ("b", 0, "eu", 20), ("c", 1, "us", 3))
    assert written.shown() == [("eu", "a", 2, 10), ("us", "b", 1, 2), ("us", "c", 1, 3)]
    assert result.num_deletes == 0


@pytest.mark.parametrize("table", TYPES)
def test_an_older_row_does_not_move_its_record(tmp_path: Path, way: str, table: str) -> None:
    written = Written(tmp_path, table)
    written.write(("a", 5, "eu", 1), ("b", 5, "eu", 2), ("c", 5, "eu", 3))
    written.write(("a", 4, "us", 10), ("b", 5, "us", 20))
    assert written.shown() == [("eu", "a", 5, 1), ("eu", "c", 5, 3), ("us", "b", 5, 20)]


@pytest.mark.parametrize("table", TYPES)
def test_the_last_write_moves_its_record_where_it_wins(tmp_path: Path, table: str) -> None:
    written = Written(tmp_path, table, **{PAYLOAD: "OverwriteWithLatestAvroPayload"})
    written.write(("a", 5, "eu", 1))
    written.write(("a", 4, "us", 10))
    assert written.shown() == [("us", "a", 4, 10)]


@pytest.mark.parametrize("table", TYPES)
def test_what_a_log_says_of_a_record_counts(tmp_path: Path, table: str) -> None:
    """Its newer ordering value, and that it is deleted, are in the log only."""
    written = Written(tmp_path, table)
    written.write(("a", 1, "eu", 1), ("b", 9, "eu", 2), ("c", 1, "eu", 3))
    written.write(("a", 8, "eu", 10))
    written.delete(id=["b"], region=["eu"])
    written.write(("a", 4, "us", 100), ("b", 4, "us", 200))
    assert written.shown() == [("eu", "a", 8, 10), ("eu", "c", 1, 3), ("us", "b", 4, 200)]
    written.write(("b", 5, "eu", 300), ("a", 9, "us", 400))
    assert written.shown() == [("eu", "b", 5, 300), ("eu", "c", 1, 3), ("us", "a", 9, 400)]


@pytest.mark.parametrize("table", TYPES)
def test_a_row_that_deletes_its_record_finds_it_in_any_partition(tmp_path: Path, table: str) -> None:
    written = Written(tmp_path, table)
    written.write(("a", 5, "eu", 1), ("b", 5, "eu", 2))
    gone = (("a", 6, "us", 1, None, True), ("b", 4, "us", 2, None, True), ("x", 1, "us", 2, None, True))
    written.write(*gone, schema=DELETES)
    assert written.shown() == [("eu", "b", 5, 2)]


@pytest.mark.parametrize("table", TYPES)
def test_a_partial_update_takes_what_it_lacks_along(tmp_path: Path, way: str, table: str) -> None:
    written = Written(tmp_path, table, **{PAYLOAD: "PartialUpdateAvroPayload"})
    written.write(("a", 5, "eu", 1, "kept"), ("b", 5, "eu", 2, "newer"), ("c", 5, "us", 3, None))
    written.write(("a", 6, "us", None, None), ("b", 4, "us", 20, "older"), ("c", 6, "us", None, "new"))
    names = ("ts", "val", "note")
    assert written.shown(*names) == [
        ("us", "a", 6, 1, "kept"),
        ("us", "b", 5, 2, "newer"),
        ("us", "c", 6, 3, "new"),
    ]


@pytest.mark.parametrize(
    ("table", "setting"),
    [
        ("COPY_ON_WRITE", "true"),
        ("MERGE_ON_READ", "false"),
        pytest.param("COPY_ON_WRITE", "false", marks=pytest.mark.full),
        pytest.param("MERGE_ON_READ", "true", marks=pytest.mark.full),
    ],
)
def test_rows_of_one_key_with_several_partitions_are_one_record(
    tmp_path: Path, way: str, table: str, setting: str
) -> None:
    written = Written(tmp_path, table, **{MOVES["GLOBAL_SIMPLE"]: setting})
    written.write(("a", 1, "eu", 1), ("a", 3, "us", 3), ("a", 2, "apac", 2), ("b", 1, "eu", 4))
    assert written.shown() == [("eu", "b", 1, 4), ("us", "a", 3, 3)]
    written.write(("a", 9, "eu", 9), ("a", 5, "apac", 5), ("b", 0, "us", 0), ("b", 2, "eu", 5))
    home = "eu" if setting == "true" else "us"
    assert written.shown() == sorted([("eu", "b", 2, 5), (home, "a", 9, 9)])


def test_a_key_that_comes_twice_is_refused_where_rows_are_not_combined(tmp_path: Path, way: str) -> None:
    written = Written(tmp_path, **{"hoodie.combine.before.upsert": "false"})
    written.write(("a", 1, "eu", 1), ("b", 1, "us", 2))
    with pytest.raises(InputError, match=r"1 rows have the key of another row, and hoodie\.combine"):
        written.write(("a", 2, "eu", 3), ("a", 3, "us", 4))
    assert len(hoodie.instants(written.path)) == 1
    written.write(("a", 2, "us", 3))
    assert written.shown() == [("us", "a", 2, 3), ("us", "b", 1, 2)]


@pytest.mark.parametrize("table", TYPES)
def test_a_delete_needs_the_key_only(tmp_path: Path, way: str, table: str) -> None:
    written = Written(tmp_path, table, "GLOBAL_BLOOM")
    written.write(("a", 1, "eu", 1), ("b", 1, "eu", 2), ("c", 1, "us", 3))
    gone = written.delete(id=["a", "c", "x"])
    assert (gone.num_deletes, gone.num_missing) == (2, 1)
    assert written.shown() == [("eu", "b", 1, 2)]
    assert written.delete(id=["b"], region=["elsewhere"]).num_deletes == 1
    assert written.shown() == []
    with pytest.raises(InputError, match="the input lacks id; a delete needs the columns of record key: id"):
        written.delete(region=["eu"])
    written.options["hoodie.index.type"] = "BLOOM"
    with pytest.raises(InputError, match=r"lacks region; .* record key and partition path: id, region"):
        written.delete(id=["b"])


def test_the_stored_row_of_one_that_moved_is_a_delete_in_a_log(tmp_path: Path) -> None:
    """Without ordering value: it wins whatever the row's is."""
    written = Written(tmp_path, "MERGE_ON_READ")
    written.write(("a", 1, "eu", 1), ("b", 1, "eu", 2))
    written.write(("a", 2, "us", 3), ("b", 2, "eu", 4))
    (log,) = Path(written.path).glob("eu/.*.log.*")
    with LogFileReader(LocalStorage(), str(log)) as reader:
        blocks = [(block.type, reader.content(block)) for block in reader.blocks()]
    assert [kind for kind, _ in blocks][-1] is BlockType.DELETE
    deleted = read_delete_block(blocks[-1][1], pa.int64())
    assert (deleted.keys.to_pylist(), deleted.partitions.to_pylist()) == (["a"], ["eu"])
    assert deleted.ordering is None or deleted.ordering.null_count == 1
    before = written.shown()
    assert hoodie.compact_table(
        written.path, options={"hoodie.compact.inline.max.delta.commits": "1"}
    ).instant
    assert written.shown() == before == [("eu", "b", 2, 4), ("us", "a", 2, 3)]


def test_an_insert_that_drops_known_keys_looks_into_all_partitions(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(("a", 1, "eu", 1))
    drop = {"hoodie.datasource.insert.dup.policy": "drop"}
    result = written.write(("a", 2, "us", 2), ("b", 2, "us", 2), operation="insert", **drop)
    assert result.num_dropped == 1
    assert written.shown() == [("eu", "a", 1, 1), ("us", "b", 2, 2)]


def test_a_file_group_that_a_pending_clustering_replaces_loses_no_record(tmp_path: Path) -> None:
    written = Written(tmp_path)
    for number, key in enumerate("ab"):
        written.write((key, 1, "eu", number))
    plan = hoodie.cluster_table(written.path, mode="schedule", options=written.options)
    assert plan.scheduled
    with pytest.raises(ConflictError, match="rows to update are in file group"):
        written.write(("a", 2, "us", 2))
    assert written.shown() == [("eu", "a", 1, 0), ("eu", "b", 1, 1)]


def test_a_dry_run_tells_what_moves(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.write(("a", 1, "eu", 1), ("b", 1, "eu", 2))
    table = pa.Table.from_pylist([{"id": "a", "ts": 2, "region": "us", "val": 3, "note": None}], SCHEMA)
    told = hoodie.write_table(table, written.path, options=written.options, dry_run=True)
    found = {item.partition: (item.inserts, item.updates, item.deletes) for item in told.planned}
    assert found == {"eu": (0, 0, 1), "us": (1, 0, 0)}


def _many(written: Written, files: int) -> None:
    """Each file group has keys of a range of its own."""
    for number in range(files):
        rows = [(f"k{number:02d}{key}", 1, f"r{number % 3}", key) for key in range(5)]
        written.write(*rows, operation="bulk_insert")


@pytest.mark.parametrize("table", full_but({"COPY_ON_WRITE"}, TYPES))
def test_each_file_is_opened_once_and_only_its_keys_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, table: str, looked: list[str]
) -> None:
    """To find where keys are; and those files once more whose records moved, for their ordering values."""
    written = Written(tmp_path, table)
    _many(written, 9)
    opened, read = Counter[str](), BaseFileReader.batches

    def batches(self: BaseFileReader, columns: Any = None, *more: Any) -> Any:
        opened[self.path] += list(columns or ()) == ["ts"]
        return read(self, columns, *more)

    monkeypatch.setattr(BaseFileReader, "batches", batches)
    written.write(*[(f"k{number:02d}0", 2, "r1", 9) for number in range(9)])
    assert len(looked) == len(set(looked)) == 9
    elsewhere = {name: times for name, times in opened.items() if name.split("/")[-2] != "r1" and times}
    assert (len(elsewhere), set(elsewhere.values())) == (6, {1})
    assert len([row for row in written.shown() if row[0] == "r1"]) == 21


def test_files_whose_key_range_holds_no_key_are_not_read(tmp_path: Path, way: str, looked: list[str]) -> None:
    written = Written(tmp_path, index="GLOBAL_BLOOM")
    _many(written, 9)
    written.write(("k043", 2, "r2", 9))
    assert [path.split("/")[-2] for path in looked] == ["r1"]
    assert ("r2", "k043", 2, 9) in written.shown()
