"""Tables of version 6 that Apache Hudi 1.2.0 makes: we and it write in turns, and both read the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.model.machine import Machine
from tests.support.hudi_client import HudiServer
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

DAY_MS = 86_400_000
KEYGEN = "org.apache.hudi.keygen."
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.compact.inline": "false",
}
TIMES = {
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.keygenerator.class": KEYGEN + "TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}
#: options of Apache Hudi's first write, and whether the ordering column says which row is kept
CASES: dict[str, tuple[dict[str, str], bool]] = {
    "simple": ({}, True),
    "one named key": (
        {
            "hoodie.datasource.write.keygenerator.class": KEYGEN + "ComplexKeyGenerator",
            "hoodie.write.complex.keygen.validation.enable": "false",
        },
        True,
    ),
    "two keys": ({"hoodie.datasource.write.recordkey.field": "id,part"}, True),
    "not partitioned": (
        {
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": KEYGEN + "NonpartitionedKeyGenerator",
        },
        True,
    ),
    "timestamps": (TIMES, True),
    "commit time": ({"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}, False),
}


def batch(ids: range, ts: int, text: str) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "part": [f"p{number % 2}" for number in ids],
            "ts": pa.array([ts] * len(ids), pa.int64()),
            "day": pa.array([20_000 * DAY_MS + number % 3 * DAY_MS for number in ids], pa.int64()),
            "v": [f"{text}{number}" for number in ids],
        }
    )


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("name", CASES)
def test_written_in_turns(hudi_12: HudiServer, tmp_path: Path, name: str, kind: str) -> None:
    """Each third batch is late: by event time it changes no stored row."""
    path, (more, by_event) = str(tmp_path / "t"), CASES[name]
    options = {**OPTIONS, **more, "hoodie.datasource.write.table.type": kind}
    rows: dict[int, tuple[int, str]] = {}
    for turn, (ids, ts) in enumerate(
        [(range(12), 5), (range(4, 16), 6), (range(8, 20), 7), (range(2, 18), 4), (range(1, 19), 3)]
    ):
        given = batch(ids, ts, f"t{turn}-")
        if turn % 2:
            hoodie.write_table(given, path)
        else:
            mode = "append" if turn else "overwrite"
            hudi_12.write(path, given, options=options, mode=mode)
        for number in ids:
            if number not in rows or not by_event or ts >= rows[number][0]:
                rows[number] = (ts, f"t{turn}-{number}")
        expected = sorted((number, *row) for number, row in rows.items())
        assert found(hoodie.read_table(path)) == expected, f"ours, turn {turn}"
        assert found(hudi_12.read(path)) == expected, f"Apache Hudi 1.2.0, turn {turn}"
    if kind == "MERGE_ON_READ":
        hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": 1})
        assert found(hoodie.read_table(path, query="read_optimized")) == expected
        assert found(hudi_12.read(path)) == expected


def found(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["ts"], row["v"]) for row in table.to_pylist())


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_random_histories_of_tables_that_it_made(hudi_12: HudiServer, tmp_path: Path, kind: str) -> None:
    """Two commits of its own, then random steps of ours, with failures; it reads the rows in the end."""
    path = tmp_path / "t"
    options = {
        **OPTIONS,
        "hoodie.table.name": "model",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.table.type": kind,
    }
    for version, mode in ((1, "overwrite"), (2, "append")):
        rows = [{**row, "_hoodie_is_deleted": None} for row in small_rows(range(40 * version), version)]
        hudi_12.write(str(path), as_table(rows, SMALL_SCHEMA), options=options, mode=mode)
    machine = Machine(path, seed=11, merge_on_read=kind == "MERGE_ON_READ", kept=True)
    machine.adopt()
    machine.run(80)
    ours = hoodie.read_table(str(path)).select(["id", "ts", "val"]).to_pylist()
    theirs = hudi_12.read(str(path)).select(["id", "ts", "val"]).to_pylist()
    assert sorted(map(repr, ours)) == sorted(map(repr, theirs))
