"""The index follows the table: the changes of a commit are entered before it is published.

An entry names the file group of a key. `HBaseIndex` reads that file's keys, so that a wrong entry costs time
only. A key of the table that HBase lacks would be inserted again. Hence:

- `prepare` enters the keys that a write or a clustering brings. The valid entry stays next to the new one. A
  kill before the commit is published leaves both, and the record is where it was.
- `published` removes the keys that the commit deleted, and the old entries.
- A mark in HBase says of each instant that it is entered, and that `published` is done. A completed instant
  may lack it: another index or Apache Hudi wrote it, or HBase's table is another one. `begin` then enters
  the keys of the file groups that it touched, or of all.
- A rollback or a restore brings rows back whose entries may be gone. The keys of the touched file groups are
  entered.

The row key in HBase is the record key. Three columns are those of Apache Hudi: the file id, the partition
path, and the instant of the commit that put the record there. Until the commit is published, three more
columns have the previous entry. Rows whose keys begin with MARKS are the marks. The record keys of a file
slice are found without a read of its rows, as far as that is possible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Bools, array, whole
from hoodie.errors import TableError
from hoodie.format.base_file import READ_BATCH_ROWS
from hoodie.format.log_block import BlockType
from hoodie.format.log_delete import read_delete_block
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.index.hbase.client import Cells, Client, Server
from hoodie.storage import Storage
from hoodie.table.commit_keys import (
    Logged,
    always,
    block_keys,
    deleted_keys,
    inserted_keys,
    is_in,
    without,
)
from hoodie.table.handle import Table
from hoodie.table.log_scan import SMALL, contents, scan_slice
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.models.restore import RestoreMetadata
from hoodie.timeline.models.rollback import RollbackMetadata

INSTANT = b"_s:commit_ts"
_COLUMNS = (b"_s:partition_path", b"_s:file_name", INSTANT)
BEFORE = (b"_s:before_partition_path", b"_s:before_file_name", b"_s:before_commit_ts")
COLUMNS = (*_COLUMNS, *BEFORE)

MARKS = b"\0hoodie/"
FOLLOWED = b"_s:followed"
#: values of FOLLOWED: its keys are entered; also, what it deleted, and entries that were kept, are taken out
ENTERED, DONE = b"entered", b"done"


class Place(NamedTuple):
    """Where a record is: a file group, and the instant that put it there."""

    partition: str
    file_id: str
    instant: str

    @property
    def group(self) -> tuple[str, str]:
        return self.partition, self.file_id


class Entry(NamedTuple):
    """`before`: where the record was when `place` was entered, and is if that commit came to nothing."""

    place: Place | None
    before: Place | None


NO_ENTRY = Entry(None, None)


def entry_of(cells: Cells) -> Entry:
    return Entry(_place(cells, _COLUMNS), _place(cells, BEFORE))


def cells_of(place: Place, before: Place | None) -> dict[bytes, bytes]:
    cells = dict(zip(_COLUMNS, map(str.encode, place), strict=True))
    if before is not None:
        cells |= zip(BEFORE, map(str.encode, before), strict=True)
    return cells


def mark_of(instant: Instant) -> bytes:
    """The row key of an instant's mark."""
    return MARKS + f"{instant.time}.{instant.action.value}".encode()


def _place(cells: Cells, columns: tuple[bytes, ...]) -> Place | None:
    values = [cells.get(column) for column in columns]
    texts = [value.decode(errors="replace") for value in values if value is not None]
    return Place(*texts) if len(texts) == len(columns) else None


def slice_keys(storage: Storage, slice_: FileSlice, snapshot: TimelineView) -> Iterator[tuple[Array, Array]]:
    """Array of a slice in batches: those that it shows, and those that it may show."""
    logged = Logged.of(storage, slice_, snapshot)
    if len(logged.rows):
        yield without(logged.rows, logged.deleted), logged.unsure
    if slice_.base is not None:
        with open_base(storage, slice_.base, None) as reader:
            for batch in reader.record_keys(READ_BATCH_ROWS):
                keys = whole(batch)
                yield without(keys, logged.deleted), keys.filter(array(is_in(keys, logged.unsure)))


