"""Settings about rows with one key, and static overwrites: the same rows as Apache Hudi, COW and MOR."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ValidationFailed
from tests.support.arrow import arrow_schema
from tests.support.hudi_client import HudiError, HudiServer
from tests.support.rows import assert_same_rows
from tests.support.shared_table import OFF, PAYLOAD, TYPE, TYPES

pytestmark = pytest.mark.interop

SCHEMA = arrow_schema([("id", pa.string()), ("ts", pa.int64()), ("val", pa.string()), ("part", pa.string())])
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


@pytest.mark.full
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


ASKED = "hoodie.precommit.validators"
COUNT = "select count(*) from <TABLE_NAME>"
RANGE = "select min(id), max(part) from <TABLE_NAME>"
#: (validator, key of its queries, queries) -> may an update of a1x to a2x and a new row b1x be seen? In this
#: order: once they are, the same rows change nothing
VERDICTS = [
    ("Equality", "equality", COUNT, False),
    ("Inequality", "inequality", RANGE, False),
    ("SingleResult", "single.value", "select max(ts) from <TABLE_NAME> where ts < 0#0", False),
    ("Inequality", "inequality", COUNT, True),
    ("Equality", "equality", COUNT, True),
    ("SingleResult", "single.value", f"{COUNT}#2", True),
]


@pytest.mark.full
def test_the_same_verdicts_as_apache_hudi(tmp_path: Path, hudi_015: HudiServer) -> None:
    """The row of the other partition is not seen. Of copy-on-write tables: Hudi looks at base files only.

    One query at a time: Hudi asks several in threads, which miss the classes of this session's bundle.
    """
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    named = {**OPTIONS, "hoodie.table.name": "theirs", "hoodie.metadata.enable": "false"}
    hoodie.write_table(table_of("a1x z1y"), str(ours), options=OPTIONS)
    hudi_015.write(theirs, table_of("a1x z1y"), named)
    for name, key, queries, holds in VERDICTS:
        validator = f"org.apache.hudi.client.validator.SqlQuery{name}PreCommitValidator"
        asking = {ASKED: validator, f"{ASKED}.{key}.sql.queries": queries}
        rows, told = table_of("a2x b1x"), [True, True]
        try:
            hoodie.write_table(rows, str(ours), options={**OPTIONS, **asking})
        except ValidationFailed:
            told[0] = False
        try:
            hudi_015.write(theirs, rows, {**named, **asking})
        except HudiError as error:
            told[1] = "pre-commit validation failed" not in str(error)
        assert told == [holds, holds], (name, queries)
    assert_same_rows(hoodie.read_table(str(ours)), hudi_015.read(theirs).select(SCHEMA.names))
