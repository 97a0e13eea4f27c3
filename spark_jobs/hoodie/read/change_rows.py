"""Rows of change data: op, instant, and the row before and after as JSON (format.md 12.3).

A change comes from the change log of its write. Without a change log the reader compares the rows of its keys
in the states of the slice before and after the commit.

Memory: the changed rows of one commit in one file group, before and after, and the memory of reading a slice.
The comparison of two base files without a change log also needs the meta columns of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from hoodie.codec.arrow_json import json_objects
from hoodie.errors import TableError
from hoodie.format.cdc import AFTER, BEFORE, KEY, OP, Op
from hoodie.format.evolution import read_as
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import read_data_block
from hoodie.format.log_file import LogFileReader
from hoodie.format.meta_fields import COMMIT_SEQNO, COMMIT_TIME, RECORD_KEY, without_meta
from hoodie.read.changes import SCHEMA, Change, ChangeView, How
from hoodie.read.file_slice import read_slice, rows_of_keys
from hoodie.read.key_join import Bools, Ints
from hoodie.read.log_merge import SliceContext, merged_log
from hoodie.read.readable_range import gone
from hoodie.storage import Storage
from hoodie.table.log_scan import scan_slice
from hoodie.table.view import FileSlice

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: bytes of rows that become JSON at a time
_PIECE = 64 << 20
_KNOWN: Any = pa.array([op.value for op in Op])
#: what the rows of a key are compared by, in addition to their values
_WRITTEN = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY)


def change_tables(view: ChangeView, storage: Storage, change: Change) -> Iterator[pa.Table]:
    """The rows of one change. Raises TableError for files that contradict each other or can't be read,
    StateUnavailable for those that were cleaned since the view was made.
    """
    try:
        yield from _tables(_Reader(view, storage, change), change)
    except FileNotFoundError as error:
        what = f"the changes of commit {change.instant} can't be told any more"
        raise gone(f"{what}: {error.filename or error} is gone", instant=change.instant) from None


def _tables(reader: _Reader, change: Change) -> Iterator[pa.Table]:
    if change.how is How.LOGGED:
        yield from reader.logged()
    elif change.how is How.MERGED:
        yield from reader.merged()
    elif change.how is How.REWRITTEN:
        yield from reader.rewritten()
    elif change.how is How.DELETED:
        yield from reader.whole(change.before, Op.DELETE)
    elif change.how is How.INSERTED:
        yield from reader.whole(change.after, Op.INSERT)
    else:
        yield from reader.appended()


class _Reader:
    def __init__(self, view: ChangeView, storage: Storage, change: Change) -> None:
        self._view, self._storage, self._change = view, storage, change
        self._images = without_meta(view.context.schema)
        self._earlier = view.before(change.instant)
        self._later = view.after(change.instant)

    def whole(self, item: FileSlice | None, op: Op) -> Iterator[pa.Table]:
        """All rows of a slice, inserted or deleted."""
        assert item is not None
        context = self._earlier if op is Op.DELETE else self._later
        for rows in self._rows(item, context):
            yield from self._all(op, rows)

    def appended(self) -> Iterator[pa.Table]:
        """The rows that the commit added to those of the base file before it."""
        change, found = self._change, 0
        assert change.after is not None
        for rows in self._rows(change.after, self._later, (COMMIT_TIME,)):
            new = rows.filter(pc.equal(rows.column(COMMIT_TIME), change.instant))
            found += new.num_rows
            yield from self._all(Op.INSERT, new)
        if found != change.count:
            raise self._unlike(f"the file has {found} rows of the commit, which says {change.count}")

    def logged(self) -> Iterator[pa.Table]:
        """What the change log says; images that it lacks are those of its keys in the slices."""
        for log in self._change.logs:
            with LogFileReader(self._storage, log.path) as reader:
                for block in reader.blocks():
                    if block.type is not BlockType.CDC_DATA or block.instant != self._change.instant:
                        raise self._unlike(f"{log.path} holds something else at byte {block.offset}")
                    yield from self._of_records(read_data_block(block, reader.content(block)))

    def merged(self) -> Iterator[pa.Table]:
        """What became of the keys of the commit's log records: their rows before and after it, compared."""
        item = self._change.after
        assert item is not None
        keys = self._written_keys(item)
        yield from self._compared(*self._of_keys(item, keys, self._earlier, self._later))

    def rewritten(self) -> Iterator[pa.Table]:
        """The rows that the commit wrote into a base file, and those that it left out, with the earlier ones
        of the same keys.
        """
        before, after = self._change.before, self._change.after
        assert before is not None
        assert after is not None
        empty = pa.schema([self._view.context.schema.field(name) for name in _WRITTEN]).empty_table()
        there = pa.concat_tables([empty, *self._rows(after, self._later, _WRITTEN, values=False)])
        was = pa.concat_tables([empty, *self._rows(before, self._earlier, _WRITTEN, values=False)])
        kept: Any = there.column(RECORD_KEY)
        written = kept.filter(pc.equal(there.column(COMMIT_TIME), self._change.instant))
        gone = was.column(RECORD_KEY).filter(pc.invert(pc.is_in(was.column(RECORD_KEY), kept)))
        keys = pa.chunked_array([*written.chunks, *gone.chunks], pa.string())
        old, new = (before, self._earlier), (after, self._later)
        yield from self._compared(*(next(self._of_keys(item, keys, state)) for item, state in (old, new)))

    def _compared(self, before: pa.Table, after: pa.Table) -> Iterator[pa.Table]:
        """What became of the rows of some keys: updates, deletes, then inserts."""
        places = paired(before.column(RECORD_KEY), after.column(RECORD_KEY))
        gone, kept = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
        for piece in _pieces(before, kept):
            yield from self._updated(before.take(piece), after.take(places[piece]))
        for piece in _pieces(before, gone):
            yield self._table(_ops(Op.DELETE, len(piece)), self._texts(before.take(piece)), None)
        new = np.setdiff1d(np.arange(after.num_rows), places[kept])
        for piece in _pieces(after, new):
            yield self._table(_ops(Op.INSERT, len(piece)), None, self._texts(after.take(piece)))

    def _updated(self, before: pa.Table, after: pa.Table) -> Iterator[pa.Table]:
        """Without those of which the stored row was kept, as where it had the greater ordering value."""
        texts = self._texts(before), self._texts(after)
        same = pc.equal(*texts)
        for name in (COMMIT_TIME, COMMIT_SEQNO):
            same = pc.and_(same, pc.equal(before.column(name), after.column(name)).combine_chunks())
        changed = pc.invert(pc.fill_null(same, False))
        old, new = (text.filter(changed) for text in texts)
        if len(old):
            yield self._table(_ops(Op.UPDATE, len(old)), old, new)

    def _of_records(self, records: pa.Table) -> Iterator[pa.Table]:
        """Records of a change log."""
        names = records.schema.names
        if OP not in names or (KEY not in names and AFTER not in names):
            raise self._unlike(f"a change log has the columns {', '.join(names)}")
        ops = records.column(OP).combine_chunks()
        known = pc.fill_null(pc.is_in(ops, _KNOWN), False)
        if not pc.all(known, min_count=0).as_py():
            raise self._unlike(f"a change log has the op {ops.filter(pc.invert(known))[0].as_py()!r}")
        before: Any = self._image(records.column(BEFORE)) if BEFORE in names else None
        after: Any = self._image(records.column(AFTER)) if AFTER in names else None
        if before is None:
            old = pc.is_in(ops, pa.array([Op.UPDATE.value, Op.DELETE.value]))
            before = self._looked_up(records, old, self._change.before, self._earlier)
        if after is None:
            new = pc.is_in(ops, pa.array([Op.INSERT.value, Op.UPDATE.value]))
            after = self._looked_up(records, new, self._change.after, self._later)
        yield self._table(ops, before, after)

    def _looked_up(
        self, records: pa.Table, wanted: Any, item: FileSlice | None, context: SliceContext
    ) -> pa.Array[Any]:
        """The rows, as JSON, of the keys of those records that are wanted; null for the others."""
        keys = records.column(KEY).combine_chunks().filter(wanted)
        texts: Any = pa.nulls(0, pa.string())
        if len(keys):
            if item is None:
                raise self._unlike("a change log without images is of a new file group")
            rows = next(self._of_keys(item, keys, context))
            places = paired(keys, rows.column(RECORD_KEY))
            if (places < 0).any():
                key = keys[int(np.flatnonzero(places < 0)[0])].as_py()
                raise self._unlike(f"the change log names the key {key!r}, which the file lacks")
            texts = pa.concat_arrays([self._texts(rows.take(piece)) for piece in _pieces(rows, places)])
        return _scattered(texts, wanted)

    def _image(self, images: Any) -> pa.Array[Any]:
        """Rows of a change log as JSON; null where there is none."""
        images = images.combine_chunks()
        there = images.is_valid()
        present = images.filter(there)
        rows = pa.Table.from_arrays(present.flatten(), schema=pa.schema(list(images.type)))
        known_as = self._view.context.columns(self._change.instant)
        rows = read_as(rows, self._images) if known_as is None else known_as.read(rows, self._images)
        rows = self._view.path_columns.put(rows, self._change.partition, self._images)
        return _scattered(json_objects(rows), there)

    def _written_keys(self, item: FileSlice) -> Any:
        """Keys of the rows and deletes of the commit."""
        snapshot = self._later.snapshot
        alone = FileSlice(item.partition, item.file_id, item.instant, None, self._change.logs)
        only = type(snapshot)(frozenset([self._change.instant]), None, self._change.instant)
        scan = scan_slice(self._storage, alone, only)
        with merged_log(self._storage, scan, self._later, [RECORD_KEY]) as log:
            return pa.chunked_array([chunk for part in log.parts for chunk in part.keys.chunks], pa.string())

    def _of_keys(self, item: FileSlice, keys: Any, *contexts: SliceContext) -> Iterator[pa.Table]:
        """The rows of a slice that have one of these keys, in each state."""
        names = [*_WRITTEN, *self._images.names]
        columns, schema = self._view.path_columns, self._view.context.schema
        target = pa.schema([schema.field(name) for name in names])
        for rows in rows_of_keys(self._storage, item, contexts, columns.stored(item.partition, names), keys):
            yield columns.put(rows, item.partition, target)

    def _rows(
        self, item: FileSlice, context: SliceContext, meta: tuple[str, ...] = (), *, values: bool = True
    ) -> Iterator[pa.Table]:
        """The rows of a slice in these meta columns and, with `values`, all others."""
        names = [*meta, *(self._images.names if values else ())]
        columns, schema = self._view.path_columns, self._view.context.schema
        target = pa.schema([schema.field(name) for name in names])
        for rows in read_slice(self._storage, item, context, columns.stored(item.partition, names)):
            yield columns.put(rows, item.partition, target)

    def _all(self, op: Op, rows: pa.Table) -> Iterator[pa.Table]:
        for piece in _pieces(rows, np.arange(rows.num_rows)):
            texts = self._texts(rows.slice(int(piece[0]), len(piece)))
            images = (texts, None) if op is Op.DELETE else (None, texts)
            yield self._table(_ops(op, len(texts)), *images)

    def _texts(self, rows: pa.Table) -> pa.Array[Any]:
        return json_objects(rows.select(self._images.names))

    def _table(self, ops: Any, before: Any, after: Any) -> pa.Table:
        none: Any = pa.nulls(len(ops), pa.string())
        times = pa.repeat(pa.scalar(self._change.instant, pa.string()), len(ops))
        images = [none if image is None else image for image in (before, after)]
        return pa.Table.from_arrays([ops, times, *images], schema=SCHEMA)

    def _unlike(self, why: str) -> TableError:
        change = self._change
        return TableError(
            f"the changes of commit {change.instant} in the file group {change.file_id} of partition "
            f"{change.partition!r} can't be told: {why}. Ask for changes after it, begin={change.instant}",
            instant=change.instant,
            file_id=change.file_id,
        )


