"""Rows of one file slice: its base file merged with its logs, batch by batch.

Queries, compaction and clustering read slices here. Memory: three batches of the base file, its footer,
6 bytes for each of its rows, and the log records within their budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from hoodie.codec.prefetch import prefetch
from hoodie.engine.packing import together
from hoodie.format.base_file import BaseFileFormat, BaseFileReader, KeySummary
from hoodie.format.internal_schema import stored_batches
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.read.key_join import Merged, Part, Places, live, looked_at, merge_apart, merge_batch, replacement
from hoodie.read.log_merge import SliceContext, merged_log
from hoodie.storage import Storage
from hoodie.table.log_scan import SMALL, LogScan, scan_slice
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: the row groups of a base file that are to be read, by its footer
RowGroups: TypeAlias = Callable[[pq.FileMetaData], list[int]]
#: keys of stored rows that are looked up at a time
_LOOK_UP_ROWS = 1 << 20
#: bytes of record keys of a base file that are kept until its other columns are read
_KEPT_KEYS = 8 << 20
#: the share of the memory for log records that their blocks may have before they are merged
_KEPT = 8


class _StoredKeys:
    """The record keys of a base file, in pieces, as they are read. Those of a small file are kept, and not
    read again with its other columns.
    """

    def __init__(self, reader: BaseFileReader) -> None:
        self._reader = reader
        self._kept: list[Any] = []
        self._keeps = True

    def __iter__(self) -> Iterator[Any]:
        size = 0
        for piece in self._reader.record_keys(_LOOK_UP_ROWS):
            size += piece.nbytes
            self._keeps = self._keeps and size <= _KEPT_KEYS and piece.type == pa.string()
            self._kept = [*self._kept, piece] if self._keeps else []
            yield piece

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Those of the columns that are still to be read; one at least, for the number of rows."""
        return [name for name in names if not self._keeps or name != RECORD_KEY] or [RECORD_KEY]

    def put(self, tables: Iterator[pa.Table], target: pa.Schema) -> Iterator[pa.Table]:
        """The rows in the columns of `target`: those that were `lacking`, and the keys."""
        keys, place, at = pa.chunked_array(self._kept, pa.string()), target.get_field_index(RECORD_KEY), 0
        for rows in tables:
            if rows.num_columns < len(target):
                rows = rows.add_column(place, target.field(place), keys.slice(at, rows.num_rows))
            at += rows.num_rows
            yield rows


def read_slice(
    storage: Storage,
    file_slice: FileSlice,
    context: SliceContext,
    columns: Sequence[str] | None = None,
    groups: RowGroups | None = None,
    ordered: bool = True,
) -> Iterator[pa.Table]:
    """The rows of a slice in these columns (None: all of the context's schema), in the schema's types.

    Base rows come first in their order, then rows that only the logs have; without `ordered` rows come in any
    order, and sooner. Columns that a file lacks are null. A key that a base file holds several times is
    merged every time, as compaction does. `groups` picks row groups of a file by its footer, which goes for
    slices without blocks of logs that count. Raises TableError.
    """
    with SliceReader(storage, file_slice, context, columns, groups, ordered) as reader:
        yield from reader.tables()


def read_through(
    storage: Storage, file_slice: FileSlice, context: SliceContext, columns: Sequence[str]
) -> None:
    """Reads a slice and keeps nothing, for the TableError of its damaged file, if one is."""
    for _ in read_slice(
        storage, file_slice, context, [name for name in columns if name in context.schema.names]
    ):
        pass


