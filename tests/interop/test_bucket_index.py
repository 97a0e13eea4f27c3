"""The BUCKET index beside Apache Hudi's: the same hash, and each goes on in the other's file groups."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.index.bucket import BucketIndex
from hoodie.index.hashed_values import Hashing, HashRule
from tests.interop.test_operations import KEY_SCHEMA, Operated
from tests.support.hudi_client import HudiServer
from tests.support.shared_table import KEYS, OFF, TYPE, TYPES
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows
from tests.unit.codec.test_java_hash import BUCKETS, ends_since_1

pytestmark = pytest.mark.interop

BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


class Bucketed(Operated):
    """We write with the options of the index once, where we make the table."""

    def we(self, operation: str, rows: list[Row], **more: str) -> Any:
        schema = KEY_SCHEMA if operation == "delete" else SMALL_SCHEMA
        options = {**KEYS, **OFF, TYPE: self.kind, **more}
        result = hoodie.write_table(
            as_table(rows, schema), str(self.path), operation=operation, options=options
        )
        getattr(self.model, operation)(rows)
        return result

    def groups(self) -> dict[tuple[str, str], str]:
        """File ids by partition and number of the bucket."""
        groups = hoodie.file_groups(str(self.path))
        found = {(group["partition"], group["file_id"][:8]): group["file_id"] for group in groups}
        assert len(found) == len(groups), "a bucket has one file group"
        return found


@pytest.mark.full
def test_hashes_are_those_of_apache_hudi(hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    rng = random.Random(11)
    letters = "abkz019_-:,.é日\U0001d11e "
    values = ["".join(rng.choices(letters, k=rng.randrange(1, 16))) for _ in range(400)]
    keys = [f"id:{value},day:{rng.choice(values)}" if rng.random() < 0.5 else value for value in values]
    keys += [f"k{number:05d}" for number in range(100)]
    for rule, hudi in ((HashRule.BEFORE_1, hudi_015), (HashRule.SINCE_1, hudi_12)):
        for fields, buckets in (("id", 4), ("id,day", 256), ("day", 1000003)):
            names = fields.split(",")
            mine = keys if hudi is hudi_015 else [key for key in keys if ends_since_1(key, names)]
            index = BucketIndex(buckets, tuple(names), Hashing(rule))
            assert index.place("", pa.array(mine)).tolist() == hudi.buckets(mine, fields, buckets)
    for key, fields, buckets, first, since_1 in BUCKETS:
        assert hudi_015.buckets([key], fields, buckets) == [first]
        assert hudi_12.buckets([key], fields, buckets) == [since_1]


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_we_begin(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """The table remembers the index: neither of us names it again."""
    table = Bucketed(tmp_path / f"ours_{kind.lower()}", kind)
    table.we("upsert", small_rows(range(60), 5), **BUCKET)
    groups = table.groups()
    table.they(hudi_015, "upsert", small_rows(range(30, 90), 6))
    table.check("they continued", (hudi_015,))
    table.we("upsert", small_rows(range(0, 100, 3), 7))
    table.we("delete", small_rows(range(20), 8))
    table.they(hudi_015, "delete", small_rows(range(40, 50), 8))
    table.they(hudi_015, "upsert", small_rows(range(10, 45), 9))
    table.we("upsert", small_rows(range(0, 60, 2), 10))
    assert groups.items() <= table.groups().items()
    table.check("after some turns", (hudi_015,))


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_they_begin(tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """Nothing is remembered: both name the index. Also services, overwrites and new partitions."""
    table, servers = Bucketed(tmp_path / f"theirs_{kind.lower()}", kind), (hudi_015, hudi_12)
    bucket: dict[str, Any] = dict(BUCKET)
    table.they(hudi_015, "bulk_insert", small_rows(range(60), 5), **bucket)
    groups = table.groups()
    for turn in range(3):
        table.we("upsert", small_rows(range(turn, 90, 2), 6 + 2 * turn), **bucket)
        table.they(hudi_015, "upsert", small_rows(range(turn, 90, 3), 7 + 2 * turn), **bucket)
    assert groups.items() <= table.groups().items()
    table.check("turns", servers)
    if kind == "MERGE_ON_READ":
        hoodie.compact_table(str(table.path), options={"hoodie.compact.inline.max.delta.commits": 1})
        table.check("we compacted", servers)
        table.they(hudi_015, "upsert", small_rows(range(95), 20), **bucket)
        hudi_015.call("run_compaction", table=table.known_as(hudi_015), op="scheduleandexecute")
        table.check("they compacted", servers)
    table.we("delete", small_rows(range(0, 90, 7), 30), **bucket)
    eu = [row for row in small_rows(range(200, 260), 31) if row["region"] == "eu"]
    table.we("insert_overwrite", eu, **bucket)
    table.they(hudi_015, "upsert", small_rows(range(190, 240), 32), **bucket)
    table.check("we overwrote, they updated", servers)
    table.they(hudi_015, "insert_overwrite", eu, **bucket)
    table.we("upsert", small_rows(range(180, 250), 33), **bucket)
    table.groups()
    table.check("they overwrote, we updated", servers)
