"""Tables of versions 8 and 9 that Apache Hudi 1.2.0 and we write in turns: rows as Hudi's alone would be.

Hudi writes each batch into a table of its own. Into the other table it writes some batches, and we the rest.
After each batch both tables have the same rows, whoever reads them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.table.handle import Table
from tests.support.hudi_client import HudiServer
from tests.support.metadata import disagreements
from tests.support.oracle import Mode, Model
from tests.support.rows import assert_same_rows, difference
from tests.support.tables import SMALL_SCHEMA, Row, as_table, mixed_rows, small_rows

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
#: of each way to merge, the payload class of which version 9 makes its mode
PAYLOADS = {
    Mode.COMMIT_TIME: "OverwriteWithLatestAvroPayload",
    Mode.OVERWRITE_NON_DEFAULTS: "OverwriteNonDefaultsWithLatestAvroPayload",
    Mode.PARTIAL_UPDATE: "PartialUpdateAvroPayload",
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


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("mode", PAYLOADS)
def test_keys_that_repeat_in_a_batch(hudi_12: HudiServer, tmp_path: Path, mode: Mode, kind: str) -> None:
    """In version 9 the rows of a batch merge by the mode, as the model says. Spark keeps their order here."""
    chance, model = random.Random(f"{mode.value}0"), Model(["id"], ["region"], "ts", mode, version=9)
    alone, ours = str(tmp_path / "alone"), str(tmp_path / "ours")
    made = {
        **OPTIONS,
        ORDERING: "ts",
        PAYLOAD: MODEL + PAYLOADS[mode],
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.table.name": "t",
        "hoodie.write.table.version": "9",
        "hoodie.datasource.write.table.type": kind,
    }
    for number in range(3):
        rows = mixed_rows(chance, distinct=False)
        model.upsert(rows)
        hudi_12.write(alone, as_table(rows, SMALL_SCHEMA), made)
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), ours, options=made)
        expected = model.table(SMALL_SCHEMA)
        for found in (hudi_12.read(alone), hoodie.read_table(alone), hoodie.read_table(ours)):
            assert_same_rows(found, expected, what=f"after {number}")


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


COMPACTS = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTERS = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
    "hoodie.datasource.write.row.writer.enable": "false",
}
CLEANS = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "3"}
ARCHIVES = {
    **CLEANS,
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}
TURNS = 50


class Turns:
    """A table of one type and version, which Hudi and we write in turns, beside a model of its rows."""

    def __init__(self, server: HudiServer, path: str, kind: str, version: int) -> None:
        self.server, self.path, self.kind = server, path, kind
        self.chance = random.Random(f"fifty {kind} {version}")
        self.model = Model(["id"], ["region"], "ts")
        self.options = {
            **OPTIONS,
            ORDERING: "ts",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.table.name": "t",
            "hoodie.write.table.version": str(version),
            "hoodie.datasource.write.table.type": kind,
            "hoodie.compact.inline": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.metadata.enable": "true",
        }
        self.done = Counter[str]()

    def turn(self, number: int) -> None:
        """Hudi's services are those of its writes, ours come after the write."""
        hudi = number % 2 == 0
        rows, operation = self.batch(number)
        services = ["none", "none", "clean", "archive", "cluster"]
        if self.kind == "MERGE_ON_READ":
            services += ["compact", "compact"]
            services += [] if hudi else ["compact logs"]
        service = self.chance.choice(services) if number else "none"
        table = as_table(rows, SMALL_SCHEMA)
        if hudi:
            more = {"clean": CLEANS, "archive": ARCHIVES, "cluster": CLUSTERS, "compact": COMPACTS}
            options = {**self.options, **more.get(service, {})}
            mode = "append" if number else "overwrite"
            self.server.write(self.path, table, options, operation=operation, mode=mode)
        else:
            hoodie.write_table(table, self.path, operation=operation, options=self.options)
            self.serve(service)
        self.done[f"{'hudi' if hudi else 'ours'}: {service}"] += 1

    def serve(self, service: str) -> None:
        given: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
            "clean": (hoodie.clean_table, CLEANS),
            "archive": (hoodie.archive_table, ARCHIVES),
            "cluster": (hoodie.cluster_table, CLUSTERS),
            "compact": (hoodie.compact_table, COMPACTS),
            "compact logs": (hoodie.log_compact_table, {"hoodie.log.compaction.blocks.threshold": "1"}),
        }
        if service in given:
            call, options = given[service]
            call(self.path, options={**self.options, **options})

    def batch(self, number: int) -> tuple[list[Row], str]:
        """Rows of the next version. Late ones and deletes are of different keys: behind a delete Hudi gives
        the base file's row again.
        """
        chance = self.chance.random()
        if number and chance < 0.15:
            rows, operation = small_rows(self.chance.sample(range(40), 3), number), "delete"
            self.model.delete(rows)
        elif number and chance < 0.25:
            region = self.chance.randrange(3)
            rows, operation = small_rows(range(region, 60, 6), number), "insert_overwrite"
            self.model.insert_overwrite(rows)
        else:
            late = chance < 0.4
            keys = self.chance.sample(range(40, 60) if late else range(60), 8)
            rows, operation = small_rows(keys, number, ts=1000 * number - 2500 * late), "upsert"
            self.model.upsert(rows)
        return rows, operation

    def check(self, number: int) -> None:
        expected = self.model.table(SMALL_SCHEMA)
        what = f"after {number}"
        assert_same_rows(hoodie.read_table(self.path), expected, what=f"{what}: ours")
        found = self.server.read(self.path, metadata=number % 4 < 2)
        assert_same_rows(found, expected, what=f"{what}: Hudi")
        if number % 10 == 9:
            assert disagreements(self.path) == [], number


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_fifty_turns(hudi_12: HudiServer, tmp_path: Path, kind: str, version: int) -> None:
    turns = Turns(hudi_12, str(tmp_path / "t"), kind, version)
    for number in range(TURNS):
        turns.turn(number)
        turns.check(number)
    assert {name.partition(": ")[2] for name in turns.done} >= {"clean", "archive", "cluster"}
    assert Table.open(turns.path).properties.version == version
