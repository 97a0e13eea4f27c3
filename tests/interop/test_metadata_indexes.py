"""Statistics of columns and bloom filters that we keep, beside Apache Hudi: it finds them true, leaves out
files by them without losing a row, and goes on with them; and those that it keeps are as ours would be.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table as Handle
from hoodie.timeline.active import Timeline
from hoodie.write.participants.metadata import MetadataPartition
from hoodie.write.participants.metadata.bloom_filters import BloomFiltersPartition
from hoodie.write.participants.metadata.column_stats import ColumnStatsPartition
from tests.support.hudi_client import HudiServer
from tests.support.metadata import INDEXED, disagreements
from tests.support.metadata_instants import compared_by_instant
from tests.support.predicates import SCHEMA
from tests.support.predicates import rows as random_rows
from tests.support.shared_table import FEW, OFF, TYPES, Table
from tests.support.tables import SMALL_SCHEMA

pytestmark = [pytest.mark.interop, pytest.mark.full]

PLAIN: Mapping[str, Any] = {**OFF, **INDEXED}
SERVED: Mapping[str, Any] = {
    **FEW,
    **INDEXED,
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": 2,
}
SKIPPING = {
    "hoodie.metadata.enable": "true",
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.table.services.enabled": "false",
}
WHOLE = ("bloom_filters", "column_stats", "files")
PARTITIONS: list[MetadataPartition] = [ColumnStatsPartition(), BloomFiltersPartition()]
#: tables of Apache Hudi with indexes
GOLDEN = ["mdt_full_cow", "mdt_compacted", "cow_indexing", "idx_rli_mor", "idx_bloom"]
META = ("_hoodie_commit_time", "_hoodie_record_key")


def base_files(path: Path) -> list[tuple[str, str]]:
    listing = Handle.open(str(path)).listing()
    return [
        (partition, item.name)
        for partition in listing.partitions()
        for item in listing.files(partition)
        if item.name.endswith(".parquet")
    ]


def agrees(table: Table, what: str, server: HudiServer) -> None:
    assert properties.load(LocalStorage(), str(table.path)).metadata_partitions == WHOLE, what
    gone = "of a file that is not there"  # Apache Hudi's clean cuts the names of files in partitions
    assert [item for item in disagreements(table.path) if gone not in item] == [], what
    table.check(what, [server])
    expected = table.model.table(SMALL_SCHEMA)
    key = expected["id"].to_pylist()[0]
    for where in (f"id = '{key}'", f"id < '{key}' OR ts >= 4000", "val > 3 AND region = 'eu'"):
        found = ids(server.read(table.path, where=where, options=SKIPPING, columns=["id"]))
        assert found == ids(hoodie.read_table(str(table.path), where=where)), (what, where)


def ids(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.column("id").to_pylist()))


@pytest.mark.parametrize("kind", TYPES)
def test_in_turns(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """With compactions of both tables, cleans and archiving by both."""
    table = Table(tmp_path / f"indexed_{kind.lower()}", kind)
    for turn in range(10):
        options = SERVED if turn > 3 else PLAIN
        if turn in (2, 5, 6, 8):
            table.theirs(hudi_015, turn, options)
        else:
            table.ours(turn, options)
        agrees(table, f"turn {turn}", hudi_015)
        columns = [*META, *SMALL_SCHEMA.names]
        assert hudi_015.index_differences(table.path, base_files(table.path), columns) == [], turn
    assert list((table.path / ".hoodie/metadata/column_stats").glob("*001.hfile"))


def batch(seed: int, ids: range, ts: int) -> pa.Table:
    made = random_rows(random.Random(seed), len(ids))
    given = {
        "id": pa.array([f"k{number:04d}" for number in ids]),
        "part": pa.array([f"p{number % 2}" for number in ids]),
        "ts": pa.array([ts] * len(ids), pa.int64()),
        "tags": pa.array([["a"] if number % 2 else None for number in ids], pa.list_(pa.string())),
    }
    return pa.table({**given, **{name: made.column(name) for name in SCHEMA.names if name != "d"}})


@pytest.mark.parametrize("kind", TYPES)
def test_odd_values(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """No row is lost by Apache Hudi's skipping; where we left a file without statistics it looks into it."""
    path, options = tmp_path / "t", {**KEYS, **INDEXED, "hoodie.datasource.write.table.type": kind}
    for number in range(3):
        given = batch(number, range(number * 12, number * 12 + 12), 1)
        hoodie.write_table(given, str(path), operation="insert", options=options)
    long = batch(7, range(40, 44), 1)
    long = long.set_column(long.schema.get_field_index("u"), "u", pa.array(["x" * 5000] * 4))
    hoodie.write_table(long, str(path), operation="insert", options=options)
    hoodie.write_table(batch(9, range(0, 36, 4), 2), str(path), options=options)
    assert disagreements(path) == []
    texts = f"u = '{'x' * 5000}'"
    for where in (
        texts,
        f"{texts} AND ts = 1",
        "i > 7 AND t IS NOT NULL",
        "n < 0 OR c = 7.00",
        "x <= 0.0",
        "y = -0.0",
        "t >= 'b' AND i IS NULL",
        "m < TIMESTAMP '1970-01-01 00:00:00'",
        "_hoodie_record_key = 'k0005'",
    ):
        found = hudi_015.read(path, where=where, options=SKIPPING, columns=["id"])
        without = hudi_015.read(path, where=where, metadata=False, columns=["id"])
        assert ids(found) == ids(without), where


