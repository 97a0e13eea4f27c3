"""A small merge budget: the same table, by way of files that are gone afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import StorageError
from hoodie.read.spill import SpillFolder
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, as_table, full_rows, small_rows
from tests.unit.write.support import BUDGET, OPTIONS, SORT_MODE, check_meta

SPILL = "hoodie.memory.spillable.map.path"
TINY = 1 << 16


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that were spilled to."""
    folders: list[str] = []
    make = SpillFolder.__init__

    def counted(self: SpillFolder, spill_path: str) -> None:
        make(self, spill_path)
        folders.append(self.path)

    monkeypatch.setattr(SpillFolder, "__init__", counted)
    return folders


def _batches() -> list[pa.Table]:
    """New rows, then updates with duplicates, ties, late rows, deletes and inserts."""
    first = small_rows(range(3000), 5)
    second = (
        small_rows(range(1500), 6)
        + small_rows(range(1000, 2000), 7)
        + small_rows(range(1700, 2000), 7)
        + small_rows(range(2000, 2200), 4)
        + small_rows(range(2200, 2500), 8, deleted=True)
        + small_rows(range(3500, 4500), 5)
        + small_rows(range(4000, 4700), 4)
    )
    return [as_table(rows, SMALL_SCHEMA) for rows in (first, second)]


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_same_table_with_a_tiny_budget(tmp_path: Path, spilled: list[str], operation: str) -> None:
    results: dict[str, Any] = {}
    for name, budget in (("small", TINY), ("large", 1 << 30)):
        options = {**OPTIONS, BUDGET: budget, SPILL: str(tmp_path / "spill")}
        (tmp_path / "spill").mkdir(exist_ok=True)
        for rows in _batches():
            results[name] = hoodie.write_table(
                rows, str(tmp_path / name), operation=operation, options=options
            )
        if name == "small":
            # a bulk insert makes its file groups to fit the budget
            assert bool(spilled) == (operation != "bulk_insert")
            assert {os.path.dirname(folder) for folder in spilled} <= {str(tmp_path / "spill")}
            spilled.clear()
    assert not spilled
    assert os.listdir(tmp_path / "spill") == []
    small, large = (hoodie.read_table(str(tmp_path / name)) for name in ("small", "large"))
    assert_same_rows(small, large)
    check_meta(small, tmp_path / "small")
    counts = ("num_inserts", "num_updates", "num_deletes")
    assert [getattr(results["small"], name) for name in counts] == [
        getattr(results["large"], name) for name in counts
    ]


def test_all_types_spill(tmp_path: Path, spilled: list[str]) -> None:
    for name, budget in (("small", TINY), ("large", 1 << 30)):
        for version, numbers in ((1, range(300)), (2, range(200, 400))):
            rows = as_table(full_rows(numbers, version) + full_rows(numbers, version), FULL_SCHEMA)
            hoodie.write_table(rows, str(tmp_path / name), options={**OPTIONS, BUDGET: budget})
    assert spilled
    assert not any(os.path.exists(folder) for folder in spilled)
    assert_same_rows(hoodie.read_table(str(tmp_path / "small")), hoodie.read_table(str(tmp_path / "large")))


def test_a_failing_write_empties_the_spill_folder_too(
    tmp_path: Path, spilled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _batches()
    options = {**OPTIONS, BUDGET: TINY, SPILL: str(tmp_path / "spill")}
    hoodie.write_table(first, str(tmp_path / "t"), options=options)

    def broken(*args: Any) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr("hoodie.write.files.handles.OutputFile.carry", broken)
    before = len(spilled)
    with pytest.raises(StorageError, match="disk full"):
        hoodie.write_table(second, str(tmp_path / "t"), options=options)
    assert len(spilled) > before
    assert os.listdir(tmp_path / "spill") == []
    monkeypatch.undo()
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 3000


def test_the_spill_folder_is_made_where_it_is_missing(tmp_path: Path, spilled: list[str]) -> None:
    options = {**OPTIONS, BUDGET: TINY, SPILL: str(tmp_path / "a" / "b")}
    hoodie.write_table(_batches()[0], str(tmp_path / "t"), options=options)
    assert spilled
    assert os.listdir(tmp_path / "a" / "b") == []


def test_a_spill_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    options = {**OPTIONS, BUDGET: TINY, SPILL: str(tmp_path / "file")}
    with pytest.raises(StorageError, match=f"can't spill to .*file.*{SPILL}"):
        hoodie.write_table(_batches()[0], str(tmp_path / "t"), options=options)
    assert not (tmp_path / "t").exists()


def test_global_sort_with_a_tiny_budget(tmp_path: Path) -> None:
    rows = as_table(small_rows(range(3000), 1), SMALL_SCHEMA)
    options = {**OPTIONS, BUDGET: TINY, SORT_MODE: "GLOBAL_SORT"}
    hoodie.write_table(rows, str(tmp_path / "t"), operation="bulk_insert", options=options)
    assert_same_rows(hoodie.read_table(str(tmp_path / "t")), rows)
