"""Random histories of tables of versions 8 and 9 that Apache Hudi 1.2.0 writes: our answers are its own.

After each step of a history both engines answer a snapshot, a read-optimized query, one of the past, two of
random spans of completion times, and change data where the table has it (`tests.support.later_history`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.support.hudi_client import HudiServer
from tests.support.later_history import History

pytestmark = [pytest.mark.interop, pytest.mark.full]

#: version, type and seed, by what the seed makes of them
HISTORIES = {
    "8, change data": (8, "COPY_ON_WRITE", 2),
    "8, changed columns": (8, "MERGE_ON_READ", 3),
    "9, commit time": (9, "COPY_ON_WRITE", 4),
    "9, buckets": (9, "MERGE_ON_READ", 4),
    "9, change data": (9, "MERGE_ON_READ", 6),
}
#: Spark answers after every so many steps
SPARK = 4


@pytest.mark.parametrize(("version", "kind", "seed"), HISTORIES.values(), ids=HISTORIES)
def test_every_query_after_every_step(
    hudi_12: HudiServer, tmp_path: Path, version: int, kind: str, seed: int
) -> None:
    history = History(hudi_12, tmp_path / "t", version, kind, seed)
    history.run(lambda: history.check(spark=len(history.states) % SPARK == 0))
    assert history.counts["Spark"]
    assert history.counts["as of"]
    assert history.counts["incremental"]


def test_several_rows_of_a_key_in_a_base_file(hudi_12: HudiServer, tmp_path: Path) -> None:
    """We merge by keys, and give what Hudi gives by the positions of records: all rows of a key change."""
    path = str(tmp_path / "t")
    options = {
        "hoodie.table.name": "t",
        "hoodie.write.table.version": "9",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.compact.inline": "false",
    }
    by_keys = {"hoodie.merge.use.record.positions": "false"}
    stored = [(1, 5, "0"), (1, 7, "1"), (1, 5, "2"), (2, 5, "3")]
    hudi_12.write(path, _rows(stored), options, operation="bulk_insert", mode="overwrite")
    hudi_12.write(path, _rows([(1, 6, "new")]), options)
    changed = [(1, 6, "new"), (1, 6, "new"), (1, 7, "1"), (2, 5, "3")]
    assert _found(hoodie.read_table(path)) == _found(hudi_12.read(path)) == changed
    # by keys Hudi leaves the third row, which the log has a record of
    assert _found(hudi_12.read(path, options=by_keys)) == sorted([*stored[1:], (1, 6, "new")])
    hudi_12.write(path, _rows([(1, 0, "")]), options, operation="delete")
    assert _found(hoodie.read_table(path)) == _found(hudi_12.read(path)) == [(2, 5, "3")]


def _rows(rows: list[tuple[int, int, str]]) -> pa.Table:
    made = [{"id": number, "part": "p", "ts": ts, "v": text} for number, ts, text in rows]
    return pa.Table.from_pylist(made)


def _found(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["ts"], row["v"]) for row in table.to_pylist())
