"""What a clustering does with buckets of consistent hashing: large ones are halved, small neighbours merged.

As Apache Hudi 0.15.0 (BaseConsistentHashingBucketClusteringPlanStrategy), but buckets that are neither are
written anew only where rows are to be sorted, and are not sorted so yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hoodie.config.key import Config
from hoodie.errors import TableError
from hoodie.format.names import new_file_prefix
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.index.settings import is_consistent
from hoodie.services.clustering import strategy
from hoodie.services.clustering.settings import (
    MAX_BUCKETS,
    MERGE_THRESHOLD,
    MIN_BUCKETS,
    SORT_COLUMNS,
    SPLIT_THRESHOLD,
)
from hoodie.services.service_table import ServiceTable
from hoodie.table.buckets import has_rings
from hoodie.table.hash_ring import Node, Ring
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline
from hoodie.timeline.models.clustering import ClusteringGroup
from hoodie.write.hash_rings import RingChange

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
