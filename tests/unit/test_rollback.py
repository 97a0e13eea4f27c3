"""Rollback: what is due, what a plan holds, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hoodie.errors import TableError
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.heartbeat import heartbeat_path
from hoodie.table.markers import Marker, MarkerType, create_marker
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.restore import RestorePlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata, RollbackPlan, RollbackRequest
from hoodie.timeline.time import InstantTime
from hoodie.write.rollback import executor
from tests.support.handles import table_at
from tests.support.rollbacks import roll_back
from tests.support.stores import store_at

STORAGE = LocalStorage()
OLD, FAILED, LATER = (f"2026010100000000{n}" for n in range(3))
PLANNED = "20260101000000005"


def name(group: str, instant: str) -> str:
    return f"{group}-0_0-1-2_{instant}.parquet"


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Partitions p, q, r with a committed file each; FAILED has written to all three, with a marker in p."""
    base = str(tmp_path)
    properties.create(STORAGE, base, {properties.NAME: "t"})
    stats = {}
    for partition in "pqr":
        STORAGE.create(f"{base}/{partition}/.hoodie_partition_metadata", b"x")
        STORAGE.create(f"{base}/{partition}/{name('a', OLD)}", b"old")
        STORAGE.create(f"{base}/{partition}/{name('a', FAILED)}", b"new")
        stats[partition] = (WriteStat(path=f"{partition}/{name('a', OLD)}"),)
    store_at(base).create(
        Instant(InstantTime(OLD), Action.COMMIT, State.COMPLETED), CommitMetadata(stats).to_json()
    )
    fail(base, FAILED, ("p", "q"))
    STORAGE.create(heartbeat_path(base, FAILED), b"")
    create_marker(STORAGE, base, InstantTime(FAILED), Marker(f"p/{name('a', FAILED)}", MarkerType.MERGE))
    return base


def fail(base: str, time: str, profiled: tuple[str, ...] = (), action: Action = Action.COMMIT) -> None:
    store_at(base).create(Instant(InstantTime(time), action, State.REQUESTED))
    profile = (
        CommitMetadata({partition: (WriteStat(),) for partition in profiled}).to_json() if profiled else b""
    )
    store_at(base).create(Instant(InstantTime(time), action, State.INFLIGHT), profile)


def due(base: str, live: frozenset[str] = frozenset()) -> list[executor.PendingRollback]:
    return executor.due(Timeline.load(base, STORAGE), STORAGE, live, True)


def files(base: str) -> set[str]:
    return {str(path.relative_to(base)) for path in Path(base).rglob("*.parquet")}


def test_failed_writes_are_due_oldest_first_each_at_an_instant_of_its_own(table: str) -> None:
    fail(table, LATER)
    found = due(table)
    assert [item.target.time for item in found] == [FAILED, LATER]
    assert all(item.instant.is_after(LATER) and item.instant.action is Action.ROLLBACK for item in found)
    assert found[0].instant.time != found[1].instant.time
    assert [item.target.time for item in due(table, frozenset({FAILED}))] == [LATER]


def test_plan_joins_markers_with_the_files_of_profiled_partitions(table: str) -> None:
    create_marker(
        STORAGE, table, InstantTime(FAILED), Marker(f"r/{name('never', FAILED)}", MarkerType.CREATE)
    )
    target = Instant(InstantTime(FAILED), Action.COMMIT, State.INFLIGHT)
    made = executor.plan(table_at(table), target)
    assert made.instant == InstantInfo(InstantTime(FAILED), "commit")
    assert made.requests == tuple(
        RollbackRequest(
            partition, f"{group}-0", InstantTime(FAILED), (f"{table}/{partition}/{name(group, FAILED)}",), {}
        )
        for partition, group in (("p", "a"), ("q", "a"), ("r", "a"), ("r", "never"))
    )


