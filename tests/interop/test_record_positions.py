"""Apache Hudi 1.2.0 merges our log blocks by the record positions in their headers: rows as by keys."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import hoodie
from hoodie.format.log_block import RECORD_POSITIONS
from hoodie.format.log_file import LogFileReader
from hoodie.format.record_positions import encode_positions
from hoodie.storage.local import LocalStorage
from hoodie.write.files import append
from tests.support.hudi_client import HudiServer
from tests.support.readers import read_hudi_rs
from tests.support.rows import assert_same_rows, difference

pytestmark = [pytest.mark.interop, pytest.mark.full]

POSITIONS = "hoodie.merge.use.record.positions"
ORDERING = "hoodie.datasource.write.precombine.field"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
}
RULES: dict[str, dict[str, str]] = {
    "event time": {ORDERING: "ts"},
    "commit time": {ORDERING: "ts", "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
    "several fields": {ORDERING: "ts,val"},
    "no ordering": {},
}
#: several log files and blocks of one write
SMALL = {"hoodie.logfile.max.size": "1", "hoodie.logfile.data.block.max.size": "2000"}
KEYS = 40
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "part": pa.string(),
    "ts": pa.int64(),
    "val": pa.float64(),
    "name": pa.string(),
}
SCHEMA = pa.schema(COLUMNS)
FLAGGED = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))


class History:
    """Writes of ours; after each of them all readers have the same rows."""

    def __init__(self, server: HudiServer, path: Path, rule: str, version: int, *, flag: bool = True) -> None:
        self.server, self.path, self.rule = server, str(path), rule
        self.schema = FLAGGED if flag else SCHEMA
        self.options = {**OPTIONS, **RULES[rule], "hoodie.write.table.version": str(version)}
        self.chance = random.Random(f"{rule} {version}")
        keys = self.chance.sample(range(KEYS), KEYS)
        self.write([self.row(key, 10) for key in keys], "bulk_insert")

    def row(self, key: int, ts: int) -> dict[str, Any]:
        found = {"id": key, "part": f"p{key % 2}", "ts": ts, "val": float(key % 3), "name": f"{key} {ts}"}
        return {**found, "_hoodie_is_deleted": ts > 10 and key % 7 == ts % 7}

    def some(self, count: int, ts: int) -> list[dict[str, Any]]:
        return [self.row(key, ts) for key in self.chance.sample(range(KEYS), count)]

    def write(self, rows: list[dict[str, Any]], operation: str = "upsert", **options: str) -> None:
        table = pa.Table.from_pylist(rows, self.schema)
        hoodie.write_table(table, self.path, operation=operation, options={**self.options, **options})

    def positions(self) -> Iterator[str]:
        """Those of all blocks of all logs."""
        for path in Path(self.path).glob("p*/.*.log.*[0-9]"):
            with LogFileReader(LocalStorage(), str(path)) as reader:
                yield from (block.headers.get(RECORD_POSITIONS, "") for block in reader.blocks())

    def check(self, what: str) -> None:
        ours = hoodie.read_table(self.path)
        for by in ("true", "false"):
            found = self.server.read(self.path, options={POSITIONS: by})
            assert_same_rows(found, ours, meta=True, what=f"{what}, positions {by}")
        if self.rule != "several fields":  # readers.HUDI_RS_GAPS
            assert_same_rows(read_hudi_rs(self.path), ours, meta=True, what=f"{what}, hudi-rs")


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("rule", RULES)
def test_rows_are_those_by_keys(hudi_12: HudiServer, tmp_path: Path, rule: str, version: int) -> None:
    table = History(hudi_12, tmp_path / "t", rule, version)
    table.write(table.some(15, 11))
    table.check("updates and deletes")
    table.write(table.some(6, 12), "delete")
    table.check("deletes")
    table.write(table.some(30, 13), **SMALL)
    table.check("several log files")
    table.write(table.some(12, 9))
    table.check("late rows")
    hoodie.compact_table(table.path, mode="schedule", options=table.options)
    table.write(table.some(12, 14))
    table.check("beside a compaction")
    assert all(table.positions())
    hoodie.compact_table(table.path, mode="execute", options=table.options)
    table.check("compacted")
    table.write(table.some(12, 15))
    rows = pa.Table.from_pylist(table.some(12, 16), FLAGGED)
    hudi_12.write(table.path, rows, table.options)
    table.write(table.some(12, 17))
    table.check("Hudi and we")
    table.write(table.some(12, 18), **{"hoodie.write.record.positions": "false"})
    table.write(table.some(12, 19))
    table.check("blocks without positions between others")
    rows = pa.Table.from_pylist(table.some(12, 20), FLAGGED)
    hudi_12.write(table.path, rows, {**table.options, "hoodie.compact.inline": "true"})
    table.check("compacted by Hudi")


@pytest.mark.parametrize("version", [8, 9])
def test_changed_columns(hudi_12: HudiServer, tmp_path: Path, version: int) -> None:
    table = History(hudi_12, tmp_path / "t", "event time", version, flag=False)
    for ts, changed in ((11, "val"), (12, "name"), (13, "val")):
        source = pa.Table.from_pylist(table.some(12, ts), SCHEMA)
        hoodie.sql(
            f"MERGE INTO t USING s ON t.id = s.id AND t.part = s.part WHEN MATCHED THEN UPDATE SET "
            f"t.ts = s.ts, t.{changed} = s.{changed}",
            tables={"t": table.path, "s": source},
            options=table.options,
        )
        table.check(f"{changed} {ts}")
    table.write(table.some(6, 14), "delete")
    table.write(table.some(12, 15))
    table.check("whole rows and deletes behind them")
    assert all(table.positions())


def test_hudi_merges_by_the_positions(
    hudi_12: HudiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong positions would give it other rows than the keys do: those of the tests above are read."""

    def shifted(positions: npt.NDArray[np.int32]) -> str:
        return encode_positions(positions + 1)

    table = History(hudi_12, tmp_path / "t", "no ordering", 9)
    monkeypatch.setattr(append, "encode_positions", shifted)
    table.write(table.some(5, 11))
    ours = hoodie.read_table(table.path)
    assert not difference(hudi_12.read(table.path, options={POSITIONS: "false"}), ours)
    assert difference(hudi_12.read(table.path, options={POSITIONS: "true"}), ours)


