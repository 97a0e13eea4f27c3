"""Plans of services: put on the timeline with the table for oneself, executed beside writers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hoodie.config.key import Config
from hoodie.errors import ConflictError
from hoodie.metadata.state import begun_indexes
from hoodie.storage import Check
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import heartbeat_path
from hoodie.table.markers import Marker, MarkerType, create_marker
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.rollback import InstantInfo, RollbackPlan, RollbackRequest
from hoodie.timeline.time import InstantTime
from hoodie.write.transaction import Transaction
from tests.support.stores import store_at

STORAGE = LocalStorage()
CONFIG = Config.of({})


@pytest.fixture
def base(tmp_path: Path) -> str:
    properties.create(STORAGE, str(tmp_path), {properties.NAME: "t", properties.TYPE: "MERGE_ON_READ"})
    STORAGE.create(f"{tmp_path}/p/.hoodie_partition_metadata", b"x")
    return str(tmp_path)


def new(base: str, storage: LocalStorage = STORAGE) -> Transaction:
    return Transaction(Table(TableRef(base), storage), CONFIG, True, Action.DELTACOMMIT)


def writing(base: str) -> Transaction:
    transaction = new(base)
    transaction.begin()
    transaction.inflight(CommitMetadata())
    return transaction


def commit(base: str) -> str:
    with writing(base) as transaction:
        transaction.commit({}, "UPSERT", {})
    return transaction.instant


def schedule(base: str, plan: bytes | None = b"plan") -> Instant | None:
    with new(base) as transaction:
        return transaction.schedule(Action.COMPACTION, lambda timeline, time: plan)


def planned(base: str) -> Instant:
    instant = schedule(base)
    assert instant is not None
    return instant


def file_of(
    base: str, transaction: Transaction, group: str = "a", token: str = "0-1-2"
) -> dict[str, list[WriteStat]]:
    file = f"p/{group}-0_{token}_{transaction.instant}.parquet"
    create_marker(STORAGE, base, transaction.instant, Marker(file, MarkerType.MERGE))
    STORAGE.create(f"{base}/{file}", b"rows")
    return {"p": [WriteStat(path=file, file_id=f"{group}-0")]}


def after(time: str) -> str:
    """A little later: a time of the far future would make all that follows it in this process as late."""
    return str(int(time) + 1)


def states(base: str) -> list[str]:
    return [
        f"{instant.action.value} {instant.state.name.lower()}" for instant in Timeline.load(base, STORAGE)
    ]


def data(base: str) -> list[str]:
    return sorted(path.name for path in Path(base).rglob("*.parquet"))


def litter(base: str) -> list[str]:
    return [str(path) for name in (".temp", ".heartbeat") for path in Path(base, ".hoodie", name).glob("*")]


def failing(transaction: Transaction) -> None:
    with transaction:
        file_of(transaction.base_path, transaction)
        _ = 1 / 0


def test_a_plan_is_made_from_the_repaired_timeline_and_is_its_newest_instant(base: str) -> None:
    done = commit(base)
    failed = Instant(InstantTime(after(done)), Action.DELTACOMMIT, State.REQUESTED)
    store_at(base).create(failed)
    seen: list[list[str]] = []

    def make(timeline: Timeline, time: str) -> bytes:
        seen.append([f"{instant.time} {instant.action.value}" for instant in timeline])
        assert failed.is_before(time)
        return b"plan"

    with new(base) as transaction:
        instant = transaction.schedule(Action.COMPACTION, make)
    assert instant is not None
    assert seen[0][0] == f"{done} deltacommit"
    assert len(seen[0]) == 2
    assert seen[0][1].endswith(" rollback")
    assert transaction.rolled_back == [failed.time]
    assert Path(base, f".hoodie/{instant.time}.compaction.requested").read_bytes() == b"plan"
    assert litter(base) == []


def test_nothing_to_plan(base: str) -> None:
    assert schedule(base, None) is None
    assert states(base) == litter(base) == []


def test_no_plan_is_made_while_a_writer_is_at_work(base: str) -> None:
    with writing(base) as writer:
        with pytest.raises(ConflictError, match=writer.instant):
            schedule(base)
        writer.commit({}, "UPSERT", {})
    assert states(base) == ["deltacommit completed"]


def test_a_plan_is_taken_back_when_a_writer_has_begun_meanwhile(base: str) -> None:
    """It took the scheduler for dead, and does not know of the plan."""

    class Sleeping(LocalStorage):
        def create(self, path: str, content: bytes, check: Check = None) -> None:
            super().create(path, content, check)
            if path.endswith(".compaction.requested"):
                for beat in Path(base, ".hoodie/.heartbeat").iterdir():
                    beat.unlink()

    with pytest.raises(ConflictError, match="taken for dead"), new(base, Sleeping()) as transaction:
        transaction.schedule(Action.COMPACTION, lambda timeline, time: b"plan")
    assert states(base) == []


def test_executed_to_a_commit(base: str) -> None:
    instant = planned(base)
    with new(base) as transaction:
        transaction.resume(instant, ["p"])
        assert states(base) == ["compaction inflight"]
        metadata = transaction.commit(file_of(base, transaction), "COMPACT", {})
    assert metadata.compacted
    assert Path(base, f".hoodie/{instant.time}.commit").read_bytes() == metadata.to_json()
    assert states(base) == ["commit completed"]
    assert len(data(base)) == 1
    assert litter(base) == []


def test_writers_go_on_beside_it(base: str) -> None:
    instant = planned(base)
    with new(base) as compaction:
        compaction.resume(instant, ["p"])
        stats = file_of(base, compaction)
        first = commit(base)
        with writing(base) as writer:
            compaction.commit(stats, "COMPACT", {})
            writer.commit({}, "UPSERT", {})
    assert instant.is_before(first)
    assert states(base) == ["commit completed", "deltacommit completed", "deltacommit completed"]
    assert len(data(base)) == 1
    assert litter(base) == []


def test_a_writer_rolls_back_other_writers_beside_it(base: str) -> None:
    """A rollback newer than its instant does not concern a compaction."""
    instant = planned(base)
    with new(base) as compaction:
        compaction.resume(instant, ["p"])
        store_at(base).create(Instant(InstantTime(after(instant.time)), Action.DELTACOMMIT, State.REQUESTED))
        commit(base)
        compaction.commit(file_of(base, compaction), "COMPACT", {})
    assert states(base)[0] == "commit completed"
    assert "rollback completed" in states(base)


def test_it_publishes_though_a_writer_sweeps_its_unfinished_file_away(base: str) -> None:
    class Swept(LocalStorage):
        times = 3

        def _temporary(self, path: str, content: bytes, *, sync: bool = True) -> str:
            made = super()._temporary(path, content, sync=sync)
            if path.endswith(".commit") and self.times:
                self.times -= 1
                os.unlink(made)
            return made

    instant = planned(base)
    with new(base, Swept()) as compaction:
        compaction.resume(instant, ["p"])
        compaction.commit({}, "COMPACT", {})
    assert states(base) == ["commit completed"]


def test_one_plan_is_executed_by_one_process(base: str) -> None:
    instant, other = planned(base), planned(base)
    with new(base) as first:
        first.resume(instant, ["p"])
        with (
            pytest.raises(ConflictError, match="another process is at work on compaction"),
            new(base) as second,
        ):
            second.resume(instant, ["p"])
        with new(base) as third:
            third.resume(other, ["p"])
            third.commit({}, "COMPACT", {})
        first.commit({}, "COMPACT", {})
    assert states(base) == ["commit completed"] * 2
    with pytest.raises(ConflictError, match="taken over, done or rolled back"), new(base) as late:
        late.resume(instant, ["p"])
    assert litter(base) == []


def test_a_failure_leaves_the_plan_and_nothing_else(base: str) -> None:
    instant = planned(base)
    transaction = new(base)
    transaction.resume(instant, ["p"])
    with pytest.raises(ZeroDivisionError):
        failing(transaction)
    assert states(base) == ["compaction requested"]
    assert data(base) == litter(base) == []


def test_what_a_killed_attempt_left_is_left_alone_by_writers_and_deleted_by_the_next_attempt(
    base: str,
) -> None:
    instant = planned(base)
    store_at(base).create(instant.with_state(State.INFLIGHT))
    STORAGE.create(heartbeat_path(base, instant.time), b'{"pid": 1, "service": "x"}')
    os.utime(heartbeat_path(base, instant.time), (1, 1))
    made = f"p/a-0_0-9-9_{instant.time}.parquet"
    create_marker(STORAGE, base, instant.time, Marker(made, MarkerType.MERGE))
    unmarked = f"p/b-0_0-9-9_{instant.time}.parquet"
    for file in (made, unmarked):
        STORAGE.create(f"{base}/{file}", b"rows")
    before = len(litter(base))
    commit(base)
    assert len(litter(base)) == before
    assert states(base) == ["compaction inflight", "deltacommit completed"]
    with new(base) as transaction:
        transaction.resume(instant, ["p"])
        assert data(base) == []
        transaction.commit(file_of(base, transaction), "COMPACT", {})
    assert states(base) == ["commit completed", "deltacommit completed"]
    assert len(data(base)) == 1
    assert litter(base) == []


def test_a_heartbeat_left_at_the_very_end_is_swept_by_the_next_writer(base: str) -> None:
    instant = planned(base)
    with new(base) as transaction:
        transaction.resume(instant, ["p"])
        transaction.commit({}, "COMPACT", {})
    STORAGE.create(heartbeat_path(base, instant.time), b'{"pid": 1, "service": "x"}')
    os.utime(heartbeat_path(base, instant.time), (1, 1))
    commit(base)
    assert litter(base) == []


def test_the_heartbeat_of_a_compaction_by_apache_hudi_is_no_second_writer(base: str) -> None:
    """It is an empty file; the timeline tells whose it is."""
    instant = planned(base)
    STORAGE.create(heartbeat_path(base, instant.time), b"")
    commit(base)
    assert Path(heartbeat_path(base, instant.time)).exists()
    with (
        pytest.raises(ConflictError, match="another process is at work on compaction"),
        new(base) as transaction,
    ):
        transaction.resume(instant, ["p"])


def test_a_sleeper_taken_for_dead_neither_publishes_nor_harms_its_successor(base: str) -> None:
    instant = planned(base)
    sleeper, successor = new(base), new(base)
    sleeper.resume(instant, ["p"])
    late = file_of(base, sleeper)
    os.unlink(heartbeat_path(base, instant.time))
    successor.resume(instant, ["p"])
    assert data(base) == []
    stats = file_of(base, successor, "a", "0-1-3")
    with pytest.raises(ConflictError, match="was taken over"), sleeper:
        sleeper.commit(late, "COMPACT", {})
    assert Path(heartbeat_path(base, instant.time)).exists()
    with successor:
        successor.commit(stats, "COMPACT", {})
    assert states(base) == ["commit completed"]
    assert data(base) == [os.path.basename(str(stats["p"][0].path))]
    assert litter(base) == []


def test_a_rollback_of_the_plan_that_was_begun_comes_first(base: str) -> None:
    instant = planned(base)
    store_at(base).create(instant.with_state(State.INFLIGHT))
    STORAGE.create(f"{base}/p/a-0_0-9-9_{instant.time}.parquet", b"rows")
    request = RollbackRequest("p", "a-0", instant.time, (f"{base}/p/a-0_0-9-9_{instant.time}.parquet",))
    plan = RollbackPlan(InstantInfo(instant.time, "compaction"), (request,))
    rollback = Instant(InstantTime(after(instant.time)), Action.ROLLBACK, State.REQUESTED)
    store_at(base).create(rollback, plan.to_bytes())
    with new(base) as transaction:
        transaction.resume(instant, ["p"])
        transaction.commit(file_of(base, transaction), "COMPACT", {})
    assert states(base) == ["commit completed", "rollback completed"]
    assert len(data(base)) == 1
    commit(base)
    assert len(data(base)) == 1


def test_a_metadata_table_that_is_damaged_is_left_to_the_next_writer(base: str) -> None:
    """Readers go without it before the commit."""
    instant = planned(base)
    properties.update(STORAGE, base, {properties.METADATA_PARTITIONS: "files"})
    STORAGE.make_dirs(f"{base}/.hoodie/metadata")
    with new(base) as transaction:
        transaction.resume(instant, ["p"])
        transaction.commit({}, "COMPACT", {})
        assert "was damaged, and is made anew" in " ".join(transaction.warnings)
    assert not Path(base, ".hoodie/metadata").exists()
    props = properties.load(STORAGE, base)
    assert (props.metadata_partitions, begun_indexes(props)) == ((), ("files",))


def test_a_delta_commit(base: str) -> None:
    with writing(base) as transaction:
        assert states(base) == ["deltacommit inflight"]
        transaction.commit({}, "UPSERT", {})
    names = sorted(path.name for path in Path(base, ".hoodie").glob("2*"))
    assert names == [f"{transaction.instant}.deltacommit{end}" for end in ("", ".inflight", ".requested")]


def log_of(base: str, transaction: Transaction, version: int, content: bytes = b"") -> str:
    file = f"p/.a-0_20260101000000000.log.{version}_0-1-2"
    create_marker(STORAGE, base, transaction.instant, Marker(file, MarkerType.APPEND))
    STORAGE.create(f"{base}/{file}", content)
    return file


def test_logs_that_no_task_reports_go_before_the_commit(base: str) -> None:
    with writing(base) as transaction:
        reported, stray = log_of(base, transaction, 1), log_of(base, transaction, 2)
        transaction.commit({"p": [WriteStat(path=reported, file_id="a-0", log_version=1)]}, "UPSERT", {})
    assert Path(base, reported).exists()
    assert not Path(base, stray).exists()


def test_a_withdrawn_write_leaves_no_log(base: str) -> None:
    transaction = writing(base)
    log_of(base, transaction, 1)
    with pytest.raises(ZeroDivisionError):
        failing(transaction)
    assert not list(Path(base, "p").glob(".a-0*"))
    assert states(base) == litter(base) == []
