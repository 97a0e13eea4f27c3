"""What one listing of a timeline's folder says, and what was read of its files since.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hoodie.storage import Storage
from hoodie.timeline.commit import CommitMetadata

#: bytes of completed commits that are kept; more are read again when they are asked for again
_KEPT_BYTES = 8 << 20
#: of them, those that are kept parsed, which takes about ten times the memory
_PARSED_BYTES = 1 << 20
#: of a storage that is asked over a network, more files than this are looked at by a listing
_ALONE = 4


class ModificationTimes(Mapping[str, int]):
    """Epoch milliseconds by file name, each looked up when it is first asked for.

    Looking at thousands of files takes longer than listing them, and few times are ever wanted. A name whose
    file has gone since the listing is there, and its time is a KeyError. `listing` is all of the folder.
    """

    def __init__(
        self, storage: Storage, folder: str, listing: frozenset[str], names: Collection[str]
    ) -> None:
        self.listing = listing
        self._storage = storage
        self._folder = folder
        self._names = frozenset(names)
        self._known: dict[str, int] = {}
        self._asked = 0

    def take(self, earlier: ModificationTimes) -> None:
        """Take over the times that an earlier listing of the folder knows."""
        known = earlier._known.copy()  # threads that have the earlier listing look up times meanwhile
        self._known = {name: time for name, time in known.items() if name in self._names}

    def __getitem__(self, name: str) -> int:
        known = self._known.get(name)
        if known is None and self._storage.remote and name in self._names:
            self._asked += 1
            if self._asked == _ALONE + 1:
                times = {item.name: item.mtime_ms for item in self._storage.list(self._folder)}
                self._known.update((each, times[each]) for each in self._names.intersection(times))
                known = self._known.get(name)
        if known is None:
            found = self._storage.info(f"{self._folder}/{name}") if name in self._names else None
            if found is None:
                raise KeyError(name)
            known = self._known[name] = found.mtime_ms
        return known

    def get(self, name: str, default: Any = None) -> Any:
        known = self._known.get(name)  # asked for thousands of files at a poll
        return super().get(name, default) if known is None else known

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Contents:
    """What files of completed commits contain, by name: they never change. Bounded by _KEPT_BYTES and
    _PARSED_BYTES.
    """

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._left = _KEPT_BYTES
        self._parsed: dict[str, CommitMetadata] = {}
        self._left_parsed = _PARSED_BYTES

    def parsed(self, name: str) -> CommitMetadata | None:
        return self._parsed.get(name)

    def keep_parsed(self, name: str, size: int, commit: CommitMetadata) -> None:
        """`size` is that of the file."""
        if size <= self._left_parsed and name not in self._parsed:
            self._parsed[name] = commit
            self._left_parsed -= size

    def get(self, name: str) -> bytes | None:
        return self._known.get(name)

    def keep(self, name: str, data: bytes) -> None:
        if 0 < len(data) <= self._left and name not in self._known:
            self._known[name] = data
            self._left -= len(data)

    def take(self, earlier: Contents, names: Collection[str]) -> None:
        """Take over what an earlier listing of the timeline knows of these files."""
        for name, data in earlier._known.copy().items():
            if name in names:
                self.keep(name, data)
                if (commit := earlier.parsed(name)) is not None:
                    self.keep_parsed(name, len(data), commit)
