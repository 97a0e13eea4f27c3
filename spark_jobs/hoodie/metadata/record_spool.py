"""Records of one partition on their way into its file groups: in memory up to a limit, then on disk.

What is on disk is in a file without a name, which the system frees with the process, however it ends.
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import IO, Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Ints, pc, whole
from hoodie.config.versions import LayoutVersion
from hoodie.engine.spool import Room
from hoodie.errors import TableError
from hoodie.format.hfile_cells import CELLS
from hoodie.format.hfile_records import KEY_FIELD, by_key, encoded
from hoodie.metadata.keys import file_groups
from hoodie.metadata.partition_groups import NOWHERE, PartitionGroups
from hoodie.metadata.partitions import Records
from hoodie.metadata.record_schema import record_schema, whole_records

#: bytes of records that are held in memory
_IN_MEMORY = 64 << 20
#: threads that make cells of file groups, of more rows than these
_THREADS, _FEW = 4, 1 << 14


class RecordSpool:
    """Takes records in chunks, gives those of each file group by key. Of several records of a key the last
    one counts; a chunk's deletes come after its rows, and before those of the next one.

    Memory: a chunk of the records, `_IN_MEMORY`, and the keys of a file group while it is read. A context
    manager, which frees the disk.
    """

    def __init__(
        self,
        groups: int | PartitionGroups,
        room: Room | None = None,
        in_memory: int = _IN_MEMORY,
        version: LayoutVersion = LayoutVersion.ONE,
        hashed: Callable[[Any], Any] | None = None,
    ) -> None:
        """`groups`: the number of file groups, or those of each partition; `room` makes the file of what is
        spilled; `version` is the layout's, which the records are of; `hashed`: the parts of keys that say
        their file groups.
        """
        self._hashed = hashed
        self._schema = record_schema(version)
        self._groups = groups
        self._room = room or Room()
        self._in_memory = in_memory
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        #: of each file group in turn: keys that are deleted, and where batches of cells are: in `_held`, or
        #: in the file from -1 downwards
        self._turns: dict[int, list[int | Array]] = {}
        self._counts: dict[int, int] = {}
        self._file: IO[bytes] | None = None
        self._sink: Any = None
        self._written = 0
        self._reader: Any = None
        self._lock = threading.Lock()

    def __enter__(self) -> RecordSpool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held, self._reader = [], None
        with contextlib.suppress(OSError):  # of what could not be written
            if self._sink is not None:
                self._sink.close()
        with contextlib.suppress(OSError):
            if self._file is not None:
                self._file.close()

    @property
    def ids(self) -> list[str]:
        """The file ids of the file groups of each partition, by number; none of others."""
        return self._groups.ids if isinstance(self._groups, PartitionGroups) else []

    @property
    def file_groups(self) -> int:
        return self._groups if isinstance(self._groups, int) else len(self._groups.ids)

    def add(self, records: Records) -> None:
        """Raises TableError for records of each partition where file groups are of all, and the other way."""
        if records.rows.num_rows <= _FEW:
            # few are encoded at once: an encoding costs more than so few records do
            parts = list(self._split(records, self._encoded(records.rows)))
            every = [by_key(given) for _, (given, _) in parts]
        else:
            parts = list(self._split(records, records.rows))
            with ThreadPoolExecutor(_THREADS) as pool:
                every = list(pool.map(self._cells, (given for _, (given, _) in parts)))
        for (number, (_, deletes)), cells in zip(parts, every, strict=True):
            turns = self._turns.setdefault(number, [])
            if cells.num_rows:
                turns.append(len(self._held))
                self._counts[number] = self._counts.get(number, 0) + cells.num_rows
                self._held.append(cells)
                self._bytes += cells.nbytes
            if len(deletes):
                turns.append(pc.cast(deletes, pa.string()))
        if self._bytes > self._in_memory:
            self._spill()

    def _split(self, records: Records, rows: Any) -> Iterator[tuple[int, tuple[Any, Array]]]:
        """(number of a file group, (its rows, its deletes)) of those that have any. `rows`: those of the
        records, or their cells.
        """
        nothing: Any = pa.array([], pa.string())
        keys: Any = whole(records.rows.column(KEY_FIELD))
        deletes: Any = nothing if records.deletes is None else whole(records.deletes)
        if isinstance(self._groups, PartitionGroups):
            for partition, count in records.new.items():
                self._groups.add(partition, count)
        elif records.new:
            raise TableError("the record index is one of all partitions, which its definition does not say")
        if self._groups == 1:
            if len(keys) or len(deletes):
                yield 0, (rows, deletes)
            return
        mine = _places(self._numbers(keys, records.rows_in))
        gone = _places(self._numbers(deletes, records.deletes_in))
        if NOWHERE in mine:
            raise TableError("the record index has no file groups of a partition of the table")
        none: Ints = np.empty(0, np.int64)
        for number in sorted({*mine, *gone} - {NOWHERE}):
            places: Any = pa.array(mine.get(number, none))
            yield number, (rows.take(places), deletes.take(pa.array(gone.get(number, none))))

    def _numbers(self, keys: Any, partitions: Array | None) -> Ints:
        """The number of each key's file group."""
        if isinstance(self._groups, int):
            return file_groups(self._hashed(keys) if self._hashed else keys, self._groups)
        if partitions is None and len(keys):
            raise TableError("the record index is one of each partition, which its definition does not say")
        return np.empty(0, np.int64) if partitions is None else self._groups.numbers(keys, partitions)

    def _cells(self, rows: pa.Table) -> pa.RecordBatch:
        return by_key(self._encoded(rows))

    def _encoded(self, rows: pa.Table) -> pa.RecordBatch:
        """Cells in the order of the rows."""
        return encoded(whole_records(rows, self._schema), self._schema)

    @property
    def filled(self) -> list[int]:
        """The numbers of the file groups that get something."""
        return sorted(self._turns)

    def count(self, number: int) -> int:
        """Records of a file group."""
        return self._counts.get(number, 0)

    def deleted(self, number: int) -> int:
        """Deletes of a file group."""
        return sum(len(turn) for turn in self._turns.get(number, ()) if not isinstance(turn, int))

    def cells(self, number: int, size: int) -> Iterator[pa.RecordBatch]:
        """The records of a file group as cells by key, about so many bytes at a time, but for those that are
        deleted after them. Threads may read several file groups at once, after `close`.
        """
        return _by_key(self._left(number), size)

    def is_empty(self, number: int) -> bool:
        """Does a file group have no record in the end."""
        return not (self._left(number) if self.deleted(number) else self.count(number))

    def _left(self, number: int) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        gone: Any = None
        for turn in reversed(self._turns.get(number, ())):
            if isinstance(turn, int):
                batch = self._batch(turn)
                if gone is not None:
                    batch = batch.filter(pc.invert(pc.is_in(batch.column(0), value_set=gone)))
                found += [batch] if batch.num_rows else []
            else:
                keys: Any = turn.cast(CELLS.field(0).type)
                gone = keys if gone is None else pa.concat_arrays([gone, keys])
        return found[::-1]

    def blocks(self, number: int, size: int) -> Iterator[pa.RecordBatch | Array]:
        """As `cells`, and keys that are deleted, in turn."""
        turns = self._turns.get(number, ())
        for is_rows, group in itertools.groupby(turns, lambda turn: isinstance(turn, int)):
            if is_rows:
                yield from _by_key([self._batch(place) for place in group if isinstance(place, int)], size)
            else:
                found: Any = pa.chunked_array([keys for keys in group if not isinstance(keys, int)])
                yield whole(found)

    def close(self) -> None:
        """No more is added."""
        if self._sink is not None and self._reader is None:
            assert self._file is not None
            with self._refusing():
                self._sink.close()
                self._file.flush()
            pages: Any = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(pages)))

    def _batch(self, place: int) -> pa.RecordBatch:
        if place >= 0:
            return self._held[place]
        with self._lock:
            found: pa.RecordBatch = self._reader.get_batch(-place - 1)
        return found

    def _spill(self) -> None:
        if self._file is None:
            self._file = os.fdopen(self._room.file(), "w+b")
            self._sink = pa.ipc.new_file(self._file, CELLS)
        with self._refusing():
            for batch in self._held:
                self._sink.write_batch(batch)
        first, self._written = self._written, self._written + len(self._held)
        for turns in self._turns.values():
            turns[:] = [
                -(first + turn) - 1 if isinstance(turn, int) and turn >= 0 else turn for turn in turns
            ]
        self._held, self._bytes = [], 0

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        """Errors of writing are those of the room."""
        try:
            yield
        except OSError as error:
            raise self._room.refused(error) from error


