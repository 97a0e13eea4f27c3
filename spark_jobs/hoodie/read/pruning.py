"""What a predicate rules out before it is read: partitions, which are then not even listed, and files.

A partition's rows have the values of its path, whatever its files and logs hold, so that partitions are left
out with their logs. What is known of a base file bounds the rows of a slice without logs only: a log updates
rows of the file, and adds others. The engine still evaluates the whole predicate on what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodie.format.meta_fields import COMMIT_TIME, PARTITION_PATH
from hoodie.read.bounds import UNKNOWN, Bounds, Lookup, may_be_true
from hoodie.read.partition_values import PathColumns
from hoodie.read.predicate import Node
from hoodie.table.view import FileSlice


def possible(node: Node, path_columns: PathColumns, partitions: Sequence[str]) -> list[str]:
    """The partition paths among these that may have rows for which the predicate is true."""
    return [place for place in partitions if may_be_true(node, _lookup(_values(path_columns, place)))]


def possible_slices(node: Node, path_columns: PathColumns, slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The file slices that may have such rows.

    No row of a base file was committed after the file: a compaction is younger than the logs that it merges,
    and a clustering than the files that it replaces.
    """

    def kept(item: FileSlice) -> bool:
        if item.logs or item.base is None:
            return True
        known = _values(path_columns, item.partition)
        known[COMMIT_TIME,] = Bounds(None, item.base.instant)
        return may_be_true(node, _lookup(known))

    return [item for item in slices if kept(item)]


def _values(path_columns: PathColumns, partition: str) -> dict[tuple[str, ...], Bounds]:
    values = path_columns.values(partition)
    known: dict[tuple[str, ...], Bounds] = {(name,): Bounds.of(value) for name, value in values.items()}
    known[PARTITION_PATH,] = Bounds.of(partition)
    return known


def _lookup(known: Mapping[tuple[str, ...], Bounds]) -> Lookup:
    return lambda path: known.get(path, UNKNOWN)
