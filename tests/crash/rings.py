"""Writes and clusterings of a table of consistent hashing, made to fail: rings agree with file groups."""

from __future__ import annotations

from pathlib import Path

from hoodie.write.operation import Operation
from tests.crash.clustering import Clustering, cluster
from tests.crash.operations import OVER, PartitionDelete, Repeatable
from tests.crash.scenarios import (
    BASE,
    LOGGED,
    MOR_OPTIONS,
    MORE,
    NO_ROWS,
    SCENARIOS,
    Kit,
    Row,
    Scenario,
    run,
)
from tests.support.oracle import Model

RINGED = {
    **MOR_OPTIONS,
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
}
#: each bucket is too large; a partition may have one more
SPLIT = {
    "hoodie.bucket.index.max.num.buckets": "3",
    "hoodie.bucket.index.split.threshold": "0",
    "hoodie.bucket.index.merge.threshold": "0",
}


def ringed(kit: Kit, path: Path) -> None:
    run(path, BASE, options=RINGED)
    run(path, LOGGED, options=RINGED)


def planned(kit: Kit, path: Path) -> None:
    ringed(kit, path)
    cluster(path, "schedule", settings=SPLIT)


def rows(kit: Kit) -> list[Row]:
    return Model(["id"], ["region"], "ts").upsert(BASE).upsert(LOGGED).rows()


RINGS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("ring_first", None, MORE, lambda kit: None, options=RINGED, like=("mor_first",)),
        Scenario("ring_upsert", ringed, MORE, rows, options=RINGED, like=("mor_upsert", "ring_first")),
        Repeatable(
            "ring_overwrite",
            ringed,
            OVER,
            rows,
            Operation.INSERT_OVERWRITE,
            RINGED,
            like=("mor_insert_overwrite", "ring_first"),
        ),
        PartitionDelete(
            "ring_delete_partition",
            ringed,
            NO_ROWS,
            rows,
            Operation.DELETE_PARTITION,
            RINGED,
            like=("mor_delete_partition", "ring_overwrite"),
        ),
        Clustering(
            "ring_split",
            planned,
            NO_ROWS,
            rows,
            options=RINGED,
            mode="execute",
            settings=SPLIT,
            like=("mor_cluster_execute", "ring_overwrite"),
        ),
    )
}
SCENARIOS.update(RINGS)
