"""Optimistic writers: several at once, of which the first to commit wins what both change."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import CommitConflict, ConfigError, ConflictError, TableBusy, TableError
from hoodie.storage.local import LocalStorage
from hoodie.timeline import clock
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.write.transaction import Transaction
from tests.support.at_once import LOCK, OPTIMISTIC, WORKLOADS, check, race
from tests.support.later_tables import new_tables_of
from tests.support.metadata import INDEXED, disagreements, has_metadata_table, misled
from tests.support.processes import forked, paused
from tests.support.storages import Delegating, wrapped

KEY = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
AT_ONCE = {**KEY, **OPTIMISTIC}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
KINDS = pytest.mark.parametrize("kind", [{}, MOR, {**MOR, **BUCKET}], ids=["cow", "mor", "bucket"])
TYPES = pytest.mark.parametrize(
    "kind",
    [{}, MOR, pytest.param({**MOR, **BUCKET}, marks=pytest.mark.full)],
    ids=["cow", "mor", "bucket"],
)


def rows(value: int, *keys: str, **columns: Any) -> pa.Table:
    """A key's first letter is its partition."""
    found = {"id": list(keys), "p": [key[0] for key in keys], "v": [value] * len(keys)}
    return pa.table({**found, **{name: [item] * len(keys) for name, item in columns.items()}})


def values(path: str) -> dict[str, int]:
    found = hoodie.read_table(path)
    assert found.num_rows == len(set(found.column("id").to_pylist()))
    return dict(zip(found.column("id").to_pylist(), found.column("v").to_pylist(), strict=True))


def write(path: str, table: pa.Table, options: dict[str, Any] = AT_ONCE, **more: Any) -> hoodie.WriteResult:
    return hoodie.write_table(table, path, options=options, **more)


class Between:
    """Does something once a write has begun, and before it commits; `stage` as the write reports it."""

    def __init__(self, act: Callable[[], Any], stage: str = "commit") -> None:
        self._act = act
        self._stage = stage
        self.results: list[Any] = []

    def __call__(self, stage: str, text: str) -> None:
        if stage == self._stage and not self.results:
            self.results.append(None)
            self.results[0] = self._act()


