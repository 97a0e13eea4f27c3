"""Log records merged to one per key (format.md 8.11; Apache Hudi 0.15.0 HoodieMergedLogRecordScanner).

Of the rows of a key the merger's `combine` makes one, as of a batch's. A delete block takes a key's
earlier rows away, except where it has an ordering value and one of them a greater one; then it changes
nothing. Rows after a delete are a new beginning, whatever their ordering values. What is left is a row, or a
delete that removes the key whatever is stored. Of versions 8 and 9 `merge.in_order` has the rules.

Blocks are read one at a time. Beyond the memory budget rows and deletes are cut by key hash into parts on
disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrays import whole
from hoodie.errors import InputError, TableError
from hoodie.format.internal_schema import Evolution, FileColumns
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import carried_columns, is_partial, read_data_block, read_delete_block
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.merge import DELETED_COLUMN, Merger
from hoodie.merge.by_mode import ByMode
from hoodie.merge.in_order import CARRIED, Deletes, merge_in_order
from hoodie.read.key_join import Bools, Ints, Part
from hoodie.read.spill import SpilledRows, SpillFolder, map_rows, part_count, read_spilled
from hoodie.storage import Storage
from hoodie.table.log_scan import LogScan, contents, instant_of
from hoodie.table.view import TimelineView
from hoodie.timeline.time import InstantTime

#: number of the block that a row or a delete comes from
_ORDER = "_hoodie_log_order"
_ORDERING = "_hoodie_log_ordering"
#: merging needs the rows, a copy of them and the sort order
_COPIES = 3

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


@dataclass(frozen=True, kw_only=True)
class SliceContext:
    """How the slices of a table are read. Picklable; one for all slices of a query.

    `schema` is the table's with meta columns; rows of older schemas are read as it. `merger` is None for a
    table without logs, `ordering` its ordering field. `evolution` is that of a table whose columns are known
    by id.
    """

    schema: pa.Schema
    snapshot: TimelineView
    merger: Merger | None
    ordering: str | None
    budget: int
    spill_path: str
    evolution: Evolution | None = None

    def columns(self, instant: InstantTime) -> FileColumns | None:
        """How a base file or a log block of this instant calls the columns; None: as the table does."""
        return None if self.evolution is None else self.evolution.columns(instant)


class LogRecords:
    """One record a key: each part has rows, and keys to delete. A context manager, for the spilled ones."""

    def __init__(self, parts: list[Part], folder: SpillFolder | None = None) -> None:
        self.parts = parts
        self._folder = folder

    def __enter__(self) -> LogRecords:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.parts = []
        if self._folder is not None:
            self._folder.close()

    @property
    def spilled(self) -> bool:
        return self._folder is not None


def merged_log(
    storage: Storage, scan: LogScan, context: SliceContext, columns: Sequence[str] | None = None
) -> LogRecords:
    """The records of a scan's blocks in these columns, and those that the merger needs; None: all.

    Counts the rows it reads in the scan's statistics. Raises TableError for contents that can't be read, and
    for rows without an ordering value, as Apache Hudi does.
    """
    merger = _required(context)
    names = log_columns(merger, context.schema, columns)
    schema = pa.schema([context.schema.field(name) for name in names])
    by_mode = isinstance(merger, ByMode)
    partial = by_mode and any(is_partial(block) for _, block in scan.queue)
    operations, path = _Operations(context, schema, scan.content_bytes, partial), ""
    try:
        for number, (entry, content) in enumerate(contents(storage, scan)):
            log, block = entry
            path = log.path
            operations.consumed += block.content_length
            if block.type is BlockType.DELETE:
                operations.delete(number, content)
            else:
                known_as = context.columns(instant_of(entry))
                rows = read_data_block(block, content, context.schema, names, known_as, by_mode)
                scan.statistics.records += rows.num_rows
                if partial:
                    rows = _with_carried(rows, carried_columns(block, names, known_as), is_partial(block))
                operations.add(number, rows)
        path = ""
        return operations.merged(merger)
    except InputError as error:
        operations.close()
        where = f" of {path}" if path else ""
        raise TableError(f"log records{where} can't be merged: {error.message}", **error.values) from error
    except BaseException:
        operations.close()
        raise


def log_columns(merger: Merger, schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """What must be read of log rows so that these columns of merged rows are right, in the schema's order."""
    needed = [merger.columns(schema), merger.combine_columns(schema)]
    if columns is None or None in needed:
        return list(schema.names)
    names = {RECORD_KEY, DELETED_COLUMN, *columns, *(name for group in needed if group for name in group)}
    return [name for name in schema.names if name in names]


def _required(context: SliceContext) -> Merger:
    if context.merger is None:
        raise ValueError("a slice with logs needs a merger")
    return context.merger