@pytest.mark.parametrize("kind", TYPES)
def test_of_each_instant_what_apache_hudi_writes(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """Log files, too, whose statistics its writers collect."""
    path = tmp_path / "t"
    options = {
        **KEYS,
        **INDEXED,
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.compact.inline": "false",
    }
    for number, ids in enumerate((range(20), range(0, 20, 3), range(15, 30))):
        mode = "append" if number else "overwrite"
        hudi_015.write(path, batch(number, ids, number), options, mode=mode)
    hudi_015.write(path, batch(5, range(2, 6), 5), options, operation="delete")
    for kept in PARTITIONS:
        compared, wrong = compared_by_instant(path, kept)
        assert not wrong, "\n".join(wrong)
        assert compared > 3


@pytest.mark.parametrize(
    "name", ["mdt_full_cow", "mdt_compacted", "cow_indexing", "idx_rli_mor", "idx_bloom"]
)
def test_indexes_of_apache_hudi_over_our_services(
    golden_tables: Path, tmp_path: Path, hudi_015: HudiServer, name: str
) -> None:
    """A clustering, a compaction and a restore of its tables by us; then it validates, and writes on."""
    path = tmp_path / name
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", path)
    there = properties.load(LocalStorage(), str(path)).metadata_partitions
    rows = hoodie.read_table(str(path))
    rows = rows.drop_columns(list(META_COLUMNS))
    commit = Timeline.load(str(path)).commits()[-1].time
    hoodie.savepoint_table(str(path), user="me")
    sort = {"hoodie.clustering.plan.strategy.sort.columns": "_hoodie_record_key"}
    if Handle.open(str(path)).properties.table_type.value == "MERGE_ON_READ":
        hoodie.compact_table(str(path), options={"hoodie.compact.inline.max.delta.commits": 1})
    assert hoodie.cluster_table(str(path), options=sort).status == "clustered"
    valid(path, there, rows, hudi_015, "clustered")
    hoodie.write_table(rows.slice(0, 5), str(path))
    valid(path, there, rows, hudi_015, "written")
    hoodie.restore_table(str(path), commit)
    valid(path, there, rows, hudi_015, "restored")
    hoodie.write_table(rows.slice(3, 5), str(path))
    valid(path, there, rows, hudi_015, "written again")


def valid(path: Path, there: Collection[str], rows: pa.Table, server: HudiServer, what: str) -> None:
    """By Apache Hudi's own check of the list of files, and its look at statistics and filters."""
    assert properties.load(LocalStorage(), str(path)).metadata_partitions == there, what
    assert disagreements(path) == [], what
    assert ids(hoodie.read_table(str(path))) == ids(rows), what
    for metadata in (True, False):
        assert ids(server.read(path, metadata=metadata)) == ids(rows), (what, metadata)
    known = f"validated_{path.name}"
    server.sql(f"drop table if exists {known}")
    server.sql(f"create table {known} using hudi location '{path}'")
    assert server.call("validate_metadata_table_files", table=known) == [], what
    if set(WHOLE) <= set(there):
        assert server.index_differences(path, base_files(path), ["_hoodie_record_key", "ts"]) == [], what