@pytest.fixture(
    autouse=True,
    params=[pytest.param(6, id="version 6"), pytest.param(9, id="version 9", marks=pytest.mark.full)],
)
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of the tables."""
    with new_tables_of(request.param):
        yield request.param


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def left(path: str) -> list[str]:
    """What a write that failed could leave: pending instants, heartbeats, markers, the lock."""
    meta = Path(path, ".hoodie")
    files = [item.name for folder in (".heartbeat", ".temp") for item in meta.joinpath(folder).glob("*")]
    return [str(item) for item in Timeline.load(path).pending()] + files + ["lock"] * (meta / "lock").exists()


@KINDS
def test_the_second_writer_of_a_file_group_loses(path: str, kind: dict[str, Any]) -> None:
    options = {**AT_ONCE, **kind}
    write(path, rows(1, "a1", "a2"), options)
    other = Between(lambda: write(path, rows(2, "a1"), options))
    with pytest.raises(CommitConflict, match=r"changed file group .* of partition 'a' meanwhile") as error:
        write(path, rows(3, "a1"), options, progress=other)
    faster = other.results[0]
    assert error.value.values["instant"] == faster.instant
    assert error.value.values["partition"] == "a"
    assert any(error.value.values["file_id"] in name for name in os.listdir(f"{path}/a"))
    assert values(path) == {"a1": 2, "a2": 1}
    assert left(path) == []
    assert write(path, rows(4, "a1"), options).rolled_back == []
    assert values(path) == {"a1": 4, "a2": 1}


@TYPES
def test_a_conflict_is_found_before_anything_is_written(path: str, kind: dict[str, Any]) -> None:
    options = {**AT_ONCE, **kind}
    write(path, rows(1, "a1"), options)
    written: list[str] = []

    def progress(stage: str, text: str) -> None:
        if stage == "stage" and "rows in" in text:
            write(path, rows(2, "a1"), options)
        written.append(stage)

    with pytest.raises(CommitConflict):
        write(path, rows(3, "a1"), options, progress=progress)
    assert "write" not in written
    assert (values(path), left(path)) == ({"a1": 2}, [])


@TYPES
def test_the_loser_starts_again(path: str, kind: dict[str, Any]) -> None:
    options = {**AT_ONCE, **kind, "hoodie.write.num.retries.on.conflict.failures": "1"}
    write(path, rows(1, "a1", "a2"), options)
    other = Between(lambda: write(path, rows(2, "a1", "a2"), options))
    result = write(path, rows(3, "a1", "b1"), options, progress=other)
    assert result.instant is not None
    assert result.instant > other.results[0].instant
    assert values(path) == {"a1": 3, "a2": 2, "b1": 3}
    assert (result.num_updates, result.num_inserts, left(path)) == (1, 1, [])


@TYPES
def test_writers_of_other_file_groups_both_commit(path: str, kind: dict[str, Any]) -> None:
    options = {**AT_ONCE, **kind}
    write(path, rows(1, "a1", "b1"), options)
    other = Between(lambda: write(path, rows(2, "b1", "c1"), options))
    result = write(path, rows(3, "a1", "d1"), options, progress=other)
    assert other.results[0].instant > result.instant
    assert other.results[0].rolled_back == []
    assert values(path) == {"a1": 3, "b1": 2, "c1": 2, "d1": 3}
    assert left(path) == []
    last = [item.time for item in Timeline.load(path).commits()]
    assert str(write(path, rows(4, "a1"), options).instant) > str(last[-1])


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE"])
def test_a_new_key_of_both(path: str, index: str) -> None:
    options = {**AT_ONCE, "hoodie.index.type": index, "hoodie.parquet.small.file.limit": "0"}
    write(path, rows(1, "a1"), options)
    other = Between(lambda: write(path, rows(2, "a7", "a8"), options))
    with pytest.raises(CommitConflict, match="inserted the key 'a8', too") as error:
        write(path, rows(3, "a8", "a9"), options, progress=other)
    assert error.value.values["instant"] == other.results[0].instant
    assert values(path) == {"a1": 1, "a7": 2, "a8": 2}
    other = Between(lambda: write(path, rows(2, "a10"), options))
    write(path, rows(3, "a8", "a9"), options, progress=other)
    assert values(path) == {"a1": 1, "a7": 2, "a8": 3, "a9": 3, "a10": 2}


def test_a_new_key_of_both_by_a_global_index(path: str) -> None:
    options = {**AT_ONCE, "hoodie.index.type": "GLOBAL_SIMPLE"}
    write(path, rows(1, "a1"), options)
    elsewhere = pa.table({"id": ["x"], "p": ["q"], "v": [2]})
    other = Between(lambda: write(path, elsewhere, options))
    with pytest.raises(CommitConflict, match="inserted the key 'x', too"):
        write(path, rows(3, "x"), options, progress=other)


def test_as_apache_hudi_a_new_key_may_be_inserted_twice(path: str) -> None:
    options = {
        **AT_ONCE,
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.write.concurrency.check.new.keys": "false",
    }
    write(path, rows(1, "a1"), options)
    write(path, rows(3, "a8"), options, progress=Between(lambda: write(path, rows(2, "a8"), options)))
    assert sorted(hoodie.read_table(path).column("id").to_pylist()) == ["a1", "a8", "a8"]


def test_a_bucket_that_both_make(path: str) -> None:
    options = {**AT_ONCE, **MOR, **BUCKET, "hoodie.bucket.index.num.buckets": "1"}
    write(path, rows(1, "a1"), options)
    other = Between(lambda: write(path, rows(2, "b1"), options))
    with pytest.raises(CommitConflict, match=r"changed file group 00000000-.* of partition 'b'"):
        write(path, rows(3, "b2"), options, progress=other)
    assert values(path) == {"a1": 1, "b1": 2}


def test_two_first_writers(path: str) -> None:
    other = Between(lambda: write(path, rows(2, "b1")))
    write(path, rows(3, "a1"), progress=other)
    assert values(path) == {"a1": 3, "b1": 2}


def test_an_overwrite_and_an_update(path: str) -> None:
    write(path, rows(1, "a1", "b1"))
    over = Between(lambda: write(path, rows(2, "a1")))
    with pytest.raises(CommitConflict):
        write(path, rows(3, "a5"), operation="insert_overwrite", progress=over)
    over = Between(lambda: write(path, rows(4, "a6"), operation="insert_overwrite"))
    with pytest.raises(CommitConflict):
        write(path, rows(5, "a1"), progress=over)
    options = {**AT_ONCE, "hoodie.parquet.small.file.limit": "0"}
    over = Between(lambda: write(path, rows(7, "b9"), options))
    with pytest.raises(CommitConflict, match="rows of partition 'b', which this write replaces"):
        write(path, rows(6, "b9"), operation="insert_overwrite", progress=over)
    assert values(path) == {"a6": 4, "b1": 1, "b9": 7}


def test_a_partition_that_is_deleted(path: str) -> None:
    write(path, rows(1, "a1", "b1"))
    over = Between(lambda: hoodie.delete_partitions(path, "a", options=OPTIMISTIC))
    with pytest.raises(CommitConflict):
        write(path, rows(2, "a1", "b1"), progress=over)
    assert values(path) == {"b1": 1}


def test_a_schema_that_the_other_one_changed(path: str) -> None:
    write(path, rows(1, "a1", "b1"))
    other = Between(lambda: write(path, rows(2, "b1", more="x")))
    with pytest.raises(CommitConflict, match="changed the schema"):
        write(path, rows(3, "a1"), progress=other)
    options = {
        **AT_ONCE,
        "hoodie.write.num.retries.on.conflict.failures": "1",
        "hoodie.write.set.null.for.missing.columns": "true",
    }
    other = Between(lambda: write(path, rows(2, "b1", more="x", most=1)))
    write(path, rows(3, "a1"), options, progress=other)
    assert hoodie.read_table(path).column_names[-2:] == ["more", "most"]


def test_a_token_is_committed_once(path: str) -> None:
    token = {"airflow.token": "dag/task/1"}
    options = {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "1"}
    write(path, rows(1, "a1"))
    other = Between(lambda: write(path, rows(2, "b1"), options, extra_metadata=token))
    result = write(path, rows(2, "c1"), options, extra_metadata=token, progress=other)
    assert result.instant == other.results[0].instant
    assert values(path) == {"a1": 1, "b1": 2}


def test_a_compaction_that_is_planned_meanwhile(path: str, version: int) -> None:
    """By the names of logs it leaves out the file groups that a live writer changes, and a write that began
    before it loses. By times of completion neither is in the way of the other.
    """
    by_names = version == 6
    options = {**AT_ONCE, **MOR}
    for value in range(3):
        write(path, rows(value, "a1", "b1"), options)
    now = {**OPTIMISTIC, "hoodie.compact.inline.max.delta.commits": "1"}

    def compact() -> Any:
        return hoodie.compact_table(path, options=now)

    other = Between(compact)
    write(path, rows(3, "a1"), options, progress=other)
    assert other.results[0].status == "compacted"
    assert other.results[0].partitions == (["b"] if by_names else ["a", "b"])
    assert values(path) == {"a1": 3, "b1": 2}

    def before(stage: str, text: str) -> None:
        if stage == "stage" and "rows in" in text:
            assert compact().partitions == ["a", "b"]

    write(path, rows(4, "b1"), options)
    with pytest.raises(CommitConflict) if by_names else contextlib.nullcontext():
        write(path, rows(5, "a1"), options, progress=before)
    assert values(path) == {"a1": 3 if by_names else 5, "b1": 4}
    write(path, rows(6, "a1", "b1"), options)
    assert values(path) == {"a1": 6, "b1": 6}


ROLL_BACK = "hoodie.clustering.rollback.pending.replacecommit.on.conflict"


@pytest.mark.parametrize("executed", [True, False])
def test_a_clustering_that_was_executed_or_rolled_back_just_before_it_had_to_give_way(
    path: str, executed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**AT_ONCE, ROLL_BACK: "true"}
    write(path, rows(1, "a1", "b1"), options)
    sort = {**OPTIMISTIC, "hoodie.clustering.plan.strategy.sort.columns": "v"}
    assert hoodie.cluster_table(path, mode="schedule", options=sort).status == "scheduled"
    forget = Transaction.forget

    def late(transaction: Transaction, planned: Iterable[Instant]) -> None:
        monkeypatch.setattr(Transaction, "forget", forget)
        if executed:
            hoodie.cluster_table(path, mode="execute", options=OPTIMISTIC)
        write(path, rows(2, "a1" if executed else "b1"), options)
        forget(transaction, planned)

    monkeypatch.setattr(Transaction, "forget", late)
    if executed:
        with pytest.raises(CommitConflict):
            write(path, rows(3, "a1"), options)
    else:
        write(path, rows(3, "a1"), options)
    rollbacks = Timeline.load(path).filter([Action.ROLLBACK], completed=True)
    assert (values(path), len(rollbacks)) == (
        {"a1": 2, "b1": 1} if executed else {"a1": 3, "b1": 2},
        0 if executed else 1,
    )
    assert left(path) == []


def test_the_earlier_of_two_that_append_to_one_log_loses(path: str, version: int) -> None:
    """Readers of the log would stop at the later one's block, which is not committed. In version 9 each has a
    log of its own.
    """
    options = {**AT_ONCE, **MOR}
    write(path, rows(1, "a1"), options)
    there, go = threading.Event(), threading.Event()

    def wait() -> None:
        there.set()
        assert go.wait(60)
        raise Stop

    def later() -> None:
        with pytest.raises(Stop):
            write(path, rows(3, "a1"), options, progress=Between(wait))

    thread = threading.Thread(target=later)

    def act() -> None:
        thread.start()
        assert there.wait(60)

    refused = pytest.raises(CommitConflict, match="is appending to logs")
    with refused if version == 6 else contextlib.nullcontext():
        write(path, rows(2, "a1"), options, progress=Between(act))
    go.set()
    thread.join()
    assert (values(path), left(path)) == ({"a1": 1 if version == 6 else 2}, [])


class Stop(Exception):
    pass


@pytest.mark.table_version(6)
def test_a_log_that_another_writer_has_just_begun_stays(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log file of the name that this writer would take is there, without a block yet; this writer then
    withdraws what it wrote. In version 9 names are of one write.
    """
    options = {**AT_ONCE, **MOR}
    write(path, rows(1, "a1"), options)
    output, begun = LocalStorage.output, list[Path]()

    def late(storage: LocalStorage, file: str, *, exclusive: bool = False) -> Any:
        if exclusive and ".log." in file and not begun:
            begun.append(Path(file))
            begun[0].touch()
        return output(storage, file, exclusive=exclusive)

    def fail() -> None:
        raise Stop

    monkeypatch.setattr(LocalStorage, "output", late)
    with pytest.raises(Stop):
        write(path, rows(2, "a1"), options, progress=Between(fail))
    assert begun[0].exists()
    assert len(list(begun[0].parent.glob(".*.log.*"))) == 1