class _Operations:
    """Rows and deletes in the order of their blocks, held or spilled."""

    def __init__(self, context: SliceContext, schema: pa.Schema, expected: int, partial: bool) -> None:
        """`expected` is the size of all contents as they are stored, `consumed` of those read so far.
        `partial`: rows say which columns they have."""
        self._context = context
        self._type = _ordering_type(context)
        if partial:
            schema = schema.append(_carried_field(schema))
        self._rows = schema.append(pa.field(_ORDER, pa.int32()))
        fields = {RECORD_KEY: pa.string(), _ORDER: pa.int32(), _ORDERING: self._type or pa.null()}
        self._deletes = pa.schema([pa.field(name, kind) for name, kind in fields.items()])
        self._expected = expected
        self.consumed = 0
        self._folder: SpillFolder | None = None
        self._spilled: tuple[SpilledRows, SpilledRows] | None = None
        self._held: tuple[list[pa.Table], list[pa.Table]] = ([], [])
        self._bytes = 0

    def add(self, number: int, rows: pa.Table) -> None:
        """Raises InputError for a row without a key, as `delete`: nothing says which row it changes."""
        _check_keys(rows.column(RECORD_KEY))
        self._take(0, rows.append_column(self._rows.field(_ORDER), _constant(number, rows.num_rows)))

    def delete(self, number: int, content: bytes) -> None:
        records = read_delete_block(content, self._type)
        _check_keys(records.keys)
        count = len(records)
        ordering: Any = records.ordering
        if ordering is None or self._type is None:
            ordering = pa.nulls(count, self._deletes.field(_ORDERING).type)
        self._take(1, pa.table([records.keys, _constant(number, count), ordering], schema=self._deletes))

    def merged(self, merger: Merger) -> LogRecords:
        """Ends the adding; the records own the spill folder from now on."""
        if self._spilled is None:
            rows, deletes = (
                pa.concat_tables(held) if held else schema.empty_table()
                for held, schema in zip(self._held, (self._rows, self._deletes), strict=True)
            )
            self._held = ([], [])
            return LogRecords([merge_operations(merger, rows, deletes)])
        parts: list[Part] = []
        for paths in zip(*(spilled.finish() for spilled in self._spilled), strict=True):
            part = merge_operations(merger, *map(read_spilled, paths))
            if len(part.used):
                parts.append(_mapped(part, *paths))
        return LogRecords(parts, self._folder)

    def close(self) -> None:
        for spilled in self._spilled or ():
            spilled.finish()
        if self._folder is not None:
            self._folder.close()

    def _take(self, kind: int, rows: pa.Table) -> None:
        if self._spilled is not None:
            self._spill(kind, rows)
            return
        self._held[kind].append(rows)
        self._bytes += rows.nbytes
        if self._bytes > self._context.budget:
            self._start_spilling()

    def _start_spilling(self) -> None:
        growth = self._bytes / max(1, self.consumed)
        count = part_count(int(self._expected * growth) * _COPIES, self._context.budget)
        self._folder = folder = SpillFolder(self._context.spill_path)
        self._spilled = (
            SpilledRows(folder, "rows", self._rows, count),
            SpilledRows(folder, "deletes", self._deletes, count),
        )
        for kind, held in enumerate(self._held):
            for rows in held:
                self._spill(kind, rows)
            held.clear()

    def _spill(self, kind: int, rows: pa.Table) -> None:
        assert self._spilled is not None
        for batch in rows.to_batches():
            self._spilled[kind].add(batch)


def _check_keys(keys: Any) -> None:
    if keys.null_count:
        raise InputError(f"{keys.null_count} of {len(keys)} records of a log block have no record key")


def _mapped(part: Part, rows_path: str, deletes_path: str) -> Part:
    """The part in new files next to these."""
    deletes: Any = part.deletes
    if deletes is not None:
        deletes = map_rows(deletes_path + ".one", pa.table({RECORD_KEY: deletes})).column(0).combine_chunks()
    return Part.of(map_rows(rows_path + ".one", part.rows), deletes)


def merge_operations(merger: Merger, rows: pa.Table, deletes: pa.Table) -> Part:
    """One record a key. Both are in the order of their blocks, whose numbers are in a column of them."""
    gone: pa.Array[Any] | None = None
    if isinstance(merger, ByMode):
        when, until = (np.asarray(each.column(_ORDER)).astype(np.int64) for each in (rows, deletes))
        keys, ordering = (whole(deletes.column(name)) for name in (RECORD_KEY, _ORDERING))
        logged = Deletes(keys, until, ordering)
        return Part.of(*merge_in_order(merger, rows.drop_columns([_ORDER]), when, logged))
    if deletes.num_rows:
        keep, gone = _after_deletes(merger, rows, deletes)
        if not keep.all():
            rows = rows.filter(pa.array(keep))
    rows = rows.drop_columns([_ORDER])
    if rows.num_rows:
        keys = rows.column(RECORD_KEY).combine_chunks()
        if merger.folds:
            rows = _folded(merger, rows.combine_chunks(), keys)
        else:
            rows = merger.combine(rows, keys).combine_chunks()
    return Part.of(rows, gone)


def _folded(merger: Merger, rows: pa.Table, keys: pa.Array[Any]) -> pa.Table:
    """The rows of each key laid one over the other in their order: the second rows of all keys, then the
    third of those that have one, and so on."""
    codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    done: list[pa.Table] = []
    state, turn = rows.take(order[starts]), 1
    while len(starts):
        more = lengths > turn
        done.append(state.filter(pa.array(~more)))
        starts, lengths = starts[more], lengths[more]
        if len(starts):
            state = merger.fold(state.filter(pa.array(more)), rows.take(order[starts + turn]))
        turn += 1
    return pa.concat_tables(done)


