"""What metadata tables of Apache Hudi say of partitions and files, beside the folders themselves."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from hoodie.format.log_file import LogFileReader
from hoodie.metadata.files import MetadataListing
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.view import TimelineView, file_slices
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ
from tests.support.tiers import full_but

#: more tables that the fast tests look at
METADATA = {"mdt_compacted", "mdt_files_only", "idx_rli_mor", "all_instants", "cow_savepoint_restore"}
NAMES = [name for name in [*COPY_ON_WRITE, *MERGE_ON_READ] if name != "mdt_off"]


def files_of(snapshot: TimelineView, listing: FileListing, partition: str) -> dict[str, int]:
    """The sizes of the files of all committed slices, by path."""
    slices = [item for group in file_slices(snapshot, listing.files, partition).values() for item in group]
    bases = {item.base.path: item.base.size for item in slices if item.base}
    return bases | {log.path: log.size for item in slices for log in item.logs}


@pytest.mark.parametrize("name", full_but((FEATURES | METADATA) & set(NAMES), NAMES))
def test_the_files_of_every_slice_are_those_of_the_folders(golden_tables: Path, name: str) -> None:
    """But for logs that only failed writes wrote. Hudi gives a rolled back log of one table 1 byte."""
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    snapshot = TimelineView.of(table.timeline, table.storage)
    metadata = MetadataTable.open(table)
    assert metadata is not None
    listing = pickle.loads(pickle.dumps(MetadataListing(metadata, table.base_path)))
    walked = table.listing()
    partitions = walked.partitions()
    assert listing.partitions() == partitions
    listed = listing.many(partitions)
    for partition in partitions:
        assert [item.name for item in listed[partition]] == sorted(item.name for item in listed[partition])
        found = files_of(snapshot, listing, partition)
        there = files_of(snapshot, walked, partition)
        assert set(found) <= set(there)
        for path in set(there) - set(found):
            with LogFileReader(table.storage, path) as log:
                assert not any(snapshot.shows(block.instant or "") for block in log.blocks()), path
        for path, size in found.items():
            assert size == there[path] or (size == 1 and name == "mor_rollback_failed"), path


def test_a_table_without_one(golden_tables: Path) -> None:
    assert MetadataTable.open(Table.open(str(golden_tables / "0.15.0-v6/mdt_off/table"))) is None


def test_partitions_have_their_file_groups(golden_tables: Path) -> None:
    metadata = MetadataTable.open(Table.open(str(golden_tables / "0.15.0-v6/mdt_compacted/table")))
    assert metadata is not None
    groups = {name.value: len(metadata.slices(name)) for name in Partition}
    assert groups == {"files": 1, "column_stats": 2, "bloom_filters": 4, "record_index": 2}