def test_clean_archive_and_services_run_beside(path: str) -> None:
    for value in range(6):
        write(path, rows(value, "a1", "b1"))
    kept = {**OPTIMISTIC, "hoodie.cleaner.commits.retained": "1"}

    def act() -> list[Any]:
        return [
            hoodie.clean_table(path, options=kept),
            hoodie.archive_table(
                path, options={**kept, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
            ),
        ]

    other = Between(act)
    write(path, rows(9, "a1"), progress=other)
    cleaned, archived = other.results[0]
    assert cleaned.status == "cleaned"
    assert archived.archived
    assert values(path) == {"a1": 9, "b1": 5}


ARCHIVING = {
    **OPTIMISTIC,
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


class Staged(Between):
    """Does something once a write has staged its rows, and before it begins."""

    def __init__(self, act: Callable[[], Any]) -> None:
        super().__init__(act, "stage")

    def __call__(self, stage: str, text: str) -> None:
        if "rows in" in text:
            super().__call__(stage, text)


@pytest.mark.parametrize(
    ("kind", "key"), [({}, "a1"), ({}, "a9"), pytest.param(MOR, "a1", marks=pytest.mark.full)]
)
def test_a_commit_that_was_archived_before_the_write_began(path: str, kind: dict[str, Any], key: str) -> None:
    options = {**AT_ONCE, **kind, "hoodie.parquet.small.file.limit": "0"}
    write(path, rows(1, "a1", "b1"), options)

    def act() -> Any:
        write(path, rows(2, key), options)
        for value in range(6):
            write(path, rows(value, "b1"), options)
        return hoodie.archive_table(path, options=ARCHIVING)

    other = Staged(act)
    with pytest.raises(CommitConflict, match="may have been archived already"):
        write(path, rows(3, key), options, progress=other)
    assert len(other.results[0].archived) >= 2
    assert values(path) == {"a1": 1, "b1": 5, key: 2}
    again = {**options, "hoodie.write.num.retries.on.conflict.failures": "1"}
    write(path, rows(3, key), again, progress=Staged(act))
    assert (values(path)[key], left(path)) == (3, [])


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        *(
            ({}, operation)
            for operation in ("upsert", "delete", "insert_overwrite", "insert_overwrite_table")
        ),
        *((kind, "upsert") for kind in (MOR, {**MOR, **BUCKET})),
        *(
            pytest.param(kind, operation, marks=pytest.mark.full)
            for kind in (MOR, {**MOR, **BUCKET})
            for operation in ("delete", "insert_overwrite", "insert_overwrite_table")
        ),
    ],
)
def test_files_that_were_cleaned_before_the_write_listed_them(
    path: str, kind: dict[str, Any], operation: str
) -> None:
    options = {**AT_ONCE, **kind, "hoodie.parquet.small.file.limit": "0"}
    now = {**OPTIMISTIC, "hoodie.compact.inline.max.delta.commits": "1"}
    write(path, rows(1, "a1", "b1"), options)

    def act() -> Any:
        for value in (2, 3, 4):
            write(path, rows(value, "a1"), options)
            if kind:
                hoodie.compact_table(path, options=now)
        return hoodie.clean_table(path, options={**now, "hoodie.cleaner.commits.retained": "1"})

    other = Between(act, "stage")
    with pytest.raises(CommitConflict, match=r"changed file group .* of partition 'a' meanwhile"):
        write(path, rows(9, "a1"), options, progress=other, operation=operation)
    assert other.results[0].num_files
    assert (values(path), left(path)) == ({"a1": 4, "b1": 1}, [])


