"""Dry runs on tables that Apache Hudi wrote: what would be replaced is what a query finds."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from tests.unit.write.support import listing

#: merge-on-read with logs, log files alone, deletes in logs, several partitions
TABLES = {
    "golden_tables": ("0.15.0-v6/mor_logs", "0.15.0-v6/mor_inflight", "0.15.0-v6/cow_archived"),
    "later_tables": ("1.2.0-v9/mor_cdc", "1.2.0-v9/mor_inflight", "1.2.0-v8/cow_archived"),
}


@pytest.mark.parametrize(
    ("tables", "name"), [(tables, name) for tables, names in TABLES.items() for name in names]
)
def test_rows_that_a_delete_of_all_partitions_would_replace(
    request: pytest.FixtureRequest, tables: str, name: str
) -> None:
    path: Path = request.getfixturevalue(tables) / name / "table"
    before = listing(path)
    found = hoodie.read_table(str(path), columns=["_hoodie_partition_path"])
    partitions: list[str] = found.column(0).to_pylist()
    planned = hoodie.delete_partitions(str(path), ["*"], dry_run=True).planned
    assert {item.partition: item.replaced_rows for item in planned} == {
        partition: partitions.count(partition) for partition in sorted(set(partitions))
    }
    assert listing(path) == before
