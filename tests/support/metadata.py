"""What metadata tables say, beside the folders themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.log_block import DATA_TYPES, BlockType
from hoodie.format.log_data import read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.format.schema import from_avro
from hoodie.metadata.keys import file_key
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange, LogRanges
from hoodie.metadata.partitions.column_stats import FileRanges, stats_records
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.storage import storage_for
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.view import FileSlice, TimelineView, file_slices, merged_slices
from hoodie.timeline.layouts.one import ONE
from hoodie.write.participants.metadata.initialization import initial_records
from hoodie.write.participants.metadata.registry import ALL_PARTITIONS
from tests.support.record_index import misplaced
from tests.support.secondary_index import mistaken

#: of the records of a partition
COLUMNS = {Partition.COLUMN_STATS: "ColumnStatsMetadata", Partition.BLOOM_FILTERS: "BloomFilterMetadata"}
KEPT = {"hoodie.metadata.enable": "true"}
INDEXED = {
    **KEPT,
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


def has_metadata_table(path: str | Path) -> bool:
    return MetadataTable.open(Table.open(str(path))) is not None


def files_of(snapshot: TimelineView, listing: FileListing, partition: str) -> dict[str, int]:
    """The sizes of the files of all committed slices, by path."""
    groups = file_slices(snapshot, listing.files, partition).values()
    return _sizes([item for group in groups for item in group])


def misled(path: str | Path) -> list[str]:
    """How readers of the newest rows see other files by the metadata table than by the folders: never."""
    return _differences(path, settled=False)


def disagreements(path: str | Path) -> list[str]:
    """Also what readers of older commits see, and files that are listed and not there: nothing of it once no
    writer or service is at work.
    """
    return _differences(path, settled=True)


def _differences(path: str | Path, *, settled: bool) -> list[str]:
    table = Table.open(str(path), rounds=1)
    metadata = MetadataTable.open(table)
    if metadata is None:
        return []
    listing, walked = MetadataListing(metadata, table.base_path), table.listing()
    view = table.view
    wrong = misplaced(path) + mistaken(path)
    for partition in {*walked.partitions(), *listing.partitions()}:
        there = {item.path: item.size for item in walked.files(partition)}
        listed = {item.path: item.size for item in listing.files(partition)}
        needed = _sizes(merged_slices(view, walked.files, partition))
        needed = {file: size for file, size in needed.items() if _has_rows(view, file)}
        offered = _sizes(merged_slices(view, listing.files, partition))
        if settled:
            needed, offered = files_of(view, walked, partition), listed
        wrong += [f"{file} is not listed" for file, size in needed.items() if listed.get(file) != size]
        wrong += [f"{file} is listed" for file, size in offered.items() if there.get(file) != size]
    return wrong + (_index_differences(table, metadata) if settled else [])


def _index_differences(table: Table, metadata: MetadataTable) -> list[str]:
    """How the statistics and bloom filters of files differ from what the files have. Log files may have no
    statistics.
    """
    view, walked = table.view, table.listing()
    files = {
        partition: {path.rpartition("/")[2]: size for path, size in files_of(view, walked, partition).items()}
        for partition in walked.partitions()
    }
    every = {(partition, item.name) for partition in files for item in walked.files(partition)}
    there = {name for _, name in every}
    wrong: list[str] = []
    for kept in ALL_PARTITIONS:
        if kept.partition not in COLUMNS or kept.partition.value not in metadata.partitions:
            continue
        stored = stored_values(metadata, kept.partition)
        expected: dict[str, Any] = {}
        for records in initial_records(table, Config.of({}), kept, files):
            expected |= _values(records.rows, kept.partition)
        for key, value in expected.items():
            # an index that is made has all rows of a slice by its log file; `_log_differences` has the others
            if stored.get(key) != value and not str(value.get("fileName", "")).startswith("."):
                wrong.append(f"{kept.partition.value}: {stored.get(key)} and not {value}")
        if kept.partition == Partition.COLUMN_STATS:
            wrong += [
                f"column_stats: {value} of a file that is not there"
                for value in stored.values()
                if value["fileName"].endswith(".parquet") and value["fileName"] not in there
            ]
            wrong += _log_differences(table, stored, files)
        else:
            known = {file_key(*file) for file in every}
            wrong += [f"bloom_filters: {key} of a file that is not there" for key in stored.keys() - known]
    return wrong


def stored_values(metadata: MetadataTable, partition: Partition) -> dict[str, Any]:
    """The records that are not deleted."""
    column = COLUMNS[partition]
    found: dict[str, Any] = {}
    for item in metadata.slices(partition):
        found |= _values(metadata.records(item, lambda reader: reader.scan(), ["type", column]), partition)
    return {key: value for key, value in found.items() if not value["isDeleted"]}


def _values(rows: pa.Table, partition: Partition) -> dict[str, Any]:
    """The last record of each key, without the time of a bloom filter."""
    column = COLUMNS[partition]
    found = {row["key"]: row[column] for row in rows.select(["key", column]).to_pylist()}
    for value in found.values():
        value.pop("timestamp", None)
        for side in ("minValue", "maxValue"):
            if value.get(side):
                value[side] = {kind: str(one["value"]) for kind, one in value[side].items() if one}
    return found


def _log_differences(table: Table, stored: Mapping[str, Any], files: Mapping[str, Any]) -> list[str]:
    by_name: dict[str, dict[str, Any]] = {}
    for value in stored.values():
        if not value["fileName"].endswith(".parquet"):
            by_name.setdefault(value["fileName"], {})[value["columnName"]] = value
    wrong = []
    for partition, names in files.items():
        for name in names:
            if name in by_name:
                expected = _values(log_records(partition, name, table.base_path).rows, Partition.COLUMN_STATS)
                mine = {value["columnName"]: value for value in expected.values()}
                said = {column: _of_all_versions(value) for column, value in by_name[name].items()}
                if table.layout is not ONE:  # the index is of some columns, and of some in another form
                    mine = {name: one for name, one in mine.items() if _kind(one) == _kind(said.get(name))}
                    said = {name: one for name, one in said.items() if name in mine}
                if mine != said:
                    wrong.append(f"column_stats of {name}: {said} and not {mine}")
    return wrong


def _kind(value: Mapping[str, Any] | None) -> Collection[str] | None:
    """Of the lower bound of a record of statistics."""
    return None if value is None else list(value["minValue"] or ())


def _of_all_versions(value: Mapping[str, Any]) -> dict[str, Any]:
    """A record of statistics without what versions 8 and 9 add."""
    return {name: one for name, one in value.items() if name not in ("isTightBound", "valueType")}


def log_records(partition: str, name: str, base_path: str, columns: Collection[str] | None = None) -> Records:
    """Those of the statistics of a log file, by its rows."""
    ranges = LogRanges(columns)
    path = "/".join(filter(None, (base_path, partition, name)))
    with LogFileReader(storage_for(path), path) as log:
        for block in log.blocks():
            if block.type in DATA_TYPES:
                ranges.add(read_data_block(block, log.content(block)))
            elif block.type is BlockType.DELETE and block.schema_text:
                ranges.add(from_avro(block.schema_text).empty_table())
    found = [ColumnRange.from_json(item) for item in ranges.take()]
    return stats_records([FileRanges(partition, name, found)])


def _has_rows(view: TimelineView, path: str) -> bool:
    """Not of a log that only a write has written which was not completed."""
    if LogFileName.parse(path.rpartition("/")[2]) is None:
        return True
    with LogFileReader(storage_for(path), path) as log:
        return any(block.instant is not None and view.shows(block.instant) for block in log.blocks())


def _sizes(slices: list[FileSlice]) -> dict[str, int]:
    bases = {item.base.path: item.base.size for item in slices if item.base}
    return bases | {log.path: log.size for item in slices for log in item.logs}
