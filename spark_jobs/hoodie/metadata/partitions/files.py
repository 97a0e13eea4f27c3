"""The partition `files` of the metadata table (format.md 10.3, 10.5; Apache Hudi 0.15.0
HoodieTableMetadataUtil): its records, and partitions and data files as it lists them.

- One record lists the partitions of the table. Each touched partition has a record with the files that the
  action made there, with their sizes, and those that it deleted.
- A reader merges the records of a key by name. Later records win. For several sizes of a file the greatest
  wins.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Ints, pc, whole
from hoodie.errors import TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.log_data import Find
from hoodie.format.names import data_file, relative_path
from hoodie.metadata.keys import NOT_PARTITIONED
from hoodie.metadata.partitions import Records
from hoodie.metadata.table import MetadataTable, Partition, by_keys
from hoodie.storage import FileInfo
from hoodie.table.listing import Possible
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.models.rollback import RollbackMetadata

#: the key of the list of partitions
ALL = "__all_partitions__"
#: the column of both kinds of records
FILES = "filesystemMetadata"
TYPE_OF_LIST, TYPE_OF_FILES = 1, 2
_INFO = pa.struct([pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)])
_ITEM: Any = pa.field("value", _INFO, False)
_MAP: Any = pa.map_(pa.string(), _ITEM)
_FIELDS: Any = [
    pa.field(KEY_FIELD, pa.string(), False),
    pa.field("type", pa.int32(), False),
    pa.field(FILES, _MAP),
]
SCHEMA = pa.schema(_FIELDS)

#: bytes of a file, None where it was deleted
Size = int | None
#: names of files, by partition path
Files = Mapping[str, Mapping[str, Size]]


def of_commit(metadata: CommitMetadata) -> Records:
    """Of a write, a compaction or a clustering. The files of replaced file groups stay until a clean deletes
    them.
    """
    files: dict[str, dict[str, Size]] = {}
    for partition, stats in metadata.partition_to_write_stats.items():
        sizes = files.setdefault(partition, {})
        for stat in stats:
            if stat.path is not None:
                _grow(sizes, stat.path, stat.file_size_in_bytes)
                sizes.update({_name(path): size for path, size in (stat.cdc_stats or {}).items()})
    return _records(files, partitions=files)


def of_clean(metadata: CleanMetadata) -> Records:
    """Also the files that could not be deleted are gone for readers: no file slice needs them."""
    files = {path: dict.fromkeys(map(_name, item.patterns)) for path, item in metadata.partitions.items()}
    gone = [path for path, item in metadata.partitions.items() if item.partition_deleted]
    return _records(files, gone=gone)


def of_rollback(metadata: RollbackMetadata, listed: Mapping[str, Container[str]] | None = None) -> Records:
    """The logs with blocks that don't count any more, and those that say so.

    What else the instant had written was never listed, or its own records are taken back. Where these are
    compacted already, and with them those of logs that were begun on top of it, `listed` says so: the names
    that the metadata table has after that, by partition path. (Apache Hudi refuses such a rollback.)
    """
    files: dict[str, dict[str, Size]] = {}
    for path, item in metadata.partitions.items():
        known = (listed or {}).get(path, ())
        sizes: dict[str, Size] = {name: None for name in map(_name, item.deleted) if name in known}
        if item.rollback_log_files:
            for logs in (item.rollback_log_files, item.failed_commit_log_files or {}):
                for log, size in logs.items():
                    _grow(sizes, log, size)
        if sizes:
            files[path] = sizes
    return _records(files)


def of_listing(files: Mapping[str, Mapping[str, int]]) -> Records:
    """All of a table's files: what a new metadata table begins with."""
    return _records(files, partitions=files)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _grow(sizes: dict[str, Size], path: str, size: int) -> None:
    """Of several sizes of a log the greatest counts: it is appended to."""
    name = _name(path)
    sizes[name] = max(sizes.get(name) or 0, size)


def _records(files: Files, partitions: Iterable[str] | None = None, gone: Iterable[str] = ()) -> Records:
    """`partitions`: those that are there, listed even if there are none; `gone`: those that are not."""
    groups: list[tuple[str, int, Mapping[str, Size]]] = []
    there: dict[str, Size] = {_key(path): 0 for path in partitions or ()}
    lost: dict[str, Size] = {_key(path): None for path in gone}
    if partitions is not None or lost:
        groups.append((ALL, TYPE_OF_LIST, {**there, **lost}))
    for path, sizes in files.items():
        for name, size in sizes.items():
            if size is not None and size <= 0:
                raise TableError(
                    f"{name} in partition {path!r} has {size} bytes, and a metadata table lists no empty "
                    "files; roll back the commit that names it",
                    file=name,
                )
        groups.append((_key(path), TYPE_OF_FILES, sizes))
    return Records(_rows(groups))


