"""The partition `column_stats` of the metadata table: base files by their footers, log files as the tasks
that write them report.

A file has statistics of all of its columns or none: Apache Hudi takes a column without for one of nulls
(ColumnStatsIndexSupport), and leaves the file out of answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from hoodie.codec.arrays import pc
from hoodie.config.key import Config
from hoodie.engine.legacy_calendar import LegacyCalendar
from hoodie.format.base_file import BaseFileReader
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.names import join
from hoodie.format.schema import from_avro
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange, Unbounded, footer_ranges
from hoodie.metadata.partitions.column_stats import FileRanges, deleted_stats, stats_records
from hoodie.metadata.settings import COLUMN_STATS_COLUMNS, COLUMN_STATS_ENABLE, COLUMN_STATS_GROUPS
from hoodie.metadata.table import Partition
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action
from hoodie.write.participants.metadata import Changed, Making, MetadataPartition, Moment
from hoodie.write.participants.metadata.footers import BaseFooter, Files, is_base

#: records of deleted files that are made at a time
_TOGETHER = 50_000


class ColumnStatsPartition(MetadataPartition):
    partition = Partition.COLUMN_STATS
    reads_footers = True

    def asked(self, config: Config) -> bool | None:
        return config[COLUMN_STATS_ENABLE]

    def unfollowed(self, data: Table, config: Config) -> str:
        if data.properties.get(BOOTSTRAP_BASE_PATH):
            return "the table was bootstrapped, and its base files may lack the columns of their rows"
        if data.layout.has_completion_time:
            return "the statistics of this table version are not written here yet"
        return ""

    def file_groups(self, making: Making, files: Files) -> int:
        return making.config[COLUMN_STATS_GROUPS]

    def changes(self, changed: Changed) -> Iterable[Records]:
        metadata = changed.commit.metadata
        if isinstance(metadata, CommitMetadata):
            logs = [
                FileRanges(partition, stat.file_name, _reported(stat.column_stats))
                for partition, stats in metadata.partition_to_write_stats.items()
                for stat in stats
                if stat.column_stats
            ]
            if logs:
                yield stats_records(logs)
        elif changed.deleted:
            yield from self._deleted(changed)

    def caught_up(self, then: Moment, now: Moment) -> Iterable[Records]:
        gone = now.lacks(then).items()
        return _of_gone(now.making, [(path, name) for path, names in gone for name in names if is_base(name)])

    def of_base_files(self, making: Making, files: Sequence[BaseFooter]) -> Records:
        columns = frozenset(columns_of(making))
        found = []
        for item in files:
            try:
                ranges = footer_ranges(item.metadata, columns, partial(_ends, making, item))
            except Unbounded:
                continue
            if LegacyCalendar.of(item.metadata.metadata) is not None:
                continue  # its bounds are days and times of that calendar
            found.append(FileRanges(item.file.partition, item.file.name, ranges.values()))
        return stats_records(found)

    def _deleted(self, changed: Changed) -> Iterable[Records]:
        """Of a clean those of base files, as in Apache Hudi: log files of older slices never come again. Of
        a rollback all: the next log file has the name of one that was deleted.
        """
        cleaned = changed.commit.instant.action is Action.CLEAN
        files = [
            (partition, name)
            for partition, names in changed.deleted.items()
            for name in sorted(names)
            if is_base(name) or not cleaned
        ]
        return _of_gone(changed, files)


def _of_gone(making: Making, files: Sequence[tuple[str, str]]) -> Iterator[Records]:
    """Of files that were deleted: (partition path, name)."""
    columns = list(columns_of(making)) if files else []
    step = max(1, _TOGETHER // max(1, len(columns)))
    for start in range(0, len(files), step):
        yield deleted_stats(files[start : start + step], columns)


def _ends(making: Making, item: BaseFooter, group: int, column: str) -> tuple[Any, Any]:
    """The least and the greatest text of a row group, by its values; Unbounded where there are none."""
    low = high = None
    path = join(making.data.base_path, item.file.partition, item.file.name)
    with BaseFileReader(making.data.storage, path) as reader:
        reader.keep(lambda _: [group])
        for batch in reader.batches([column]):
            least, most = _texts(pc.min_max(batch.column(0)), column)
            if least is not None:
                low = least if low is None else min(low, least)
                high = most if high is None else max(high, most)
    if low is None or high is None:
        raise Unbounded(f"column {column!r} has no least and greatest value")
    return low, high


def _texts(ends: Any, column: str) -> tuple[Any, Any]:
    try:
        return ends["min"].as_py(), ends["max"].as_py()
    except UnicodeDecodeError:
        raise Unbounded(f"column {column!r} has a text that is no UTF-8") from None


def columns_of(making: Making) -> Collection[str]:
    """The columns that statistics are kept of, as Apache Hudi has it: top-level ones, if none are named."""
    named = making.config[COLUMN_STATS_COLUMNS]
    if named or making.schema is None:
        return named
    columns = without_meta(from_avro(making.schema))
    return (with_meta(columns) if making.data.properties.populate_meta_fields else columns).names


def reported_columns(config: Config, props: TableProperties | None) -> frozenset[str] | None:
    """The columns whose ranges the tasks that write log files report, none for all; None where the table
    keeps no statistics. Only of rows that are taken whole: Apache Hudi would not find a row that was put
    together of values of several files.
    """
    asked, columns = config[COLUMN_STATS_ENABLE], config[COLUMN_STATS_COLUMNS]
    there = props is not None and Partition.COLUMN_STATS.value in props.metadata_partitions
    return frozenset(columns) if asked or (asked is None and there) else None


def _reported(stats: Iterable[Sequence[object]]) -> list[ColumnRange]:
    return [ColumnRange.from_json(item) for item in stats]
