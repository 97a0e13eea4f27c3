"""Timelines of versions 8 and 9 that Apache Hudi 1.2.0 wrote: they are read; writes are refused."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.commits import TableReader
from airflow_hoodie.conditions import CommitFilter, Commits, Since
from airflow_hoodie.watch_offset import WatchOffset, new_commits
from hoodie.cli import main
from hoodie.errors import UnsupportedVersion
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, Kind, State
from hoodie.timeline.layouts.two import TWO
from hoodie.timeline.time import InstantTime
from tests.unit.write.support import listing

OPTIONS: dict[str, Any] = {"hoodie.datasource.write.recordkey.field": "id"}
ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})
WRITES = ("insert", "upsert", "delete", "bulk_insert", "insert_overwrite", "insert_overwrite_table")


@pytest.fixture(scope="module")
def metas(later_tables: Path) -> dict[Path, dict[str, Any]]:
    found = {
        file.parent / "table": json.loads(file.read_text()) for file in later_tables.glob("*/*/meta.json")
    }
    assert {meta["table_version"] for meta in found.values()} == {8, 9}
    return found


@pytest.fixture(scope="module")
def timelines(metas: dict[Path, dict[str, Any]]) -> dict[Path, Timeline]:
    return {path: Timeline.load(str(path)) for path in metas}


@pytest.fixture(scope="module")
def all_instants(later_tables: Path) -> Path:
    return later_tables / "1.2.0-v8/all_instants/table"


def local_ms(text: str) -> int:
    """Of an instant in the timeline's zone, which is this machine's."""
    moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S")
    return int(moment.timestamp()) * 1000 + int(text[14:])


def test_names_of_files(metas: dict[Path, dict[str, Any]]) -> None:
    """What Hudi wrote is parsed, and is named so again."""
    for meta in metas.values():
        parsed = [TWO.parse(name) for name in meta["timeline"]]
        assert [instant and TWO.name(instant) for instant in parsed] == meta["timeline"]


def test_names_that_are_no_instants(all_instants: Path, tmp_path: Path) -> None:
    table = tmp_path / "t"
    shutil.copytree(all_instants, table)
    before = hoodie.instants(str(table))
    for name in ("notes.commit", "20260101000000000_notes.commit", "notes_20260101000000000.commit"):
        (table / ".hoodie/timeline" / name).write_text("{}")
    assert hoodie.instants(str(table)) == before


def test_instants_and_states(metas: dict[Path, dict[str, Any]], timelines: dict[Path, Timeline]) -> None:
    for path, timeline in timelines.items():
        names = metas[path]["timeline"]
        completed = {name.partition("_")[0]: name for name in names if "_" in name}
        savepoints = [instant for instant in timeline if instant.action is Action.SAVEPOINT]
        assert len(timeline.instants) == len({name[:17] for name in names}) + len(savepoints)
        for instant in timeline:
            here = [name for name in names if name.startswith(instant.time)]
            assert timeline.name(instant) in here
            assert instant.completed == (instant.time in completed)
            if not instant.completed:
                inflight = any(name.endswith("inflight") for name in here)
                assert instant.state is (State.INFLIGHT if inflight else State.REQUESTED)


def test_completion_times(metas: dict[Path, dict[str, Any]], timelines: dict[Path, Timeline]) -> None:
    for path, timeline in timelines.items():
        recorded = metas[path]["completion"]
        commits = timeline.commits()
        assert {instant.time: instant.completion for instant in commits} == recorded
        for instant in commits:
            assert timeline.completion_of(instant) == local_ms(recorded[instant.time])
        assert {timeline.completion_of(instant) for instant in timeline.pending()} <= {None}


def test_the_order_of_completion(metas: dict[Path, dict[str, Any]], timelines: dict[Path, Timeline]) -> None:
    for path, meta in metas.items():
        names = [name for name in meta["timeline"] if re.match(r"\d+_\d+\.", name)]
        right = [name.partition("_")[0] for name in sorted(names, key=lambda name: name.partition("_")[2])]
        assert [instant.time for instant in timelines[path].by_completion()] == right


def test_writers_that_overlap(all_instants: Path, tmp_path: Path) -> None:
    """The first to begin may be the last to complete."""
    shutil.copytree(all_instants / ".hoodie", tmp_path / ".hoodie")
    folder = tmp_path / ".hoodie/timeline"
    shutil.rmtree(folder)
    folder.mkdir()
    first, second = "20260101000000000", "20260101000001000"
    (folder / f"{first}_20260101000003000.deltacommit").touch()
    (folder / f"{second}_20260101000002000.deltacommit").touch()
    timeline = Timeline.load(str(tmp_path))
    assert [instant.time for instant in timeline] == [first, second]
    assert [instant.time for instant in timeline.by_completion()] == [second, first]


def test_contents_of_commits(timelines: dict[Path, Timeline]) -> None:
    """What Hudi wrote is read, and is encoded to the same record again."""
    actions = set()
    for timeline in timelines.values():
        for instant in timeline.commits():
            value = timeline.layout.commit_value(instant.action, timeline.read(instant))
            again = TWO.content(timeline.commit(instant))
            assert again.startswith(b"Obj")
            assert TWO.commit_value(instant.action, again) == value
            actions.add(instant.action)
    assert actions == COMMIT_ACTIONS


def test_listing_of_commits(metas: dict[Path, dict[str, Any]]) -> None:
    """Operations as Hudi was asked for them; the rows of the first insert."""
    compared = 0
    for path, meta in metas.items():
        shown = {item["instant"]: item for item in hoodie.instants(str(path)) if "operation" in item}
        for step in meta["ops"]:
            item = shown.get(step["instant"])
            if item is None or step.get("op") not in WRITES or item["operation"] in SERVICES:
                continue  # archived, taken back, or the step ended with a service
            assert item["operation"].lower() in (step["op"], "insert_overwrite_table")
            assert item["files"] > 0
            assert step["op"] != "insert" or item["inserts"] > 0
            compared += 1
    assert compared > 200


#: operation of a commit -> kind, where it is no write
SERVICES = {
    "COMPACT": Kind.COMPACTION,
    "LOG_COMPACT": Kind.LOG_COMPACTION,
    "CLUSTER": Kind.CLUSTERING,
}


def test_kinds(timelines: dict[Path, Timeline]) -> None:
    """As the commits' metadata have them."""
    seen = set()
    for timeline in timelines.values():
        for instant in timeline.commits():
            expected = SERVICES.get(timeline.commit(instant).operation_type, Kind.WRITE)
            assert timeline.kind(instant) is expected
            seen.add(expected)
    assert seen == {Kind.WRITE, *SERVICES.values()}