def _key(partition: str) -> str:
    return partition or NOT_PARTITIONED


def _rows(groups: list[tuple[str, int, Mapping[str, Size]]]) -> pa.Table:
    names = [name for *_, sizes in groups for name in sizes]
    found = [size for *_, sizes in groups for size in sizes.values()]
    infos = pa.StructArray.from_arrays(
        [
            pa.array([size or 0 for size in found], pa.int64()),
            pa.array([size is None for size in found], pa.bool_()),
        ],
        fields=list(_INFO),
    )
    bounds = pa.array([0, *accumulate(len(sizes) for *_, sizes in groups)], pa.int32())
    new_maps: Any = pa.MapArray.from_arrays
    maps = new_maps(bounds, pa.array(names, pa.string()), infos, _MAP)
    keys = pa.array([key for key, *_ in groups], pa.string())
    types = pa.array([type_ for _, type_, _ in groups], pa.int32())
    return pa.table([keys, types, maps], schema=SCHEMA)


#: matches names that no file with rows has, as `data_file` refuses them
_NO_FILE = r"^$|[/\x00]|^\.hoodie|^\.\.?$"
_A_PARTITION = "a partition of the metadata table"


class MetadataListing:
    """A `FileListing` by the metadata table. Times of files are not known: 0.

    Memory: the entries of the partitions that were asked for.
    """

    def __init__(self, metadata: MetadataTable, base_path: str) -> None:
        self._metadata = metadata
        self._base_path = base_path
        self._known: dict[str, Sequence[FileInfo]] = {}
        self._partitions: list[str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}, "_partitions": None}

    def partitions(self, possible: Possible | None = None) -> list[str]:
        """Without `possible` the files of all of them are read as well, so that the index is read once."""
        if self._partitions is None:
            every = possible is None and not self._known
            entries = list(self._entries(None if every else by_keys([ALL])))
            names = [name for found in entries for name in found.names_of(ALL)]
            self._partitions = (
                [""]
                if names == [NOT_PARTITIONED]
                else sorted(relative_path(name, _A_PARTITION) for name in names)
            )
            if every:
                self._known.update(self._listed(self._partitions, entries))
        if possible is None:
            return list(self._partitions)
        once = cache(possible)  # folders have many partitions in them
        return [name for name in self._partitions if all(map(once, _folders(name)))]

    def files(self, partition: str) -> Sequence[FileInfo]:
        return self.many([partition])[partition]

    def many(self, partitions: Iterable[str]) -> dict[str, Sequence[FileInfo]]:
        wanted = list(partitions)
        missing = [name for name in dict.fromkeys(wanted) if name not in self._known]
        if missing:
            keys = [relative_path(name, "a partition") or NOT_PARTITIONED for name in missing]
            self._known.update(self._listed(missing, self._entries(by_keys(keys))))
        return {name: self._known[name] for name in wanted}

    def _listed(self, partitions: Iterable[str], entries: Iterable[Entries]) -> dict[str, list[FileInfo]]:
        """The files of these partitions."""
        listed: dict[str, list[FileInfo]] = {name or NOT_PARTITIONED: [] for name in partitions}
        for found in entries:
            keys: list[str] = np.asarray(found.keys).tolist()
            there = np.array([key in listed for key in keys], np.bool_)
            files = found if there.all() else found.take(np.flatnonzero(there[found.owners]))
            _check(files)
            infos = self._infos(keys, files)
            bounds = np.searchsorted(files.owners, np.arange(len(keys) + 1)).tolist()
            for key, start, end in zip(keys, bounds[:-1], bounds[1:], strict=True):
                if start < end:
                    listed[key] += infos[start:end]
                    listed[key].sort()
        return {"" if key == NOT_PARTITIONED else key: infos for key, infos in listed.items()}

    def _infos(self, keys: Sequence[str], files: Entries) -> list[FileInfo]:
        base = self._base_path
        places = [f"{base}/" if key == NOT_PARTITIONED else f"{base}/{key}/" for key in keys]
        folders = np.array(places, np.object_)
        names, sizes = (np.asarray(each).tolist() for each in (files.names, files.sizes))
        paths = map(operator.add, folders[files.owners].tolist(), names)
        made: Any = partial(tuple.__new__, FileInfo)  # what FileInfo._make does, without its steps of Python
        return list(map(made, zip(paths, names, sizes, repeat(0), repeat(False))))

    def _entries(self, find: Find | None) -> Iterable[Entries]:
        """What is there of the keys that `find` says, None for all."""
        for item in self._metadata.slices(Partition.FILES):
            rows = self._metadata.records(item, find or (lambda reader: reader.scan()), [FILES])
            if rows.num_rows:
                yield live_entries(rows)


