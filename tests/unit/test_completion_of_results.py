"""What `begin` and `end` of incremental queries take for a commit, in tables of each version."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from airflow_hoodie.commits import CommitHit, TableReader
from airflow_hoodie.conditions import Commits
from hoodie.errors import ConfigError
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table as Opened
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime
from hoodie.timeline.tokens import TOKEN_KEY
from tests.support.later_tables import new_tables_of

KINDS = ("COPY_ON_WRITE", "MERGE_ON_READ")
PENDING = (Action.COMMIT, State.REQUESTED)
TTL = {"hoodie.partition.ttl.strategy.days.retain": 1}


@pytest.fixture(params=[6, 8, 9])
def version(request: pytest.FixtureRequest) -> Iterator[int]:
    with new_tables_of(request.param):
        yield request.param


def write(table: hoodie.Table, *keys: str, **more: Any) -> hoodie.WriteResult:
    rows = pa.table({"id": list(keys), "day": ["2020-01-01"] * len(keys), "ts": [1] * len(keys)})
    return table.upsert(rows, keys="id", partition_by="day", ordering="ts", **more)


def ids(answer: Any) -> list[str]:
    return sorted(answer.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_rows_after_a_commit_and_up_to_it(tmp_path: Path, version: int, kind: str) -> None:
    """By the result and by its text; the commit itself is not among those after it."""
    table = hoodie.Table(tmp_path / "t", options={"hoodie.datasource.write.table.type": kind})
    first, second = write(table, "a", "b"), write(table, "b", "c")
    for begin in (first, first.completion, table.history()[0], str(table.history()[0].completion)):
        assert ids(table.changes(begin)) == ["b", "c"]
        assert ids(table.changes(begin, second)) == ["b", "c"]
        assert ids(table.changes(end=begin)) == ["a", "b"]
    for last in (second, second.completion, table.history()[-1]):
        assert ids(table.changes(last)) == []
    assert ids(table.read(as_of=first)) == ids(table.read(as_of=first.instant)) == ["a", "b"]
    answer = hoodie.read_table(table.path, begin=first.completion, end=second.completion)
    assert sorted(answer["id"].to_pylist()) == ["b", "c"]
    after = {"changed": {"path": table.path, "query": "incremental", "begin": first.completion}}
    assert hoodie.sql("SELECT id FROM changed", tables=after).num_rows == 2


def test_a_repeated_write_has_the_completion_of_its_commit(tmp_path: Path, version: int) -> None:
    """Also where only the file of its token says which commit that is."""
    table = hoodie.Table(tmp_path / "t")
    first = write(table, "a", extra_metadata={TOKEN_KEY: "monday"})
    write(table, "b")
    again = write(table, "a", extra_metadata={TOKEN_KEY: "monday"})
    assert (again.status, again.instant) == ("already_committed", first.instant)
    assert again.completion == first.completion
    assert ids(table.changes(again)) == ["b"]


def test_of_an_archived_commit_no_later_one_is_left_out(tmp_path: Path, version: int) -> None:
    few = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.cleaner.commits.retained": 1}
    table = hoodie.Table(tmp_path / "t", options=few)
    first = write(table, "a", extra_metadata={TOKEN_KEY: "monday"})
    for number in range(6):
        write(table, f"b{number}")
    assert first.instant not in {entry.instant for entry in table.history()}
    again = write(table, "a", extra_metadata={TOKEN_KEY: "monday"})
    assert (again.status, again.instant, again.completion) == (
        "already_committed",
        first.instant,
        first.instant,
    )


def test_events_and_sensors_have_it_as_results_have(tmp_path: Path, version: int) -> None:
    table = hoodie.Table(tmp_path / "t")
    done = write(table, "a")
    reader = TableReader(table.path)
    hit = Commits().find(reader, reader.poll())
    assert isinstance(hit, CommitHit)
    assert hit.to_dict()["completion"] == done.completion == done.to_dict()["completion"]
    [commit] = Timeline.load(table.path).commits()
    assert done.completion == str(commit.completion if version > 6 else commit.time)


def test_an_expiry_has_that_of_the_delete(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = hoodie.Table(tmp_path / "t")
    assert hoodie.expire_partitions(write(table, "a").base_path, options=TTL).completion == ""
    monkeypatch.setattr(LocalStorage, "now_ms", lambda _: int((time.time() + 2 * 86_400) * 1000))
    expired = hoodie.expire_partitions(table.path, options=TTL)
    assert (expired.status, expired.num_partitions) == ("deleted", 1)
    assert expired.completion == Timeline.load(table.path).commits()[-1].incremental_time
    assert hoodie.expire_partitions(table.path, options=TTL).completion == expired.completion


def test_an_upgrade_keeps_what_results_of_version_6_say(tmp_path: Path) -> None:
    with new_tables_of(6):
        table = hoodie.Table(tmp_path / "t")
        first, second = write(table, "a"), write(table, "b")
    hoodie.upgrade_table(table.path, "9")
    third = write(table, "c")
    assert ids(table.changes(first)) == ["b", "c"]
    assert ids(table.changes(second)) == ["c"]
    assert ids(table.changes(third)) == []


def test_what_is_no_commit_is_refused(tmp_path: Path, version: int) -> None:
    table = hoodie.Table(tmp_path / "t")
    write(table, "a")
    planned = write(table, "b", dry_run=True)
    assert (planned.instant, planned.completion) == ("", "")
    with pytest.raises(ConfigError, match="begin is a WriteResult with the status planned, which names no"):
        table.changes(planned)
    with pytest.raises(ConfigError, match="end is a CleanResult with the status skipped, which names no"):
        table.changes(end=table.clean())  # type: ignore[arg-type]
    begin_instant(Opened.open(table.path).store, Instant(InstantTime("29991231235959999"), *PENDING))
    with pytest.raises(
        ConfigError, match="as_of is a HistoryEntry with the status requested, which names no"
    ):
        table.read(as_of=table.history()[-1])
