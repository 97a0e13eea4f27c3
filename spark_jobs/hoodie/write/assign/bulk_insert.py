"""All rows into new file groups (bulk_insert, insert_overwrite): no index, no small files; file-group writes
by size, rows in the order of the sort mode.
"""

from __future__ import annotations

import math

from hoodie.config.key import Config
from hoodie.format.names import new_file_id
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.read.settings import MERGE_BUDGET
from hoodie.write.assign.workload import (
    Assignment,
    FileGroupWrite,
    Parallelism,
    WorkloadProfile,
    balance_weights,
)
from hoodie.write.settings import SORT_MODE, SortMode

#: rows in memory are about this many times larger than in a compressed file
COMPRESSION = 4
#: sorting needs the rows and a copy of them
SORT_COPIES = 2


def bulk_assignment(
    profile: WorkloadProfile,
    config: Config,
    parallelism: Parallelism,
    *,
    streamed: bool = False,
    task_memory: int | None = None,
) -> Assignment:
    """File-group writes of about one file; the tasks roll files by their real size.

    The rows of one fit in memory, unless they are `streamed` from where they are to their file: rows to
    sort into the memory of a task, None for all that is allowed.
    """
    target = config[MAX_FILE_SIZE] * COMPRESSION
    if not streamed:
        target = min(target, config[MERGE_BUDGET] // 3)
        if config[SORT_MODE].sorts and task_memory is not None:
            target = min(target, task_memory // SORT_COPIES)
    ordered = config[SORT_MODE] is SortMode.GLOBAL_SORT
    writes: list[FileGroupWrite] = []
    inserts: dict[str, tuple[tuple[int, float], ...]] = {}
    ranges: dict[str, tuple[str, ...]] = {}
    for (partition, _), (rows, size) in sorted(profile.groups.items()):
        count = max(1, math.ceil(size / target))
        first = len(writes)
        for _index in range(count):
            writes.append(
                FileGroupWrite(len(writes), partition, new_file_id(), None, rows // count, size // count)
            )
        inserts[partition] = tuple((first + index, 1 / count) for index in range(count))
        if ordered and count > 1:
            ranges[partition] = _boundaries(profile.samples.get(partition, []), count)
    reducers, tasks = balance_weights([write.bytes + 1 for write in writes], parallelism)
    return Assignment(tuple(writes), {}, inserts, ranges, reducers, tasks)


def _boundaries(samples: list[tuple[str, float]], count: int) -> tuple[str, ...]:
    """Keys at which the next file group begins, from weighted samples; may be fewer than count - 1."""
    ordered = sorted(samples)
    total = sum(weight for _, weight in ordered)
    out: list[str] = []
    seen = 0.0
    for key, weight in ordered:
        seen += weight
        if len(out) < count - 1 and seen >= total * (len(out) + 1) / count:
            out.append(key)
    return tuple(out)
