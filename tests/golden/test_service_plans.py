"""`services plan` and `services run` on every table that Apache Hudi wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hoodie
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but
from tests.unit.write.support import listing

OPTIONS = {"hoodie.compact.inline.max.delta.commits": 1, "hoodie.index.bloom.num_entries": 100}
#: what is due, where it is anything but the compaction of a table with logs
DUE = {
    "all_instants": ["repair", "compaction", "clustering"],
    "cow_clustered_intdecimal": ["repair"],
    "cow_inflight": ["repair"],
    "cow_pending_clustering": ["clustering"],
    "mor_inflight": ["repair", "compaction"],
    "mor_archived": [],
    "mor_clean_commits": [],
}
#: a compaction is due, as of other tables
COMPACTED = {"mor_bucket_compacted", "mor_rollback_failed"}


@pytest.mark.parametrize(
    "name", full_but((FEATURES - COMPACTED) | DUE.keys(), [*COPY_ON_WRITE, *MERGE_ON_READ])
)
def test_what_is_due_is_planned_and_done(golden_tables: Path, name: str, tmp_path: Path) -> None:
    source = golden_tables / "0.15.0-v6" / name / "table"
    expected = DUE.get(name, ["compaction"] if name in MERGE_ON_READ else [])
    plan = hoodie.plan_services(str(source), options=OPTIONS)
    assert (plan.due, [item.service for item in plan.services if item.error]) == (expected, [])
    compaction = next(item for item in plan.services if item.service == "compaction")
    assert bool(compaction.instants) == (name == "mor_pending_compaction")
    if not expected:
        return
    table = tmp_path / "t"
    shutil.copytree(source, table)
    assert hoodie.plan_services(str(table), options=OPTIONS).due == expected
    assert listing(table) == listing(source), "a plan changes nothing"
    rows = hoodie.read_table(str(table))
    result = hoodie.run_services(str(table), options=OPTIONS)
    assert (result.done, result.failed) == (expected, [])
    assert_same_rows(hoodie.read_table(str(table)), rows)
    assert hoodie.plan_services(str(table), options=OPTIONS).due == []
