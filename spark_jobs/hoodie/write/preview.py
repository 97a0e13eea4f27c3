"""What a write would do, as its first pass found: the answer of a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hoodie.config.cores import usable_cores
from hoodie.storage import Storage
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice
from hoodie.write.cost import new_bytes, rewritten_bytes
from hoodie.write.operation import Operation, PlannedPartition
from hoodie.write.workload import FileGroupWrite, WorkloadProfile


def planned_partitions(
    storage: Storage, operation: Operation, profile: WorkloadProfile, writes: Sequence[FileGroupWrite]
) -> list[PlannedPartition]:
    """By partition path. Opens the footers of the base files that would be replaced; nothing is written."""
    known, new = Counter[str](), Counter[str]()
    slices = profile.updated
    for (partition, file_id), (rows, _) in profile.groups.items():
        (known if (partition, file_id) in slices else new)[partition] += rows
    left = Counter[str]()
    for (partition, _), rows in profile.moved.items():
        left[partition] += rows
    files, sizes = Counter[str](), Counter[str]()
    deletes = not operation.brings_rows
    for write in writes:
        if deletes and write.slice is None:
            continue
        files[write.partition] += 1
        sizes[write.partition] += new_bytes(write) + rewritten_bytes(write)
    replaced = _rows(storage, (found for group in profile.replaced.values() for found in group))
    return [
        PlannedPartition(
            partition,
            inserts=0 if deletes else new[partition],
            updates=0 if deletes else known[partition],
            deletes=known[partition] if deletes else left[partition],
            files=files[partition],
            bytes=sizes[partition],
            replaced_groups=len(profile.replaced.get(partition, ())),
            replaced_rows=replaced[partition],
            replaced_bytes=sum(found.size for found in profile.replaced.get(partition, ())),
        )
        for partition in sorted({*known, *new, *files, *profile.replaced})
    ]


def _rows(storage: Storage, slices: Iterable[FileSlice]) -> Counter[str]:
    """Rows of the base files, by partition."""

    def count(found: FileSlice) -> tuple[str, int]:
        if found.base is None:
            return found.partition, 0
        with open_base(storage, found.base, None) as reader:
            return found.partition, reader.rows

    total = Counter[str]()
    with ThreadPoolExecutor(usable_cores()) as pool:
        for partition, rows in pool.map(count, slices):
            total[partition] += rows
    return total
