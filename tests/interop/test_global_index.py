"""GLOBAL_SIMPLE and GLOBAL_BLOOM beside Apache Hudi 0.15.0: the same history gives the same rows and
partitions, and each goes on with what the other wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.contract.test_global_index import MOVES
from tests.support.hudi_client import HudiServer
from tests.support.readers import read_hudi_rs

pytestmark = pytest.mark.interop

TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "region": pa.string(),
    "val": pa.int64(),
    "_hoodie_is_deleted": pa.bool_(),
}
SCHEMA = pa.schema(TYPES)
PAYLOADS = {
    "event time": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "commit time": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
CASES = [
    ("GLOBAL_BLOOM", True, "MERGE_ON_READ", "event time"),
    ("GLOBAL_BLOOM", False, "COPY_ON_WRITE", "event time"),
    ("GLOBAL_SIMPLE", True, "COPY_ON_WRITE", "event time"),
    ("GLOBAL_SIMPLE", False, "MERGE_ON_READ", "event time"),
    ("GLOBAL_SIMPLE", True, "COPY_ON_WRITE", "commit time"),
    ("GLOBAL_SIMPLE", True, "MERGE_ON_READ", "commit time"),
]
Rows = list[tuple[Any, ...]]
#: operation, rows: id, ts, region, deleted
HISTORY: list[tuple[str, Rows]] = [
    ("upsert", [(f"k{number:02d}", 10, ("eu", "us", "apac")[number % 3]) for number in range(30)]),
    # moves, moves that come late, moves of equal ordering values, updates, new keys
    (
        "upsert",
        [
            *[(f"k{number:02d}", 20, "eu") for number in range(8)],
            *[(f"k{number:02d}", 5, "us") for number in range(8, 12)],
            *[(f"k{number:02d}", 10, "apac") for number in range(12, 15)],
            *[(f"n{number:02d}", 1, "new") for number in range(3)],
        ],
    ),
    # back again, and one key in several partitions
    (
        "upsert",
        [
            *[(f"k{number:02d}", 30, ("eu", "us", "apac")[number % 3]) for number in range(5)],
            ("k20", 31, "eu"),
            ("k20", 33, "us"),
            ("k20", 32, "apac"),
            ("n09", 7, "eu"),
            ("n09", 6, "us"),
        ],
    ),
    # deletes by rows, in other partitions than those of the records
    ("upsert", [(f"k{number:02d}", 40, "other", True) for number in range(21, 24)]),
    ("delete", [("k01", 0, "us"), ("k02", 0, "nowhere"), ("n00", 0, "eu"), ("unknown", 0, "eu")]),
    # deleted keys come back, elsewhere
    ("upsert", [("k01", 50, "apac"), ("k22", 51, "us"), ("k24", 52, "us")]),
]


def _table(rows: Rows, value: int) -> pa.Table:
    made = [
        {
            "id": row[0],
            "ts": row[1],
            "region": row[2],
            "val": value + place,
            "_hoodie_is_deleted": len(row) > 3,
        }
        for place, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def rows_of(table: pa.Table) -> Rows:
    names = ("_hoodie_partition_path", "_hoodie_record_key", "ts", "val")
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


def _write(writer: HudiServer | None, path: str, step: int, options: Mapping[str, Any]) -> None:
    operation, rows = HISTORY[step]
    table = _table(rows, 100 * step)
    if writer is None:
        hoodie.write_table(table, path, operation=operation, options=options)
        return
    mode = "append" if Path(path).exists() else "overwrite"
    more = {"hoodie.metadata.enable": "false", **options, "hoodie.compact.inline.max.delta.commits": "100"}
    writer.write(path, table, operation=operation, options=more, mode=mode)


def one_history(
    hudi: HudiServer, folder: Path, options: Mapping[str, Any]
) -> Iterator[tuple[list[str], Rows]]:
    """Writes the history to four tables: ours, that of Apache Hudi, and two that both write in turns. Yields
    their paths and their rows, which are the same, after each step.
    """
    settings = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        **options,
    }
    paths = ours, theirs, turns, back = [str(folder / name) for name in ("ours", "theirs", "turns", "back")]
    for step in range(len(HISTORY)):
        _write(None, ours, step, settings)
        _write(hudi, theirs, step, settings)
        _write(hudi if step % 2 else None, turns, step, settings)
        _write(None if step % 2 else hudi, back, step, settings)
        expected = rows_of(hoodie.read_table(theirs))
        for path in (ours, turns, back):
            assert rows_of(hoodie.read_table(path)) == expected, (step, path)
        yield paths, expected


@pytest.mark.full
@pytest.mark.parametrize(("index", "moves", "table", "payload"), CASES)
def test_the_same_history_gives_the_same_table(
    hudi_015: HudiServer, tmp_path: Path, index: str, moves: bool, table: str, payload: str
) -> None:
    options = {
        "hoodie.datasource.write.table.type": table,
        "hoodie.datasource.write.payload.class": PAYLOADS[payload],
        "hoodie.index.type": index,
        MOVES[index]: str(moves).lower(),
    }
    *_, (paths, expected) = one_history(hudi_015, tmp_path, options)
    for path in paths:
        assert rows_of(hudi_015.read(path)) == expected, path
    ours = paths[0]
    if table == "COPY_ON_WRITE":
        assert rows_of(read_hudi_rs(ours)) == expected
    else:
        assert hoodie.compact_table(ours, options={"hoodie.compact.inline.max.delta.commits": "1"}).instant
        assert rows_of(hoodie.read_table(ours)) == rows_of(hudi_015.read(ours)) == expected
