"""An index of an expression of the metadata table: statistics, or filters, of the results in each file.

Results are computed of the columns of the base files that a commit writes. Those of log files are bounded by
the ranges that the tasks report which write them; they have no filters. Memory: a batch of a column, the
ranges and filters of the files of a commit. See hoodie.metadata.partitions.expression_index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import pc, whole
from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.format.meta_fields import without_meta
from hoodie.format.names import LogFileName, join
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import V2, IndexDefinition, index_definitions
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.bloom_filters import (
    Filter,
    bloom_filters,
    deleted_filters,
    filter_records,
)
from hoodie.metadata.partitions.column_ranges import ColumnRange, Unbounded, join_all
from hoodie.metadata.partitions.column_stats import (
    ColumnStats,
    File,
    FileRanges,
    Form,
    column_stats,
    deleted_stats,
    stats_records,
)
from hoodie.metadata.partitions.expression_index import (
    FILTERS,
    PARTITION_STAT,
    STATISTICS,
    Results,
    range_of_results,
    result_filter,
    result_range,
    result_type,
    results,
    texts_of,
    unknown,
)
from hoodie.metadata.partitions.partition_stats import deleted_partitions, partition_records
from hoodie.metadata.settings import EXPRESSION_INDEX_GROUPS
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.read.file_slice import read_slice
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableType
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.write.participants.metadata import CannotFollow, Changed, Making, MetadataPartition
from hoodie.write.participants.metadata.column_stats import ranges_of_log
from hoodie.write.participants.metadata.footers import Files, is_base
from hoodie.write.participants.metadata.partition_stats import as_type, files_of_slice, touched_slices
from hoodie.write.participants.metadata.record_index import is_compacted, latest_slices, slice_context

_THREADS = 4
#: files whose records are made at a time
_TOGETHER = 1000


class ExpressionIndexPartition(MetadataPartition):
    beside_writers = False

    def __init__(self, name: str, *, certain: bool = False) -> None:
        """`certain`: of results that are not certain there is nothing, and statistics may be too narrow."""
        self.partition = Partition(name)
        self._certain = certain

    def asked(self, config: Config) -> bool | None:
        return None

    def unfollowed(self, data: Table, config: Config) -> str:
        if not data.layout.has_completion_time:
            return "a table before version 8 has none in Apache Hudi"
        definition = index_definitions(data).get(self.partition)
        return "the table has no definition of it" if definition is None else unfollowed(data, definition)

    def file_groups(self, making: Making, files: Files) -> int:
        return making.config[EXPRESSION_INDEX_GROUPS]

    def initial(self, making: Making, files: Files) -> Iterator[Records]:
        """Of the latest slices: files of older ones are looked into."""
        index, slices = _Index.of(making, self.partition, self._certain), latest_slices(making, files)
        bases = {(item.base.partition, item.base.name): item.base.size for item in slices if item.base}
        if index.definition.kind == FILTERS:
            yield from index.filters(bases)
            return
        ranges = index.base_ranges(bases)
        for item, found in index.merged_ranges(slices):
            ranges.update(((log.partition, log.name), found) for log in item.logs)
        yield from index.file_records(ranges)
        of_path: dict[str, list[FileSlice]] = {}
        for item in slices:
            of_path.setdefault(item.partition, []).append(item)
        yield index.partition_records(of_path, ranges)

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """None for the rollback of a commit whose records are compacted already: statistics of partitions may
        lack values of rows that are there again.
        """
        metadata = changed.commit.metadata
        if isinstance(metadata, RollbackMetadata):
            return None if is_compacted(changed) else ()
        index = _Index.of(changed, self.partition)
        if isinstance(metadata, CommitMetadata):
            return index.of_commit(changed, metadata)
        return index.of_gone([(path, name) for path, names in changed.deleted.items() for name in names])


def missing_results(making: Making, partition: str, files: Files, metadata: MetadataTable) -> Iterator[File]:
    """The base files of the latest slices whose filters lack a result that is certain."""
    index = _Index.of(making, Partition(partition), certain=True)
    bases = [
        (item.base.partition, item.base.name)
        for item in latest_slices(making, files)
        if item.base is not None
    ]
    for file, stored in bloom_filters(metadata, bases, partition):
        for part in index.results_of(file):
            if not stored.might_contain(texts_of(part)).all():
                yield file
                break


def unfollowed(data: Table, definition: IndexDefinition) -> str:
    """Why an index of the definition can't be kept for the table; "" where it can."""
    why = unknown(definition)
    if why:
        return why
    props, (column,) = data.properties, definition.source_fields
    if props.get(BOOTSTRAP_BASE_PATH):
        return "base files lack the columns of their rows"
    merges = props.table_type is TableType.MERGE_ON_READ and definition.kind == STATISTICS
    if merges and props.merge_rule.partial_update_mode is not None:
        return "rows are put together of values of several files, and none of these files would match"
    schema = TableSchema.load(data.timeline, data.storage, props)
    if schema.evolution is not None:
        return "columns may have other names in files of other schemas"
    kind = None if schema.avro is None else _kind(schema.avro, column)
    if kind is None or column in props.partition_fields:
        return f"the table has no column {column[:100]} whose values are in its files"
    if result_type(definition, kind) is None:
        return f"{definition.function} of column {column[:100]}, which is {kind}, is not known here"
    return ""


