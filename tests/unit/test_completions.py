"""Two processes complete one instant, of a table or of its metadata table, at the same moment: the second one
begins and ends between the first one's last look and its file. The instant has one completed file.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import AlreadyExists, HoodieError
from hoodie.metadata.services import archive
from hoodie.metadata.written_table import MaintenancePolicy, WrittenTable
from hoodie.storage import Check
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.table.heartbeat import heartbeat_folder
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from hoodie.timeline.instant_metadata import Metadata
from hoodie.timeline.models.clean import CleanMetadata, CleanPlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import REQUESTED, InstantTime
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements
from tests.support.objects import SCHEME, Objects, stored
from tests.support.storages import registered

OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.name": "t",
    "hoodie.clean.automatic": "false",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.index.bloom.num_entries": "100",
}
META = r"/\.hoodie/(timeline/)?\d+(_\d+)?"
METADATA = r"/metadata" + META


class Killed(RuntimeError):
    """A process dies there."""


class MeetingFiles(LocalStorage):
    """Something happens once, right before a file of that name is created."""

    due: ClassVar[list[tuple[str, Callable[[], object]]]] = []

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        _meet(self.due, path)
        super().create(path, data, check)


class MeetingObjects(Objects):
    due = MeetingFiles.due

    def create(self, path: str, data: bytes, check: Check = None) -> None:
        _meet(self.due, path)
        super().create(path, data, check)


def _meet(due: list[tuple[str, Callable[[], object]]], path: str) -> None:
    if due and re.search(due[0][0] + "$", path):
        due.pop(0)[1]()


def meet(name: str, what: Callable[[], object]) -> None:
    MeetingFiles.due.append((name, what))


@pytest.fixture(params=[6, 9], ids=lambda number: f"version {number}", autouse=True)
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of the tables."""
    with new_tables_of(request.param):
        yield request.param


