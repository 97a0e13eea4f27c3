"""Metadata tables that we wrote, read and written on by Apache Hudi 0.15.0, in turns with us."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.format.names import BaseFileName
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.metadata.written_table import MaintenancePolicy
from hoodie.table import properties
from hoodie.table.handle import Table
from hoodie.table.view import file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from tests.support.hudi_client import HudiServer
from tests.support.metadata_records import files, make_records, write_records
from tests.support.oracle import Mode, Model
from tests.support.rows import assert_same_rows
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

OURS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}
THEIRS = {
    **OURS,
    "hoodie.table.name": "t",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}


class Turns:
    def __init__(self, path: Path, server: HudiServer) -> None:
        self.path = path
        self.server = server
        self.model = Model(("id",), ("region",), "ts", Mode.EVENT_TIME)

    @property
    def table(self) -> Table:
        return Table.open(str(self.path))

    @property
    def writer(self) -> MetadataWriter:
        writer = MetadataWriter.open(self.table)
        assert writer is not None
        return writer

    @property
    def metadata(self) -> Timeline:
        return Timeline.load(f"{self.path}/.hoodie/metadata")

    def build(self) -> None:
        for rows in (small_rows(range(30), 1), small_rows(range(20, 40), 2)):
            hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(self.path), options=OURS)
            self.model.upsert(rows)
        table = self.table
        listing = table.listing()
        found: dict[str, dict[str, int | None]] = {
            partition: {item.name: item.size for item in listing.files(partition) if item.name[0] != "."}
            for partition in listing.partitions()
        }
        make_records(table, table.timeline.last_time or "", {Partition.FILES: (files(found), 1)})
        properties.update(table.storage, table.base_path, {properties.METADATA_PARTITIONS: "files"})

    def begin(self, rows: list[dict[str, Any]]) -> tuple[Instant, CommitMetadata]:
        """New file groups with rows, which another table of ours has written, and their deltacommit."""
        other = self.path.with_name("other")
        shutil.rmtree(other, ignore_errors=True)
        hoodie.write_table(as_table(rows, SMALL_SCHEMA), str(other), operation="insert", options=OURS)
        table, source = self.table, Table.open(str(other))
        written = source.timeline.commit(source.timeline.commits()[0])
        time = new_instant_time(table.timeline.last_time)
        stats: dict[str, tuple[WriteStat, ...]] = {}
        names: dict[str, dict[str, int | None]] = {}
        for stat in written.write_stats:
            partition = stat.partition_path or ""
            parsed = BaseFileName.parse((stat.path or "").rpartition("/")[2])
            assert parsed is not None
            name = str(BaseFileName(parsed.file_id, parsed.token, time))
            shutil.copy(other / (stat.path or ""), self.path / partition / name)
            size = stat.file_size_in_bytes
            new = WriteStat(
                file_id=stat.file_id,
                path=f"{partition}/{name}",
                num_writes=stat.num_writes,
                num_inserts=stat.num_inserts,
                total_write_bytes=size,
                partition_path=partition,
                file_size_in_bytes=size,
            )
            stats[partition] = (*stats.get(partition, ()), new)
            names.setdefault(partition, {})[name] = size
        instant = Instant(time, Action.COMMIT, State.INFLIGHT)
        table.store.create(instant.with_state(State.REQUESTED))
        table.store.create(instant, CommitMetadata().to_json())
        write_records(self.writer, time, {Partition.FILES: files(names)})
        return instant, CommitMetadata(stats, False, written.extra_metadata, "INSERT")

    def insert(self, rows: list[dict[str, Any]], compact_after: int = 2) -> None:
        self.writer.maintain(MaintenancePolicy(compact_after=compact_after, keep_commits=2))
        instant, commit = self.begin(rows)
        table = self.table
        table.store.create(instant.with_state(State.COMPLETED), commit.to_json())
        self.model.upsert(rows)

    def upsert_by_hudi(self, rows: list[dict[str, Any]], **options: str) -> None:
        self.server.write(self.path, as_table(rows, SMALL_SCHEMA), {**THEIRS, **options})
        self.model.upsert(rows)

    def agree(self, what: str) -> None:
        expected = self.model.table(SMALL_SCHEMA)
        for metadata in (True, False):
            found = self.server.read(self.path, metadata=metadata)
            assert_same_rows(found, expected, what=f"{what}, by the metadata table: {metadata}")
        assert self.table.properties.metadata_partitions == ("files",), what
        table = self.table
        metadata_table = MetadataTable.open(table)
        assert metadata_table is not None
        listing, walked = MetadataListing(metadata_table, table.base_path), table.listing()
        snapshot = table.view
        assert listing.partitions() == walked.partitions(), what
        for partition in walked.partitions():
            theirs, ours = (
                {(item.base.path, item.base.size) for group in found.values() for item in group if item.base}
                for found in (file_slices(snapshot, source.files, partition) for source in (listing, walked))
            )
            assert theirs == ours, what


@pytest.fixture
def turns(tmp_path: Path, hudi_015: HudiServer) -> Turns:
    made = Turns(tmp_path / "t", hudi_015)
    made.build()
    return made


def test_apache_hudi_reads_it_and_writes_on(turns: Turns, hudi_12: HudiServer) -> None:
    """Both compact it, over each other's log blocks and base files."""
    turns.agree("made by us")
    for number in range(1, 4):
        turns.upsert_by_hudi(small_rows(range(10 * number, 10 * number + 15), 2 + number))
        turns.agree(f"after Hudi, {number}")
        for half in (0, 1):
            first = 1000 + 20 * number + 10 * half
            turns.insert(small_rows(range(first, first + 10), 1))
        turns.agree(f"after us, {number}")
    compactions = turns.metadata.filter([Action.COMMIT], completed=True)
    stats = [stat for item in compactions for stat in turns.metadata.commit(item).write_stats]
    ours = [stat for stat in stats if "_0-1-1_" in (stat.path or "")]
    assert 0 < len(ours) < len(stats)
    found = hudi_12.read(turns.path, metadata=True)
    assert_same_rows(found, turns.model.table(SMALL_SCHEMA), what="Hudi 1.2.0")
    assert turns.metadata.pending() == []
    for number in range(4):
        turns.insert(small_rows(range(2000 + 10 * number, 2005 + 10 * number), 1), compact_after=100)
    assert turns.metadata.filter([Action.CLEAN], completed=True)
    turns.agree("cleaned by us")
    turns.upsert_by_hudi(small_rows(range(8), 9))
    turns.agree("after Hudi, cleaned")


