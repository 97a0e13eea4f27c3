"""Settings about rows with one key, and static overwrites: the same rows as Apache Hudi, COW and MOR."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from tests.support.hudi_client import HudiServer
from tests.support.rows import assert_same_rows
from tests.support.shared_table import OFF, PAYLOAD, TYPE, TYPES

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("val", pa.string()), ("part", pa.string())])
OPTIONS = {
    **OFF,
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.payload.class": PAYLOAD,
}
DROP = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
NOT_ALLOWED = {"hoodie.merge.allow.duplicate.on.inserts": "false"}
RAW = {"hoodie.combine.before.upsert": "false"}
RAW_DELETE = {"hoodie.combine.before.delete": "false"}
NAMED = {"hoodie.static.overwrite.partition.paths": "x,y"}

Step = tuple[str, str, dict[str, str]]
#: (operation, rows as id, ordering value and partition in a text, settings) one after the other
CASES: dict[str, list[Step]] = {
    "insert drops": [("insert", "a1x", {}), ("insert", "a2x b1x a3y", DROP)],
    "upsert drops": [("insert", "a1x", {}), ("upsert", "a2x b1x", DROP)],
    "batch of a dropping insert": [("insert", "a1x", {}), ("insert", "c1x c3x c2x", DROP)],
    "overwrite does not drop": [("insert", "a1x", {}), ("insert_overwrite", "a2x b1x", DROP)],
    "no duplicates in a small file": [
        ("insert", "a1x b5x", {}),
        ("insert", "a5x a3x b2x c2x c1x", NOT_ALLOWED),
    ],
    "duplicates in a small file": [("insert", "a1x", {}), ("insert", "a2x", {})],
    "stored key": [("upsert", "a1x", {}), ("upsert", "a5x a3x", RAW)],
    "stored key, last row is late": [("upsert", "a4x", {}), ("upsert", "a5x a3x", RAW)],
    "new key in a new file": [("upsert", "a5x a3x", RAW)],
    "new key in a small file": [("upsert", "b1x", {}), ("upsert", "a5x a3x", RAW)],
    "deleted twice": [("upsert", "a1x b1x", {}), ("delete", "a1x a1x", RAW_DELETE)],
    "named partitions": [("insert", "a1x b1y c1z", {}), ("insert_overwrite", "a2x", NAMED)],
}


def table_of(text: str) -> pa.Table:
    rows = [{"id": row[0], "ts": int(row[1]), "val": row, "part": row[2]} for row in text.split()]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_the_same_rows_as_apache_hudi(tmp_path: Path, hudi_015: HudiServer, kind: str, case: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for operation, rows, settings in CASES[case]:
        options = {**OPTIONS, TYPE: kind, **settings}
        hoodie.write_table(table_of(rows), str(ours), operation=operation, options=options)
        named = {**options, "hoodie.table.name": "theirs", "hoodie.metadata.enable": "false"}
        hudi_015.write(theirs, table_of(rows), named, operation=operation)
    expected = hudi_015.read(theirs).select(SCHEMA.names)
    assert_same_rows(hoodie.read_table(str(ours)), expected)
    assert_same_rows(hudi_015.read(ours), expected)
