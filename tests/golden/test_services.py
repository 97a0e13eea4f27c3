"""The cleaner and the archiver on every table that Apache Hudi wrote: the same rows before and after."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.support.golden import COPY_ON_WRITE, FEATURES, MERGE_ON_READ
from tests.support.properties import FAST
from tests.support.rows import assert_same_rows
from tests.support.tiers import full_but

OPTIONS = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 1,
    "hoodie.keep.max.commits": 2,
    "hoodie.clean.max.commits": 0,
}
VERSIONS = {
    **OPTIONS,
    "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.cleaner.fileversions.retained": 1,
}


#: of these features a clean and the archiver see nothing, or what they see of another table
UNSEEN = {
    "cow_clustered",
    "cow_droppartcol",
    "cow_nometafields",
    "cow_types",
    "mor_resized_buckets",
}


@pytest.mark.parametrize("name", full_but(FEATURES - UNSEEN, [*COPY_ON_WRITE, *MERGE_ON_READ]))
def test_the_rows_stay(golden_tables: Path, name: str, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", table)
    before = hoodie.read_table(str(table))
    optimized = (
        hoodie.read_table(str(table), query="read_optimized") if name in MERGE_ON_READ or not FAST else None
    )
    for options in (OPTIONS, VERSIONS):
        cleaned = hoodie.clean_table(str(table), options=options)
        assert cleaned.failed == []
        archived = hoodie.archive_table(str(table), options=options)
        assert_same_rows(hoodie.read_table(str(table)), before, what=f"{cleaned} {archived}")
        if optimized is not None:
            assert_same_rows(hoodie.read_table(str(table), query="read_optimized"), optimized)
    timeline = Timeline.load(str(table), LocalStorage())
    assert timeline.filter([Action.CLEAN], completed=False) == []
    shown = hoodie.instants(str(table)) + hoodie.instants(str(table), archived=True)
    assert len({(item["instant"], item["action"]) for item in shown}) == len(shown)
