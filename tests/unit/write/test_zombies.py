"""A writer that slept past its heartbeat, was rolled back by another one and goes on: it never publishes."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import AlreadyExists, CommitUnknown, Fenced
from hoodie.storage import Check
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.heartbeat import heartbeat_folder, heartbeat_path
from hoodie.table.rolled_back import names_missing_files
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, ReplaceCommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.store import create_instant
from hoodie.write import repair
from hoodie.write.inflight import InflightService
from hoodie.write.transaction import Transaction
from tests.support.later_tables import new_tables_of
from tests.support.objects import SCHEME, Objects, stored
from tests.support.storages import registered
from tests.support.tiers import crossed_but

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
}


@pytest.fixture(autouse=True, params=[pytest.param(6, id="version 6"), pytest.param(9, id="version 9")])
def _version(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of the tables."""
    with new_tables_of(request.param):
        yield


class SleepyFiles(LocalStorage):
    """Something happens once, between a writer's last look before it publishes and the publishing."""

    asleep: ClassVar[list[Callable[[], object]]] = []

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        super().create(path, data, _sleeping(self.asleep, path, check))


class SleepyObjects(Objects):
    asleep = SleepyFiles.asleep

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        super().create(path, data, _sleeping(self.asleep, path, check))


def _sleeping(asleep: list[Callable[[], object]], path: str, check: Check) -> Check:
    def look() -> None:
        if check is not None:
            check()
        if asleep and path.endswith((".commit", ".replacecommit")):
            asleep.pop()()

    return look


