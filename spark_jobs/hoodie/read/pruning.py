"""What a predicate rules out before it is read: partitions, which are then not even listed, and files.

A partition's rows have the values of its path, whatever its files and logs hold, so that partitions are left
out with their logs. What is known of a base file bounds the rows of a slice without logs only: a log updates
rows of the file, and adds others. The engine still evaluates the whole predicate on what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow.parquet as pq

from hoodie.format.meta_fields import COMMIT_TIME, PARTITION_PATH
from hoodie.read.bounds import UNKNOWN, Bounds, Lookup, may_be_true
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import ANY, Field, Node, Path
from hoodie.read.statistics import fields_of, possible_row_groups
from hoodie.table.view import FileSlice

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

    def kept(item: FileSlice, more: Mapping[Path, Bounds]) -> bool:
        newest: dict[Path, Bounds] = {}
        if item.base is not None and not item.logs:
            newest[COMMIT_TIME,] = Bounds(None, str(item.base.instant))
        if not (more or newest):
            return True
        return may_be_true(node, _lookup({**more, **newest, **_values(path_columns, item.partition)}))

    if bounds is None:
        bounds = [{} for _ in slices]
    return [item for item, more in zip(slices, bounds, strict=True) if kept(item, more)]


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


def _values(path_columns: PathColumns, partition: str) -> dict[tuple[str, ...], Bounds]:
    values = path_columns.values(partition)
    known: dict[tuple[str, ...], Bounds] = {(name,): Bounds.of(value) for name, value in values.items()}
    known[PARTITION_PATH,] = Bounds.of(partition)
    return known


def _lookup(known: Mapping[tuple[str, ...], Bounds]) -> Lookup:
    return lambda path: known.get(path, UNKNOWN)
