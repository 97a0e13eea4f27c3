"""A table on which Apache Hudi's indexer is at work, which has made file groups and filled none."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.golden.test_compaction import copied
from tests.support.at_once import OPTIMISTIC
from tests.support.indexing import wound_back
from tests.support.metadata import disagreements, misled

STORAGE = LocalStorage()


@pytest.mark.parametrize("options", [pytest.param({}, marks=pytest.mark.full), OPTIMISTIC])
def test_writes_put_their_records_into_its_file_groups(
    golden_tables: Path, tmp_path: Path, options: dict[str, str]
) -> None:
    path = Path(copied(golden_tables, "cow_indexing", tmp_path))
    [indexed, planned] = Timeline.load(str(path)).filter([Action.INDEXING])
    put_back = wound_back(path, indexed.time, "column_stats")
    before = len(disagreements(path))
    rows = hoodie.read_table(str(path)).select(["id", "ts", "region", "val", "name"])
    for number in range(2):
        hoodie.write_table(rows.slice(number * 3, 2), str(path), options=options)
    filling = Timeline.load(f"{path}/.hoodie/metadata").filter([Action.DELTACOMMIT], completed=False)
    assert [instant.time[-3:] for instant in filling] == ["004"]
    props = properties.load(STORAGE, str(path))
    assert props.metadata_partitions == ("files",)
    assert props.get(properties.METADATA_PARTITIONS_INFLIGHT) == "column_stats"
    put_back()
    newest = {Path(stat).name for stat in written(path)}
    assert not [text for text in disagreements(path) if any(name in text for name in newest)]
    assert misled(path) == []
    assert before == 0
    pending = Timeline.load(str(path)).filter([Action.INDEXING], completed=False)
    assert pending == [planned]


def written(path: Path) -> list[str]:
    """The files of the two newest commits."""
    timeline = Timeline.load(str(path))
    commits = [timeline.commit(instant) for instant in timeline.commits()[-2:]]
    return [stat.path or "" for commit in commits for stat in commit.write_stats]
