"""BLOOM and GLOBAL_BLOOM: prune files by key range, then by bloom filter, then look exactly.

The filter lies in one direction, and decides about a whole file: one key that it may contain makes the file a
candidate, whose keys are then compared exactly, so keys are tested only until the first that passes. Ranges
and filters are in the files' footers, and, where the settings say so, in the metadata table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.bloom import KeyHashes
from hoodie.format.names import join
from hoodie.index import Index, Scope
from hoodie.index.locations import KeySearch, Locations, may_contain
from hoodie.index.settings import BLOOM_MOVES, BY_METADATA, PRUNE_BY_RANGES
from hoodie.metadata.partitions.bloom_filters import KeyFiles
from hoodie.metadata.partitions.column_stats import File
from hoodie.metadata.queries import MetadataTableUnavailable, for_queries, ignored, using
from hoodie.metadata.table import Partition
from hoodie.table.handle import Table, TableRef
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice


@dataclass(frozen=True, kw_only=True)
class BloomIndex(Index):
    by_slice = True
    prune_by_ranges: bool
    by_metadata: bool
    key_files: KeyFiles | None = None

    @classmethod
    def make(cls, config: Config) -> BloomIndex:
        return cls(prune_by_ranges=config[PRUNE_BY_RANGES], by_metadata=config[BY_METADATA])

    def for_write(self, table: Table, config: Config) -> BloomIndex:
        if not self.by_metadata:
            return self
        try:
            metadata = for_queries(table, config)
            if metadata is None or Partition.BLOOM_FILTERS.value not in metadata.partitions:
                raise MetadataTableUnavailable(
                    f"it has no index {Partition.BLOOM_FILTERS.value}, so that {BY_METADATA.name} reads the "
                    "footers of files"
                )
        except MetadataTableUnavailable as error:
            ignored(table, str(error))
            return self
        return replace(self, key_files=KeyFiles(metadata, self.prune_by_ranges))

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        storage, search, hashes = table.storage(), KeySearch(keys), KeyHashes(keys)
        known = self._known(table, slices, keys, hashes)
        for number, slice_ in enumerate(slices):
            if slice_.base is None:
                continue
            possible = known.get((slice_.base.partition, slice_.base.name))
            if possible is False:
                continue
            with open_base(storage, slice_.base, None) as reader:
                if possible or may_contain(reader, keys, hashes, self.prune_by_ranges):
                    search.look(reader, number)
        return search.locations()

    def _known(
        self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any], hashes: KeyHashes
    ) -> dict[File, bool]:
        """Which base files may have some of the keys, as far as the metadata table says it."""
        if self.key_files is None:
            return {}
        files = [(item.base.partition, item.base.name) for item in slices if item.base is not None]
        try:
            with using():
                known = self.key_files.possible(files, keys, hashes)
        except MetadataTableUnavailable as error:
            ignored(table, str(error))
            return {}
        missing = [file for file in files if file not in known]
        if missing:
            text = f"it has no bloom filter of {len(missing)} files, which are opened; one is "
            ignored(table, f"{text}{join(*missing[0])}")
        return known


@dataclass(frozen=True, kw_only=True)
class GlobalBloomIndex(BloomIndex):
    scope = Scope.TABLE
    update_partition_path: bool

    @classmethod
    def make(cls, config: Config) -> GlobalBloomIndex:
        return cls(
            prune_by_ranges=config[PRUNE_BY_RANGES],
            by_metadata=config[BY_METADATA],
            update_partition_path=config[BLOOM_MOVES],
        )

    @property
    def updates_partition_path(self) -> bool:
        return self.update_partition_path
