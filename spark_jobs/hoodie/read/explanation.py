"""What a query would read, and what left out the rest."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.parquet as pq

from hoodie.config.key import Config
from hoodie.format.base_file import BaseFileReader
from hoodie.metadata.table import Partition
from hoodie.read.binding import Predicate
from hoodie.read.pruning import asks_files, row_groups
from hoodie.read.query import Query
from hoodie.read.table_view import TableView
from hoodie.shown import Shown
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.view import FileSlice

PARTITIONS, PARTITION_STATS, PARQUET = "partitions", "partition stats", "parquet statistics"
_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class ReadStep:
    """What one kind of knowledge ruled out of what the steps before it had left."""

    step: str
    files: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ReadIndex:
    """An index that the table's metadata table has. reason: why the query does without it, "" where it is
    used.
    """

    index: str
    used: bool
    reason: str


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadExplanation(Shown):
    """What a query would read.

    partitions, files, bytes: what it would read without a predicate; base and log files. steps: what was
    ruled out, in their order. read_partitions, read_files, read_bytes: what is left. row_groups: of the base
    files without logs that are left after the other steps; read_row_groups: those whose statistics leave
    them. metadata_table: whether the table's metadata table said which files there are; indexes: what became
    of its indexes.
    """

    table: str
    base_path: str
    query: str
    where: str
    metadata_table: bool
    partitions: int
    files: int
    bytes: int
    steps: list[ReadStep]
    indexes: list[ReadIndex]
    read_partitions: int
    read_files: int
    read_bytes: int
    row_groups: int
    read_row_groups: int
    duration_s: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def explain(
    table: Table, query: Query, config: Config, where: str | None, predicate: Predicate | None
) -> ReadExplanation:
    """`predicate` is the parsed `where`. Lists every partition, and opens the footers of base files without
    logs that are left; no other part of a data file. Raises as a query.
    """
    begun = time.monotonic()
    everything = TableView.load(table, query, config)
    view = everything if predicate is None else TableView.load(table, query, config, predicate)
    left, groups, read_groups = _by_statistics(view, table.storage)
    by_stats = [item for item in everything.slices if item.partition in view.left_out]
    seen = [*view.slices, *by_stats, *(item for step in view.steps for item in step.dropped)]
    steps = [
        _step(PARTITIONS, everything.slices, seen),
        *([_step(PARTITION_STATS, by_stats)] if _uses_partition_stats(view) else []),
        *(_step(step.name, step.dropped) for step in view.steps),
        _step(PARQUET, view.slices, left),
    ]
    files, size = _totals(everything.slices)
    read_files, read_size = _totals(left)
    return ReadExplanation(
        table=everything.props.name,
        base_path=table.base_path,
        query=query.type.value,
        where=where or "",
        metadata_table=view.metadata_table,
        partitions=len({item.partition for item in everything.slices}),
        files=files,
        bytes=size,
        steps=steps,
        indexes=[ReadIndex(index=use.index, used=use.used, reason=use.reason) for use in view.indexes],
        read_partitions=len({item.partition for item in left}),
        read_files=read_files,
        read_bytes=read_size,
        row_groups=groups,
        read_row_groups=read_groups,
        duration_s=round(time.monotonic() - begun, 3),
    )


def _uses_partition_stats(view: TableView) -> bool:
    return any(use.index == Partition.PARTITION_STATS and use.used for use in view.indexes)


def _step(name: str, before: Collection[FileSlice], left: Collection[FileSlice] = ()) -> ReadStep:
    (files, size), (left_files, left_size) = _totals(before), _totals(left)
    return ReadStep(step=name, files=files - left_files, bytes=size - left_size)


def _totals(slices: Iterable[FileSlice]) -> tuple[int, int]:
    """(files, bytes)"""
    counts = [((item.base is not None) + len(item.logs), item.size) for item in slices]
    return sum(files for files, _ in counts), sum(size for _, size in counts)


def _by_statistics(view: TableView, storage: Storage) -> tuple[list[FileSlice], int, int]:
    """(slices with row groups that may have rows of the answer, how many row groups there are, how many of
    them may)
    """
    plain = frozenset(map(id, view.plain)) if asks_files(view.predicate, view.path_columns) else frozenset()

    def looked(item: FileSlice) -> tuple[int, int]:
        assert item.base is not None
        found: list[int] = []

        def groups(footer: pq.FileMetaData) -> list[int]:
            kept = row_groups(view.predicate, view.path_columns, item, footer)
            found.extend([footer.num_row_groups, len(kept)])
            return kept

        with BaseFileReader(storage, item.base.path) as reader:
            reader.keep(groups)
        return found[0], found[1]

    asked = [item for item in view.slices if id(item) in plain]
    with ThreadPoolExecutor(_THREADS) as pool:
        counts = dict(zip(map(id, asked), pool.map(looked, asked), strict=True))
    left = [item for item in view.slices if counts.get(id(item), (1, 1))[1]]
    return left, sum(there for there, _ in counts.values()), sum(kept for _, kept in counts.values())
