"""Records that an index of the whole table finds in another partition than their own.

As Apache Hudi 0.15.0 (HoodieIndexUtils.mergeForPartitionUpdatesIfNeeded). If records move, the merger merges
the stored row with the incoming one. The result goes to the partition of the incoming row, and the stored row
is deleted, whatever its ordering value. An incoming row goes to the partition of the stored one if it deletes
its record or loses against the stored row. If records do not move, every row goes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, array, pc, whole
from hoodie.format.internal_schema import stored_batches
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index.locations import LOOK_UP, NOWHERE, Positions
from hoodie.merge import Merger
from hoodie.read.file_slice import read_slice
from hoodie.read.key_join import looked_at, with_columns
from hoodie.storage import Storage
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice
from hoodie.write.context import WriteContext
from hoodie.write.tagging.record_locations import (
    MOVED_SCHEMA,
    STORED_VALUES,
    RecordLocations,
    gone,
    numbers,
    paired,
)


class Stored(NamedTuple):
    """Stored rows of one slice: their keys, each once, and rows in the base file."""

    slice: FileSlice
    keys: pa.Array[Any]
    rows: Positions


def find_moved(
    context: WriteContext,
    slices: Sequence[FileSlice],
    codes_of: Mapping[str, int],
    hits: RecordLocations,
    places: Positions,
    keys: pa.Array[Any],
    codes: Positions,
) -> pa.Table | None:
    """What `RecordLocations.moved` has of the hits; None for nothing. `places` are those of the hits in
    `slices`; `keys`, and the numbers `codes` of their partitions, are by row.

    Opens the slices with such rows where the merger compares stored rows, or logs may have deleted them.
    Memory: what the merger compares of these rows, and as `read_slice`.
    """
    homes = np.array([codes_of.get(slice_.partition, NOWHERE) for slice_ in slices], dtype=np.int32)
    away = np.flatnonzero(homes[places] != codes[hits.rows])
    if not len(away):
        return None
    rows = hits.rows[away]
    deleted, values = np.zeros(len(away), dtype=np.bool_), None
    if context.index is not None and context.index.updates_partition_path:
        values = _look(context, slices, hits.stored[away], places[away], keys.take(array(rows)), deleted)
    columns: list[Any] = [rows, hits.labels[away], codes[rows], deleted]
    found = pa.Table.from_arrays([array(column) for column in columns], schema=MOVED_SCHEMA)
    return found if values is None else found.append_column(STORED_VALUES, values)


def _look(
    context: WriteContext,
    slices: Sequence[FileSlice],
    stored: Positions,
    places: Positions,
    keys: pa.Array[Any],
    deleted: Bools,
) -> Any:
    """What the merger compares of each stored row, or None; sets which of them are `deleted`."""
    names, storage = _compared(context.merger, context.schema), context.table.storage()
    found: list[pa.Table] = []
    order, count = np.full(len(keys), NOWHERE, dtype=np.int64), 0
    for place in np.unique(places).tolist():
        mine = np.flatnonzero(places == place)
        slice_ = slices[place]
        if not names and not slice_.logs:
            continue
        rows = Stored(slice_, keys.take(array(mine)), stored[mine])
        if slice_.base is None or slice_.logs or (rows.rows == LOOK_UP).any():
            there, values = _by_key(context, storage, rows, names)
        else:
            there, values = (
                np.ones(len(mine), np.bool_),
                _by_row(context, storage, slice_.base, rows.rows, names),
            )
        deleted[mine] = ~there
        order[mine[there]] = count + np.arange(values.num_rows)
        count += values.num_rows
        found.append(values)
    if not names:
        return None
    target = _nullable(context.schema, names)
    every = pa.concat_tables(found) if found else target.empty_table()
    struct: Any = pa.StructArray.from_arrays(
        [whole(column).cast(field.type) for column, field in zip(every.columns, target, strict=True)],
        fields=list(target),
    )
    return struct.take(pa.array(order, mask=order == NOWHERE))


def _compared(merger: Merger, schema: pa.Schema) -> list[str]:
    return [] if merger.ignores_stored else looked_at(merger, schema, wanted=schema.names)


def _nullable(schema: pa.Schema, names: list[str]) -> pa.Schema:
    return pa.schema([schema.field(name).with_nullable(True) for name in names])


def _by_key(
    context: WriteContext, storage: Storage, rows: Stored, names: list[str]
) -> tuple[Bools, pa.Table]:
    """(which of the keys the slice shows, the columns of those in their order)"""
    places, pieces, count = np.full(len(rows.keys), NOWHERE, dtype=np.int64), [], 0
    for shown in read_slice(storage, rows.slice, context.slices, [RECORD_KEY, *names]):
        hits = pc.index_in(shown.column(RECORD_KEY), value_set=rows.keys).fill_null(NOWHERE).to_numpy()
        here = np.flatnonzero(hits != NOWHERE)
        places[hits[here]] = count + np.arange(len(here))
        pieces.append(shown.take(array(here)))
        count += len(here)
    there = places != NOWHERE
    if not pieces:
        return there, pa.schema([context.file_schema.field(name) for name in names]).empty_table()
    found = pa.concat_tables(pieces).take(array(places[there]))
    return there, found.select(names)


def _by_row(
    context: WriteContext, storage: Storage, base: BaseFile, rows: Positions, names: list[str]
) -> pa.Table:
    """The columns of these rows of a base file."""
    target = _nullable(context.schema, names)
    order = np.argsort(rows, kind="stable")
    ascending, pieces, start = rows[order], [], 0
    with open_base(storage, base, context.file_schema) as reader:
        known_as = context.columns(base.instant)
        if not {*(names if known_as is None else known_as.names(names))} & {*reader.schema.names}:
            return target.empty_table().take(pa.nulls(len(rows), pa.int64()))
        for stored in stored_batches(reader, target, known_as):
            low, high = np.searchsorted(ascending, (start, start + stored.num_rows))
            pieces.append(stored.take(array(ascending[low:high] - start)))
            start += stored.num_rows
    back = np.empty(len(rows), dtype=np.int64)
    back[order] = np.arange(len(rows))
    return pa.concat_tables(pieces).take(array(back))


class PartitionUpdates(NamedTuple):
    """Rows of a blob as they go on: those that move are new ones, in `rows` as merged, and `left` are the
    stored rows that are deleted for them.
    """

    rows: pa.RecordBatch
    hits: RecordLocations
    left: RecordLocations | None


def decide(context: WriteContext, staged: pa.RecordBatch, hits: RecordLocations) -> PartitionUpdates:
    """Which rows move. The hits are in order.

    Of a row whose key is stored several times each stored one is compared: those that it leaves are deleted,
    the others are updated, as is one in the row's own partition; it is new where none is. What the merger
    made of the youngest goes on.
    """
    moved, index = hits.moved, context.index
    if moved is None or index is None or not index.updates_partition_path:
        return PartitionUpdates(staged, hits, None)
    rows, left = numbers(moved, "row"), gone(moved).copy()
    live = np.flatnonzero(~left)
    if len(live):
        incoming = pa.Table.from_batches([staged]).take(array(rows[live]))
        after = incoming.select(context.compared)
        before = _values(moved.take(array(live))) if _compared(context.merger, context.schema) else after
        outcome = context.merger.merge(before, after)
        leaves = np.asarray(outcome.take & ~outcome.delete)
        if outcome.rows is not None:
            merged = with_columns(incoming, outcome.rows).filter(array(leaves))
            staged = _replaced(staged, rows[live[leaves]], merged)
        live = live[leaves]
        left[live] = True
    pairs = paired(rows, numbers(moved, "label"))
    at = np.searchsorted(hits.pairs, pairs[live])
    return PartitionUpdates(staged, hits.take(~np.isin(hits.pairs, pairs[left])), hits.take(at))


def _values(moved: pa.Table) -> pa.Table:
    values: Any = whole(moved.column(STORED_VALUES))
    fields = list(values.type)
    return pa.Table.from_arrays(values.flatten(), schema=pa.schema(fields))


def _replaced(staged: pa.RecordBatch, rows: Positions, by: pa.Table) -> pa.RecordBatch:
    """The batch with these rows replaced."""
    order = np.arange(staged.num_rows)
    order[rows] = staged.num_rows + np.arange(len(rows))
    both = pa.concat_tables([pa.Table.from_batches([staged]), by.cast(staged.schema)])
    (batch,) = both.take(array(order)).combine_chunks().to_batches()
    return batch