@pytest.mark.parametrize("verify", [pytest.param("true", marks=pytest.mark.full), "false"])
def test_a_savepoint_keeps_an_older_file_than_the_one_that_was_cleaned(path: str, verify: str) -> None:
    """The key is in the file that is gone: by the older one it would be new, and be stored twice."""
    options = {**AT_ONCE, "hoodie.write.verify.files": verify}
    write(path, rows(1, "a1"), options)
    hoodie.savepoint_table(path, options=OPTIMISTIC)
    write(path, rows(1, "a2"), options)

    def act() -> Any:
        for value in (2, 3, 4):
            write(path, rows(value, "a1"), options)
        return hoodie.clean_table(path, options={**OPTIMISTIC, "hoodie.cleaner.commits.retained": "1"})

    other = Between(act, "stage")
    with pytest.raises(CommitConflict, match=r"clean \d+ deleted files of file group .* meanwhile"):
        write(path, rows(9, "a2"), {**options, "hoodie.parquet.small.file.limit": "0"}, progress=other)
    assert other.results[0].num_files
    assert (values(path), left(path)) == ({"a1": 4, "a2": 1}, [])


def test_a_file_that_no_one_removed_is_no_conflict(path: str, tmp_path: Path) -> None:
    """... whatever others did meanwhile: trying again would not help."""
    write(path, rows(1, "a1", "b1"))
    source = str(tmp_path / "rows.parquet")
    tries: list[str] = []

    def progress(stage: str, text: str) -> None:
        if stage == "stage" and "rows in" in text:
            tries.append(text)
            write(path, rows(2, "b1"))
            raise FileNotFoundError(2, "No such file or directory", source if len(tries) < 9 else "")

    retrying = {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "3"}
    with pytest.raises(FileNotFoundError):
        write(path, rows(3, "a1"), retrying, progress=progress)
    assert (len(tries), values(path), left(path)) == (1, {"a1": 1, "b1": 2}, [])

    (file,) = Path(path, "a").glob("*.parquet")

    def damaged(stage: str, text: str) -> None:
        if stage == "stage" and "rows in" in text:
            tries.append(text)
            write(path, rows(4, "b1"))
            raise FileNotFoundError(f"Failed to open local file '{file}'. Detail: none")

    with pytest.raises(FileNotFoundError):  # a commit names it, and nothing was cleaned
        write(path, rows(3, "a1"), retrying, progress=damaged)
    assert (len(tries), left(path)) == (2, [])


def test_a_file_of_a_write_that_was_withdrawn_meanwhile_is_a_conflict(path: str) -> None:
    write(path, rows(1, "a1"))
    gone = f"{path}/a/.x-0_{Timeline.load(path).last_time}.log.7_0-1-1"
    tries: list[str] = []

    def progress(stage: str, text: str) -> None:
        if stage == "stage" and "rows in" in text:
            tries.append(text)
            if len(tries) == 1:
                raise FileNotFoundError(2, "No such file or directory", gone)

    write(
        path,
        rows(3, "a1"),
        {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "1"},
        progress=progress,
    )
    assert (len(tries), values(path)) == (2, {"a1": 3})


