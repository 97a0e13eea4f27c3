"""`hoodie services plan` and `run`: what is due and why, what is stuck, and the order of one run."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, TableNotFound
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import heartbeat_path
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.write.transaction import Transaction
from tests.crash.scenarios import run as write_with
from tests.support.faults import Change, Faults, Phase, die_at, injected
from tests.support.storages import Behind, wrapped
from tests.support.tables import SMALL_SCHEMA, as_table, small_rows
from tests.unit.services.clean_support import MANUAL, MOR, files, written
from tests.unit.write.support import Pair, Templates, listing

DUE = {
    "hoodie.compact.inline.max.delta.commits": 2,
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 2,
    "hoodie.keep.max.commits": 3,
}


def plans(pair: Pair, only: list[str] | None = None, **options: Any) -> dict[str, Any]:
    """The plan of each service; planning changes nothing."""
    before = listing(pair.path)
    result = hoodie.plan_services(str(pair.path), only=only, options={**DUE, **options})
    assert listing(pair.path) == before
    assert result.due == [item.service for item in result.services if item.due]
    return {item.service: item for item in result.services}


def run(pair: Pair, only: list[str] | None = None, **more: Any) -> Any:
    result = hoodie.run_services(str(pair.path), only=only, options=DUE, **more)
    pair.check("after services")
    return result


def failed_write(pair: Pair) -> None:
    """Its storage was gone when its files were there."""
    rows = as_table(small_rows(range(9), 9), SMALL_SCHEMA)
    die_at(
        pair.path,
        lambda path: hoodie.write_table(rows, path, options=pair.options),
        lambda change: change.name == "create" and change.path.endswith(".commit"),
    )


def opens_file(change: Change) -> bool:
    return change.name == "open_output"


def deletes_file(change: Change) -> bool:
    return change.name == "delete" and change.path.endswith(".parquet")


def timeline(pair: Pair) -> Timeline:
    return Timeline.load(str(pair.path))


def test_a_new_table_needs_nothing(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 1)
    told = plans(pair)
    assert [item.due for item in told.values()] == [False] * 7
    assert told["compaction"].reason == "a COPY_ON_WRITE table has no logs"
    assert told["clustering"].reason.startswith("no setting asks for it")
    assert told["repair"].reason == "no write has failed, and nothing is left over"
    assert told["clean"].reason.startswith("the table has 1 commits, and the newest 1 commits are kept")
    result = run(pair)
    assert (result.status, result.done) == ("skipped", [])
    assert len(result.skipped) == 7


def test_what_is_due_is_told_with_its_reason_and_then_done(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 5)
    told = plans(pair)
    assert [name for name, item in told.items() if item.due] == ["clean", "archive"]
    assert told["clean"].would == "delete 9 files in 3 partitions"
    assert "the newest 1 commits are kept" in told["clean"].reason
    assert told["archive"].reason.startswith("the timeline has 5 commits, 3 of each may stay")
    assert told["archive"].num_files == 9
    gone = sum((pair.path / file).stat().st_size for file in _oldest(pair, 3))
    assert told["clean"].bytes == gone
    dry = hoodie.run_services(str(pair.path), options=DUE, dry_run=True)
    assert (dry.status, dry.done) == ("planned", ["clean", "archive"])
    assert sum(map(len, dry.services["clean"]["files"].values())) == 9
    result = run(pair)
    assert (result.status, result.done, result.failed) == ("done", ["clean", "archive"], [])
    assert result.services["clean"]["num_files"] == told["clean"].num_files
    archived = [item["instant"] for item in result.services["archive"]["archived"]]
    assert archived == told["archive"].instants
    assert run(pair).status == "skipped"


def _oldest(pair: Pair, commits: int) -> list[str]:
    times = [instant.time for instant in timeline(pair).commits()][:commits]
    return [name for name in files(pair) if any(time in name for time in times)]


def test_compaction_comes_before_the_clean_that_takes_its_logs(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 3, MOR)
    told = plans(pair)
    assert (told["compaction"].due, told["clean"].due) == (True, False)
    assert told["compaction"].would == "merge 6 log files of 3 file slices"
    assert "3 of 2 delta commits since" in told["compaction"].reason
    assert told["compaction"].num_files == 6
    assert run(pair).done[0] == "compaction"
    for version in (4, 5):
        pair.write(small_rows(range(30), version))
    result = run(pair)
    assert result.done[:2] == ["compaction", "clean"]
    assert result.services["clean"]["num_files"] == 9, "the first slices with their logs"


def test_a_failed_write_and_what_it_left(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 1)
    failed_write(pair)
    (pending,) = timeline(pair).pending()
    told = plans(pair)["repair"]
    assert (told.due, told.instants) == (True, [pending.time])
    assert told.would.startswith("roll back 1 failed write, sweep what is left of ")
    assert told.bytes > 0
    result = run(pair, ["repair"])
    assert (result.done, result.rolled_back) == (["repair"], [pending.time])
    assert timeline(pair).pending() == []
    assert len(timeline(pair).filter([Action.ROLLBACK], completed=True)) == 1
    assert list(pair.path.glob(".hoodie/.temp/*")) == list(pair.path.glob(".hoodie/.heartbeat/*")) == []
    assert run(pair, ["repair"]).status == "skipped"


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("create", ".marker.MERGE"),
        ("open_output", ".parquet"),
        ("close_output", ".parquet"),
        ("create", ".commit"),
    ],
)
def test_a_stuck_compaction_is_found_and_finished(
    tmp_path: Path, name: str, ending: str, templates: Templates
) -> None:
    pair = templates.copy(tmp_path / "t", written, 3, MOR)
    planned = hoodie.compact_table(str(pair.path), mode="schedule", options=DUE).scheduled
    told = plans(pair)["compaction"]
    assert [(item["instant"], item["verdict"]) for item in told.pending] == [(planned, "waiting")]
    die_at(
        pair.path,
        lambda path: hoodie.compact_table(path, mode="execute", options=DUE),
        lambda change: change.name == name and change.path.endswith(ending),
    )
    told = plans(pair)["compaction"]
    (pending,) = told.pending
    assert (pending["instant"], pending["state"], pending["verdict"]) == (planned, "inflight", "stuck")
    assert told.due
    assert told.reason.startswith(f"{planned} stuck; ")
    assert told.instants == [planned]
    assert run(pair).services["compaction"]["compacted"][0] == planned
    assert timeline(pair).pending() == []


def test_ages_are_those_of_the_storages_clock(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 3, MOR)
    hoodie.compact_table(str(pair.path), mode="schedule", options=DUE)
    with wrapped(Behind):
        (pending,) = plans(pair)["compaction"].pending
    assert pending["age_s"] < 600


def test_a_stuck_clean_is_found_and_finished(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 4)
    die_at(pair.path, lambda path: hoodie.clean_table(path, options=DUE), deletes_file)
    (clean,) = timeline(pair).pending()
    told = plans(pair)["clean"]
    assert [item["verdict"] for item in told.pending] == ["stuck"]
    assert (told.due, told.instants) == (True, [clean.time])
    assert run(pair).services["clean"]["cleaned"] == [clean.time]
    assert timeline(pair).pending() == []


def test_a_stuck_clustering_is_finished_although_nobody_asks_for_clusterings(
    tmp_path: Path, templates: Templates
) -> None:
    pair = templates.copy(tmp_path / "t", written, 1, {**MANUAL, "hoodie.parquet.small.file.limit": 0})
    pair.write(small_rows(range(30, 60), 2))
    assert not plans(pair)["clustering"].due
    assert plans(pair, ["clustering"])["clustering"].would == "rewrite 6 file groups as 3"
    planned = hoodie.cluster_table(str(pair.path), mode="schedule").scheduled
    die_at(pair.path, lambda path: hoodie.cluster_table(path, mode="execute"), opens_file)
    told = plans(pair)["clustering"]
    assert [(item["instant"], item["verdict"]) for item in told.pending] == [(planned, "stuck")]
    assert run(pair).services["clustering"]["clustered"] == [planned]
    assert timeline(pair).pending() == []


def test_a_restore_that_was_begun_is_finished_first(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 1)
    point = timeline(pair).commits()[0].time
    rows = hoodie.read_table(str(pair.path))
    pair.write(small_rows(range(30), 2))
    die_at(pair.path, lambda path: hoodie.restore_table(path, point), deletes_file)
    told = plans(pair)
    assert told["restore"].due
    assert told["restore"].would.startswith(f"take the table back to {point}, ")
    assert told["repair"].error is not None, "nothing else can be planned before"
    result = hoodie.run_services(str(pair.path), options=DUE)
    assert (result.done[0], result.failed) == ("restore", [])
    assert hoodie.read_table(str(pair.path)).equals(rows)
    assert timeline(pair).pending() == []


def test_while_a_writer_is_at_work(tmp_path: Path, templates: Templates) -> None:
    """It is told; a run says of each service what it can't do, and does the others."""
    pair = templates.copy(tmp_path / "t", written, 5)
    with Transaction(Table(TableRef(str(pair.path)), LocalStorage()), Config.of({}), True) as writer:
        writer.begin()
        plan = hoodie.plan_services(str(pair.path), options=DUE)
        assert [item["instant"] for item in plan.writers] == [writer.instant]
        assert not plan.services[1].due, "its instant is no failed write"
        result = hoodie.run_services(str(pair.path), options=DUE)
        assert (result.status, result.failed) == ("failed", ["clean", "archive"])
        assert result.services["clean"]["error"]["code"] == "table_busy"
        assert "clean: another writer is at work" in result.reason
    assert run(pair).status == "done"


