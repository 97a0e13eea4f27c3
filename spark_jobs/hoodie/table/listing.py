"""The data files of a table: the only place that lists them.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeAlias

from hoodie.format.names import join, relative_path
from hoodie.storage import FileInfo, Storage
from hoodie.table.partition import PARTITION_FILE
from hoodie.timeline.active import META_FOLDER

_THREADS = 8
#: folders of a file system are listed by so many threads where they are more than these
_FEW = 4
#: as many requests for folders are worth one for the files of all of them
_WORTH = 8
#: says of a folder, by its path in the table, whether it or a folder in it is wanted
Possible: TypeAlias = Callable[[str], bool]


class FileListing(Protocol):
    """Partitions of a table, and what their folders contain, at one moment. Picklable.

    A folder is looked at when it is first asked for, and never again: what a listing says of one partition
    does not change, and a caller that needs later changes makes another listing. Make it after the timeline
    was loaded that judges the files: a listing older than the timeline lacks files of its last commits.
    """

    def partitions(self, possible: Possible | None = None) -> list[str]:
        """Every partition path, sorted; not partitioned: [""]. TableError: a name is no UTF-8.

        A folder below the table's that `possible` is false for is left out, with those in it; it need not be
        looked at.
        """
        ...

    def files(self, partition: str) -> Sequence[FileInfo]:
        """The entries of the partition's folder, by name; none for a folder that is missing."""
        ...

    def many(self, partitions: Iterable[str]) -> dict[str, Sequence[FileInfo]]:
        """`files` of each of them, in their order, asked for side by side."""
        ...


class StorageListing:
    """The listing of the folders themselves. Memory: the entries of the folders that were looked at."""

    def __init__(self, storage: Storage, base_path: str) -> None:
        self._storage = storage
        self._base_path = base_path
        self._known: dict[str, Sequence[FileInfo]] = {}

    @classmethod
    def of_small(cls, storage: Storage, base_path: str) -> StorageListing | None:
        """One that has looked at every folder, the timeline's, too, by one request; None where that takes
        more.
        """
        found = storage.tree_within(base_path, 1)
        if found is None:
            return None
        listing = cls(storage, base_path)
        listing._known = _Whole(_by_folder(base_path, found))
        return listing

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def partitions(self, possible: Possible | None = None) -> list[str]:
        """A folder with a metadata file is a leaf."""
        found: list[str] = []

        def visit(relative: str) -> list[str]:
            entries = self._known.get(relative)
            entries = self._storage.list(join(self._base_path, relative)) if entries is None else entries
            if any(item.name.startswith(PARTITION_FILE) for item in entries):
                self._known[relative] = entries
                found.append(relative_path(relative, "a partition's folder"))
                return []
            return [
                join(relative, item.name)
                for item in entries
                if item.is_dir and not (relative == "" and item.name == META_FOLDER)
            ]

        level = [""]
        with ThreadPoolExecutor(_THREADS) as pool:
            while level:
                self._list_at_once(level, below=True)
                below = [child for children in pool.map(visit, level) for child in children]
                level = below if possible is None else [child for child in below if possible(child)]
        return sorted(found)

    def files(self, partition: str) -> Sequence[FileInfo]:
        known = self._known.get(partition)
        if known is None:
            known = self._known[partition] = self._storage.list(join(self._base_path, partition))
        return known

    def many(self, partitions: Iterable[str]) -> dict[str, Sequence[FileInfo]]:
        wanted = list(partitions)
        if not self._storage.remote and len(wanted) <= _FEW:
            return {partition: self.files(partition) for partition in wanted}
        self._list_at_once(wanted)
        with ThreadPoolExecutor(_THREADS) as pool:
            return dict(zip(wanted, pool.map(self.files, wanted), strict=True))

    def _list_at_once(self, folders: Sequence[str], below: bool = False) -> None:
        """Have the files of the whole table listed, for these folders and, if they are wanted, those `below`,
        where that takes a fraction of the requests; an attempt is given up early enough to cost little.

        A folder keeps what is known of it: see FileListing.
        """
        unknown = [folder for folder in folders if folder not in self._known]
        if len(unknown) < _WORTH:
            return
        # names of the timeline, of which there may be many, sort before most partitions
        meta = f"{META_FOLDER}0"
        after = join(self._base_path, meta) if min(unknown) > meta else ""
        found = self._storage.tree_within(self._base_path, len(unknown) // _WORTH, after)
        if found is None:
            return
        entries = _by_folder(self._base_path, found)
        for folder in [*unknown, *entries] if below else unknown:
            if folder not in self._known:
                self._known[folder] = entries.get(folder, [])


class _Whole(dict[str, Sequence[FileInfo]]):
    """The entries of folders; what is not among them is missing."""

    def get(self, folder: str, default: Any = None) -> Sequence[FileInfo]:
        return super().get(folder, ())


def _by_folder(base_path: str, found: Iterable[FileInfo]) -> dict[str, Sequence[FileInfo]]:
    """The entries of each folder by name, given all files of a table."""
    entries: dict[str, dict[str, FileInfo]] = {}
    for item in found:
        child = item
        while folder := child.path[len(base_path) + 1 :].rpartition("/")[0]:
            known = entries.setdefault(folder, {})
            if child.name in known:
                break
            known[child.name] = child
            child = FileInfo(join(base_path, folder), folder.rpartition("/")[2], 0, 0, True)
    return {folder: sorted(some.values(), key=lambda item: item.name) for folder, some in entries.items()}