def shown_in_logs(storage: Storage, slice_: FileSlice, snapshot: TimelineView, keys: Array) -> Bools:
    """Which of the keys, none of which the slice's base file has, its logs show. A delete that has to be
    compared with a row may have lost.
    """
    shown = np.zeros(len(keys), dtype=np.bool_)
    for (_, block), content in contents(storage, scan_slice(storage, slice_, snapshot, keep=SMALL)):
        if block.type is BlockType.DELETE:
            shown &= ~is_in(keys, always(read_delete_block(content)))
        else:
            shown |= is_in(keys, block_keys(block, content))
    return shown


def as_bytes(keys: Array) -> list[bytes]:
    found: Any = keys.cast(pa.binary()).to_pylist()
    return cast("list[bytes]", found)


_UNDOING = (Action.ROLLBACK, Action.RESTORE)
_REPLACE = frozenset({Action.REPLACECOMMIT.value, Action.CLUSTERING.value})
#: (partition path, file id) of file groups; None: all of the table
Groups = Collection[tuple[str, str]] | None


def behind(client: Client, timeline: Timeline, storage: Storage) -> bool:
    """Does the index not follow all instants of the table, or is one to be rolled back, with what it has done
    to HBase.
    """
    try:
        pending = {timeline.kind(instant, storage) for instant in timeline.pending()}
    except FileNotFoundError:  # it is no longer pending
        return True
    return bool(_missing(client, timeline)) or not pending.isdisjoint((Kind.WRITE, Kind.ROLLBACK))


class Following(CommitParticipant):
    """`rollback_sync`: what was entered for a failed write is taken out when it is undone. Else it stays, and
    is found wrong when it is asked for.
    """

    def __init__(self, server: Server, *, rollback_sync: bool) -> None:
        self._server = server
        self._rollback_sync = rollback_sync
        #: keys whose earlier entries are kept, by the time of the instant that is prepared
        self._kept: dict[str, list[bytes]] = {}

    def begin(self, table: Table) -> None:
        with self._server.connect() as client:
            missing = _missing(client, table.timeline)
            if missing:
                self._catch_up(client, table, missing)

    def prepare(self, commit: Commit) -> None:
        if not _follows(commit.table.timeline, commit.instant):
            return
        metadata = commit.metadata
        with self._server.connect() as client:
            if isinstance(metadata, CommitMetadata):
                entering = _Entering(client, commit.table.timeline)
                for keys, place in _entered(commit.table, commit.instant, metadata):
                    entering.enter(keys, place)
                self._kept[commit.instant.time] = entering.kept
                left = entering.kept or any(stat.num_deletes for stat in metadata.write_stats)
                _mark(client, [commit.instant], ENTERED if left else DONE)
            else:
                commit.table.refresh()
                _enter_groups(client, commit.table, _groups_rolled_back(metadata))
                _mark(client, [commit.instant], DONE)

    def published(self, commit: Commit) -> None:
        metadata = commit.metadata
        if not isinstance(metadata, CommitMetadata) or not _follows(commit.table.timeline, commit.instant):
            return
        with self._server.connect() as client:
            kept = self._kept.pop(commit.instant.time, [])
            client.delete(kept, BEFORE)
            deletes = any(stat.num_deletes for stat in metadata.write_stats)
            if deletes:
                _take_out(client, commit.table, commit.instant, metadata)
            if kept or deletes:
                _mark(client, [commit.instant], DONE)
            _forget_archived(client, commit.table.timeline)

    def undo(self, table: Table, instant: Instant) -> None:
        if not self._rollback_sync or not _follows(table.timeline, instant.with_state(State.COMPLETED)):
            return
        began = instant_millis(instant.time, table.properties.timeline_utc)
        with self._server.connect() as client:
            puts, gone = [], []
            where = f"SingleColumnValueFilter('_s', 'commit_ts', =, 'binary:{instant.time}', true, true)"
            for key, cells in list(client.scan(COLUMNS, where=where)):
                before = entry_of(cells).before
                # an entry of Apache Hudi's has no other beside it: earlier cells are it, where HBase has them
                if before is None:
                    before = entry_of(client.row(key, COLUMNS, began)).place
                if before is None:
                    gone.append(key)
                else:
                    puts.append((key, cells_of(before, None)))
            client.put(puts)
            client.delete(gone)

    def _catch_up(self, client: Client, table: Table, missing: list[tuple[Instant, bool]]) -> None:
        """`missing`: instants, and whether they are entered, and only what `published` does is left to do."""
        timeline, storage = table.timeline, table.storage
        for instant, entered in missing:  # first: later commits may have brought a key back
            if instant.action in COMMIT_ACTIONS:
                metadata = timeline.commit(instant, storage)
                _take_out(client, table, instant, metadata)
                if entered:
                    _settle(client, table, instant, metadata)
        unknown = [instant for instant, entered in missing if not entered]
        if unknown:
            groups: set[tuple[str, str]] | None = set()
            if unknown[0] == next(_followed(timeline)):
                groups = None  # what is archived may not be entered, either
            for instant in unknown:
                touched = _groups_of(timeline, storage, instant)
                groups = None if groups is None or touched is None else {*groups, *touched}
            _enter_groups(client, table, groups)
        _mark(client, [instant for instant, _ in missing], DONE)


