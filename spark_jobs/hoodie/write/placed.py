"""Which file groups the rows of a write go to where the index knows it from their keys.

A row that is put into another file group than the index's is never found again, so the table's files are
compared with the index before anything is written.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import array, whole
from hoodie.errors import ConfigError, TableError
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.index import PlacingIndex
from hoodie.storage import Storage
from hoodie.table.buckets import has_rings
from hoodie.table.handle import Table
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.write.log_keys import logged_keys
from hoodie.write.plan import WritePlan
from hoodie.write.workload import WorkloadProfile

#: stored keys that are compared where the table does not remember its index: of two numbers of buckets one of
#: which is twice the other, half of the keys have the same bucket
_ENOUGH_KEYS = 64
_MOST_FILES = 16


def place_groups(table: Table, plan: WritePlan, index: PlacingIndex, profile: WorkloadProfile) -> None:
    """Count the profile's rows by file group: those that are there, or new ones. Keys to delete of new
    ones are missing.

    Raises ConfigError where the file groups of the table are not the index's, TableError where two have the
    same number, and where a new one would be out of sight.
    """
    index.load({*profile.slices, *(partition for partition, _ in profile.numbered)})
    replaces = plan.context.operation.replaces
    # what a ring lacks may be overwritten
    spared = index.ringed and replaces and has_rings(table.storage, plan.timeline)
    slices = {} if spared else profile.slices
    there = {partition: _numbers(index, found) for partition, found in slices.items()}
    if plan.new_properties is None:
        _check(table, plan, index, profile)
    if replaces:
        there = {}
    profile.groups.clear()
    shown = {(name, slice_.file_id) for name, group in profile.slices.items() for slice_ in group}
    for (partition, number), total in sorted(profile.numbered.items()):
        known = there.get(partition, {}).get(int(number))
        if known is None and not plan.context.operation.brings_rows:
            profile.missing += total[0]
        file_id = known or index.new_file_id(partition, int(number))
        used = (partition, file_id) in shown or (partition, file_id) in plan.context.snapshot.replaced
        if known is None and used and plan.context.operation.brings_rows:
            raise _replaced(partition, file_id)
        profile.file_ids[partition, number] = file_id
        profile.groups[partition, file_id] = total


def _replaced(partition: str, file_id: str) -> TableError:
    return TableError(
        f"file group {file_id} of partition {partition!r} was replaced, or is by this write, and the hash "
        "ring of the partition has it still: Apache Hudi leaves it so when it overwrites or deletes a "
        "partition. Rows that are put there would not be seen. Overwrite the partition here "
        "(insert_overwrite), which renews its ring",
        partition=partition,
        file_id=file_id,
    )


def _numbers(index: PlacingIndex, slices: list[FileSlice]) -> dict[int, str]:
    """File ids by number."""
    found: dict[int, str] = {}
    for slice_ in slices:
        partition, file_id = slice_.partition, slice_.file_id
        number = _number(index, slice_)
        if found.setdefault(number, file_id) != file_id:
            raise TableError(
                f"partition {partition!r} has two file groups of bucket {number}, {found[number]} and "
                f"{file_id}: a writer that did not know the table's index made one of them. Write the "
                "partition anew (insert_overwrite)",
                partition=partition,
                file_id=file_id,
            )
    return found


def _check(table: Table, plan: WritePlan, index: PlacingIndex, profile: WorkloadProfile) -> None:
    """Raises ConfigError where stored keys are not in the file groups that the index says.

    Lists all partitions, and reads keys of some files, unless the table's properties say that it was made
    with this index.
    """
    persisted = index.persisted
    if persisted and all(table.properties.get(name) == text for name, text in persisted.items()):
        return
    stored: list[tuple[str, int, pa.Array[Any]]] = []
    snapshot = plan.context.snapshot
    for number, slice_ in _to_compare(table, plan, index, profile)[:_MOST_FILES]:
        stored.append((slice_.partition, number, _some_keys(table.storage, slice_, snapshot)))
        if sum(len(keys) for _, _, keys in stored) >= _ENOUGH_KEYS:
            break
    for partition, number, keys in stored:
        elsewhere = index.place(partition, keys) != number
        if elsewhere.any():
            raise ConfigError(
                f"{table.base_path} was made with other settings than the index {type(index).__name__} has "
                f"now: file group {number} of partition {partition!r} has keys such as "
                f"{str(keys.filter(array(elsewhere))[0].as_py())!r}; "
                f"{index.advice([(number, keys) for _, number, keys in stored])}",
                path=table.base_path,
            )


def _to_compare(
    table: Table, plan: WritePlan, index: PlacingIndex, profile: WorkloadProfile
) -> list[tuple[int, FileSlice]]:
    """All file groups, the greatest numbers first: file groups beyond a number of buckets show that it only
    divides the table's, the keys of any show other differences. Where rings have the numbers, any file groups
    do, of the write's partitions or of another one.
    """
    listing, snapshot = table.listing(), plan.context.snapshot
    slices = [slice_ for found in profile.slices.values() for slice_ in found]
    others = [] if index.ringed and slices else listing.partitions()
    others = [name for name in others if name not in profile.slices]
    for partition in others if index.ringed else listing.many(others):
        slices += merged_slices(snapshot, listing.files, partition)
        if index.ringed and slices:
            break
    ringed = index.ringed and has_rings(table.storage, plan.timeline)
    numbered = [
        (index.number(slice_.partition, slice_.file_id) if ringed else _number(index, slice_), slice_)
        for slice_ in slices
    ]
    known = [(number, slice_) for number, slice_ in numbered if number is not None]
    return sorted(known, key=lambda item: (-item[0], -item[1].size))


def _some_keys(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> pa.Array[Any]:
    if slice_.base is not None:
        with open_base(storage, slice_.base, None) as reader:
            keys: Any = next(reader.record_keys(READ_BATCH_ROWS), None)
    else:
        keys = next(logged_keys(storage, slice_, snapshot), None)
    if keys is None:
        none: pa.Array[Any] = pa.array([], pa.string())
        return none
    return whole(keys).slice(0, _ENOUGH_KEYS)


def _number(index: PlacingIndex, slice_: FileSlice) -> int:
    """Raises ConfigError for a file group of another index."""
    number = index.number(slice_.partition, slice_.file_id)
    if number is not None:
        return number
    raise ConfigError(
        f"the index {type(index).__name__} can't be used: the table is none of the BUCKET index with these "
        f"settings, as file group {slice_.file_id} of partition {slice_.partition!r} {index.unknown}",
        partition=slice_.partition,
        file_id=slice_.file_id,
    )
