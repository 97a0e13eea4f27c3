"""Partitions and data files, as the metadata table lists them (format.md 10.3, FILES).

A record is a partition, or the list of partitions, with names: each has a size, or says that the name was
deleted. Of several records of a key, what later ones say counts; of several sizes of a file the greatest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, Ints, whole
from hoodie.errors import TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.format.names import data_file, join, relative_path
from hoodie.metadata.records.files import ALL, FILES, NOT_PARTITIONED
from hoodie.metadata.table import MetadataTable, Partition, by_keys
from hoodie.storage import FileInfo
from hoodie.table.listing import Possible


class MetadataListing:
    """A `FileListing` by the metadata table. Times of files are not known: 0.

    Memory: the entries of the partitions that were asked for.
    """

    def __init__(self, metadata: MetadataTable, base_path: str) -> None:
        self._metadata = metadata
        self._base_path = base_path
        self._known: dict[str, Sequence[FileInfo]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    def partitions(self, possible: Possible | None = None) -> list[str]:
        _, names, _ = self._live([ALL])
        if names == [NOT_PARTITIONED]:
            return [""]
        found = sorted(relative_path(name, "a partition of the metadata table") for name in names)
        return found if possible is None else [name for name in found if all(map(possible, _folders(name)))]

    def files(self, partition: str) -> Sequence[FileInfo]:
        return self.many([partition])[partition]

    def many(self, partitions: Iterable[str]) -> dict[str, Sequence[FileInfo]]:
        wanted = list(partitions)
        missing = [name for name in dict.fromkeys(wanted) if name not in self._known]
        if missing:
            listed: dict[str, list[FileInfo]] = {name: [] for name in missing}
            for key, name, size in zip(
                *self._live([name or NOT_PARTITIONED for name in missing]), strict=True
            ):
                partition = "" if key == NOT_PARTITIONED else key
                if not name or "/" in name or size < 0:
                    raise TableError(
                        f"the metadata table lists {name!r} of {size} bytes as a file of {key!r}; it is "
                        "damaged: delete it with Apache Hudi, or write to the table from here",
                        file=name,
                    )
                path = data_file(join(partition, name), "a file of the metadata table")
                listed[partition].append(FileInfo(join(self._base_path, path), name, size, 0, False))
            for partition, items in listed.items():
                self._known[partition] = sorted(items, key=lambda item: item.name)
        return {name: self._known[name] for name in wanted}

    def _live(self, keys: list[str]) -> tuple[list[str], list[str], list[int]]:
        """(keys, names, sizes) of what is there."""
        owners, names, sizes = list[str](), list[str](), list[int]()
        for item in self._metadata.slices(Partition.FILES):
            rows = self._metadata.records(item, by_keys(keys), [FILES])
            if rows.num_rows:
                found: Any = live_names(rows)
                owners += found[0].to_pylist()
                names += found[1].to_pylist()
                sizes += found[2].to_pylist()
        return owners, names, sizes


def _folders(partition: str) -> Iterable[str]:
    """The partition, and the folders that it is in."""
    parts = partition.split("/")
    return ("/".join(parts[: count + 1]) for count in range(len(parts)))


def live_names(rows: pa.Table) -> tuple[Array, Array, Array]:
    """(keys, names, sizes) of the names that records, in their order, leave."""
    maps: Any = whole(rows.column(FILES).combine_chunks())
    keys: Any = whole(rows.column(KEY_FIELD))
    names, infos = maps.keys, maps.items
    counts = np.diff(np.asarray(maps.offsets))
    owners = np.repeat(np.arange(len(maps)), counts)
    sizes = np.asarray(infos.field("size"))
    deleted = np.asarray(infos.field("isDeleted").cast(pa.int8())) != 0
    key_codes = np.asarray(keys.dictionary_encode().indices).astype(np.int64)[owners]
    coded = names.dictionary_encode()
    codes = key_codes * max(1, len(coded.dictionary)) + np.asarray(coded.indices).astype(np.int64)
    _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
    turn: Ints = np.arange(codes.size)
    gone = np.full(first.size, -1, np.int64)
    np.maximum.at(gone, groups, np.where(deleted, turn, -1))
    there = ~deleted & (turn > gone[groups])
    largest = np.full(first.size, -1, np.int64)
    np.maximum.at(largest, groups[there], sizes[there])
    left = np.flatnonzero(np.bincount(groups[there], minlength=first.size))
    return (
        keys.take(pa.array(owners[first[left]])),
        names.take(pa.array(first[left])),
        pa.array(largest[left]),
    )
