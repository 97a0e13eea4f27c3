"""What the record index of a metadata table says of every key, beside where the records are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.codec.arrays import whole
from hoodie.metadata.index_definitions import index_definitions, is_of_each_partition
from hoodie.metadata.partitions.record_index import RECORD, file_ids
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.table.handle import Table

INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
#: few, so that tests are fast, and every key's file group is not the same
FEW_GROUPS = {
    **INDEXED,
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
}
#: one of each partition, of a table of version 9
OF_EACH = {
    "hoodie.write.table.version": "9",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.metadata.record.level.index.min.filegroup.count": "2",
}
#: by record key, of an index of each partition behind the partition path: partition path, and file id
Places = dict[str, tuple[str, str]]


def has_record_index(path: str | Path) -> bool:
    return Partition.RECORD_INDEX.value in Table.open(str(path)).properties.metadata_partitions


def indexed(path: str | Path) -> Places:
    """What readers find in the index."""
    metadata = MetadataTable.open(Table.open(str(path), rounds=1))
    assert metadata is not None
    assert metadata.lacks == ""
    found: Places = {}
    if is_of_each(path) and not stored(path):  # it may have no file groups
        return found
    for partition, slices in metadata.record_index_slices().items():
        for item in slices:
            rows = metadata.records(item, lambda reader: reader.scan(), [RECORD])
            there = places_of(rows) if rows.num_rows else {}
            assert partition is None or {place for place, _ in there.values()} <= {partition}
            found |= there if partition is None else _of_each(there)
    return found


def _of_each(places: Places) -> Places:
    return {f"{place[0]}/{key}": place for key, place in places.items()}


def is_of_each(path: str | Path) -> bool:
    return is_of_each_partition(index_definitions(Table.open(str(path))))


def places_of(rows: pa.Table) -> Places:
    """What records of the index say."""
    record: Any = whole(rows.column(RECORD))
    keys: Any = rows.column("key").to_pylist()
    places = zip(record.field("partitionName").to_pylist(), file_ids(record).to_pylist(), strict=True)
    return dict(zip(keys, places, strict=True))


def stored(path: str | Path) -> Places:
    """Where the records are that a query shows."""
    rows = hoodie.read_table(str(path), meta=True, options={"hoodie.metadata.enable": "false"}).to_pylist()
    each = is_of_each(path)
    return {
        f"{row['_hoodie_partition_path']}/{row['_hoodie_record_key']}"
        if each
        else row["_hoodie_record_key"]: (
            row["_hoodie_partition_path"],
            row["_hoodie_file_name"].partition("_")[0],
        )
        for row in rows
    }


def misplaced(path: str | Path) -> list[str]:
    """How the index, where the table has one, differs from the table: never."""
    if not has_record_index(path):
        return []
    ours, true = indexed(path), stored(path)
    return [
        f"{key!r} is in {true.get(key)}, and in {ours.get(key)} by the index"
        for key in sorted({*ours, *true})
        if ours.get(key) != true.get(key)
    ]
