"""What metadata tables of Apache Hudi say of partitions and files, beside the folders themselves; and after a
compaction of ours.
"""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.errors import TableError
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.metadata.keys import file_groups
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.partitions.record_index import LOCATIONS, file_ids, locate
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.metadata.written_table import MaintenancePolicy
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.view import TimelineView, file_slices
from hoodie.timeline.instant import Action, Instant, State
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ, NO_METADATA
from tests.support.metadata_records import files, make_records, write_records
from tests.support.tiers import full_but

#: more tables that the fast tests look at
METADATA = {"mdt_compacted", "mdt_files_only", "idx_rli_mor", "all_instants", "cow_savepoint_restore"}
NAMES = [name for name in [*COPY_ON_WRITE, *MERGE_ON_READ] if name not in NO_METADATA]


def files_of(snapshot: TimelineView, listing: FileListing, partition: str) -> dict[str, int]:
    """The sizes of the files of all committed slices, by path."""
    slices = [item for group in file_slices(snapshot, listing.files, partition).values() for item in group]
    bases = {item.base.path: item.base.size for item in slices if item.base}
    return bases | {log.path: log.size for item in slices for log in item.logs}


@pytest.mark.parametrize("name", full_but((FEATURES | METADATA) & set(NAMES), NAMES))
def test_the_files_of_every_slice_are_those_of_the_folders(golden_tables: Path, name: str) -> None:
    """But for logs that only failed writes wrote. Hudi gives a rolled back log of one table 1 byte."""
    table = Table.open(str(golden_tables / "0.15.0-v6" / name / "table"))
    snapshot = table.view
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


def told(table: Table) -> tuple[dict[str, dict[str, int]], dict[str, set[str]]]:
    """The sizes of files by partition and name, and the keys of each partition of the metadata table."""
    metadata = MetadataTable.open(table)
    assert metadata is not None
    listing = MetadataListing(metadata, table.base_path)
    partitions = listing.partitions()
    listed = listing.many(partitions)
    files = {partition: {item.name: item.size for item in listed[partition]} for partition in partitions}
    keys: dict[str, set[str]] = {}
    for name in table.properties.metadata_partitions:
        found = keys.setdefault(name, set())
        for item in metadata.slices(Partition(name)):
            rows = metadata.records(item, lambda reader: reader.scan(), ["type"])
            found.update(map(str, rows["key"].to_pylist()))
    return files, keys


COMPACTED = [
    "mdt_compacted",
    "mdt_full_cow",
    "idx_rli_mor",
    "mor_rollback",
    "cow_clean_commits",
    "mor_archived",
]


