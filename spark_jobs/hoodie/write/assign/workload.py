"""The workload of a write: rows counted by file group, and the file-group writes that
they are cut into.

Pure: summaries of the first pass, settings and sizes in, file-group writes out.
"""

from __future__ import annotations

import contextlib
import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.names import BaseFileName, LogFileName, join, new_file_id
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.storage import Storage
from hoodie.table.view import BaseFile, FileSlice, Listing, LogFile, TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, PlannedFile, inflight_metadata
from hoodie.timeline.commit_details import base_file_totals
from hoodie.timeline.instant import Action
from hoodie.timeline.layout import Layout
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.settings import (
    AUTO_SPLIT,
    RECORD_SIZE_ESTIMATE,
    RECORD_SIZE_THRESHOLD,
    SMALL_FILE_LIMIT,
    SMALL_GROUPS,
    SPLIT_SIZE,
)

#: commits that are looked at for the size of a record; an archived timeline has fewer
_LOOKED_AT = 100
#: of a commit whose totals are remembered
_KNOWN_BYTES = 1 << 14
#: bytes of work a write task should at least have before another task is worth starting
_TASK_BYTES = 256 << 20
#: reading and writing a byte of a base file costs about this many incoming bytes (it is compressed)
_BASE_WEIGHT = 3


@dataclass(frozen=True)
class Parallelism:
    """`cores` tasks run at once; a write has at most `limit` tasks, None: as many as its size requires."""

    cores: int
    limit: int | None


