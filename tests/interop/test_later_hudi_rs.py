"""What hudi-rs reads of the tables of versions 8 and 9 that we write and serve: snapshots, states of the past
and changes. Without Java.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.timeline.active import Timeline
from tests.interop.test_our_tables import KEY, KEYGEN, ORDERING, PARTITION, SIMPLE
from tests.support.readers import ReaderError, read_hudi_rs
from tests.support.rows import assert_same_rows
from tests.support.tables import FULL_SCHEMA, SMALL_SCHEMA, Row, as_table, full_rows, small_rows
from tests.support.tiers import crossed_but

pytestmark = pytest.mark.interop

PAYLOAD = "hoodie.datasource.write.payload.class"
MODEL = "org.apache.hudi.common.model."
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
#: ways in which files and merging differ
TABLES: dict[str, dict[str, Any]] = {
    "simple": SIMPLE,
    "commit time": {KEY: "id", PARTITION: "region"},
    "buckets": {**SIMPLE, **BUCKETS},
    "change data": {**SIMPLE, "hoodie.table.cdc.enabled": "true"},
    "Parquet in logs": {**SIMPLE, "hoodie.logfile.data.block.format": "parquet"},
    "no partitions": {KEY: "id", ORDERING: "ts"},
    "hive style": {**SIMPLE, "hoodie.datasource.write.hive_style_partitioning": "true"},
}
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
DUE = {"hoodie.compact.inline.max.delta.commits": "1", "hoodie.log.compaction.blocks.threshold": "1"}
CLUSTER = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
}


class Written:
    """A table, and what it had after each commit."""

    def __init__(self, path: Path, options: dict[str, Any], kind: str, version: int) -> None:
        self.path = str(path)
        self.options = {
            **options,
            "hoodie.write.table.version": str(version),
            "hoodie.datasource.write.table.type": kind,
            "hoodie.metadata.enable": "true",
        }
        self.states: dict[str, pa.Table] = {}

    def write(self, rows: list[Row], operation: str = "upsert") -> None:
        table = as_table(rows, SMALL_SCHEMA)
        done = hoodie.write_table(table, self.path, operation=operation, options=self.options)
        self.states[str(done.instant)] = hoodie.read_table(self.path)

    def check(self, what: str) -> None:
        assert_same_rows(read_hudi_rs(self.path), hoodie.read_table(self.path), meta=True, what=what)


@pytest.mark.parametrize(
    ("name", "kind", "version"),
    crossed_but(
        {"simple-MERGE_ON_READ-9", "buckets-COPY_ON_WRITE-8"},
        {name: name for name in TABLES},
        {kind: kind for kind in (COW, MOR)},
        {str(version): version for version in (8, 9)},
    ),
)
def test_what_it_reads(tmp_path: Path, name: str, kind: str, version: int) -> None:
    table = Written(tmp_path / "t", TABLES[name], kind, version)
    table.write(small_rows(range(60), 2), "bulk_insert" if name != "buckets" else "insert")
    table.write(small_rows(range(5), 1))  # late ones
    table.check("late rows")
    table.write(small_rows(range(40, 90), 3))
    table.write(small_rows(range(10), 4) + small_rows(range(95, 100), 4, deleted=True))
    table.write(small_rows(range(20, 30), 5, deleted=True) + small_rows(range(100, 120), 5))
    table.write(small_rows(range(30, 34), 6), "delete")
    table.check("deletes")
    for instant, state in table.states.items():
        found = read_hudi_rs(table.path, as_of=instant)
        assert_same_rows(found, state, meta=True, what=f"as of {instant}")
    timeline = Timeline.load(table.path)
    ends = [str(timeline.completion_time(item)) for item in timeline.commits()]
    for begin in ends[1:]:
        found, ours = read_hudi_rs(table.path, begin=begin), hoodie.read_table(table.path, begin=begin)
        assert_same_rows(found, ours, meta=True, what=f"since {begin}")
    if kind == MOR:
        assert hoodie.log_compact_table(table.path, options=DUE).status == "compacted"
        table.check("logs compacted")
        assert hoodie.compact_table(table.path, mode="schedule", options=DUE).status == "scheduled"
        table.write(small_rows(range(8), 7))
        table.check("a pending compaction")
        assert hoodie.compact_table(table.path, mode="execute").status == "compacted"
        table.check("compacted")
    if name != "buckets":
        assert hoodie.cluster_table(table.path, options=CLUSTER).clustered
        table.check("clustered")


@pytest.mark.full
@pytest.mark.parametrize("version", [8, 9])
def test_every_type(tmp_path: Path, version: int) -> None:
    path = str(tmp_path / "t")
    options = {**SIMPLE, "hoodie.write.table.version": str(version)}
    for number in (1, 2):
        rows = as_table(full_rows(range(20 * number), number), FULL_SCHEMA)
        hoodie.write_table(rows, path, options=options)
    assert_same_rows(read_hudi_rs(path), hoodie.read_table(path), meta=True)


#: name -> (versions, options, what hudi-rs says)
REFUSED: dict[str, tuple[tuple[int, ...], dict[str, Any], str]] = {
    "several ordering fields": ((8, 9), {**SIMPLE, ORDERING: "ts,id"}, "Multiple ordering fields"),
    "custom key generator": (
        (8, 9),
        {**SIMPLE, KEYGEN: "custom", PARTITION: "region:SIMPLE"},
        "is not present in the table schema",
    ),
    "partial payload": (
        (8,),
        {**SIMPLE, PAYLOAD: f"{MODEL}PartialUpdateAvroPayload"},
        "CUSTOM record merge mode",
    ),
    "payload of non-defaults": (
        (8,),
        {**SIMPLE, PAYLOAD: f"{MODEL}OverwriteNonDefaultsWithLatestAvroPayload"},
        "CUSTOM record merge mode",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "version"), [(name, version) for name, found in REFUSED.items() for version in found[0]]
)
def test_what_it_refuses(tmp_path: Path, name: str, version: int) -> None:
    _, options, text = REFUSED[name]
    table = Written(tmp_path / "t", options, MOR, version)
    table.write(small_rows(range(20), 1))
    table.write(small_rows(range(5), 2))
    with pytest.raises(ReaderError, match=text):
        read_hudi_rs(table.path)
