"""Deletes and overwrites that are made to fail; each may simply be run again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from hoodie.engine.local import LocalEngine
from hoodie.pipeline import write
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from tests.crash.scenarios import (
    BASE,
    CHANGES,
    MOR_OPTIONS,
    NO_ROWS,
    OPTIONS,
    SCENARIOS,
    Kit,
    Row,
    Scenario,
    base,
    copy_table,
    in_region,
    mor_base,
    mor_rows,
)
from tests.support.faults import Faults, Phase, injected
from tests.support.oracle import Model
from tests.support.tables import small_rows

#: some rows of a file, all rows of another, and keys that are not there
GONE = (
    in_region(small_rows(range(0, 200, 20), 1), "eu")
    + in_region(small_rows(range(2010, 2012), 1), "apac")
    + in_region(small_rows(range(4000, 4002), 1), "gone")
    + in_region(small_rows(range(9000, 9003), 1), "mars")
)
#: one partition that is there, one that is not
OVER = in_region(small_rows(range(100, 140), 3), "eu") + in_region(small_rows(range(3), 3), "venus")


class Repeatable(Scenario):
    def new(self, kit: Kit) -> list[Row]:
        made = Model(["id"], ["region"], "ts").upsert(self.old(kit) or [])
        model: Model = getattr(made, self.operation.value)(self.rows)
        return model.rows()

    def again(self, path: str | Path, committed: bool) -> WriteResult:
        return self.run(path)


@dataclass(frozen=True, eq=False)
class PartitionDelete(Repeatable):
    partitions: tuple[str, ...] = ("eu", "gone")

    def new(self, kit: Kit) -> list[Row]:
        return [row for row in self.old(kit) or [] if row["region"] not in self.partitions]

    def run(self, path: str | Path, faults: Faults | None = None) -> WriteResult:
        operation = Operation.DELETE_PARTITION
        request = WriteRequest(
            str(path), operation, self.options, partitions=self.partitions, missing_ok=True
        )
        with injected(faults or Faults()):
            return write(LocalEngine(1), None, request)


def failed_overwrite(kit: Kit, path: Path) -> None:
    """An insert_overwrite killed when all its files were written."""
    base(kit, path)
    probe, changes = path.with_name("probe"), Faults()
    copy_table(path, probe)
    OPERATIONS["insert_overwrite"].run(probe, changes)
    shutil.rmtree(probe)
    last = max(n for n, change in enumerate(changes.log, 1) if change.path.endswith(".replacecommit"))
    kit.kill(OPERATIONS["insert_overwrite"], path, last, Phase.BEFORE)


OPERATIONS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Repeatable("delete", base, GONE, lambda kit: BASE, Operation.DELETE, like=("upsert",)),
        Repeatable(
            "mor_delete", mor_base, GONE, mor_rows, Operation.DELETE, MOR_OPTIONS, like=("mor_upsert",)
        ),
        Repeatable(
            "insert_overwrite",
            base,
            OVER,
            lambda kit: BASE,
            Operation.INSERT_OVERWRITE,
            like=("upsert", "first"),
        ),
        Repeatable(
            "mor_insert_overwrite",
            mor_base,
            OVER,
            mor_rows,
            Operation.INSERT_OVERWRITE,
            MOR_OPTIONS,
            like=("insert_overwrite",),
        ),
        Repeatable(
            "insert_overwrite_table",
            base,
            OVER,
            lambda kit: BASE,
            Operation.INSERT_OVERWRITE_TABLE,
            like=("insert_overwrite",),
        ),
        PartitionDelete(
            "delete_partition",
            base,
            NO_ROWS,
            lambda kit: BASE,
            Operation.DELETE_PARTITION,
            like=("insert_overwrite", "empty"),
        ),
        PartitionDelete(
            "mor_delete_partition",
            mor_base,
            NO_ROWS,
            mor_rows,
            Operation.DELETE_PARTITION,
            MOR_OPTIONS,
            like=("delete_partition",),
        ),
        Repeatable(
            "repair_overwrite",
            failed_overwrite,
            OVER,
            lambda kit: BASE,
            Operation.INSERT_OVERWRITE,
            like=("repair", "insert_overwrite"),
        ),
        Scenario("upsert_after_overwrite", failed_overwrite, CHANGES, lambda kit: BASE, options=OPTIONS),
    )
}
SCENARIOS.update(OPERATIONS)