class _Entering:
    """Enters keys, unless they are. `kept`: those whose earlier entries are kept."""

    def __init__(self, client: Client, timeline: Timeline) -> None:
        self.kept: list[bytes] = []
        self._client = client
        self._timeline = timeline

    def enter(self, keys: Array, place: Place, *, over: bool = True) -> None:
        """Without `over` only those that have no entry."""
        names = as_bytes(keys)
        known = {key: entry_of(cells) for key, cells in self._client.rows(names, COLUMNS)}
        puts = []
        for key in dict.fromkeys(names):
            now, before = known.get(key, NO_ENTRY)
            counts = now is not None and self._counts(now, before)
            if now is not None and ((counts and now.group == place.group) or not over):
                continue
            earlier = now if counts else before
            puts.append((key, cells_of(place, earlier)))
            if earlier is not None:
                self.kept.append(key)
        self._client.put(puts)

    def _counts(self, now: Place, before: Place | None) -> bool:
        """Is its commit there. Of those that are archived by now, failed ones have kept what was before."""
        if self._timeline.is_archived(now.instant):
            return before is None
        return self._timeline.is_committed(now.instant)


def _enter_groups(client: Client, table: Table, groups: Groups) -> None:
    """Enter the keys of the latest slices of file groups. Keys that a log may have deleted come last, and
    only where nothing else is known of them: the record may have moved.
    """
    if groups is not None and not groups:
        return
    timeline, storage = table.timeline, table.storage
    snapshot = table.view
    entering = _Entering(client, timeline)
    unsure: list[tuple[Array, Place]] = []
    for slice_ in _slices(table, snapshot, groups):
        since = slice_.base.instant if slice_.base else slice_.logs[0].slice
        place = Place(slice_.partition, slice_.file_id, since)
        for keys, others in slice_keys(storage, slice_, snapshot):
            entering.enter(keys, place)
            if len(others):
                unsure.append((others, place))
    for keys, place in unsure:
        entering.enter(keys, place, over=False)


def _entered(table: Table, instant: Instant, metadata: CommitMetadata) -> Iterator[tuple[Array, Place]]:
    """What a commit enters."""
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            for keys in inserted_keys(table, stat, instant.time):
                yield keys, Place(partition, stat.file_id, instant.time)


def _settle(client: Client, table: Table, instant: Instant, metadata: CommitMetadata) -> None:
    """Take out the entries that were kept beside those of a commit that is published."""
    there = {
        partition: tuple(
            stat for stat in stats if table.storage.exists(join(table.base_path, stat.path or ""))
        )
        for partition, stats in metadata.partition_to_write_stats.items()
    }
    for keys, place in _entered(table, instant, replace(metadata, partition_to_write_stats=there)):
        found = client.rows(as_bytes(keys), COLUMNS)
        client.delete([key for key, cells in found if entry_of(cells).place == place], BEFORE)


