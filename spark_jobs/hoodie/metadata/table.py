"""The metadata table of a table, at one moment: records by key (format.md 10).

It is a table of its own in `.hoodie/metadata`, with a timeline, and opened by the same handle. Its partitions
are indexes; a slice is an HFile, and log files with HFiles in their blocks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.errors import InputError, TableError
from hoodie.format.hfile import HFileReader
from hoodie.format.hfile_records import KEY_FIELD, decode_rows, field_names, schema_of
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import Find, find_rows, read_delete_block
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.format.names import HFILE, relative_path
from hoodie.metadata.instants import instants_of
from hoodie.metadata.keys import file_groups
from hoodie.metadata.missing_log_blocks import check_no_lost_blocks
from hoodie.metadata.partition_groups import partition_of
from hoodie.metadata.record_schema import check_columns, joined
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.listing import FileListing
from hoodie.table.log_scan import SMALL, Entry, contents, scan_slice
from hoodie.table.view import BaseFile, FileSlice, TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.time import NO_TIME, InstantTime

_THREADS = 8
#: bytes of a base file that is kept
_SMALL_BASE = 1 << 20
_Content: TypeAlias = "tuple[Entry, bytes]"


class Partition(str):
    """A partition of the metadata table that is read and written, by the name of its folder."""

    FILES: ClassVar[Partition]
    COLUMN_STATS: ClassVar[Partition]
    BLOOM_FILTERS: ClassVar[Partition]
    RECORD_INDEX: ClassVar[Partition]
    PARTITION_STATS: ClassVar[Partition]

    @property
    def value(self) -> str:
        return str(self)


Partition.FILES = Partition("files")
Partition.COLUMN_STATS = Partition("column_stats")
Partition.BLOOM_FILTERS = Partition("bloom_filters")
Partition.RECORD_INDEX = Partition("record_index")
Partition.PARTITION_STATS = Partition("partition_stats")
#: indexes of versions 8 and 9 (format.md 15.12), of which there may be several
SECONDARY_INDEX, EXPRESSION_INDEX = "secondary_index_", "expr_index_"
DEFINED = (SECONDARY_INDEX, EXPRESSION_INDEX)


def by_keys(keys: Iterable[str]) -> Find:
    """An iterable, or an array of texts."""
    texts: Any = keys if isinstance(keys, pa.Array) else pa.array(list(keys), pa.string())
    wanted: Any = texts.cast(pa.binary())
    return lambda reader: reader.get(wanted)


def by_prefixes(prefixes: Any) -> Find:
    """An array of texts with which keys begin."""
    wanted = [text.encode() for text in prefixes.to_pylist()]
    return lambda reader: reader.get_prefixes(wanted)


class MetadataTable:
    """What readers may take from it: `partitions` are those that the table's properties name. Picklable.

    The timeline of the table decides which records count, as it was when the metadata table was opened.
    Small base files, and logs of a slice that are small together, are read once, and kept. `lacks` is the
    first completed instant of the table that is not in it, "" where it is up to date.
    """

    def __init__(
        self,
        storage: Storage,
        listing: FileListing,
        files: TimelineView,
        blocks: TimelineView,
        own: Timeline,
        partitions: frozenset[str],
        lacks: InstantTime = NO_TIME,
        newest: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        """`files` shows the metadata table's files, `blocks` those of the logs that count. `own` is its
        timeline, `newest` has the names of the files of its last commit by partition.
        """
        self.partitions = partitions
        self.lacks = lacks
        self._own = own
        self._compactions = frozenset(item.time for item in own.filter((Action.COMMIT,), completed=True))
        self._newest = dict(newest)
        self._kept: dict[FileSlice, list[_Content]] = {}
        self._small: dict[str, bytes] = {}
        self._storage = storage
        self._listing = listing
        self._files = files
        self._blocks = blocks

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}, "_small": {}}

    @classmethod
    def open(cls, data: Table) -> MetadataTable | None:
        """Of a table, as the table's timeline was listed last; None where the properties name no partition.

        Raises TableError where they do, and the metadata table is not there or damaged.
        """
        partitions = frozenset(data.properties.metadata_partitions)
        if not partitions:
            return None
        timeline, storage = data.timeline, data.storage
        table = data.metadata_table
        number = table.read_properties().version
        if table.layout is not data.layout:
            raise TableError(
                f"{table.base_path} has table version {number}, and its table {data.properties.version}",
                path=table.base_path,
                version=number,
            )
        files, own = table.view, table.timeline
        instants = instants_of(data.layout)
        blocks = instants.shown_blocks(timeline, own, files, storage)
        lacks = instants.lacking(timeline, own, storage)
        newest = _written(own, storage)
        return cls(storage, table.listing(), files, blocks, own, partitions, lacks, newest)

    def slices(self, partition: str) -> list[FileSlice]:
        """The latest slice of each file group, by number.

        Raises TableError where readers may not take the partition, and where files are missing that show as
        gaps: all of them, a base file that a compaction made, a log file between others, a file of the last
        commit.
        """
        found = self._slices(partition)
        if partition == Partition.RECORD_INDEX and any(
            partition_of(item.file_id) is not None for item in found
        ):
            raise TableError(
                "its record index is one of each partition, which hoodie.index.type=RECORD_LEVEL_INDEX uses",
                partition=_folder(partition),
            )
        return found

    def record_index_slices(self) -> dict[str | None, list[FileSlice]]:
        """Those of the record index by the partition of the table whose keys they have; None: of all. Raises
        as `slices`, and TableError for file groups of both kinds, or of another name.
        """
        found: dict[str | None, list[FileSlice]] = {}
        for item in self._slices(Partition.RECORD_INDEX):
            found.setdefault(partition_of(item.file_id), []).append(item)
        if None in found and len(found) > 1:
            raise TableError("the record index has file groups of all partitions and of single ones")
        return found

    def _slices(self, partition: str) -> list[FileSlice]:
        folder = _folder(partition)
        if folder not in self.partitions:
            raise TableError(
                f"the metadata table has no partition {folder} that readers may use", partition=folder
            )
        relative_path(folder, "a partition of the metadata table")
        found = merged_slices(self._files, self._listing.files, folder, HFILE)
        gap = self._gap(found, self._newest.get(folder, frozenset()))
        if gap:
            raise TableError(f"partition {folder} of the metadata table lacks {gap}", partition=folder)
        return found

    def _gap(self, slices: Sequence[FileSlice], newest: frozenset[str]) -> str:
        """What is missing among the files of a partition; "" for nothing."""
        if not slices:
            return "its files"
        names = set[str]()
        for item in slices:
            names.update([item.base.name] if item.base else [], (log.name for log in item.logs))
            if item.base is None and item.instant in self._compactions:
                return f"the base file of {item.file_id} that compaction {item.instant} made"
            versions = {log.version for log in item.logs}
            if versions != set(range(1, len(versions) + 1)):
                return f"log files of {item.file_id}"
        return next(iter(sorted(newest - names)), "")

    def records(self, item: FileSlice, find: Find, columns: Sequence[str]) -> pa.Table:
        """The records of a slice whose keys `find` says: those of the base file first, then of the logs in
        their order, so that a key has several. `columns` are of HoodieMetadataRecord; KEY_FIELD is added.

        Records before a delete of their key are left out. Raises TableError for damaged files, and for logs
        that have lost blocks, and FileNotFoundError for one that was cleaned since the listing.
        """
        names = list(dict.fromkeys([KEY_FIELD, *columns]))
        found = list(self._base(item, find, names))
        for (log, block), content in self._contents(item):
            with naming(log.path):
                if block.type is BlockType.DELETE:
                    found = _without(found, read_delete_block(content).keys)
                else:
                    found.append(_with_meta(find_rows(block, content, find, names), names))
        with naming(item.partition):
            for part in found:
                check_columns(part, columns)
        return joined(found) if found else pa.table({name: pa.nulls(0) for name in names})

    def _contents(self, item: FileSlice) -> Iterable[_Content]:
        """The blocks of a slice's logs that count, with their contents, in their order."""
        kept = self._kept.get(item)
        if kept is None:
            scan = scan_slice(self._storage, item, self._blocks, keep=SMALL)
            check_no_lost_blocks(scan, self._own, self._blocks, self._storage)
            found = contents(self._storage, scan)
            if scan.content_bytes > SMALL:
                return found
            kept = self._kept[item] = list(found)
        return kept

    def look_up(self, partition: str, keys: Any, columns: Sequence[str]) -> list[pa.Table]:
        """`records` of each file group that can have some of the keys, side by side; no empty ones.

        Raises as `slices` and `records`.
        """
        return self.look_up_in([self.slices(partition)], keys, columns)

    def look_up_in(
        self,
        groups: Iterable[Sequence[FileSlice]],
        keys: Any,
        columns: Sequence[str],
        find: Callable[[Any], Find] = by_keys,
        hashed: bool = True,
    ) -> list[pa.Table]:
        """As `look_up`, in sets of file groups, each of which has the keys distributed among its own. `find`
        makes the look-up in a file of the keys of a file group. `hashed`: the hash of a key says which file
        group can have it, else each can.
        """
        wanted = pc.unique(keys)
        asked: list[tuple[FileSlice, Any]] = []
        for slices in groups if len(wanted) else ():
            numbers = file_groups(wanted, len(slices)) if hashed and slices else None
            for number, item in enumerate(slices):
                mine = wanted if numbers is None else wanted.filter(pa.array(numbers == number))
                if len(mine):
                    asked.append((item, mine))

        def look(one: tuple[FileSlice, Any]) -> pa.Table:
            return self.records(one[0], find(one[1]), columns)

        with ThreadPoolExecutor(_THREADS) as pool:
            return [rows for rows in pool.map(look, asked) if rows.num_rows]

    def _base(self, item: FileSlice, find: Find, names: Sequence[str]) -> Iterator[pa.Table]:
        if item.base is not None:
            with self._opened(item.base) as reader, naming(reader.name):
                text = schema_of(reader)
                there = frozenset(field_names(text))
                wanted = [name for name in names if name in there or name not in META_COLUMNS]
                yield _with_meta(decode_rows(find(reader), text, wanted), names)

    def _opened(self, base: BaseFile) -> HFileReader:
        """Small ones are read once, as a whole."""
        data = self._small.get(base.path)
        if data is None:
            if base.size > _SMALL_BASE or sum(map(len, self._small.copy().values())) > SMALL:
                return HFileReader.open(self._storage, base.path)
            with self._storage.open_input(base.path) as source:
                data = self._small[base.path] = source.read(base.size)
        return HFileReader.of_bytes(data, base.path)


