"""Rows that come with some of the table's columns: the stored rows of their keys have the others.

A stored row is that of an incoming one if both have the same values in the columns that rows are found by.
Incoming rows without one are left out: their key is new, or a log has deleted it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hoodie.codec.arrays import array, whole
from hoodie.engine.packing import together
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.read.file_slice import read_slice
from hoodie.read.key_join import Ints, Part
from hoodie.read.spill import SpillFolder, map_rows
from hoodie.storage import Storage
from hoodie.table.view import FileSlice
from hoodie.write.context import STORED_ROW, WriteContext
from hoodie.write.input.combine_keys import COPIES

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: rows that are compared at once, at least: each call of the kernel hashes the keys
_COMPARED_ROWS = 1 << 18


@contextlib.contextmanager
def completed(
    context: WriteContext, storage: Storage, slice_: FileSlice, parts: Sequence[Part]
) -> Iterator[list[Part]]:
    """The rows of the parts in all columns of the table; keys are distinct over all parts, as they were.

    Raises TableError where the slice can't be read. Memory: about the budget of the merge; rows beyond it are
    spilled, and the slice is read again for each half of rows that are too many at once.
    """
    most, size = context.merge_budget // COPIES, 0
    done: list[Part] = []
    with contextlib.ExitStack() as stack:
        folder: SpillFolder | None = None
        waiting = [part.rows for part in reversed(parts)]
        while waiting:
            rows = waiting.pop()
            found = _completed(context, storage, slice_, rows, most)
            if found is None:
                middle = rows.num_rows // 2
                waiting += [rows.slice(middle), rows.slice(0, middle)]
                continue
            size += found.nbytes
            if size > most:
                folder = folder or stack.enter_context(SpillFolder(context.spill_path))
                found = map_rows(os.path.join(folder.path, f"completed-{len(done)}.arrow"), found)
            if found.num_rows:
                done.append(Part.of(found))
        yield done


def _completed(
    context: WriteContext, storage: Storage, slice_: FileSlice, rows: pa.Table, most: int
) -> pa.Table | None:
    """None where there are more than so many bytes of several rows."""
    given = {*context.incoming_schema.names} - {*context.found_by}
    names = [RECORD_KEY, *(name for name in context.schema.names if name not in given)]
    keys, size = whole(rows.column(RECORD_KEY)), 0
    pieces = [pa.schema([context.file_schema.field(name) for name in names]).empty_table()]
    places: list[Ints] = []
    tables = read_slice(storage, slice_, context.slices, names, _row_groups(rows))
    for group in together(tables, lambda table: table.num_rows, max(_COMPARED_ROWS, len(keys))):
        stored = pa.concat_tables(group)
        hits = np.asarray(pc.index_in(stored.column(RECORD_KEY), value_set=keys).fill_null(-1))
        here = np.flatnonzero(hits >= 0)
        here = here[_equal(context, stored.take(array(here)), rows.take(array(hits[here])))]
        pieces.append(stored.take(array(here)))
        places.append(hits[here].astype(np.int64))
        size += pieces[-1].nbytes
        if size > most and rows.num_rows > 1:
            return None
    every = np.concatenate([np.zeros(0, np.int64), *places])
    last = np.full(rows.num_rows, -1, np.int64)
    last[every] = np.arange(len(every))
    chosen = np.flatnonzero(last >= 0)
    stored, incoming = pa.concat_tables(pieces).take(array(last[chosen])), rows.take(array(chosen))
    columns = [incoming.column(RECORD_KEY), incoming.column(STORED_ROW)]
    columns += [(incoming if name in given else stored).column(name) for name in context.schema.names]
    leading = [*rows.schema][:2]
    return pa.Table.from_arrays(columns, schema=pa.schema([*leading, *context.schema]))


def _equal(context: WriteContext, stored: pa.Table, incoming: pa.Table) -> Any:
    """Where all columns that rows are found by have the same values, none of them null."""
    same = np.ones(stored.num_rows, dtype=np.bool_)
    for name in context.found_by:
        same &= np.asarray(pc.equal(stored.column(name), incoming.column(name)).fill_null(False))
    return same


def _row_groups(rows: pa.Table) -> Any:
    """Chooses the row groups of a base file that have the stored rows; all where these are not known."""
    places = np.sort(rows.column(STORED_ROW).to_numpy())

    def chosen(footer: pq.FileMetaData) -> list[int]:
        ends = list(accumulate(footer.row_group(number).num_rows for number in range(footer.num_row_groups)))
        if not len(places) or places[0] < 0:
            return list(range(len(ends)))
        counts = np.diff(np.searchsorted(places, [0, *ends]))
        return [int(number) for number in np.flatnonzero(counts)]

    return chosen
