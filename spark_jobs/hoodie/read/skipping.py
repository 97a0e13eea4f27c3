"""File slices without rows of an answer, found before a file is opened.

- The order of the steps: commit times, then the metadata table with the statistics of columns, the bloom
  filters of keys of base files without logs, and the record index. A predicate may name the record keys of
  the answer.
- A step that has no answer leaves slices in.
- A row of a slice has values of its files only. So bounds of a column in all of them bound it in the slice.
  A file without statistics bounds nothing.

Statistics that this package wrote are certain (`ColumnStats.true`). Those of Apache Hudi are not always:

- A row group without least and greatest value of a column has no part in those of its file, or that of a
  zero: of floats if one is NaN (apache/hudi#18754), and of texts if one is long.
- If all values of a file count as nulls, the file may have had no statistics. Numbers are zero then.
- Days before 1582-10-15 and times before 1900 may follow another calendar, and points in time the file's own
  unit.
- Texts are compared by UTF-16 units if records of log files are merged, and may end with half a character.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.format.bloom import KeyHashes
from hoodie.format.meta_fields import RECORD_KEY
from hoodie.merge import keeps_values
from hoodie.metadata.partitions.bloom_filters import bloom_filters
from hoodie.metadata.partitions.column_ranges import text_bounds
from hoodie.metadata.partitions.column_stats import ColumnStats, File, column_stats
from hoodie.metadata.partitions.record_index import locate
from hoodie.metadata.queries import MetadataTableUnavailable, ignored, using
from hoodie.metadata.table import MetadataTable, Partition
from hoodie.read.bounds import EMPTY, UNKNOWN, Bounds, comparable
from hoodie.read.log_merge import SliceContext
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import (
    TRUE,
    And,
    Answers,
    Comparison,
    Constant,
    Field,
    In,
    Literal,
    Node,
    Or,
    Path,
)
from hoodie.read.pruning import fields_of, file_fields, possible_slices
from hoodie.table.handle import Table
from hoodie.table.properties import TableProperties
from hoodie.table.view import FileSlice

#: key generators whose record keys are the texts of the key's one field; of the first group later releases
#: put its name before
_PLAIN = re.compile(r"\.(?:(Complex)|Simple|Non[pP]artitioned|TimestampBased)(?:Avro)?KeyGenerator$")


def candidate_keys(node: Node, props: TableProperties) -> frozenset[str] | None:
    """Every row for which the bound tree is true has one of these record keys; None: any."""
    found = _values(node, (RECORD_KEY,))
    keys = None if found is None else frozenset(map(str, found))
    plain = _PLAIN.search(props.keygenerator_class or "")
    if len(props.record_key_fields) != 1 or plain is None:
        return keys
    (name,) = props.record_key_fields
    field = fields_of(node).get((name,))
    if field is None or not (pa.types.is_string(field.type) or pa.types.is_integer(field.type)):
        return keys
    values = _values(node, (name,))
    if values is None or "" in values:  # some generators have another text for the empty one
        return keys
    texts = [str(int(value)) for value in values if not isinstance(value, str) and value == int(value)]
    texts += [value for value in values if isinstance(value, str)]
    if plain[1]:
        texts += [f"{name}:{text}" for text in texts]
    return frozenset(texts) if keys is None else keys & frozenset(texts)


def _values(node: Node, path: Path) -> frozenset[Any] | None:
    """The values of the column in rows for which the tree is true; None: any."""
    if isinstance(node, Constant):
        return None if node.answers & TRUE else frozenset()
    if isinstance(node, And):
        found = [values for term in node.terms if (values := _values(term, path)) is not None]
        return frozenset.intersection(*found) if found else None
    if isinstance(node, Or):
        every = [_values(term, path) for term in node.terms]
        known = [values for values in every if values is not None]
        return frozenset().union(*known) if len(known) == len(every) else None
    if isinstance(node, Answers):
        return _values(node.term, path) if node.among == TRUE else None
    if isinstance(node, Comparison):
        named = isinstance(node.left, Field) and node.left.path == path and node.sign in ("=", "<=>")
        return frozenset([node.right.value]) if named and isinstance(node.right, Literal) else None
    if isinstance(node, In):
        return node.members if isinstance(node.value, Field) and node.value.path == path else None
    return None


#: rows of which Apache Hudi's Parquet writer makes one row group
_ONE_GROUP = 100
#: bytes of a text that Parquet writers may leave out of statistics (parquet-java adds up the two)
_LONG = 2048
_GREGORIAN = (dt.date(1582, 10, 15) - dt.date(1970, 1, 1)).days
#: microseconds of 1900: times before were counted by another calendar
_OLDEST = -2_208_988_800_000_000
#: smaller numbers are microseconds of the years around 1970, or milliseconds of any time
_MILLIS = 10**14
_SCALE, _EXACT = -15, Context(prec=100)
_Ends: TypeAlias = tuple[Any, Any]


def slice_bounds(
    metadata: MetadataTable, fields: Mapping[Path, Field], slices: Sequence[FileSlice]
) -> list[dict[Path, Bounds]]:
    """Of each slice what is known of some columns. Raises as `column_stats`."""
    fields = {path: field for path, field in fields.items() if _known_type(field.type)}
    if not fields:
        return [{} for _ in slices]
    names = {path: ".".join(path) for path in fields}
    stored = [_files(item) for item in slices]
    found = column_stats(metadata, names.values(), [file for files in stored for file, _ in files])

    def bounds(files: Sequence[tuple[File, bool]], path: Path) -> Bounds:
        joined: Bounds | None = None
        for file, log in files:
            stats = found.get((file, names[path]))
            if stats is None:
                return UNKNOWN
            for item in stats:
                one = bounds_of_stats(item, fields[path].type, log)
                joined = one if joined is None else joined.joined(one)
        return joined or UNKNOWN

    return [{path: bounds(files, path) for path in fields} for files in stored]


def bounds_of_stats(stats: ColumnStats, kind: pa.DataType, log: bool) -> Bounds:
    """Those of a column of a type in a base file or, by one commit at least, in a log file."""
    if stats.values == 0:
        return EMPTY
    nulls, floating = stats.nulls is None or stats.nulls != 0, pa.types.is_floating(kind)
    unknown = Bounds(nulls=nulls, nan=floating)
    if stats.low is None or stats.high is None:
        return unknown
    if not (log or stats.true or _is_whole(stats, kind)):
        return unknown
    low, high = _ends(stats, kind, log)
    if low is not None and high is not None and high < low:
        return unknown
    return Bounds(low, high, nulls=nulls, nan=floating)


def _is_whole(stats: ColumnStats, kind: pa.DataType) -> bool:
    """Did every row group have a part in the bounds of a base file that Apache Hudi wrote?"""
    if pa.types.is_floating(kind) or stats.nulls == stats.values:
        return False
    one_group = stats.values is not None and stats.values <= _ONE_GROUP
    return one_group or not pa.types.is_string(kind) or _is_short(stats)


def _is_short(stats: ColumnStats) -> bool:
    """Has no text of the column a length that makes a row group's statistics lack it."""
    return stats.nulls == 0 and stats.size is not None and 0 < stats.size < _LONG


