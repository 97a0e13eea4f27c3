"""Clustering of consistent hashing: large buckets are halved, small neighbours merged.

As Apache Hudi 0.15.0 (BaseConsistentHashingBucketClusteringPlanStrategy). Other buckets are rewritten only
if rows are to be sorted and are not sorted yet. In a task a group's rows go to the buckets that the task
makes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Bools, array, whole
from hoodie.codec.hashing import UInt32Array
from hoodie.config.key import Config
from hoodie.engine.task import Task, task_numbers
from hoodie.errors import ConfigError, HoodieError, TableError
from hoodie.format.base_file import KeySummary
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.format.names import new_file_prefix
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.index.hashed_values import HashedValues, Hashing
from hoodie.index.settings import HASH_FIELDS, is_consistent
from hoodie.read.file_slice import read_slice
from hoodie.services.clustering import strategy
from hoodie.services.clustering.order import Order
from hoodie.services.clustering.settings import (
    MAX_BUCKETS,
    MERGE_THRESHOLD,
    MIN_BUCKETS,
    SORT_COLUMNS,
    SPLIT_THRESHOLD,
)
from hoodie.services.clustering.task import SortedRows, sample
from hoodie.services.rewrite_slices import RewriteContext
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.buckets import has_rings
from hoodie.table.hash_ring import Node, Ring
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import RuntimeStats, WriteStat
from hoodie.timeline.models.clustering import ClusteringGroup
from hoodie.write.blobs import SUMMARY, error_message, message
from hoodie.write.files.handles import OutputFile
from hoodie.write.participants.hash_rings import RingChange

Settled = Callable[[Sequence[FileSlice], int], bool]


def ringed(target: ServiceTable, timeline: Timeline) -> bool:
    """Is it a table of consistent hashing, also where it has no rows yet."""
    return has_rings(target.storage, timeline) or is_consistent(target.config)


@dataclass(frozen=True)
class Limits:
    """Bytes above which a bucket is split and up to which it is merged, and how many a partition may have."""

    split: float
    merge: float
    most: int
    least: int

    @classmethod
    def of(cls, config: Config, ring: Ring) -> Limits:
        size = config[MAX_FILE_SIZE]
        return cls(
            split=size * config[SPLIT_THRESHOLD],
            merge=size * config[MERGE_THRESHOLD],
            most=max(config[MAX_BUCKETS] or 0, ring.buckets),
            least=min(config[MIN_BUCKETS] or ring.buckets, ring.buckets),
        )


def groups(
    ring: Ring, slices: Sequence[FileSlice], config: Config, settled: Settled
) -> list[ClusteringGroup]:
    """Of one partition: `slices` are the latest of its buckets, those that are in other plans left out.
    Raises TableError for a file group that is in no bucket.
    """
    limits, numbered = Limits.of(config, ring), _numbered(ring, slices)
    count, split = len(ring.nodes), dict(_split(ring, numbered, limits))
    left = {number: item for number, item in numbered.items() if number not in split}
    merged = list(_merged(count, left, limits, count + len(split) - limits.least))
    found = [_group(ring, [numbered[number]], nodes, 2, config) for number, nodes in split.items()]
    for run in merged:
        found.append(_group(ring, [left.pop(number) for number in run], ring.merge(run), 1, config))
    if config[SORT_COLUMNS]:
        for number, item in left.items():
            if not settled([item], 1):
                nodes = [Node(ring.nodes[number].end, new_file_prefix())]
                found.append(_group(ring, [item], nodes, 1, config))
    return found


def _numbered(ring: Ring, slices: Sequence[FileSlice]) -> dict[int, FileSlice]:
    """Slices by the number of their bucket, ascending."""
    found: dict[int, FileSlice] = {}
    for item in slices:
        number = ring.number(item.file_id)
        if number is None:
            raise TableError(
                f"file group {item.file_id} of partition {item.partition!r} is not in that partition's hash "
                "ring: a writer that did not know the table's index made it. Write the partition anew "
                "(insert_overwrite)",
                partition=item.partition,
                file_id=item.file_id,
            )
        found[number] = item
    return dict(sorted(found.items()))


def _split(ring: Ring, slices: dict[int, FileSlice], limits: Limits) -> Iterator[tuple[int, list[Node]]]:
    """(number of a bucket, the changes that halve it) of those that are too large, as long as there may be
    more buckets.
    """
    slots = limits.most - len(ring.nodes)
    for number, item in slices.items():
        if slots <= 0:
            return
        nodes = ring.split(number) if item.size > limits.split else []
        if nodes:
            slots -= 1
            yield number, nodes


def _merged(count: int, slices: dict[int, FileSlice], limits: Limits, slots: int) -> Iterator[list[int]]:
    """Runs of neighbours in the circle of `count` buckets that are small enough to be one, as long as there
    may be fewer buckets.
    """
    small = {number: item.size for number, item in slices.items() if item.size <= limits.merge}
    for first in list(small):
        run = _run(first, small, count, limits.merge, slots) if first in small else []
        if len(run) > 1:
            slots -= len(run) - 1
            for number in run:
                del small[number]
            yield run


def _run(first: int, sizes: Mapping[int, int], count: int, most: float, slots: int) -> list[int]:
    """A bucket with its neighbours, those before it first, up to the one that makes them too large."""
    run, total = [first], sizes[first]
    for step in (-1, 1):
        while total <= most and len(run) <= slots:
            near = (run[0 if step < 0 else -1] + step) % count
            if near in run or near not in sizes:
                break
            run.insert(0 if step < 0 else len(run), near)
            total += sizes[near]
    return run


def _group(
    ring: Ring, slices: list[FileSlice], nodes: list[Node], outputs: int, config: Config
) -> ClusteringGroup:
    change = RingChange(ring.partition, tuple(nodes), ring.sequence)
    return replace(strategy.group(slices, outputs, config), extra_metadata=change.to_metadata())


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
    the record key that are hashed, as `hashing` says. `preserve`: rows keep their commit time and sequence
    number.
    """

    context: RewriteContext
    groups: tuple[Resized, ...]
    fields: tuple[str, ...]
    hashing: Hashing
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
        hashes = self._hashes(keys)
        elsewhere = self._elsewhere(hashes)
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

    def _hashes(self, keys: pa.Array[Any]) -> UInt32Array:
        """By the table's rule, or by the other one where that says that a key is in these buckets."""
        fields, hashing = self._work.fields, self._work.hashing
        hashed = HashedValues.of(keys, fields, hashing.rule)
        hashes, places = hashed.joined_hashes(), hashed.doubtful
        if hashing.either and len(places):
            others = hashed.of_doubtful(fields, hashing.rule.other).joined_hashes()
            hashes[places] = np.where(self._elsewhere(hashes[places]), others, hashes[places])
        return hashes

    def _elsewhere(self, hashes: UInt32Array) -> Bools:
        """Which of them are in none of the group's buckets."""
        found: Bools = ~np.isin(self._group.before.place(hashes), self._known)
        return found

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