def test_all_kinds_of_one_table(timelines: dict[Path, Timeline], all_instants: Path) -> None:
    timeline = timelines[all_instants]
    found = [(timeline.kind(instant), instant.state.name) for instant in timeline]
    assert {kind for kind, _ in found} == set(Kind) - {Kind.LOG_COMPACTION, Kind.INDEXING}
    assert (Kind.CLUSTERING, "REQUESTED") in found
    assert (Kind.CLUSTERING, "COMPLETED") in found
    assert (Kind.COMPACTION, "REQUESTED") in found


def test_the_command(all_instants: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(all_instants)
    assert main(["timeline", "--table", str(all_instants)]) == 0
    out = capsys.readouterr().out
    assert "clustering" in out
    assert "insert_overwrite" in out
    assert main(["timeline", "--table", str(all_instants), "--archived"]) == 0
    assert listing(all_instants) == before


def test_sensors(metas: dict[Path, dict[str, Any]]) -> None:
    for path in metas:
        shown = {item["instant"]: item.get("operation") for item in hoodie.instants(str(path))}
        reader = TableReader(str(path))
        timeline = reader.poll()
        expected = [instant for instant in timeline.commits() if shown[instant.time] not in SERVICES]
        hit = Commits(min_commits=len(expected)).find(reader, timeline)
        assert hit is not None
        newest = max(expected, key=lambda instant: str(instant.completion or ""))
        assert (hit.instant, hit.completed_ms) == (newest, local_ms(newest.completion or ""))
        assert Commits(min_commits=len(expected) + 1).find(reader, timeline) is None
        assert Commits(since=Since(moment_ms=hit.completed_ms)).find(reader, timeline) is None
        assert Commits(since=Since(moment_ms=hit.completed_ms - 1)).find(reader, timeline) == hit
        assert reader.poll() is timeline


def test_a_sensor_and_a_watcher_after_a_time_of_completion(later_more: Path) -> None:
    """As `end` of a query has it: a commit that was requested earlier, and completed later, is after it."""
    path = later_more / "more/nbcc_out_of_order/table"
    reader = TableReader(str(path))
    timeline = reader.poll()
    *_, overtaking, overtaken, last = timeline.by_completion()
    assert overtaken.is_before(overtaking.time)
    since = Since.parse(str(overtaking.completion))
    hit = Commits(since=since, min_commits=2).find(reader, timeline)
    assert hit is not None
    assert hit.to_dict()["completion"] == last.completion
    assert Commits(since=since, min_commits=3).find(reader, timeline) is None
    until = Since.parse(str(overtaken.completion))
    hit = Commits(since=since, until=until).find(reader, timeline)
    assert hit is not None
    assert hit.instant == overtaken
    found = new_commits(reader, timeline, WatchOffset.start(timeline, since), CommitFilter())
    assert [event["instant"] for event in found.events] == [overtaken.time, last.time]
    assert [event["completion"] for event in found.events] == [overtaken.completion, last.completion]
    rows = hoodie.read_table(str(path), begin=str(overtaking.completion), end=str(overtaken.completion))
    assert set(rows["_hoodie_commit_time"].to_pylist()) <= {overtaken.time}
    shown = {item["instant"]: item.get("completion") for item in hoodie.instants(str(path))}
    assert shown == {instant.time: instant.completion for instant in timeline}


def test_a_sensor_of_a_partition(all_instants: Path) -> None:
    """Partitions stand in the commits, which are Avro."""
    reader = TableReader(str(all_instants))
    timeline = reader.poll()
    details = reader.details(timeline.commits()[0])
    assert details is not None
    assert details.operation == "INSERT"
    assert details.counts["num_inserts"] > 0
    partition = details.partitions[0]
    assert Commits(CommitFilter(partitions=frozenset((partition,)))).find(reader, timeline) is not None
    assert Commits(CommitFilter(partitions=frozenset(("nowhere",)))).find(reader, timeline) is None


def test_a_sensor_opens_no_replacecommit(all_instants: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own action tells a clustering from an insert overwrite."""
    reader = TableReader(str(all_instants))
    timeline = reader.poll()
    opened: list[Instant] = []
    real = reader.details
    monkeypatch.setattr(reader, "details", lambda instant: opened.append(instant) or real(instant))  # type: ignore[func-returns-value]
    commits = timeline.commits()
    assert {timeline.kind(item) for item in commits if item.replaces} == {Kind.WRITE, Kind.CLUSTERING}
    writes = sum(timeline.kind(item) is Kind.WRITE for item in commits)
    every = CommitFilter(COMMIT_ACTIONS)
    assert Commits(every, min_commits=writes).find(reader, timeline) is not None
    assert Commits(every, min_commits=writes + 1).find(reader, timeline) is None
    assert opened == []


USES: dict[str, Callable[[str], Any]] = {
    "upsert": lambda path: hoodie.write_table(ROWS, path, options=OPTIONS),
    "overwrite": lambda path: hoodie.write_table(
        ROWS, path, operation="insert_overwrite_table", options=OPTIONS
    ),
    "delete": lambda path: hoodie.write_table(ROWS, path, operation="delete", options=OPTIONS),
    "sql": lambda path: hoodie.sql("DELETE FROM t", tables={"t": path}),
    "clean": hoodie.clean_table,
    "archive": hoodie.archive_table,
    "compact": hoodie.compact_table,
    "cluster": hoodie.cluster_table,
    "rollback": lambda path: hoodie.rollback_table(path, "20200101000000000"),
    "restore": lambda path: hoodie.restore_table(path, InstantTime("20200101000000000")),
    "savepoint": hoodie.savepoint_table,
    "index": lambda path: hoodie.index_table(path, "create", "column_stats"),
    "run_services": hoodie.run_services,
}


@pytest.mark.parametrize("use", USES)
def test_writes_and_services_of_version_7_are_refused(golden_tables: Path, tmp_path: Path, use: str) -> None:
    """It is read as version 6."""
    path = tmp_path / "t"
    shutil.copytree(golden_tables / "0.15.0-v6/cow_types/table", path)
    rows = hoodie.read_table(str(path))
    file = path / ".hoodie/hoodie.properties"
    file.write_text(file.read_text().replace("hoodie.table.version=6", "hoodie.table.version=7"))
    before = listing(path)
    with pytest.raises(UnsupportedVersion, match=r"table version 7, which is read.*NINE.*SIX") as raised:
        USES[use](str(path))
    assert raised.value.values == {"path": str(path), "version": 7}
    assert listing(path) == before
    assert hoodie.read_table(str(path)).equals(rows)
