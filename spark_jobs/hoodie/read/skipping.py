"""File slices without rows of an answer, found before a file is opened.

- The order of the steps: commit times, then the metadata table with the statistics of columns, indexes of
  expressions, the bloom filters of keys of base files without logs, the record index, and secondary indexes.
  A predicate may name the record keys of the answer.
- A step that has no answer leaves slices in. An index that a query does without has a reason.
- A secondary index says which record keys have a value, and the record index where these are. Both are of the
  latest state. Apache Hudi 1.2.0 leaves out what logs change, also once they are compacted, so that those of
  merge-on-read tables are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

import pyarrow as pa

from hoodie.config.versions import LayoutVersion
from hoodie.errors import TableError
from hoodie.format.bloom import KeyHashes
from hoodie.merge import keeps_values
from hoodie.metadata.index_definitions import V1, V2, IndexDefinition, index_definitions
from hoodie.metadata.partitions.bloom_filters import bloom_filters
from hoodie.metadata.partitions.expression_index import FILTERS
from hoodie.metadata.partitions.record_index import locate_in
from hoodie.metadata.partitions.secondary_index import record_keys
from hoodie.metadata.queries import MetadataTableUnavailable, ignored, using
from hoodie.metadata.table import (
    EXPRESSION_INDEX,
    SECONDARY_INDEX,
    MetadataTable,
    Partition,
)
from hoodie.read.candidate_keys import candidate_keys, texts_of, values_of
from hoodie.read.column_bounds import result_bounds, slice_bounds
from hoodie.read.expression_index import RESULT, Indexed, Unusable, indexed
from hoodie.read.log_merge import SliceContext
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import ANY, Node
from hoodie.read.pruning import file_fields, possible_slices
from hoodie.table.handle import Table
from hoodie.table.properties import TableType
from hoodie.table.view import FileSlice

COMMIT_TIMES, COLUMN_STATS = "commit times", "column stats"
BLOOM_FILTERS, RECORD_INDEX = "bloom filters", "record index"
#: keys of a query that the record index is asked for, at most
_MOST_KEYS = 10_000
#: keys for each slice from which on most slices have one, if the keys are spread evenly; and how many of them
#: show whether they are
_MANY, _SAMPLE = 4, 24
_NO_KEYS = "the predicate names no record keys"
_Look: TypeAlias = Callable[[Sequence[FileSlice]], list[FileSlice]]


@dataclass(frozen=True)
class IndexUse:
    """`index` is the partition of the metadata table. `reason`: why the query does without it, "" where it
    is used.
    """

    index: str
    used: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Step:
    """The slices that were ruled out by one kind of knowledge."""

    name: str
    dropped: tuple[FileSlice, ...]


@dataclass(frozen=True)
class Skipping:
    """`metadata` is the metadata table, None where there is none or it is not to be asked, for the `reason`.
    `filtered`: there is a predicate, be it one of which `node` says nothing. `no_places`: why the record
    index, and with it secondary indexes, are not to be asked; "" where they are.
    """

    table: Table
    metadata: MetadataTable | None
    node: Node
    path_columns: PathColumns
    context: SliceContext
    filtered: bool = False
    no_places: str = ""
    reason: str = ""

    def left(
        self, slices: Sequence[FileSlice]
    ) -> tuple[list[FileSlice], tuple[Step, ...], tuple[IndexUse, ...]]:
        """(the slices that may have rows for which the predicate is true, what ruled out others, the indexes
        of files that the table has)
        """
        left = possible_slices(self.node, self.path_columns, slices)
        steps, uses = [_step(COMMIT_TIMES, slices, left)], list[IndexUse]()
        for index in self._indexes():
            before = left
            try:
                name, look = self._look(index)
                left = look(before)
            except Unusable as why:
                uses.append(IndexUse(index, reason=str(why)))
                continue
            except MetadataTableUnavailable as why:
                ignored(self.table, f"{why}; its {_NAMES.get(index, index)} rule nothing out")
                uses.append(IndexUse(index, reason=str(why)))
                continue
            uses.append(IndexUse(index, used=True))
            steps.append(_step(name, before, left))
        return left, tuple(steps), tuple(uses)

    def _indexes(self) -> list[str]:
        """In the order in which they are asked; those that are not known last."""
        others = frozenset((Partition.FILES.value, Partition.PARTITION_STATS))
        there = sorted(frozenset(self.table.properties.metadata_partitions) - others)
        order = [Partition.COLUMN_STATS.value, EXPRESSION_INDEX, *_NAMES, SECONDARY_INDEX]

        def place(name: str) -> int:
            return next((at for at, known in enumerate(order) if name.startswith(known)), len(order))

        return sorted(there, key=place)

    def _look(self, index: str) -> tuple[str, _Look]:
        """(the name of the step, what rules out slices by an index). Raises Unusable where nothing does."""
        if self.metadata is None:
            raise Unusable(self.reason or "the metadata table is not used")
        if not self.filtered:
            raise Unusable("the query has no predicate")
        if self.node == ANY and not index.startswith(EXPRESSION_INDEX):
            raise Unusable("nothing is known here of the predicate")
        if index == Partition.COLUMN_STATS:
            if not file_fields(self.node, self.path_columns):
                raise Unusable("the predicate has no condition on a column in files")
            return COLUMN_STATS, partial(self._by_column_stats, self.metadata)
        if index == Partition.BLOOM_FILTERS:
            keys = candidate_keys(self.node, self.table.properties)
            if keys is None:
                raise Unusable(_NO_KEYS)
            # no record key is an empty text, and filters take none
            return BLOOM_FILTERS, partial(self._by_filters, self.metadata, index, keys - {""})
        if index == Partition.RECORD_INDEX:
            return RECORD_INDEX, partial(self._by_record_index, self.metadata, self._asked_keys())
        if self.table.layout.version is LayoutVersion.ONE:
            raise Unusable("it is of a table before version 8, which has none in Apache Hudi")
        if index.startswith(SECONDARY_INDEX):
            return index, self._by_secondary_index(self.metadata, index)
        if index.startswith(EXPRESSION_INDEX):
            return index, self._by_expression(self.metadata, index)
        raise Unusable("it is of a type that is not known here")

    def _by_column_stats(self, metadata: MetadataTable, slices: Sequence[FileSlice]) -> list[FileSlice]:
        fields = file_fields(self.node, self.path_columns)
        known = [item for item in slices if self._has_values_of_its_files(item)]
        if not known:
            return list(slices)
        with using():
            bounds = dict(zip(map(id, known), slice_bounds(metadata, fields, known), strict=True))
        of_each = [bounds.get(id(item), {}) for item in slices]
        return possible_slices(self.node, self.path_columns, slices, of_each)

    def _by_expression(self, metadata: MetadataTable, index: str) -> _Look:
        found = indexed(self.node, self._definition(index))
        self._check_column(found.column)
        if self.context.evolution is not None:
            raise Unusable("columns may have other names in files of other schemas")
        if self._definition(index).kind != FILTERS:
            return partial(self._by_results, metadata, index, found)
        values = values_of(found.node, RESULT)
        if values is None:
            raise Unusable("the predicate does not say which results it is true of")
        if "" in values:
            raise Unusable("filters are not asked for the empty text")
        return partial(self._by_filters, metadata, index, values)

    def _by_results(
        self, metadata: MetadataTable, index: str, found: Indexed, slices: Sequence[FileSlice]
    ) -> list[FileSlice]:
        known = [item for item in slices if item.plain and item.base and not item.base.skeleton]
        with using():
            bounds = result_bounds(metadata, index, found.column, found.result, known)
        of_each = dict(zip(map(id, known), bounds, strict=True))
        return possible_slices(
            found.node, self.path_columns, slices, [of_each.get(id(item), {}) for item in slices]
        )

    def _by_filters(
        self, metadata: MetadataTable, index: str, texts: Collection[str], slices: Sequence[FileSlice]
    ) -> list[FileSlice]:
        asked = {(item.partition, item.base.name): item for item in slices if item.plain and item.base}
        hashes = KeyHashes(pa.array(sorted(texts), pa.string()))
        with using():
            without = {
                id(asked[file])
                for file, bloom in bloom_filters(metadata, list(asked), index)
                if not bloom.any_might_contain(hashes)
            }
        return [item for item in slices if id(item) not in without]

    def _asked_keys(self) -> frozenset[str]:
        keys = candidate_keys(self.node, self.table.properties)
        if keys is None or not keys:
            raise Unusable(_NO_KEYS)
        if self.no_places:
            raise Unusable(self.no_places)
        if len(keys) > _MOST_KEYS:
            raise Unusable(f"the predicate names more than {_MOST_KEYS:,} record keys")
        return keys

    def _by_record_index(
        self,
        metadata: MetadataTable,
        keys: frozenset[str],
        slices: Sequence[FileSlice],
        everywhere: bool = False,
    ) -> list[FileSlice]:
        """`everywhere`: a key may be in other partitions than those of the slices.

        A key that the index does not know may be new to it. Of many keys for few slices some are looked up
        first: where they lie in more slices than if half of all had them, others would rule out hardly any.
        """
        if not slices or not keys:
            return list(slices)
        wanted = sorted(keys)
        partitions = None if everywhere else frozenset(item.partition for item in slices)
        if len(wanted) > _MANY * len(slices):
            some = wanted[:: -(-len(wanted) // _SAMPLE)]
            places, half = _places(metadata, some, partitions), len(slices) / 2
            if places is None or len(places) > half * (1 - max(0.0, 1 - 1 / half) ** len(some)):
                return list(slices)
        places = _places(metadata, wanted, partitions)
        return [item for item in slices if places is None or (item.partition, item.file_id) in places]

    def _by_secondary_index(self, metadata: MetadataTable, index: str) -> _Look:
        definition = self._definition(index)
        texts = self._asked_values(definition)
        if self.table.properties.table_type is TableType.MERGE_ON_READ:
            raise Unusable("Apache Hudi does not put into it what log files change")
        if self.no_places:
            raise Unusable(self.no_places)
        if Partition.RECORD_INDEX.value not in metadata.partitions:
            raise Unusable("there is no record index, which says where its record keys are")
        if self.context.evolution is not None:
            raise Unusable("columns may have other names in files of other schemas")
        with using():
            keys = record_keys(metadata, index, texts, by_value=definition.version == V2)
        if len(keys) > _MOST_KEYS:
            raise Unusable(f"more than {_MOST_KEYS:,} rows have these values")
        if not keys:
            return lambda slices: []
        return partial(self._by_record_index, metadata, keys, everywhere=True)

    def _asked_values(self, definition: IndexDefinition) -> frozenset[str]:
        """The texts of the values that the predicate names of the column of a secondary index."""
        if definition.version not in (V1, V2):
            raise Unusable(f"its version {definition.version[:100]!r} is not known here")
        if definition.kind != "secondary_index":
            raise Unusable(f"its type {definition.kind[:100]!r} is not known here")
        if len(definition.source_fields) != 1 or definition.function not in ("", "identity"):
            raise Unusable("it is not of the values of one column")
        (column,) = definition.source_fields
        path = tuple(column.split("."))
        self._check_column(column)
        texts = texts_of(self.node, path)
        if texts is None:
            raise Unusable(f"the predicate does not name values, texts or whole numbers, of {column[:100]}")
        if len(texts) > _MOST_KEYS:
            raise Unusable(f"the predicate names more than {_MOST_KEYS:,} values")
        return texts

    def _check_column(self, column: str) -> None:
        if column in self.path_columns.types:
            raise Unusable("the values of its column are those of partition paths")

    def _definition(self, index: str) -> IndexDefinition:
        try:
            found = self._definitions.get(index)
        except TableError as error:
            raise Unusable(error.message) from None
        if found is None:
            raise Unusable("the table has no definition of it")
        return found

    @cached_property
    def _definitions(self) -> Mapping[str, IndexDefinition]:
        return index_definitions(self.table)

    def _has_values_of_its_files(self, item: FileSlice) -> bool:
        """Is every value of its rows one in its files, under the same name."""
        base, evolution, merger = item.base, self.context.evolution, self.context.merger
        if base is not None and (base.skeleton or (evolution and evolution.moved(base.instant))):
            return False
        return not item.logs or (evolution is None and merger is not None and keeps_values(merger))


#: what warnings call the partitions of the metadata table, in the order in which they are asked
_NAMES = {
    Partition.COLUMN_STATS.value: COLUMN_STATS,
    Partition.BLOOM_FILTERS.value: BLOOM_FILTERS,
    Partition.RECORD_INDEX.value: RECORD_INDEX,
}


def _step(name: str, before: Sequence[FileSlice], left: Sequence[FileSlice]) -> Step:
    kept = frozenset(map(id, left))
    return Step(name, tuple(item for item in before if id(item) not in kept))


def _places(
    metadata: MetadataTable, keys: Sequence[str], partitions: Collection[str] | None
) -> frozenset[tuple[str, str]] | None:
    """(partition, file id) of the file groups that have the keys, in the partitions if the index is one of
    each; None where one key is in none.
    """
    with using():
        found = locate_in(metadata, pa.array(keys, pa.string()), partitions)
    there, places, ids = (found[name].to_pylist() for name in ("key", "partition", "file_id"))
    if len(frozenset(there)) < len(keys):
        return None
    return frozenset((str(place), str(id_)) for place, id_ in zip(places, ids, strict=True))
