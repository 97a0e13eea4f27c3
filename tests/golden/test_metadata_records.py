"""Our records of metadata tables beside those that Apache Hudi wrote at the same instants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_records import decode_rows, schema_of
from hoodie.format.log_block import BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import BaseFileName, LogFileName
from hoodie.metadata.partitions.files import (
    SCHEMA,
    MetadataListing,
    of_clean,
    of_commit,
    of_listing,
    of_rollback,
)
from hoodie.metadata.table import MetadataTable
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.write.participants.metadata import MetadataPartition
from hoodie.write.participants.metadata.bloom_filters import BloomFiltersPartition
from hoodie.write.participants.metadata.column_stats import ColumnStatsPartition
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ, NO_METADATA
from tests.support.metadata_instants import compared_by_instant
from tests.support.tiers import full_but

STORAGE = LocalStorage()
NAMES = [name for name in [*COPY_ON_WRITE, *MERGE_ON_READ] if name not in NO_METADATA]
#: one with each kind of instant
KINDS = {"cow_rollback_failed", "mor_rollback", "mor_rollback_failed", "cow_clean_commits", "all_instants"}
STATS, BLOOM = ColumnStatsPartition(), BloomFiltersPartition()
INDEXED: dict[str, list[MetadataPartition]] = {
    "mdt_full_cow": [STATS, BLOOM],
    "mdt_compacted": [STATS, BLOOM],
    "cow_indexing": [STATS],
}
#: by key: the kind of the record, and by name (size, deleted)
Values = dict[str, tuple[int, dict[str, tuple[int, bool]]]]


def values(rows: pa.Table) -> Values:
    return {
        row["key"]: (row["type"], {name: (i["size"], i["isDeleted"]) for name, i in row[SCHEMA.names[2]]})
        for row in rows.to_pylist()
    }


def written(metadata: Path) -> dict[str, pa.Table]:
    """The records in the log blocks of `files`, by instant."""
    found = {}
    for path in sorted(metadata.glob("files/.[!.]*.log.*")):
        with LogFileReader(STORAGE, str(path)) as log:
            for block in log.blocks():
                if block.type is BlockType.HFILE_DATA:
                    with HFileReader.of_bytes(log.content(block), path.name) as file:
                        found[str(block.instant)] = decode_rows(file.scan(), schema_of(file), SCHEMA.names)
    return found


def made(timeline: Timeline, instant: Instant) -> pa.Table:
    data = timeline.read(instant, STORAGE)
    if instant.action is Action.CLEAN:
        return of_clean(CleanMetadata.from_bytes(data)).rows
    if instant.action is Action.ROLLBACK:
        return of_rollback(RollbackMetadata.from_bytes(data)).rows
    assert instant.action in COMMIT_ACTIONS
    return of_commit(timeline.commit(instant, STORAGE)).rows


@pytest.mark.parametrize("name", full_but((FEATURES | KINDS) & set(NAMES), NAMES))
def test_files_of_each_instant(golden_tables: Path, name: str) -> None:
    """Of all on the active timeline; a restore resets the metadata table, and a savepoint is not in it."""
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    theirs = written(Path(table.base_path, ".hoodie/metadata"))
    compared = 0
    for instant in table.timeline:
        if instant.completed and instant.action not in (Action.SAVEPOINT, Action.RESTORE, Action.INDEXING):
            ours = made(table.timeline, instant)
            found = theirs.get(instant.time)
            if found is None:
                assert compacted(table, instant) or ours.num_rows == 0, instant
                continue
            assert ours.schema == found.schema
            assert values(ours) == values(found), instant
            compared += 1
    assert compared


def is_data(name: str) -> bool:
    return BaseFileName.parse(name) is not None or LogFileName.parse(name) is not None


def compacted(table: Table, instant: Instant) -> bool:
    """Is it before the newest compaction of the metadata table, so that its log may have been cleaned."""
    folder = Path(table.base_path, ".hoodie/metadata/.hoodie")
    return any(instant.is_before(path.name.partition(".")[0]) for path in folder.glob("*001.commit"))


@pytest.mark.parametrize("name", ["cow_nonpart", "mdt_files_only", "mor_clean_commits"])
def test_a_new_metadata_table_lists_what_the_folders_have(golden_tables: Path, name: str) -> None:
    """As Apache Hudi's lists it after all those commits."""
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    metadata = MetadataTable.open(table)
    assert metadata is not None
    listing = MetadataListing(metadata, table.base_path)
    walked = table.listing()
    files = {
        partition: {item.name: item.size for item in walked.files(partition) if is_data(item.name)}
        for partition in walked.partitions()
    }
    expected: dict[str, dict[str, Any]] = {"__all_partitions__": dict.fromkeys(files, (0, False))}
    for partition in listing.partitions():
        expected[partition or "."] = {item.name: (item.size, False) for item in listing.files(partition)}
    if "" in files:
        expected["__all_partitions__"] = {".": (0, False)}
    found = values(of_listing(files).rows)
    assert {key: sizes for key, (_, sizes) in found.items()} == expected
    assert {kind for key, (kind, _) in found.items() if key != "__all_partitions__"} == {2}
    assert found["__all_partitions__"][0] == 1


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        pytest.param(name, kept, id=f"{name}-{kept.partition.value}")
        for name, partitions in INDEXED.items()
        for kept in partitions
    ],
)
def test_indexes_of_each_instant(golden_tables: Path, name: str, kept: MetadataPartition) -> None:
    """As Apache Hudi has them, of files that were not cleaned since."""
    compared, wrong = compared_by_instant(golden_tables / "0.15.0-v6" / name / "table", kept)
    assert wrong == []
    assert compared > 2
