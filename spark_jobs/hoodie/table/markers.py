"""Markers: a file under `.hoodie/.temp/<instant>/` that exists before its data file does (format.md 5.6).

There are two kinds of them, one for all of an instant. DIRECT: one empty file each. The timeline server's:
`MARKERS<n>` text files with a marker a line, which count as `MARKERS.type` names them. We write these where
each file takes a request, of a write whose files one process makes: it knows the names of most before it
writes them, and puts these into one file. What it makes up later has a `MARKERS<n>` of its own.
"""

from __future__ import annotations

import contextlib
import enum
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hoodie.errors import AlreadyExists, Fenced, TableError
from hoodie.format.names import BaseFileName, LogFileName, data_file, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.heartbeat import has_heartbeat, look_seconds
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.instant import is_time
from hoodie.timeline.time import InstantTime

#: in `.hoodie`; an object store has it as long as something is in it
MARKERS = ".temp"
TEMP_FOLDER = f"{META_FOLDER}/{MARKERS}"
_INFIX = ".marker."
#: begin of the names of the timeline server's files; that of the one which says that they count, and what
_SERVED = "MARKERS"
_TYPE_FILE, _TYPE = f"{_SERVED}.type", b"TIMELINE_SERVER_BASED"


class MarkerType(str, enum.Enum):
    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True)
class Marker:
    """`file` is the data file's path relative to the table."""

    file: str
    type: MarkerType

    @property
    def name(self) -> str:
        """As the path of a direct marker in the folder of its instant, and a line, have it."""
        return f"{self.file}{_INFIX}{self.type.value}"

    @property
    def is_line(self) -> bool:
        """Is the name one line of a text, whoever reads it: partitions may have any characters."""
        return self.name.isprintable() and self.name == self.name.strip()

    @classmethod
    def parse(cls, relative: str) -> Marker | None:
        """None for what is no marker; raises TableError for that of a file outside the table's data."""
        file, infix, kind = relative.rpartition(_INFIX)
        if not infix or kind not in MarkerType.__members__:
            return None
        return cls(data_file(file, "marker"), MarkerType(kind))


class WriteMarkers:
    """All markers of an instant whose files this process makes, and no other one: nothing has to be listed to
    know them. Made by `keep_markers`. Threads share it.
    """

    def __init__(self, table: Table, instant: InstantTime, interval_ms: int, announced: float) -> None:
        self._storage, self._base_path, self._instant = table.storage, table.base_path, instant
        self._fresh_s = look_seconds(interval_ms)
        self._looked = announced
        self._guard = threading.Lock()
        self._served = 0
        #: those that are there, or may be, each with its file
        self._files: dict[Marker, str] = {}
        #: of files that are not begun: their tokens by partition and file id
        self._tokens: dict[tuple[str, str], str] = {}

    @property
    def markers(self) -> list[Marker]:
        return list(self._files)

    def plan(self, markers: Sequence[Marker]) -> None:
        """Markers of files that are going to be made, whose names say which: by one file for all, unless a
        direct one is less, or a name is no line. Call before the first file is made. Raises as
        `create_marker`.
        """
        if len(markers) < 2 or self._files or not all(marker.is_line for marker in markers):
            return
        self._look(self._storage, markers[0])
        folder = marker_folder(self._base_path, self._instant)
        self._storage.create(f"{folder}/{_TYPE_FILE}", _TYPE)
        self._serve(self._storage, markers)
        for marker in markers:
            partition, _, name = marker.file.rpartition("/")
            parsed = BaseFileName.parse(name) or LogFileName.parse(name)
            if parsed is not None and parsed.token is not None:
                self._tokens[partition, parsed.file_id] = parsed.token

    def token(self, partition: str, file_id: str) -> str | None:
        """In the planned name of the first file of a file group; None where there is none, or it was given
        before.
        """
        return self._tokens.pop((partition, file_id), None)

    def create(self, storage: Storage, marker: Marker) -> bool:
        """As `create_marker`."""
        self._look(storage, marker)
        if marker in self._files:
            return True
        if self._served:
            self._serve(storage, [marker])
            return True
        self._files[marker] = _path(self._base_path, self._instant, marker)
        return place_marker(storage, self._base_path, self._instant, marker)

    def remove(self, storage: Storage, marker: Marker) -> None:
        """As `remove_marker`, of one that was not planned."""
        storage.delete(self._files.pop(marker))

    @property
    def files(self) -> list[str]:
        """All that is in the instant's folder."""
        named = dict.fromkeys(self._files.values())
        kind = f"{marker_folder(self._base_path, self._instant)}/{_TYPE_FILE}"
        return [*named, kind] if self._served else [*named]

    def _serve(self, storage: Storage, markers: Sequence[Marker]) -> None:
        """A file with these markers, one a line."""
        with self._guard:
            number, self._served = self._served, self._served + 1
        path = f"{marker_folder(self._base_path, self._instant)}/{_SERVED}{number}"
        self._files.update(dict.fromkeys(markers, path))
        storage.create(path, "".join(f"{marker.name}\n" for marker in markers).encode())

    def _look(self, storage: Storage, marker: Marker) -> None:
        now = time.monotonic()
        if now - self._looked >= self._fresh_s:
            _check_on(storage, self._base_path, self._instant, marker)
            self._looked = now


