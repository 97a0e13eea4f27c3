"""Where records are, by the record index of the metadata table (format.md 10.3, RECORD_INDEX)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.codec.avro_cursor import arrow_buffer
from hoodie.errors import TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.names import file_id, relative_path
from hoodie.metadata.records.record_index import PLAIN_ID, RECORD, UUID_ID, last_places
from hoodie.metadata.table import MetadataTable, Partition

LOCATIONS = pa.schema([pa.field(name, pa.string(), False) for name in ("key", "partition", "file_id")])
_ENCODINGS: Any = pa.array([UUID_ID, PLAIN_ID, None], pa.int32())
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_UUID = 36
#: where a UUID's text has its digits
_DIGITS = [place for place in range(_UUID) if place not in (8, 13, 18, 23)]


def locate(metadata: MetadataTable, keys: Array) -> pa.Table:
    """LOCATIONS of those of the record keys that are stored, each once, without order.

    Of each file group the blocks that can hold its keys are read. Raises TableError for a damaged index, and
    where the table has none for readers.
    """
    found = metadata.look_up(Partition.RECORD_INDEX, keys, [RECORD])
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
    texts = np.full((len(high), _UUID), ord("-"), np.uint8)
    texts[:, _DIGITS] = _HEX[data].reshape(len(high), -1)
    bounds = np.arange(len(high) + 1, dtype=np.int32) * np.int32(_UUID)
    buffers = [None, arrow_buffer(bounds), arrow_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(high), buffers)
