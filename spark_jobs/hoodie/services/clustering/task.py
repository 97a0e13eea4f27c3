"""What a task does: rows of the slices of one group, or of a range of its order, written to new file
groups.

Rows in the order of their keys. What passes the memory budget is sorted in runs on disk, which are merged
range by range: no row is compared in Python.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import rows_of
from hoodie.engine.task import Task, task_numbers
from hoodie.errors import HoodieError
from hoodie.format.base_file import KeySummary
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import new_file_id, new_file_prefix
from hoodie.read.file_slice import read_slice
from hoodie.read.spill import SpillFolder
from hoodie.services.clustering.order import PLACE, Order, SortKeys
from hoodie.services.rewrite_slices import RewriteContext
from hoodie.storage import Storage
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.write.blobs import SUMMARY, error_message, message
from hoodie.write.files.handles import OutputFile, pieces

#: sorting needs the rows and a copy of them
_COPIES = 2
#: rows of a batch in a run; a range of the merge may begin anywhere in it
_RUN_BATCH_ROWS = 65536
#: rows of each run whose keys decide where the merge is cut
_SAMPLES = 2000


class SortedRows:
    """Add rows, then `stream` them sorted, once. A context manager, for the runs on disk.

    `sample` returns rows with the distribution of the values of a curve's columns; it is called only when not
    all rows fit and no `keys` are given.
    """

    def __init__(
        self,
        order: Order,
        budget: int,
        spill_path: str,
        sample: Callable[[], pa.Table],
        keys: SortKeys | None = None,
    ) -> None:
        self.rows = 0
        self._order = order
        self._keys = keys
        self._room = max(1, budget // _COPIES)
        self._spill_path = spill_path
        self._sample = sample
        self._held: list[pa.Table] = []
        self._bytes = 0
        self._folder: SpillFolder | None = None
        self._runs: list[pa.Table] = []
        self._run_bytes = 0

    def __enter__(self) -> SortedRows:
        return self

    def __exit__(self, *exc: object) -> None:
        self._runs = []
        if self._folder is not None:
            self._folder.close()

    @property
    def spilled(self) -> bool:
        return self._folder is not None

    def add(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        self._held.append(rows)
        self._bytes += rows.nbytes
        self.rows += rows.num_rows
        if self._bytes > self._room:
            self._spill()

    def stream(self, piece_bytes: int) -> Iterator[pa.Table]:
        """The rows in order, in tables of about this size."""
        if self._folder is None:
            held = self._take_held()
            if held is not None:
                keys = self._keys or SortKeys.of(self._order, held)
                yield from _sorted(keys, keys.with_keys(held), piece_bytes)
            return
        self._spill()
        keys = self._spill_keys()
        for part in self._ranges(keys):
            yield from _sorted(keys, part, piece_bytes)

    def _take_held(self) -> pa.Table | None:
        held = self._held
        self._held, self._bytes = [], 0
        return pa.concat_tables(held).combine_chunks() if held else None

    def _spill_keys(self) -> SortKeys:
        if self._keys is None:
            self._keys = SortKeys.of(self._order, self._sample() if self._order.curved else pa.table({}))
        return self._keys

    def _spill(self) -> None:
        """Write the rows in memory as a sorted run."""
        held = self._take_held()
        if held is None:
            return
        if self._folder is None:
            self._folder = SpillFolder(self._spill_path)
        keys = self._spill_keys()
        rows = keys.with_keys(held)
        path = os.path.join(self._folder.path, f"run-{len(self._runs)}.arrow")
        order = keys.indices(rows)
        with pa.ipc.new_file(path, rows.schema) as writer:
            for start in range(0, rows.num_rows, _RUN_BATCH_ROWS):
                writer.write_table(rows.take(order[start : start + _RUN_BATCH_ROWS]))
        self._run_bytes += rows.nbytes
        source: Any = pa.memory_map(path)
        self._runs.append(pa.ipc.open_file(source).read_all())

    def _ranges(self, keys: SortKeys) -> Iterator[pa.Table]:
        """Rows of all runs between two bounds, so few that they fit."""
        count = max(1, -(-self._run_bytes // self._room))
        step = max(1, self.rows // (_SAMPLES * len(self._runs)))
        names = list(keys.names)
        sample = pa.concat_tables(
            [run.select(names).take(np.arange(0, run.num_rows, step)) for run in self._runs]
        )
        cuts = _cuts(keys.quantiles(sample, [number / count for number in range(1, count)]))
        places = [0] * len(self._runs)
        for bound, behind in [*cuts, (None, False)]:
            parts = []
            for number, run in enumerate(self._runs):
                end = run.num_rows
                if bound is not None:
                    end = _first_not_before(keys, run, bound, places[number], behind)
                parts.append(run.slice(places[number], end - places[number]))
                places[number] = end
            # rows with one key may be many, but need no sorting
            yield from parts if behind else [pa.concat_tables(parts).combine_chunks()]


def _cuts(bounds: list[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], bool]]:
    """Where to cut: before each bound, and behind those that are there twice, since many rows have that
    key.
    """
    cuts: list[tuple[tuple[Any, ...], bool]] = []
    for bound in bounds:
        if not cuts or not _equal(cuts[-1][0], bound):
            cuts.append((bound, False))
        elif not cuts[-1][1]:
            cuts.append((bound, True))
    return cuts


def _equal(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return all(a.equals(b) for a, b in zip(left, right, strict=True))


def _sorted(keys: SortKeys, rows: pa.Table, piece_bytes: int) -> Iterator[pa.Table]:
    """The rows in order and without the keys that are not stored."""
    order = keys.indices(rows)
    if PLACE in keys.names:
        rows = rows.drop_columns([PLACE])
    step = rows_of(rows, piece_bytes)
    for start in range(0, rows.num_rows, step):
        yield rows.take(order[start : start + step])


def _first_not_before(keys: SortKeys, run: pa.Table, bound: tuple[Any, ...], start: int, behind: bool) -> int:
    """The first row of a sorted run, from `start` on, that is at or behind `bound`, or only those behind
    it.
    """
    low, high = start, run.num_rows
    while low < high:
        middle = (low + high) // 2
        if keys.at_least(run.slice(middle, 1), bound, behind)[0].as_py():
            high = middle
        else:
            low = middle + 1
    return low


#: rows that would make less than this share of another full file stay in the full one
_TAIL = 0.1


@dataclass(frozen=True)
class Share:
    """What one task writes: the rows of slices of one partition that lie from `low` on and before `high` in
    the order of `keys`, in `outputs` files. Without `keys` all rows, sorted by `order` if there is one.
    """

    partition: str
    slices: tuple[FileSlice, ...]
    outputs: int
    order: Order | None
    keys: SortKeys | None = None
    low: tuple[Any, ...] | None = None
    high: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class ClusterShares:
    """The function given to `map_batches`; a row of its input is the number of a share.

    `preserve`: rows keep their commit time and sequence number. Files end at `target_bytes` at the latest.
    """

    context: RewriteContext
    shares: tuple[Share, ...]
    target_bytes: int
    preserve: bool

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            for number in task_numbers(batches):
                stats = self.write(storage, self.shares[number], task)
                yield message(SUMMARY, {"stats": [stat.to_dict() for stat in stats]})
        except HoodieError as error:
            yield error_message(error)

    def write(self, storage: Storage, share: Share, task: Task) -> list[WriteStat]:
        """The new files of a share, none for one without rows."""
        started = time.monotonic()
        columns = self.context.carried()
        with _Files(self, storage, share.partition, task) as files:
            if share.order is None:
                for slice_ in share.slices:
                    for rows in read_slice(storage, slice_, self.context.slices, columns):
                        files.add(rows)
            else:
                self._sorted(storage, share, share.order, files)
            stats = files.close()
        millis = int((time.monotonic() - started) * 1000)
        return [replace(stat, runtime_stats=RuntimeStats(0, 0, millis)) for stat in stats]

    def _sorted(self, storage: Storage, share: Share, order: Order, files: _Files) -> None:
        slices, context = share.slices, self.context.slices
        columns = self.context.carried(*order.columns)
        rows = SortedRows(
            order,
            context.budget,
            context.spill_path,
            lambda: sample(storage, self.context, slices, order),
            share.keys,
        )
        with rows:
            for slice_ in slices:
                for table in read_slice(storage, slice_, context, columns):
                    rows.add(_within(share, table))
            files.expect(rows.rows, share.outputs)
            for table in rows.stream(files.step):
                files.add(table)


def sample(
    storage: Storage, context: RewriteContext, slices: tuple[FileSlice, ...], order: Order
) -> pa.Table:
    """The sort columns of rows that are evenly spread over the slices' base files; of slices that have none,
    over their logs.
    """
    columns, held, count, step = list(order.columns), [], 0, 1
    schema = pa.schema([context.file_schema.field(name) for name in columns])
    for slice_ in slices:
        read = replace(slice_, logs=()) if slice_.base else slice_
        for rows in read_slice(storage, read, context.slices, columns):
            held.append(rows.take(np.arange(0, rows.num_rows, step)))
            count += held[-1].num_rows
            if count > 2 * order.sample_size:
                # every other row from here on, and of those that are held
                thinned = pa.concat_tables(held)
                held, step = [thinned.take(np.arange(0, thinned.num_rows, 2))], step * 2
                count = held[0].num_rows
    return pa.concat_tables(held) if held else schema.empty_table()


def _within(share: Share, rows: pa.Table) -> pa.Table:
    """Those rows of a table that are the share's."""
    keys = share.keys
    if keys is None or (share.low is None and share.high is None):
        return rows
    keyed = keys.with_keys(rows)
    mask = np.ones(rows.num_rows, dtype=np.bool_)
    if share.low is not None:
        mask &= keys.at_least(keyed, share.low).to_numpy(zero_copy_only=False)
    if share.high is not None:
        mask &= ~keys.at_least(keyed, share.high).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(mask))


