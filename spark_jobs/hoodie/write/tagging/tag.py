"""Tagging: the index finds the file groups of staged rows. The driver lists their partitions, once.

Each file that may contain the keys is opened once, whatever the number of input partitions. Few keys, which
the driver has from the first pass, are looked up in threads of the driver. Many keys, or keys whose look-up
there would take longer than a job, are looked up in tasks, each with the keys for its files (`locate`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.engine.local import LocalEngine
from hoodie.index import Index, Scope
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.partition import PARTITION_FILE
from hoodie.table.view import FileSlice, merged_slices
from hoodie.timeline.time import NO_TIME, REQUESTED
from hoodie.write.assign.workload import Parallelism, WorkloadProfile, balance_weights, slice_to_json
from hoodie.write.blobs import (
    HITS,
    KEYS,
    MORE_KEYS,
    STAGED_SCHEMA,
    answers,
    raise_errors,
)
from hoodie.write.context import WriteContext
from hoodie.write.input.stage import check_apart, check_partition
from hoodie.write.settings import Known
from hoodie.write.tagging.locate import LocateKeys, MergeLocations, RouteKeys, Unit, located_bytes
from hoodie.write.tagging.record_locations import Copies

#: record keys are about this part of a base file
_KEY_SHARE = 8
#: estimates: bytes of keys that one core reads and compares in a second, files that it opens in a second, and
#: seconds that a job takes beside that
_BYTES_A_SECOND, _FILES_A_SECOND, _JOB_SECONDS = 100 << 20, 200, 0.5
#: a look-up that takes no longer is done by one thread
_THREADS_SECONDS = 0.05
#: bytes of stored keys for which another task is started
_UNIT_BYTES = 4 << 20
#: answers of at most so many bytes are sent to every task; rows are shuffled to larger ones
FEW_BYTES = 64 << 20

BlobId = tuple[int, int, str]
#: slices by label, from one to before another, for the keys of a partition by its number, or of all (None)
Group = tuple[int | None, int, int]


@dataclass(frozen=True)
class Tags:
    """Where the index found the rows of each blob, as `RecordLocations`: in `hits`, or in the frame.

    Labels are positions in `slices`. Both are None where the table has no slices to search: all rows are new.
    """

    slices: tuple[FileSlice, ...] = ()
    hits: Mapping[BlobId, bytes] | None = None
    frame: Frame | None = None
    few: bool = True

    @property
    def searched(self) -> bool:
        return self.hits is not None or self.frame is not None

    def collected(self, engine: Engine) -> Mapping[BlobId, bytes]:
        """The hits, in the driver."""
        if self.hits is not None or self.frame is None:
            return self.hits or {}
        return _by_blob(engine.collect(self.frame))


def list_slices(table: Table, context: WriteContext, profile: WorkloadProfile) -> None:
    """Set the profile's slices, by partition of its rows. Raises InputError for bad partition paths."""
    listing = table.listing()
    entries = listing.many(_partitions(context, listing, profile))
    brings_rows = context.operation.brings_rows
    for partition in profile.partitions:
        if partition and brings_rows:
            check_partition(table, partition, context.keys.partition_fields, entries[partition])
    for partition, files in entries.items():
        slices = merged_slices(context.snapshot, listing.files, partition)
        profile.listed.add(partition)
        if slices or brings_rows:
            profile.slices[partition] = slices
        if slices and not any(item.name == PARTITION_FILE for item in files):
            profile.unmarked.add(partition)
    check_apart(profile.slices)


def _partitions(context: WriteContext, listing: FileListing, profile: WorkloadProfile) -> list[str]:
    if context.index is None or context.index.scope is not Scope.TABLE or not profile.partitions:
        return profile.partitions
    own = profile.partitions if context.operation.brings_rows else []
    return sorted({*listing.partitions(), *own})


