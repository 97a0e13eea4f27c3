"""Records of the partition `files` (format.md 10.3, 10.5; Apache Hudi 0.15.0 HoodieTableMetadataUtil).

One record lists the partitions of the table. One of each partition that an action touched has the files that
it made there, with their sizes, and those that it deleted; a reader merges it with earlier ones by name.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import accumulate
from typing import Any

import pyarrow as pa

from hoodie.errors import TableError
from hoodie.format.hfile_records import KEY_FIELD
from hoodie.metadata.records import Records
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.models.clean import CleanMetadata
from hoodie.timeline.models.rollback import RollbackMetadata

#: the key of the list of partitions
ALL = "__all_partitions__"
#: the partition of a table without any
NOT_PARTITIONED = "."
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
