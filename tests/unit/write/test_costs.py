"""What an upsert costs as tables get wide and keys long: in proportion, in the processor's time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodie

KEY = {"hoodie.datasource.write.recordkey.field": "id"}
LOGS = {
    **KEY,
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.precombine.field": "c0",
    "hoodie.logfile.data.block.format": "parquet",
}
PARTIAL = {
    **KEY,
    "hoodie.datasource.write.precombine.field": "c0",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
}


def seconds(work: Callable[[], Any]) -> float:
    """The least of two runs."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def wide(columns: int) -> pa.Table:
    numbers = np.arange(20)
    return pa.table(
        {"id": [f"k{number}" for number in numbers], **{f"c{place}": numbers for place in range(columns)}}
    )


@pytest.mark.full
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(KEY, id="cow", marks=pytest.mark.full),
        pytest.param(PARTIAL, id="partial", marks=pytest.mark.full),
        pytest.param(LOGS, id="logs"),
    ],
)
def test_four_times_the_columns_cost_about_four_times_as_much(
    options: Mapping[str, str], tmp_path: Path
) -> None:
    def upsert_and_read(columns: int) -> float:
        rows, path = wide(columns), str(tmp_path / f"c{columns}")
        hoodie.write_table(rows, path, options=options)

        def work() -> None:
            hoodie.write_table(rows.slice(0, 5), path, options=options)
            hoodie.read_table(path, columns=rows.column_names)

        return seconds(work)

    narrow = upsert_and_read(250)
    assert upsert_and_read(1000) < 7 * narrow


@pytest.mark.full
def test_a_very_long_key(tmp_path: Path) -> None:
    path, long = str(tmp_path / "t"), "ä" * 200_000
    rows = pa.table({"id": [long, *(f"k{number}" for number in range(50))], "n": range(51)})
    start = time.process_time()
    for n in (1, 2):
        rows = rows.set_column(1, "n", pa.array([n] * 51))
        result = hoodie.write_table(rows, path, options={**KEY, "hoodie.index.type": "BLOOM"})
    assert time.process_time() - start < 3
    assert (result.num_inserts, result.num_updates) == (0, 51)
    found = hoodie.read_table(path, where="n = 2", columns=["id"]).column("id").to_pylist()
    written: list[Any] = rows.column("id").to_pylist()
    assert sorted(found) == sorted(written)
