"""Power failures: what a process did to a folder is recorded, and the disks made that it may leave behind.

`recorded` runs Python with `recorder.c` preloaded; `changes` reads what it noted. A `Disk` takes the changes
one by one and knows what is lasting; `crash` draws one of the states that POSIX allows: of the contents that
were not synced some writes are there, a last one may be torn; of the names that were made or taken away in a
folder since it was synced any may be there. Only what one rename does in one folder happens as a whole.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_SOURCE = Path(__file__).with_name("recorder.c")
_HEAD = struct.Struct("=c5q")


class Change(NamedTuple):
    """One call: kind as in recorder.c, the number of the open file, offset or flags, paths, data."""

    kind: str
    number: int
    offset: int
    path: str
    other: str
    data: bytes


def recorded(code: str, root: Path, work: Path, arguments: Sequence[str] = ()) -> list[Change]:
    """Run Python code, with `arguments`, and give its changes below `root`."""
    library, log = work / "recorder.so", work / "changes"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, _SOURCE, "-ldl", "-lpthread"], check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "HOODIE_RECORD_ROOT": str(root),
        "HOODIE_RECORD_LOG": str(log),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, env=environment)
    return list(changes(log, root))


def changes(log: Path, root: Path) -> Iterator[Change]:
    """Paths are relative to `root`."""
    data, at, cut = log.read_bytes(), 0, len(f"{root}/")
    while at < len(data):
        kind, number, offset, *sizes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        parts = []
        for size in sizes:
            parts.append(data[at : at + size])
            at += size
        first, second = (os.path.normpath(part.decode()[cut:]) if part else "" for part in parts[:2])
        yield Change(kind.decode(), number, offset, first, second, parts[2])


@dataclass
class File:
    """`pending` are writes (offset, data) and cuts (size, None) that no sync followed."""

    lasting: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def sync(self) -> None:
        self.lasting, self.pending = _applied(self.lasting, self.pending), []

    def crash(self, chance: random.Random, share: float) -> bytes:
        kept = [item for item in self.pending if chance.random() < share]
        if kept and kept[-1][1] and chance.random() < 0.5:
            offset, data = kept[-1]
            assert data is not None
            kept[-1] = (offset, data[: chance.randrange(len(data) + 1)])
        return _applied(self.lasting, kept)


@dataclass
class Folder:
    """`pending` are changes of names that no sync followed: those in one list happen together."""

    lasting: dict[str, File | Folder] = field(default_factory=dict)
    live: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, names: Mapping[str, File | Folder | None]) -> None:
        _rename(self.live, names)
        self.pending.append(dict(names))

    def sync(self) -> None:
        self.lasting, self.pending = dict(self.live), []

    def crash(self, chance: random.Random, share: float) -> dict[str, File | Folder]:
        found = dict(self.lasting)
        for names in self.pending:
            if chance.random() < share:
                _rename(found, names)
        return found


class Disk:
    """A folder as the recorded changes make it."""

    def __init__(self) -> None:
        self.root = Folder()
        self._open: dict[int, File | Folder] = {}

    def apply(self, change: Change) -> None:
        kind = change.kind
        if kind == "O":
            self._opened(change)
        elif kind == "C":
            self._open.pop(change.number, None)
        elif kind in "WT":
            file = self._open[change.number]
            assert isinstance(file, File)
            file.pending.append((change.offset, change.data if kind == "W" else None))
        elif kind == "S":
            self._open[change.number].sync()
        else:
            self._named(change)

    def crash(self, chance: random.Random, target: Path, share: float | None = None) -> None:
        """One of the states after a power failure now, as a folder.

        `share`: so much of what was not synced is there; by default all, none or some of it.
        """
        shares = [chance.choice((0.0, 0.3, 0.7, 1.0)) if share is None else share for _ in range(2)]
        todo = [(self.root, target)]
        for folder, place in todo:
            place.mkdir()
            for name, found in folder.crash(chance, shares[0]).items():
                if isinstance(found, Folder):
                    todo.append((found, place / name))
                else:
                    (place / name).write_bytes(found.crash(chance, shares[1]))

    def _opened(self, change: Change) -> None:
        folder, name = self._place(change.path)
        found = folder.live.get(name) if name != "." else folder
        if found is None:
            found = File()
            folder.change({name: found})
        elif change.offset & os.O_TRUNC and isinstance(found, File):
            found.pending.append((0, None))
        self._open[change.number] = found

    def _named(self, change: Change) -> None:
        folder, name = self._place(change.path)
        if change.kind == "D":
            folder.change({name: Folder()})
        elif change.kind == "U":
            folder.change({name: None})
        else:
            there, other = self._place(change.other)
            found = folder.live[name]
            if change.kind == "L":
                there.change({other: found})
            elif there is folder:
                folder.change({name: None, other: found})
            else:
                there.change({other: found})
                folder.change({name: None})

    def _place(self, path: str) -> tuple[Folder, str]:
        *parents, name = path.split("/")
        folder = self.root
        for parent in parents:
            child = folder.live[parent]
            assert isinstance(child, Folder)
            folder = child
        return folder, name


def _rename(names: dict[str, File | Folder], changed: Mapping[str, File | Folder | None]) -> None:
    for name, found in changed.items():
        if found is None:
            names.pop(name, None)
        else:
            names[name] = found


def _applied(content: bytes, pending: Sequence[tuple[int, bytes | None]]) -> bytes:
    made = bytearray(content)
    for offset, data in pending:
        if data is None:
            made = made[:offset].ljust(offset, b"\0")
        else:
            made = made.ljust(offset, b"\0")
            made[offset : offset + len(data)] = data
    return bytes(made)
