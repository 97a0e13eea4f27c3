"""What the secondary indexes of a metadata table say, beside the rows of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.codec.arrays import pc
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.index_definitions import index_definitions
from hoodie.metadata.partitions.secondary_index import index_keys
from hoodie.metadata.table import SECONDARY_INDEX, MetadataTable
from hoodie.table.handle import Table


def mistaken(path: str | Path) -> list[str]:
    """How the secondary indexes differ from the rows: never."""
    table = Table.open(str(path), rounds=1)
    metadata = MetadataTable.open(table)
    names = (
        [] if metadata is None else [name for name in metadata.partitions if name.startswith(SECONDARY_INDEX)]
    )
    if metadata is None or not names:
        return []
    rows = hoodie.read_table(str(path), meta=True, options={"hoodie.metadata.enable": "false"})
    wrong = []
    for name in sorted(names):
        (column,) = index_definitions(table)[name].source_fields
        nothing: Any = pa.nulls(rows.num_rows, pa.string())
        values = pc.cast(rows[column], pa.string()) if column in rows.schema.names else nothing
        true = set(index_keys(values, rows["_hoodie_record_key"]).to_pylist())
        parts = [metadata.records(item, lambda reader: reader.scan(), []) for item in metadata.slices(name)]
        ours = {str(key) for part in parts for key in part[KEY_FIELD].cast(pa.string()).to_pylist()}
        wrong += [f"{name} lacks {key!r}" for key in sorted(true - ours)]
        wrong += [f"{name} has {key!r}" for key in sorted(ours - true)]
    return wrong