def _after_deletes(merger: Merger, rows: pa.Table, deletes: pa.Table) -> tuple[Bools, pa.Array[Any]]:
    """(rows that no delete took away, keys that have none of these but were deleted)"""
    coded = deletes.column(RECORD_KEY).combine_chunks().dictionary_encode()
    hits = pc.index_in(rows.column(RECORD_KEY), value_set=coded.dictionary).fill_null(-1)
    codes = np.asarray(hits).astype(np.int64)
    touched = np.flatnonzero(codes >= 0)
    owners = codes[touched]
    times = np.asarray(rows.column(_ORDER)).astype(np.int64)[touched]
    cut = _last_deletes(merger, rows, touched, owners, times, coded, deletes)
    keep = np.ones(rows.num_rows, dtype=np.bool_)
    keep[touched] = times > cut[owners]
    alone = cut >= 0
    alone[owners[keep[touched]]] = False
    return keep, coded.dictionary.filter(pa.array(alone))


def _last_deletes(
    merger: Merger,
    rows: pa.Table,
    touched: Ints,
    owners: Ints,
    times: Ints,
    coded: Any,
    deletes: pa.Table,
) -> Ints:
    """For every deleted key the number of the last delete that took effect; -1 where none did.

    `touched` are the rows of such keys, `owners` their keys, `times` their blocks.
    """
    keys = np.asarray(coded.indices).astype(np.int64)
    when = np.asarray(deletes.column(_ORDER)).astype(np.int64)
    ordering = deletes.column(_ORDERING).combine_chunks()
    cut: Ints = np.full(len(coded.dictionary), -1, dtype=np.int64)
    if ordering.null_count == len(ordering):
        np.maximum.at(cut, keys, when)
        return cut
    names = merger.combine_columns(rows.schema)
    looked_at = rows if names is None else rows.select(names)
    forgets = merger.deleted(rows)[touched] if merger.folds else None
    for turn in _turns(keys, when):
        delete = np.full(len(cut), -1, dtype=np.int64)
        delete[keys[turn]] = turn
        mine = delete[owners]
        before = np.flatnonzero((mine >= 0) & (times > cut[owners]) & (times < when[mine]))
        if forgets is not None:
            before = _not_forgotten(before, owners, forgets)
        stays = merger.outlives(looked_at.take(touched[before]), ordering.take(mine[before]))
        delete[owners[before[stays]]] = -1
        done = np.flatnonzero(delete >= 0)
        cut[done] = when[delete[done]]
    return cut


def _not_forgotten(rows: Ints, owners: Ints, forgets: Bools) -> Ints:
    """Those that a fold does not forget: from the last row of their key that forgets what was before it."""
    last: Ints = np.full(int(owners.max(initial=-1)) + 1, -1, dtype=np.int64)
    ends = rows[forgets[rows]]
    np.maximum.at(last, owners[ends], ends)
    return rows[rows >= last[owners[rows]]]


def _turns(keys: Ints, when: Ints) -> Iterator[Ints]:
    """The first delete of every key, then the second of those that have one, and so on."""
    order = np.lexsort((when, keys))
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    for turn in range(int(lengths.max())):
        yield order[starts[lengths > turn] + turn]


def _ordering_type(context: SliceContext) -> pa.DataType | None:
    """That of the ordering values of deletes: a struct where there are several."""
    merger = context.merger
    if not isinstance(merger, ByMode):
        return _type_at(context.schema, context.ordering)
    kinds = [_type_at(context.schema, path) or pa.null() for path in merger.ordering_fields]
    if len(kinds) > 1:
        return pa.struct([pa.field(str(number), kind) for number, kind in enumerate(kinds)])
    return kinds[0] if kinds else None


def _carried_field(schema: pa.Schema) -> pa.Field[Any]:
    return pa.field(CARRIED, pa.struct([pa.field(name, pa.bool_()) for name in schema.names]))


def _with_carried(rows: pa.Table, columns: frozenset[str], partial: bool) -> pa.Table:
    """Rows of a block with the columns that they have; null for those of a block that is not partial."""
    field, count = _carried_field(rows.schema), rows.num_rows
    if not partial:
        return rows.append_column(field, pa.nulls(count, field.type))
    flags = [pa.array(np.full(count, name in columns)) for name in rows.column_names]
    return rows.append_column(field, pa.StructArray.from_arrays(flags, names=rows.column_names))


def _type_at(schema: pa.Schema, path: str | None) -> pa.DataType | None:
    if not path:
        return None
    top, *rest = path.split(".")
    kind: pa.DataType | None = schema.field(top).type if top in schema.names else None
    for name in rest:
        kind = kind.field(name).type if isinstance(kind, pa.StructType) else None
    return kind


def _constant(value: int, count: int) -> pa.Array[Any]:
    return pa.array(np.full(count, value, dtype=np.int32))
