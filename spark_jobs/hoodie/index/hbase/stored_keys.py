"""Record keys in the files of a table: those of a file slice, those that a commit put in or deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, array, pc, whole
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import read_data_block
from hoodie.format.log_delete import DeleteRecords, read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import COMMIT_TIME, RECORD_KEY
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.log_scan import contents, scan_slice
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView
from hoodie.timeline.commit import NO_COMMIT, WriteStat

_KEY_SCHEMA = pa.schema([pa.field(RECORD_KEY, pa.string())])
_NONE: Array = array([], pa.string())


@dataclass(frozen=True)
class Logged:
    """What the logs of a slice say of keys: those of the `rows` in them, those that they deleted last, and of
    these the ones whose delete has to be compared with a row, and may have lost.
    """

    rows: Array
    deleted: Array
    unsure: Array

    @classmethod
    def of(cls, storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> Logged:
        rows, deleted, unsure = [_NONE], _NONE, _NONE
        if slice_.logs:
            for (_, block), content in contents(storage, scan_slice(storage, slice_, snapshot)):
                if block.type is BlockType.DELETE:
                    records = read_delete_block(content)
                    always = _always(records)
                    deleted = _joined([deleted, records.keys])
                    unsure = _joined([without(unsure, always), without(records.keys, always)])
                else:
                    rows.append(_rows(block, content))
                    deleted, unsure = without(deleted, rows[-1]), without(unsure, rows[-1])
        return cls(_joined(rows), deleted, unsure)


def slice_keys(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> Iterator[tuple[Array, Array]]:
    """Array of a slice in batches: those that it shows, and those that it may show."""
    logged = Logged.of(storage, slice_, snapshot)
    if len(logged.rows):
        yield without(logged.rows, logged.deleted), logged.unsure
    if slice_.base is not None:
        with open_base(storage, slice_.base, None) as reader:
            for batch in reader.record_keys(READ_BATCH_ROWS):
                keys = whole(batch)
                yield without(keys, logged.deleted), keys.filter(array(_is_in(keys, logged.unsure)))


def shown_in_logs(storage: Storage, slice_: FileSlice, snapshot: TimelineView, keys: Array) -> Bools:
    """Which of the keys, none of which the slice's base file has, its logs show. A delete that has to be
    compared with a row may have lost.
    """
    shown = np.zeros(len(keys), dtype=np.bool_)
    for (_, block), content in contents(storage, scan_slice(storage, slice_, snapshot)):
        if block.type is BlockType.DELETE:
            shown &= ~_is_in(keys, _always(read_delete_block(content)))
        else:
            shown |= _is_in(keys, _rows(block, content))
    return shown


def entered_keys(table: Table, stat: WriteStat, instant: str) -> Iterator[Array]:
    """Array that a file of a commit may have put into its file group."""
    path = stat.path or ""
    name = path.rpartition("/")[2]
    if LogFileName.parse(name) is not None:
        if stat.num_inserts:
            for block, content in _own_blocks(table.storage, join(table.base_path, path), instant):
                if block.type is not BlockType.DELETE:
                    yield _rows(block, content)
    elif BaseFileName.parse(name) is not None and (stat.num_inserts or stat.is_new_file_group):
        every = stat.is_new_file_group
        with BaseFileReader(table.storage, join(table.base_path, path)) as reader:
            for batch in reader.batches([RECORD_KEY] if every else [RECORD_KEY, COMMIT_TIME]):
                keys: Any = batch.column(RECORD_KEY)
                yield keys if every else keys.filter(pc.equal(batch.column(COMMIT_TIME), instant))


def deleted_keys(table: Table, partition: str, stat: WriteStat, instant: str) -> Iterator[Array]:
    """Array that a commit took out of a file group. Not those of logged deletes that may have lost against a
    row, nor those of files that are cleaned.
    """
    path = stat.path or ""
    name = path.rpartition("/")[2]
    if not stat.num_deletes or not table.storage.exists(join(table.base_path, path)):
        return
    if LogFileName.parse(name) is not None:
        for block, content in _own_blocks(table.storage, join(table.base_path, path), instant):
            if block.type is BlockType.DELETE:
                yield _always(read_delete_block(content))
        return
    earlier = _earlier(table, partition, stat)
    if earlier is None:
        return
    with BaseFileReader(table.storage, earlier) as reader:
        gone = _joined([whole(keys) for keys in reader.record_keys(READ_BATCH_ROWS)])
    with BaseFileReader(table.storage, join(table.base_path, path)) as reader:
        for keys in reader.record_keys(READ_BATCH_ROWS):
            gone = without(gone, whole(keys))
    yield gone


def without(keys: Array, others: Array) -> Array:
    kept: Array = keys.filter(array(~_is_in(keys, others)))
    return kept


def as_bytes(keys: Array) -> list[bytes]:
    found: Any = keys.cast(pa.binary()).to_pylist()
    return cast("list[bytes]", found)


def _earlier(table: Table, partition: str, stat: WriteStat) -> str | None:
    """The path of the base file that a write replaced; None where there was none, or it is cleaned."""
    if stat.prev_commit in (None, NO_COMMIT):
        return None
    for item in table.listing().files(partition):
        name = BaseFileName.parse(item.name)
        if name is not None and (name.file_id, name.instant) == (stat.file_id, stat.prev_commit):
            return item.path
    return None


def _own_blocks(storage: Storage, path: str, instant: str) -> Iterator[tuple[Any, bytes]]:
    with LogFileReader(storage, path) as reader:
        for block in reader.blocks():
            if block.instant == instant and block.type not in (BlockType.CORRUPT, BlockType.COMMAND):
                yield block, reader.content(block)


def _rows(block: Any, content: bytes) -> Array:
    return whole(read_data_block(block, content, _KEY_SCHEMA, [RECORD_KEY]).column(RECORD_KEY))


def _always(records: DeleteRecords) -> Array:
    """Array of deletes that win always."""
    if records.ordering is None:
        return records.keys
    keys: Array = records.keys.filter(records.ordering.is_null())
    return keys


def _is_in(keys: Array, others: Array) -> Bools:
    found: Bools = np.asarray(pc.is_in(keys, value_set=others), dtype=np.bool_)
    return found


def _joined(pieces: list[Array]) -> Array:
    return whole(pa.chunked_array([piece.cast(pa.string()) for piece in pieces], pa.string()))