def _slices(table: Table, snapshot: TimelineView, groups: Groups) -> Iterator[FileSlice]:
    listing = table.listing()
    partitions = listing.partitions() if groups is None else sorted({partition for partition, _ in groups})
    listing.many(partitions)
    for partition in partitions:
        for slice_ in merged_slices(snapshot, listing.files, partition):
            if groups is None or (partition, slice_.file_id) in groups:
                yield slice_


def _take_out(client: Client, table: Table, instant: Instant, metadata: CommitMetadata) -> None:
    """Take out the keys that a commit deleted, where its file group is still what their entries name."""
    listing = table.listing()
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            for keys in deleted_keys(table, partition, stat, instant.time, listing, logged=False):
                gone = []
                for key, cells in client.rows(as_bytes(keys), COLUMNS):
                    now = entry_of(cells).place
                    if now is None or now.group != (partition, stat.file_id):
                        continue
                    if now.instant == instant.time or instant.is_after(now.instant):
                        gone.append(key)
                client.delete(gone)


def _follows(timeline: Timeline, instant: Instant) -> bool:
    """Does the index follow this completed instant: compactions leave keys in their file groups."""
    if instant.action in COMMIT_ACTIONS:
        return timeline.kind_from_listing(instant) not in (Kind.COMPACTION, Kind.LOG_COMPACTION)
    return instant.action in _UNDOING


def _followed(timeline: Timeline) -> Iterator[Instant]:
    return (instant for instant in timeline if instant.completed and _follows(timeline, instant))


def _missing(client: Client, timeline: Timeline) -> list[tuple[Instant, bool]]:
    """Instants that the index does not follow, or only in part: then the value is True."""
    instants = list(_followed(timeline))
    keys = [mark_of(instant) for instant in instants] or [MARKS]
    marks = {key: cells.get(FOLLOWED) for key, cells in client.rows(keys, [FOLLOWED])}
    found = [(instant, marks.get(mark_of(instant))) for instant in instants]
    return [(instant, mark == ENTERED) for instant, mark in found if mark != DONE]


def _mark(client: Client, instants: Iterable[Instant], value: bytes) -> None:
    client.put([(mark_of(instant), {FOLLOWED: value}) for instant in instants])


def _forget_archived(client: Client, timeline: Timeline) -> None:
    """Delete the marks of instants that left the timeline."""
    there = {mark_of(instant) for instant in timeline}
    gone = []
    for key, _ in list(client.scan([FOLLOWED], prefix=MARKS)):
        time = key[len(MARKS) :].decode(errors="replace").partition(".")[0]
        if key not in there and timeline.is_archived(time):
            gone.append(key)
    client.delete(gone)


def _groups_of(timeline: Timeline, storage: Storage, instant: Instant) -> Groups:
    if instant.action in COMMIT_ACTIONS:
        return timeline.commit(instant, storage).file_groups
    kind = RollbackMetadata if instant.action is Action.ROLLBACK else RestoreMetadata
    try:
        metadata: Metadata = kind.from_bytes(timeline.read(instant, storage))
    except (FileNotFoundError, TableError):
        return None
    return _groups_rolled_back(metadata)


def _groups_rolled_back(metadata: Metadata) -> Groups:
    """The file groups whose rows a rollback or a restore may have brought back."""
    rollbacks = [metadata] if isinstance(metadata, RollbackMetadata) else []
    if isinstance(metadata, RestoreMetadata):
        rollbacks = [item for group in metadata.rollbacks.values() for item in group]
    groups: set[tuple[str, str]] = set()
    for rollback in rollbacks:
        if any(instant.action in _REPLACE for instant in rollback.instants):
            return None  # the file groups that it had replaced are not named
        for partition, done in rollback.partitions.items():
            logs = {**(done.rollback_log_files or {}), **(done.failed_commit_log_files or {})}
            for path in (*done.deleted, *logs):
                name = path.rpartition("/")[2]
                parsed = BaseFileName.parse(name) or LogFileName.parse(name)
                if parsed is not None:
                    groups.add((partition, parsed.file_id))
    return groups
