"""Indexes planned, and made beside writers; those that Apache Hudi's indexer has begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import hoodie
from hoodie.errors import TableBusy
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.models.indexing import IndexMetadata
from hoodie.timeline.time import InstantTime
from tests.support.at_once import OPTIMISTIC
from tests.support.metadata import KEPT, disagreements
from tests.support.record_index import indexed, stored
from tests.support.stores import timeline_at
from tests.support.tables import small_rows
from tests.unit.services.undo_support import COMPACT, MERGE_ON_READ, TYPES, History, changed
from tests.unit.write.support import Templates

STORAGE = LocalStorage()
OTHERS = ["bloom_filters", "column_stats", "record_index"]
FEW = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.cleaner.commits.retained": "1",
}


def kept(path: Path, kind: str) -> History:
    """Three commits, whose files are listed."""
    return changed(path, kind, 3, KEPT)


def plain(path: Path, kind: str) -> History:
    """Two commits, without a metadata table."""
    return changed(path, kind, 2)


def names(path: Path) -> set[str]:
    return set(properties.load(STORAGE, str(path)).metadata_partitions)


def plans(path: Path) -> list[str]:
    return [str(item.time) for item in Timeline.load(str(path)).filter([Action.INDEXING], completed=False)]


def meanwhile(change: Callable[[], object]) -> Callable[..., None]:
    """Do it once, when the records of the index are there, and the table is left to others."""
    left = [change]

    def progress(stage: str, text: str, *more: object) -> None:
        if stage == "index" and "meanwhile" in text and left:
            left.pop()()

    return progress


def whole(path: Path) -> None:
    assert names(path) == {"files", *OTHERS}
    assert disagreements(path) == []
    assert indexed(path) == stored(path)


@pytest.mark.full
@pytest.mark.table_version(6)
@pytest.mark.parametrize("kind", TYPES)
def test_writers_go_on_while_an_index_is_made(tmp_path: Path, templates: Templates, kind: str) -> None:
    """An upsert with deletes, a new partition, a service that rewrites files, and a clean."""
    history = templates.copy(tmp_path / "t", kept, kind)
    path = str(history.path)
    scheduled = hoodie.index_table(path, "schedule", OTHERS, options=FEW)
    assert (scheduled.status, scheduled.made) == ("scheduled", OTHERS)
    assert plans(history.path) == scheduled.instants
    history.change(4)
    assert names(history.path) == {"files"}

    def change() -> None:
        history.change(5)
        history.write([{**row, "region": "new"} for row in small_rows(range(40, 45), 5)])
        if kind == MERGE_ON_READ:
            hoodie.compact_table(path, options=COMPACT)
        hoodie.clean_table(path, options=FEW)
        history.change(6)

    made = hoodie.index_table(path, "execute", options=FEW, progress=meanwhile(change))
    assert (made.status, made.made, made.instants) == ("created", OTHERS, scheduled.instants)
    whole(history.path)
    [done] = Timeline.load(path).filter([Action.INDEXING], completed=True)
    assert [done.time] == scheduled.instants
    target = IndexMetadata.from_bytes(Timeline.load(path).read(done)).targets[0]
    newest = Timeline.load(path).commits()[-1]
    assert target.upto == (newest.completion or newest.time)
    assert hoodie.index_table(path, "execute").reason == "no indexing is planned"
    history.change(7)
    whole(history.path)
    history.check()


def test_of_a_table_without_a_list_of_files(tmp_path: Path, templates: Templates) -> None:
    """And whose newest commit is rolled back meanwhile."""
    history = templates.copy(tmp_path / "t", plain, MERGE_ON_READ)
    path, first = str(history.path), history.commits()[0]
    hoodie.index_table(path, "schedule", OTHERS, options=FEW)
    undone = meanwhile(lambda: hoodie.rollback_table(path, history.commits()[-1]))
    assert hoodie.index_table(path, "execute", options=FEW, progress=undone).status == "created"
    whole(history.path)
    history.back_to(first)


def test_a_plan_is_taken_back(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", kept, MERGE_ON_READ)
    path = str(history.path)
    hoodie.index_table(path, "schedule", "column_stats")
    again = hoodie.index_table(path, "schedule", "column_stats")
    assert (again.status, again.reason) == ("skipped", "the table has column_stats, or a plan of it, already")
    dropped = hoodie.index_table(path, "drop", "column_stats")
    assert (dropped.status, dropped.dropped) == ("dropped", ["column_stats"])
    assert (plans(history.path), names(history.path)) == ([], {"files"})
    hoodie.index_table(path, "schedule", "column_stats")
    taken = meanwhile(lambda: hoodie.index_table(path, "drop", "column_stats"))
    assert hoodie.index_table(path, "execute", progress=taken).status == "skipped"
    assert names(history.path) == {"files"}


def test_an_index_that_apache_hudi_has_begun_is_left_to_it(tmp_path: Path, templates: Templates) -> None:
    """Before it has made file groups, in which others put what they write."""
    history = templates.copy(tmp_path / "t", kept, MERGE_ON_READ)
    path = str(history.path)
    [time] = hoodie.index_table(path, "schedule", "column_stats").instants
    (timeline_at(path) / f"{time}.indexing.inflight").touch()
    properties.update(STORAGE, path, {properties.METADATA_PARTITIONS_INFLIGHT: "column_stats"})
    for call in (lambda: history.change(4), lambda: hoodie.index_table(path, "execute")):
        with pytest.raises(TableBusy, match=f"indexing {time}.*hoodie index drop"):
            call()
    assert plans(history.path) == [time]
    hoodie.index_table(path, "drop", "column_stats")
    assert plans(history.path) == []
    history.change(5)
    assert names(history.path) == {"files"}
    history.check()


def test_a_plan_outlives_a_restore(tmp_path: Path, templates: Templates) -> None:
    """Which makes the metadata table again."""
    history = templates.copy(tmp_path / "t", kept, MERGE_ON_READ)
    path, first = str(history.path), history.commits()[0]
    planned = hoodie.index_table(path, "schedule", "column_stats").instants
    hoodie.restore_table(path, InstantTime(first))
    history.back_to(first)
    assert (plans(history.path), names(history.path)) == (planned, {"files"})
    assert hoodie.index_table(path, "execute").made == ["column_stats"]
    assert disagreements(path) == []


@pytest.mark.full
@pytest.mark.table_version(6)
def test_beside_writers_at_once(tmp_path: Path, templates: Templates) -> None:
    history = templates.copy(tmp_path / "t", kept, MERGE_ON_READ)
    path, settings = str(history.path), {**FEW, **OPTIMISTIC}
    history.options |= OPTIMISTIC
    assert hoodie.index_table(path, "create", "bloom_filters", options=settings).status == "created"
    hoodie.index_table(path, "schedule", OTHERS, options=settings)
    change = meanwhile(lambda: history.change(4))
    assert hoodie.index_table(path, "execute", options=settings, progress=change).made == OTHERS[1:]
    history.change(5)
    whole(history.path)
    history.check()
