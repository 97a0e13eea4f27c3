"""Tables that Apache Hudi 0.15.0 wrote, clustered by us: they read as before."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.golden.test_compaction import copied, origins
from tests.support.golden import FEATURES
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but
from tests.unit.services.clustering_support import commit_of, plan_of

SORT = {"hoodie.clustering.plan.strategy.sort.columns": "_hoodie_record_key"}
TABLES = (
    "all_instants",
    "cow_clean_commits",
    "cow_clustered",
    "cow_clustered_intdecimal",
    "cow_complex",
    "cow_delete_partition",
    "cow_hive_urlenc",
    "cow_insert_overwrite",
    "cow_nonpart",
    "cow_schema_evo",
    "mor_clustered",
    "mor_logs",
    "mor_late_overwrite",
    "mor_partial_payload",
    "mor_rollback",
)


@pytest.mark.parametrize("name", full_but((FEATURES & set(TABLES)) | {"cow_schema_evo", "mor_logs"}, TABLES))
def test_a_clustered_table_reads_as_before(golden_tables: Path, tmp_path: Path, name: str) -> None:
    path = copied(golden_tables, name, tmp_path)
    before = hoodie.read_table(path)
    result = hoodie.cluster_table(path, options=SORT)
    assert result.status == "clustered"
    after = hoodie.read_table(path)
    assert_same_rows(after, before)
    assert origins(after) == origins(before)
    assert len(hoodie.file_groups(path)) <= result.num_files + len(result.partitions) + 3


@pytest.mark.parametrize("name", ["cow_clustered", "cow_clustered_intdecimal", "mor_clustered"])
def test_plans_of_apache_hudi_are_read(golden_tables: Path, name: str) -> None:
    """And what it replaced is what its plan names."""
    path = golden_tables / "0.15.0-v6" / name / "table"
    (done,) = Timeline.load(str(path)).filter([Action.REPLACECOMMIT], completed=True)
    plan = plan_of(path, done.time)
    assert plan.strategy_class == (
        "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
    )
    replaced = commit_of(path, done.time).partition_to_replace_file_ids
    named: dict[str, set[str]] = {}
    for item in plan.slices:
        named.setdefault(item.partition_path, set()).add(item.file_id)
        assert item.base_name is not None
        assert (path / item.partition_path / item.base_name).exists()
    assert {partition: set(ids) for partition, ids in replaced.items()} == named


def test_a_pending_plan_of_apache_hudi_is_executed(golden_tables: Path, tmp_path: Path) -> None:
    path = copied(golden_tables, "cow_pending_clustering", tmp_path)
    before = hoodie.read_table(path)
    (planned,) = Timeline.load(path).pending()
    result = hoodie.cluster_table(path, mode="execute")
    assert (result.clustered, result.pending) == ([planned.time], [])
    after = hoodie.read_table(path)
    assert_same_rows(after, before)
    assert origins(after) == origins(before)
    plan, commit = plan_of(Path(path), planned.time), commit_of(Path(path), planned.time)
    assert commit.num_replaced == len(plan.slices)
    assert commit.num_files == sum(group.outputs for group in plan.groups)
