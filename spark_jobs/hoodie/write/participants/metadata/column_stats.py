"""The partition `column_stats` of the metadata table: base files by their footers, log files as the tasks
that write them report.

A file has statistics of all of its columns or none: Apache Hudi takes a column without for one of nulls
(ColumnStatsIndexSupport), and leaves the file out of answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.config import versions
from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.engine.legacy_calendar import LegacyCalendar
from hoodie.format.base_file import BaseFileReader
from hoodie.format.log_block import BlockType
from hoodie.format.log_data import is_partial, read_data_block
from hoodie.format.meta_fields import COMMIT_TIME, PARTITION_PATH, RECORD_KEY, with_meta, without_meta
from hoodie.format.names import LogFileName, join
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import V2, add_columns, stats_version
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.column_ranges import ColumnRange, LogRanges, Unbounded, footer_ranges
from hoodie.metadata.partitions.column_stats import (
    FORM_ONE,
    FileRanges,
    Form,
    deleted_stats,
    stats_records,
)
from hoodie.metadata.partitions.value_types import is_supported
from hoodie.metadata.settings import COLUMN_STATS_COLUMNS, COLUMN_STATS_ENABLE, COLUMN_STATS_GROUPS
from hoodie.metadata.table import EXPRESSION_INDEX, Partition
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.read.log_merger import table_merger
from hoodie.table.commit_keys import own_blocks
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableProperties, TableType
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action
from hoodie.write.participants.metadata import CannotFollow, Changed, Making, MetadataPartition, Moment
from hoodie.write.participants.metadata.footers import BaseFooter, Files, is_base
from hoodie.write.participants.metadata.record_index import latest_slices, slice_context

#: meta columns of which Apache Hudi 1.x has statistics, and how many of the others it indexes by default
_META, _FIRST = (COMMIT_TIME, PARTITION_PATH, RECORD_KEY), 32
_NO_COLUMNS = '{"type": "record", "name": "none", "fields": []}'
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
        merges = data.layout.has_completion_time and data.properties.table_type is TableType.MERGE_ON_READ
        if merges and data.properties.merge_rule.partial_update_mode is not None:
            return "rows are put together of values of several files, and none of these files would match"
        return ""

    def file_groups(self, making: Making, files: Files) -> int:
        return making.config[COLUMN_STATS_GROUPS]

    def columns(self, making: Making) -> Collection[str]:
        return columns_of(making)

    def initial(self, making: Making, files: Files) -> Iterable[Records]:
        """Of the log files of layout two, by the rows of their slices: Apache Hudi has statistics of all
        files there.
        """
        if making.data.layout.has_completion_time and making.schema is not None:
            columns, form = frozenset(columns_of(making)), form_of(making)
            types = types_of(with_meta(from_avro(making.schema)), columns)
            for item, found in merged_ranges(making, files, columns):
                if not types.keys() <= {one.column for one in found}:
                    raise _no_bounds(item.logs[0].name)
                logs = [FileRanges(log.partition, log.name, found, types) for log in item.logs]
                yield stats_records(logs, form)

    def changes(self, changed: Changed) -> Iterable[Records]:
        """The definition names new columns from now on, which no file has yet."""
        later = changed.data.layout.has_completion_time
        if later and isinstance(changed.commit.metadata, CommitMetadata) and new_columns(changed):
            add_columns(changed.data, self.partition.value, new_columns(changed))
        return self._changes(changed)

    def _changes(self, changed: Changed) -> Iterable[Records]:
        metadata = changed.commit.metadata
        if isinstance(metadata, CommitMetadata):
            logs = list(log_ranges(changed, metadata))
            if logs:
                yield stats_records(logs, form_of(changed))
        elif changed.deleted:
            yield from self._deleted(changed)

    def caught_up(self, then: Moment, now: Moment) -> Iterable[Records]:
        gone = now.lacks(then).items()
        return _of_gone(now.making, [(path, name) for path, names in gone for name in names if is_base(name)])

    def of_base_files(self, making: Making, files: Sequence[BaseFooter]) -> Records:
        return stats_records(base_ranges(making, files), form_of(making))

    def _deleted(self, changed: Changed) -> Iterable[Records]:
        """Of a clean of layout one those of base files, as in Apache Hudi: log files of older slices never
        come again. Of a rollback all: the next log file has the name of one that was deleted.
        """
        later = changed.data.layout.has_completion_time
        cleaned = changed.commit.instant.action is Action.CLEAN and not later
        files = [
            (partition, name)
            for partition, names in changed.deleted.items()
            for name in sorted(names)
            if is_base(name) or not cleaned
        ]
        return _of_gone(changed, files)


def form_of(making: Making) -> Form:
    """How the table's statistics of columns and of partitions are written."""
    layout = making.data.layout
    if not layout.has_completion_time:
        return FORM_ONE
    return Form(layout.version, stats_version(making.data, making.definitions) == V2)


