"""Transaction: who may begin, what publishing is, what is withdrawn. Crash tests prove the order of steps."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hoodie.concurrency import gate as module
from hoodie.config.key import Config
from hoodie.errors import CommitUnknown, Fenced, TableBusy, TableError
from hoodie.storage import Check
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.handle import Table, TableRef
from hoodie.table.heartbeat import heartbeat_path
from hoodie.table.markers import Marker, MarkerType, create_marker
from hoodie.table.participant import Commit, CommitParticipant
from hoodie.table.settings import INTERVAL_MS, TOLERABLE_MISSES
from hoodie.timeline import store
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.restore import RestorePlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackPlan
from hoodie.timeline.time import InstantTime
from hoodie.timeline.token_store import swept_folders
from hoodie.timeline.tokens import TOKEN_KEY
from hoodie.write.transaction import Transaction
from tests.support.stores import store_at

STORAGE = LocalStorage()
CONFIG = Config.of({})


@pytest.fixture
def base(tmp_path: Path) -> str:
    properties.create(STORAGE, str(tmp_path), {properties.NAME: "t"})
    return str(tmp_path)


def begun(base: str, storage: LocalStorage = STORAGE) -> Transaction:
    transaction = Transaction(Table(TableRef(base), storage), CONFIG, True)
    transaction.begin()
    transaction.inflight(CommitMetadata())
    return transaction


def written(base: str, transaction: Transaction, group: str = "a") -> dict[str, list[WriteStat]]:
    """A data file of the transaction, with its marker."""
    file = f"p/{group}-0_0-1-2_{transaction.instant}.parquet"
    create_marker(STORAGE, base, transaction.instant, Marker(file, MarkerType.CREATE))
    STORAGE.create(f"{base}/p/.hoodie_partition_metadata", b"x")
    STORAGE.create(f"{base}/{file}", b"rows")
    return {"p": [WriteStat(path=file, file_id=f"{group}-0")]}


def fail_in(transaction: Transaction) -> None:
    with transaction:
        written(transaction.base_path, transaction)
        _ = 1 / 0


def states(base: str) -> list[str]:
    return [str(instant) for instant in Timeline.load(base, STORAGE)]


def litter(base: str) -> list[str]:
    found = [*Path(base, ".hoodie/.temp").iterdir(), *Path(base, ".hoodie/.heartbeat").iterdir()]
    return [str(path) for path in (*found, *Path(base).rglob("*.hoodie-tmp"))]


def data(base: str) -> list[str]:
    return sorted(os.path.basename(path) for path in Path(base).rglob("*.parquet"))


def test_a_commit(base: str) -> None:
    with begun(base) as transaction:
        stats = written(base, transaction)
        assert states(base) == [f"{transaction.instant} commit inflight"]
        metadata = transaction.commit(stats, "UPSERT", {"note": "x"})
    assert states(base) == [f"{transaction.instant} commit completed"]
    assert CommitMetadata.parse(Path(base, f".hoodie/{transaction.instant}.commit").read_bytes()) == metadata
    assert metadata.extra_metadata == {"note": "x"}
    assert len(data(base)) == 1
    assert litter(base) == []
    assert transaction.rolled_back == []


def test_leaving_without_a_commit_withdraws_everything(base: str) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_in(begun(base))
    assert states(base) == data(base) == litter(base) == []


def test_a_second_transaction_of_this_process_is_refused(base: str) -> None:
    with begun(base) as first:
        with (
            pytest.raises(TableBusy, match=first.instant) as refused,
            Transaction(Table(TableRef(base), STORAGE), CONFIG, True) as t,
        ):
            t.begin()
        assert refused.value.values["instant"] == first.instant
        dead_after = re.search(r"or, if it is dead, for (\d+) s$", str(refused.value))
        assert dead_after is not None
        whole = CONFIG[INTERVAL_MS] * CONFIG[TOLERABLE_MISSES] // 1000
        assert whole - 60 < int(dead_after[1]) <= whole + 1
        assert states(base) == [f"{first.instant} commit inflight"]
        first.commit({}, "UPSERT", {})
    assert litter(base) == []


def test_writers_that_announce_themselves_in_one_millisecond(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one can't take the first one's heartbeat for its own."""
    with begun(base) as first:
        times = iter([first.instant, "29990101000000000", "29990101000000001"])
        monkeypatch.setattr(module, "new_instant_time", lambda after, utc: next(times))
        with (
            pytest.raises(TableBusy, match=first.instant),
            Transaction(Table(TableRef(base), STORAGE), CONFIG, True) as second,
        ):
            second.begin()
        assert os.listdir(f"{base}/.hoodie/.heartbeat") == [first.instant]


