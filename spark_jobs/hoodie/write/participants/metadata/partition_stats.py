"""The partition `partition_stats` of the metadata table: statistics of columns, joined over the latest
files of a partition of the table.

Each commit makes those of the partitions that it touches anew, of its own files and of what `column_stats`
says of the others. Apache Hudi's queries pass over a partition whose files have other values, so that a file
without statistics ends the index (`CannotFollow`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.meta_fields import with_meta
from hoodie.format.names import join
from hoodie.format.schema import from_avro
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange, Unbounded, join_all
from hoodie.metadata.partitions.column_stats import ColumnStats, File, column_stats
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.partitions.partition_stats import deleted_partitions, partition_records
from hoodie.metadata.partitions.value_types import restored
from hoodie.metadata.settings import COLUMN_STATS_ENABLE, PARTITION_STATS_ENABLE, PARTITION_STATS_GROUPS
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.table import Partition
from hoodie.storage import FileInfo
from hoodie.table.handle import Table
from hoodie.table.slicing import LayoutTwoSlicing
from hoodie.table.view import FileSlice, TimelineView, merged_slices
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.timeline.time import InstantTime
from hoodie.write.participants.metadata import CannotFollow, Changed, Making, MetadataPartition
from hoodie.write.participants.metadata.column_stats import (
    ColumnStatsPartition,
    base_ranges,
    columns_of,
    form_of,
    log_ranges,
    merged_ranges,
    types_of,
)
from hoodie.write.participants.metadata.footers import (
    BaseFooter,
    DataFile,
    Files,
    footers,
    is_base,
)
from hoodie.write.participants.metadata.record_index import is_compacted

#: after all times of completion
_LATEST = InstantTime("99991231235959999")


class PartitionStatsPartition(MetadataPartition):
    partition = Partition.PARTITION_STATS
    reads_footers = True
    beside_writers = False

    def asked(self, config: Config) -> bool | None:
        """As `column_stats`, of which it is made, unless its own setting says otherwise."""
        own, base = config[PARTITION_STATS_ENABLE], ColumnStatsPartition().asked(config)
        return base if own is None or base is False else own

    def insisted(self, config: Config) -> bool:
        return bool(config[PARTITION_STATS_ENABLE])

    def unfollowed(self, data: Table, config: Config) -> str:
        if not data.layout.has_completion_time:
            return "a table before version 8 has none in Apache Hudi"
        if not data.properties.partition_fields:
            return "the table has no partitions"
        there, base = data.properties.metadata_partitions, ColumnStatsPartition()
        if Partition.COLUMN_STATS not in {*there, *begun_indexes(data.properties)} and not base.asked(config):
            asking = f"set {COLUMN_STATS_ENABLE.name}=true"
            return f"it is made of column_stats, which the table does not have; {asking}"
        return base.unfollowed(data, config)

    def file_groups(self, making: Making, files: Files) -> int:
        return making.config[PARTITION_STATS_GROUPS]

    def of_base_files(self, making: Making, files: Sequence[BaseFooter]) -> Records:
        """None: they are joined with those of the other files, afterwards."""
        _note_empty(making, files)
        for item in base_ranges(making, files):
            making.ranges[item.partition, item.name] = tuple(item.ranges)
        return partition_records({}, {}, form_of(making))

    def initial(self, making: Making, files: Files) -> Iterable[Records]:
        def listing(path: str) -> Sequence[FileInfo]:
            return [
                FileInfo(join(making.data.base_path, path, name), name, size, 0, False)
                for name, size in sorted(files.get(path, {}).items())
            ]

        view, columns = making.data.view, columns_of(making)
        for item, found in merged_ranges(making, files, columns):
            making.ranges.update(((log.partition, log.name), tuple(found)) for log in item.logs)
        for path in files:
            yield _joined(making, {path: merged_slices(view, listing, path)})

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """None for the rollback of a commit whose records are compacted already: they may lack values of rows
        that are there again.
        """
        metadata = changed.commit.metadata
        if isinstance(metadata, RollbackMetadata):
            return None if is_compacted(changed) else ()
        return _of_commit(changed, metadata) if isinstance(metadata, CommitMetadata) else ()


def _of_commit(changed: Changed, metadata: CommitMetadata) -> Iterator[Records]:
    for item in log_ranges(changed, metadata):
        changed.ranges[item.partition, item.name] = tuple(item.ranges)
    yield _joined(changed, touched_slices(changed, metadata))


def touched_slices(changed: Changed, metadata: CommitMetadata) -> dict[str, list[FileSlice]]:
    """The latest slices of the partitions that a commit touches, as they are once it is completed."""
    view, base = shown_after(changed, metadata), changed.data.base_path
    listed, touched = _listed(changed, metadata), metadata.partitions

    def listing(path: str) -> list[FileInfo]:
        new = {
            stat.file_name: FileInfo(
                join(base, path, stat.file_name), stat.file_name, stat.file_size_in_bytes, 0, False
            )
            for stat in metadata.partition_to_write_stats.get(path, ())
            if stat.path
        }
        return [*(item for item in listed.files(path) if item.name not in new), *new.values()]

    return {path: list(merged_slices(view, listing, path)) for path in touched}


def committed_slices(changed: Changed, metadata: CommitMetadata) -> dict[str, list[FileSlice]]:
    """Those before it."""
    listed = _listed(changed, metadata)
    return {path: list(merged_slices(changed.data.view, listed.files, path)) for path in metadata.partitions}


def _listed(changed: Changed, metadata: CommitMetadata) -> MetadataListing:
    """With the files of the partitions that a commit touches."""
    assert changed.stored is not None
    listed = MetadataListing(changed.stored, changed.data.base_path)
    listed.many(metadata.partitions)
    return listed


def shown_after(changed: Changed, metadata: CommitMetadata) -> TimelineView:
    """What is committed once the instant is completed."""
    view, instant = changed.data.view, changed.commit.instant
    replaced = set(view.replaced)
    if isinstance(metadata, ReplaceCommitMetadata):
        for path, ids in metadata.partition_to_replace_file_ids.items():
            replaced.update((path, file_id) for file_id in ids)
    slicing = view.slicing
    assert isinstance(slicing, LayoutTwoSlicing)
    completions = {**slicing.completions, instant.time: _LATEST}
    return replace(
        view,
        committed=view.committed | {instant.time},
        last_commit=instant.time,
        replaced=frozenset(replaced),
        compacting={group: time for group, time in view.compacting.items() if time != instant.time},
        slicing=replace(slicing, completions=completions),
    )


def _joined(making: Making, slices: Mapping[str, Sequence[FileSlice]]) -> Records:
    """The records of partitions of the table by their latest slices; raises CannotFollow."""
    form, columns = form_of(making), columns_of(making)
    types = types_of(with_meta(from_avro(making.schema)), columns) if making.schema else {}
    files = {
        path: [file for item in found for file in files_of_slice(item)]
        for path, found in slices.items()
        if found
    }
    every = [file for some in files.values() for file in some]
    stored = _stored(making, columns, every)
    there = {file for file, _ in stored}.union(making.ranges)
    lacking = (DataFile(*file) for file in every if file not in there and is_base(file[1]))
    for some_footers in footers(making.data.storage, making.data.base_path, lacking):
        _note_empty(making, some_footers)
    ranges = dict[str, dict[str, ColumnRange]]()
    try:
        for path, some in files.items():
            ranges[path] = join_all(
                one
                for file in some
                for one in _ranges(file, making.ranges.get(file), stored, types)
                if one.column in types
            )
        gone = deleted_partitions([path for path in slices if not ranges.get(path)], columns, form)
        return replace(partition_records(ranges, types, form), deletes=gone.deletes)
    except Unbounded as error:
        raise CannotFollow(Partition.PARTITION_STATS, error.message) from None


def _note_empty(making: Making, files: Sequence[BaseFooter]) -> None:
    """Files without rows have no statistics, and no part in those of their partition."""
    for item in files:
        if not item.metadata.num_rows:
            making.ranges[item.file.partition, item.file.name] = ()


def files_of_slice(item: FileSlice) -> list[File]:
    """(partition path, name)"""
    bases = [] if item.base is None else [(item.base.partition, item.base.name)]
    return [*bases, *((log.partition, log.name) for log in item.logs)]


def _stored(
    making: Making, columns: Collection[str], files: Sequence[File]
) -> Mapping[tuple[File, str], list[ColumnStats]]:
    """What the metadata table says of those of the files that are not new."""
    old = [file for file in files if file not in making.ranges]
    metadata = making.stored if old else None
    if metadata is None or Partition.COLUMN_STATS not in metadata.partitions:
        return {}
    return column_stats(metadata, columns, old)


def _ranges(
    file: File,
    known: Sequence[ColumnRange] | None,
    stored: Mapping[tuple[File, str], list[ColumnStats]],
    types: Mapping[str, pa.DataType],
) -> list[ColumnRange]:
    """Of the columns that a file has, in the wrappers of their types. Raises Unbounded."""
    if known is not None:
        return [as_type(one, None, types.get(one.column)) for one in known]
    found = [
        as_type(_range(column, stats), stats.scale, kind)
        for column, kind in types.items()
        for stats in stored.get((file, column), ())
    ]
    if not found:
        raise Unbounded(f"file {join(*file)} has no statistics of columns")
    return found


def _range(column: str, stats: ColumnStats) -> ColumnRange:
    """Raises Unbounded for values without a least and a greatest one."""
    there = stats.low is not None and stats.high is not None
    nulls, values = stats.nulls or 0, stats.values or 0
    if not there and nulls != values:
        raise Unbounded(f"statistics of column {column!r} have no least and greatest value")
    return ColumnRange(
        column,
        stats.kind if there else "",
        stats.low if there else None,
        stats.high if there else None,
        nulls,
        values,
        stats.size or 0,
    )


def as_type(one: ColumnRange, scale: int | None, kind: Any) -> ColumnRange:
    """In the wrappers of a column's type. Raises Unbounded."""
    if not one.kind:
        return one
    wrapper, low = restored(one.kind, one.low, scale, kind)
    if wrapper == one.kind:
        return one
    return replace(one, kind=wrapper, low=low, high=restored(one.kind, one.high, scale, kind)[1])