@pytest.mark.parametrize("name", full_but({"mdt_full_cow", "mor_rollback"}, COMPACTED))
def test_our_compaction_changes_nothing(golden_tables: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", tmp_path / "t")
    table = Table.open(str(tmp_path / "t"))
    before = told(table)
    writer = MetadataWriter.open(table)
    assert writer is not None
    writer.maintain(MaintenancePolicy(compact_after=1, keep_commits=3))
    timeline = Table.open(f"{tmp_path}/t/.hoodie/metadata").timeline
    last = timeline.filter([Action.COMMIT], completed=True)[-1]
    assert timeline.commits()[-1] == last
    assert {stat.path and stat.path.rpartition("_")[2] for stat in timeline.commit(last).write_stats} == {
        f"{last.time}.hfile"
    }
    assert told(table) == before
    assert timeline.pending() == []


def shape(value: Any) -> Any:
    """Names in their order, and types."""
    if isinstance(value, Mapping):
        return [(name, shape(item)) for name, item in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


def test_what_we_write_has_the_form_of_what_hudi_writes(golden_tables: Path, tmp_path: Path) -> None:
    """Properties, commits in flight and completed, the plan of a compaction, log blocks."""
    shutil.copytree(golden_tables / "0.15.0-v6/mdt_files_only/table", tmp_path / "t")
    place = tmp_path / "t/.hoodie/metadata"
    theirs, golden = Table.open(str(place)), dict(Table.open(str(place)).properties)
    theirs_times = [instant.time for instant in theirs.timeline]
    data = Table.open(str(tmp_path / "t"))
    writer = MetadataWriter.open(data)
    assert writer is not None
    last = data.timeline.commits()[-1]
    for half in (last.with_state(State.COMPLETED), last):
        data.storage.delete(data.timeline.path(half))
    write_records(writer, last.time, {Partition.FILES: files({"p": {"a": 1}})})
    ours = Table.open(str(place)).timeline
    assert [instant.time for instant in ours if instant.action is Action.DELTACOMMIT] == theirs_times
    for state in (State.INFLIGHT, State.COMPLETED):
        mine, their = (
            json.loads(data.storage.read(ours.path(Instant(time, Action.DELTACOMMIT, state))))
            for time in (last.time, theirs_times[-2])
        )
        assert shape(mine["partitionToWriteStats"]["files"][-1:]) == shape(
            their["partitionToWriteStats"]["files"][-1:]
        )
        assert list(mine) == list(their)
    assert shape(mine["extraMetadata"]) == shape(their["extraMetadata"])
    logs = sorted(
        place.glob("files/.files*.log.*"), key=lambda path: int(path.name.split(".")[3].split("_")[0])
    )
    blocks = []
    for path in (logs[-1], logs[1]):
        with LogFileReader(data.storage, str(path)) as reader:
            blocks.append([(block.type, set(block.headers)) for block in reader.blocks()])
    assert blocks[0] == blocks[1]
    make_records(data, last.time, {Partition.FILES: (files({"p": {"a": 1}}), 1)})
    made = Table.open(str(place)).properties
    assert {name: made.get(name) for name in golden} == golden


def test_a_table_without_one(golden_tables: Path) -> None:
    assert MetadataTable.open(Table.open(str(golden_tables / "0.15.0-v6/mdt_off/table"))) is None


def test_partitions_have_their_file_groups(golden_tables: Path) -> None:
    metadata = MetadataTable.open(Table.open(str(golden_tables / "0.15.0-v6/mdt_compacted/table")))
    assert metadata is not None
    groups = {name: len(metadata.slices(name)) for name in metadata.partitions}
    assert groups == {"files": 1, "column_stats": 2, "bloom_filters": 4, "record_index": 2}


@pytest.mark.parametrize("name", ["idx_rli_mor", "mdt_full_cow", "mdt_compacted"])
def test_the_record_index_says_where_every_row_is(golden_tables: Path, name: str) -> None:
    """Beside the rows' own meta columns; some keys are of deleted rows, and some of none."""
    place = golden_tables / "0.15.0-v6" / name
    table = Table.open(str(place / "table"))
    metadata = MetadataTable.open(table)
    assert metadata is not None
    rows = pq.read_table(place / "expected/snapshot.parquet", columns=list(META_COLUMNS))
    keys = rows["_hoodie_record_key"].to_pylist()
    gone = ["k0", "k9999", "", "\u00e9"]
    found = locate(metadata, pa.array([*keys, *gone, *keys[:3]]))
    assert found.schema == LOCATIONS
    where = {row["key"]: (row["partition"], row["file_id"]) for row in found.to_pylist()}
    assert len(where) == found.num_rows
    files = [str(file).partition("_")[0] for file in rows["_hoodie_file_name"].to_pylist()]
    partitions = rows["_hoodie_partition_path"].to_pylist()
    assert where == dict(zip(keys, zip(partitions, files, strict=True), strict=True))
    assert locate(metadata, pa.array(gone)).num_rows == 0
    assert locate(metadata, pa.array([], pa.string())) == LOCATIONS.empty_table()


def test_a_table_without_a_record_index_is_refused(golden_tables: Path) -> None:
    metadata = MetadataTable.open(Table.open(str(golden_tables / "0.15.0-v6/mdt_files_only/table")))
    assert metadata is not None
    with pytest.raises(TableError, match="no partition record_index"):
        locate(metadata, pa.array(["a"]))


def test_file_ids_of_any_form() -> None:
    """A UUID with a number or without, and a text of its own."""
    uuid = UUID("9a1d7c5e-0000-4fff-8abc-00000000000f")
    bits = [int.from_bytes(part, "big", signed=True) for part in (uuid.bytes[:8], uuid.bytes[8:])]
    found = [(*bits, 3, "", 0), (*bits, -1, "", 0), (-1, -1, -1, "own", 1), (*bits, 12, None, None)]
    names = ["fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding"]
    record = pa.array([dict(zip(names, item, strict=True)) for item in found])
    assert file_ids(record).to_pylist() == [f"{uuid}-3", str(uuid), "own", f"{uuid}-12"]


def test_file_groups_of_keys_are_java_s() -> None:
    """Of a text whose hash code is the least int, the absolute value is that itself."""
    assert file_groups(pa.array(["", "a", "polygenelubricants", "key"]), 7).tolist() == [0, 6, 2, 106079 % 7]
