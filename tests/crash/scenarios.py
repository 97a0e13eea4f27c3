"""Writes that are made to fail: a table to begin with, a write, and the rows before and after it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoodie.engine.local import LocalEngine
from hoodie.pipeline import write
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.support.faults import Faults, injected
from tests.support.oracle import Model
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows

Row = dict[str, Any]

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "flights",
    "hoodie.index.bloom.num_entries": "100",
}
#: between the size of the large file (eu) and of the others
LIMIT = {"hoodie.parquet.small.file.limit": "20000"}
NO_ROWS: list[Row] = []


def run(
    path: str | Path,
    rows: Sequence[Row],
    operation: Operation = Operation.UPSERT,
    faults: Faults | None = None,
    options: Mapping[str, str] = LIMIT,
) -> WriteResult:
    """One write with the local engine, one task at a time, so that the changes come in one order."""
    engine = LocalEngine(1)
    frame = engine.frame(as_table(rows, SMALL_SCHEMA))
    request = WriteRequest(str(path), operation, {**OPTIONS, **options}, {})
    with injected(faults or Faults()):
        return write(engine, frame, request)


def model(*batches: Sequence[Row]) -> Model:
    made = Model(["id"], ["region"], "ts")
    for batch in batches:
        made.upsert(batch)
    return made


def in_region(rows: Sequence[Row], region: str) -> list[Row]:
    return [{**row, "region": region} for row in rows]


@dataclass(frozen=True)
class Scenario:
    """`make` builds the table at a path (None: there is none yet); `old` None: no table can be read before."""

    name: str
    make: Callable[[str], object] | None
    rows: list[Row]
    old: list[Row] | None
    new: list[Row]
    operation: Operation = Operation.UPSERT
    options: Mapping[str, str] = field(default_factory=lambda: LIMIT)

    def run(self, path: str | Path, faults: Faults | None = None) -> WriteResult:
        return run(path, self.rows, self.operation, faults, self.options)

    def again(self, path: str | Path, committed: bool) -> WriteResult:
        """The next run: the same upsert; what would add rows twice is not repeated once it was committed."""
        if committed and self.operation is not Operation.UPSERT:
            return run(path, NO_ROWS, options=self.options)
        return self.run(path)


#: eu has a file beyond the small-file limit, us and apac small ones, and all rows of `gone` will be deleted
BASE = (
    in_region(small_rows(range(0, 700), 1), "eu")
    + in_region(small_rows(range(1000, 1020), 1), "us")
    + in_region(small_rows(range(2000, 2015), 1), "apac")
    + in_region(small_rows(range(4000, 4002), 1), "gone")
)
#: updates a file, makes a new one beside it, packs into a small one, deletes, empties a file, makes a partition
CHANGES = (
    in_region(small_rows(range(0, 700, 50), 2), "eu")
    + in_region(small_rows(range(700, 705), 2), "eu")
    + in_region(small_rows(range(1020, 1030), 2), "us")
    + in_region(small_rows(range(2000, 2004), 2, deleted=True), "apac")
    + in_region(small_rows(range(2004, 2006), 2, ts=1), "apac")
    + in_region(small_rows(range(4000, 4002), 2, deleted=True), "gone")
    + in_region(small_rows(range(3000, 3010), 2), "mars")
    + in_region(small_rows(range(3000, 3002), 3), "mars")
)
MORE = in_region(small_rows(range(5000, 5010), 1), "eu") + in_region(small_rows(range(5010, 5020), 1), "venus")


def make_base(path: str) -> WriteResult:
    return run(path, BASE)


def copy_table(source: str | Path, target: str | Path) -> None:
    """A cheap copy of a table: hard links, which no write changes in place."""
    import os

    shutil.copytree(source, target, copy_function=os.link)


def added(*batches: Sequence[Row]) -> list[Row]:
    return [dict(row) for batch in batches for row in batch if not row.get("_hoodie_is_deleted")]


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("upsert", make_base, CHANGES, added(BASE), model(BASE, CHANGES).rows()),
        Scenario("first", None, MORE, None, added(MORE)),
        Scenario("empty", make_base, NO_ROWS, added(BASE), added(BASE)),
        Scenario("insert", make_base, MORE, added(BASE), added(BASE, MORE), Operation.INSERT),
        Scenario("bulk_insert", make_base, MORE, added(BASE), added(BASE, MORE), Operation.BULK_INSERT),
    )
}
