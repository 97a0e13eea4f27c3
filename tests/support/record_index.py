"""What the record index of a metadata table says of every key, beside where the records are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.codec.arrays import whole
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
#: by record key: partition path, and file id
Places = dict[str, tuple[str, str]]


def has_record_index(path: str | Path) -> bool:
    return Partition.RECORD_INDEX.value in Table.open(str(path)).properties.metadata_partitions


def indexed(path: str | Path) -> Places:
    """What readers find in the index."""
    metadata = MetadataTable.open(Table.open(str(path), rounds=1))
    assert metadata is not None
    assert metadata.lacks == ""
    found: Places = {}
    for item in metadata.slices(Partition.RECORD_INDEX):
        rows = metadata.records(item, lambda reader: reader.scan(), [RECORD])
        if rows.num_rows:
            found |= places_of(rows)
    return found


def places_of(rows: pa.Table) -> Places:
    """What records of the index say."""
    record: Any = whole(rows.column(RECORD))
    keys: Any = rows.column("key").to_pylist()
    places = zip(record.field("partitionName").to_pylist(), file_ids(record).to_pylist(), strict=True)
    return dict(zip(keys, places, strict=True))


def stored(path: str | Path) -> Places:
    """Where the records are that a query shows."""
    rows = hoodie.read_table(str(path), meta=True, options={"hoodie.metadata.enable": "false"}).to_pylist()
    return {
        row["_hoodie_record_key"]: (
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