@pytest.fixture(params=["files", "objects"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        if request.param == "files":
            stack.enter_context(registered("file", SleepyFiles))
            found = str(tmp_path / "t")
        else:
            found = f"{stack.enter_context(stored(tmp_path))}/t"
            stack.enter_context(registered(SCHEME, SleepyObjects))
        upsert(found, 0)
        yield found
    SleepyFiles.asleep.clear()


def upsert(path: str, number: int, operation: str = "upsert") -> hoodie.WriteResult:
    rows = pa.table({"id": ["shared", f"own-{number}"], "ts": [number, number]})
    return hoodie.write_table(rows, path, operation=operation, options=OPTIONS)


def stored_rows(path: str) -> list[tuple[str, int]]:
    found = hoodie.read_table(path, meta=False).to_pydict()
    return sorted(zip(found["id"], found["ts"], strict=True))


def expected(*numbers: int) -> list[tuple[str, int]]:
    return sorted([("shared", max(numbers)), *((f"own-{number}", number) for number in numbers)])


def declare_dead(path: str) -> str:
    """The heartbeat of the one at work is of long ago; gives its instant."""
    table = Table.open(path)
    (beat,) = table.storage.list(heartbeat_folder(table.base_path))
    place = Path(os.environ["HOODIE_TEST_OBJECTS"], "bucket/t") if "://" in path else Path(path)
    os.utime(place / ".hoodie/.heartbeat" / beat.name, (1, 1))
    return beat.name


@pytest.mark.parametrize(
    ("path", "operation"),
    crossed_but(
        {"files-upsert", "objects-insert_overwrite_table"},
        {storage: storage for storage in ("files", "objects")},
        {name: name for name in ("upsert", "insert_overwrite_table")},
    ),
    indirect=["path"],
)
def test_it_slept_between_its_last_look_and_the_publishing(path: str, operation: str) -> None:
    """It was rolled back, and another write came after it."""
    slept: list[str] = []

    def rival() -> None:
        slept.append(declare_dead(path))
        assert upsert(path, 2).rolled_back == slept

    SleepyFiles.asleep.append(rival)
    with pytest.raises(Fenced):
        upsert(path, 1, operation)
    assert stored_rows(path) == expected(0, 2)
    assert slept[0] not in {entry["instant"] for entry in hoodie.instants(path)}
    assert upsert(path, 3).rolled_back == []
    assert stored_rows(path) == expected(0, 2, 3)


def test_it_was_taken_for_dead_and_can_not_see_what_became_of_its_commit(path: str) -> None:
    """Where the storage fences, whoever took it for dead sees the commit."""
    table = Table.open(path)

    def rival() -> None:
        (beat,) = table.storage.names(heartbeat_folder(path))
        table.storage.delete(heartbeat_path(path, beat))

    SleepyFiles.asleep.append(rival)
    if table.storage.fences:
        upsert(path, 1)
    else:
        with pytest.raises(CommitUnknown, match=r"can't be seen whether it stays.*Look at the timeline"):
            upsert(path, 1)
    assert stored_rows(path) == expected(0, 1)


@pytest.mark.parametrize(
    ("path", "action"),
    crossed_but(
        {"objects-commit", "objects-replacecommit"},
        {storage: storage for storage in ("files", "objects")},
        {action.value: action for action in (Action.COMMIT, Action.REPLACECOMMIT)},
    ),
    indirect=["path"],
)
def test_it_published_after_all_and_died_there(path: str, action: Action) -> None:
    """As nothing but an object store lets it: the next writer takes the commit back."""
    table = Table.open(path)
    zombie = Transaction(table, Config.of({}), True, action)
    zombie.begin()
    zombie.inflight(CommitMetadata())
    declare_dead(path)
    assert upsert(path, 1).rolled_back == [zombie.instant]
    assert zombie._attempt is not None
    name = f"{uuid.uuid4()}-0_0-9-9_{zombie.instant}.parquet"
    written = {"": (WriteStat(file_id=name[:38], path=name, num_writes=1),)}
    metadata = CommitMetadata(written, operation_type="UPSERT")
    if action is Action.REPLACECOMMIT:
        groups = {"": tuple(str(group["file_id"]) for group in hoodie.file_groups(path))}
        metadata = ReplaceCommitMetadata(
            written, operation_type="INSERT_OVERWRITE_TABLE", partition_to_replace_file_ids=groups
        )
    completed = zombie.table.completing(zombie._attempt.pending)
    zombie.table.store.create(completed, zombie.table.store.content(metadata))
    assert upsert(path, 2).rolled_back == [zombie.instant]
    assert stored_rows(path) == expected(0, 1, 2)
    assert zombie.instant not in {entry["instant"] for entry in hoodie.instants(path)}


def begun(path: str, service: str) -> tuple[Transaction, Instant, dict[str, list[WriteStat]]]:
    """A service that has written its files, and sleeps before it publishes."""
    schedule(path, service)
    (planned,) = Timeline.load(path).pending()
    sleeper = Transaction(Table.open(path), Config.of({}), True)
    sleeper.resume(planned, [""])
    name = f"{uuid.uuid4()}-0_0-9-9_{planned.time}.parquet"
    sleeper.storage.write(f"{path}/{name}", b"gone soon")
    return sleeper, planned, {"": [WriteStat(file_id=name[:38], path=name, num_writes=1)]}


def schedule(path: str, service: str) -> None:
    run_service(path, service, "schedule")


def run_service(path: str, service: str, mode: str) -> Any:
    if service == "compact":
        return hoodie.compact_table(path, mode=mode, options=SERVICES)
    return hoodie.cluster_table(path, mode=mode, options=SERVICES)


def publish(path: str, sleeper: Transaction, planned: Instant, stats: Mapping[str, list[WriteStat]]) -> None:
    """As nothing but an object store lets it; then it dies."""
    written = {partition: tuple(group) for partition, group in stats.items()}
    metadata = CommitMetadata(written, True, {}, "COMPACT")
    if planned.replaces:
        groups = {"": tuple(str(group["file_id"]) for group in hoodie.file_groups(path))}
        metadata = ReplaceCommitMetadata(written, False, {}, "CLUSTER", partition_to_replace_file_ids=groups)
    completed = sleeper.table.completing(planned, shared=True)
    sleeper.table.store.create(completed, sleeper.table.store.content(metadata))


@pytest.fixture(params=["compact", "cluster"])
def serviced(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A table on a storage that does not fence, with something to do for the service."""
    with stored(tmp_path) as bucket:
        path = f"{bucket}/t"
        logs = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
        files = {"hoodie.parquet.small.file.limit": "0"}
        options = {**OPTIONS, **(logs if request.param == "compact" else files)}
        first = ["own-0", "shared"] if request.param == "compact" else ["own-0"]
        hoodie.write_table(pa.table({"id": first, "ts": [0] * len(first)}), path, options=options)
        hoodie.write_table(pa.table({"id": ["shared"], "ts": [1]}), path, options=options)
        yield path, request.param


BOTH = [("own-0", 0), ("shared", 1)]
MORE = [("own-0", 0), ("own-2", 2), ("shared", 2)]
SERVICES = {"hoodie.compact.inline.max.delta.commits": "1"}


def test_a_service_published_after_its_plan_was_cancelled_and_died(serviced: tuple[str, str]) -> None:
    path, service = serviced
    sleeper, planned, stats = begun(path, service)
    declare_dead(path)
    hoodie.cancel_plan(path, planned.time)
    publish(path, sleeper, planned, stats)
    assert upsert(path, 2).rolled_back == [planned.time]
    assert stored_rows(path) == MORE
    assert planned.time not in {entry["instant"] for entry in hoodie.instants(path)}
    assert run_service(path, service, "run").num_files == 1
    assert stored_rows(path) == MORE


def test_a_service_published_while_its_successor_was_at_work_and_died(
    serviced: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor, which has deleted its files, takes the commit back and publishes its own."""
    path, service = serviced
    sleeper, planned, stats = begun(path, service)
    declare_dead(path)
    reconciled = InflightService.check_reconcile

    def late(self: InflightService) -> None:
        publish(path, sleeper, planned, stats)
        reconciled(self)

    monkeypatch.setattr(InflightService, "check_reconcile", late)
    result = run_service(path, service, "execute")
    assert result.instant == planned.time
    assert result.num_files == 1
    assert stored_rows(path) == BOTH
    assert upsert(path, 2).rolled_back == []
    assert stored_rows(path) == MORE


def test_a_service_published_while_its_successor_was_at_work_and_both_died(serviced: tuple[str, str]) -> None:
    """The next writer takes the commit back, and the plan is executed again."""
    path, service = serviced
    sleeper, planned, stats = begun(path, service)
    declare_dead(path)
    successor = Transaction(Table.open(path), Config.of({}), True)
    successor.resume(planned, [""])
    publish(path, sleeper, planned, stats)
    declare_dead(path)
    new = pa.table({"id": ["own-2"], "ts": [2]})
    assert hoodie.write_table(new, path, options=OPTIONS).rolled_back == [planned.time]
    assert stored_rows(path) == [("own-0", 0), ("own-2", 2), ("shared", 1)]
    assert [item.time for item in Timeline.load(path).pending()] == [planned.time]
    assert run_service(path, service, "execute").instant == planned.time
    assert upsert(path, 2).rolled_back == []
    assert stored_rows(path) == MORE


def test_a_commit_that_another_writer_takes_back_first_is_not_rolled_back_twice(
    serviced: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, service = serviced
    sleeper, planned, stats = begun(path, service)
    declare_dead(path)
    Transaction(Table.open(path), Config.of({}), True).resume(planned, [""])
    publish(path, sleeper, planned, stats)
    declare_dead(path)

    def late(table: Table, completed: Instant) -> bool:
        if {*table.storage.names(heartbeat_folder(path))} - {planned.time}:  # this write has the table
            table.store.delete_states([completed])
        return names_missing_files(table, completed)

    monkeypatch.setattr(repair, "names_missing_files", late)
    new = pa.table({"id": ["own-2"], "ts": [2]})
    assert hoodie.write_table(new, path, options=OPTIONS).rolled_back == []
    assert stored_rows(path) == [("own-0", 0), ("own-2", 2), ("shared", 1)]


def test_two_executions_of_one_plan_complete_it_once(serviced: tuple[str, str]) -> None:
    """The sleeper is past its last look since before its successor began."""
    path, service = serviced
    sleeper, planned, _ = begun(path, service)
    sleeping = sleeper.table.completing(planned, shared=True)
    declare_dead(path)
    assert run_service(path, service, "execute").instant == planned.time
    store, late = sleeper.table.store, sleeper.table.store.content(CommitMetadata())
    for completed in (sleeping, sleeper.table.completing(planned, shared=True)):
        with pytest.raises(AlreadyExists):
            create_instant(store, completed, late)
    with pytest.raises(AlreadyExists):
        store.create(sleeping, late)
    assert stored_rows(path) == BOTH
    assert upsert(path, 2).rolled_back == []
    assert stored_rows(path) == MORE
