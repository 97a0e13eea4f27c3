"""Partitions without rows of an answer, by their statistics in the metadata table: they are not listed, and
the statistics of their files are not read.

Apache Hudi keeps `partition_stats` of the latest state only. They are used where they have as many values of
a column as of the record key: the statistics of a file that had no such column, or was not indexed by it,
have no part in them. Logs count, where each value of a merged row is one of those that were written.

Of two writers that overlap, the record of the one that was requested later stands for both. Where it was
completed first, it lacks the files of the other: no partition is left out in a table with such writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError, TableError
from hoodie.format.meta_fields import RECORD_KEY, without_meta
from hoodie.merge import keeps_values
from hoodie.metadata.partitions.column_stats import ColumnStats
from hoodie.metadata.partitions.partition_stats import partition_stats
from hoodie.metadata.queries import MetadataTableUnavailable, ignored, using
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.read.bounds import Bounds, may_be_true
from hoodie.read.column_bounds import known_types, partition_bounds
from hoodie.read.log_merger import table_merger
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import ANY, Field, Node, Path
from hoodie.read.pruning import file_fields, partition_lookup
from hoodie.read.query import Query, QueryType
from hoodie.read.settings import DATA_SKIPPING
from hoodie.read.skipping import IndexUse
from hoodie.table.handle import Table
from hoodie.table.properties import TableType
from hoodie.timeline.instant import Action
from hoodie.timeline.time import NO_TIME, REQUESTED


@dataclass(frozen=True)
class PartitionSkipping:
    """`metadata` is None where it is not to be asked. `evolved`: columns may have other names in files."""

    table: Table
    metadata: MetadataTable | None
    query: Query
    config: Config
    node: Node
    path_columns: PathColumns
    schema: pa.Schema
    evolved: bool

    def left(self, partitions: Sequence[str]) -> tuple[list[str], tuple[IndexUse, ...]]:
        """(the partitions that may have rows of the answer, what became of the index, if there is one)"""
        if Partition.PARTITION_STATS not in self.table.properties.metadata_partitions:
            return list(partitions), ()
        why, kept = self._why_not(), list(partitions)
        if self.metadata is not None and not why:
            try:
                kept = self._possible(self.metadata, partitions)
                if len(kept) < len(partitions) and _overtaken(self.table):
                    why, kept = "a write was completed after one that was requested later", list(partitions)
            except MetadataTableUnavailable as error:
                ignored(self.table, f"{error}; its {Partition.PARTITION_STATS} rule nothing out")
                why = str(error)
        return kept, (IndexUse(Partition.PARTITION_STATS, used=not why, reason=why),)

    def _why_not(self) -> str:
        props = self.table.properties
        if self.metadata is None:
            return "the metadata table is not used"
        if self.table.layout.version is LayoutVersion.ONE:
            return "it is of a table before version 8, which has none in Apache Hudi"
        if not self.config[DATA_SKIPPING]:
            return f"{DATA_SKIPPING.name}=false"
        if self.query.type not in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
            return f"it is of the latest state, and the query is {self.query.type.value}"
        if self.node == ANY or not self._fields():
            return "the predicate has no condition on a column in files that it bounds"
        if self.evolved:
            return "columns may have other names in files of other schemas"
        if not props.populate_meta_fields:
            return "record keys are not stored, so that it is not seen whether it is complete"
        if props.table_type is TableType.MERGE_ON_READ:
            try:
                if not keeps_values(table_merger(props, self.config, without_meta(self.schema))):
                    return "rows are merged to values that no file has"
            except (ConfigError, TableError):
                return "it is not known here how rows are merged"
        return ""

    def _fields(self) -> dict[Path, Field]:
        return known_types(file_fields(self.node, self.path_columns))

    def _possible(self, metadata: MetadataTable, partitions: Sequence[str]) -> list[str]:
        fields = self._fields()
        names = {path: ".".join(path) for path in fields}
        with using():
            found = partition_stats(metadata, {RECORD_KEY, *names.values()}, partitions)
        keys = self.table.properties.record_key_fields
        never_null = {RECORD_KEY, *(keys if len(keys) == 1 else ())}

        def possible(partition: str) -> bool:
            rows = _count(found.get((partition, RECORD_KEY), ()))
            known: dict[Path, Bounds] = {}
            for path, field in fields.items():
                stats = found.get((partition, names[path]), ())
                if stats and rows is not None and _count(stats) == rows:
                    known[path] = partition_bounds(stats, field.type, names[path] in never_null)
            return may_be_true(self.node, partition_lookup(self.path_columns, partition, known))

        return [partition for partition in partitions if possible(partition)]


def _overtaken(table: Table) -> bool:
    """Was a write completed after one that was requested later. Compactions add no values. Reads the times of
    the archive.
    """
    added = {Action.DELTACOMMIT, Action.REPLACECOMMIT}
    if table.properties.table_type is TableType.COPY_ON_WRITE:
        added.add(Action.COMMIT)
    with using():
        archived = list(table.archive.instants())
    writes = {item.time: item for item in (*archived, *table.timeline.commits()) if item.action in added}
    newest = NO_TIME
    for time in sorted(writes, key=REQUESTED.key):
        completed = writes[time].completion or time
        if REQUESTED.after(newest, completed):
            return True
        newest = completed
    return False


def _count(stats: Sequence[ColumnStats]) -> int | None:
    """Values, nulls included; None where they are not counted."""
    total = 0
    for item in stats:
        if item.values is None or item.values < 0:
            return None
        total += item.values
    return total if stats else None