def test_plan_lists_all_partitions_when_nothing_names_one(table: str) -> None:
    STORAGE.delete_tree(f"{table}/.hoodie/.temp/{FAILED}")
    STORAGE.write(f"{table}/.hoodie/{FAILED}.inflight", b'{"partitionToWriteStats" : {"p"')
    made = executor.plan(table_at(table), Instant(InstantTime(FAILED), Action.COMMIT, State.INFLIGHT))
    assert [request.partition_path for request in made.requests] == ["p", "q", "r"]
    assert (
        executor.plan(table_at(table), Instant(InstantTime(LATER), Action.COMMIT, State.REQUESTED)).requests
        == ()
    )


def test_execute_deletes_the_files_of_the_failed_write_only(table: str) -> None:
    STORAGE.create(f"{table}/q/.x.1.hoodie-tmp", b"")
    (pending,) = due(table)
    roll_back(table, pending)
    assert files(table) == {f"{partition}/{name('a', OLD)}" for partition in "pqr"} | {
        f"r/{name('a', FAILED)}"
    }
    assert not Path(f"{table}/q/.x.1.hoodie-tmp").exists()
    assert not Path(f"{table}/.hoodie/.temp/{FAILED}").exists()
    timeline = Timeline.load(table, STORAGE)
    assert [str(instant) for instant in timeline] == [
        f"{OLD} commit completed",
        f"{pending.instant.time} rollback completed",
    ]
    done = RollbackMetadata.from_bytes(timeline.read(timeline.instants[-1], STORAGE))
    assert (done.commits, done.total_files_deleted, done.start_time) == ((FAILED,), 2, pending.instant.time)
    assert due(table) == []


def test_a_file_of_an_older_commit_stays_though_a_failed_one_names_it(table: str) -> None:
    named = CommitMetadata({"p": (WriteStat(path=f"p/{name('a', OLD)}"),)}).to_json()
    STORAGE.write(f"{table}/.hoodie/{FAILED}.inflight", named)
    (pending,) = due(table)
    roll_back(table, pending)
    assert f"p/{name('a', OLD)}" in files(table)


def write_plan(base: str, target: str, state: State, *files_to_delete: str, **more: object) -> None:
    request = RollbackRequest("r", "a-0", target, files_to_delete, **more)  # type: ignore[arg-type]
    plan = RollbackPlan(InstantInfo(InstantTime(target), "commit"), (request,))
    store_at(base).create(Instant(InstantTime(PLANNED), Action.ROLLBACK, State.REQUESTED), plan.to_bytes())
    if state is State.INFLIGHT:
        store_at(base).create(Instant(InstantTime(PLANNED), Action.ROLLBACK, State.INFLIGHT))


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
def test_a_rollback_under_way_is_resumed_with_its_own_plan(table: str, state: State) -> None:
    """Also where the table was copied: the plan's paths are absolute and point to the original."""
    write_plan(table, FAILED, state, f"file:/elsewhere/r/{name('a', FAILED)}")
    (pending,) = due(table)
    assert (pending.target.time, pending.instant.time, pending.instant.state) == (FAILED, PLANNED, state)
    roll_back(table, pending)
    assert f"r/{name('a', FAILED)}" not in files(table)
    assert Path(f"{table}/.hoodie/{PLANNED}.rollback").exists()
    assert due(table) == []


def test_a_plan_that_was_cut_is_dropped_while_nothing_has_begun(table: str) -> None:
    path = f"{table}/.hoodie/{PLANNED}.rollback.requested"
    STORAGE.create(path, b"Obj\x01cut")
    (pending,) = due(table)
    assert pending.instant.is_after(PLANNED)
    assert not Path(path).exists()


def test_a_torn_plan_under_way_is_an_error(table: str) -> None:
    STORAGE.create(f"{table}/.hoodie/{PLANNED}.rollback.requested", b"Obj\x01cut")
    store_at(table).create(Instant(InstantTime(PLANNED), Action.ROLLBACK, State.INFLIGHT))
    with pytest.raises(TableError, match="no whole HoodieRollbackPlan"):
        due(table)


def test_an_unfinished_restore_forbids_writing(table: str) -> None:
    plan = RestorePlan((InstantInfo(InstantTime(FAILED), "commit"),), InstantTime(OLD))
    store_at(table).create(Instant(InstantTime(LATER), Action.RESTORE, State.REQUESTED), plan.to_bytes())
    with pytest.raises(TableError, match=f"restore {LATER} .* was not finished.*--instant {OLD}"):
        due(table)


