"""Consistent hashing beside Apache Hudi's: the same rings, and each goes on where the other resized."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError
from hoodie.index.hashed_values import HashRule, ring_hashes
from hoodie.table.handle import Table
from hoodie.table.hash_ring import Ring, Rings
from tests.interop.test_operations import KEY_SCHEMA, Operated, of_region
from tests.support.hudi_client import HudiServer
from tests.support.shared_table import KEYS, OFF, TYPE
from tests.support.tables import REGIONS, SMALL_SCHEMA, Row, as_table, small_rows
from tests.unit.codec.test_java_hash import ends_since_1

pytestmark = pytest.mark.interop

MERGE_ON_READ = "MERGE_ON_READ"
RINGED: dict[str, Any] = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "4",
}
#: any bucket is too large, or too small
SPLIT = {
    "hoodie.bucket.index.max.num.buckets": "6",
    "hoodie.bucket.index.split.threshold": "0.00000001",
    "hoodie.bucket.index.merge.threshold": "0.000000001",
}
MERGE = {"hoodie.bucket.index.min.num.buckets": "2"}
#: of a procedure, which takes nothing else from the table
CALLED = {
    "hoodie.datasource.write.row.writer.enable": "false",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.bucket.index.hash.field": "id",
}


class Ringed(Operated):
    def __init__(self, path: Path) -> None:
        super().__init__(path, MERGE_ON_READ)

    def we(self, operation: str, rows: list[Row]) -> Any:
        schema = KEY_SCHEMA if operation == "delete" else SMALL_SCHEMA
        options = {**KEYS, **OFF, TYPE: self.kind, **RINGED}
        result = hoodie.write_table(
            as_table(rows, schema), str(self.path), operation=operation, options=options
        )
        getattr(self.model, operation)(rows)
        return result

    def they(self, server: HudiServer, operation: str, rows: list[Row], **more: str) -> None:
        super().they(server, operation, rows, **RINGED, **more)

    def we_cluster(self, mode: str, **options: str) -> Any:
        return hoodie.cluster_table(str(self.path), mode=mode, options={**RINGED, **options})

    def they_cluster(self, server: HudiServer, op: str, **more: str) -> list[str]:
        options = ",".join(f"{name}={value}" for name, value in {**RINGED, **CALLED, **more}.items())
        done = server.call("run_clustering", path=str(self.path), op=op, options=options)
        return [row["timestamp"] for row in done]

    def rings(self) -> dict[str, int]:
        """How many buckets each partition has; its file groups are theirs."""
        table = Table.open(str(self.path))
        rings, found = Rings(table.ref, table.view), {}
        for region in REGIONS:
            ring = rings.of(region)
            assert ring is not None
            ids = [
                group["file_id"]
                for group in hoodie.file_groups(str(self.path))
                if group["partition"] == region
            ]
            assert all(ring.number(file_id) is not None for file_id in ids), region
            found[region] = len(ring.nodes)
        return found


def compact(table: Ringed) -> None:
    hoodie.compact_table(str(table.path), options={"hoodie.compact.inline.max.delta.commits": 1})


@pytest.mark.full
def test_rings_and_hashes_are_those_of_apache_hudi(hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    rng = random.Random(11)
    letters = "abkz019_-:,.é日\U0001d11e "
    values = ["".join(rng.choices(letters, k=rng.randrange(1, 40))) for _ in range(300)]
    values += ["__null__", "__empty__"] * 9
    keys = [f"id:{value},day:{rng.choice(values)}" if rng.random() < 0.5 else value for value in values]
    for partition, count, fields in (("p0", 2, "id"), ("a=1/b=é", 256, "id,day"), ("", 7, "day")):
        theirs = hudi_015.ring(partition, count, keys, fields)
        ring = Ring.first(partition, count)
        assert Ring.parse(theirs["json"].encode(), partition, "") == ring
        assert json.loads(ring.to_json()) == json.loads(theirs["json"])
        names = fields.split(",")
        places = ring.place(ring_hashes(pa.array(keys), names))
        assert [ring.nodes[place].prefix for place in places.tolist()] == theirs["prefixes"]
        mine = [key for key in keys if ends_since_1(key, names)]
        places = ring.place(ring_hashes(pa.array(mine), names, HashRule.SINCE_1))
        theirs = hudi_12.ring(partition, count, mine, fields)
        assert Ring.parse(theirs["json"].encode(), partition, "") == ring
        assert [ring.nodes[place].prefix for place in places.tolist()] == theirs["prefixes"]


@pytest.mark.full
def test_we_begin(tmp_path: Path, hudi_015: HudiServer) -> None:
    table, servers = Ringed(tmp_path / "ours"), (hudi_015,)
    table.we("upsert", small_rows(range(60), 5))
    table.they(hudi_015, "upsert", small_rows(range(30, 90), 6))
    table.check("they continued", servers)
    table.we("upsert", small_rows(range(0, 100, 3), 7))
    table.we("delete", small_rows(range(20), 8))
    table.they(hudi_015, "delete", small_rows(range(40, 50), 8))
    table.they(hudi_015, "upsert", small_rows(range(10, 45), 9))
    assert set(table.rings().values()) == {4}
    table.check("turns", servers)
    done = table.we_cluster("run", **SPLIT)
    assert done.num_outputs == 2 * done.num_replaced == 12
    assert set(table.rings().values()) == {6}
    table.check("we split", servers)
    table.they(hudi_015, "upsert", small_rows(range(0, 120, 2), 10))
    table.we("upsert", small_rows(range(0, 120, 5), 11))
    assert set(table.rings().values()) == {6}
    table.check("both continued", servers)
    table.we_cluster("run", **MERGE)
    assert set(table.rings().values()) == {2}
    table.they(hudi_015, "upsert", small_rows(range(0, 130, 3), 12))
    table.we("upsert", small_rows(range(0, 130, 4), 13))
    table.check("we merged", servers)
    planned = table.we_cluster("schedule", **SPLIT).scheduled
    assert table.they_cluster(hudi_015, "execute", **SPLIT) == [planned]
    assert set(table.rings().values()) == {4}
    table.we("upsert", small_rows(range(0, 140, 3), 14))
    table.they(hudi_015, "upsert", small_rows(range(0, 140, 4), 15))
    table.check("we planned a split, they executed it", servers)


@pytest.mark.full
def test_they_begin(tmp_path: Path, hudi_015: HudiServer) -> None:
    table, servers = Ringed(tmp_path / "theirs"), (hudi_015,)
    table.they(hudi_015, "upsert", small_rows(range(60), 5))
    table.we("upsert", small_rows(range(30, 90), 6))
    table.they(hudi_015, "upsert", small_rows(range(0, 100, 3), 7))
    table.we("delete", small_rows(range(20), 8))
    assert set(table.rings().values()) == {4}
    table.check("turns", servers)
    # its clustering brings rows back that logs have deleted from buckets without a base file
    compact(table)
    assert table.they_cluster(hudi_015, "scheduleAndExecute", **SPLIT)
    assert set(table.rings().values()) == {6}
    table.check("they split", servers)
    table.we("upsert", small_rows(range(0, 120, 2), 10))
    table.they(hudi_015, "upsert", small_rows(range(0, 120, 5), 11))
    assert set(table.rings().values()) == {6}
    table.check("both continued", servers)
    (planned,) = table.they_cluster(hudi_015, "schedule", **MERGE)
    assert table.we_cluster("execute").clustered == [planned]
    assert len({*table.rings().values()}) == 1
    table.they(hudi_015, "upsert", small_rows(range(0, 130, 3), 12))
    table.we("upsert", small_rows(range(0, 130, 4), 13))
    table.check("they planned, we executed", servers)
    compact(table)
    table.they(hudi_015, "upsert", small_rows(range(95), 20))
    table.check("we compacted", servers)


@pytest.mark.full
def test_overwrites(tmp_path: Path, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """Ours renew the ring of a partition, which Apache Hudi takes for that of a clustering. After its own it
    does not find its rows again: ours mends that.
    """
    table, servers = Ringed(tmp_path / "overwritten"), (hudi_015, hudi_12)
    table.we("upsert", small_rows(range(60), 5))
    table.we("insert_overwrite", of_region(small_rows(range(100, 160), 1), "eu"))
    table.check("we overwrote", servers)
    table.they(hudi_015, "upsert", small_rows(range(90, 130), 7))
    table.we("upsert", small_rows(range(0, 130, 4), 8))
    table.check("both continued", servers)
    table.drop("us")
    table.they(hudi_015, "upsert", small_rows(range(20, 60), 9))
    table.we("upsert", small_rows(range(0, 60, 4), 10))
    table.they(hudi_12, "upsert", small_rows(range(10, 70, 3), 11))
    table.we("upsert", small_rows(range(0, 70, 5), 12))
    table.check("we deleted a partition", servers)
    eu = of_region(small_rows(range(100, 160), 13), "eu")
    table.they(hudi_015, "insert_overwrite", eu)
    with pytest.raises(ConfigError, match="has to be overwritten here"):
        table.we("upsert", eu)
    table.we("insert_overwrite", eu)
    table.they(hudi_015, "upsert", of_region(small_rows(range(130, 250), 14), "eu"))
    table.we("upsert", of_region(small_rows(range(120, 260), 15), "eu"))
    table.check("they overwrote, we mended", servers)
