"""Records of metadata tables, made by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hoodie.codec.arrow_avro import decode_values
from hoodie.metadata.partitions import Records
from hoodie.metadata.record_schema import record_schema
from hoodie.metadata.record_spool import RecordSpool
from hoodie.metadata.table import Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.table.handle import Table
from hoodie.timeline.time import InstantTime
from tests.support.arrow import arrow_schema

INFO = pa.struct([pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)])
ROWS = arrow_schema(
    [("key", pa.string()), ("type", pa.int32()), ("filesystemMetadata", pa.map_(pa.string(), INFO))]
)
LOCATION = pa.struct(
    [
        pa.field("partitionName", pa.string()),
        pa.field("fileIdHighBits", pa.int64()),
        pa.field("fileIdLowBits", pa.int64()),
        pa.field("fileIndex", pa.int32()),
        pa.field("fileId", pa.string()),
        pa.field("instantTime", pa.int64()),
        pa.field("fileIdEncoding", pa.int32(), False),
    ]
)
#: by partition: the size of a file, None where it is deleted
Files = Mapping[str, Mapping[str, int | None]]


def files(found: Files, partitions: Mapping[str, int | None] | None = None) -> Records:
    """Records of files, and of partitions: those with files, unless given."""

    def infos(of: Mapping[str, int | None]) -> list[tuple[str, dict[str, object]]]:
        return [(name, {"size": size or 0, "isDeleted": size is None}) for name, size in of.items()]

    listed = dict.fromkeys(found, 0) if partitions is None else partitions
    rows = [{"key": "__all_partitions__", "type": 1, "filesystemMetadata": infos(listed)}]
    rows += [{"key": key, "type": 2, "filesystemMetadata": infos(of)} for key, of in found.items()]
    return Records(pa.Table.from_pylist(rows, ROWS))


def locations(found: Mapping[str, str], deletes: list[str] | None = None) -> Records:
    """Records of the record index: the file id of each key."""
    nothing = dict.fromkeys(["fileIdHighBits", "fileIdLowBits", "fileIndex"], -1)
    rows = [
        {
            "key": key,
            "type": 5,
            "recordIndexMetadata": {
                "partitionName": "p",
                "fileId": file,
                "instantTime": 1,
                "fileIdEncoding": 1,
                **nothing,
            },
        }
        for key, file in found.items()
    ]
    schema = pa.schema([*list(ROWS)[:2], pa.field("recordIndexMetadata", LOCATION)])
    return Records(pa.Table.from_pylist(rows, schema), None if deletes is None else pa.array(deletes))


def statistics(found: Mapping[str, bool]) -> Records:
    """Records of statistics of columns, by key; True: they are deleted."""
    name = "ColumnStatsMetadata"
    schema = decode_values(pa.array([], pa.binary()), record_schema(), ["key", "type", name]).schema
    rows = [
        {
            "key": key,
            "type": 3,
            name: {"fileName": "f", "columnName": "c", "valueCount": 1, "isDeleted": gone},
        }
        for key, gone in found.items()
    ]
    return Records(pa.Table.from_pylist(rows, schema))


def write_records(writer: MetadataWriter, instant: str, found: Mapping[Partition, Records]) -> None:
    writer.write(InstantTime(instant), found, lambda spools: _fill(spools, found))


def make_records(table: Table, upto: str, found: Mapping[Partition, tuple[Records, int]]) -> None:
    """Of each partition its records and its number of file groups."""
    groups = {name: count for name, (_, count) in found.items()}
    records = {name: given for name, (given, _) in found.items()}
    MetadataWriter.make(table, InstantTime(upto), groups, lambda spools: _fill(spools, records))


def _fill(spools: Mapping[Partition, RecordSpool], found: Mapping[Partition, Records]) -> None:
    for name, records in found.items():
        spools[name].add(records)
