"""SIMPLE: compare with the keys of the partition's latest files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.index import Index
from hoodie.index.tags import Tags, mark_found
from hoodie.storage import Storage
from hoodie.table.skeleton import open_base
from hoodie.table.view import BaseFile


@dataclass(frozen=True)
class SimpleIndex(Index):
    @classmethod
    def make(cls, config: Config) -> SimpleIndex:
        return cls()

    def tag(self, storage: Storage, files: Sequence[BaseFile], keys: pa.Array[Any]) -> Tags:
        tags = Tags.of(len(keys))
        for position, file in enumerate(files):
            with open_base(storage, file, None) as reader:
                mark_found(reader, keys, tags, position)
        return tags