def _places(numbers: Ints) -> dict[int, Ints]:
    """The places of the keys of each file group, in their order."""
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True)) if len(found) else {}


def _by_key(batches: Sequence[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The rows of several batches by key, the last of each; one batch of the result is copied at a time."""
    if not batches:
        return
    keys: Any = pa.chunked_array([batch.column(0) for batch in batches]).combine_chunks()
    order = np.asarray(pc.sort_indices(keys)).astype(np.int64)
    inner: Any = keys.take(pa.array(order))
    last = np.append(np.asarray(pc.not_equal(inner[1:], inner[:-1])), True)
    order = order[last]
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    step = max(1, len(keys) * size // max(size, sum(batch.nbytes for batch in batches)))
    for start in range(0, len(order), step):
        yield _gathered(batches, starts, order[start : start + step])


def _gathered(batches: Sequence[pa.RecordBatch], starts: Ints, wanted: Ints) -> pa.RecordBatch:
    """Rows by their numbers over all of the batches."""
    owners = np.searchsorted(starts, wanted, side="right") - 1
    parts, places = [], []
    for owner in np.unique(owners).tolist():
        mine = np.flatnonzero(owners == owner)
        parts.append(batches[owner].take(pa.array(wanted[mine] - starts[owner])))
        places.append(mine)
    if len(parts) == 1:
        alone: pa.RecordBatch = parts[0]
        return alone
    joined = pa.Table.from_batches(parts, CELLS)
    turn: Any = pa.array(np.argsort(np.concatenate(places)))
    columns: list[Any] = [whole(column).take(turn) for column in joined.columns]
    return pa.record_batch(columns, schema=CELLS)
