"""Clusterings, made to fail, and writes that roll pending ones back: what they begin with."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoodie.engine.local import LocalEngine
from hoodie.services.clustering.run import ClusteringResult
from hoodie.services.clustering.run import cluster as clustering
from hoodie.services.request import RewriteRequest
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
    copy_table,
    in_region,
    mor_logs,
    mor_logs_rows,
    run,
)
from tests.support.faults import Faults, Phase, injected
from tests.support.tables import small_rows

#: two files in each of two partitions
NO_PACKING = {**OPTIONS, "hoodie.parquet.small.file.limit": "0"}
SECOND = in_region(small_rows(range(300, 330), 1), "eu") + in_region(small_rows(range(1300, 1310), 1), "us")
ROLL_BACK = {"hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}
SORTED = {
    "hoodie.clustering.plan.strategy.sort.columns": "val",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "20000",
    "hoodie.index.bloom.num_entries": "100",
}


def cluster(
    path: str | Path, mode: str, faults: Faults | None = None, settings: Mapping[str, str] = SORTED
) -> ClusteringResult:
    """A clustering with the local engine, one task at a time."""
    with injected(faults or Faults()):
        return clustering(
            RewriteRequest(table=str(path), mode=mode, options=settings, engine=lambda: LocalEngine(1))
        )


def many(kit: Kit, path: Path) -> None:
    run(path, BASE, options=NO_PACKING)
    run(path, SECOND, options=NO_PACKING)


def planned(kit: Kit, path: Path) -> None:
    """A pending clustering, and a write beside it."""
    many(kit, path)
    cluster(path, "schedule")
    run(path, in_region(small_rows(range(8000, 8005), 1), "mars"), options=NO_PACKING)


def interrupted(kit: Kit, path: Path) -> None:
    """Its execution was killed in the middle of its second file."""
    planned(kit, path)
    _kill_at_second_file(kit, path, CLUSTERINGS["cluster_execute"])


def mor_planned_clustering(kit: Kit, path: Path) -> None:
    mor_logs(kit, path)
    cluster(path, "schedule")


def _kill_at_second_file(kit: Kit, path: Path, scenario: Scenario) -> None:
    probe, changes = path.with_name("probe"), Faults()
    copy_table(path, probe)
    scenario.run(probe, changes)
    shutil.rmtree(probe)
    found = [n for n, change in enumerate(changes.log, 1) if change.name == "close_output"]
    kit.kill(scenario, path, found[1], Phase.DURING)


def many_rows(kit: Kit) -> list[Row]:
    return [*BASE, *SECOND]


def planned_rows(kit: Kit) -> list[Row]:
    return [*BASE, *SECOND, *in_region(small_rows(range(8000, 8005), 1), "mars")]


@dataclass(frozen=True, eq=False)
class Clustering(Scenario):
    """Changes no row. The next run of any mode schedules and executes."""

    mode: str = "run"
    settings: Mapping[str, str] = field(default_factory=lambda: SORTED)

    def new(self, kit: Kit) -> list[Row]:
        return self.old(kit) or []

    def run(self, path: str | Path, faults: Faults | None = None) -> ClusteringResult:  # type: ignore[override]
        return cluster(path, self.mode, faults, self.settings)

    def again(self, path: str | Path, committed: bool) -> ClusteringResult:  # type: ignore[override]
        return cluster(path, "run", settings=self.settings)


@dataclass(frozen=True, eq=False)
class GiveWay(Scenario):
    """An upsert that rolls back the pending clustering that is in its way, and is repeated if it failed."""

    more: Mapping[str, Any] = field(default_factory=lambda: ROLL_BACK)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", {**NO_PACKING, **self.more})


CLUSTERINGS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Clustering("cluster_schedule", many, NO_ROWS, many_rows, mode="schedule", like=("schedule",)),
        Clustering("cluster_execute", planned, NO_ROWS, planned_rows, mode="execute", like=("execute",)),
        Clustering(
            "cluster_execute_again",
            interrupted,
            NO_ROWS,
            planned_rows,
            mode="execute",
            like=("cluster_execute", "execute_again"),
        ),
        Clustering(
            "mor_cluster_execute",
            mor_planned_clustering,
            NO_ROWS,
            mor_logs_rows,
            options=MOR_OPTIONS,
            mode="execute",
            like=("cluster_execute",),
        ),
        GiveWay(
            "give_way", interrupted, CHANGES, planned_rows, like=("repair", "repair_overwrite", "upsert")
        ),
    )
}
SCENARIOS.update(CLUSTERINGS)