def test_a_first_commit_that_was_archived_before_another_first_write_began(path: str) -> None:
    def act() -> Any:
        for value in range(5):
            write(path, rows(value, "b1" if value else "a1"))
        return hoodie.archive_table(path, options=ARCHIVING)

    other = Staged(act)
    with pytest.raises(CommitConflict, match="may have been archived already"):
        write(path, rows(9, "a1"), progress=other)
    assert other.results[0].archived
    assert (values(path), left(path)) == ({"a1": 0, "b1": 4}, [])


def test_a_write_in_flight_that_was_committed_and_archived_before_another_began(path: str) -> None:
    write(path, rows(1, "a1", "b1"))
    there, go = threading.Event(), threading.Event()

    def wait() -> None:
        there.set()
        assert go.wait(60)

    thread = threading.Thread(target=lambda: write(path, rows(2, "a1"), progress=Between(wait)))
    thread.start()
    assert there.wait(60)
    write(path, rows(2, "b1"))

    def act() -> Any:
        go.set()
        thread.join()
        write(path, rows(3, "b1"))
        return hoodie.archive_table(path, options=ARCHIVING)

    other = Staged(act)
    with pytest.raises(CommitConflict, match="not on the timeline any more"):
        write(path, rows(3, "a1"), progress=other)
    assert len(other.results[0].archived) == 2
    assert (values(path), left(path)) == ({"a1": 2, "b1": 3}, [])


def test_a_dead_write_older_than_the_first_commit_is_no_conflict(path: str) -> None:
    """It is gone since the write looked at the table, and was not archived: the write rolled it back."""

    def act() -> None:
        write(path, rows(1, "a1"))
        os._exit(0)

    def dies() -> None:
        write(path, rows(9, "b1"), progress=Between(act))

    assert forked(dies) == 0
    (dead,) = Timeline.load(path).pending()
    assert write(path, rows(2, "a1")).rolled_back == [dead.time]
    assert (values(path), left(path)) == ({"a1": 2}, [])


def test_what_takes_commits_back_waits_for_writers(path: str) -> None:
    first = write(path, rows(1, "a1"))
    second = write(path, rows(2, "a1"))

    def act() -> None:
        with pytest.raises(TableBusy):
            hoodie.restore_table(path, InstantTime(str(first.instant)), options=OPTIMISTIC)
        with pytest.raises(TableBusy):
            hoodie.rollback_table(path, str(second.instant), options=OPTIMISTIC)

    write(path, rows(3, "b1"), progress=Between(act))
    assert values(path) == {"a1": 2, "b1": 3}


def test_a_writer_for_itself_and_one_beside_others_exclude_each_other(path: str) -> None:
    write(path, rows(1, "a1"))
    alone = {**KEY, **LOCK}

    def refused(options: dict[str, Any]) -> Callable[[], None]:
        def act() -> None:
            with pytest.raises(TableBusy):
                write(path, rows(2, "b1"), options)

        return act

    write(path, rows(3, "a1"), progress=Between(refused(alone)))
    write(path, rows(4, "a1"), alone, progress=Between(refused(AT_ONCE)))
    assert values(path) == {"a1": 4}


def test_writers_with_other_locks_are_refused(path: str) -> None:
    write(path, rows(1, "a1"))

    def act() -> None:
        with pytest.raises(ConfigError, match="would not exclude each other"):
            write(path, rows(2, "b1"), {**AT_ONCE, "hoodie.write.lock.provider": "storage"})

    write(path, rows(3, "a1"), progress=Between(act))
    assert (values(path), left(path)) == ({"a1": 3}, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hoodie.cleaner.policy.failed.writes": "EAGER"},
            "does not go with .*leave it out, or set it to LAZY",
        ),
        (
            {"hoodie.write.lock.conflict.resolution.strategy": "org.example.Mine"},
            "the first of two writers that change one file group wins",
        ),
        (
            {"hoodie.write.concurrency.early.conflict.detection.strategy": "org.example.Mine"},
            "detected early by direct markers",
        ),
        (
            {**MOR, **BUCKET, "hoodie.index.bucket.engine": "CONSISTENT_HASHING"},
            "CONSISTENT_HASHING",
        ),
        ({"hoodie.write.lock.provider": ""}, "needs a lock that all writers of the table take"),
        (
            {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"},
            "needs table version 8 or 9.* set .*OPTIMISTIC_CONCURRENCY_CONTROL",
        ),
    ],
)
def test_what_can_not_be_written_at_once(
    path: str, version: int, options: dict[str, Any], message: str
) -> None:
    if version == 9 and "NON_BLOCKING" in str(options):
        message = "needs hoodie.datasource.write.table.type=MERGE_ON_READ"
    with pytest.raises(ConfigError, match=message):
        write(path, rows(1, "a1"), {**AT_ONCE, **options})
    assert not os.path.exists(path)


def test_early_detection_is_for_writers_at_once(path: str) -> None:
    with pytest.raises(ConfigError, match="is for writers at once"):
        write(path, rows(1, "a1"), {**KEY, **LOCK, **EARLY})
    assert not os.path.exists(path)


EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}