def _kind(avro: str, column: str) -> pa.DataType | None:
    columns = without_meta(from_avro(avro))
    return columns.field(column).type if column in columns.names else None


@dataclass(frozen=True)
class _Index:
    """`kind` is the type of the column, `made` that of the results. `certain`: without the others."""

    making: Making
    partition: Partition
    definition: IndexDefinition
    column: str
    kind: Any
    made: Any
    certain: bool = False

    @classmethod
    def of(cls, making: Making, partition: Partition, certain: bool = False) -> _Index:
        definition = making.definitions[partition]
        (column,) = definition.source_fields
        kind = _kind(making.schema, column) if making.schema else None
        made = None if kind is None else result_type(definition, kind)
        if kind is not None and made is None:
            raise CannotFollow(partition, f"{definition.function} of {kind} is not known here")
        return cls(making, partition, definition, column, kind, made, certain)

    @property
    def form(self) -> Form:
        return Form(self.making.data.layout.version, self.definition.version == V2)

    def of_commit(self, changed: Changed, metadata: CommitMetadata) -> Iterator[Records]:
        bases = {
            (path, stat.file_name): stat.file_size_in_bytes
            for path, stats in metadata.partition_to_write_stats.items()
            for stat in stats
            if is_base(stat.file_name)
        }
        if self.definition.kind == FILTERS:
            yield from self.filters(bases)
            return
        ranges = {**self.base_ranges(bases), **self._log_ranges(changed, metadata)}
        yield from self.file_records(ranges)
        yield self.partition_records(touched_slices(changed, metadata), ranges)

    def of_gone(self, files: Sequence[File]) -> Iterator[Records]:
        """Of files that were deleted."""
        if self.definition.kind == FILTERS:
            files = [file for file in files if is_base(file[1])]
        for start in range(0, len(files), _TOGETHER):
            some = files[start : start + _TOGETHER]
            if self.definition.kind == FILTERS:
                yield deleted_filters(self.making.instant, some, self.making.data.layout.version)
            else:
                yield deleted_stats(some, [self.column], self.form)

    def filters(self, bases: Iterable[File]) -> Iterator[Records]:
        def made(file: File) -> list[Filter]:
            found = result_filter(self.definition, self.making.config, self.results_of(file))
            return [] if found is None else [Filter(*file, found.to_string(), found.type.value)]

        with ThreadPoolExecutor(_THREADS) as pool:
            for some in pool.map(made, bases):
                yield filter_records(self.making.instant, some)

    def base_ranges(self, bases: Mapping[File, int]) -> dict[File, ColumnRange]:
        """Of files with their sizes."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return dict(zip(bases, pool.map(self._base_range, bases, bases.values()), strict=True))

    def merged_ranges(self, slices: Sequence[FileSlice]) -> Iterator[tuple[FileSlice, ColumnRange]]:
        """Of the slices with logs, by their rows."""
        context = None
        for item in slices:
            if item.logs:
                context = context or slice_context(self.making)
                there = self.column in context.schema.names
                tables = read_slice(self.making.data.storage, item, context, [self.column] if there else [])
                columns = (rows.column(self.column) for rows in tables if there)
                yield item, self._joined(self._computed(whole(column)) for column in columns)

    def file_records(self, ranges: Mapping[File, ColumnRange]) -> Iterator[Records]:
        files, types = list(ranges.items()), {self.column: self.made}
        for start in range(0, len(files), _TOGETHER):
            some = files[start : start + _TOGETHER]
            yield stats_records((FileRanges(*file, [found], types) for file, found in some), self.form)

    def partition_records(
        self, slices: Mapping[str, Sequence[FileSlice]], ranges: Mapping[File, ColumnRange]
    ) -> Records:
        """Of the results in the files of slices: `ranges` has those of new files."""
        named = [file for found in slices.values() for item in found for file in files_of_slice(item)]
        known = {**self._stored([file for file in named if file not in ranges]), **ranges}
        with _followed(self.partition):
            joined = {
                path: join_all(one for item in found for one in self._slice_ranges(item, known, ranges))
                for path, found in slices.items()
                if found
            }
            made = partition_records(joined, {self.column: self.made}, self.form, PARTITION_STAT)
        empty = [path for path, found in slices.items() if not found]
        gone = deleted_partitions(empty, [self.column], self.form, PARTITION_STAT)
        return replace(made, deletes=gone.deletes)

    def _slice_ranges(
        self, item: FileSlice, known: Mapping[File, ColumnRange], new: Mapping[File, ColumnRange]
    ) -> list[ColumnRange]:
        """Of the files of a slice. Apache Hudi has none of a file without rows, such as a log of deletes."""
        files = files_of_slice(item)
        found = [known[file] for file in files if file in known]
        if len(found) < len(files):
            old = [log for log in item.logs if (log.partition, log.name) not in new]
            if item.base and (item.base.partition, item.base.name) not in known:
                found.append(self._base_range((item.base.partition, item.base.name), item.base.size))
            if any((log.partition, log.name) not in known for log in old):
                found += [one for _, one in self.merged_ranges([replace(item, logs=tuple(old))])]
        return found

    def _stored(self, files: Sequence[File]) -> dict[File, ColumnRange]:
        """What the index says of files."""
        metadata = self.making.stored if files else None
        if metadata is None or self.partition not in metadata.partitions:
            return {}
        found = column_stats(metadata, [self.column], files, self.partition)
        with _followed(self.partition):
            return {file: self._stored_range(stats[-1]) for (file, _), stats in found.items()}

    def _stored_range(self, stats: ColumnStats) -> ColumnRange:
        """Apache Hudi counts values without nulls here."""
        there = stats.low is not None and stats.high is not None
        nulls, values, size = stats.nulls or 0, stats.values or 0, stats.size or 0
        if not there and values not in (0, nulls):
            raise Unbounded(f"results of column {self.column!r} have no least and greatest value")
        counted = max(values, nulls + there)
        one = ColumnRange(self.column, nulls=nulls, values=counted, size=size // 2, uncompressed=size)
        if there:
            one = replace(one, kind=stats.kind, low=stats.low, high=stats.high)
        return as_type(one, stats.scale, self.made)

    def _log_ranges(self, changed: Changed, metadata: CommitMetadata) -> dict[File, ColumnRange]:
        found = {}
        for partition, stats in metadata.partition_to_write_stats.items():
            for stat in stats:
                log = LogFileName.parse(stat.file_name)
                if log is not None and not log.cdc:
                    with _followed(self.partition):
                        one = self._of_log(ranges_of_log(changed, partition, stat), stat.file_name)
                    size = stat.file_size_in_bytes
                    found[partition, stat.file_name] = replace(one, size=size, uncompressed=2 * size)
        return found

    def _of_log(self, ranges: Iterable[ColumnRange], name: str) -> ColumnRange:
        of = next((one for one in ranges if one.column == self.column), None)
        if of is None:
            raise Unbounded(f"file {name} has no least and greatest value of column {self.column}")
        return range_of_results(self.definition, as_type(of, None, self.kind))

    def _base_range(self, file: File, size: int) -> ColumnRange:
        """As in Apache Hudi it has the size of the file."""
        return replace(self._joined(self.results_of(file)), size=size, uncompressed=2 * size)

    def _joined(self, parts: Iterable[Results]) -> ColumnRange:
        with _followed(self.partition):
            found = join_all(result_range(self.column, part) for part in parts)
        return found.get(self.column, ColumnRange(self.column))

    def results_of(self, file: File) -> Iterator[Results]:
        """Of the rows of a base file, in batches; null where it lacks the column."""
        with BaseFileReader(self.making.data.storage, join(self.making.data.base_path, *file)) as reader:
            if self.column not in reader.schema.names:
                nothing: Any = pa.nulls(reader.rows, self.kind)
                yield self._computed(nothing)
                return
            for batch in reader.batches([self.column]):
                yield self._computed(batch.column(self.column))

    def _computed(self, values: Any) -> Results:
        try:
            return results(self.definition, pc.cast(values, self.kind), self.certain)
        except pa.ArrowException as error:
            raise CannotFollow(self.partition, f"results of column {self.column}: {error}") from None


@contextmanager
def _followed(partition: Partition) -> Iterator[None]:
    """Raises CannotFollow where there are no bounds."""
    try:
        yield
    except Unbounded as error:
        raise CannotFollow(partition, error.message) from None
