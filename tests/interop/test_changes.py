"""Change data of tables that Apache Hudi 0.15.0 writes: ours equals its own, over random histories."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.format.cdc import LOGGING_MODE, LoggingMode
from hoodie.read.changes import SCHEMA
from hoodie.table.handle import Table
from hoodie.timeline.instant import Action
from tests.support.changes import Changed, ask, changes, images, replayed
from tests.support.hudi_client import HudiServer
from tests.support.shared_table import KEYS, OFF, PAYLOAD, TYPE, TYPES
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

PARTITIONS = "hoodie.datasource.write.partitions.to.delete"
Row = dict[str, Any]


class Logged:
    """A table with a change log, which Apache Hudi alone writes."""

    def __init__(self, path: Path, server: HudiServer, kind: str, **more: str) -> None:
        self.path, self.server, self.version = path, server, 0
        self.options: dict[str, Any] = {
            **KEYS,
            **OFF,
            TYPE: kind,
            "hoodie.table.name": path.name,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.payload.class": PAYLOAD,
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.table.cdc.enabled": "true",
            # else its inserts into small files keep no log, and its own query fails
            "hoodie.merge.allow.duplicate.on.inserts": "false",
            **more,
        }

    def write(self, operation: str, ids: list[int], **more: str) -> None:
        self.version += 1
        rows = small_rows(ids, self.version, ts=random.Random(self.version).randrange(5))
        self.put(operation, rows, **more)

    def put(self, operation: str, rows: list[Row], **more: str) -> None:
        texts = {name: str(value) for name, value in {**self.options, **more}.items()}
        self.server.write(self.path, as_table(rows, SMALL_SCHEMA), texts, operation=operation)

    def service(self, kind: str) -> None:
        """One of ours: its own clustering fails on some of these tables."""
        options = {
            **OFF,
            "hoodie.compact.inline.max.delta.commits": 1,
            "hoodie.clustering.plan.strategy.sort.columns": "name",
        }
        run = hoodie.cluster_table if kind == "cluster" else hoodie.compact_table
        run(str(self.path), options=options)

    def theirs(self, begin: str = "earliest") -> list[Changed]:
        """By a plan without coalesce, under which its iterator loses every other row."""
        source = f"hudi_table_changes('{self.path}', 'cdc', '{begin}')"
        rows = self.server.sql(f"select op, ts_ms, before, after from {source}")
        return changes(pa.Table.from_pylist(rows, schema=SCHEMA))

    def check(self, begin: str = "earliest") -> None:
        """Of a file group that was replaced Apache Hudi 0.15.0 tells some rows only."""
        ours, theirs = changes(ask(str(self.path), begin)), self.theirs(begin)
        timeline = Table.open(str(self.path)).timeline
        replaced = {item.time for item in timeline.commits() if item.action is Action.REPLACECOMMIT}
        assert [row for row in theirs if row not in ours] == []
        assert [
            row for row in ours if row not in theirs and (row[0], row[1] in replaced) != ("d", True)
        ] == []
        kept = [[row for row in rows if row[1] not in replaced] for rows in (ours, theirs)]
        assert kept[0] == kept[1]

    def check_replay(self) -> None:
        """Our changes lead from nothing to each state."""
        for time, rows in replayed(changes(ask(str(self.path))), ["id"]):
            assert rows == images(hoodie.read_table(str(self.path), as_of=time, meta=False)), time


@pytest.mark.parametrize("mode", LoggingMode)
@pytest.mark.parametrize("kind", TYPES)
def test_random_histories(tmp_path: Path, kind: str, mode: LoggingMode, hudi_015: HudiServer) -> None:
    chance = random.Random(f"{kind} {mode}")
    table = Logged(tmp_path / "t", hudi_015, kind, **{LOGGING_MODE: mode.value.lower()})
    table.write("insert", list(range(30)))
    table.write("upsert", list(range(20, 40)))
    services = ["cluster", *(["compact"] if kind == "MERGE_ON_READ" else [])]
    steps = ["upsert", "delete", "insert_overwrite", "delete_partition", *services]
    chance.shuffle(steps)
    for step in [*steps, "upsert"]:
        ids = chance.sample(range(60), 8)
        if step in services:
            table.service(step)
        elif step == "insert_overwrite":
            table.write(step, [number for number in range(200, 230) if number % 3 == 1])
        elif step == "delete_partition":
            table.put(step, small_rows([], 1), **{PARTITIONS: small_rows([2], 1)[0]["region"]})
        else:
            table.write(step, ids)
    table.check()
    times = sorted({row[1] for row in changes(ask(str(table.path)))})
    table.check(times[len(times) // 2])
    table.check_replay()


@pytest.mark.parametrize("kind", TYPES)
def test_inserts_that_apache_hudi_keeps_no_log_of(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """Its own query fails on them; the rows are those of the commit in the file."""
    table = Logged(tmp_path / "t", hudi_015, kind, **{"hoodie.merge.allow.duplicate.on.inserts": "true"})
    table.write("insert", list(range(30)))
    table.write("insert", list(range(30, 36)))
    with pytest.raises(Exception, match="There should be a cdc log file"):
        table.theirs()
    assert [row[0] for row in changes(ask(str(table.path)))] == ["i"] * 36
    table.check_replay()
