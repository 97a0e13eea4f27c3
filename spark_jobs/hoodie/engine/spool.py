"""The results of a step of the local engine for the next one: in memory up to a limit, then on disk.

Large values (binary columns) are stored apart from their rows, which have a number for each. So rows are
filtered, joined and ordered without a read of a value. A value is read when its row is used. Each spool has
one file on disk without a name, which the system frees when the process ends.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints: TypeAlias = npt.NDArray[np.int64]
#: the error for a folder that can't be written to, and why
Refusal = Callable[[str, OSError], Exception]


class Room:
    """The bytes that the spools of one job may hold in memory together; None: any number.

    `folder` is where the others go, "" for the system's folder for temporary files. `peak` and `spilled`
    count bytes: the most that were held at once, and all that were written to disk.
    """

    def __init__(self, limit: int | None = None, folder: str = "", refusal: Refusal | None = None) -> None:
        self._folder = folder
        self.held = self.peak = self.spilled = 0
        self._limit = limit
        self._refusal = refusal
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Is there room for so many bytes; if so, they are held from now on, else they are spilled."""
        with self._lock:
            if self._limit is not None and self.held + size > self._limit:
                self.spilled += size
                return False
            self.held += size
            self.peak = max(self.peak, self.held)
            return True

    def leave(self, size: int) -> None:
        with self._lock:
            self.held -= size

    def file(self) -> int:
        """The descriptor of a new file without a name."""
        try:
            if self._folder:
                os.makedirs(self._folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder or None) as file:
                return os.dup(file.fileno())
        except OSError as error:
            raise self.refused(error) from error

    def refused(self, error: OSError) -> Exception:
        return error if self._refusal is None else self._refusal(self._folder, error)


class Spool:
    """Binary values by number, from 0 on. Threads may add and read at once. Closing it, or forgetting it,
    frees what it holds.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._kept = _Spooled()
        self._lock = threading.Lock()
        #: of each value its place in the file, or that of its array, from -1 downwards; its row there; its
        #: size
        self._places, self._rows, self._sizes = array("q"), array("q"), array("q")
        self._end = 0
        self.close = weakref.finalize(self, self._kept.free, room)

    def add(self, values: pa.Array[Any]) -> pa.Array[Any]:
        """The numbers of the values, null for null ones."""
        edges = _edges(values)
        total = int(edges[-1] - edges[0])
        held = self._room.take(total)
        rows = np.arange(len(values), dtype=np.int64)
        with self._lock:
            first, place = len(self._sizes), self._end
            if held:
                self._kept.held += total
                self._kept.arrays.append(values)
                places = np.full(len(values), -len(self._kept.arrays), dtype=np.int64)
            else:
                places = edges[:-1] - edges[0] + place
                self._end += total
            for known, new in ((self._places, places), (self._rows, rows), (self._sizes, np.diff(edges))):
                known.frombytes(new.tobytes())
        if not held:
            data: Any = values.buffers()[2]
            self._write(memoryview(data).cast("B")[int(edges[0]) : int(edges[-1])], place)
        missing = np.asarray(values.is_null()) if values.null_count else None
        return pa.array(rows + first, mask=missing)

    def sizes(self, numbers: pa.Array[Any]) -> Ints:
        """Bytes of each value; 0 of null."""
        with self._lock:
            found = [0 if number is None else self._sizes[number] for number in numbers.to_pylist()]
        return np.array(found, dtype=np.int64)

    def read(self, numbers: pa.Array[Any]) -> pa.Array[Any]:
        """The values of the numbers, null for null. One that is held in memory is not copied if it is
        alone.
        """
        places = [None if number is None else self._place(number) for number in numbers.to_pylist()]
        if len(places) == 1 and places[0] is not None and places[0].place < 0:
            alone: pa.Array[Any] = self._kept.arrays[-places[0].place - 1].slice(places[0].row, 1)
            return alone
        edges = np.cumsum([0, *(0 if place is None else place.size for place in places)])
        data: Any = pa.allocate_buffer(int(edges[-1]))
        into = memoryview(data).cast("B")
        for start, place in zip(edges.tolist(), places, strict=False):
            if place is not None and place.size:
                self._copy(place, into[start : start + place.size])
        missing = np.array([place is None for place in places])
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes()) if missing.any() else None
        offsets = pa.py_buffer(edges.astype(np.int32).tobytes())
        return pa.Array.from_buffers(pa.binary(), len(numbers), [valid, offsets, data])

    def _place(self, number: int) -> _Place:
        with self._lock:
            return _Place(self._places[number], self._rows[number], self._sizes[number])

    def _copy(self, found: _Place, into: memoryview) -> None:
        if found.place < 0:
            into[:] = memoryview(self._kept.arrays[-found.place - 1][found.row].as_buffer()).cast("B")
            return
        done = 0
        while done < found.size:
            count = os.preadv(self._file(), [into[done:]], found.place + done)
            if not count:
                raise OSError(f"a spilled value ends after {done} of {found.size} bytes")
            done += count

    def _write(self, values: memoryview, place: int) -> None:
        try:
            while values:
                count = os.pwrite(self._file(), values, place)
                values, place = values[count:], place + count
        except OSError as error:
            raise self._room.refused(error) from error

    def _file(self) -> int:
        with self._lock:
            if self._kept.file is None:
                self._kept.file = self._room.file()
            return self._kept.file


class _Place(NamedTuple):
    place: int
    row: int
    size: int


class _Spooled:
    """What a spool gives back."""

    def __init__(self) -> None:
        self.held = 0
        self.arrays: list[Any] = []
        self.file: int | None = None

    def free(self, room: Room) -> None:
        room.leave(self.held)
        self.arrays.clear()
        if self.file is not None:
            os.close(self.file)
        self.held, self.file = 0, None


def _edges(values: pa.Array[Any]) -> Ints:
    """Where each value begins in the data of the array, and where the last one ends."""
    offsets: Any = values.buffers()[1]
    if not len(values) or offsets is None:
        return np.zeros(1, dtype=np.int64)
    found = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return found.astype(np.int64)