@dataclass
class WorkloadProfile:
    """What the first pass and the index found. `groups`: (partition, file id or "") -> [rows, bytes].

    `numbered` are the same by the number that the index gives the file group, where it does; `file_ids` the
    file ids of these, new ones too.

    `slices` are the latest of each partition that rows go to. `busy` file groups take no inserts. `missing`
    is how many rows of a delete have a key that is not there, `dropped` how many rows of an insert were left
    out as their key is, `dropped_in` their partitions. `replaced` are the latest slices, by partition, that
    the write takes out of sight; `absent` the partitions to delete, or to overwrite with no rows, that are
    not there. `listed` are the partitions that were looked into, `unmarked` those of them whose metadata
    file is missing. `packs`: inserts may fill small files. `moved` counts the records that leave a file
    group, as they are new in another partition, or that are changed there; `copies` is how many rows this
    makes more at most, where several file groups have a key.
    """

    groups: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    slices: dict[str, list[FileSlice]] = field(default_factory=dict)
    samples: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    input_partitions: int = 0
    busy: frozenset[tuple[str, str]] = frozenset()
    missing: int = 0
    dropped: int = 0
    dropped_in: set[str] = field(default_factory=set)
    replaced: dict[str, list[FileSlice]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    listed: set[str] = field(default_factory=set)
    unmarked: set[str] = field(default_factory=set)
    packs: bool = True
    numbered: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    file_ids: dict[tuple[str, str], str] = field(default_factory=dict)
    moved: dict[tuple[str, str], int] = field(default_factory=dict)
    copies: int = 0

    @classmethod
    def of(cls, summaries: Iterable[dict[str, Any]]) -> WorkloadProfile:
        """All rows as new ones of their partitions, as the first pass counted them."""
        profile = cls()
        for summary in summaries:
            profile.input_partitions += 1
            for partition, number, rows, size, samples in summary["partitions"]:
                profile.add((partition, ""), rows, size)
                if number:
                    _add(profile.numbered, (partition, number), rows, size)
                if samples:
                    share = size / len(samples)
                    profile.samples.setdefault(partition, []).extend((key, share) for key in samples)
        return profile

    def add(self, group: tuple[str, str], rows: int, size: int) -> None:
        """Count rows of a file group, beside those that are counted."""
        _add(self.groups, group, rows, size)

    @property
    def rows(self) -> int:
        return sum(rows for rows, _ in self.groups.values())

    @property
    def partitions(self) -> list[str]:
        return sorted({partition for partition, _ in (*self.groups, *self.moved)})

    @property
    def changed(self) -> set[tuple[str, str]]:
        """The file groups that records go to, or leave; "" for new ones of a partition."""
        return {*self.groups, *self.moved}

    def touched(self, groups: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of these file groups that the write changes or replaces."""
        changed = self.changed
        return [group for group in groups if group in changed or group[0] in self.replaced]

    def updates(self) -> Iterator[tuple[tuple[str, str], FileSlice | None, int, int]]:
        """(group, slice, rows, bytes of new rows) of the file groups whose records change or leave. Without a
        slice: a new one, where the index says which file group a key belongs to.
        """
        slices = self.updated
        for group in sorted(self.changed):
            if group[1]:
                rows, size = self.groups.get(group, (0, 0))
                yield group, slices.get(group), rows + self.moved.get(group, 0), size

    def relist(self, snapshot: TimelineView, listing: Listing) -> None:
        """Look again for the logs of the slices: failed writes that were rolled back since had left some."""
        for partition, found in self.slices.items():
            if any(slice_.logs for slice_ in found):
                self.slices[partition] = merged_slices(snapshot, listing, partition)

    def inflight(self, operation: str) -> CommitMetadata:
        """The workload profile kept in the inflight file; duplicates within the batch are counted."""
        files: dict[str, list[PlannedFile]] = {partition: [] for partition in self.partitions}
        inserts: dict[str, int] = {}
        for (partition, file_id), found, rows, _ in self.updates():
            if found is None:
                inserts[partition] = inserts.get(partition, 0) + rows
            else:
                instant = found.base.instant if found.base else NO_TIME
                files[partition].append(PlannedFile(file_id, instant, num_updates=rows))
        for (partition, file_id), (rows, _) in sorted(self.groups.items()):
            if not file_id:
                inserts[partition] = inserts.get(partition, 0) + rows
        return inflight_metadata(operation, dict(sorted(inserts.items())), files)

    @property
    def replaced_ids(self) -> dict[str, list[str]]:
        """As a replacecommit has them: file ids by partition."""
        return {partition: [found.file_id for found in group] for partition, group in self.replaced.items()}

    @property
    def warnings(self) -> list[str]:
        return [f"no partition {name!r} with rows in the table; nothing to delete" for name in self.absent]

    @property
    def inserts(self) -> bool:
        """Has any partition new rows that the writer packs."""
        return any(not file_id for _, file_id in self.groups)

    @property
    def updated(self) -> dict[tuple[str, str], FileSlice]:
        """The slices of partitions with rows to update, by partition and file id."""
        touched = {partition for partition, file_id in self.changed if file_id}
        return {(place, item.file_id): item for place in touched for item in self.slices.get(place, ())}


def _add(totals: dict[tuple[str, str], list[int]], group: tuple[str, str], rows: int, size: int) -> None:
    total = totals.setdefault(group, [0, 0])
    total[0] += rows
    total[1] += size


#: bytes whose reading takes as long as a write of few rows beside its reading
_WRITE_BYTES = 1 << 20


@dataclass(frozen=True)
class FileGroupWrite:
    """One file group's share of a write; one task does it. `slice` None: a new group.

    `append`: to the slice's logs; else a new version of the base file is written.
    """

    number: int
    partition: str
    file_id: str
    slice: FileSlice | None
    rows: int
    bytes: int
    append: bool = False

    @property
    def base(self) -> BaseFile | None:
        return self.slice.base if self.slice else None


@dataclass(frozen=True)
class Assignment:
    """Where every row goes. `updates`: (partition, file id) -> number of the
    file-group write; `inserts`: partition -> shares.

    A share is (number, part of the partition's inserts that it takes); parts sum to 1. Keys choose their
    share by hash, or, where `ranges` names the partition, by the keys at which the next share begins.
    """

    writes: tuple[FileGroupWrite, ...]
    updates: dict[tuple[str, str], int]
    inserts: dict[str, tuple[tuple[int, float], ...]]
    ranges: dict[str, tuple[str, ...]]
    reducers: tuple[int, ...]
    reducer_count: int

    @property
    def work(self) -> int:
        """Bytes of the files that the writes read; each write costs as much as some of them."""
        read = (write.slice.size if write.slice and not write.append else 0 for write in self.writes)
        return sum(max(_WRITE_BYTES, size) for size in read)

    @property
    def cuts(self) -> bool:
        """Must some partition's inserts be cut, row by row, among several file groups?"""
        return any(len(shares) > 1 for shares in self.inserts.values())

    @property
    def table(self) -> pa.Table:
        """write and reducer by partition, of inserts of which nothing is cut."""
        return self._table([shares[0][0] for shares in self.inserts.values()], partition=self.inserts)

    def table_of(self, file_ids: Mapping[tuple[str, str], str]) -> pa.Table:
        """write and reducer by partition and number of the file group."""
        return self._table(
            [write for write, _ in self.targets(file_ids).values()],
            partition=[partition for partition, _ in file_ids],
            group=[number for _, number in file_ids],
        )

    def targets(self, file_ids: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], tuple[int, int]]:
        """(write, reducer) by partition and number of the file group, whose file ids are given."""
        writes = {group: self.updates[group[0], file_id] for group, file_id in file_ids.items()}
        return {group: (write, self.reducers[write]) for group, write in writes.items()}

    def _table(self, writes: list[int], **columns: Iterable[str]) -> pa.Table:
        """These columns, the write of each row and its reducer."""
        texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
        reducers = [self.reducers[number] for number in writes]
        return pa.table(
            {**texts, "write": pa.array(writes, pa.int32()), "reducer": pa.array(reducers, pa.int32())}
        )


def slice_from_json(base_path: str, partition: str, value: Sequence[Any]) -> FileSlice:
    """The file slice that `slice_to_json` described."""
    instant, base, logs = value
    files = tuple(_log_file(base_path, partition, *log) for log in logs)
    if base:
        found = _base_file(base_path, partition, *base)
        return FileSlice(partition, found.file_id, instant, found, files)
    return FileSlice(partition, files[0].file_id, instant, None, files)


def slice_to_json(slice_: FileSlice) -> list[Any]:
    """A file slice as JSON: its instant; name and size of its base file, or null; those of its logs,
    and the slice of each."""
    base = [slice_.base.name, slice_.base.size] if slice_.base else None
    return [slice_.instant, base, [[log.name, log.size, log.slice] for log in slice_.logs]]


def average_record_size(config: Config, written: Iterable[tuple[int, int]]) -> int:
    """Bytes of a record in a base file, from the newest commit that wrote enough.

    `written`: rows and bytes in base files, by commit, newest first.
    """
    limit = config[SMALL_FILE_LIMIT]
    for rows, size in written:
        if rows > 0 and size > config[RECORD_SIZE_THRESHOLD] * limit:
            return max(1, math.ceil(size / rows))
    return config[RECORD_SIZE_ESTIMATE]


def base_files_written(timeline: Timeline, storage: Storage) -> Iterator[tuple[int, int]]:
    """Rows and bytes in base files by commit, newest first, of those that are still on the timeline."""
    for instant in reversed(timeline.commits()[-_LOOKED_AT:]):
        with contextlib.suppress(FileNotFoundError, ValueError, AttributeError, TypeError):
            data = timeline.read(instant, storage)
            totals = _known_totals if len(data) <= _KNOWN_BYTES else _totals
            yield totals(timeline.layout, instant.action, data)


def _totals(layout: Layout, action: Action, data: bytes) -> tuple[int, int]:
    return base_file_totals(data, partial(layout.commit_value, action))


#: by the content of commits: each write looks at those of the timeline
_known_totals = lru_cache(_LOOKED_AT)(_totals)


class _Writes:
    """File-group writes as they grow. `logs`: one that takes no inserts is appended to the slice's logs.
    `log_only`: so are new ones, whose slices are empty.
    """

    def __init__(self, logs: bool, log_only: bool) -> None:
        self.log_only = log_only
        self.writes: list[FileGroupWrite] = []
        self.logs = logs

    def add(self, partition: str, file_id: str, slice_: FileSlice | None, rows: int, size: int) -> int:
        if slice_ is None and self.log_only:
            slice_ = FileSlice(partition, file_id, NO_TIME, None)
        number, append = len(self.writes), self.logs and slice_ is not None
        self.writes.append(FileGroupWrite(number, partition, file_id, slice_, rows, size, append))
        return number

    def take_inserts(self, number: int, rows: int, size: int) -> None:
        write = self.writes[number]
        grown = replace(write, rows=write.rows + rows, bytes=write.bytes + size, append=False)
        self.writes[number] = grown


def assign(
    profile: WorkloadProfile,
    config: Config,
    record_size: int,
    parallelism: Parallelism,
    logs: bool = False,
    log_only: bool = False,
) -> Assignment:
    """Every file group that rows are known to belong to is a file-group write; other inserts fill small files
    first, then new files.

    With `logs` (merge-on-read) a file that takes inserts gets a new version, updates included, so only the
    smallest ones without logs do; the other updates are appended.
    """
    writes = _Writes(logs, log_only)
    updates: dict[tuple[str, str], int] = {}
    inserts: dict[str, tuple[tuple[int, float], ...]] = {}
    for (partition, file_id), found, rows, size in profile.updates():
        updates[partition, file_id] = writes.add(partition, file_id, found, rows, size)
    for (partition, file_id), (rows, size) in sorted(profile.groups.items()):
        if not file_id:
            inserts[partition] = _place(profile, config, record_size, writes, updates, partition, rows, size)
    final = tuple(writes.writes)
    reducers, count = _balance(final, parallelism)
    return Assignment(final, updates, inserts, {}, reducers, count)


def _place(
    profile: WorkloadProfile,
    config: Config,
    record_size: int,
    writes: _Writes,
    updates: dict[tuple[str, str], int],
    partition: str,
    rows: int,
    size: int,
) -> tuple[tuple[int, float], ...]:
    """Shares of one partition's inserts."""
    left = rows
    shares: list[tuple[int, int]] = []
    for slice_, file in _small(profile, config, partition, writes):
        room = min(left, (config[MAX_FILE_SIZE] - file.size) // record_size)
        if room <= 0:
            continue
        number = updates.get((partition, file.file_id))
        if number is None:
            number = writes.add(partition, file.file_id, slice_, 0, 0)
        writes.take_inserts(number, room, size * room // rows)
        shares.append((number, room))
        left -= room
    if left:
        per_file = config[SPLIT_SIZE]
        if config[AUTO_SPLIT]:
            per_file = math.ceil(config[MAX_FILE_SIZE] / record_size)
        count = math.ceil(left / per_file)
        for index in range(count):
            take = left // count + (1 if index < left % count else 0)
            shares.append((writes.add(partition, new_file_id(), None, take, size * take // rows), take))
    return tuple((number, share / rows) for number, share in shares)


def _small(
    profile: WorkloadProfile, config: Config, partition: str, writes: _Writes
) -> list[tuple[FileSlice, BaseFile]]:
    """Slices of the partition whose base files may take inserts, in the order in which they do."""
    limit = config[SMALL_FILE_LIMIT] if profile.packs else 0
    found = [
        (slice_, slice_.base)
        for slice_ in profile.slices.get(partition, [])
        if slice_.base and slice_.base.size < limit and (partition, slice_.file_id) not in profile.busy
        if not slice_.base.skeleton  # its rows are many more bytes than it has
    ]
    if not writes.logs:
        return found
    bare = sorted((item for item in found if not item[0].logs), key=lambda item: item[1].size)
    return bare[: config[SMALL_GROUPS]]


def balance_weights(weights: Sequence[int], parallelism: Parallelism) -> tuple[tuple[int, ...], int]:
    """Longest first onto the least loaded of a few tasks: (task of each item, number of tasks)."""
    if not weights:
        return (), 0
    total = sum(weights)
    wanted = parallelism.limit or max(parallelism.cores * 2, math.ceil(total / _TASK_BYTES))
    count = min(len(weights), max(1, wanted))
    heap = [(0, task) for task in range(count)]
    chosen = [0] * len(weights)
    for number in sorted(range(len(weights)), key=lambda item: -weights[item]):
        load, task = heapq.heappop(heap)
        chosen[number] = task
        heapq.heappush(heap, (load + weights[number], task))
    return tuple(chosen), count


def _balance(writes: Sequence[FileGroupWrite], parallelism: Parallelism) -> tuple[tuple[int, ...], int]:
    weights = [
        write.bytes + (write.base.size * _BASE_WEIGHT if write.base and not write.append else 0) + 1
        for write in writes
    ]
    return balance_weights(weights, parallelism)


def _base_file(base_path: str, partition: str, name: str, size: int) -> BaseFile:
    parsed = BaseFileName.parse(name)
    assert parsed is not None
    return BaseFile(partition, join(base_path, partition, name), name, parsed.file_id, parsed.instant, size)


def _log_file(base_path: str, partition: str, name: str, size: int, slice_: str) -> LogFile:
    parsed = LogFileName.parse(name)
    assert parsed is not None
    return LogFile.of(partition, join(base_path, partition, name), parsed, size, InstantTime(slice_))