@pytest.fixture(params=["files", "objects"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        if request.param == "files":
            stack.enter_context(registered("file", MeetingFiles))
            found = str(tmp_path / "t")
        else:
            found = f"{stack.enter_context(stored(tmp_path))}/t"
            stack.enter_context(registered(SCHEME, MeetingObjects))
        yield found
        assert not MeetingFiles.due, "it was met"
    MeetingFiles.due.clear()


def upsert(path: str, number: int) -> hoodie.WriteResult:
    rows = pa.table({"id": ["shared", f"own-{number}"], "ts": [number, number]})
    return hoodie.write_table(rows, path, options=OPTIONS)


def stored_rows(path: str) -> list[tuple[str, int]]:
    found = hoodie.read_table(path, meta=False).to_pydict()
    return sorted(zip(found["id"], found["ts"], strict=True))


def expected(*numbers: int) -> list[tuple[str, int]]:
    return sorted([("shared", max(numbers)), *((f"own-{number}", number) for number in numbers)])


def cleaning(path: str) -> Callable[[], Any]:
    """A clean that is planned, for any process to execute."""
    for number in range(4):
        upsert(path, number)
    hoodie.clean_table(path, mode="schedule", options=OPTIONS)
    return lambda: hoodie.clean_table(path, mode="execute", options=OPTIONS)


def agreed(table: Table) -> dict[str, str]:
    """The times of completion that processes agreed on, by the names of their files."""
    items = table.storage.list(f"{table.base_path}/.hoodie/.aux")
    return {item.name: table.storage.read(item.path).decode() for item in items if item.name[0].isdigit()}


def check(path: str, *numbers: int) -> None:
    """Nothing is pending or ambiguous, no agreement is left, and the metadata table lists the files."""
    for folder in (path, f"{path}/.hoodie/metadata"):
        table = Table.open(folder)
        assert Timeline.load(folder, table.storage).pending() == []
        assert agreed(table) == {}
    assert stored_rows(path) == expected(*numbers)
    if "://" not in path:
        assert disagreements(path) == []
    done = upsert(path, 9)
    assert done.rolled_back == []
    assert done.warnings == []
    assert stored_rows(path) == expected(*numbers, 9)


@pytest.mark.parametrize("name", [META + r"\.clean", METADATA + r"\.deltacommit"], ids=["itself", "metadata"])
def test_two_executions_of_a_clean(path: str, name: str) -> None:
    """At its own completion, and at that of its deltacommit in the metadata table."""
    clean = cleaning(path)
    meet(name, clean)
    assert "completed by another process" in clean().reason
    check(path, *range(4))


def test_two_processes_finish_a_rollback_of_the_metadata_table(path: str) -> None:
    """Of the deltacommit of a clean that was killed; the process that rolled it back was killed, too."""
    clean = cleaning(path)

    def die() -> None:
        raise Killed

    for name in (r"\.deltacommit", r"\.rollback"):
        meet(METADATA + name, die)
        with pytest.raises(Killed):
            clean()
    meet(METADATA + r"\.rollback", clean)
    assert "completed by another process" in clean().reason
    check(path, *range(4))


def test_two_processes_compact_the_metadata_table(path: str) -> None:
    """The second one takes the first one for dead, and finishes its compaction."""

    def rival() -> None:
        table = Table.open(path)
        (beat,) = table.storage.list(heartbeat_folder(table.base_path))
        place = Path(os.environ["HOODIE_TEST_OBJECTS"], "bucket/t") if "://" in path else Path(path)
        os.utime(place / ".hoodie/.heartbeat" / beat.name, (1, 1))
        upsert(path, 7)

    meet(METADATA + r"\.commit", rival)
    numbers = []
    for number in range(6):
        met = not MeetingFiles.due
        with contextlib.suppress(HoodieError):
            upsert(path, number)
            numbers.append(number)
        if not met and not MeetingFiles.due:
            numbers.append(7)
    assert len(numbers) == 6
    check(path, *numbers)


def test_agreements_of_killed_processes_go_with_the_archived_instants(path: str) -> None:
    options = {**OPTIONS, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    for number in range(8):
        upsert(path, number)
    hoodie.clean_table(path, options=options)
    times = [entry["instant"] for entry in hoodie.instants(path)]
    metadata = Table.open(f"{path}/.hoodie/metadata")
    for table in (Table.open(path), metadata):
        for time in (times[1], times[-1]):
            table.storage.write(f"{table.base_path}/.hoodie/.aux/{time}.rollback", times[-1].encode())
    assert times[1] in {item["instant"] for item in hoodie.archive_table(path, options=options).archived}
    archive(WrittenTable(Table.open(path)), MaintenancePolicy(keep_least=2, keep_most=3))
    assert times[1] not in {item.time for item in metadata.timeline}
    for table in (Table.open(path), metadata):
        assert agreed(table) == {f"{times[-1]}.rollback": times[-1]}


def test_no_clean_or_rollback_stays_before_an_archived_commit(path: str, version: int) -> None:
    """Apache Hudi 1.x looks for times of completion in the archive only before the first instant of the
    timeline: of a commit after that, it would take log files for those of the newest slice.
    """
    if version == 6:
        pytest.skip("its slices are not found by times of completion")
    options = {**OPTIONS, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    for number in range(9):
        if number in (1, 5):

            def die() -> None:
                raise Killed

            meet(META + r"\.commit", die)
            with pytest.raises(Killed):
                upsert(path, 20 + number)
        upsert(path, number)
        hoodie.clean_table(path, options=options)
    assert hoodie.archive_table(path, options=options).archived
    archive(WrittenTable(Table.open(path)), MaintenancePolicy(keep_least=2, keep_most=3))
    for table in (Table.open(path), Table.open(f"{path}/.hoodie/metadata")):
        gone = [item.time for item in table.archive.instants() if item.comparable_action in COMMIT_ACTIONS]
        assert gone
        assert not [str(item) for item in table.timeline if item.is_before(REQUESTED.last(gone))]
    check(path, *range(9))


def _ends(time: InstantTime) -> dict[Action, Metadata]:
    info = InstantInfo(time, Action.DELTACOMMIT.value)
    return {
        Action.CLEAN: CleanMetadata.of(time, 1, CleanPlan(policy="KEEP_LATEST_COMMITS", files={}), {}),
        Action.ROLLBACK: RollbackMetadata.of(time, 1, info, {}),
        Action.COMPACTION: CommitMetadata(operation_type="COMPACT"),
        Action.DELTACOMMIT: CommitMetadata(operation_type="UPSERT_PREPPED"),
    }


@pytest.mark.parametrize(
    "action", [Action.CLEAN, Action.ROLLBACK, Action.COMPACTION, Action.DELTACOMMIT], ids=lambda it: it.value
)
def test_each_instant_of_a_metadata_table_has_one_completed_file(path: str, action: Action) -> None:
    upsert(path, 0)
    first, second = (WrittenTable(Table.open(path)) for _ in range(2))
    instant = Instant(first.rollback_time(InstantTime("20260101000000000")), action, State.INFLIGHT)
    metadata = _ends(instant.time)[action]
    begin_instant(first.store, instant.with_state(State.REQUESTED))
    begin_instant(first.store, instant)
    meet(METADATA + rf"\.{instant.comparable_action.value}", lambda: second.complete(instant, metadata))
    with pytest.raises(AlreadyExists):
        first.complete(instant, metadata)
    (found,) = [item for item in first.refresh() if item.time == instant.time]
    assert found.completed
    assert agreed(first) == {}


@pytest.mark.parametrize(
    "action", [Action.CLEAN, Action.ROLLBACK, Action.COMPACTION], ids=lambda it: it.value
)
def test_a_process_that_is_killed_before_the_file_hands_its_time_on(
    path: str, action: Action, version: int
) -> None:
    upsert(path, 0)
    first, second = (WrittenTable(Table.open(path)) for _ in range(2))
    instant = Instant(first.rollback_time(InstantTime("20260101000000000")), action, State.INFLIGHT)
    metadata = _ends(instant.time)[action]
    begin_instant(first.store, instant.with_state(State.REQUESTED))
    begin_instant(first.store, instant)
    known: dict[str, str] = {}

    def die() -> None:
        known.update(agreed(first))
        raise Killed

    meet(METADATA + rf"\.{instant.comparable_action.value}", die)
    with pytest.raises(Killed):
        first.complete(instant, metadata)
    second.complete(instant, metadata)
    (found,) = [item for item in second.refresh() if item.time == instant.time]
    assert found.completed
    name = f"{instant.time}.{instant.comparable_action.value}"
    assert known == ({} if version == 6 else {name: found.completion})
    assert agreed(second) == {}