@TYPES
def test_a_conflict_that_is_detected_early(path: str, kind: dict[str, Any]) -> None:
    """The later of two live writers gives way at once, instead of the one that commits later."""
    options = {**AT_ONCE, **kind, **EARLY}
    write(path, rows(1, "a1", "b1"), options)

    def act() -> None:
        with pytest.raises(
            CommitConflict, match=r"write \d+ is changing file group .* detected early"
        ) as error:
            write(path, rows(2, "a1"), options)
        assert error.value.values["partition"] == "a"
        write(path, rows(3, "b1"), options)

    done = write(path, rows(4, "a1"), options, progress=Between(act))
    assert (values(path), left(path)) == ({"a1": 4, "b1": 3}, [])
    assert done.rolled_back == []


def test_a_commit_that_is_detected_early(path: str) -> None:
    options = {**AT_ONCE, **EARLY, "hoodie.write.concurrency.early.conflict.check.commit.conflict": "true"}
    write(path, rows(1, "a1"), options)
    other = Between(lambda: write(path, rows(2, "a1")), "write")
    with pytest.raises(CommitConflict, match=r"commit \d+ changed file group .* detected early"):
        write(path, rows(3, "a1"), options, progress=other)
    assert (values(path), left(path)) == ({"a1": 2}, [])


METADATA = {**MOR, "hoodie.metadata.enable": "true"}
KEPT = {**INDEXED, "hoodie.metadata.record.index.enable": "true"}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({}, marks=pytest.mark.full, id="cow"),
        pytest.param(MOR, id="mor"),
        pytest.param({**MOR, **BUCKET}, marks=pytest.mark.full, id="bucket"),
    ],
)
def test_writers_at_once_keep_the_metadata_table(path: str, kind: dict[str, Any]) -> None:
    options = {**AT_ONCE, **kind, **KEPT}
    write(path, rows(1, "a1", "b1"), options)
    other = Between(lambda: write(path, rows(2, "b1", "c1"), options))
    write(path, rows(3, "a1", "d1"), options, progress=other)
    lost = Between(lambda: write(path, rows(4, "a1"), options))
    with pytest.raises(CommitConflict):
        write(path, rows(5, "a1", "e1"), options, progress=lost)
    assert has_metadata_table(path)
    assert disagreements(path) == []
    assert (values(path), left(path)) == ({"a1": 4, "b1": 2, "c1": 2, "d1": 3}, [])
    alone = {**KEY, **kind, **KEPT}
    write(path, rows(6, "a1"), alone)
    assert (disagreements(path), values(path)["a1"]) == ([], 6)


def test_a_writer_that_died_in_the_metadata_table(path: str) -> None:
    """... with a later instant than that of the one that goes on: its blocks are taken back before."""
    options = {**AT_ONCE, "hoodie.metadata.enable": "true"}
    write(path, rows(1, "a1", "b1"), options)
    dead: list[str] = []

    def act() -> None:
        assert forked(lambda: _dies_in_the_metadata_table(path, options)) == -signal.SIGKILL
        Path(path, ".hoodie/lock").unlink()
        dead.extend(item.time for item in Timeline.load(f"{path}/.hoodie/metadata").pending())

    done = write(path, rows(2, "a1"), options, progress=Between(act))
    assert len(dead) == 1
    assert done.instant is not None
    assert REQUESTED.before(done.instant, dead[0])
    assert Timeline.load(f"{path}/.hoodie/metadata").pending() == []
    assert (misled(path), values(path)) == ([], {"a1": 2, "b1": 1})
    assert write(path, rows(3, "b1"), options).rolled_back == dead
    assert (disagreements(path), values(path), left(path)) == ([], {"a1": 2, "b1": 3}, [])


def _dies_in_the_metadata_table(path: str, options: dict[str, Any]) -> None:
    with wrapped(Dying):
        write(path, rows(9, "b1"), options)


class Dying(Delegating):
    """The process dies when the metadata table's deltacommit is to be completed."""

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        if path.endswith(".deltacommit"):
            os.kill(os.getpid(), signal.SIGKILL)
        self.inner.create(path, data, check)


def test_a_service_that_takes_no_lock_is_refused_beside_writers_at_once(path: str) -> None:
    options = {**AT_ONCE, **MOR}
    for value in range(2):
        write(path, rows(value, "a1", "b1"), options)
    now = {"hoodie.compact.inline.max.delta.commits": "1"}
    assert hoodie.compact_table(path, mode="schedule", options={**OPTIMISTIC, **now}).status == "scheduled"

    def act() -> None:
        with pytest.raises(TableBusy, match=r"give compaction \d+ the same hoodie.write.concurrency.mode"):
            hoodie.compact_table(path, mode="execute", options=LOCK)
        assert hoodie.compact_table(path, mode="execute", options=OPTIMISTIC).status == "compacted"

    write(path, rows(3, "a1"), options, progress=Between(act))
    assert (values(path), left(path)) == ({"a1": 3, "b1": 1}, [])


@pytest.mark.parametrize("off_s", [400, -400])
def test_a_clock_that_is_wrong_is_told_and_instants_rise(
    path: str, off_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_last", {})  # a process keeps to the times that it has given out
    instants = [write(path, rows(1, "a1")).instant]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + off_s)
    done = write(path, rows(2, "a1"))
    monkeypatch.setattr(time, "time", real)
    then = write(path, rows(3, "a1"))
    instants += [done.instant, then.instant]
    assert instants == sorted(set(instants))
    text = "400 s " + ("ahead of that" if off_s > 0 else "behind that")
    assert any(text in warning for warning in done.warnings)
    assert any("s ahead of the clock of" in warning for warning in (done if off_s < 0 else then).warnings)