class _Files:
    """New file groups of a partition, one after the other. A context manager: leaving it abandons a file that
    a failure left open.
    """

    def __init__(self, work: ClusterShares, storage: Storage, partition: str, task: Task) -> None:
        self._work = work
        self._storage = storage
        self._partition = partition
        self._task = task
        self._prefix = new_file_prefix()
        self._stats: list[WriteStat] = []
        self._output: OutputFile | None = None
        self._left: int | None = None
        self._share: int | None = None
        self._written = 0

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._output is not None:
            self._output.abandon()

    @property
    def step(self) -> int:
        """Bytes of rows after which a file's size is looked at again."""
        return max(1, min(self._work.context.files.block_size, self._work.target_bytes // 2))

    def expect(self, rows: int, outputs: int) -> None:
        """Announces how many rows follow, for how many files of one size."""
        self._left, self._share = rows, -(-rows // max(1, outputs))

    def add(self, rows: pa.Table) -> None:
        for piece in pieces(rows, self.step):
            while piece.num_rows:
                output = self._open()
                count = piece.num_rows
                if self._share is not None:
                    count = min(count, self._share - output.rows)
                self._write(output, piece.slice(0, count))
                piece = piece.slice(count)
                if self._full(output):
                    self._close()

    def close(self) -> list[WriteStat]:
        self._close()
        return self._stats

    def _write(self, output: OutputFile, rows: pa.Table) -> None:
        output.summary.add(rows.column(RECORD_KEY))
        output.carry(rows, np.full(rows.num_rows, not self._work.preserve))
        output.counts.inserts += rows.num_rows
        if self._left is not None:
            self._left -= rows.num_rows

    def _full(self, output: OutputFile) -> bool:
        if self._share is not None and output.rows >= self._share:
            return True
        few = self._left is not None and self._left <= output.rows * _TAIL
        return output.size >= self._work.target_bytes and not few

    def _open(self) -> OutputFile:
        if self._output is None:
            context = self._work.context
            self._output = OutputFile(
                context,
                self._storage,
                instant=context.instant,
                partition=self._partition,
                file_id=new_file_id(self._prefix, len(self._stats)),
                task=self._task,
                base=None,
                summary=KeySummary(context.files.new_filter()),
                first_number=self._written,
            )
        return self._output

    def _close(self) -> None:
        if self._output is not None:
            self._written += self._output.rows
            self._stats.append(self._output.close())
            self._output = None