@contextlib.contextmanager
def tagged(
    engine: Engine, staged: Frame, rows: list[dict[str, Any]], context: WriteContext, profile: WorkloadProfile
) -> Iterator[Tags]:
    """Look up the keys of the staged rows, and count the profile's rows by file group. `rows` are those of
    the frame that the driver has: summaries, and keys. Raises the errors of the index.
    """
    slices, groups = asked(context, profile)
    if not groups:
        _count(profile, context, slices, ())
        yield Tags(slices)
        return
    summaries = raise_errors(rows)
    key_bytes = sum(summary["key_bytes"] for summary in summaries)
    work = _Work(context, profile, slices, groups, key_bytes, profile.partitions)
    on_disk = context.table.storage().local
    alone = on_disk and work.short
    local = LocalEngine(1) if alone else LocalEngine().for_storage(local=on_disk)
    cores, tasks = local.parallelism, len(summaries)
    here = not any(summary["more_keys"] for summary in summaries)
    few = here and work.seconds(cores) <= work.seconds(engine.parallelism) + _JOB_SECONDS
    if few or (here and context.index is not None and context.index.prefers_driver(slices)):
        keys = pa.Table.from_pylist([row for row in rows if row["kind"] == KEYS], STAGED_SCHEMA)
        found = local.collect(work.plan(cores, tasks).run(local, local.frame(keys)))
        _count(profile, context, slices, raise_errors(found))
        yield Tags(slices, _by_blob(row for row in found if row["kind"] == HITS))
        return
    every = engine.spread(engine.filter(staged, "kind", (KEYS, MORE_KEYS)))
    frame = engine.persist(work.plan(engine.parallelism, tasks).run(engine, every))
    try:
        found = answers(engine, frame)
        _count(profile, context, slices, found)
        few = sum(summary["bytes"] for summary in found) <= FEW_BYTES
        yield Tags(slices, None, engine.filter(frame, "kind", (HITS,)), few)
    finally:
        engine.unpersist(frame)


def _by_blob(rows: Iterable[dict[str, Any]]) -> dict[BlobId, bytes]:
    return {(row["task"], row["number"], row["digest"]): row["payload"] for row in rows}


def asked(context: WriteContext, profile: WorkloadProfile) -> tuple[tuple[FileSlice, ...], list[Group]]:
    """(slices by label, groups of them that the index searches)."""
    index = context.index
    assert index is not None
    if index.scope is Scope.TABLE:
        slices = _oldest_first(index, [item for group in profile.slices.values() for item in group])
        return slices, [(None, 0, len(slices))] if slices else []
    labelled: list[FileSlice] = []
    groups: list[Group] = []
    for code, partition in enumerate(profile.partitions):
        found = _oldest_first(index, profile.slices.get(partition, ()))
        if found:
            groups.append((code, len(labelled), len(labelled) + len(found)))
            labelled += found
    return tuple(labelled), groups


def _oldest_first(index: Index, slices: Sequence[FileSlice]) -> tuple[FileSlice, ...]:
    """The slices that the index searches; of several that contain a key the last one is the youngest."""
    seen = [slice_ for slice_ in slices if slice_.base or index.sees_logs]
    return tuple(
        sorted(
            seen,
            key=lambda slice_: (
                REQUESTED.key(slice_.base.instant if slice_.base else NO_TIME),
                slice_.file_id,
            ),
        )
    )


@dataclass(frozen=True)
class _Located:
    """The steps of `locate`."""

    route: RouteKeys
    locate: LocateKeys
    merge: MergeLocations

    def run(self, engine: Engine, keys: Frame) -> Frame:
        routed = engine.map_batches(keys, self.route, STAGED_SCHEMA)
        by_files = engine.shuffle(routed, "reducer", self.route.count, "reducer")
        located = engine.map_batches(by_files, self.locate, STAGED_SCHEMA)
        by_task = engine.shuffle(located, "reducer", self.locate.reducers, "task")
        return engine.map_batches(by_task, self.merge, STAGED_SCHEMA)


