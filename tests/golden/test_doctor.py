"""The look at a table finds nothing wrong with what Apache Hudi wrote, and names what is unfinished."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.services.index.doctor import check_metadata_table
from hoodie.table import checkup
from hoodie.table.checkup import ERROR, NOTE, WARNING
from hoodie.table.doctor import check_table
from tests.support.golden import COPY_ON_WRITE, MERGE_ON_READ
from tests.support.later import TABLES
from tests.support.tiers import full_but

#: of versions 8 and 9: blocks of changed columns, decimals in statistics, pending plans
LATER = {"1.2.0-v9/sql_mor_merge", "1.2.0-v9/mdt_full_cow", "1.2.0-v8/mor_pending_compaction"}

#: what there is to say beside the metadata table: check, status, and a part of the text
SAID = {
    "all_instants": [("pending", NOTE, "a clustering's plan"), ("pending", WARNING, "a failed write")],
    "cow_clustered_intdecimal": [("pending", WARNING, "a failed write")],
    "cow_droppartcol": [("features", WARNING, "drop.partition.columns=true")],
    "cow_indexing": [("pending", NOTE, "indexing requested")],
    "cow_inflight": [("pending", WARNING, "commit inflight")],
    "cow_nometafields": [("features", WARNING, "hoodie.populate.meta.fields=false")],
    "cow_pending_clustering": [("pending", NOTE, "a clustering's plan")],
    "mor_inflight": [("pending", WARNING, "deltacommit inflight")],
    "mor_pending_compaction": [("pending", NOTE, "compaction requested")],
}


@pytest.mark.parametrize("name", [*COPY_ON_WRITE, *MERGE_ON_READ])
def test_tables_of_apache_hudi(golden_tables: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_OLD_PLAN_S", float("inf"))  # the tables grow older
    findings = check_table(str(golden_tables / "0.15.0-v6" / name / "table"))
    assert not [item for item in findings if item.status == ERROR]
    noted = [item for item in findings if item.status in (NOTE, WARNING) and item.check != "metadata table"]
    expected = SAID.get(name, [])
    assert [(item.check, item.status) for item in noted] == [(check, status) for check, status, _ in expected]
    for item, (_, _, part) in zip(noted, expected, strict=True):
        assert part in item.text
        assert item.remedy


@pytest.mark.parametrize("name", full_but(LATER, TABLES))
def test_tables_of_later_versions(later_tables: Path, later_more: Path, name: str) -> None:
    """All rows are read, and indexes agree with the files."""
    table = str((later_more if name.startswith("more") else later_tables) / name / "table")
    findings = [*check_table(table, deep=True, probe=False), *check_metadata_table(table, True, {})]
    assert not [item for item in findings if item.status == ERROR]
    if name == "1.2.0-v8/mor_pending_compaction":
        waiting = [item.remedy for item in findings if item.status == WARNING]
        assert waiting == ["hoodie compact --mode execute; hoodie cancel drops it"]
