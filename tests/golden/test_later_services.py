"""What is due for tables of versions 8 and 9, beside the plans that Apache Hudi 1.2.0 made of them, and the
dry runs, indexes, logs and findings of these tables. None of it changes a table.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.cli import main
from hoodie.config.key import Config
from hoodie.format.names import BaseFileName, LogFileName
from hoodie.metadata.state import index_states
from hoodie.serve.page import Page
from hoodie.services.clean.plan import View, make
from hoodie.services.clean.policy import Retention
from hoodie.services.compaction.run import plan
from hoodie.services.index.doctor import check_metadata_table
from hoodie.storage import FileInfo
from hoodie.storage.local import LocalStorage
from hoodie.table.checkup import NOTE, OK, Finding
from hoodie.table.doctor import check_table
from hoodie.table.listing import StorageListing
from hoodie.table.view import Listing
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.models.compaction import CompactionPlan
from hoodie.timeline.time import REQUESTED, InstantTime
from tests.golden.test_clean_plans import names, settings, with_deleted
from tests.support.handles import table_at
from tests.support.later import TABLES
from tests.support.tiers import full_but
from tests.unit.write.support import listing

STORAGE = LocalStorage()
#: cleans of Apache Hudi of which the active timeline still has the commits
CLEANED = {
    "1.2.0-v8/cow_archived": 3,
    "1.2.0-v9/cow_archived": 3,
    "1.2.0-v9/cow_archived_nomdt": 1,
    "1.2.0-v9/mor_clean_commits": 3,
}
FAST = {
    "1.2.0-v8/mor_pending_compaction",
    "1.2.0-v9/mor_logcompaction",
    "1.2.0-v9/cow_types",
    "1.2.0-v9/sql_mor_merge",
    "more/all_instants9",
    "more/nbcc_pending_compaction_between",
}


@pytest.fixture
def place(later_tables: Path, later_more: Path, request: pytest.FixtureRequest) -> Path:
    name: str = request.param
    return (later_more if name.startswith("more/") else later_tables) / name / "table"


def all_tables(*fast: str) -> list[Any]:
    return full_but(fast or FAST, TABLES)


def state_before(timeline: Timeline, instant: Instant) -> Timeline:
    """What was completed before an instant was requested."""
    known = (
        item
        for item in timeline
        if item.is_before(instant.time)
        and (item.completion is None or REQUESTED.before(item.completion, instant.time))
    )
    return replace(timeline, instants=tuple(known))


@pytest.mark.parametrize("place", CLEANED, indirect=True)
def test_cleans_are_those_that_hudi_planned(place: Path) -> None:
    timeline, config = Timeline.load(str(place), STORAGE), settings(place.parent)
    cleans = timeline.filter([Action.CLEAN], completed=True)
    plans = [CleanPlan.from_bytes(timeline.plan(clean, STORAGE)) for clean in cleans]
    retention, compared = Retention.of(config, 0, True), 0
    for number, (clean, theirs) in enumerate(zip(cleans, plans, strict=True)):
        then = state_before(timeline, clean)
        if retention.earliest(then) is None:
            continue
        files = with_deleted(STORAGE, str(place), plans[number:])
        view = replace(View.of(table_at(str(place)), then, partitioned=True), listing=files)
        ours = make(view, retention, config).plan
        assert ours is not None
        assert names(ours) == names(theirs), clean
        assert ours.earliest == theirs.earliest
        compared += 1
    assert compared == CLEANED["/".join(place.parts[-3:-1])]


def earlier_files(place: Path, time: InstantTime) -> Listing:
    """The folders as they were before an instant: names have the time of the write that made a file."""
    files = StorageListing(STORAGE, str(place)).files

    def listed(partition: str) -> list[FileInfo]:
        return [item for item in files(partition) if REQUESTED.before(_instant(item.name), time)]

    return listed


def _instant(name: str) -> str:
    parsed = BaseFileName.parse(name) or LogFileName.parse(name)
    return str(parsed.instant) if parsed else "~"


def compactions(timeline: Timeline) -> Iterator[tuple[Instant, CompactionPlan]]:
    for instant in timeline.filter([Action.COMPACTION, Action.COMMIT]):
        asked = Instant(instant.time, Action.COMPACTION, State.REQUESTED)
        if timeline.has_state(asked):
            yield asked, CompactionPlan.from_bytes(timeline.read(asked, STORAGE))


COMPACTED = {
    "1.2.0-v8/mor_compacted": 1,
    "1.2.0-v8/mor_pending_compaction": 1,
    "1.2.0-v9/mor_bucket_compacted": 1,
    "1.2.0-v9/mor_inline_compaction": 2,
    "1.2.0-v9/mor_clustered": 1,
    "more/nbcc_compaction_between": 1,
    "more/nbcc_pending_compaction_between": 1,
}


@pytest.mark.parametrize("place", COMPACTED, indirect=True)
def test_compactions_are_those_that_hudi_planned(place: Path) -> None:
    """A log whose write was completed after the plan is not in it."""
    timeline = Timeline.load(str(place), STORAGE)
    seen = 0
    for instant, theirs in compactions(timeline):
        then = state_before(timeline, instant)
        view = table_at(str(place)).view_of(then)
        files = earlier_files(place, instant.time)
        ours = plan(view, files, table_at(str(place)).listing().partitions(), {}, Config.of({})).plan
        assert ours is not None
        assert _operations(ours) == _operations(theirs), instant
        seen += 1
    assert seen == COMPACTED["/".join(place.parts[-3:-1])]


def _operations(compaction: CompactionPlan) -> set[tuple[Any, ...]]:
    return {
        (item.partition_path, item.file_id, item.base_name, tuple(sorted(item.log_names)))
        for item in compaction.operations
    }


@pytest.mark.parametrize("place", all_tables(), indirect=True)
def test_the_planner_says_what_is_due_and_changes_nothing(place: Path) -> None:
    before = listing(place)
    found = hoodie.plan_services(str(place))
    pending = {item.time for item in Timeline.load(str(place)).pending() if item.action is Action.COMPACTION}
    compaction = next(item for item in found.services if item.service == "compaction")
    if not compaction.error:
        assert {item["instant"] for item in compaction.pending} == pending
        assert set(compaction.instants) == pending
    for item in found.services:
        assert item.error is None or item.error["code"] == "config", item
    assert listing(place) == before


@pytest.mark.parametrize("place", ["more/all_instants9", "1.2.0-v8/all_instants"], indirect=True)
def test_what_waits_is_named(place: Path) -> None:
    found = {item.service: item for item in hoodie.plan_services(str(place)).services}
    pending = Timeline.load(str(place)).pending()
    (clustering,) = [item.time for item in pending if item.action is Action.CLUSTERING]
    (failed,) = [item.time for item in pending if item.action is Action.DELTACOMMIT]
    assert [item["instant"] for item in found["clustering"].pending] == [clustering]
    assert found["clustering"].instants == [clustering]
    assert found["repair"].instants == [failed]


@pytest.mark.parametrize("place", all_tables(), indirect=True)
def test_indexes_are_those_of_the_properties(place: Path) -> None:
    table = table_at(str(place))
    shown = hoodie.index_table(str(place), "show")
    assert [item["index"] for item in shown.indexes] == list(table.properties.metadata_partitions)
    assert shown.warnings == []
    for item in index_states(table)[0]:
        assert item.file_groups > 0
        assert item.num_files >= item.file_groups
        assert item.bytes > 0


def findings(place: Path) -> list[Finding]:
    path = str(place)
    found = [*check_table(path, deep=True, probe=False), *check_metadata_table(path, True, {})]
    return [item for item in found if item.check != "features"]


@pytest.mark.parametrize("place", all_tables(), indirect=True)
def test_the_doctor_finds_nothing_wrong(place: Path) -> None:
    """Indexes agree with the files, and all blocks can be read."""
    pending = {item.time for item in Timeline.load(str(place)).pending()}
    for item in findings(place):
        if item.check == "pending" and pending:
            assert any(time in item.text for time in pending), item
        else:
            assert item.status in (OK, NOTE), item


def test_the_doctor_looks_at_the_files_of_a_pending_clustering(later_tables: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(later_tables / "1.2.0-v8/all_instants/table", table)
    timeline = Timeline.load(str(table))
    (waiting,) = timeline.filter([Action.CLUSTERING], completed=False)
    planned = timeline.clustering_plan(waiting)
    assert planned is not None
    path = planned["inputGroups"][0]["slices"][0]["dataFilePath"]
    (file,) = table.rglob(path.rpartition("/")[2])
    file.unlink()
    texts = [item.text for item in findings(table) if item.check == "files"]
    assert any(waiting.time in text or file.name in text for text in texts), texts


@pytest.mark.parametrize("place", ["1.2.0-v9/sql_mor_merge", "more/sql_partial_updates2"], indirect=True)
def test_logs_of_changed_columns_are_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partial = 0
    for log in sorted(place.glob("*/.*.log.*")):
        if log.name.endswith(".crc"):
            continue
        assert main(["log", str(log), "--records", "--json"]) == 0
        for block in json.loads(capsys.readouterr().out)["blocks"]:
            assert block["problem"] is None
            partial += block["changed_columns_only"]
            assert len(block["rows"]) == (block["records"] or block["deletes"])
    assert partial


@pytest.mark.parametrize("place", all_tables(), indirect=True)
def test_the_page_shows_every_instant(place: Path) -> None:
    """Its length by the times in its name, which a copied table keeps."""
    page = Page(lambda: {"t": str(place)})

    def get(path: str, query: str = "") -> dict[str, Any]:
        reply = page.get(path, query)
        assert reply.status == 200, reply.body
        found: dict[str, Any] = json.loads(reply.body)
        return found

    assert get("tables/t/health").get("error") is None
    timeline = Timeline.load(str(place))
    shown = get("tables/t/instants", "limit=1000")["instants"]
    assert len(shown) == len(timeline.instants)
    for item, instant in zip(shown, timeline, strict=True):
        detail = get(f"tables/t/instants/{instant.time}", f"action={instant.action.value}")
        assert detail["problem"] is None
        facts = dict(map(tuple, detail["facts"]))
        assert facts.get("completion time") == instant.completion
        assert detail["timeline_files"]
        if instant.completion is not None and instant.action is not Action.SAVEPOINT:
            begun, done = int(instant.time[12:]), int(instant.completion[12:])
            assert item["elapsed_ms"] % 1000 == (done - begun) % 1000
        if instant.action is Action.CLUSTERING:
            assert item["service"]
            assert item["status"] == ("scheduled" if instant.state is State.REQUESTED else "open")
            assert detail["partition_rows"]
