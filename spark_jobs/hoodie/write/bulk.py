"""All rows into new file groups (bulk_insert, insert_overwrite): no index, no small files; buckets by size,
rows in the order that the sort mode asks for.
"""

from __future__ import annotations

import math

from hoodie.config.key import Config
from hoodie.format.names import new_file_id
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.read.settings import MERGE_BUDGET
from hoodie.write.settings import SORT_MODE, SortMode
from hoodie.write.workload import Assignment, Bucket, Parallelism, Profile, balance_weights

#: rows in memory are about this many times larger than in a compressed file
COMPRESSION = 4


def bulk_assignment(
    profile: Profile, config: Config, parallelism: Parallelism, *, streamed: bool = False
) -> Assignment:
    """Buckets of about one file; the tasks roll files by their real size.

    A bucket's rows fit in memory, unless they are `streamed` from where they are to their file.
    """
    target = config[MAX_FILE_SIZE] * COMPRESSION
    if not streamed:
        target = min(target, config[MERGE_BUDGET] // 3)
    ordered = config[SORT_MODE] is SortMode.GLOBAL_SORT
    buckets: list[Bucket] = []
    inserts: dict[str, tuple[tuple[int, float], ...]] = {}
    ranges: dict[str, tuple[str, ...]] = {}
    for (partition, _), (rows, size) in sorted(profile.groups.items()):
        count = max(1, math.ceil(size / target))
        first = len(buckets)
        for _index in range(count):
            buckets.append(Bucket(len(buckets), partition, new_file_id(), None, rows // count, size // count))
        inserts[partition] = tuple((first + index, 1 / count) for index in range(count))
        if ordered and count > 1:
            ranges[partition] = _boundaries(profile.samples.get(partition, []), count)
    reducers, tasks = balance_weights([bucket.bytes + 1 for bucket in buckets], parallelism)
    return Assignment(tuple(buckets), {}, inserts, ranges, reducers, tasks)


def _boundaries(samples: list[tuple[str, float]], count: int) -> tuple[str, ...]:
    """Keys at which the next bucket begins, from weighted samples; may be fewer than count - 1."""
    ordered = sorted(samples)
    total = sum(weight for _, weight in ordered)
    out: list[str] = []
    seen = 0.0
    for key, weight in ordered:
        seen += weight
        if len(out) < count - 1 and seen >= total * (len(out) + 1) / count:
            out.append(key)
    return tuple(out)
