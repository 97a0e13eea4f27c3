"""The partition `record_index` of a metadata table: the file group of every record (Apache Hudi 0.15.0
HoodieBackedTableMetadataWriter).

- A write changes the keys of new rows, which are at the end of their files. It also changes the keys that a
  file lacks of the one that it replaces. Updates and compactions change nothing.
- A clustering gives all of its keys new places.
- A rollback voids the log blocks of the commit, and with them its records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import Array, array, whole
from hoodie.config.key import Config, Key
from hoodie.engine.packing import together
from hoodie.format.base_file import READ_BATCH_ROWS, BaseFileReader
from hoodie.format.meta_fields import RECORD_KEY, with_meta, without_meta
from hoodie.format.names import join
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import OF_EACH_PARTITION, index_definitions, is_of_each_partition
from hoodie.metadata.index_definitions import PATH as DEFINITIONS
from hoodie.metadata.partition_groups import PartitionGroups, is_named
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.record_index import Place, file_group_count, of_deleted, of_places
from hoodie.metadata.settings import (
    PARTITIONED_RECORD_INDEX_ENABLE,
    PARTITIONED_RECORD_INDEX_MAX_GROUPS,
    PARTITIONED_RECORD_INDEX_MIN_GROUPS,
    RECORD_INDEX_ENABLE,
    RECORD_INDEX_GROUP_BYTES,
    RECORD_INDEX_GROWTH,
    RECORD_INDEX_MAX_GROUPS,
    RECORD_INDEX_MIN_GROUPS,
)
from hoodie.metadata.state import begun_indexes
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
from hoodie.write.participants.metadata import (
    ASKED_TO_GO,
    CannotFollow,
    Changed,
    Making,
    MetadataPartition,
    Moment,
)
from hoodie.write.participants.metadata.footers import Files

#: keys of one chunk of records
_CHUNK_ROWS = 1 << 18
#: files of fewer rows together than this are read side by side
_SIDE_BY_SIDE_ROWS = 1 << 20
_THREADS = 4
#: Apache Hudi takes an instant for a time of its process's zone here, whatever the timeline's zone is
_UTC = False
_NONE: Array = pa.array([], pa.string())


class RecordIndexPartition(MetadataPartition):
    """One of all partitions of the table, or one of each, as its definition says."""

    partition = Partition.RECORD_INDEX

    def asked(self, config: Config) -> bool | None:
        """`unfollowed` says what a write drops: that depends on which one there is."""
        return config[RECORD_INDEX_ENABLE] or config[PARTITIONED_RECORD_INDEX_ENABLE] or None

    def unfollowed(self, data: Table, config: Config) -> str:
        each, later = is_of_each(data, config), data.layout.has_completion_time
        mine, other = RECORD_INDEX_ENABLE, PARTITIONED_RECORD_INDEX_ENABLE
        if each:
            mine, other = other, mine
        if each and not later:
            return "a table before version 8 has none of each partition in Apache Hudi"
        return ASKED_TO_GO if config[mine] is False or (later and config[other]) else ""

    def options(self, making: Making) -> Mapping[str, str]:
        return {OF_EACH_PARTITION: str(is_of_each(making.data, making.config)).lower()}

    def file_groups(self, making: Making, files: Files) -> int | PartitionGroups:
        return (
            PartitionGroups()
            if is_of_each(making.data, making.config)
            else groups_of_all(making, files, RECORD_INDEX_MIN_GROUPS, RECORD_INDEX_MAX_GROUPS)
        )

    def initial(self, making: Making, files: Files) -> Iterable[Records]:
        """The records of all file slices, oldest first: of a key in several of them the youngest counts."""
        each = is_of_each(making.data, making.config)
        if each:
            least, most = PARTITIONED_RECORD_INDEX_MIN_GROUPS, PARTITIONED_RECORD_INDEX_MAX_GROUPS
            counts = {path: groups_of_all(making, {path: files[path]}, least, most) for path in files}
            yield _new_partitions(counts)
        yield from _of_slices(making, latest_slices(making, files), each)

    def caught_up(self, then: Moment, now: Moment) -> Iterator[Records]:
        """Of the file groups whose slices are others: the keys that they had go, before those come that they
        have.
        """
        each = is_of_each(now.making.data, now.making.config)
        if each:
            yield _new_partitions(_least(now.making, now.files))
        before, after = latest_slices(then.making, then.files), latest_slices(now.making, now.files)
        stay = frozenset(before).intersection(after)
        old = _keys_of_slices(then.making, [item for item in before if item not in stay])
        for chunk in _chunks((keys, item.partition) for item, keys in old):
            yield _of_gone(chunk, each)
        yield from _of_slices(now.making, [item for item in after if item not in stay], each)

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """None for the rollback of a commit whose records are compacted already: what it had replaced in the
        index can't be known any more.
        """
        metadata = changed.commit.metadata
        if isinstance(metadata, RollbackMetadata):
            return None if is_compacted(changed) else ()
        if not isinstance(metadata, CommitMetadata) or keeps_rows(changed, metadata):
            return ()
        return _of_commit(changed, metadata, is_of_each_partition(changed.definitions))


def is_of_each(data: Table, config: Config) -> bool:
    """Is the record index of a table, or the one that the settings ask for, one of each partition."""
    if Partition.RECORD_INDEX not in {*data.properties.metadata_partitions, *begun_indexes(data.properties)}:
        return bool(config[PARTITIONED_RECORD_INDEX_ENABLE])
    later = data.layout.has_completion_time and data.properties.get(DEFINITIONS)
    return bool(later) and is_of_each_partition(index_definitions(data))


def groups_of_all(making: Making, files: Files, least: Key[int], most: Key[int]) -> int:
    """File groups for the keys of some files. Rows are counted, by the footers of base files, only where
    there may be so many that it is not the least number.
    """
    config = making.config
    count = partial(
        file_group_count,
        least=config[least],
        most=config[most],
        growth=config[RECORD_INDEX_GROWTH],
        group_bytes=config[RECORD_INDEX_GROUP_BYTES],
    )
    highest = count(sum(sum(sizes.values()) for sizes in files.values()))  # a record has a byte at least
    if highest == count(0):
        return highest

    def rows(item: FileSlice) -> int:
        if item.base is None:
            return 0
        with BaseFileReader(making.data.storage, item.base.path) as reader:
            return reader.rows

    with ThreadPoolExecutor(_THREADS) as pool:
        return count(sum(pool.map(rows, latest_slices(making, files))))


def _least(making: Making, partitions: Iterable[str]) -> dict[str, int]:
    return dict.fromkeys(partitions, making.config[PARTITIONED_RECORD_INDEX_MIN_GROUPS])


def _new_partitions(counts: Mapping[str, int]) -> Records:
    """Those get so many file groups of an index of each partition that have none. Raises CannotFollow."""
    for path in counts:
        if not is_named(path):
            why = f"the path of partition {path[:100]!r} is too long for the names of its files"
            raise CannotFollow(Partition.RECORD_INDEX, why)
    return replace(of_deleted(_NONE, _NONE), new=counts)


def _of_gone(chunk: Sequence[tuple[Array, str]], each: bool) -> Records:
    """Of keys with the paths of their partitions."""
    keys = joined([keys for keys, _ in chunk])
    if not each:
        return of_deleted(keys)
    numbers = np.repeat(np.arange(len(chunk)), [len(keys) for keys, _ in chunk])
    return of_deleted(keys, array([path for _, path in chunk], pa.string()).take(array(numbers)))


def _of_slices(making: Making, slices: Iterable[FileSlice], each: bool) -> Iterator[Records]:
    def placed() -> Iterator[tuple[Array, Place]]:
        for item, keys in _keys_of_slices(making, slices):
            began = item.base.instant if item.base else item.instant
            yield keys, Place(item.partition, item.file_id, instant_millis(began, _UTC))

    return (of_places(chunk, each) for chunk in _chunks(placed()))


def is_compacted(changed: Changed) -> bool:
    """Are records of an instant that is rolled back in base files."""
    writer = MetadataWriter.open(changed.data)
    commits = {action.value for action in COMMIT_ACTIONS}
    undone = [instant.time for instant in changed.commit.rolled_back if instant.action in commits]
    return writer is not None and any(map(writer.is_compacted, undone))


def keeps_rows(changed: Changed, metadata: CommitMetadata) -> bool:
    """Is it a compaction, of a slice or of its logs."""
    instant = changed.commit.instant
    if instant.action is Action.REPLACECOMMIT:
        return False
    kind = changed.data.timeline.kind_from_listing(instant)
    return metadata.compacted or kind in (Kind.COMPACTION, Kind.LOG_COMPACTION)


def _of_commit(changed: Changed, metadata: CommitMetadata, each: bool) -> Iterator[Records]:
    """What was deleted first: a record that moved is among the inserted ones, too."""
    data, instant = changed.data, changed.commit.instant.time
    if each:
        yield _new_partitions(_least(changed, metadata.partition_to_write_stats))
    stats = [(path, stat) for path, group in metadata.partition_to_write_stats.items() for stat in group]
    deleted = _deleted(changed, metadata, stats)
    for chunk in _chunks((keys, path) for path, keys in deleted):
        yield _of_gone(chunk, each)
    millis = instant_millis(instant, _UTC)
    yield from (of_places(chunk, each) for chunk in _chunks(_inserted(data, stats, instant, millis)))


def _deleted(
    changed: Changed, metadata: CommitMetadata, stats: Sequence[tuple[str, WriteStat]]
) -> Iterator[tuple[str, Array]]:
    """(path of the partition, keys)"""
    data, listing = changed.data, changed.data.listing()
    for path, stat in stats:
        for keys in deleted_keys(data, path, stat, changed.commit.instant.time, listing):
            yield path, keys
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
        for item, keys in _keys_of_slices(changed, slices):
            yield item.partition, keys


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


def slice_context(making: Making, text: str | None = None) -> SliceContext:
    """`text`: the Avro schema of the rows; None: that of the commits that are there."""
    data, config = making.data, making.config
    timeline, props = data.timeline, data.properties
    table_schema = TableSchema.load(timeline, data.storage, props)
    schema = without_meta(from_avro(text or table_schema.avro or ""))
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