@pytest.mark.parametrize("positions", ["true", "false"])
def test_several_rows_of_a_key_that_hudi_changed(hudi_12: HudiServer, tmp_path: Path, positions: str) -> None:
    """They stay changed beside a block of ours. One without positions sends Apache Hudi back to keys, and the
    second row of the key is what it was.
    """
    path = str(tmp_path / "t")
    options = {**OPTIONS, **RULES["event time"], "hoodie.write.table.version": "9"}
    options |= {"hoodie.write.record.positions": positions}

    def rows(*given: tuple[int, int, str]) -> pa.Table:
        made = [{"id": key, "part": "p", "ts": ts, "val": 0.0, "name": name} for key, ts, name in given]
        return pa.Table.from_pylist(made, SCHEMA)

    def found() -> list[str]:
        return sorted(str(name) for name in hudi_12.read(path).column("name").to_pylist())

    stored = rows((1, 5, "one"), (1, 5, "one"), (2, 5, "two"))
    hudi_12.write(path, stored, options, operation="bulk_insert", mode="overwrite")
    hudi_12.write(path, rows((1, 6, "new")), {**options, "hoodie.write.record.positions": "true"})
    assert found() == ["new", "new", "two"]
    hoodie.write_table(rows((2, 6, "too")), path, options=options)
    assert found() == (["new", "new", "too"] if positions == "true" else ["new", "one", "too"])
    assert sorted(map(str, hoodie.read_table(path).column("name").to_pylist())) == ["new", "new", "too"]
