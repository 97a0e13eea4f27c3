"""Tables of versions 8 and 9 that Apache Hudi 1.2.0 and we write in turns: rows as Hudi's alone would be.

Hudi writes each batch into a table of its own. Into the other table it writes some batches, and we the rest.
After each batch both tables have the same rows, whoever reads them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.table.handle import Table
from tests.support.hudi_client import HudiServer
from tests.support.rows import difference

pytestmark = [pytest.mark.interop, pytest.mark.full]

MODEL = "org.apache.hudi.common.model."
PAYLOAD = "hoodie.datasource.write.payload.class"
ORDERING = "hoodie.datasource.write.precombine.field"
UNAVAILABLE = "__debezium_unavailable_value"
MARKER = {"hoodie.payload.delete.field": "name", "hoodie.payload.delete.marker": "DEL"}
#: settings that make a table of a rule of merging
RULES: dict[str, dict[str, str]] = {
    "event time": {ORDERING: "ts"},
    "commit time": {ORDERING: "ts", "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
    "several fields": {ORDERING: "ts,val"},
    "marker": {ORDERING: "ts", **MARKER},
    "nulls filled": {ORDERING: "ts", PAYLOAD: MODEL + "PartialUpdateAvroPayload"},
    "nulls filled by commit": {ORDERING: "ts", PAYLOAD: MODEL + "OverwriteNonDefaultsWithLatestAvroPayload"},
    "no ordering": {},
}
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "part": pa.string(),
    "ts": pa.int64(),
    "val": pa.float64(),
    "name": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}
SCHEMA = pa.schema(COLUMNS)
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
BATCHES = 9
KEYS = 12


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("rule", RULES)
def test_turns(hudi_12: HudiServer, tmp_path: Path, rule: str, kind: str, version: int) -> None:
    if version == 8 and "filled" in rule:
        pytest.skip("version 8 leaves these payloads to their classes")
    chance = random.Random(f"{rule} {kind} {version}")
    alone, shared = str(tmp_path / "alone"), str(tmp_path / "shared")
    made = {
        **OPTIONS,
        **RULES[rule],
        "hoodie.table.name": "t",
        "hoodie.write.table.version": str(version),
        "hoodie.datasource.write.table.type": kind,
    }
    first, least = batch(chance, 0, {}), dict[int, int]()
    hudi_12.write(alone, first, made, operation="upsert", mode="overwrite")
    if chance.random() < 0.5:
        hudi_12.write(shared, first, made, operation="upsert", mode="overwrite")
    else:
        hoodie.write_table(first, shared, options=made)
    assert merging(shared) == merging(alone)
    for number in range(1, BATCHES):
        rows, operation = batch(chance, number, least), "upsert"
        if chance.random() < 0.25:
            rows, operation = rows.slice(0, 2), "delete"
            least.update({int(key or 0): 10 * number for key in rows.column("id").to_pylist()})
        compacts = kind == "MERGE_ON_READ" and chance.random() < 0.3
        options = {**made, "hoodie.compact.inline": str(compacts).lower()}
        hudi_12.write(alone, rows, options, operation=operation)
        if chance.random() < 0.3:
            hudi_12.write(shared, rows, options, operation=operation)
        else:
            hoodie.write_table(rows, shared, operation=operation, options=OPTIONS)
            if compacts:
                hoodie.compact_table(shared, options=OPTIONS)
        expected = hudi_12.read(alone)
        for found in (hoodie.read_table(alone), hoodie.read_table(shared), hudi_12.read(shared)):
            assert not difference(found, expected), number


def merging(path: str) -> dict[str, str]:
    """What a table says of itself, but for its name and what is kept of indexes."""
    texts = {**Table.open(path).properties}
    left_out = ("checksum", "metadata.partitions", "index.defs", "extractor", "archivelog")
    return {name: text for name, text in texts.items() if text and not any(part in name for part in left_out)}


def batch(chance: random.Random, number: int, least: dict[int, int]) -> pa.Table:
    keys = chance.sample(range(KEYS), 5)
    return pa.Table.from_pylist([row(chance, number, key, least.get(key, 1)) for key in keys], SCHEMA)


def row(chance: random.Random, number: int, key: int, least: int) -> dict[str, Any]:
    """Rows behind a delete are newer than what it deleted: Hudi gives the base file's row again else."""
    return {
        "id": key,
        "part": f"p{key % 2}",
        "ts": least + chance.randrange(5),
        "val": chance.choice([0.5, 1.5, 2.5]),
        "name": chance.choice([None, f"n{number}", "DEL"] if number else [f"n{number}"]),
        "_hoodie_is_deleted": number > 0 and chance.random() < 0.2,
    }