def test_a_writer_between_its_two_heartbeats_is_not_overlooked(base: str) -> None:
    """A listing may miss the first, removed while it ran, and the second, made while it ran."""

    class Listing(LocalStorage):
        blind = True

        def list(self, path: str) -> list:  # type: ignore[type-arg]
            found = super().list(path)
            if path.endswith(".heartbeat") and self.blind:
                self.blind = False
                return []
            return found

    with begun(base) as first:
        with (
            pytest.raises(TableBusy, match=first.instant),
            Transaction(Table(TableRef(base), Listing()), CONFIG, True) as second,
        ):
            second.begin()
        assert states(base) == [f"{first.instant} commit inflight"]


def test_no_free_instant_is_an_error(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = "20260101000000000"
    STORAGE.create(heartbeat_path(base, taken), b"")
    monkeypatch.setattr(module, "new_instant_time", lambda after, utc: taken)
    with (
        pytest.raises(TableError, match="no free instant"),
        Transaction(Table(TableRef(base), STORAGE), CONFIG, True) as transaction,
    ):
        transaction.begin()
    assert os.listdir(f"{base}/.hoodie/.heartbeat") == [taken]


def test_a_taken_instant_is_passed_over_and_not_withdrawn(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apache Hudi may take the very instant, without a heartbeat."""

    class Rival(LocalStorage):
        def create(self, path: str, content: bytes, check: Check = None) -> None:
            if path.endswith(".commit.requested") and not rival:
                rival.append(path)
                super().create(path, b"")
            super().create(path, content, check)

    rival: list[str] = []
    transaction = begun(base, Rival())
    assert transaction.instant not in rival[0]
    with pytest.raises(ZeroDivisionError):
        fail_in(transaction)
    assert [path.name for path in Path(base, ".hoodie").glob("*.requested")] == [os.path.basename(rival[0])]


class Publishing(LocalStorage):
    """Fails around the completed file."""

    def __init__(self, done: Callable[[], None], *, creates: bool = True, blind: bool = False) -> None:
        self.done, self.creates, self.blind = done, creates, blind

    def create(self, path: str, content: bytes, check: Check = None) -> None:
        if not path.endswith(".commit"):
            super().create(path, content, check)
            return
        if self.creates:
            super().create(path, content, check)
        self.done()

    def exists(self, path: str) -> bool:
        if self.blind and path.endswith(".commit"):
            raise OSError("no answer")
        return super().exists(path)


def fail(error: type[BaseException]) -> Callable[[], None]:
    def call() -> None:
        raise error("lost connection")

    return call


def test_published_though_the_storage_said_no(base: str) -> None:
    with begun(base, Publishing(fail(OSError))) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert states(base) == [f"{transaction.instant} commit completed"]
    assert len(data(base)) == 1
    assert litter(base) == []


def test_not_published_is_withdrawn(base: str) -> None:
    with (
        pytest.raises(OSError, match="lost"),
        begun(base, Publishing(fail(OSError), creates=False)) as transaction,
    ):
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert states(base) == data(base) == litter(base) == []


def test_a_commit_that_no_reader_would_take_is_withdrawn(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_READ_BYTES", 1000)
    why = "and a reader takes at most 1000: too many files for one instant"
    with pytest.raises(TableError, match=why), begun(base) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {"note": "x" * 1000})
    assert states(base) == data(base) == litter(base) == []


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize("create", [True, False])
def test_when_nobody_knows_whether_it_was_published_nothing_is_withdrawn(
    base: str, create: bool, token: bool
) -> None:
    storage = Publishing(fail(OSError), creates=create, blind=True)
    look = "Run it again: it finds" if token else "Look at the timeline"
    with (
        pytest.raises(CommitUnknown, match=f"lost connection.*{look}") as unknown,
        begun(base, storage) as transaction,
    ):
        transaction.commit(written(base, transaction), "UPSERT", {TOKEN_KEY: "t"} if token else {})
    assert unknown.value.values["repeatable"] is token
    assert len(data(base)) == 1
    with begun(base) as following:
        following.commit({}, "UPSERT", {})
    assert following.rolled_back == ([] if create else [transaction.instant])
    assert len(data(base)) == (1 if create else 0)
    assert litter(base) == []


def test_interrupted_after_publishing_stays_published(base: str) -> None:
    with pytest.raises(KeyboardInterrupt), begun(base, Publishing(fail(KeyboardInterrupt))) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert states(base) == [f"{transaction.instant} commit completed"]
    assert len(data(base)) == 1
    assert os.listdir(f"{base}/.hoodie/.heartbeat") == []


class Tidying(LocalStorage):
    """Fails at everything that comes after publishing."""

    published = False

    def create(self, path: str, content: bytes, check: Check = None) -> None:
        super().create(path, content, check)
        self.published |= path.endswith(".commit")

    def _fails(self) -> None:
        if self.published:
            raise OSError("gone")

    def delete(self, path: str) -> None:
        self._fails()
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self._fails()
        super().delete_tree(path)

    def list(self, path: str) -> list:  # type: ignore[type-arg]
        self._fails()
        return super().list(path)


def test_failures_after_publishing_are_no_errors_and_the_next_writer_tidies_up(base: str) -> None:
    with begun(base, Tidying()) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert len(litter(base)) == 2
    with begun(base) as following:
        following.commit({}, "UPSERT", {})
    assert following.rolled_back == []
    assert len(data(base)) == 1
    assert litter(base) == []


def undo(base: str, instant: str, action: Action = Action.ROLLBACK) -> None:
    """Another process has the plan of a rollback or restore of this instant on the timeline."""
    target = InstantInfo(time=InstantTime(instant), action="commit")
    plan = RollbackPlan(target) if action is Action.ROLLBACK else RestorePlan((target,))
    store_at(base).create(Instant(InstantTime("29990101000000000"), action, State.REQUESTED), plan.to_bytes())


@pytest.fixture
def rolled_back(base: str) -> Callable[[Transaction], None]:
    """Another writer takes a transaction for dead, and has a rollback on the timeline."""

    def call(transaction: Transaction) -> None:
        os.unlink(heartbeat_path(base, transaction.instant))
        undo(base, transaction.instant)

    return call


def test_commit_is_refused_once_rolled_back_and_late_files_go(
    base: str, rolled_back: Callable[[Transaction], None]
) -> None:
    transaction = begun(base)
    stats = written(base, transaction)
    rolled_back(transaction)
    STORAGE.delete_tree(f"{base}/.hoodie/.temp/{transaction.instant}")
    with pytest.raises(Fenced, match="taken for dead"), transaction:
        transaction.commit(stats, "UPSERT", {})
    assert data(base) == litter(base) == []
    assert not list(Path(base, ".hoodie").glob(f"{transaction.instant}*"))


def test_rolled_back_between_looking_and_publishing(base: str) -> None:
    def rival() -> None:
        undo(base, transaction.instant)

    with pytest.raises(Fenced, match="taken for dead"), begun(base, Publishing(rival)) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert data(base) == litter(base) == []
    assert not list(Path(base, ".hoodie").glob(f"{transaction.instant}*"))


def test_a_backup_that_a_killed_update_left_is_taken_away(base: str) -> None:
    whole = Path(base, ".hoodie/hoodie.properties").read_bytes()
    Path(base, ".hoodie/hoodie.properties.backup").write_bytes(whole)
    Path(base, ".hoodie/hoodie.properties").write_bytes(whole[:20])
    with begun(base) as transaction:
        transaction.commit({}, "UPSERT", {})
    assert Path(base, ".hoodie/hoodie.properties").read_bytes() == whole
    assert not Path(base, ".hoodie/hoodie.properties.backup").exists()


def test_markers_of_finished_writes_are_swept_with_the_files_nobody_reported(base: str) -> None:
    with begun(base) as first:
        stats = written(base, first)
        first.commit(stats, "UPSERT", {})
    for time, file in ((first.instant, "late"), ("29980101000000000", "unknown"), ("1", "archived")):
        name = f"p/{file}-0_0-1-2_{time}.parquet"
        STORAGE.create(f"{base}/.hoodie/.temp/{time}/{name}.marker.CREATE", b"")
        STORAGE.create(f"{base}/{name}", b"rows")
    STORAGE.create(f"{base}/p/.x.1.hoodie-tmp", b"")
    with begun(base) as second:
        second.commit({}, "UPSERT", {})
    assert [file.split("-")[0] for file in data(base)] == ["a", "archived"]
    assert litter(base) == []


@pytest.mark.parametrize("action", [Action.ROLLBACK, Action.RESTORE])
def test_a_later_rollback_or_restore_means_that_another_writer_took_over(base: str, action: Action) -> None:
    transaction = begun(base)
    stats = written(base, transaction)
    undo(base, transaction.instant, action)
    with pytest.raises(Fenced, match="taken for dead"), transaction:
        transaction.commit(stats, "UPSERT", {})
    assert data(base) == []


@pytest.mark.parametrize("action", [Action.ROLLBACK, Action.RESTORE])
def test_a_later_rollback_of_another_instant_is_no_sign(base: str, action: Action) -> None:
    """Another writer undid what a third one began."""
    with begun(base) as transaction:
        undo(base, "20260101000000000", action)
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert f"{transaction.instant} commit completed" in states(base)
    assert len(data(base)) == 1


@pytest.mark.parametrize("suffix", ["commit.requested", "inflight"])
def test_a_writer_whose_instant_is_gone_was_rolled_back(base: str, suffix: str) -> None:
    transaction = begun(base)
    stats = written(base, transaction)
    os.unlink(f"{base}/.hoodie/{transaction.instant}.{suffix}")
    with pytest.raises(Fenced, match="taken for dead"), transaction:
        transaction.commit(stats, "UPSERT", {})
    assert data(base) == states(base) == []


def test_a_metadata_table_that_the_properties_do_not_name_goes(base: str) -> None:
    """Its folder is all that a reader looks for, who does not ask the properties."""
    STORAGE.create(f"{base}/.hoodie/metadata/.hoodie/hoodie.properties", b"x")
    with begun(base) as transaction:
        transaction.commit({}, "UPSERT", {})
    assert transaction.metadata_table_removed
    assert not Path(base, ".hoodie/metadata").exists()


def test_unfinished_files_are_swept_wherever_writers_make_them(base: str) -> None:
    folders = [f"{base}/.hoodie{name}" for name in ("", "/.aux", "/.heartbeat")]
    folders += swept_folders(base)
    for folder in folders:
        STORAGE.create(f"{folder}/.x.1.hoodie-tmp", b"")
    with begun(base) as transaction:
        transaction.commit({}, "UPSERT", {})
    assert not any(Path(folder, ".x.1.hoodie-tmp").exists() for folder in folders)


class Toy(CommitParticipant):
    """Writes down what it is asked, and keeps a file for each instant that it prepared."""

    def __init__(self, base: str, name: str, calls: list[str], fails: bool = False) -> None:
        self.place, self.name, self.calls, self.fails = Path(base, name), name, calls, fails

    def begin(self, table: Table) -> None:
        self.calls.append(f"{self.name} begins")

    def prepare(self, commit: Commit) -> None:
        time, action = commit.instant.time, commit.instant.action.value
        assert not Path(commit.table.base_path, ".hoodie", f"{time}.{action}").exists()
        self.calls.append(f"{self.name} prepares {action}")
        self.place.mkdir(exist_ok=True)
        (self.place / commit.instant.time).write_bytes(commit.data)
        if self.fails:
            raise OSError("no")

    def undo(self, table: Table, instant: Instant) -> None:
        self.calls.append(f"{self.name} undoes")
        (self.place / instant.time).unlink(missing_ok=True)


def with_toys(base: str, *toys: Toy) -> Transaction:
    transaction = Transaction(Table(TableRef(base), STORAGE), CONFIG, True, participants=toys)
    transaction.begin()
    transaction.inflight(CommitMetadata())
    return transaction


def test_participants_prepare_in_order_before_the_commit_is_published(base: str) -> None:
    calls: list[str] = []
    toys = Toy(base, "one", calls), Toy(base, "two", calls)
    with with_toys(base, *toys) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {})
    assert calls == ["one begins", "two begins", "one prepares commit", "two prepares commit"]
    assert [os.listdir(toy.place) for toy in toys] == [[transaction.instant]] * 2


def test_a_participant_that_fails_to_prepare_publishes_nothing(base: str) -> None:
    calls: list[str] = []
    toys = Toy(base, "one", calls), Toy(base, "two", calls, fails=True), Toy(base, "three", calls)
    with pytest.raises(OSError, match="no"), with_toys(base, *toys) as transaction:
        transaction.commit(written(base, transaction), "UPSERT", {})
    prepared = ["one prepares commit", "two prepares commit"]
    assert calls[3:] == [*prepared, "three undoes", "two undoes", "one undoes"]
    assert os.listdir(toys[0].place) == os.listdir(toys[1].place) == []
    assert states(base) == data(base) == litter(base) == []


def test_what_a_dead_writer_prepared_is_undone_by_the_next_one(base: str) -> None:
    calls: list[str] = []
    toy = Toy(base, "one", calls)
    dead = with_toys(base, toy)
    instant = Instant(dead.instant, Action.COMMIT, State.COMPLETED)
    toy.prepare(Commit(table=dead.table, instant=instant, metadata=CommitMetadata()))
    os.utime(heartbeat_path(base, dead.instant), (1, 1))
    with with_toys(base, toy) as following:
        following.commit({}, "UPSERT", {})
    assert following.rolled_back == [dead.instant]
    assert calls[:4] == ["one begins", "one prepares commit", "one begins", "one undoes"]
    assert calls[4:] == ["one prepares rollback", "one prepares commit"]
    assert sorted(os.listdir(toy.place)) == [text.split()[0] for text in states(base)]