@dataclass(frozen=True)
class _Work:
    context: WriteContext
    profile: WorkloadProfile
    slices: tuple[FileSlice, ...]
    groups: list[Group]
    key_bytes: int
    partitions: list[str]

    def seconds(self, cores: int) -> float:
        """An estimate of the time, without that of starting a job."""
        if self._key_parts > 1:
            return self.key_bytes / _BYTES_A_SECOND / max(1, min(cores, self._key_parts))
        size = self.key_bytes + self._stored(0, len(self.slices))
        work = size / _BYTES_A_SECOND + len(self.slices) / _FILES_A_SECOND
        return work / max(1, min(cores, len(self.slices)))

    @property
    def short(self) -> bool:
        """Is it done before threads are worth it. An index with parts of its own may ask a network."""
        return self._key_parts == 1 and self.seconds(1) <= _THREADS_SECONDS

    @property
    def _key_parts(self) -> int:
        return self.context.index.key_parts if self.context.index is not None else 1

    def plan(self, cores: int, tasks: int) -> _Located:
        """The steps for a number of cores, and of input tasks."""
        if self._key_parts > 1:
            return self._by_keys(cores, tasks)
        units = [unit for group in self.groups for unit in self._units(*group, cores)]
        weights = [self._stored(first, end) + self._incoming(code) for code, first, end in units]
        routed = sum(self._incoming(code) for code, _, _ in units)
        limit = max(cores * 2, math.ceil(2 * routed / located_bytes(self.context)))
        chosen, count = balance_weights([weight + 1 for weight in weights], Parallelism(cores, limit))
        by_locator: list[list[Unit]] = [[] for _ in range(count)]
        routes: list[set[int]] = [set() for _ in self.partitions]
        for locator, (code, first, end) in zip(chosen, units, strict=True):
            by_locator[locator].append(Unit(code, first, self._described(first, end)))
            for route in routes if code is None else (routes[code],):
                route.add(locator)
        return self._located(by_locator, routes, cores, tasks)

    def _by_keys(self, cores: int, tasks: int) -> _Located:
        """Every locator asks about all slices, for some parts of the keys."""
        limit = max(cores * 2, math.ceil(2 * self.key_bytes / located_bytes(self.context)))
        count = min(limit, self._key_parts)
        every = Unit(None, 0, self._described(0))
        routes = [set(range(count)) for _ in self.partitions]
        return self._located([[every] for _ in range(count)], routes, cores, tasks)

    def _described(self, first: int, end: int | None = None) -> tuple[tuple[str, Any], ...]:
        return tuple((item.partition, slice_to_json(item)) for item in self.slices[first:end])

    def _located(
        self, by_locator: list[list[Unit]], routes: list[set[int]], cores: int, tasks: int
    ) -> _Located:
        locators = [locator for route in routes for locator in sorted(route)]
        reducers = max(1, min(tasks, cores * 2))
        return _Located(
            RouteKeys(
                {partition: code for code, partition in enumerate(self.partitions)},
                np.cumsum([0, *map(len, routes)]),
                np.array(locators, dtype=np.int32),
                len(by_locator),
                self.context.index if self._key_parts > 1 else None,
            ),
            LocateKeys(
                self.context,
                tuple(tuple(mine) for mine in by_locator),
                tuple(self.partitions),
                len(self.slices),
                reducers,
            ),
            MergeLocations(not self.context.operation.brings_rows, Copies(self.context, self._described(0))),
        )

    def _units(
        self, code: int | None, first: int, end: int, cores: int
    ) -> Iterator[tuple[int | None, int, int]]:
        """The slices of a group, in several parts where sending the keys to each costs less than reading."""
        index, parts = self.context.index, 1
        if index is not None and index.by_slice and self.context.duplicates.known is Known.NONE:
            worth = self._stored(first, end) // max(self._incoming(code), _UNIT_BYTES)
            parts = max(1, min(worth, end - first, cores * 2))
        edges = [first + (end - first) * part // parts for part in range(parts + 1)]
        for low, high in itertools.pairwise(edges):
            yield code, low, high

    def _stored(self, first: int, end: int) -> int:
        return sum(item.size for item in self.slices[first:end]) // _KEY_SHARE

    def _incoming(self, code: int | None) -> int:
        if code is None:
            return self.key_bytes
        rows, _ = self.profile.groups[self.partitions[code], ""]
        return self.key_bytes * rows // max(1, self.profile.rows)


def _places(summaries: Sequence[dict[str, Any]], home: str, away: str) -> Counter[tuple[int, int | None]]:
    """Rows by label, and the number of their partition where it is another one."""
    places: Counter[tuple[int, int | None]] = Counter()
    for summary in summaries:
        for label, count in summary[home]:
            places[label, None] += count
        for label, code, count in summary[away]:
            places[label, code] += count
    return places


def _count(
    profile: WorkloadProfile,
    context: WriteContext,
    slices: Sequence[FileSlice],
    summaries: Sequence[dict[str, Any]],
) -> None:
    """Count the profile's rows by file group; `summaries` are those of `MergeLocations`."""
    places, again = _places(summaries, "labels", "moved"), _places(summaries, "again", "moved_again")
    partitions, total = profile.partitions, profile.rows
    sizes = {partition: size / rows for (partition, _), (rows, size) in profile.groups.items()}
    left = {partition: rows for (partition, _), (rows, _) in profile.groups.items()}
    mean = sum(size for _, size in profile.groups.values()) / max(1, total)
    profile.groups.clear()
    moves = context.index is not None and context.index.updates_partition_path
    for (label, code), count in sorted(places.items(), key=lambda item: item[0][0]):
        if label >= len(slices):
            partition = partitions[label - len(slices)]
            profile.dropped += count
            profile.dropped_in.add(partition)
            left[partition] -= count
            continue
        slice_ = slices[label]
        group = (slice_.partition, slice_.file_id)
        if code is not None and moves:
            profile.copies += again[label, code]
            profile.moved[group] = profile.moved.get(group, 0) + count
            continue
        profile.add(group, count, int(count * sizes.get(slice_.partition, mean)))
        if context.operation.brings_rows:
            left[slice_.partition if code is None else partitions[code]] -= count - again[label, code]
    if not context.operation.brings_rows:
        profile.missing = total - sum(summary["rows"] for summary in summaries)
        return
    for partition, rows in left.items():
        if rows and not context.found_by:
            profile.groups[partition, ""] = [rows, int(rows * sizes[partition])]
