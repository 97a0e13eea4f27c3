"""The keys that a process holds: of base files, which never change, so that no commit makes them wrong.

An entry is of one file: the table's path and storage settings, the file's path, its size. Which files a table
has is no question that is answered here: each write asks for the files of the slices that it sees, and an
entry of a file that is in none is not asked for. Files of a table that is made anew have other names.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.codec.arrays import Array, array, pc, whole
from hoodie.codec.hashing import PART, murmur
from hoodie.format.names import BaseFileName
from hoodie.index.locations import LOOK_UP, NOWHERE, Positions
from hoodie.table.handle import TableRef
from hoodie.table.view import TimelineView
from hoodie.timeline.time import REQUESTED, InstantTime

UInt64s = npt.NDArray[np.uint64]

_SEED = 5
_ROW = np.uint64(0xFFFF_FFFF)
_BITS = np.uint64(32)
#: bytes of a key beside its text: hash and row, offset
KEY_BYTES = 12
#: of one file, whose keys are one array
MOST_BYTES = (1 << 31) - 1
#: writes for which an entry that none of them asks for is held, though others lack the room
_WRITES = 8
#: name and size
File = tuple[str, int]
Logs = frozenset[File]
#: about what is held of a log file beside keys
_LOG_BYTES = 200


class SoughtKeys:
    """Distinct keys that are looked for, and their hashes."""

    def __init__(self, keys: Array) -> None:
        self.keys = keys

    @cached_property
    def ordered(self) -> tuple[UInt64s, npt.NDArray[np.intp]]:
        """(hashes in the high halves of numbers, ascending; the place of each key)."""
        hashes = _hashes(self.keys)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order


class FileKeys:
    """The record keys of a base file, in the order of its rows.

    A table of numbers, hash and row, is searched for the hashes of keys, and what has one of them is compared
    with the key itself. Immutable. Memory: the texts and `KEY_BYTES` a key.
    """

    def __init__(self, keys: Array, table: UInt64s | None = None) -> None:
        """`keys`: one array of strings without nulls."""
        self.keys = keys
        self._table = table

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        held: int = self.keys.get_total_buffer_size()
        return held + 8 * len(self.keys)

    @property
    def table(self) -> UInt64s:
        if self._table is None:  # threads that come at once make it twice
            self._table = np.sort(_hashes(self.keys) | np.arange(len(self.keys), dtype=np.uint64))
        return self._table

    def find(self, sought: SoughtKeys) -> tuple[Positions, Positions]:
        """(places of the keys that the file has, row of each; LOOK_UP where several rows have it)."""
        hashes, order = sought.ordered
        first = np.searchsorted(self.table, hashes)
        counts = np.searchsorted(self.table, hashes | _ROW, side="right") - first
        total = int(counts.sum())
        if total > len(self.keys) + len(hashes):  # many keys of one hash
            return self._compare_all(sought.keys)
        candidates = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(total)
        rows = (self.table[candidates] & _ROW).astype(np.int64)
        places = np.repeat(order, counts)
        equal = pc.equal(self.keys.take(array(rows)), sought.keys.take(array(places)))
        mask = np.asarray(equal, dtype=np.bool_)
        return _each_once(places[mask].astype(np.int32), rows[mask].astype(np.int32))

    def followed_by(self, keys: Array) -> FileKeys:
        """Those of a file that has these keys behind the same rows."""
        if not len(keys):
            return self
        new = _hashes(keys) | np.arange(len(self), len(self) + len(keys), dtype=np.uint64)
        table = np.sort(np.concatenate([self.table, new]), kind="stable")  # merges two runs
        return FileKeys(whole(pa.chunked_array([self.keys, keys])), table)

    def _compare_all(self, keys: Array) -> tuple[Positions, Positions]:
        found = pc.index_in(self.keys, value_set=keys).fill_null(NOWHERE).to_numpy()
        rows = np.flatnonzero(found != NOWHERE).astype(np.int32)
        return _each_once(found[rows], rows)


def _each_once(places: Positions, rows: Positions) -> tuple[Positions, Positions]:
    found, first, counts = np.unique(places, return_index=True, return_counts=True)
    return found, np.where(counts > 1, LOOK_UP, rows[first]).astype(np.int32)


def _hashes(keys: Array) -> UInt64s:
    """In the high halves of numbers."""
    found = np.empty(len(keys), dtype=np.uint64)
    for start in range(0, len(keys), PART):
        part = murmur(keys.slice(start, PART), _SEED).view(np.uint32)
        found[start : start + len(part)] = part
    return found << _BITS


@dataclass(frozen=True)
class LogKeys:
    """The keys that the logs of a slice have and its base file lacks.

    `base` is its name, `logs` names and sizes of the logs, `instants` those of their blocks, which the
    timeline has to show; `committed`: all that it showed, where blocks were left out.
    """

    base: str
    logs: Logs
    keys: Array
    instants: tuple[str, ...]
    committed: frozenset[InstantTime] | None

    def counts(self, base: str, logs: Logs, snapshot: TimelineView) -> bool:
        """Are these the base file, and among these logs those, of which it says what they have, as the
        timeline is now.
        """
        same = self.base == base and self.logs <= logs and all(map(snapshot.shows, self.instants))
        return same and self.committed in (None, snapshot.committed)

    @property
    def nbytes(self) -> int:
        size: int = self.keys.get_total_buffer_size()
        return size + _LOG_BYTES * (len(self.logs) + len(self.instants))


class Group(NamedTuple):
    """A file group of a table; `table` is its path with the settings of its storage."""

    table: tuple[Any, ...]
    partition: str
    file_id: str

    @classmethod
    def of(cls, table: TableRef, partition: str, file_id: str) -> Group:
        return cls((table.uri, *sorted(table.storage_options.items())), partition, file_id)


@dataclass(frozen=True)
class Held:
    """What is held of one file group: the keys of base files; those that only logs have; and the logs in
    which commits of this process updated keys of the base file alone, with their instants.
    """

    files: Mapping[File, FileKeys] = field(default_factory=dict)
    logs: LogKeys | None = None
    updates: Mapping[File, InstantTime] = field(default_factory=dict)

    def updates_shown(self, snapshot: TimelineView) -> Logs:
        """Those whose commits are there: a restore takes them back, and a name may be taken again then."""
        return frozenset(log for log, instant in self.updates.items() if snapshot.shows(instant))

    @cached_property
    def nbytes(self) -> int:
        files = {id(keys): keys.nbytes for keys in self.files.values()}  # versions may share their keys
        logs = 0 if self.logs is None else self.logs.nbytes
        return sum(files.values()) + logs + _LOG_BYTES * len(self.updates)


_NOTHING = Held()


class KeyMemory:
    """What this process holds of all tables, by file group; threads share it."""

    def __init__(self) -> None:
        #: differs from that of any other process, which an index may have come from
        self.token = uuid.uuid4().hex
        self._lock = threading.Lock()
        #: least recently used first, each with the write that used it last
        self._groups: OrderedDict[Group, tuple[int, Held]] = OrderedDict()
        self._writes = 0
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        return self._bytes

    def begin(self) -> None:
        """Another write begins."""
        with self._lock:
            self._writes += 1

    def of(self, group: Group) -> Held:
        with self._lock:
            _, held = self._groups.get(group, (0, None))
            if held is None:
                return _NOTHING
            self._groups[group] = (self._writes, held)
            self._groups.move_to_end(group)
            return held

    def has_room(self, group: Group, size: int, limit: int) -> bool:
        """Is there room for so many bytes in place of what is held of a group."""
        with self._lock:
            return self._fits(group, size, limit)[0]

    def add_file(self, group: Group, name: str, size: int, keys: FileKeys, limit: int) -> bool:
        """Hold the keys of a base file, and forget those of earlier ones of its group, and of logs. Returns
        whether all that is held fits into `limit` bytes then. What no write has used lately makes room.
        """
        with self._lock:
            held = self._held(group)
            later = {place: other for place, other in held.files.items() if _is_later(place[0], name)}
            return self._put(group, Held({**later, (name, size): keys}), limit)

    def add_logs(self, group: Group, logs: LogKeys, limit: int) -> bool:
        """Hold what was read of the logs of a slice, and forget of all other logs."""
        with self._lock:
            held = self._held(group)
            updates = {log: instant for log, instant in held.updates.items() if log in logs.logs}
            return self._put(group, replace(held, logs=logs, updates=updates), limit)

    def add_updates(self, group: Group, log: File, instant: InstantTime, limit: int) -> bool:
        """Hold that a log of a commit has no keys that its base file lacks."""
        with self._lock:
            held = self._held(group)
            return self._put(group, replace(held, updates={**held.updates, log: instant}), limit)

    def forget(self) -> None:
        """Of all tables."""
        with self._lock:
            self._groups.clear()
            self._bytes = 0

    def _held(self, group: Group) -> Held:
        return self._groups.get(group, (0, _NOTHING))[1]

    def _put(self, group: Group, held: Held, limit: int) -> bool:
        fits, old = self._fits(group, held.nbytes, limit)
        if fits:
            for other in (*old, group):
                self._bytes -= self._groups.pop(other, (0, _NOTHING))[1].nbytes
            self._bytes += held.nbytes
            self._groups[group] = (self._writes, held)
        return fits

    def _fits(self, group: Group, size: int, limit: int) -> tuple[bool, list[Group]]:
        """(whether there is room for so many bytes in place of a group, the groups that make room)"""
        excess, old = self._bytes - self._held(group).nbytes + size - limit, []
        for other, (write, item) in self._groups.items():
            if excess <= 0 or write >= self._writes - _WRITES:
                break
            if other != group:
                old.append(other)
                excess -= item.nbytes
        return excess <= 0, old


_memory = KeyMemory()


def key_memory() -> KeyMemory:
    """That of this process."""
    return _memory


def _reset_after_fork() -> None:
    """In a process that was forked: another thread may have had the lock."""
    global _memory
    _memory = KeyMemory()


os.register_at_fork(after_in_child=_reset_after_fork)


def _is_later(name: str, than: str) -> bool:
    """Is a file of a group one of a later request than another: a writer that saw less may load what others
    have replaced.
    """
    ours, theirs = BaseFileName.parse(name), BaseFileName.parse(than)
    return ours is not None and theirs is not None and REQUESTED.after(ours.instant, theirs.instant)
