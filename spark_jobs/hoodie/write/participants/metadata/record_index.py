"""The partition `record_index` of a metadata table: the file group of every record (Apache Hudi 0.15.0
HoodieBackedTableMetadataWriter).

- A write changes the keys of new rows, which are at the end of their files. It also changes the keys that a
  file lacks of the one that it replaces. Updates and compactions change nothing.
- A clustering gives all of its keys new places.
- A rollback voids the log blocks of the commit, and with them its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from hoodie.codec.arrays import Array, whole
from hoodie.config.key import Config
from hoodie.engine.packing import together
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.meta_fields import RECORD_KEY, with_meta, without_meta
from hoodie.format.names import join
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import PATH as DEFINITIONS
from hoodie.metadata.index_definitions import index_definitions
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.record_index import Place, file_group_count, of_deleted, of_places
from hoodie.metadata.settings import (
    RECORD_INDEX_ENABLE,
    RECORD_INDEX_GROUP_BYTES,
    RECORD_INDEX_GROWTH,
    RECORD_INDEX_MAX_GROUPS,
    RECORD_INDEX_MIN_GROUPS,
)
from hoodie.metadata.table import Partition
from hoodie.metadata.writer import MetadataWriter
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import table_merger
from hoodie.read.settings import MERGE_BUDGET, SPILL_PATH
from hoodie.storage import FileInfo
from hoodie.table.commit_keys import deleted_keys, inserted_keys, joined
from hoodie.table.handle import Table
from hoodie.table.skeleton import open_base
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import FileSlice, merged_slices
from hoodie.timeline.clock import instant_millis
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Kind
from hoodie.timeline.models.clustering import OPERATION as CLUSTERING
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime
from hoodie.write.participants.metadata import Changed, Making, MetadataPartition, Moment
from hoodie.write.participants.metadata.footers import Files

#: keys of one chunk of records
_CHUNK_ROWS = 1 << 18
#: files of fewer rows together than this are read side by side
_SIDE_BY_SIDE_ROWS = 1 << 20
_THREADS = 4
#: Apache Hudi takes an instant for a time of its process's zone here, whatever the timeline's zone is
_UTC = False


class RecordIndexPartition(MetadataPartition):
    partition = Partition.RECORD_INDEX

    def asked(self, config: Config) -> bool | None:
        return config[RECORD_INDEX_ENABLE]

    def unfollowed(self, data: Table, config: Config) -> str:
        """One of each partition has file groups that writes of new partitions make."""
        if data.layout.has_completion_time and data.properties.get(DEFINITIONS):
            definition = index_definitions(data).get(self.partition)
            if definition is not None and definition.options.get("isPartitioned", "false").lower() == "true":
                return "it is one of each partition of the table, which only queries use here"
        return ""

    def file_groups(self, making: Making, files: Files) -> int:
        """Rows are counted, by the footers of base files, only where there may be so many that it is not the
        least number.
        """
        config = making.config
        count = partial(
            file_group_count,
            least=config[RECORD_INDEX_MIN_GROUPS],
            most=config[RECORD_INDEX_MAX_GROUPS],
            growth=config[RECORD_INDEX_GROWTH],
            group_bytes=config[RECORD_INDEX_GROUP_BYTES],
        )
        most = count(sum(sum(sizes.values()) for sizes in files.values()))  # a record has a byte at least
        if most == count(0):
            return most

        def rows(item: FileSlice) -> int:
            if item.base is None:
                return 0
            with BaseFileReader(making.data.storage, item.base.path) as reader:
                return reader.rows

        with ThreadPoolExecutor(_THREADS) as pool:
            return count(sum(pool.map(rows, latest_slices(making, files))))

    def initial(self, making: Making, files: Files) -> Iterable[Records]:
        """The records of all file slices, oldest first: of a key in several of them the youngest counts."""
        return _of_slices(making, latest_slices(making, files))

    def caught_up(self, then: Moment, now: Moment) -> Iterator[Records]:
        """Of the file groups whose slices are others: the keys that they had go, before those come that they
        have.
        """
        before, after = latest_slices(then.making, then.files), latest_slices(now.making, now.files)
        stay = frozenset(before).intersection(after)
        old = _keys_of_slices(then.making, [item for item in before if item not in stay])
        for chunk in _chunks((keys, None) for _, keys in old):
            yield of_deleted(joined([keys for keys, _ in chunk]))
        yield from _of_slices(now.making, [item for item in after if item not in stay])

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """None for the rollback of a commit whose records are compacted already: what it had replaced in the
        index can't be known any more.
        """
        metadata = changed.commit.metadata
        if isinstance(metadata, RollbackMetadata):
            return None if is_compacted(changed) else ()
        if not isinstance(metadata, CommitMetadata) or _keeps_places(changed, metadata):
            return ()
        return _of_commit(changed, metadata)


def _of_slices(making: Making, slices: Iterable[FileSlice]) -> Iterator[Records]:
    def placed() -> Iterator[tuple[Array, Place]]:
        for item, keys in _keys_of_slices(making, slices):
            began = item.base.instant if item.base else item.instant
            yield keys, Place(item.partition, item.file_id, instant_millis(began, _UTC))

    return map(of_places, _chunks(placed()))


def is_compacted(changed: Changed) -> bool:
    """Are records of an instant that is rolled back in base files."""
    writer = MetadataWriter.open(changed.data)
    commits = {action.value for action in COMMIT_ACTIONS}
    undone = [instant.time for instant in changed.commit.rolled_back if instant.action in commits]
    return writer is not None and any(map(writer.is_compacted, undone))


def _keeps_places(changed: Changed, metadata: CommitMetadata) -> bool:
    """Is it a compaction, of a slice or of its logs."""
    instant = changed.commit.instant
    if instant.action is Action.REPLACECOMMIT:
        return False
    kind = changed.data.timeline.kind_from_listing(instant)
    return metadata.compacted or kind in (Kind.COMPACTION, Kind.LOG_COMPACTION)


def _of_commit(changed: Changed, metadata: CommitMetadata) -> Iterator[Records]:
    """What was deleted first: a record that moved is among the inserted ones, too."""
    data, instant = changed.data, changed.commit.instant.time
    stats = [(path, stat) for path, group in metadata.partition_to_write_stats.items() for stat in group]
    deleted = _deleted(changed, metadata, stats)
    for chunk in _chunks((keys, None) for keys in deleted):
        yield of_deleted(joined([keys for keys, _ in chunk]))
    millis = instant_millis(instant, _UTC)
    yield from map(of_places, _chunks(_inserted(data, stats, instant, millis)))


def _deleted(
    changed: Changed, metadata: CommitMetadata, stats: Sequence[tuple[str, WriteStat]]
) -> Iterator[Array]:
    data, listing = changed.data, changed.data.listing()
    for path, stat in stats:
        yield from deleted_keys(data, path, stat, changed.commit.instant.time, listing)
    if isinstance(metadata, ReplaceCommitMetadata) and metadata.operation_type.upper() != CLUSTERING:
        replaced = {path: frozenset(ids) for path, ids in metadata.partition_to_replace_file_ids.items()}
        snapshot = data.view
        listing.many(replaced)
        slices = [
            item
            for path, ids in replaced.items()
            for item in merged_slices(snapshot, listing.files, path)
            if item.file_id in ids
        ]
        for _, keys in _keys_of_slices(changed, slices):
            yield keys


def _inserted(
    data: Table, stats: Sequence[tuple[str, WriteStat]], instant: InstantTime, millis: int
) -> Iterator[tuple[Array, Place]]:
    """Small files side by side, in the order of the statistics; of a large one a batch at a time."""

    def read(item: tuple[str, WriteStat]) -> list[Array]:
        return list(inserted_keys(data, item[1], instant))

    new = (item for item in stats if _may_insert(item[1]))
    with ThreadPoolExecutor(_THREADS) as pool:
        for group in together(new, lambda item: item[1].num_writes, _SIDE_BY_SIDE_ROWS):
            found: Iterable[Iterable[Array]]
            found = pool.map(read, group) if len(group) > 1 else [inserted_keys(data, group[0][1], instant)]
            for (path, stat), pieces in zip(group, found, strict=True):
                place = Place(path, stat.file_id, millis)
                yield from ((keys, place) for keys in pieces)


def _may_insert(stat: WriteStat) -> bool:
    return bool(stat.num_inserts or stat.may_insert or stat.is_new_file_group)


def latest_slices(making: Making, files: Files) -> list[FileSlice]:
    """The latest slices of all file groups, oldest first."""
    data = making.data
    snapshot = data.view
    listing = partial(_listed, data.base_path, files)
    found = [item for path in files for item in merged_slices(snapshot, listing, path)]
    return sorted(
        found,
        key=lambda item: (
            REQUESTED.key(item.base.instant if item.base else NO_TIME),
            item.partition,
            item.file_id,
        ),
    )


def _keys_of_slices(making: Making, slices: Iterable[FileSlice]) -> Iterator[tuple[FileSlice, Array]]:
    """The keys that each slice shows, in batches."""
    context: SliceContext | None = None
    data = making.data
    for item in slices:
        if item.logs:
            context = context or slice_context(making)
            for rows in read_slice(data.storage, item, context, [RECORD_KEY]):
                yield item, whole(rows.column(RECORD_KEY))
        elif item.base is not None:
            with open_base(data.storage, item.base, None) as reader:
                for keys in reader.record_keys(READ_BATCH_ROWS):
                    yield item, whole(keys)


def slice_context(making: Making) -> SliceContext:
    data, config = making.data, making.config
    timeline, props = data.timeline, data.properties
    table_schema = TableSchema.load(timeline, data.storage, props)
    schema = without_meta(from_avro(table_schema.avro or ""))
    return SliceContext(
        schema=with_meta(schema),
        snapshot=data.view,
        merger=table_merger(props, config, schema),
        ordering=props.precombine_field,
        budget=config[MERGE_BUDGET],
        spill_path=config[SPILL_PATH] or "",
        evolution=table_schema.evolution,
    )


def _listed(base_path: str, files: Files, path: str) -> Sequence[FileInfo]:
    return [
        FileInfo(join(base_path, path, name), name, size, 0, False)
        for name, size in sorted(files.get(path, {}).items())
    ]


def _chunks(found: Iterable[tuple[Array, Any]]) -> Iterator[list[tuple[Array, Any]]]:
    """The keys, with what belongs to them, in lists of about _CHUNK_ROWS keys."""
    chunk: list[tuple[Array, Any]] = []
    rows = 0
    for keys, value in found:
        start = 0
        while start < len(keys):
            piece = keys.slice(start, _CHUNK_ROWS - rows)
            chunk.append((piece, value))
            start += len(piece)
            rows += len(piece)
            if rows >= _CHUNK_ROWS:
                yield chunk
                chunk, rows = [], 0
    if chunk:
        yield chunk