def _check(files: Entries) -> None:
    """Raises TableError for what is no file in its partition."""
    names: Any = files.names
    if _are_plain(names) and not (files.sizes < 0).any():
        return
    wrong = np.asarray(pc.match_substring_regex(names, _NO_FILE)) | (files.sizes < 0)
    for place in np.flatnonzero(wrong)[:1].tolist():
        key = files.keys[int(files.owners[place])].as_py()
        name, size = names[place].as_py(), int(files.sizes[place])
        if name and "/" not in name and size >= 0:
            data_file(name, "a file of the metadata table")
        raise TableError(
            f"the metadata table lists {name!r} of {size} bytes as a file of {key!r}; it is damaged: delete "
            "it with Apache Hudi, or write to the table from here",
            file=name,
        )


def _are_plain(names: Any) -> bool:
    """Is surely none of them one of _NO_FILE: a look at all bytes at once."""
    data = np.frombuffer(names.buffers()[2] or b"", np.uint8)
    if (data == ord("/")).any() or not data.all():
        return False
    short = pc.less_equal(pc.binary_length(names), 2)
    return not (pc.any(short).as_py() or pc.any(pc.starts_with(names, ".hoodie")).as_py())


def _folders(partition: str) -> Iterable[str]:
    """The partition, and the folders that it is in."""
    parts = partition.split("/")
    return ("/".join(parts[: count + 1]) for count in range(len(parts)))


@dataclass(frozen=True)
class Entries:
    """Names with their sizes, by key: `owners` are places in `keys`, which are distinct, and ascend."""

    keys: Any
    owners: Ints
    names: Any
    sizes: Ints

    def take(self, places: Ints) -> Entries:
        return Entries(self.keys, self.owners[places], self.names.take(pa.array(places)), self.sizes[places])

    def names_of(self, key: str) -> list[str]:
        place = pc.index(self.keys, key).as_py()
        start, stop = np.searchsorted(self.owners, [place, place + 1]).tolist()
        found: list[str] = self.names[start:stop].to_pylist()
        return found if place >= 0 else []


def live_names(rows: pa.Table) -> tuple[Array, Array, Array]:
    """(keys, names, sizes) of `live_entries`."""
    found = live_entries(rows)
    return found.keys.take(pa.array(found.owners)), found.names, pa.array(found.sizes)


def live_entries(rows: pa.Table) -> Entries:
    """The names that records, in their order, leave; by key, in the order of first records."""
    maps: Any = whole(rows.column(FILES).combine_chunks())
    keys: Any = whole(rows.column(KEY_FIELD))
    names, infos = maps.keys, maps.items
    counts = np.diff(np.asarray(maps.offsets))
    coded_keys = keys.dictionary_encode()
    owners = np.repeat(np.asarray(coded_keys.indices).astype(np.int64), counts)
    sizes = np.asarray(infos.field("size"))
    deleted = np.asarray(infos.field("isDeleted").cast(pa.int8())) != 0
    coded = names.dictionary_encode()
    every = Entries(coded_keys.dictionary, owners, names, sizes)
    if len(coded.dictionary) == len(names) and len(every.keys) == len(keys):  # each name once
        return every.take(np.flatnonzero(~deleted)) if deleted.any() else every
    codes = owners * max(1, len(coded.dictionary)) + np.asarray(coded.indices).astype(np.int64)
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    turn: Ints = np.arange(codes.size)
    gone = np.full(first.size, -1, np.int64)
    np.maximum.at(gone, groups, np.where(deleted, turn, -1))
    there = ~deleted & (turn > gone[groups])
    largest = np.full(first.size, -1, np.int64)
    np.maximum.at(largest, groups[there], sizes[there])
    left = np.flatnonzero(np.bincount(groups[there], minlength=first.size))
    return Entries(every.keys, owners[first[left]], names.take(pa.array(first[left])), largest[left])