def test_the_policy_of_apache_hudi_is_accepted(path: str) -> None:
    write(path, rows(1, "a1"), {**AT_ONCE, "hoodie.cleaner.policy.failed.writes": "LAZY"})
    assert values(path) == {"a1": 1}


@pytest.mark.parametrize(("workload", "options"), [*zip(WORKLOADS, ({}, {}, INDEXED), strict=True)])
def test_two_processes(tmp_path: Path, workload: str, options: dict[str, str]) -> None:
    assert race(tmp_path / "t", 2, 2, workload, options) == [0, 0]
    assert has_metadata_table(tmp_path / "t") == bool(options)
    check(tmp_path / "t", 2, 2)


@pytest.mark.full
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("kind", [{}, MOR, {**MOR, **BUCKET}], ids=["cow", "mor", "bucket"])
@pytest.mark.parametrize(("writers", "skew_s", "more"), [(4, 0, KEPT), (4, 300, {}), (8, 0, {})])
def test_processes(
    tmp_path: Path, kind: dict[str, Any], workload: str, writers: int, skew_s: int, more: dict[str, str]
) -> None:
    services = {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "3",
        "hoodie.cleaner.commits.retained": "2",
        "hoodie.keep.min.commits": "4",
        "hoodie.keep.max.commits": "6",
    }
    options = {**kind, **(services if kind == MOR else {}), **more}
    assert race(tmp_path / "t", writers, 3, workload, options, skew_s) == [0] * writers
    check(tmp_path / "t", writers, 3)


@pytest.mark.full
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
@pytest.mark.parametrize("more", [{}, KEPT], ids=["plain", "metadata"])
def test_processes_and_services(
    tmp_path: Path, version: int, kind: dict[str, Any], workload: str, more: dict[str, str]
) -> None:
    """Compaction, clustering, clean and archive are processes beside the writers."""
    options = {**kind, **more, "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true"}
    options["hoodie.clustering.updates.strategy"] = "allow"
    assert race(tmp_path / "t", 3, 5, workload, options, services=2) == [0] * 5
    check(tmp_path / "t", 3, 5)


class Cleaning(Delegating):
    """Others write and clean, once, when the first base file is about to be opened."""

    act: Callable[[], Any] | None = None

    def open_input(self, path: str) -> Any:
        act = Cleaning.act
        if act is not None and path.endswith(".parquet"):
            Cleaning.act = None
            act()
        return super().open_input(path)


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
@pytest.mark.parametrize("optimistic", [True, False], ids=["at once", "one at a time"])
def test_a_base_file_that_is_cleaned_before_its_keys_are_read(
    path: str, kind: dict[str, Any], optimistic: bool
) -> None:
    options = {**(AT_ONCE if optimistic else KEY), **kind}
    write(path, rows(1, "a1", "a2"), options)

    def others() -> None:
        for value in (2, 3, 4):
            write(path, rows(value, "a2"), options)
            if kind:
                hoodie.compact_table(path, options={"hoodie.compact.inline.max.delta.commits": "1"})
        assert hoodie.clean_table(path, options={"hoodie.cleaner.commits.retained": "1"}).num_files

    more = {"hoodie.write.num.retries.on.conflict.failures": "1"} if optimistic else {}
    Cleaning.act = others
    with wrapped(Cleaning):
        write(path, rows(9, "a1", "a7"), {**options, **more})
    assert Cleaning.act is None
    assert values(path) == {"a1": 9, "a2": 4, "a7": 9}
    assert left(path) == []


def test_a_base_file_that_is_lost_is_an_error_beside_other_writers(path: str) -> None:
    write(path, rows(1, "a1"))
    (lost,) = Path(path, "a").glob("*.parquet")
    lost.unlink()
    with pytest.raises(TableError, match="is missing"):
        write(path, rows(2, "a1"), {**AT_ONCE, "hoodie.write.num.retries.on.conflict.failures": "3"})


class Stopping(Delegating):
    """The process stops, or dies, around the publishing of its commit."""

    step = ""
    signal = signal.SIGSTOP

    def create(self, path: str, data: bytes, check: Any = None) -> None:
        mine = path.endswith(".commit")

        def late() -> None:
            check()
            self._stop("checked")

        if mine:
            self._stop("before")
        self.inner.create(path, data, late if mine else check)
        if mine:
            self._stop("after")

    def _stop(self, step: str) -> None:
        if step == Stopping.step:
            os.kill(os.getpid(), Stopping.signal)


EXPIRING = {**AT_ONCE, "hoodie.write.lock.filesystem.expire": "1"}


def _stops(path: str, step: str, kind: signal.Signals, options: dict[str, Any]) -> int:
    Stopping.step, Stopping.signal = step, kind
    with wrapped(Stopping):
        try:
            write(path, rows(2, "a1", "a9"), options)
        except ConflictError:
            return 3
    return 0


def _aged(path: str, *names: str) -> None:
    for name in names:
        for item in Path(path, ".hoodie").glob(name):
            os.utime(item, (time.time() - 300, time.time() - 300))