def test_one_that_is_running_is_left_alone(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 3, MOR)
    planned = hoodie.compact_table(str(pair.path), mode="schedule", options=DUE).scheduled
    beat = Path(heartbeat_path(str(pair.path), planned))
    beat.parent.mkdir(exist_ok=True)
    beat.write_text('{"service": "compaction", "host": "elsewhere", "pid": 7}')
    told = plans(pair)["compaction"]
    assert [item["verdict"] for item in told.pending] == ["running"]
    assert (told.due, told.reason) == (False, f"compaction {planned} is being run by process 7 on elsewhere")
    assert run(pair, ["compaction"]).skipped == ["compaction"]
    long_ago = time.time() - 3600
    os.utime(beat, (long_ago, long_ago))
    assert run(pair, ["compaction"]).services["compaction"]["compacted"] == [planned]


def test_wrong_arguments(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 1)
    with pytest.raises(
        ConfigError, match="no service vacuum; use restore, repair, compaction, log_compaction"
    ):
        hoodie.plan_services(str(pair.path), only=["vacuum", "clean"])
    with pytest.raises(ConfigError, match="no service is named"):
        hoodie.run_services(str(pair.path), only=[])
    with pytest.raises(ConfigError, match=r"keep.min.commits=5 must be less than"):
        hoodie.run_services(str(pair.path), options={**DUE, "hoodie.keep.min.commits": 5})
    with pytest.raises(TableNotFound):
        hoodie.plan_services(str(tmp_path / "none"))


def test_a_kill_after_the_commit_leaves_markers_to_sweep(tmp_path: Path, templates: Templates) -> None:
    pair = templates.copy(tmp_path / "t", written, 1)
    log = Faults()
    write_with(pair.path, small_rows(range(9), 2), faults=log, options=pair.options)
    commit = next(n for n, change in enumerate(log.log, 1) if change.path.endswith(".commit"))
    with injected(Faults(at=commit, phase=Phase.AFTER)):
        rows = as_table(small_rows(range(9), 3), SMALL_SCHEMA)
        hoodie.write_table(rows, str(pair.path), options=pair.options)
    told = plans(pair)["repair"]
    assert (told.due, told.instants) == (True, [])
    assert told.would.startswith("sweep what is left of 1 marker")
    pair.model.upsert(small_rows(range(9), 2)).upsert(small_rows(range(9), 3))
    assert run(pair, ["repair"]).done == ["repair"]
    assert list(pair.path.glob(".hoodie/.temp/*")) == []
