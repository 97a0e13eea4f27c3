"""Many small commits with everything automatic: what is on storage stays bounded, the rows stay right."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import hoodie
from benchmarks.year import Day, Year, flat, grown
from hoodie.config.key import Config
from hoodie.services.archive.settings import MAX_COMMITS
from hoodie.services.clean.settings import COMMITS_RETAINED
from hoodie.storage.local import LocalStorage
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from tests.support.rows import assert_same_rows
from tests.support.tables import as_table, small_rows
from tests.unit.write.support import OPTIONS, Pair

TYPE = "hoodie.datasource.write.table.type"
COMPACT = {"hoodie.compact.inline": "true"}
COMMITS = 60


@pytest.mark.full
@pytest.mark.table_version(6)
@pytest.mark.parametrize(
    "options", [{}, {TYPE: "MERGE_ON_READ", **COMPACT}], ids=["copy_on_write", "merge_on_read"]
)
def test_files_and_instants_stay_bounded(tmp_path: Path, options: dict[str, str]) -> None:
    pair = Pair(tmp_path / "t", {**OPTIONS, **options})
    chance = random.Random("long run")
    kept, most = COMMITS_RETAINED.default, MAX_COMMITS.default
    times: list[str] = []
    for number in range(1, COMMITS + 1):
        # a key that comes back is an insert, which makes a merge-on-read table a new file group each time
        keys = range(90) if number == 1 else sorted(chance.sample(range(90), 20))
        rows = small_rows(keys, number, deleted=number % 9 == 0 and not options)
        table = as_table(rows, pair.schema)
        result = hoodie.write_table(table, str(pair.path), options=pair.options)
        assert result.warnings == []
        times.append(result.instant)
        pair.model.upsert(rows)
        if number % 10 == 0:
            pair.check(f"after {number}")
        timeline = Timeline.load(str(pair.path), LocalStorage())
        assert len(timeline.commits()) <= most + (2 if options else 1)
        assert len(timeline.filter([Action.CLEAN])) <= most + 1
        assert timeline.pending() == []
        # of each of three groups: what the kept commits read, what one before them does, and the newest
        assert sum(1 for _ in pair.path.rglob("*.parquet")) <= 3 * (kept + 2)
        assert sum(1 for _ in pair.path.rglob("*.log.*")) <= 3 * 2 * (kept + 5)
    archived = [item["instant"] for item in hoodie.instants(str(pair.path), archived=True)]
    active = [item["instant"] for item in hoodie.instants(str(pair.path))]
    assert set(times) <= {*archived, *active}
    assert not set(archived) & set(active)
    _as_of(pair, times)
    assert list(pair.path.glob(".hoodie/.temp/*")) == []
    assert len(list((pair.path / ".hoodie/archived").iterdir())) <= COMMITS // 10


def _as_of(pair: Pair, times: list[str]) -> None:
    """The kept commits can be read as of their time, and what has changed since each."""
    result = hoodie.clean_table(str(pair.path), options={"hoodie.clean.max.commits": 0}, dry_run=True)
    assert result.status == "skipped", "it is clean"
    timeline = Timeline.load(str(pair.path), LocalStorage())
    kept = [str(item.time) for item in timeline.commits()][-Config.of({})[COMMITS_RETAINED] :]
    newest = hoodie.read_table(str(pair.path))
    for time in kept:
        assert hoodie.read_table(str(pair.path), as_of=time).num_rows > 0
        changed = hoodie.read_table(str(pair.path), query="incremental", begin=time)
        expected = newest.filter([value > time for value in newest.column("_hoodie_commit_time").to_pylist()])
        assert_same_rows(changed, expected)
    assert times[-1] in kept


#: so that the first days are over soon
EARLY = {
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "5",
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.index.bloom.num_entries": "100",
}


@pytest.mark.crash
@pytest.mark.full
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_writer_that_is_killed_again_and_again_leaves_a_table_as_small(
    memory_path: Path, kind: str
) -> None:
    """The short form of `python -m benchmarks year --kill`."""
    year = Year(memory_path / f"year-{kind}", kind, rows=150, kill_rate=0.4, more=EARLY)
    year.run(20)
    assert sum(day.kills for day in year.days) >= 4
    assert year.differences() == {"hoodie": "", "hudi-rs": ""}
    # 20 writes alone would be 60 files and more, and 20 commits, 20 cleans and the rollbacks
    assert max(day.files for day in year.days[10:]) <= 45
    assert max(day.timeline for day in year.days) <= 32
    result = hoodie.run_services(str(year.path), options=year.options)
    assert result.failed == []
    assert Timeline.load(str(year.path), LocalStorage()).pending() == []


def test_the_bench_tells_what_grows() -> None:
    days = [Day(day, 10 + day // 60, 50, 1000, 10 * day, 0.1, 0.1) for day in range(1, 366)]
    ratios = flat(days, range(60, 121), range(300, 366))
    assert ratios["files"] == {"early": 11.0, "late": 15.0, "ratio": 1.364}
    assert grown(ratios) == ["files"]
