"""The records of indexes in a metadata table of Apache Hudi, instant by instant, beside ours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_records import decode_rows, schema_of
from hoodie.format.log_block import BlockType
from hoodie.format.log_file import LogFileReader
from hoodie.format.names import LogFileName
from hoodie.metadata.partitions import Records
from hoodie.metadata.table import Partition
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.participant import Commit
from hoodie.table.table_schema import TableSchema
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.write.participants.metadata import Changed, MetadataPartition
from hoodie.write.participants.metadata.footers import footers, written
from tests.support.metadata import COLUMNS, log_records

STORAGE = LocalStorage()
Values = dict[str, Any]


def compared_by_instant(path: Path, kept: MetadataPartition) -> tuple[int, list[str]]:
    """(records that were compared, differences), of files that are there yet."""
    table = Table.open(str(path))
    theirs = _theirs(path / ".hoodie/metadata", kept.partition)
    compared, wrong = 0, list[str]()
    for instant in table.timeline:
        if not instant.completed or instant.time not in theirs:
            continue
        found, ours = theirs[instant.time], _ours(table, instant, kept)
        wrong += [
            f"{instant}: {value}, and not {found.get(key)}"
            for key, value in ours.items()
            if _plain(found.get(key)) != _plain(value) and not _of_nan(value)
        ]
        compared += len(ours)
        left = (value for key, value in found.items() if key not in ours)
        wrong += [
            f"{instant}: not {value}" for value in left if not (_gone(path, value) or _nested(table, value))
        ]
    return compared, wrong


def _theirs(metadata: Path, partition: Partition) -> dict[str, Values]:
    """The records in log blocks, by instant and key."""
    column, found = COLUMNS[partition], dict[str, Values]()
    for path in sorted(metadata.glob(f"{partition.value}/.[!.]*.log.*")):
        with LogFileReader(STORAGE, str(path)) as log:
            for block in log.blocks():
                if block.type is BlockType.HFILE_DATA:
                    with HFileReader.of_bytes(log.content(block), path.name) as file:
                        rows = decode_rows(file.scan(), schema_of(file), ["key", column])
                    found.setdefault(str(block.instant), {}).update(_by_key(rows, column))
    return found


def _ours(table: Table, instant: Instant, kept: MetadataPartition) -> Values:
    found: Values = {}
    for records in _records(table, instant, kept):
        found |= _by_key(records.rows, COLUMNS[kept.partition])
    return found


def _records(table: Table, instant: Instant, kept: MetadataPartition) -> Iterator[Records]:
    """A log's are of its rows: its commit does not say them."""
    metadata: Any = None
    deleted: dict[str, set[str]] = {}
    if instant.action is Action.CLEAN:
        metadata = CleanMetadata.from_bytes(table.timeline.read(instant, STORAGE))
        for partition, item in metadata.partitions.items():
            deleted[partition] = set(map(_name, item.patterns))
    else:
        metadata = table.timeline.commit(instant, STORAGE)
    changed = Changed(
        data=table,
        config=Config.of({}),
        instant=instant.time,
        commit=Commit(table=table, instant=instant, metadata=metadata),
        deleted=deleted,
    )
    yield from kept.changes(changed) or ()
    if not isinstance(metadata, CommitMetadata):
        return
    bases = (file for file in written(metadata) if _there(table, file.partition, file.name))
    for some in footers(STORAGE, table.base_path, bases):
        yield kept.of_base_files(changed, some)
    if kept.partition == Partition.COLUMN_STATS:
        for stat in metadata.write_stats:
            partition, name = stat.partition_path or "", _name(stat.path or "")
            if LogFileName.parse(name) and _there(table, partition, name):
                yield log_records(partition, name, table.base_path)


def _by_key(rows: pa.Table, column: str) -> Values:
    return {row["key"]: row[column] for row in rows.select(["key", column]).to_pylist()}


def _plain(value: Any) -> str:
    """Of several zeros one, and of each NaN the same."""
    return str(value).replace("-0.0}", "0.0}")


def _of_nan(value: Values) -> bool:
    """Of a row group with NaN Apache Hudi has the bounds 0.0 and 0.0, which are none."""
    low = value.get("minValue") or {}
    return any(one["value"] == -math.inf for one in low.values() if one)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _there(table: Table, partition: str, name: str) -> bool:
    return Path(table.base_path, partition, name).exists()


def _gone(path: Path, value: Values) -> bool:
    """Is it of a file that was cleaned. Bloom filters do not name their files."""
    name = value.get("fileName")
    return name is None or not list(path.rglob(str(name)))


def _nested(table: Table, value: Values) -> bool:
    """Apache Hudi has statistics without bounds of nested columns in log files."""
    schema = TableSchema.load(table.timeline, STORAGE, table.properties).columns
    return schema is not None and pa.types.is_nested(schema.field(value["columnName"]).type)
