"""What a write of the local engine holds in memory: rows between its steps, and those of its tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.engine import files, local
from hoodie.engine.files import FileFrame
from hoodie.engine.spool import Room
from hoodie.read import spill
from hoodie.read.spill import SpillFolder
from hoodie.write.input.combine_keys import DedupRows
from tests.support.arrow import arrow_schema
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.write.support import BUDGET, OPTIONS, SORT_MODE

SPILL = "hoodie.memory.spillable.map.path"
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
SMALL = 1 << 17


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> list[Room]:
    """Of the engines that were limited."""
    made: list[Room] = []

    class Noted(Room):
        def __init__(self, limit: int | None = None, *rest: Any) -> None:
            super().__init__(limit, *rest)
            if limit is not None:
                made.append(self)

    monkeypatch.setattr(local, "Room", Noted)
    return made


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("upsert", {}),
        pytest.param("upsert", {"hoodie.index.type": "BLOOM"}, marks=pytest.mark.full),
        ("upsert", MOR),
        pytest.param("insert", {}, marks=pytest.mark.full),
        pytest.param("bulk_insert", {}, marks=pytest.mark.full),
        ("bulk_insert", {SORT_MODE: "GLOBAL_SORT"}),
        pytest.param("insert_overwrite", {}, marks=pytest.mark.full),
        ("delete", {}),
        pytest.param("delete", MOR, marks=pytest.mark.full),
    ],
)
def test_rows_beyond_half_of_the_budget_are_on_disk_between_the_steps(
    tmp_path: Path, rooms: list[Room], operation: str, options: dict[str, str]
) -> None:
    stored = as_table(small_rows(range(3000), 5), SMALL_SCHEMA)
    rows = as_table(small_rows(range(1500, 6000), 6), SMALL_SCHEMA)
    given = {**OPTIONS, **options, SPILL: str(tmp_path / "spill")}
    for name, budget in (("large", 1 << 30), ("small", SMALL)):
        hoodie.write_table(stored, str(tmp_path / name), operation="bulk_insert", options=given)
        rooms.clear()
        hoodie.write_table(rows, str(tmp_path / name), operation=operation, options={**given, BUDGET: budget})
        (room,) = rooms
        assert room.peak <= budget // 2
        assert room.held == 0
        assert bool(room.spilled) == (name == "small")
    # every row is staged, and gathered by file group
    assert room.peak + room.spilled >= rows.nbytes * (1 if operation == "delete" else 2) // 2
    assert os.listdir(tmp_path / "spill") == []
    assert_same_rows(hoodie.read_table(str(tmp_path / "small")), hoodie.read_table(str(tmp_path / "large")))


def test_copies_of_the_rows_of_a_file_group_fit_into_the_budget(tmp_path: Path) -> None:
    rows = as_table(small_rows(range(1000), 1), SMALL_SCHEMA)
    schema = rows.schema.append(pa.field("_hoodie_record_key", pa.string()))
    rows = rows.append_column("_hoodie_record_key", rows.column(0).cast(pa.string()))
    for copies, spills in ((1, False), (3, True)):
        with DedupRows(schema, rows.nbytes + 1, str(tmp_path), rows.nbytes, copies) as held:
            held.extend(rows.to_batches())
            assert held.spilled == spills


def test_a_large_row_group_is_read_batch_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows, with columns from the path, columns that a file lacks, and wider types."""
    for number, more in ((1, {"b": pa.array([1.5] * 9)}), (2, {"n": pa.array(range(9), pa.int64())})):
        folder = tmp_path / "in" / f"k={number}"
        folder.mkdir(parents=True)
        given = {"n": pa.array(range(9), pa.int32()), "s": [{"x": i} for i in range(9)], **more}
        pq.write_table(pa.table(given), folder / "a.parquet", row_group_size=4)
    schema = arrow_schema(
        [
            ("n", pa.int64()),
            ("k", pa.int32()),
            ("b", pa.float64()),
            ("s", pa.struct([("x", pa.int64())])),
            ("none", pa.string()),
        ]
    )
    dataset = ds.dataset(tmp_path / "in", schema=schema, format="parquet", partitioning="hive")
    frame = FileFrame.of(dataset)
    assert frame is not None

    def rows(names: list[str]) -> pa.Table:
        scan = frame.only(names).scan
        return pa.Table.from_batches(scan.batches(frame.pieces), scan.schema)

    for names in (schema.names, ["none"], ["k"]):
        whole = rows(names)
        monkeypatch.setattr(files, "_WHOLE_BYTES", 0)
        monkeypatch.setattr(files, "_BATCH_BYTES", 1)
        assert rows(names) == whole
        assert whole.num_rows == 18
        monkeypatch.undo()


def test_folders_that_a_killed_process_left_are_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, young, other = (tmp_path / name for name in ("hoodie-spill-left", "hoodie-spill-young", "other"))
    for folder in (left, young, other):
        folder.mkdir()
        (folder / "rows-0.arrow").write_text("rows")
    old = time.time() - 3600
    with SpillFolder(str(tmp_path)) as alive:
        for folder in (left, other, Path(alive.path)):
            os.utime(folder, (old, old))
        with SpillFolder(str(tmp_path)) as next_one:
            assert {*os.listdir(tmp_path)} == {
                young.name,
                other.name,
                os.path.basename(alive.path),
                os.path.basename(next_one.path),
            }
    assert {*os.listdir(tmp_path)} == {young.name, other.name}
    monkeypatch.setattr(spill, "_YOUNG_SECONDS", 0)
    with SpillFolder(str(tmp_path)):
        assert not young.exists()