#: by the path of the table and the instant
_KEPT: dict[tuple[str, str], WriteMarkers] = {}


@contextlib.contextmanager
def keep_markers(table: Table, instant: InstantTime, interval_ms: int, announced: float) -> Iterator[None]:
    """Inside, the functions of this module know the instant's markers: for a write whose files this process
    alone makes, on a storage without folders. Its heartbeat beats at this interval, and was there at
    `announced`, a time of `time.monotonic`.
    """
    key = table.base_path, str(instant)
    _KEPT[key] = WriteMarkers(table, instant, interval_ms, announced)
    try:
        yield
    finally:
        del _KEPT[key]


def known_markers(base_path: str, instant: InstantTime) -> WriteMarkers | None:
    """Those of `keep_markers`; None outside, and in other processes."""
    return _KEPT.get((base_path, str(instant)))


def planned_token(base_path: str, instant: InstantTime, partition: str, file_id: str) -> str | None:
    """As `WriteMarkers.token`."""
    kept = known_markers(base_path, instant)
    return None if kept is None else kept.token(partition, file_id)


def marker_folder(base_path: str, instant: InstantTime) -> str:
    return f"{base_path}/{TEMP_FOLDER}/{instant}"


def create_marker(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> bool:
    """For tasks, which have a storage of their own: call before the data file is created. Returns whether
    the marker is new.

    Raises ConflictError when the write is over (withdrawn, or rolled back by another writer): a task that
    outlives its job must not leave files that no rollback would find.
    """
    if (kept := known_markers(base_path, instant)) is not None:
        return kept.create(storage, marker)
    _check_on(storage, base_path, instant, marker)
    return place_marker(storage, base_path, instant, marker)


def _check_on(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> None:
    if not has_heartbeat(storage, base_path, instant):
        raise Fenced(
            f"write {instant} is over, so its task may not write {marker.file}: it failed, or another writer "
            "took it for dead and rolled it back; run it again",
            instant=instant,
            file=marker.file,
        )


def place_marker(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> bool:
    """The marker without the check of `create_marker`: a rollback has no heartbeat."""
    with contextlib.suppress(AlreadyExists):
        storage.create(_path(base_path, instant, marker), b"")
        return True
    return False


def remove_marker(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> None:
    """Of a file that is another process's, which may be writing its first block."""
    if (kept := known_markers(base_path, instant)) is not None:
        kept.remove(storage, marker)
    else:
        storage.delete(_path(base_path, instant, marker))


def _path(base_path: str, instant: InstantTime, marker: Marker) -> str:
    return join(marker_folder(base_path, instant), marker.name)


def read_markers(table: Table, instant: InstantTime) -> list[Marker]:
    """All markers of an instant; empty when the folder is missing."""
    if (kept := known_markers(table.base_path, instant)) is not None:
        return kept.markers
    root = marker_folder(table.base_path, instant)
    found: list[Marker] = []
    for item in table.storage.tree(root):
        name = item.path.removeprefix(f"{root}/")
        if "/" not in name and name.startswith(_SERVED):
            if name != _TYPE_FILE:
                found += _lines(table.storage, item.path)
        elif marker := Marker.parse(name):
            found.append(marker)
    return found


def _lines(storage: Storage, path: str) -> list[Marker]:
    """The markers of one MARKERS file."""
    try:
        lines = storage.read(path).decode().splitlines()
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is damaged ({error}): which files the unfinished write made is not known; restore it",
            path=path,
        ) from None
    return [marker for marker in (Marker.parse(line.strip()) for line in lines) if marker]


def delete_markers(table: Table, instant: InstantTime) -> None:
    table.storage.delete_tree(marker_folder(table.base_path, instant))


def marker_instants(table: Table) -> list[InstantTime]:
    """Instants that have a marker folder."""
    folders = table.storage.list(f"{table.base_path}/{TEMP_FOLDER}")
    return [InstantTime(item.name) for item in folders if item.is_dir and is_time(item.name)]
