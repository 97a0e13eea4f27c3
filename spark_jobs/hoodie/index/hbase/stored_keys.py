"""Record keys of a file slice, as far as they can be known without a look at its rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, array, whole
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.format.log_block import BlockType
from hoodie.format.log_delete import read_delete_block
from hoodie.storage import Storage
from hoodie.table.commit_keys import always, block_keys, is_in, joined, without
from hoodie.table.log_scan import SMALL, contents, scan_slice
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView

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
            for (_, block), content in contents(storage, scan_slice(storage, slice_, snapshot, keep=SMALL)):
                if block.type is BlockType.DELETE:
                    records = read_delete_block(content)
                    sure = always(records)
                    deleted = joined([deleted, records.keys])
                    unsure = joined([without(unsure, sure), without(records.keys, sure)])
                else:
                    rows.append(block_keys(block, content))
                    deleted, unsure = without(deleted, rows[-1]), without(unsure, rows[-1])
        return cls(joined(rows), deleted, unsure)


def slice_keys(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> Iterator[tuple[Array, Array]]:
    """Array of a slice in batches: those that it shows, and those that it may show."""
    logged = Logged.of(storage, slice_, snapshot)
    if len(logged.rows):
        yield without(logged.rows, logged.deleted), logged.unsure
    if slice_.base is not None:
        with open_base(storage, slice_.base, None) as reader:
            for batch in reader.record_keys(READ_BATCH_ROWS):
                keys = whole(batch)
                yield without(keys, logged.deleted), keys.filter(array(is_in(keys, logged.unsure)))


def shown_in_logs(storage: Storage, slice_: FileSlice, snapshot: TimelineView, keys: Array) -> Bools:
    """Which of the keys, none of which the slice's base file has, its logs show. A delete that has to be
    compared with a row may have lost.
    """
    shown = np.zeros(len(keys), dtype=np.bool_)
    for (_, block), content in contents(storage, scan_slice(storage, slice_, snapshot, keep=SMALL)):
        if block.type is BlockType.DELETE:
            shown &= ~is_in(keys, always(read_delete_block(content)))
        else:
            shown |= is_in(keys, block_keys(block, content))
    return shown


def as_bytes(keys: Array) -> list[bytes]:
    found: Any = keys.cast(pa.binary()).to_pylist()
    return cast("list[bytes]", found)