@pytest.mark.parametrize("state", ["completed", "inflight"])
def test_apache_hudi_rolls_back_what_failed_here(turns: Turns, state: str) -> None:
    failed, _ = turns.begin(small_rows(range(2000, 2010), 1))
    if state == "inflight":
        (turns.path / f".hoodie/metadata/.hoodie/{failed.time}.deltacommit").unlink()
    turns.agree("failed")
    turns.upsert_by_hudi(small_rows(range(5), 9))
    turns.agree("rolled back")
    assert turns.metadata.filter([Action.ROLLBACK], completed=True)
    assert failed.time not in {instant.time for instant in turns.metadata}
    turns.insert(small_rows(range(3000, 3005), 1))
    turns.agree("after us")


def test_what_we_roll_back_is_away_for_apache_hudi(turns: Turns) -> None:
    failed, _ = turns.begin(small_rows(range(2000, 2010), 1))
    write_records(turns.writer, failed.time, {Partition.FILES: files({"eu": {"other": 1}})})
    by = new_instant_time(turns.table.timeline.last_time)
    assert turns.writer.rollback(failed.time, by)
    for name in (f"{failed.time}.inflight", f"{failed.time}.commit.requested"):
        (turns.path / ".hoodie" / name).unlink()
    turns.agree("rolled back")
    turns.upsert_by_hudi(small_rows(range(5), 9))
    turns.insert(small_rows(range(3000, 3005), 1))
    turns.upsert_by_hudi(small_rows(range(5), 10))
    turns.agree("after both")
