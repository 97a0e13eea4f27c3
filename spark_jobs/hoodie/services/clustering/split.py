"""Shares of a plan's groups: one task each, or several where the engine has more cores than there are groups.

A sorted group is cut into ranges of its order, found in a sample of its rows. Each task reads all of the
group and keeps its range: cores that would be idle otherwise read, and the writing, which takes longest, is
divided. Rows that are not sorted are divided by slices.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.engine import Engine
from hoodie.engine.task import Task, task_numbers
from hoodie.errors import HoodieError
from hoodie.services.clustering.order import Order, SortKeys
from hoodie.services.clustering.task import Share, sample
from hoodie.services.rewrite_slices import PlanSlice, RewriteContext, run_tasks
from hoodie.storage import Storage
from hoodie.table.view import FileSlice
from hoodie.timeline.models.clustering import ClusteringGroup, ClusteringPlan, SliceInfo
from hoodie.write.blobs import SUMMARY, error_message, message


def shares_of(
    engine: Engine, storage: Storage, context: RewriteContext, plan: ClusteringPlan, order: Order | None
) -> tuple[Share, ...]:
    """What the tasks write. Raises TableError when a file of the plan is missing."""
    whole = [
        share for group in plan.groups for share in _by_partition(storage, context.base_path, group, order)
    ]
    spare = engine.parallelism // max(1, len(whole))
    if spare < 2:
        return tuple(whole)
    if order is None:
        return tuple(part for share in whole for part in _by_slices(share, spare))
    cut = [share for share in whole if share.outputs > 1]
    bounds = _bounds(engine, context, cut, order, spare)
    out = [share for share in whole if share.outputs == 1]
    for share, (keys, found) in zip(cut, bounds, strict=True):
        out += _by_ranges(share, keys, found)
    return tuple(out)


def planned(info: SliceInfo) -> PlanSlice:
    return PlanSlice(
        "clustering",
        "cluster",
        info.partition_path,
        info.file_id,
        None,
        info.base_name,
        info.log_names,
    )


def _by_partition(
    storage: Storage, base_path: str, group: ClusteringGroup, order: Order | None
) -> Iterator[Share]:
    """Strategies that group by partition make one share a group; others may mix them."""
    slices: dict[str, list[FileSlice]] = {}
    for info in group.slices:
        found = planned(info).found(storage, base_path)
        slices.setdefault(found.partition, []).append(found)
    outputs = -(-group.outputs // max(1, len(slices)))
    for partition, found_slices in slices.items():
        yield Share(partition, tuple(found_slices), outputs, order)


def _by_slices(share: Share, most: int) -> Iterator[Share]:
    """Neighbouring slices together, of about equal sizes, at most one share a file to be made."""
    count = min(most, share.outputs, len(share.slices))
    total, done = sum(map(_size, share.slices)), 0
    parts: list[list[FileSlice]] = [[] for _ in range(count)]
    for slice_ in share.slices:
        parts[min(count - 1, done * count // max(1, total))].append(slice_)
        done += _size(slice_)
    for part in parts:
        if part:
            yield Share(share.partition, tuple(part), -(-share.outputs // count), None)


def _size(slice_: FileSlice) -> int:
    return (slice_.base.size if slice_.base else 0) + sum(log.size for log in slice_.logs)


def _by_ranges(share: Share, keys: SortKeys, bounds: Sequence[tuple[Any, ...]]) -> Iterator[Share]:
    count = len(bounds) + 1
    lows, highs = [None, *bounds], [*bounds, None]
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        outputs = _files_before(share, number + 1, count) - _files_before(share, number, count)
        yield Share(share.partition, share.slices, max(1, outputs), share.order, keys, low, high)


def _files_before(share: Share, number: int, count: int) -> int:
    """Files that the first `number` of `count` ranges of a share make."""
    return share.outputs * number // count


def _bounds(
    engine: Engine, context: RewriteContext, shares: Sequence[Share], order: Order, most: int
) -> list[tuple[SortKeys, list[tuple[Any, ...]]]]:
    task = FindBounds(context, tuple(shares), order, most)
    answers = run_tasks(engine, task, len(shares), "groups were to be sampled")
    # pickles of our own tasks
    found = {answer["share"]: pickle.loads(base64.b64decode(answer["bounds"])) for answer in answers}
    return [found[number] for number in range(len(shares))]


@dataclass(frozen=True)
class FindBounds:
    """The function given to `map_batches`: where shares are cut, so that each range has its part of the
    files.
    """

    context: RewriteContext
    shares: tuple[Share, ...]
    order: Order
    most: int

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            for number in task_numbers(batches):
                content = base64.b64encode(pickle.dumps(self.find(storage, self.shares[number])))
                yield message(SUMMARY, {"share": number, "bounds": content.decode()})
        except HoodieError as error:
            yield error_message(error)

    def find(self, storage: Storage, share: Share) -> tuple[SortKeys, list[tuple[Any, ...]]]:
        rows = sample(storage, self.context, share.slices, self.order)
        keys = SortKeys.of(self.order, rows)
        count = min(self.most, share.outputs)
        parts = [_files_before(share, number, count) / share.outputs for number in range(1, count)]
        return keys, keys.quantiles(keys.with_keys(rows), parts)
