"""File slices without rows of an answer, by what is known of them before a file is opened.

In this order: when they were committed, then what the metadata table has: the statistics of columns, the
bloom filters of keys, which base files without logs have, and the record index. What it can't say leaves
slices in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hoodie.format.bloom import KeyHashes
from hoodie.merge import keeps_values
from hoodie.metadata.bloom_filters import bloom_filters
from hoodie.metadata.queries import Unusable, ignored, using
from hoodie.metadata.record_index import locate
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.read.column_bounds import slice_bounds
from hoodie.read.key_values import possible_keys
from hoodie.read.log_merge import SliceContext
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import Node
from hoodie.read.pruning import file_fields, possible_slices
from hoodie.table.handle import Table
from hoodie.table.view import FileSlice

COMMIT_TIMES, COLUMN_STATS = "commit times", "column stats"
BLOOM_FILTERS, RECORD_INDEX = "bloom filters", "record index"
#: keys of a query that the record index is asked for, at most
_MOST_KEYS = 10_000
#: keys for each slice from which on most slices have one, if the keys are spread evenly; and how many of them
#: show whether they are
_MANY, _SAMPLE = 4, 24


@dataclass(frozen=True)
class Step:
    """The slices that were ruled out by one kind of knowledge."""

    name: str
    dropped: tuple[FileSlice, ...]


@dataclass(frozen=True)
class Skipping:
    """`metadata` is the metadata table, None where there is none or it is not to be asked; `record_index`:
    its record index knows every row of the query.
    """

    table: Table
    metadata: MetadataTable | None
    node: Node
    path_columns: PathColumns
    context: SliceContext
    record_index: bool = False

    def left(self, slices: Sequence[FileSlice]) -> tuple[list[FileSlice], tuple[Step, ...]]:
        """(the slices that may have rows for which the predicate is true, what ruled out others)"""
        left, steps = list(slices), []
        for name, look in self._looks():
            before = left
            try:
                left = look(before)
            except Unusable as why:
                ignored(self.table, f"{why}; its {name} rule nothing out")
            kept = frozenset(map(id, left))
            steps.append(Step(name, tuple(item for item in before if id(item) not in kept)))
        return left, tuple(steps)

    def _looks(self) -> list[tuple[str, Callable[[Sequence[FileSlice]], list[FileSlice]]]]:
        looks: list[tuple[str, Callable[[Sequence[FileSlice]], list[FileSlice]]]] = [
            (COMMIT_TIMES, self._by_commit_times)
        ]
        there = frozenset() if self.metadata is None else self.metadata.partitions
        if Partition.COLUMN_STATS.value in there:
            looks.append((COLUMN_STATS, self._by_column_stats))
        if Partition.BLOOM_FILTERS.value in there:
            looks.append((BLOOM_FILTERS, self._by_bloom_filters))
        if self.record_index and Partition.RECORD_INDEX.value in there:
            looks.append((RECORD_INDEX, self._by_record_index))
        return looks

    def _by_commit_times(self, slices: Sequence[FileSlice]) -> list[FileSlice]:
        return possible_slices(self.node, self.path_columns, slices)

    def _by_column_stats(self, slices: Sequence[FileSlice]) -> list[FileSlice]:
        fields = file_fields(self.node, self.path_columns)
        known = [item for item in slices if self._has_values_of_its_files(item)]
        if not (fields and known and self.metadata is not None):
            return list(slices)
        with using():
            bounds = dict(zip(map(id, known), slice_bounds(self.metadata, fields, known), strict=True))
        of_each = [bounds.get(id(item), {}) for item in slices]
        return possible_slices(self.node, self.path_columns, slices, of_each)

    def _by_bloom_filters(self, slices: Sequence[FileSlice]) -> list[FileSlice]:
        keys = possible_keys(self.node, self.table.properties)
        if keys is None or self.metadata is None:
            return list(slices)
        asked = {(item.partition, item.base.name): item for item in slices if item.plain and item.base}
        # no record key is an empty text, and filters take none
        hashes = KeyHashes(pa.array(sorted(keys - {""}), pa.string()))
        with using():
            without = {
                id(asked[file])
                for file, bloom in bloom_filters(self.metadata, list(asked))
                if not bloom.any_might_contain(hashes)
            }
        return [item for item in slices if id(item) not in without]

    def _by_record_index(self, slices: Sequence[FileSlice]) -> list[FileSlice]:
        """A key that the index does not know may be new to it. Of many keys for few slices some are looked up
        first: where they lie in more slices than if half of all had them, others would rule out hardly any.
        """
        keys = possible_keys(self.node, self.table.properties)
        if not keys or len(keys) > _MOST_KEYS or not slices:
            return list(slices)
        wanted = sorted(keys)
        if len(wanted) > _MANY * len(slices):
            some = wanted[:: -(-len(wanted) // _SAMPLE)]
            places, half = self._places(some), len(slices) / 2
            if places is None or len(places) > half * (1 - max(0.0, 1 - 1 / half) ** len(some)):
                return list(slices)
        places = self._places(wanted)
        return [item for item in slices if places is None or (item.partition, item.file_id) in places]

    def _places(self, keys: Sequence[str]) -> frozenset[tuple[str, str]] | None:
        """(partition, file id) of the file groups that have the keys; None where one is not known."""
        assert self.metadata is not None
        with using():
            found = locate(self.metadata, pa.array(keys, pa.string()))
        if found.num_rows < len(keys):
            return None
        partitions, ids = (found[name].to_pylist() for name in ("partition", "file_id"))
        return frozenset((str(place), str(id_)) for place, id_ in zip(partitions, ids, strict=True))

    def _has_values_of_its_files(self, item: FileSlice) -> bool:
        """Is every value of its rows one in its files, under the same name."""
        base, evolution, merger = item.base, self.context.evolution, self.context.merger
        if base is not None and (base.skeleton or (evolution and evolution.moved(base.instant))):
            return False
        return not item.logs or (evolution is None and merger is not None and keeps_values(merger))
