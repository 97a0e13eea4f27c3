"""BLOOM and GLOBAL_BLOOM: prune files by key range, then by bloom filter, then look exactly.

The filter lies in one direction, and decides about a whole file: one key that it may contain makes the file a
candidate, whose keys are then compared exactly, so keys are tested only until the first that passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.format.bloom import KeyHashes, in_range
from hoodie.index import Index, Scope
from hoodie.index.locations import KeySearch, Locations
from hoodie.index.settings import BLOOM_MOVES, PRUNE_BY_RANGES
from hoodie.table.handle import TableRef
from hoodie.table.skeleton import open_base
from hoodie.table.view import FileSlice


@dataclass(frozen=True)
class BloomIndex(Index):
    by_slice = True
    prune_by_ranges: bool

    @classmethod
    def make(cls, config: Config) -> BloomIndex:
        return cls(config[PRUNE_BY_RANGES])

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        storage, search, hashes = table.storage(), KeySearch(keys), KeyHashes(keys)
        for number, slice_ in enumerate(slices):
            if slice_.base is not None:
                with open_base(storage, slice_.base, None) as reader:
                    if self._candidate(reader, keys, hashes):
                        search.look(reader, number)
        return search.locations()

    def _candidate(self, reader: BaseFileReader, keys: pa.Array[Any], hashes: KeyHashes) -> bool:
        mask = None
        bounds = reader.key_bounds() if self.prune_by_ranges else None
        if bounds is not None:
            mask = in_range(keys, *bounds)
            if not mask.any():
                return False
        bloom = reader.bloom()
        return bloom is None or bloom.any_might_contain(hashes, mask)


@dataclass(frozen=True)
class GlobalBloomIndex(BloomIndex):
    scope = Scope.TABLE
    update_partition_path: bool

    @classmethod
    def make(cls, config: Config) -> GlobalBloomIndex:
        return cls(config[PRUNE_BY_RANGES], config[BLOOM_MOVES])

    @property
    def moves(self) -> bool:
        return self.update_partition_path
