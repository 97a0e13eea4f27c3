"""Record keys that a commit put into the files of a table, and those that it took out of them; those of a
slice's logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, array, pc, whole
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.log_block import BlockType, LogBlock
from hoodie.format.log_data import read_data_block
from hoodie.format.log_delete import DeleteRecords, read_delete_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.log_scan import SMALL, LogScan, contents, scan_slice
from hoodie.table.view import FileSlice, TimelineView
from hoodie.timeline.commit import WriteStat
from hoodie.timeline.time import InstantTime

NO_KEYS: Array = array([], pa.string())
_KEY_SCHEMA = pa.schema([pa.field(RECORD_KEY, pa.string())])


def inserted_keys(table: Table, stat: WriteStat, instant: InstantTime) -> Iterator[Array]:
    """Keys that a file of a commit put into its file group: all of a new one, else those of its new rows,
    which writers append to the stored ones. A log that may have new keys gives those of all its rows.
    """
    path = join(table.base_path, stat.path or "")
    if _is_log(stat):
        if stat.num_inserts or stat.may_insert:
            for block, content in own_blocks(table.storage, path, instant):
                if block.type is not BlockType.DELETE:
                    yield block_keys(block, content)
    elif _is_base(stat) and (stat.num_inserts or stat.is_new_file_group):
        with BaseFileReader(table.storage, path) as reader:
            count = reader.rows if stat.is_new_file_group else min(reader.rows, stat.num_inserts)
            yield from _last_keys(reader, count)


def deleted_keys(
    table: Table,
    partition: str,
    stat: WriteStat,
    instant: InstantTime,
    listing: FileListing,
    *,
    logged: bool = True,
) -> Iterator[Array]:
    """Keys that a commit took out of a file group. Without `logged` those of logged deletes that win always,
    and not those that are compared with rows, and may have lost. None of files that are cleaned. `listing`
    serves all files of the commit.
    """
    path = join(table.base_path, stat.path or "")
    if not stat.num_deletes or not table.storage.exists(path):
        return
    if _is_log(stat):
        for block, content in own_blocks(table.storage, path, instant):
            if block.type is BlockType.DELETE:
                records = read_delete_block(content)
                yield records.keys if logged else always(records)
        return
    earlier = _earlier(listing, partition, stat)
    if earlier is None:
        return
    with BaseFileReader(table.storage, earlier) as reader:
        gone = joined([whole(keys) for keys in reader.record_keys(READ_BATCH_ROWS)])
    with BaseFileReader(table.storage, path) as reader:
        for keys in reader.record_keys(READ_BATCH_ROWS):
            gone = without(gone, whole(keys))
    yield gone


def logged_keys(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> Iterator[Array]:
    """The record keys of the rows in a slice's logs, block by block."""
    for (_, block), content in contents(storage, scan_slice(storage, slice_, snapshot, keep=SMALL)):
        if block.type is not BlockType.DELETE:
            yield block_keys(block, content)


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
        return cls.of_scan(storage, scan_slice(storage, slice_, snapshot, keep=SMALL))

    @classmethod
    def of_scan(cls, storage: Storage, scan: LogScan) -> Logged:
        rows, deleted, unsure = [NO_KEYS], NO_KEYS, NO_KEYS
        for (_, block), content in contents(storage, scan):
            if block.type is BlockType.DELETE:
                records = read_delete_block(content)
                sure = always(records)
                deleted = joined([deleted, records.keys])
                unsure = joined([without(unsure, sure), without(records.keys, sure)])
            else:
                rows.append(block_keys(block, content))
                deleted, unsure = without(deleted, rows[-1]), without(unsure, rows[-1])
        return cls(joined(rows), deleted, unsure)

    @property
    def shown(self) -> Array:
        """Keys, each once, of rows that the logs show, or may show."""
        found: Array = pc.unique(without(self.rows, without(self.deleted, self.unsure)))
        return found


def block_keys(block: Any, content: bytes) -> Array:
    """The record keys of a data block, which rows of changed columns have, too."""
    rows = read_data_block(block, content, _KEY_SCHEMA, [RECORD_KEY], partial=True)
    return whole(rows.column(RECORD_KEY))


def always(records: DeleteRecords) -> Array:
    """Keys of deletes that win always."""
    if records.ordering is None:
        return records.keys
    keys: Array = records.keys.filter(records.ordering.is_null())
    return keys


def without(keys: Array, others: Array) -> Array:
    kept: Array = keys.filter(array(~is_in(keys, others)))
    return kept


def is_in(keys: Array, others: Array) -> Bools:
    found: Bools = np.asarray(pc.is_in(keys, value_set=others), dtype=np.bool_)
    return found


def joined(pieces: list[Array]) -> Array:
    return whole(pa.chunked_array([piece.cast(pa.string()) for piece in pieces], pa.string()))


def _is_log(stat: WriteStat) -> bool:
    return LogFileName.parse(stat.file_name) is not None


def _is_base(stat: WriteStat) -> bool:
    return BaseFileName.parse(stat.file_name) is not None


def _last_keys(reader: BaseFileReader, count: int) -> Iterator[Array]:
    """The keys of the last rows of a file; no row group before them is read."""
    skip = 0

    def chosen(footer: Any) -> list[int]:
        nonlocal skip
        number, rows = footer.num_row_groups, 0
        while number and rows < count:
            number -= 1
            rows += footer.row_group(number).num_rows
        skip = rows - count
        return list(range(number, footer.num_row_groups))

    reader.keep(chosen)
    for batch in reader.record_keys(READ_BATCH_ROWS):
        keys = whole(batch)
        if skip < len(keys):
            yield keys.slice(skip)
        skip = max(0, skip - len(keys))


def _earlier(listing: FileListing, partition: str, stat: WriteStat) -> str | None:
    """The path of the base file that a write replaced; None where there was none, or it is cleaned."""
    if stat.is_new_file_group:
        return None
    for item in listing.files(partition):
        name = BaseFileName.parse(item.name)
        if name is not None and (name.file_id, name.instant) == (stat.file_id, stat.prev_commit):
            return item.path
    return None


def own_blocks(storage: Storage, path: str, instant: InstantTime) -> Iterator[tuple[LogBlock, bytes]]:
    """The blocks of rows and of deletes that a commit wrote into a log file."""
    with LogFileReader(storage, path) as reader:
        for block in reader.blocks():
            if block.instant == instant and block.type not in (BlockType.CORRUPT, BlockType.COMMAND):
                yield block, reader.content(block)