def test_a_restore_whose_plan_was_cut_is_dropped(table: str) -> None:
    store_at(table).create(Instant(InstantTime(LATER), Action.RESTORE, State.REQUESTED), b"Obj\x01cut")
    assert [item.target.time for item in due(table)] == [FAILED]
    assert not Path(f"{table}/.hoodie/{LATER}.restore.requested").exists()


def test_other_pending_services_are_no_failed_writes(table: str) -> None:
    for action in (Action.CLEAN, Action.COMPACTION, Action.INDEXING):
        store_at(table).create(Instant(InstantTime(LATER), action, State.REQUESTED), b"x")
    assert [item.target.time for item in due(table)] == [FAILED]


def test_torn_clustering_plan(table: str) -> None:
    """Cut before anything was done it is a failed write; once under way it is an error."""
    store_at(table).create(Instant(InstantTime(LATER), Action.REPLACECOMMIT, State.REQUESTED), b"Obj\x01cut")
    assert [item.target.time for item in due(table)] == [FAILED, LATER]
    store_at(table).create(Instant(InstantTime(LATER), Action.REPLACECOMMIT, State.INFLIGHT))
    with pytest.raises(TableError, match="no whole HoodieRequestedReplaceMetadata"):
        due(table)


def test_profile_is_json_as_hudi_reads_it(table: str) -> None:
    profile = json.loads(Path(f"{table}/.hoodie/{FAILED}.inflight").read_text())
    assert set(profile["partitionToWriteStats"]) == {"p", "q"}


def test_change_logs_that_a_commit_names_go_with_it(table: str) -> None:
    name_ = f".a-0_{OLD}.log.1_0-1-2.cdc"
    stat = WriteStat(path=f"p/{name('a', OLD)}", cdc_stats={f"p/{name_}": 4})
    completed = Instant(InstantTime(OLD), Action.COMMIT, State.COMPLETED)
    STORAGE.write(f"{table}/.hoodie/{OLD}.commit", CommitMetadata({"p": (stat,)}).to_json())
    made = executor.plan(table_at(table), completed)
    assert f"{table}/p/{name_}" in {path for request in made.requests for path in request.files_to_delete}


def test_change_logs_of_a_failed_write_go(table: str) -> None:
    """Those that its markers name and those in the partitions, in Apache Hudi's plans among the logs."""
    marked, listed, older = (f".a-0_{time}.log.1_0-{n}-2.cdc" for n, time in enumerate((FAILED, FAILED, OLD)))
    create_marker(STORAGE, table, InstantTime(FAILED), Marker(f"r/{marked}", MarkerType.APPEND))
    for log in (f"r/{marked}", f"q/{listed}", f"p/{older}", f"r/{older}"):
        STORAGE.create(f"{table}/{log}", b"log")
    made = executor.plan(table_at(table), Instant(InstantTime(FAILED), Action.COMMIT, State.INFLIGHT))
    named = {path for request in made.requests for path in request.files_to_delete if path.endswith("cdc")}
    assert named == {f"{table}/r/{marked}", f"{table}/q/{listed}"}
    write_plan(table, FAILED, State.REQUESTED, log_blocks_to_delete={marked: 1})
    (pending,) = due(table)
    done = roll_back(table, pending).partitions["r"]
    assert (done.deleted, done.rollback_log_files) == ((marked,), {})
    left = {
        str(path.relative_to(table)) for path in Path(table).rglob("*.log.*") if ".hoodie" not in str(path)
    }
    assert left == {f"q/{listed}", f"p/{older}", f"r/{older}"}


def test_the_plan_of_a_service_that_is_forgotten_lists_all_partitions(table: str) -> None:
    """Its inflight file names none, and a marker only one."""
    target = Instant(InstantTime(FAILED), Action.REPLACECOMMIT, State.INFLIGHT)
    store_at(table).create(target)
    made = executor.plan(table_at(table), target, forget=True)
    assert [request.partition_path for request in made.requests] == ["p", "q", "r"]