def _folder(partition: str) -> str:
    return partition.value if isinstance(partition, Partition) else partition


def _written(timeline: Timeline, storage: Storage) -> dict[str, frozenset[str]]:
    """The names of the files that the last commit of a metadata table wrote, by partition."""
    last = timeline.last_commit
    if last is None:
        return {}
    if last.completion is not None:  # a partition that was made anew has an earlier instant in layout two
        commits = frozenset(timeline.commits())
        last = [item for item in timeline.by_completion() if item in commits][-1]
    stats = timeline.commit(last, storage).partition_to_write_stats
    return {
        partition: frozenset(stat.file_name for stat in group if stat.path)
        for partition, group in stats.items()
    }


def _with_meta(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """With all of the names; meta columns that the file lacks are null."""
    nothing: Any = pa.nulls(rows.num_rows, pa.string())
    for name in META_COLUMNS:
        if name in names and name not in rows.schema.names:
            rows = rows.append_column(name, nothing)
    return rows.select(names) if rows.num_columns == len(names) else rows


def _without(found: list[pa.Table], keys: Any) -> list[pa.Table]:
    if not len(keys):
        return found
    return [rows.filter(pc.invert(pc.is_in(rows.column(KEY_FIELD), value_set=keys))) for rows in found]


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except (TableError, InputError) as error:
        if path in error.message:
            raise
        raise TableError(f"{path} is damaged: {error.message}", path=path) from None
