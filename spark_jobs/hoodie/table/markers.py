"""Markers: a file under `.hoodie/.temp/<instant>/` that exists before its data file does (format.md 5.6).

We write DIRECT markers (one empty file each). Both kinds are read: DIRECT and the timeline server's
`MARKERS<n>` text files.
"""

from __future__ import annotations

import contextlib
import enum
from dataclasses import dataclass

from hoodie.errors import AlreadyExists, Fenced, TableError
from hoodie.format.names import data_file, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.heartbeat import has_heartbeat
from hoodie.timeline.active import META_FOLDER
from hoodie.timeline.instant import is_time
from hoodie.timeline.time import InstantTime

#: in `.hoodie`; an object store has it as long as something is in it
MARKERS = ".temp"
TEMP_FOLDER = f"{META_FOLDER}/{MARKERS}"
_INFIX = ".marker."


class MarkerType(str, enum.Enum):
    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


@dataclass(frozen=True)
class Marker:
    """`file` is the data file's path relative to the table."""

    file: str
    type: MarkerType

    @classmethod
    def parse(cls, relative: str) -> Marker | None:
        """None for what is no marker; raises TableError for that of a file outside the table's data."""
        file, infix, kind = relative.rpartition(_INFIX)
        if not infix or kind not in MarkerType.__members__:
            return None
        return cls(data_file(file, "marker"), MarkerType(kind))


def marker_folder(base_path: str, instant: InstantTime) -> str:
    return f"{base_path}/{TEMP_FOLDER}/{instant}"


def create_marker(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> bool:
    """For tasks, which have a storage of their own: call before the data file is created. Returns whether
    the marker is new.

    Raises ConflictError when the write is over (withdrawn, or rolled back by another writer): a task that
    outlives its job must not leave files that no rollback would find.
    """
    if not has_heartbeat(storage, base_path, instant):
        raise Fenced(
            f"write {instant} is over, so its task may not write {marker.file}: it failed, or another writer "
            "took it for dead and rolled it back; run it again",
            instant=instant,
            file=marker.file,
        )
    return place_marker(storage, base_path, instant, marker)


def place_marker(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> bool:
    """The marker without the check of `create_marker`: a rollback has no heartbeat."""
    with contextlib.suppress(AlreadyExists):
        storage.create(_path(base_path, instant, marker), b"")
        return True
    return False


def remove_marker(storage: Storage, base_path: str, instant: InstantTime, marker: Marker) -> None:
    """Of a file that is another process's, which may be writing its first block."""
    storage.delete(_path(base_path, instant, marker))


def _path(base_path: str, instant: InstantTime, marker: Marker) -> str:
    return join(marker_folder(base_path, instant), f"{marker.file}{_INFIX}{marker.type.value}")


def read_markers(table: Table, instant: InstantTime) -> list[Marker]:
    """All markers of an instant; empty when the folder is missing."""
    root = marker_folder(table.base_path, instant)
    found: list[Marker] = []
    for item in table.storage.tree(root):
        name = item.path.removeprefix(f"{root}/")
        if "/" not in name and name.startswith("MARKERS"):
            if name != "MARKERS.type":
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