def paired(keys: Any, stored: Any) -> Ints:
    """For each key the place of the stored row that has it, -1 for none; the second of equal keys gets the
    second of equal rows, and so on.
    """
    both = pa.chunked_array([*_chunks(keys), *_chunks(stored)], pa.string()).combine_chunks()
    codes = np.asarray(both.dictionary_encode("encode").indices).astype(np.int64)
    wanted, there = (_numbered(part, len(codes)) for part in (codes[: len(keys)], codes[len(keys) :]))
    if not len(there):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(there, kind="stable")
    at = np.minimum(np.searchsorted(there, wanted, sorter=order), len(order) - 1)
    places = order[at]
    return np.where(there[places] == wanted, places, -1).astype(np.int64)


def _numbered(codes: Ints, size: int) -> Ints:
    """Codes that are the same are counted, so that no two are."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    lengths = np.diff(starts, append=len(order))
    turns = np.empty(len(order), np.int64)
    turns[order] = np.arange(len(order)) - np.repeat(starts, lengths)
    return codes * max(size, 1) + turns


def _chunks(values: Any) -> list[Any]:
    return list(values.chunks) if isinstance(values, pa.ChunkedArray) else [values]


def _scattered(values: Any, there: Any) -> pa.Array[Any]:
    """The values, in their order, where `there` is true, null elsewhere."""
    mask: Bools = np.asarray(pc.fill_null(there, False))
    places = np.where(mask, np.cumsum(mask) - 1, 0)
    found: pa.Array[Any] = pa.concat_arrays([values]).take(pa.array(places, mask=~mask))
    return found


def _ops(op: Op, count: int) -> Any:
    return pa.repeat(pa.scalar(op.value, pa.string()), count)


def _pieces(rows: pa.Table, places: Ints) -> Iterator[Ints]:
    """The places of rows, as many at a time as become JSON at once."""
    step = max(1, rows.num_rows * _PIECE // max(1, rows.nbytes))
    for start in range(0, len(places), step):
        yield places[start : start + step]
