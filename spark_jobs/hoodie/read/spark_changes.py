"""Change data as a DataFrame: Python tasks read it, file group by file group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.engine.memory import keep_freed_memory
from hoodie.engine.packing import packed
from hoodie.engine.session import to_spark_schema
from hoodie.read.change_rows import change_tables
from hoodie.read.changes import SCHEMA, Change, ChangeView


@dataclass(frozen=True)
class ChangeScan:
    """Reads changes in tasks. Picklable; `view` has none of its own."""

    view: ChangeView
    names: tuple[str, ...]

    def batches(self, changes: Sequence[Change]) -> Iterator[pa.RecordBatch]:
        """The rows of these changes, one change after the other."""
        keep_freed_memory()
        storage = self.view.ref.storage()
        for change in changes:
            for rows in change_tables(self.view, storage, change):
                yield from rows.select(list(self.names)).to_batches()


def change_scan(view: ChangeView, names: Sequence[str]) -> tuple[ChangeScan, tuple[tuple[Change, ...], ...]]:
    """What tasks need, and the changes of each."""
    return ChangeScan(replace(view, changes=()), tuple(names)), packed(view.changes, lambda each: each.size)


@dataclass(frozen=True)
class _ChangeTask:
    """Runs on executors: numbers of groups of changes in, their rows out."""

    scan: ChangeScan
    changes: tuple[tuple[Change, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy():
                yield from self.scan.batches(self.changes[number])


def change_frame(spark: Any, view: ChangeView) -> Any:
    """DataFrame of all changes of a view, in no order."""
    scan, tasks = change_scan(view, SCHEMA.names)
    schema = to_spark_schema(SCHEMA)
    if not tasks:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_ChangeTask(scan, tasks), schema)
