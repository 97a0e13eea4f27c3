"""SIMPLE and GLOBAL_SIMPLE: compare with the keys of the partition's, or the table's, latest base files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.index import Index, Scope
from hoodie.index.locations import Locations, search_slices
from hoodie.index.settings import SIMPLE_MOVES
from hoodie.table.handle import TableRef
from hoodie.table.view import FileSlice


@dataclass(frozen=True)
class SimpleIndex(Index):
    by_slice = True

    @classmethod
    def make(cls, config: Config) -> SimpleIndex:
        return cls()

    def locate(self, table: TableRef, slices: Sequence[FileSlice], keys: pa.Array[Any]) -> Locations:
        return search_slices(table, slices, keys)


@dataclass(frozen=True)
class GlobalSimpleIndex(SimpleIndex):
    scope = Scope.TABLE
    update_partition_path: bool

    @classmethod
    def make(cls, config: Config) -> GlobalSimpleIndex:
        return cls(config[SIMPLE_MOVES])

    @property
    def updates_partition_path(self) -> bool:
        return self.update_partition_path
