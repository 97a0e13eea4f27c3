"""BLOOM: prune files by key range, then by bloom filter, then look exactly (filters lie in one direction).

The filter decides about a whole file: one key that it may contain makes the file a candidate, whose keys
are then compared exactly, so the filter is asked only until its first yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.format.bloom import KeyHashes, in_range
from hoodie.index import Index
from hoodie.index.settings import PRUNE_BY_RANGES
from hoodie.index.tags import Tags, mark_found
from hoodie.storage import Storage
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile


@dataclass(frozen=True)
class BloomIndex(Index):
    prune_by_ranges: bool

    @classmethod
    def make(cls, config: Config) -> BloomIndex:
        return cls(config[PRUNE_BY_RANGES])

    def tag(self, storage: Storage, files: Sequence[BaseFile], keys: pa.Array[Any]) -> Tags:
        tags = Tags.of(len(keys))
        everything = KeyHashes(keys)
        for position, file in enumerate(files):
            with open_base(storage, file, None) as reader:
                if self._candidate(reader, keys, everything):
                    mark_found(reader, keys, tags, position)
        return tags

    def _candidate(self, reader: BaseFileReader, keys: pa.Array[Any], hashes: KeyHashes) -> bool:
        mask = None
        bounds = reader.key_bounds() if self.prune_by_ranges else None
        if bounds is not None:
            mask = in_range(keys, *bounds)
            if not mask.any():
                return False
        bloom = reader.bloom()
        return bloom is None or bloom.any_might_contain(hashes, mask)
