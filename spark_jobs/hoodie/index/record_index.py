"""RECORD_INDEX: the record index of the metadata table says which file group a key is in (Apache Hudi 0.15.0
SparkMetadataTableRecordIndex). No file of the table is opened for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hoodie.codec.arrays import pc
from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.index import INDEXES, Index, Scope
from hoodie.index.locations import LOOK_UP, Locations, Positions, search_slices
from hoodie.index.settings import INDEX_TYPE, RECORD_INDEX_MOVES, SIMPLE_MOVES, IndexType
from hoodie.mask import masked
from hoodie.metadata.keys import file_groups
from hoodie.metadata.partitions.record_index import locate
from hoodie.metadata.queries import MetadataTableIgnored, MetadataTableUnavailable, using
from hoodie.metadata.settings import METADATA_ENABLE, RECORD_INDEX_ENABLE
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.table.handle import Table, TableRef
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline

_NAME = f"{INDEX_TYPE.name}={IndexType.RECORD_INDEX.value}"


@dataclass(frozen=True)
class RecordIndex(Index):
    """`asked`: the settings ask for the record index, so that a write makes one where there is none.

    `metadata` is the metadata table as of the write's timeline, `groups` its number of file groups. What the
    index names is taken for true: its records are written with the commits that they describe. A key whose
    file group is not among the slices is in none. Where the index can't be read, all files are searched.
    """

    scope = Scope.TABLE
    update_partition_path: bool
    asked: bool
    metadata: MetadataTable | None = None
    groups: int = 1

    @classmethod
    def make(cls, config: Config) -> RecordIndex:
        asked = config[METADATA_ENABLE] is not False and bool(config[RECORD_INDEX_ENABLE])
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
        if there and _is_there(table):
            return False
        if not self.asked:
            raise _missing(table.base_path)
        return there

    def for_write(self, table: Table, config: Config) -> Index:
        """With the metadata table; GLOBAL_SIMPLE, with a warning, where it can't be used."""
        if not _is_there(table):
            if not self.asked:
                raise _missing(table.base_path)
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
                found = locate(metadata, keys)
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

    def _with(self, table: Table) -> RecordIndex:
        """Raises MetadataTableUnavailable."""
        with using():
            metadata = MetadataTable.open(table)
            if metadata is None:
                raise MetadataTableUnavailable("it is gone")
            if metadata.lacks:
                raise MetadataTableUnavailable(f"it lacks instant {metadata.lacks}")
            return replace(self, metadata=metadata, groups=len(metadata.slices(Partition.RECORD_INDEX)))

    def _instead(self, config: Config) -> Index:
        """The index that gives the same table."""
        texts = {**config.texts, SIMPLE_MOVES.name: str(self.update_partition_path).lower()}
        make = INDEXES.load(INDEX_TYPE.name, IndexType.GLOBAL_SIMPLE.value)
        return make(config=Config.of(texts))


def _is_there(table: Table) -> bool:
    return Partition.RECORD_INDEX.value in table.properties.metadata_partitions


def _missing(path: str) -> ConfigError:
    return ConfigError(
        f"{_NAME} needs the record index of a metadata table, and {path} has none; set "
        f"{METADATA_ENABLE.name}=true and {RECORD_INDEX_ENABLE.name}=true, so that this write makes one, or "
        f"set {INDEX_TYPE.name} to {IndexType.GLOBAL_SIMPLE.value}",
        value=IndexType.RECORD_INDEX.value,
        path=path,
    )


def _warn(path: str, why: str) -> None:
    text = f"the record index of {path} can't be used, all files are searched: {why}"
    warnings.warn(MetadataTableIgnored(masked(text)), stacklevel=3)