def base_ranges(making: Making, files: Sequence[BaseFooter]) -> list[FileRanges]:
    """Of those of the files whose columns all have bounds. Raises CannotFollow for others in layout two,
    where Apache Hudi has statistics of all files.
    """
    columns, later = frozenset(columns_of(making)), making.data.layout.has_completion_time
    found = []
    for item in files:
        if columns not in item.ranges:
            item.ranges[columns] = _of_footer(making, item, columns)
        ranges = item.ranges[columns]
        if ranges is not None:
            found.append(ranges)
        elif later and item.metadata.num_rows:
            raise _no_bounds(item.file.name)
    return found


def _of_footer(making: Making, item: BaseFooter, columns: frozenset[str]) -> FileRanges | None:
    """None where a column has no bounds, or days and times of the legacy calendar."""
    try:
        ranges = footer_ranges(item.metadata, columns, partial(_ends, making, item))
        types = types_of(item.metadata.schema.to_arrow_schema(), columns)
    except (Unbounded, pa.ArrowException):
        return None
    of_legacy = LegacyCalendar.of(item.metadata.metadata) is not None
    lacking = making.data.layout.has_completion_time and not types.keys() <= ranges.keys()
    if of_legacy or not ranges or lacking:
        return None
    return FileRanges(item.file.partition, item.file.name, ranges.values(), types)


def log_ranges(making: Changed, metadata: CommitMetadata) -> Iterator[FileRanges]:
    """Of those of a commit's log files whose columns all have bounds. Raises as `base_ranges`."""
    columns, types = frozenset[str](), dict[str, pa.DataType]()
    later = making.data.layout.has_completion_time
    if later:
        columns = frozenset(columns_of(making))
        types = types_of(with_meta(from_avro(making.schema or _NO_COLUMNS)), columns)
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            ranges = reported(stat.column_stats)
            if later:
                ranges = ranges_of_log(making, partition, stat)
                ranges = [item for item in ranges if item.column in columns]
                log = LogFileName.parse(stat.file_name)
                if log is not None and not log.cdc and not types.keys() <= {item.column for item in ranges}:
                    raise _no_bounds(stat.file_name)
            if ranges:
                yield FileRanges(partition, stat.file_name, ranges, types)


def ranges_of_log(changed: Changed, partition: str, stat: WriteStat) -> list[ColumnRange]:
    """Of a log file of a commit, as its task reported them. Where the task reported none, as the index was
    made since, the file is read; nothing where its rows are not taken whole, or a column has no bounds.
    """
    file = (partition, stat.file_name)
    if stat.column_stats or file in changed.read_back:
        return changed.read_back.get(file) or reported(stat.column_stats)
    found = changed.read_back[file] = reported(_read_back(changed, stat))
    return found


def _read_back(changed: Changed, stat: WriteStat) -> Iterable[Sequence[object]]:
    data, log = changed.data, LogFileName.parse(stat.file_name)
    if log is None or log.cdc:
        return ()
    schema = with_meta(from_avro(changed.schema or _NO_COLUMNS))
    if not table_merger(data.properties, changed.config, schema).takes_whole_rows:
        return ()
    ranges = LogRanges(None)
    ranges.add(schema.empty_table())
    for block, content in own_blocks(data.storage, join(data.base_path, stat.path or ""), changed.instant):
        if is_partial(block):
            return ()
        if block.type is not BlockType.DELETE:
            ranges.add(read_data_block(block, content, schema))
    return ranges.take()


