"""INMEMORY: the keys of base files that the process holds, and a look into the files that it does not.

The same table as with SIMPLE. Apache Hudi's index of this name is a map in the memory of a JVM that is empty
at its start, so that stored records are inserted again; it looks a record up by key and partition path, as
is done here. What is held is of files, which do not change: whatever other processes do to the table, the
slices that a write sees name the files whose keys are asked for, and a file that is not held is read
(`memory`). The files that this process's own writes make are followed without being read, once their commit
is published.

Keys that only logs have are found, too. The logs of a slice are read once, and again after changes by
others; logs in which this process updated keys of the base file are not.

Tasks on Spark's executors hold nothing: they read the files of their slices. Few keys are looked up on the
driver, which holds keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, array, whole
from hoodie.config.key import Config
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.names import LogFileName
from hoodie.index import Index
from hoodie.index.in_memory.memory import (
    KEY_BYTES,
    MOST_BYTES,
    FileKeys,
    Group,
    KeyMemory,
    LogKeys,
    SoughtKeys,
    key_memory,
)
from hoodie.index.locations import LOOK_UP, KeySearch, Locations, Positions
from hoodie.index.settings import INDEX_MEMORY
from hoodie.mask import masked
from hoodie.table.commit_keys import NO_KEYS, Logged, is_in, joined
from hoodie.table.handle import Table, TableRef
from hoodie.table.log_scan import SMALL, scan_slice
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile, FileSlice, TimelineView
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True)
class InMemoryIndex(Index):
    """`token`: of the memory of the process that made it. `snapshot`: of the write that it is for."""

    sees_logs: ClassVar[bool] = True
    by_slice: ClassVar[bool] = True
    limit: int
    token: str
    snapshot: TimelineView | None = None
    _written: dict[str, FileKeys] = field(default_factory=dict, compare=False, repr=False)
    #: paths of files that did not fit, with the bytes of their keys
    _short: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def make(cls, config: Config) -> InMemoryIndex:
        return cls(config[INDEX_MEMORY], key_memory().token)

    @property
    def follows_files(self) -> bool:
        return self.token == key_memory().token

    def for_write(self, table: Table, config: Config) -> InMemoryIndex:
        key_memory().begin()
        return replace(self, snapshot=table.view, _written={}, _short={})

    def prefers_driver(self, slices: Sequence[FileSlice]) -> bool:
        return self.follows_files and sum(item.base.size for item in slices if item.base) <= self.limit

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        memory = key_memory() if self.follows_files else None
        snapshot = Table(table).view if self.snapshot is None else self.snapshot
        look = _Look(table, snapshot, keys, memory, self.limit)
        for number, slice_ in enumerate(slices):
            look.search(number, slice_)
        self._short.update(look.short)
        return look.locations()

    def file_written(
        self, table: TableRef, path: str, keys: pa.ChunkedArray[Any], base: BaseFile | None
    ) -> None:
        memory, earlier = key_memory(), None
        if base is not None:
            held = memory.of(Group.of(table, base.partition, base.file_id))
            earlier = held.files.get((base.name, base.size))
        size = sum(item.nbytes for item in self._written.values()) + keys.nbytes + KEY_BYTES * len(keys)
        if earlier is not None and size <= min(self.limit, MOST_BYTES) and _begins_with(keys, earlier.keys):
            self._written[path] = earlier.followed_by(whole(keys.slice(len(earlier))))
        elif size <= min(self.limit, MOST_BYTES):
            self._written[path] = FileKeys(joined(keys.chunks))

    def committed(self, table: TableRef, instant: InstantTime, metadata: CommitMetadata) -> Sequence[str]:
        memory = key_memory()
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                group, size = Group.of(table, partition, stat.file_id), stat.file_size_in_bytes
                keys = self._written.pop(stat.path or "", None)
                if keys is not None:
                    memory.add_file(group, stat.file_name, size, keys, self.limit)
                elif LogFileName.parse(stat.file_name) and not (stat.num_inserts or stat.may_insert):
                    memory.add_updates(group, (stat.file_name, size), instant, self.limit)
        return self._warnings(table)

    def _warnings(self, table: TableRef) -> list[str]:
        if not self._short:
            return []
        text = (
            f"{INDEX_MEMORY.name}={self.limit} has no room for the keys of {len(self._short)} files of "
            f"{table.uri}, which take {sum(self._short.values())} bytes: each write reads them, as with the "
            "index SIMPLE. Set it higher, or take another index"
        )
        return [masked(text)]


class _Look:
    """The exact look for keys in slices, one after the other. `short`: bytes of the keys of files that are
    not held for want of room, by path.
    """

    def __init__(
        self, table: TableRef, snapshot: TimelineView, keys: Array, memory: KeyMemory | None, limit: int
    ) -> None:
        self.short: dict[str, int] = {}
        self._table = table
        self._storage = table.storage()
        self._snapshot = snapshot
        self._keys = keys
        self._sought = SoughtKeys(keys)
        self._memory = memory
        self._limit = limit
        self._pieces: list[tuple[int, Positions, Positions]] = []

    def locations(self) -> Locations:
        return Locations.of(self._pieces)

    def search(self, number: int, slice_: FileSlice) -> None:
        """Look for all keys in the slice."""
        places = np.empty(0, dtype=np.int32)
        if slice_.base is not None:
            places, rows = self.in_base(slice_.base)
            self._add(number, places, rows)
        if slice_.logs:
            logged = self._in_logs(slice_)
            if len(logged):
                mask = is_in(self._keys, logged)
                mask[places] = False
                found = np.flatnonzero(mask).astype(np.int32)
                self._add(number, found, np.full(len(found), LOOK_UP, np.int32))

    def _add(self, number: int, places: Positions, rows: Positions) -> None:
        if len(places):
            self._pieces.append((number, places, rows))

    def in_base(self, base: BaseFile) -> tuple[Positions, Positions]:
        group = Group.of(self._table, base.partition, base.file_id)
        held = None if self._memory is None else self._memory.of(group).files.get((base.name, base.size))
        if held is not None:
            return held.find(self._sought)
        with open_base(self._storage, base, None) as reader:
            held = self._loaded(group, base, reader)
            if held is not None:
                return held.find(self._sought)
            search = KeySearch(self._keys)
            search.look(reader, 0)
        found = search.locations()
        return found.keys, found.rows

    def _loaded(self, group: Group, base: BaseFile, reader: BaseFileReader) -> FileKeys | None:
        """The keys of a file, which are held from here on; None where there is no room."""
        if self._memory is None:
            return None
        size = reader.key_column_bytes() + KEY_BYTES * reader.rows
        if size <= MOST_BYTES and self._memory.has_room(group, size, self._limit):
            keys = FileKeys(joined([whole(part) for part in reader.record_keys(READ_BATCH_ROWS)]))
            if self._memory.add_file(group, base.name, base.size, keys, self._limit):
                return keys
        self.short[base.path] = size
        return None

    def _in_logs(self, slice_: FileSlice) -> Array:
        """The keys that the logs of a slice show, or may show, and its base file lacks; without a memory,
        some that it has, too.
        """
        base = "" if slice_.base is None else slice_.base.name
        logs = frozenset((log.name, log.size) for log in slice_.logs)
        group = Group.of(self._table, slice_.partition, slice_.file_id)
        if self._memory is not None:
            held = self._memory.of(group)
            known = held.logs
            if known is None or not known.counts(base, logs, self._snapshot):
                known = None
            if known is not None and known.logs == logs:
                return known.keys
            read = frozenset() if known is None or len(known.keys) else known.logs
            if base and logs <= read | held.updates_shown(self._snapshot):
                return NO_KEYS
        scan = scan_slice(self._storage, slice_, self._snapshot, keep=SMALL)
        shown = Logged.of_scan(self._storage, scan).shown
        if self._memory is None:
            return shown
        if slice_.base is not None and len(shown):
            again = _Look(self._table, self._snapshot, shown, self._memory, self._limit)
            places, _ = again.in_base(slice_.base)
            lacking = np.ones(len(shown), dtype=np.bool_)
            lacking[places] = False
            shown = shown.filter(array(lacking))
        committed = self._snapshot.committed if scan.doubtful else None
        self._memory.add_logs(group, LogKeys(base, logs, shown, scan.instants, committed), self._limit)
        return shown


def _begins_with(keys: pa.ChunkedArray[Any], first: Array) -> bool:
    return len(keys) >= len(first) and keys.slice(0, len(first)).equals(pa.chunked_array([first]))
