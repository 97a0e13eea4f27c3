"""The partition `record_index` of the metadata table (format.md 10.3; Apache Hudi 0.15.0
HoodieMetadataPayload): its records and its look-up. A record has the file group of one record of the table,
by its key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.codec.avro_cursor import arrow_buffer
from hoodie.errors import TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.names import file_id, relative_path
from hoodie.metadata.partitions import Records
from hoodie.metadata.table import MetadataTable, Partition

#: the column of the records
RECORD = "recordIndexMetadata"
TYPE_OF_LOCATION = 5
#: a file id is two halves of a UUID and a number, or a text
UUID_ID, PLAIN_ID = 0, 1
#: bytes of a record, as Apache Hudi estimates them
RECORD_BYTES = 48
_UUID = re.compile(
    r"([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?"
)
_LOCATION_FIELDS: Any = [
    pa.field("partitionName", pa.string()),
    pa.field("fileIdHighBits", pa.int64()),
    pa.field("fileIdLowBits", pa.int64()),
    pa.field("fileIndex", pa.int32()),
    pa.field("fileId", pa.string()),
    pa.field("instantTime", pa.int64()),
    pa.field("fileIdEncoding", pa.int32(), False),
]
_FIELDS: Any = [
    pa.field(KEY_FIELD, pa.string(), False),
    pa.field("type", pa.int32(), False),
    pa.field(RECORD, pa.struct(_LOCATION_FIELDS)),
]
SCHEMA = pa.schema(_FIELDS)


@dataclass(frozen=True)
class Place:
    """Where records are: a file group, and the instant that put them there, as epoch milliseconds."""

    partition: str
    file_id: str
    millis: int


def of_places(found: Sequence[tuple[Array, Place]], each: bool = False) -> Records:
    """Keys with their places; of a key that is there several times the last one counts. `each`: of an index
    of each partition, which may have a key in several.
    """
    keys: Any = whole(pa.chunked_array([keys.cast(pa.string()) for keys, _ in found], pa.string()))
    numbers = np.repeat(np.arange(len(found)), [len(keys) for keys, _ in found])
    kept = np.arange(len(keys)) if each else last_places(keys)
    if len(kept) < len(keys):
        keys, numbers = keys.take(pa.array(kept)), numbers[kept]
    owners: Any = pa.array(numbers)
    values = zip(*(_values(place) for _, place in found), strict=True) if found else [()] * 7
    columns: list[Any] = [
        pa.array(list(column), field.type).take(owners)
        for column, field in zip(values, _LOCATION_FIELDS, strict=True)
    ]
    types: Any = pa.array(np.full(len(keys), TYPE_OF_LOCATION, np.int32))
    location = pa.StructArray.from_arrays(columns, fields=_LOCATION_FIELDS)
    rows = pa.table([keys, types, location], schema=SCHEMA)
    return Records(rows, rows_in=columns[0] if each else None)


def of_deleted(keys: Array, partitions: Array | None = None) -> Records:
    """Records that are no longer there; `partitions`: of each key, in an index of each partition."""
    texts = keys.cast(pa.string())
    if partitions is None:
        return Records(SCHEMA.empty_table(), pc.unique(texts))
    return Records(SCHEMA.empty_table(), texts, deletes_in=partitions)


def file_group_count(records: int, least: int, most: int, growth: float, group_bytes: int) -> int:
    """File groups for a table with so many records, which may become `growth` times as many."""
    if least == most and least:
        return least
    expected = int(np.ceil(np.float32(records) * np.float32(growth)))
    wanted = expected // max(1, group_bytes // RECORD_BYTES)
    return max(1, min(max(wanted, least), most))


def _values(place: Place) -> tuple[Any, ...]:
    parsed = _UUID.fullmatch(place.file_id)
    if parsed is None:
        return place.partition, -1, -1, -1, place.file_id, place.millis, PLAIN_ID
    *groups, number = parsed.groups()
    data = bytes.fromhex("".join(groups))
    high, low = (int.from_bytes(half, "big", signed=True) for half in (data[:8], data[8:]))
    return place.partition, high, low, -1 if number is None else int(number), "", place.millis, UUID_ID


def last_places(keys: Any) -> Any:
    """The places of the last of equal keys, in their order."""
    coded = keys.dictionary_encode()
    if len(coded.dictionary) == len(keys):
        return np.arange(len(keys))
    last = np.zeros(len(coded.dictionary), np.int64)
    np.maximum.at(last, np.asarray(coded.indices), np.arange(len(keys)))
    return np.sort(last)


LOCATIONS = pa.schema([pa.field(name, pa.string(), False) for name in ("key", "partition", "file_id")])
_ENCODINGS: Any = pa.array([UUID_ID, PLAIN_ID, None], pa.int32())
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_UUID_LENGTH = 36
#: where a UUID's text has its digits
_DIGITS = [place for place in range(_UUID_LENGTH) if place not in (8, 13, 18, 23)]


def locate(metadata: MetadataTable, keys: Array) -> pa.Table:
    """LOCATIONS of those of the record keys that are stored, each once, without order.

    Of each file group the blocks that can hold its keys are read. Raises TableError for a damaged index, one
    of each partition, and where the table has none for readers.
    """
    return _locations(metadata.look_up(Partition.RECORD_INDEX, keys, [RECORD]))


def locate_in(metadata: MetadataTable, keys: Array, partitions: Collection[str] | None) -> pa.Table:
    """As `locate`. Of an index of each partition the file groups of these partitions are read, None: of all,
    and a key may be in several of them.
    """
    slices = metadata.record_index_slices()
    groups = [
        group for name, group in slices.items() if name is None or partitions is None or name in partitions
    ]
    return _locations(metadata.look_up_in(groups, keys, [RECORD]))


def _locations(found: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([LOCATIONS.empty_table(), *map(_located, found)])


def _located(rows: pa.Table) -> pa.Table:
    found = whole(rows.column(KEY_FIELD))
    newest: Any = pa.array(last_places(found))  # the last record of a key counts
    record: Any = whole(rows.column(RECORD)).take(newest)
    partitions, ids = record.field("partitionName"), file_ids(record)
    unknown = pc.invert(pc.is_in(record.field("fileIdEncoding"), value_set=_ENCODINGS))
    if record.null_count or partitions.null_count or ids.null_count or pc.any(unknown).as_py():
        raise TableError(
            "the record index has a key without a location; delete the index with Apache Hudi, or write to "
            "the table from here"
        )
    for partition in pc.unique(partitions).to_pylist():
        relative_path(partition, "a partition of the record index")
    for id_ in pc.unique(ids.filter(pc.match_substring_regex(ids, r"[/\x00]"))).to_pylist():
        file_id(id_, "a file id of the record index")
    return pa.table([found.take(newest), partitions, ids], schema=LOCATIONS)


def file_ids(record: Any) -> Any:
    """The file ids of an array of HoodieRecordIndexInfo."""
    plain = pc.fill_null(pc.equal(record.field("fileIdEncoding"), PLAIN_ID), False)
    bits = [pc.fill_null(record.field(name), 0) for name in ("fileIdHighBits", "fileIdLowBits")]
    uuids = _uuids(*(np.asarray(part) for part in bits))
    numbers = pc.fill_null(record.field("fileIndex"), -1)
    numbered = pc.binary_join_element_wise(uuids, pc.cast(numbers, pa.string()), "-")
    made = pc.if_else(pc.equal(numbers, -1), uuids, numbered)
    return pc.if_else(plain, record.field("fileId"), made)


def _uuids(high: npt.NDArray[Any], low: npt.NDArray[Any]) -> Any:
    data = np.stack([high, low], axis=1).astype(">i8").view(np.uint8)
    texts = np.full((len(high), _UUID_LENGTH), ord("-"), np.uint8)
    texts[:, _DIGITS] = _HEX[data].reshape(len(high), -1)
    bounds = np.arange(len(high) + 1, dtype=np.int32) * np.int32(_UUID_LENGTH)
    buffers = [None, arrow_buffer(bounds), arrow_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(high), buffers)
