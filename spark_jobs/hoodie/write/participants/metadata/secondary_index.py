"""A secondary index of the metadata table: record keys by the values of a column.

A commit changes the keys by which the new slices of the file groups that it writes differ from those before,
each with its logs merged (Apache Hudi 1.2.0 SecondaryIndexRecordGenerationUtils). A clustering, and a
compaction of slices without later logs, changes nothing. Memory: the values and the record keys of these file
groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.concurrency.gate import is_non_blocking
from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.format.meta_fields import RECORD_KEY, without_meta
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import (
    V1,
    V2,
    IndexDefinition,
    index_definitions,
    is_of_each_partition,
)
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.secondary_index import index_keys, index_records
from hoodie.metadata.settings import RECORD_INDEX_MAX_GROUPS, RECORD_INDEX_MIN_GROUPS
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.table import Partition
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import FileSlice
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.instant import Kind
from hoodie.timeline.models.clustering import OPERATION as CLUSTERING
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.write.participants.metadata import Changed, Making, MetadataPartition
from hoodie.write.participants.metadata.footers import Files
from hoodie.write.participants.metadata.partition_stats import (
    committed_slices,
    shown_after,
    touched_slices,
)
from hoodie.write.participants.metadata.record_index import (
    RecordIndexPartition,
    groups_of_all,
    is_compacted,
    is_of_each,
    keeps_rows,
    latest_slices,
    slice_context,
)

#: why there is none beside a record index of each partition
OF_EACH = "its record keys are in the table once, and the record index is one of each partition"


class SecondaryIndexPartition(MetadataPartition):
    beside_writers = False

    def __init__(self, name: str) -> None:
        self.partition = Partition(name)

    def asked(self, config: Config) -> bool | None:
        return None

    def unfollowed(self, data: Table, config: Config) -> str:
        if not data.layout.has_completion_time:
            return "a table before version 8 has none in Apache Hudi"
        definition = index_definitions(data).get(self.partition)
        if definition is None:
            return "the table has no definition of it"
        there = {*data.properties.metadata_partitions, *begun_indexes(data.properties)}
        if Partition.RECORD_INDEX not in there or RecordIndexPartition().unfollowed(data, config):
            return "there is no record index, which says where its record keys are"
        if is_of_each(data, config):
            return OF_EACH
        if is_non_blocking(config):
            return "writers that do not block each other may change a value in any order"
        return unfollowed(data, definition)

    def file_groups(self, making: Making, files: Files) -> int:
        return groups_of_all(making, files, RECORD_INDEX_MIN_GROUPS, RECORD_INDEX_MAX_GROUPS)

    def initial(self, making: Making, files: Files) -> Iterator[Records]:
        for item in latest_slices(making, files):
            yield index_records(self._keys(making, [item], partial(slice_context, making)), _NONE)

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """None for the rollback of a commit whose records are compacted already."""
        metadata = changed.commit.metadata
        if isinstance(metadata, RollbackMetadata):
            return None if is_compacted(changed) else ()
        return self._of_commit(changed, metadata) if isinstance(metadata, CommitMetadata) else ()

    def _of_commit(self, changed: Changed, metadata: CommitMetadata) -> Iterator[Records]:
        kind = changed.data.timeline.kind_from_listing(changed.commit.instant)
        if metadata.operation_type.upper() == CLUSTERING or kind is Kind.LOG_COMPACTION:
            return
        touched = metadata.file_groups
        if isinstance(metadata, ReplaceCommitMetadata):
            replaced = metadata.partition_to_replace_file_ids.items()
            touched = touched | {(path, file_id) for path, ids in replaced for file_id in ids}
        new = _of_groups(touched_slices(changed, metadata), touched)
        if keeps_rows(changed, metadata):
            new = [item for item in new if item.logs]
            touched = {(item.partition, item.file_id) for item in new}
        old = _of_groups(committed_slices(changed, metadata), touched)

        def shown() -> SliceContext:
            context = slice_context(changed, changed.schema or changed.previous_schema)
            return replace(context, snapshot=shown_after(changed, metadata))

        before = self._keys(changed, old, partial(slice_context, changed))
        after = self._keys(changed, new, shown)
        come = after.filter(pc.invert(pc.is_in(after, value_set=before)))
        gone = before.filter(pc.invert(pc.is_in(before, value_set=after)))
        yield index_records(pc.unique(come), pc.unique(gone))

    def _keys(self, making: Making, slices: Sequence[FileSlice], context: Callable[[], SliceContext]) -> Any:
        """Of the rows of file slices; `context` is made for those with logs."""
        (column,) = making.definitions[self.partition].source_fields
        of_logs = context() if any(item.logs for item in slices) else None
        found: list[Any] = []
        for item in slices:
            for rows in _rows(making, item, of_logs, column):
                keys = whole(rows.column(RECORD_KEY))
                nothing: Any = pa.nulls(len(keys), pa.string())
                there = column in rows.schema.names
                values = pc.cast(whole(rows.column(column)), pa.string()) if there else nothing
                found.append(index_keys(values, pc.cast(keys, pa.string())))
        joined: Any = whole(pa.chunked_array(found, pa.string()))
        return joined


_NONE: Array = pa.array([], pa.string())


def _rows(
    making: Making, item: FileSlice, context: SliceContext | None, column: str
) -> Iterator[pa.RecordBatch | pa.Table]:
    """The record keys of a slice, and the column, where its files can have it."""
    if item.logs and context is not None:
        there = column in context.schema.names
        yield from read_slice(making.data.storage, item, context, [RECORD_KEY, column][: 1 + there])
    elif item.base is not None:
        with BaseFileReader(making.data.storage, item.base.path) as reader:
            there = column in reader.schema.names
            yield from reader.batches([RECORD_KEY, column][: 1 + there])


def _of_groups(
    slices: Mapping[str, Sequence[FileSlice]], groups: Collection[tuple[str, str]]
) -> list[FileSlice]:
    """Those of some file groups."""
    found = [item for some in slices.values() for item in some]
    return [item for item in found if (item.partition, item.file_id) in groups]


def unfollowed(data: Table, definition: IndexDefinition) -> str:
    """Why an index of the definition can't be kept for the table; "" where it can."""
    props = data.properties
    if props.get(BOOTSTRAP_BASE_PATH) or not props.populate_meta_fields:
        return "base files lack the record keys or the columns of their rows"
    if definition.version not in (V1, V2) or definition.function not in ("", "identity"):
        return "its definition is not known here"
    if is_of_each_partition(index_definitions(data)):
        return OF_EACH
    schema = TableSchema.load(data.timeline, data.storage, props)
    if len(definition.source_fields) != 1 or schema.evolution is not None:
        return "it is not of one column that has the same name in all files"
    (column,) = definition.source_fields
    kind = None if schema.avro is None else _kind(from_avro(schema.avro), column)
    if kind is None or column in props.partition_fields:
        return f"values of its column {column[:100]} are not texts or whole numbers in files"
    return ""


def _kind(schema: pa.Schema, column: str) -> pa.DataType | None:
    """The type of a column whose values have one text each."""
    columns = without_meta(schema)
    kind = columns.field(column).type if column in columns.names else None
    tests = (pa.types.is_string, pa.types.is_int32, pa.types.is_int64)
    return kind if kind is not None and any(test(kind) for test in tests) else None
