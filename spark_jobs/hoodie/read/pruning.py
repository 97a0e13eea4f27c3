"""What a predicate rules out before it is read: partitions, which are then not even listed, files, row
groups.

- A partition's rows have the values of its path, whatever its files and logs contain. So partitions are left
  out with their logs.
- The statistics of a base file bound the rows of a slice without logs only. A log updates rows of the file,
  and adds others.
- Bounds of columns come from the statistics in a Parquet file's footer, a row group at a time.
- The engine still evaluates the whole predicate on the remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.engine.legacy_calendar import LegacyCalendar, is_temporal
from hoodie.format.meta_fields import COMMIT_TIME, PARTITION_PATH
from hoodie.read.bounds import NOTHING, UNKNOWN, Bounds, Lookup, comparable, may_be_true
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import (
    ANY,
    And,
    Answers,
    Comparison,
    Computed,
    Constant,
    Expression,
    Field,
    Node,
    Not,
    Opaque,
    Or,
    Path,
)
from hoodie.table.view import FileSlice


def possible_row_groups(
    node: Node, metadata: pq.FileMetaData, known: dict[tuple[str, ...], Bounds]
) -> list[int]:
    """The numbers of the row groups that may have rows for which the predicate is true.

    The bounds in `known` are used instead of the statistics. Days and times of an old calendar, and a column
    that the file has under another name or type than the tree was bound to, have no bounds.
    """
    fields = {path: field for path, field in fields_of(node).items() if path not in known}
    if LegacyCalendar.of(metadata.metadata) is not None:
        fields = {path: field for path, field in fields.items() if not is_temporal(field.type)}
    places = _places(metadata, fields)

    def lookup(group: pq.RowGroupMetaData) -> Lookup:
        found = {
            path: _bounds(group, places[path], field) for path, field in fields.items() if path in places
        }
        return lambda path: known.get(path) or found.get(path, UNKNOWN)

    count = metadata.num_row_groups if places else 0
    kept = [number for number in range(count) if may_be_true(node, lookup(metadata.row_group(number)))]
    return kept if places else list(range(metadata.num_row_groups))


def fields_of(node: Node) -> dict[Path, Field]:
    """The columns that a bound tree reads."""
    return {field.path: field for field in _fields(node)}


def _fields(node: Node) -> Iterator[Field]:
    if isinstance(node, (And, Or)):
        for term in node.terms:
            yield from _fields(term)
    elif isinstance(node, (Not, Answers)):
        yield from _fields(node.term)
    elif isinstance(node, Opaque):
        yield from node.fields
    elif isinstance(node, Comparison):
        yield from _of_value(node.left)
        yield from _of_value(node.right)
    elif not isinstance(node, Constant):
        yield from _of_value(node.value)


def _of_value(value: Expression) -> Iterator[Field]:
    if isinstance(value, Field):
        yield value
    elif isinstance(value, Computed):
        yield from _of_value(value.argument)


def _places(metadata: pq.FileMetaData, fields: dict[tuple[str, ...], Field]) -> dict[tuple[str, ...], int]:
    """The numbers of the file's columns that have the tree's types and are not in a list or a map."""
    schema, found = metadata.schema.to_arrow_schema(), {}
    numbers = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    for path, field in fields.items():
        number, kind = numbers.get(".".join(path)), _type(schema, path)
        if number is None or kind is None or not kind.equals(field.type):
            continue
        if metadata.schema.column(number).max_repetition_level == 0:
            found[path] = number
    return found


def _type(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType | None:
    fields, kind = list(schema), None
    for name in path:
        found = [field for field in fields if field.name == name]
        if len(found) != 1:
            return None
        kind = found[0].type
        fields = list(kind) if pa.types.is_struct(kind) else []
    return kind


def _bounds(group: pq.RowGroupMetaData, number: int, field: Field) -> Bounds:
    """Of one column in a row group. Floats may be NaN: statistics do not contain it, or they are NaN (those
    of parquet-java before 1.10, and of programs that take NumPy's least value), and bound nothing.
    """
    try:
        statistics: Any = group.column(number).statistics
        if statistics is None:
            return UNKNOWN
        nulls = not statistics.has_null_count or statistics.null_count > 0
        values = not statistics.has_null_count or statistics.null_count < group.num_rows
        if not values:
            return NOTHING
        nan = pa.types.is_floating(field.type)
        if not statistics.has_min_max:
            return Bounds(nulls=nulls, nan=nan)
        low, high = comparable(statistics.min), comparable(statistics.max)
    except (ValueError, OverflowError, pa.ArrowException):
        return UNKNOWN  # a date outside of Python's years, or a text that was cut within a character
    if isinstance(low, str) != pa.types.is_string(field.type) or low != low or high != high:
        return Bounds(nulls=nulls, nan=nan)
    return Bounds(low, high, nulls=nulls, nan=nan)


#: sorts behind what follows a slash
_BEHIND_SLASH = chr(ord("/") + 1)


def possible_folder(node: Node, path_columns: PathColumns, folder: str) -> bool:
    """May the folder be a partition with rows for which the predicate is true, or have one in it?"""
    values, texts = path_columns.above(folder)
    known: dict[tuple[str, ...], Bounds] = {(name,): Bounds.of(value) for name, value in values.items()}
    begin = {**texts, PARTITION_PATH: folder}
    known |= {(name,): Bounds(text, text + _BEHIND_SLASH, nulls=False) for name, text in begin.items()}
    return may_be_true(node, _lookup(known))


def possible(node: Node, path_columns: PathColumns, partitions: Sequence[str]) -> list[str]:
    """The partition paths among these that may have rows for which the predicate is true."""
    if node == ANY:
        return list(partitions)
    return [place for place in partitions if may_be_true(node, _lookup(_values(path_columns, place)))]


def possible_slices(
    node: Node,
    path_columns: PathColumns,
    slices: Sequence[FileSlice],
    bounds: Sequence[Mapping[Path, Bounds]] | None = None,
) -> list[FileSlice]:
    """The file slices that may have such rows. `bounds` is what else is known of the rows of each.

    No row of a base file was committed after the file: a compaction is younger than the logs that it merges,
    and a clustering than the files that it replaces.
    """

    def may_match(item: FileSlice, more: Mapping[Path, Bounds]) -> bool:
        newest: dict[Path, Bounds] = {}
        if item.base is not None and not item.logs:
            newest[COMMIT_TIME,] = Bounds(None, str(item.base.instant))
        if not (more or newest):
            return True
        return may_be_true(node, _lookup({**more, **newest, **_values(path_columns, item.partition)}))

    if bounds is None:
        bounds = [{} for _ in slices]
    return [item for item, more in zip(slices, bounds, strict=True) if may_match(item, more)]


def row_groups(node: Node, path_columns: PathColumns, item: FileSlice, footer: pq.FileMetaData) -> list[int]:
    """Numbers of the row groups of a base file that may have such rows. Its slice has no logs, its columns
    have the table's names and types.
    """
    return possible_row_groups(node, footer, _values(path_columns, item.partition))


def asks_files(node: Node, path_columns: PathColumns) -> bool:
    """Does the predicate compare columns whose values are in files?"""
    return bool(file_fields(node, path_columns))


def file_fields(node: Node, path_columns: PathColumns) -> dict[Path, Field]:
    """The columns whose values are in files that the predicate compares."""
    in_paths = {*((name,) for name in path_columns.types), (PARTITION_PATH,), (COMMIT_TIME,)}
    return {path: field for path, field in fields_of(node).items() if path not in in_paths}


def partition_lookup(path_columns: PathColumns, partition: str, more: Mapping[Path, Bounds]) -> Lookup:
    """What is known of all rows of a partition: `more`, and the values of its path."""
    return _lookup({**more, **_values(path_columns, partition)})


def _values(path_columns: PathColumns, partition: str) -> dict[tuple[str, ...], Bounds]:
    values = path_columns.values(partition)
    known: dict[tuple[str, ...], Bounds] = {(name,): Bounds.of(value) for name, value in values.items()}
    known[PARTITION_PATH,] = Bounds.of(partition)
    return known


def _lookup(known: Mapping[tuple[str, ...], Bounds]) -> Lookup:
    return lambda path: known.get(path, UNKNOWN)
