"""Records of the partition `record_index`: the file group that each record of the table is in, by its key
(format.md 10.3; Apache Hudi 0.15.0 HoodieMetadataPayload).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.records import Records

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


def of_places(found: Sequence[tuple[Array, Place]]) -> Records:
    """Keys with their places; of a key that is there several times the last one counts."""
    keys: Any = whole(pa.chunked_array([keys.cast(pa.string()) for keys, _ in found], pa.string()))
    numbers = np.repeat(np.arange(len(found)), [len(keys) for keys, _ in found])
    kept = last_places(keys)
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
    return Records(pa.table([keys, types, location], schema=SCHEMA))


def of_deleted(keys: Array) -> Records:
    """Records that are no longer there."""
    return Records(SCHEMA.empty_table(), pc.unique(keys.cast(pa.string())))


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
