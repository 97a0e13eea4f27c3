"""Metadata tables of versions 8 and 9 that Apache Hudi 1.2.0 wrote: queries take the files from them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.metadata.queries import MetadataTableIgnored
from hoodie.read.table_view import TableView
from hoodie.table.handle import Table
from tests.support.rows import assert_same_rows

FOLDERS: dict[str, Any] = {"options": {"hoodie.metadata.enable": "false"}}
#: with rollbacks, restores, clusterings, an archived timeline, indexes of 1.x
TABLES = [
    "1.2.0-v8/mdt_full_cow",
    "1.2.0-v8/mor_archived",
    "1.2.0-v8/mor_rollback_failed",
    "1.2.0-v9/cow_delete_partition",
    "1.2.0-v9/cow_savepoint_restore",
    "1.2.0-v9/idx_rli_mor",
    "1.2.0-v9/mdt_1x_indexes",
    "1.2.0-v9/mdt_full_mor",
    "1.2.0-v9/mor_clustered",
    "1.2.0-v9/mor_rollback_failed",
]


@pytest.mark.parametrize("name", TABLES)
def test_it_says_which_files_there_are(later_tables: Path, name: str) -> None:
    path = str(later_tables / name / "table")
    table = Table.open(path)
    assert TableView.load(table).metadata_table
    assert_same_rows(hoodie.read_table(path), hoodie.read_table(path, **FOLDERS), meta=True)
    for commit in table.timeline.commits()[-1:]:
        ways = (hoodie.read_table(path, as_of=str(commit.time), **more) for more in ({}, FOLDERS))
        assert_same_rows(*ways, meta=True, what=str(commit))


def completed(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob("2*_*") if "commit" in file.suffix)


def test_what_it_has_of_a_write_that_is_not_completed_does_not_count(
    later_tables: Path, tmp_path: Path
) -> None:
    """Its deltacommit is completed first, and the process may die between the two."""
    table = tmp_path / "t"
    shutil.copytree(later_tables / "1.2.0-v9/mdt_full_mor/table", table)
    before = hoodie.read_table(str(table))
    completed(table / ".hoodie/timeline")[-1].unlink()
    assert TableView.load(Table.open(str(table))).metadata_table
    rows = hoodie.read_table(str(table))
    assert_same_rows(rows, hoodie.read_table(str(table), **FOLDERS), meta=True)
    assert rows != before


def test_one_that_lacks_a_commit_is_not_used(later_tables: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(later_tables / "1.2.0-v9/mdt_full_mor/table", table)
    expected = hoodie.read_table(str(table))
    last = completed(table / ".hoodie/timeline")[-1].name.partition("_")[0]
    for file in (table / ".hoodie/metadata/.hoodie/timeline").glob(f"{last}*"):
        file.unlink()
    with pytest.warns(MetadataTableIgnored, match=last):
        rows = hoodie.read_table(str(table))
    assert_same_rows(rows, expected, meta=True)


def test_one_of_another_version_than_its_table_is_not_used(
    golden_tables: Path, later_tables: Path, tmp_path: Path
) -> None:
    """Apache Hudi upgrades the metadata table first, and may die then."""
    table = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6/mdt_files_only/table", table)
    expected = hoodie.read_table(str(table))
    shutil.rmtree(table / ".hoodie/metadata")
    shutil.copytree(
        later_tables / "1.2.0-v9/mdt_files_only/table/.hoodie/metadata", table / ".hoodie/metadata"
    )
    with pytest.warns(MetadataTableIgnored, match="table version 9, and its table 6"):
        rows = hoodie.read_table(str(table))
    assert_same_rows(rows, expected, meta=True)


def test_one_that_was_taken_down_to_version_6_counts_from_its_first_commit_on(
    later_more: Path, tmp_path: Path
) -> None:
    """Apache Hudi had made it when the table had a commit already; the makings have no times."""
    table = tmp_path / "t"
    shutil.copytree(later_more / "more/down_9to6_mor/table", table)
    timeline = table / ".hoodie/metadata/.hoodie"
    _, second, third, *_ = sorted(file.stem for file in timeline.glob("202*.deltacommit"))
    _remove_before(timeline, second)
    assert TableView.load(Table.open(str(table))).metadata_table
    assert_same_rows(hoodie.read_table(str(table)), hoodie.read_table(str(table), **FOLDERS), meta=True)
    for file in timeline.glob(f"{third}*"):
        file.unlink()
    with pytest.warns(MetadataTableIgnored, match=third):
        rows = hoodie.read_table(str(table))
    assert_same_rows(rows, hoodie.read_table(str(table), **FOLDERS), meta=True)


def _remove_before(timeline: Path, instant: str) -> None:
    """The instants of a metadata table that was made later, but for the makings."""
    for file in timeline.glob("202*"):
        if file.name[:17] < instant:
            file.unlink()


PREDICATES = [
    "ts = 1000",
    "ts > 1500",
    "val < 100000",
    "name IS NULL",
    "region = 'eu' AND ts >= 2000",
    "id = 'k00007'",
    "id IN ('k00001', 'k00002', 'nobody')",
    "_hoodie_record_key = 'k00011'",
]
DECIMALS = [
    "c_dec18 > 0",
    "c_dec18 <= -1",
    "c_dec38 > 17741",
    "c_dec38 = 49323",
    "c_date > DATE '2000-01-01'",
]


@pytest.mark.parametrize(
    ("name", "predicates"),
    [
        ("1.2.0-v8/mdt_full_cow", [*PREDICATES, *DECIMALS]),
        ("1.2.0-v9/mdt_full_cow", [*PREDICATES, *DECIMALS]),
        ("1.2.0-v9/mdt_full_mor", PREDICATES),
        ("1.2.0-v9/idx_rli_mor", PREDICATES),
        ("1.2.0-v9/mdt_1x_indexes", PREDICATES),
    ],
)
def test_its_indexes_leave_out_files_without_rows(
    later_tables: Path, name: str, predicates: list[str]
) -> None:
    path = str(later_tables / name / "table")
    columns = hoodie.read_table(path).column_names
    left_out = 0
    for where in predicates:
        if not any(column in where for column in columns):
            continue
        rows = hoodie.read_table(path, where=where)
        assert_same_rows(rows, hoodie.read_table(path, where=where, **FOLDERS), meta=True, what=where)
        found = hoodie.explain_read(path, where=where)
        left_out += sum(
            step.files for step in found.steps if step.step not in ("partitions", "parquet statistics")
        )
    assert left_out
