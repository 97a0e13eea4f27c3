"""What the tests of clustering share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from hoodie.services.clustering.run import ClusteringResult
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import ReplaceCommitMetadata
from hoodie.timeline.models.clustering import ClusteringPlan, RequestedReplace
from tests.support.rows import assert_same_rows
from tests.support.stores import instant_file
from tests.unit.write.support import OPTIONS, Pair

STORAGE = LocalStorage()
MOR: dict[str, Any] = {**OPTIONS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
PREFIX = "hoodie.clustering.plan.strategy."
SORT = PREFIX + "sort.columns"
TARGET = PREFIX + "target.file.max.bytes"
SMALL = PREFIX + "small.file.limit"
GROUP_BYTES = PREFIX + "max.bytes.per.group"
LAYOUT = "hoodie.layout.optimize.strategy"
METHOD = "hoodie.layout.optimize.curve.build.method"
#: each write makes files of its own
NO_PACKING: dict[str, Any] = {"hoodie.parquet.small.file.limit": 0}


def cluster(table: Path | str, mode: str = "run", **more: Any) -> ClusteringResult:
    return hoodie.cluster_table(str(table), mode=mode, **more)


def timeline(table: Path) -> Timeline:
    return Timeline.load(str(table), STORAGE)


def states(table: Path) -> list[str]:
    return [f"{item.action.value} {item.state.name.lower()}" for item in timeline(table)]


def plan_file(table: Path, instant: str) -> Path:
    return instant_file(table, instant, "replacecommit.requested", "clustering.requested")


def plan_of(table: Path, instant: str) -> ClusteringPlan:
    requested = RequestedReplace.from_bytes(plan_file(table, instant).read_bytes())
    assert requested.operation_type == "CLUSTER"
    assert requested.clustering_plan is not None
    return ClusteringPlan.from_record(requested.clustering_plan)


def commit_of(table: Path, instant: str) -> ReplaceCommitMetadata:
    found = timeline(table).commit(next(item for item in timeline(table).commits() if item.time == instant))
    assert isinstance(found, ReplaceCommitMetadata)
    return found


def meta_rows(table: Path) -> pa.Table:
    """The snapshot, with the meta columns that a clustering keeps."""
    rows: pa.Table = hoodie.read_table(str(table))
    return rows.drop_columns(["_hoodie_file_name"])


def check_kept(table: Pair, before: pa.Table, what: str = "") -> None:
    """All rows are there once, with their commit times and sequence numbers."""
    after = meta_rows(table.path)
    assert_same_rows(after, before, what=what)
    numbers: list[Any] = after.column("_hoodie_commit_seqno").to_pylist()
    expected: list[Any] = before.column("_hoodie_commit_seqno").to_pylist()
    assert sorted(numbers) == sorted(expected)
    table.check(what)


def stored(file: Path, *columns: str) -> pa.Table:
    """Columns of a base file, in the order of its rows."""
    return pq.ParquetFile(file).read(list(columns))


def file_ids(table: Path) -> set[tuple[str, str]]:
    return {(group["partition"], group["file_id"]) for group in hoodie.file_groups(str(table))}


def litter(table: Path) -> list[str]:
    """What a finished clustering must not leave behind."""
    folders = (table / ".hoodie/.temp", table / ".hoodie/.heartbeat")
    found = [path for folder in folders if folder.exists() for path in folder.iterdir()]
    return [str(path) for path in (*found, *table.rglob("*.hoodie-tmp"))]
