"""An index of one's own, by its dotted name, in jobs of operators: on the worker, on Spark's executors."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from airflow_hoodie.operators.write import DeleteOperator, UpsertOperator
from airflow_hoodie.table import HoodieTable

#: one of the whole table that notes in which process it is asked; the driver leaves that to tasks
MODULE = """
import os
from hoodie.index import Index, Scope
from hoodie.index.locations import KeySearch
from hoodie.table.skeleton import open_base
from hoodie.write.input import stage

stage.DRIVER_KEY_BYTES = 0


class Whole(Index):
    scope = Scope.TABLE
    by_slice = True

    def __init__(self, *, config):
        self.made_in = os.getpid()

    def locate(self, table, slices, keys):
        search = KeySearch(keys)
        for number, slice_ in enumerate(slices):
            with open_base(table.storage(), slice_.base, None) as reader:
                search.look(reader, number)
        with open(table.uri + "-asked", "a") as notes:
            notes.write(f"{self.made_in} {os.getpid()}\\n")
        return search.locations()
"""


def _source(folder: Path, ids: str, value: int, day: str) -> str:
    path = folder / f"{ids}{value}.parquet"
    columns = {"id": list(ids), "day": [day] * len(ids), "ts": [value] * len(ids)}
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.mark.full
@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.full])]
)
def test_an_index_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, engine: str
) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    module = folder / "whole_index.py"
    module.write_text(MODULE)
    table = HoodieTable(
        name="orders",
        path=str(tmp_path / "orders"),
        record_keys="id",
        partition_fields="day",
        ordering_field="ts",
    )
    common: dict[str, Any] = {
        "table": table,
        "engine": engine,
        "options": {"hoodie.index.class": "whole_index:Whole"},
    }
    if engine == "spark":
        common |= {**request.getfixturevalue("real_spark"), "py_files": str(module)}
    else:
        monkeypatch.setenv(
            "PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        )

    def run(kind: Any, source: str) -> dict[str, Any]:
        result: dict[str, Any] = kind(task_id="write", source=source, **common).execute({})
        return result

    run(UpsertOperator, _source(tmp_path, "ab", 1, "2026-01-01"))
    moved = run(UpsertOperator, _source(tmp_path, "bc", 2, "2026-01-02"))
    assert (moved["num_inserts"], moved["num_deletes"]) == (2, 1)
    rows = hoodie.read_table(table.path).to_pylist()
    assert sorted((row["day"], row["id"], row["ts"]) for row in rows) == [
        ("2026-01-01", "a", 1),
        ("2026-01-02", "b", 2),
        ("2026-01-02", "c", 2),
    ]
    assert run(DeleteOperator, _source(tmp_path, "a", 3, "2026-01-09"))["num_deletes"] == 1
    assert hoodie.read_table(table.path).num_rows == 2
    asked = [line.split() for line in Path(f"{table.path}-asked").read_text().splitlines()]
    assert len(asked) >= 2
    assert str(os.getpid()) not in {process for line in asked for process in line}
    assert "whole_index" not in sys.modules
    if engine == "spark":
        assert all(driver != executor for driver, executor in asked)