def rows_of_keys(
    storage: Storage,
    file_slice: FileSlice,
    contexts: Sequence[SliceContext],
    names: Sequence[str],
    keys: Any,
) -> Iterator[pa.Table]:
    """The rows of a slice that have one of these keys, in each of the contexts, which differ in their
    snapshots only. The base file is read once, its rows first. Memory: these rows.
    """
    first, schema = contexts[0], contexts[0].schema
    merged_by = [] if first.merger is None else looked_at(first.merger, schema)
    wanted = [name for name in schema.names if name in {RECORD_KEY, *names, *merged_by}]
    values = pc.unique(keys)

    def those(rows: pa.Table) -> pa.Table:
        return rows.filter(pc.is_in(rows.column(RECORD_KEY), values))

    stored = pa.schema([schema.field(name) for name in wanted]).empty_table()
    if file_slice.base is not None:
        found = read_slice(storage, replace(file_slice, logs=()), first, wanted)
        # each call of the kernel hashes the keys
        groups = together(found, lambda rows: rows.num_rows, len(values))
        stored = pa.concat_tables([stored, *(those(pa.concat_tables(group)) for group in groups)])
        stored = stored.combine_chunks()
    for context in contexts:
        scan = scan_slice(storage, file_slice, context.snapshot, keep=min(SMALL, context.budget // _KEPT))
        if not scan.queue:
            yield stored.select(list(names))
            continue
        merger = context.merger
        assert merger is not None
        with merged_log(storage, scan, context, wanted) as log:
            places = Places.looked_up(stored.column(RECORD_KEY).chunks, stored.num_rows, log.parts)
            matches = places.between(0, stored.num_rows)
            merged_by = looked_at(merger, schema, log.parts, wanted)
            rows = [merge_batch(merger, merged_by, stored, matches, log.parts).rows]
            rows += [those(live(merger, part.unmatched())) for part in log.parts]
            columns = [[table.column(name) for table in rows] for name in names]
            yield pa.Table.from_arrays(
                [
                    pa.chunked_array(
                        [chunk for part in parts for chunk in part.chunks], schema.field(name).type
                    )
                    for name, parts in zip(names, columns, strict=True)
                ],
                schema=pa.schema([schema.field(name) for name in names]),
            )


class SliceReader:
    """As `read_slice`, with what was counted. A context manager.

    `scan` has the statistics of the logs; `updates`, `deletes` and `inserts` count base rows that were
    replaced or removed, and rows that only the logs have, as far as `tables` has come.
    """

    def __init__(
        self,
        storage: Storage,
        file_slice: FileSlice,
        context: SliceContext,
        columns: Sequence[str] | None = None,
        groups: RowGroups | None = None,
        ordered: bool = True,
    ) -> None:
        self.scan: LogScan = scan_slice(
            storage, file_slice, context.snapshot, keep=min(SMALL, context.budget // _KEPT)
        )
        self.updates = self.deletes = self.inserts = 0
        self._storage = storage
        self._slice = file_slice
        self._context = context
        self._names = list(context.schema.names if columns is None else columns)
        self._groups = groups
        self._ordered = ordered
        self._stack = ExitStack()
        self._parts: list[Part] = []

    def __enter__(self) -> SliceReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def tables(self) -> Iterator[pa.Table]:
        """The rows, once."""
        yield from self.stored()
        yield from self.inserted()

    def stored(self) -> Iterator[pa.Table]:
        """The rows of the base file, merged with the logs, in its order where that is wanted."""
        base = self._slice.base
        if not self.scan.queue:
            if base is not None:
                reader = self._open(base)
                if self._groups is not None and not base.skeleton:
                    reader.keep(self._groups)
                yield from prefetch(self._stored(reader, self._names))
            return
        log = merged_log(self._storage, self.scan, self._context, self._names)
        self._parts = self._stack.enter_context(log).parts
        if base is not None:
            yield from prefetch(self._merged(self._open(base)))

    def inserted(self) -> Iterator[pa.Table]:
        """The rows that only the logs have; to be called when `stored` is through."""
        merger = self._context.merger
        for part in self._parts:
            assert merger is not None
            rows = live(merger, part.unmatched())
            self.inserts += rows.num_rows
            yield rows.select(self._names)

    def key_summary(self, format_: BaseFileFormat) -> KeySummary | None:
        """That of the base file; None without one, and where it lacks what `format_` asks for."""
        base = self._slice.base
        return None if base is None else self._open(base).summary(format_)

    def _merged(self, reader: BaseFileReader) -> Iterator[pa.Table]:
        merger, schema, parts = self._context.merger, self._context.schema, self._parts
        assert merger is not None
        keys = _StoredKeys(reader)
        places = Places.looked_up(keys, reader.rows, parts)
        merged_by = looked_at(merger, schema, parts, self._names)
        wanted = {*self._names, *merged_by}
        start = 0
        if places.complete and not wanted <= {RECORD_KEY, *merged_by}:
            # logs may hold all of a file, as where a day is written again: little of it is read then
            for stored in self._stored(reader, merged_by or [RECORD_KEY]):
                matches = places.between(start, start + stored.num_rows)
                merged = replacement(merger, merged_by, stored, matches, parts)
                if merged is None:
                    break
                start += stored.num_rows
                yield self._add_counts(merged)
        if start == reader.rows:
            return
        at = 0
        target = pa.schema([field for field in schema if field.name in wanted])
        for stored in prefetch(keys.put(self._stored(reader, keys.lacking(target.names)), target)):
            first, at = at, at + stored.num_rows
            if at <= start:
                continue
            stored, first = stored.slice(max(0, start - first)), max(start, first)
            matches = places.between(first, at)
            if self._ordered:
                yield self._add_counts(merge_batch(merger, merged_by, stored, matches, parts))
            else:
                apart = merge_apart(merger, merged_by, stored, matches, parts)
                self.updates += apart.updates
                self.deletes += apart.deletes
                yield from (rows.select(self._names) for rows in (apart.left, *apart.fresh))

    def _add_counts(self, merged: Merged) -> pa.Table:
        self.updates += merged.updates
        self.deletes += merged.deletes
        return merged.rows.select(self._names)

    def _open(self, base: BaseFile) -> BaseFileReader:
        return self._stack.enter_context(open_base(self._storage, base, self._context.schema))

    def _stored(self, reader: BaseFileReader, names: list[str]) -> Iterator[pa.Table]:
        assert self._slice.base is not None
        target = pa.schema([self._context.schema.field(name) for name in names])
        yield from stored_batches(reader, target, self._context.columns(self._slice.base.instant))