@pytest.mark.full
@pytest.mark.parametrize("aged", [("lock",), ("lock", ".heartbeat/*")], ids=["lock", "lock and heartbeat"])
@pytest.mark.parametrize("step", ["before", "checked", "after"])
def test_a_writer_that_slept_with_the_lock(path: str, step: str, aged: tuple[str, ...]) -> None:
    write(path, rows(1, "a1"), EXPIRING)
    there: list[str] = []

    def meanwhile() -> None:
        _aged(path, *aged)
        write(path, rows(3, "a1", "a9"), EXPIRING)
        there.extend(item.time for item in Timeline.load(path).commits())

    code = paused(lambda: _stops(path, step, signal.SIGSTOP, EXPIRING), meanwhile)
    assert code == (0 if step == "after" else 3)
    assert [item.time for item in Timeline.load(path).commits()] == there
    assert values(path) == {"a1": 3, "a9": 3}
    write(path, rows(4, "a1"), EXPIRING)
    assert (values(path), left(path)) == ({"a1": 4, "a9": 3}, [])


@pytest.mark.full
@pytest.mark.parametrize("step", ["before", "checked", "after"])
def test_the_next_one_is_in_once_the_lock_of_a_killed_writer_expires(path: str, step: str) -> None:
    options = {
        **AT_ONCE,
        "hoodie.write.lock.provider": "storage",
        "hoodie.write.lock.storage.validity.timeout.secs": "10",
        "hoodie.write.lock.storage.renew.interval.secs": "1",
        "hoodie.client.heartbeat.interval_in_ms": "1000",
    }
    write(path, rows(1, "a1"), options)
    code = forked(lambda: _stops(path, step, signal.SIGKILL, options))
    assert code == -signal.SIGKILL
    began = time.monotonic()
    write(path, rows(3, "a1"), options)
    assert time.monotonic() - began < 60
    assert values(path) == {"a1": 3, **({"a9": 2} if step == "after" else {})}
    assert left(path) == []


class Stepping(Delegating):
    """Counts what changes something, and stops or kills the process before one such step."""

    signal = signal.SIGSTOP
    count = 0
    stop_before = 0

    def ask(self, name: str, path: str, *arguments: Any) -> Any:
        if name in ("write", "create", "output", "delete", "delete_tree", "sweep_partial", "put_if"):
            Stepping.count += 1
            if Stepping.count == Stepping.stop_before:
                os.kill(os.getpid(), Stepping.signal)
        return super().ask(name, path, *arguments)


def _steps(
    path: str, stop_before: int, options: dict[str, Any], kind: signal.Signals = signal.SIGSTOP
) -> int:
    Stepping.count, Stepping.stop_before, Stepping.signal = 0, stop_before, kind
    with wrapped(Stepping):
        try:
            write(path, rows(2, "a1", "a9"), options)
        except ConflictError:
            return 3
    return 0


@pytest.mark.full
@pytest.mark.parametrize("aged", [("lock",), ("lock", ".heartbeat/*")], ids=["lock", "lock and heartbeat"])
@pytest.mark.parametrize("kind", [{}, MOR, METADATA], ids=["cow", "mor", "metadata"])
def test_a_writer_that_slept_at_any_step(tmp_path: Path, kind: dict[str, Any], aged: tuple[str, ...]) -> None:
    options = {**EXPIRING, **kind}
    write(f"{tmp_path}/first", rows(1, "a1"), options)
    assert _steps(f"{tmp_path}/first", 0, options) == 0
    codes = set()
    for step in range(1, Stepping.count + 1):
        path = f"{tmp_path}/{step}"
        base = write(path, rows(1, "a1"), options)

        def meanwhile(path: str = path) -> None:
            _aged(path, *aged)
            other = write(path, rows(3, "a1", "a9"), options)
            (tmp_path / "other").write_text(str(other.instant))

        code = paused(lambda path=path, step=step: _steps(path, step, options), meanwhile)  # type: ignore[misc]
        codes.add(code)
        other = (tmp_path / "other").read_text()
        commits = [item.time for item in Timeline.load(path).commits()]
        mine = [time for time in commits if time not in (base.instant, other)]
        assert (step, code, len(mine)) in ((step, 0, 1), (step, 3, 0))
        newest = 2 if mine and REQUESTED.after(mine[0], other) else 3
        assert (step, values(path)) == (step, {"a1": newest, "a9": newest})
        write(path, rows(4, "a1", "a9"), options)
        assert (step, values(path), left(path)) == (step, {"a1": 4, "a9": 4}, [])
        assert (step, disagreements(path)) == (step, [])
    assert codes == {0, 3}


@pytest.mark.full
@pytest.mark.parametrize("kind", [{}, MOR, METADATA], ids=["cow", "mor", "metadata"])
def test_a_writer_that_is_killed_at_any_step(tmp_path: Path, kind: dict[str, Any]) -> None:
    options = {**EXPIRING, **kind}
    write(f"{tmp_path}/first", rows(1, "a1"), options)
    assert _steps(f"{tmp_path}/first", 0, options) == 0
    for step in range(1, Stepping.count + 1):
        path = f"{tmp_path}/{step}"
        write(path, rows(1, "a1"), options)
        dead = forked(lambda path=path, step=step: _steps(path, step, options, signal.SIGKILL))  # type: ignore[misc]
        assert dead == -signal.SIGKILL
        _aged(path, "lock")
        write(path, rows(3, "a1", "b1"), options)
        there = values(path)
        assert (step, there.pop("a9", 2), there, left(path)) == (step, 2, {"a1": 3, "b1": 3}, [])
        assert (step, disagreements(path)) == (step, [])
