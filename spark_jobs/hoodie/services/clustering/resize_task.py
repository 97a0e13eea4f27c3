"""What a task does with buckets of consistent hashing: a group's rows go to the buckets that it makes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import array, whole
from hoodie.engine.task import Task, task_numbers
from hoodie.errors import ConfigError, HoodieError
from hoodie.format.base_file import KeySummary
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.index.hashed_values import ring_hashes
from hoodie.index.settings import HASH_FIELDS
from hoodie.read.file_slice import read_slice
from hoodie.services.clustering.order import Order
from hoodie.services.clustering.sort import SortedRows
from hoodie.services.clustering.task import sample
from hoodie.services.rewrite_slices import RewriteContext
from hoodie.storage import Storage
from hoodie.table.hash_ring import Ring
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.write.blobs import SUMMARY, error_message, message
from hoodie.write.handles import OutputFile

#: numbers that the rows of one file may have before those of the next begin
_NUMBERS = 1 << 40


@dataclass(frozen=True)
class Resized:
    """One group: its slices, and the partition's ring before and after the clustering."""

    slices: tuple[FileSlice, ...]
    before: Ring
    after: Ring


@dataclass(frozen=True)
class ResizeBuckets:
    """The function given to `map_batches`; a row of its input is the number of a group. `fields` are those of
    the record key that are hashed. `preserve`: rows keep their commit time and sequence number.
    """

    context: RewriteContext
    groups: tuple[Resized, ...]
    fields: tuple[str, ...]
    order: Order | None
    preserve: bool

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            for number in task_numbers(batches):
                stats = self.write(storage, self.groups[number], task)
                yield message(SUMMARY, {"stats": [stat.to_dict() for stat in stats]})
        except HoodieError as error:
            yield error_message(error)

    def write(self, storage: Storage, group: Resized, task: Task) -> list[WriteStat]:
        """The files of a group's buckets; none for a bucket without rows."""
        started = time.monotonic()
        with _Buckets(self, storage, group, task) as buckets:
            for rows in self._rows(storage, group):
                buckets.add(rows)
            stats = buckets.close()
        millis = int((time.monotonic() - started) * 1000)
        return [replace(stat, runtime_stats=RuntimeStats(0, 0, millis)) for stat in stats]

    def _rows(self, storage: Storage, group: Resized) -> Iterator[pa.Table]:
        context, order, slices = self.context.slices, self.order, group.slices
        columns = self.context.carried(*(() if order is None else order.columns))
        stored = (rows for slice_ in slices for rows in read_slice(storage, slice_, context, columns))
        if order is None:
            yield from stored
            return
        with SortedRows(
            order, context.budget, context.spill_path, lambda: sample(storage, self.context, slices, order)
        ) as ordered:
            for rows in stored:
                ordered.add(rows)
            yield from ordered.stream(self.context.files.block_size)


class _Buckets:
    """The files that are written, by the number of their bucket. A context manager: leaving it abandons those
    that a failure left open.
    """

    def __init__(self, work: ResizeBuckets, storage: Storage, group: Resized, task: Task) -> None:
        self._work = work
        self._storage = storage
        self._group = group
        self._task = task
        numbers = (group.before.number(slice_.file_id) for slice_ in group.slices)
        self._known = np.array([number for number in numbers if number is not None])
        self._open: dict[int, OutputFile] = {}

    def __enter__(self) -> _Buckets:
        return self

    def __exit__(self, *exc: object) -> None:
        for output in self._open.values():
            output.abandon()

    def add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        keys = whole(rows.column(RECORD_KEY))
        hashes = ring_hashes(keys, self._work.fields)
        elsewhere = ~np.isin(self._group.before.place(hashes), self._known)
        if elsewhere.any():
            partition = self._group.before.partition
            raise ConfigError(
                f"key {str(keys.filter(array(elsewhere))[0].as_py())!r} of partition {partition!r} is not in "
                f"the bucket of its hash; set {HASH_FIELDS.name} as when the table was made",
                partition=partition,
            )
        places = self._group.after.place(hashes)
        for number in np.unique(places).tolist():
            mine = rows if (places == number).all() else rows.filter(array(places == number))
            output = self._output(number)
            output.summary.add(mine.column(RECORD_KEY))
            output.carry(mine, np.full(mine.num_rows, not self._work.preserve))
            output.counts.inserts += mine.num_rows

    def close(self) -> list[WriteStat]:
        stats = []
        for number in sorted(self._open):
            stats.append(self._open[number].close())
            del self._open[number]
        return stats

    def _output(self, number: int) -> OutputFile:
        if number not in self._open:
            context = self._work.context
            self._open[number] = OutputFile(
                context,
                self._storage,
                instant=context.instant,
                partition=self._group.after.partition,
                file_id=self._group.after.nodes[number].file_id,
                task=self._task,
                base=None,
                summary=KeySummary(context.files.new_filter()),
                first_number=len(self._open) * _NUMBERS,
            )
        return self._open[number]
