"""A secondary index of the metadata table of a copy-on-write table: record keys by the values of a column.

A commit changes the keys by which the new base files differ from those that they replace (Apache Hudi 1.2.0
SecondaryIndexRecordGenerationUtils). Memory: the values and the record keys of the file groups that a commit
writes. Log files are not followed: both slices of each file group would be read whole at each commit, and
Apache Hudi 1.2.0 writes no record of what log files change, so that no query here uses such an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from hoodie.codec.arrays import Array, pc, whole
from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.format.meta_fields import RECORD_KEY, without_meta
from hoodie.format.names import join
from hoodie.format.schema import from_avro
from hoodie.metadata.index_definitions import V1, V2, IndexDefinition, index_definitions
from hoodie.metadata.partitions import Records
from hoodie.metadata.partitions.files import MetadataListing
from hoodie.metadata.partitions.secondary_index import index_keys, index_records
from hoodie.metadata.state import begun_indexes
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.storage import FileInfo
from hoodie.table.handle import Table
from hoodie.table.properties import BOOTSTRAP_BASE_PATH, TableType
from hoodie.table.table_schema import TableSchema
from hoodie.table.view import latest_base_files
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata
from hoodie.timeline.models.rollback import RollbackMetadata
from hoodie.write.participants.metadata import Changed, Making, MetadataPartition
from hoodie.write.participants.metadata.footers import Files, is_base
from hoodie.write.participants.metadata.record_index import RecordIndexPartition, is_compacted


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
        if Partition.RECORD_INDEX not in there or RecordIndexPartition().asked(config) is False:
            return "there is no record index, which says where its record keys are"
        return unfollowed(data, definition)

    def file_groups(self, making: Making, files: Files) -> int:
        return RecordIndexPartition().file_groups(making, files)

    def initial(self, making: Making, files: Files) -> Iterator[Records]:
        def listing(path: str) -> Sequence[FileInfo]:
            return [
                FileInfo(join(making.data.base_path, path, name), name, size, 0, False)
                for name, size in sorted(files.get(path, {}).items())
            ]

        view = making.data.view
        for path in files:
            for base in latest_base_files(view, listing, path):
                yield index_records(self._keys(making, [base.path]), _NONE)

    def changes(self, changed: Changed) -> Iterable[Records] | None:
        """None for the rollback of a commit whose records are compacted already."""
        metadata = changed.commit.metadata
        if isinstance(metadata, RollbackMetadata):
            return None if is_compacted(changed) else ()
        return self._of_commit(changed, metadata) if isinstance(metadata, CommitMetadata) else ()

    def _of_commit(self, changed: Changed, metadata: CommitMetadata) -> Iterator[Records]:
        base_path, touched = changed.data.base_path, metadata.file_groups
        if isinstance(metadata, ReplaceCommitMetadata):
            replaced = metadata.partition_to_replace_file_ids.items()
            touched = touched | {(path, file_id) for path, ids in replaced for file_id in ids}
        stored = MetadataTable.open(changed.data)
        assert stored is not None
        listed, view = MetadataListing(stored, base_path), changed.data.view
        listed.many(metadata.partitions)
        old = [
            base.path
            for path in metadata.partitions
            for base in latest_base_files(view, listed.files, path)
            if (path, base.file_id) in touched
        ]
        new = [
            join(base_path, path, stat.file_name)
            for path, stats in metadata.partition_to_write_stats.items()
            for stat in stats
            if is_base(stat.file_name)
        ]
        before, after = self._keys(changed, old), self._keys(changed, new)
        come = after.filter(pc.invert(pc.is_in(after, value_set=before)))
        gone = before.filter(pc.invert(pc.is_in(before, value_set=after)))
        yield index_records(pc.unique(come), pc.unique(gone))

    def _keys(self, making: Making, paths: Sequence[str]) -> Any:
        """Of the rows of base files."""
        (column,) = making.definitions[self.partition].source_fields
        found: list[Any] = []
        for path in paths:
            with BaseFileReader(making.data.storage, path) as reader:
                there = column in reader.schema.names
                for batch in reader.batches([RECORD_KEY, column] if there else [RECORD_KEY]):
                    keys = batch.column(RECORD_KEY)
                    nothing: Any = pa.nulls(len(keys), pa.string())
                    values = pc.cast(batch.column(column), pa.string()) if there else nothing
                    found.append(index_keys(values, pc.cast(keys, pa.string())))
        joined: Any = whole(pa.chunked_array(found, pa.string()))
        return joined


_NONE: Array = pa.array([], pa.string())


def unfollowed(data: Table, definition: IndexDefinition) -> str:
    """Why an index of the definition can't be kept for the table; "" where it can."""
    props = data.properties
    if props.table_type is TableType.MERGE_ON_READ:
        return "what log files change is not put into it, here and in Apache Hudi 1.2.0"
    if props.get(BOOTSTRAP_BASE_PATH) or not props.populate_meta_fields:
        return "base files lack the record keys or the columns of their rows"
    if definition.version not in (V1, V2) or definition.function not in ("", "identity"):
        return "its definition is not known here"
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
