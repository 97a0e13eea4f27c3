"""RECORD_INDEX and RECORD_LEVEL_INDEX: the record index of the metadata table, of all partitions or of each,
says which file group a key is in (Apache Hudi 0.15.0 SparkMetadataTableRecordIndex). No file of the table is
opened for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.config.key import Config, Key
from hoodie.errors import ConfigError, TableError
from hoodie.index import INDEXES, Index, Scope
from hoodie.index.locations import LOOK_UP, Locations, Positions, search_slices
from hoodie.index.settings import INDEX_TYPE, RECORD_INDEX_MOVES, SIMPLE_MOVES, IndexType
from hoodie.mask import masked
from hoodie.metadata.index_definitions import index_definitions, is_of_each_partition
from hoodie.metadata.keys import file_groups
from hoodie.metadata.partitions.record_index import LOCATIONS, locate, locate_in
from hoodie.metadata.queries import MetadataTableIgnored, MetadataTableUnavailable, using
from hoodie.metadata.settings import (
    METADATA_ENABLE,
    PARTITIONED_RECORD_INDEX_ENABLE,
    RECORD_INDEX_ENABLE,
)
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.table.handle import Table, TableRef
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline


@dataclass(frozen=True)
class RecordIndex(Index):
    """`asked`: the settings ask for the record index, so that a write makes one where there is none.

    `metadata` is the metadata table as of the write's timeline, `groups` its number of file groups. What the
    index names is taken for true: its records are written with the commits that they describe. A key whose
    file group is not among the slices is in none. Where the index can't be read, all files are searched.
    """

    scope = Scope.TABLE
    #: the setting that makes it, its name, and the index that gives the same table
    enable: ClassVar[Key[bool | None]] = RECORD_INDEX_ENABLE
    kind: ClassVar[IndexType] = IndexType.RECORD_INDEX
    instead: ClassVar[IndexType] = IndexType.GLOBAL_SIMPLE
    update_partition_path: bool
    asked: bool
    metadata: MetadataTable | None = None
    groups: int = 1

    @classmethod
    def make(cls, config: Config) -> RecordIndex:
        asked = config[METADATA_ENABLE] is not False and bool(config[cls.enable])
        return cls(config[RECORD_INDEX_MOVES], asked)

    @property
    def updates_partition_path(self) -> bool:
        return self.update_partition_path

    @property
    def key_parts(self) -> int:
        return self.groups

    def key_part(self, keys: pa.Array[Any]) -> Positions:
        return file_groups(keys, self.groups).astype(np.int32)

    def behind(self, table: Table, timeline: Timeline) -> bool:
        """Raises ConfigError for a table that has no record index, and gets none by this write."""
        there = bool(timeline.instants)
        if there and self._is_there(table):
            return False
        if not self.asked:
            raise self._missing(table.base_path)
        return there

    def for_write(self, table: Table, config: Config) -> Index:
        """With the metadata table; `instead` of it, with a warning, where it can't be used."""
        if not self._is_there(table):
            if not self.asked:
                raise self._missing(table.base_path)
            pending = table.timeline.pending()
            if pending:
                _warn(table.base_path, f"it gets a record index once instant {pending[0].time} is done")
            return self._instead(config)
        try:
            return self._with(table)
        except MetadataTableUnavailable as error:
            _warn(table.base_path, str(error))
            return self._instead(config)

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        try:
            metadata = self.metadata or self._with(Table(table)).metadata
            assert metadata is not None
            with using():
                found = self._find(metadata, slices, keys)
        except MetadataTableUnavailable as error:
            _warn(table.uri, str(error))
            return search_slices(table, slices, keys)
        groups = pa.array([f"{item.partition}/{item.file_id}" for item in slices], pa.string())
        named = pc.binary_join_element_wise(found.column("partition"), found.column("file_id"), "/")
        numbers = pc.index_in(named, value_set=groups)
        there = pc.is_valid(numbers)
        places = pc.index_in(found.column("key").filter(there), value_set=keys)
        rows = np.full(len(places), LOOK_UP, np.int32)
        return Locations(np.asarray(places), np.asarray(numbers.filter(there)), rows)

    def _find(self, metadata: MetadataTable, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> pa.Table:
        return locate(metadata, keys)

    def _with(self, table: Table) -> RecordIndex:
        """Raises MetadataTableUnavailable."""
        with using():
            metadata = MetadataTable.open(table)
            if metadata is None:
                raise MetadataTableUnavailable("it is gone")
            if metadata.lacks:
                raise MetadataTableUnavailable(f"it lacks instant {metadata.lacks}")
            return replace(self, metadata=metadata, groups=self._groups(metadata))

    def _groups(self, metadata: MetadataTable) -> int:
        return len(metadata.slices(Partition.RECORD_INDEX))

    def _instead(self, config: Config) -> Index:
        """The index that gives the same table."""
        texts = {**config.texts, SIMPLE_MOVES.name: str(self.update_partition_path).lower()}
        make = INDEXES.load(INDEX_TYPE.name, self.instead.value)
        return make(config=Config.of(texts))

    def _is_there(self, table: Table) -> bool:
        """Has a table a record index of this kind."""
        if Partition.RECORD_INDEX.value not in table.properties.metadata_partitions:
            return False
        each = table.layout.has_completion_time and is_of_each_partition(index_definitions(table))
        return each is (self.scope is Scope.PARTITION)

    def _missing(self, path: str) -> ConfigError:
        needed = f"{INDEX_TYPE.name}={self.kind.value} needs {_NEEDED[self.kind]} of a metadata table"
        return ConfigError(
            f"{needed}, and {path} has none; set {METADATA_ENABLE.name}=true and {self.enable.name}=true, so "
            f"that this write makes one, or set {INDEX_TYPE.name} to {self.instead.value}",
            value=self.kind.value,
            path=path,
        )


@dataclass(frozen=True)
class RecordLevelIndex(RecordIndex):
    """Of each partition. A key of a partition is looked up in the file groups of the partition."""

    scope = Scope.PARTITION
    enable = PARTITIONED_RECORD_INDEX_ENABLE
    kind = IndexType.RECORD_LEVEL_INDEX
    instead = IndexType.SIMPLE

    def behind(self, table: Table, timeline: Timeline) -> bool:
        """Raises ConfigError for a table of a version that has none, too."""
        if not timeline.layout.has_completion_time:
            raise ConfigError(
                f"{INDEX_TYPE.name}={self.kind.value} needs a table of version 8 or 9, and {table.base_path} "
                "is one before, where Apache Hudi has no record index of each partition; change its version "
                f"(hoodie upgrade), or set {INDEX_TYPE.name} to {self.instead.value}",
                value=self.kind.value,
                path=table.base_path,
            )
        return super().behind(table, timeline)

    def _find(self, metadata: MetadataTable, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> pa.Table:
        """Raises TableError for an index of all partitions, or one that lacks a partition with files."""
        partitions = {item.partition for item in slices}
        if not partitions:  # there may be no file groups then
            return LOCATIONS.empty_table()
        if partitions - metadata.record_index_slices().keys():
            raise TableError("it is not one of each partition, or lacks a partition of the table")
        return locate_in(metadata, keys, partitions)

    def _groups(self, metadata: MetadataTable) -> int:
        """A task looks for all of its keys."""
        return 1


_NEEDED = {
    IndexType.RECORD_INDEX: "the record index",
    IndexType.RECORD_LEVEL_INDEX: "the record index of each partition",
}


def _warn(path: str, why: str) -> None:
    text = f"the record index of {path} can't be used, all files are searched: {why}"
    warnings.warn(MetadataTableIgnored(masked(text)), stacklevel=3)
