"""Keys that only a log has: the index looks into base files, so it would take them for new ones.

Tables written with an index that sees logs (BUCKET, HBASE, Flink's) have such keys, in file groups without a
base file or beside one. An upsert must not touch their partitions.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow.compute

from hoodie.codec.arrays import whole
from hoodie.errors import TableError
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.format.names import LogFileName
from hoodie.index.settings import INDEX_TYPE
from hoodie.storage import Storage
from hoodie.table.commit_keys import logged_keys
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit_details import is_searched, stats_of
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.time import REQUESTED, InstantTime

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute

#: file ids of the bucket index: the bucket's number, and the rest of a UUID
_BUCKET = re.compile(r"000\d{5}-")


def check_log_only_keys(
    storage: Storage, timeline: Timeline, snapshot: TimelineView, slices: Mapping[str, Sequence[FileSlice]]
) -> None:
    """Raises TableError when a slice of these partitions has keys that the index can't see.

    Looked into are slices without base file and those that commits, or the form of file ids, make suspect.
    """
    logged = [slice_ for found in slices.values() for slice_ in found if slice_.logs]
    if not logged:
        return
    since = min((slice_.logs[0].slice for slice_ in logged), key=REQUESTED.key)
    inserted = _with_inserts(storage, timeline, since, {slice_.partition for slice_ in logged})
    for slice_ in logged:
        suspect = not inserted.isdisjoint(log.name for log in slice_.logs)
        if slice_.base is None or suspect or _BUCKET.match(slice_.file_id):
            hidden = _hidden_key(storage, slice_, snapshot)
            if hidden is not None:
                raise TableError(
                    f"file group {slice_.file_id} of partition {slice_.partition!r} has rows in its log only,"
                    f" such as key {hidden!r}: the index looks into base files and would insert them again. "
                    "Compact the table, then write again; a table of the BUCKET index is written with "
                    f"{INDEX_TYPE.name}=BUCKET",
                    partition=slice_.partition,
                    file_id=slice_.file_id,
                )


def _with_inserts(
    storage: Storage, timeline: Timeline, since: InstantTime, partitions: Collection[str]
) -> set[str]:
    """Names of log files of these partitions into which commits from `since` on report inserts."""
    names: set[str] = set()
    for instant in timeline.filter([Action.DELTACOMMIT], completed=True):
        if instant.is_before(since):
            continue
        for name, inserts in _written(storage, timeline, instant, partitions):
            if inserts and LogFileName.parse(name):
                names.add(name)
    return names


def _written(
    storage: Storage, timeline: Timeline, commit: Instant, partitions: Collection[str]
) -> Iterator[tuple[str, int]]:
    """Names of the files that a commit wrote, of these partitions at least, and the inserts into each."""
    data = timeline.read(commit, storage)
    if is_searched(data, partitions):
        with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
            groups = stats_of(data, partitions, timeline.value_of(commit)).values()
            yield from [
                (str(stat.get("path") or "").rpartition("/")[2], stat.get("numInserts") or 0)
                for group in groups
                for stat in group
            ]
            return
    for known in timeline.commit(commit, storage).write_stats:
        yield known.file_name, known.num_inserts


def _hidden_key(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> str | None:
    """A key of the slice's logged rows that its base file lacks, if there is one."""
    for logged in logged_keys(storage, slice_, snapshot):
        lacking = logged
        if slice_.base is not None and len(lacking):
            with open_base(storage, slice_.base, None) as reader:
                for stored in reader.record_keys(READ_BATCH_ROWS):
                    known = pc.is_in(lacking, value_set=whole(stored))
                    lacking = lacking.filter(pc.invert(known))
        if len(lacking):
            return str(lacking[0].as_py())
    return None