def merged_ranges(
    making: Making, files: Files, columns: Collection[str]
) -> Iterator[tuple[FileSlice, list[ColumnRange]]]:
    """Of the slices with logs, by their rows."""
    context: SliceContext | None = None
    for item in latest_slices(making, files):
        if item.logs:
            context = context or slice_context(making)
            ranges, names = LogRanges(columns), [name for name in context.schema.names if name in columns]
            ranges.add(context.schema.empty_table().select(names))
            for rows in read_slice(making.data.storage, item, context, names):
                ranges.add(rows)
            yield item, reported(ranges.take())


def _no_bounds(name: str) -> CannotFollow:
    return CannotFollow(Partition.COLUMN_STATS, f"file {name} has a column without least and greatest value")


def types_of(schema: pa.Schema, columns: Iterable[str]) -> dict[str, pa.DataType]:
    """Of those of the columns that a schema has; paths have dots."""
    found = dict[str, pa.DataType]()
    row, names = pa.struct(list(schema)), frozenset(schema.names)
    for column in columns:
        kind: Any = row
        for name in [column] if column in names else column.split("."):
            place = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
            kind = kind.field(place).type if place >= 0 else None
        if kind is not None:
            found[column] = kind
    return found


def _of_gone(making: Making, files: Sequence[tuple[str, str]]) -> Iterator[Records]:
    """Of files that were deleted: (partition path, name)."""
    columns = list(columns_of(making)) if files else []
    step = max(1, _TOGETHER // max(1, len(columns)))
    for start in range(0, len(files), step):
        yield deleted_stats(files[start : start + step], columns, form_of(making))


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
    if making.data.layout.has_completion_time:
        return _later_columns(making)
    named = making.config[COLUMN_STATS_COLUMNS]
    if named or making.schema is None:
        return named
    columns = without_meta(from_avro(making.schema))
    return (with_meta(columns) if making.data.properties.populate_meta_fields else columns).names


def _later_columns(making: Making) -> Collection[str]:
    """Those that the index is defined of, and those that a commit brings to the table. Of other columns files
    that were written before lack statistics, which readers take for nulls. A new index, as in Apache Hudi,
    is of three meta columns, and the ones that the settings name, or the first ones.
    """
    if making.schema is None:
        return ()
    schema, props = without_meta(from_avro(making.schema)), making.data.properties
    typed = form_of(making).typed
    meta = _META if props.populate_meta_fields else ()
    defined = making.definitions.get(Partition.COLUMN_STATS.value)
    if defined is not None and defined.source_fields:
        wanted = (*meta, *defined.source_fields, *new_columns(making))
    else:
        first = [item.name for item in schema if is_supported(item.type, typed=typed)][:_FIRST]
        wanted = (*meta, *(making.config[COLUMN_STATS_COLUMNS] or first))
    types = types_of(with_meta(schema) if props.populate_meta_fields else schema, dict.fromkeys(wanted))
    return [name for name, kind in types.items() if is_supported(kind, typed=typed)]


def new_columns(making: Making) -> list[str]:
    """Those that no earlier commit has, with statistics."""
    if not isinstance(making, Changed) or not making.schema or not making.previous_schema:
        return []
    there, typed = from_avro(making.previous_schema).names, form_of(making).typed
    return [
        item.name
        for item in without_meta(from_avro(making.schema))
        if item.name not in there and is_supported(item.type, typed=typed)
    ]


def reported_columns(config: Config, props: TableProperties | None) -> frozenset[str] | None:
    """The columns whose ranges the tasks that write log files report, none for all; None where the table
    keeps no statistics. Only of rows that are taken whole: Apache Hudi would not find a row that was put
    together of values of several files.
    """
    asked, columns = config[COLUMN_STATS_ENABLE], config[COLUMN_STATS_COLUMNS]
    names = () if props is None else props.metadata_partitions
    there = asked is None and Partition.COLUMN_STATS.value in names
    of_expressions = any(name.startswith(EXPRESSION_INDEX) for name in names)
    if props is not None and not versions.is_of_layout(props.version, LayoutVersion.ONE):
        columns = ()  # those of its definition, which is not read here, are among them
    return frozenset(columns) if asked or there or of_expressions else None


def reported(stats: Iterable[Sequence[object]]) -> list[ColumnRange]:
    return [ColumnRange.from_json(item) for item in stats]