def _files(item: FileSlice) -> list[tuple[File, bool]]:
    """(file, whether it is a log) of a slice."""
    bases = [] if item.base is None else [((item.base.partition, item.base.name), False)]
    return [*bases, *(((log.partition, log.name), True) for log in item.logs)]


def _known_type(kind: pa.DataType) -> bool:
    return any(test(kind) for test, _, _ in _TYPES)


def _ends(stats: ColumnStats, kind: pa.DataType, log: bool) -> _Ends:
    for test, kinds, made in _TYPES:
        if test(kind):
            return made(stats, log) if stats.kind in kinds else (None, None)
    return None, None


def _plain(stats: ColumnStats, _: bool) -> _Ends:
    return stats.low, stats.high


def _float(stats: ColumnStats, _: bool) -> _Ends:
    low, high = (None if value != value else value for value in (stats.low, stats.high))
    return low, high


def _days(stats: ColumnStats, _: bool) -> _Ends:
    low, high = comparable(stats.low), comparable(stats.high)
    return None if low < _GREGORIAN else low, max(high, _GREGORIAN)


def _moments(stats: ColumnStats, _: bool) -> _Ends:
    low, high = stats.low, stats.high
    if not isinstance(low, int) or max(abs(low), abs(high)) < _MILLIS:
        return None, None
    return None if low < _OLDEST else low, max(high, _OLDEST)


def _decimals(stats: ColumnStats, log: bool) -> _Ends:
    """Merged bytes of a log file were compared as bytes, where they do not say that they are a decimal."""
    if isinstance(stats.low, Decimal):
        return stats.low, stats.high
    if stats.scale is not None and stats.low and stats.high:
        return _unscaled(stats.low, stats.scale), _unscaled(stats.high, stats.scale)
    if log or not (stats.low and stats.high):
        return None, None
    return merged_decimal(stats.low), merged_decimal(stats.high)


def _unscaled(data: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)


def merged_decimal(data: bytes) -> Decimal:
    """What Apache Hudi's merging of records leaves of a DecimalWrapper: unscaled bytes."""
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(_SCALE, _EXACT)


def _texts(stats: ColumnStats, _: bool) -> _Ends:
    return text_bounds(stats.low, stats.high)


def _is_moment(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.TimestampType) and kind.unit == "us"


_WHOLE = frozenset({"IntWrapper", "LongWrapper"})
#: (what it is true of, the types of statistics that it may have, how bounds are made of them)
_TYPES: Iterable[
    tuple[Callable[[pa.DataType], bool], frozenset[str], Callable[[ColumnStats, bool], _Ends]]
] = (
    (pa.types.is_boolean, frozenset({"BooleanWrapper"}), _plain),
    (pa.types.is_integer, _WHOLE, _plain),
    (pa.types.is_float32, frozenset({"FloatWrapper"}), _float),
    (pa.types.is_float64, frozenset({"DoubleWrapper"}), _float),
    (pa.types.is_date32, frozenset({"DateWrapper", "IntWrapper"}), _days),
    (_is_moment, frozenset({"LongWrapper", "TimestampMicrosWrapper"}), _moments),
    (pa.types.is_decimal, frozenset({"DecimalWrapper", "BytesWrapper"}), _decimals),
    (pa.types.is_string, frozenset({"StringWrapper"}), _texts),
)


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
            except MetadataTableUnavailable as why:
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
        keys = candidate_keys(self.node, self.table.properties)
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
        keys = candidate_keys(self.node, self.table.properties)
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
