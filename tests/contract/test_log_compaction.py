"""Log compactions beside writers at once: no writer loses to one, and no row does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.errors import CommitConflict
from hoodie.services.log_compaction import run
from tests.contract.test_non_blocking import OPTIONS, TABLE, Writer, rows, values, write
from tests.support.at_once import OPTIMISTIC, check, race
from tests.support.later_tables import new_tables_of
from tests.support.metadata import disagreements

DUE = {"hoodie.log.compaction.blocks.threshold": "1"}
#: all keys in one file group
ONE = {**OPTIONS, "hoodie.bucket.index.num.buckets": "1"}
AT_ONCE = {**TABLE, **OPTIMISTIC, "hoodie.index.type": "SIMPLE"}


@pytest.fixture(autouse=True)
def _version() -> Iterator[None]:
    with new_tables_of(9):
        yield


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def compact(path: str, options: dict[str, str], mode: str = "run") -> Any:
    return hoodie.log_compact_table(path, mode=mode, options={**options, **DUE})


@pytest.mark.parametrize("kind", [AT_ONCE, ONE], ids=["optimistic", "non-blocking"])
@pytest.mark.parametrize("planned", ["before", "meanwhile"])
def test_a_writer_does_not_lose_to_it(path: str, kind: dict[str, Any], planned: str) -> None:
    write(path, rows(0, "a1", "a2"), options=kind)
    for number in (1, 2, 3):
        write(path, rows(number, "a1"), options=kind)
    if planned == "before":
        assert compact(path, kind, "schedule").scheduled
    writer = Writer(path, rows(9, "a2"), options=kind)
    writer.begin()
    assert compact(path, kind).compacted
    assert values(path) == {"a1": 3, "a2": 0}
    writer.end()
    assert values(path) == {"a1": 3, "a2": 9}
    assert disagreements(path) == []
    assert compact(path, kind).compacted
    assert values(path) == {"a1": 3, "a2": 9}


def between(path: str) -> Writer:
    """A writer that began before the newest log, whose row is newer than the first log's."""
    write(path, rows(0, "a1", "a2"), options=ONE)
    write(path, rows(1, "a1"), options=ONE)
    writer = Writer(path, rows(2, "a1"), options=ONE)
    writer.begin()
    write(path, rows(3, "a2"), options=ONE)
    return writer


def test_logs_after_the_oldest_writer_at_work_wait_for_it(path: str) -> None:
    """In the place of the newest one, the first log's row would come after the writer's."""
    writer = between(path)
    made = compact(path, ONE)
    assert made.num_log_files == 2, "of the three that are there"
    assert values(path) == {"a1": 1, "a2": 3}
    writer.end()
    assert values(path) == {"a1": 2, "a2": 3}
    assert compact(path, ONE).num_log_files > 1
    assert values(path) == {"a1": 2, "a2": 3}


@pytest.mark.parametrize("ended", [False, True])
def test_a_plan_of_hudi_that_lacks_a_log_in_between_is_not_carried_out(
    path: str, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    writer = between(path)
    with monkeypatch.context() as patched:
        patched.setattr(run, "_settled", lambda _, item: item)
        assert compact(path, ONE, "schedule").num_log_files > 1
    if ended:
        writer.end()
        assert compact(path, ONE, "execute").pending == []
    else:
        with pytest.raises(CommitConflict, match="which began before logs of it, is not completed"):
            compact(path, ONE, "execute")
        writer.end()
    assert values(path) == {"a1": 2, "a2": 3}
    assert compact(path, ONE).pending == []
    assert values(path) == {"a1": 2, "a2": 3}


@pytest.mark.full
@pytest.mark.parametrize("workload", ["same keys", "new keys"])
def test_processes(tmp_path: Path, workload: str) -> None:
    """Writers that compact logs after each commit, and compact now and then."""
    options = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.log.compaction.inline": "true",
        "hoodie.log.compaction.blocks.threshold": "2",
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "7",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    assert race(tmp_path / "t", 3, 4, workload, options) == [0] * 3
    check(tmp_path / "t", 3, 4)
    done = [item for item in hoodie.instants(str(tmp_path / "t")) if item["action"] == "deltacommit"]
    assert len(done) > 12, "log compactions are delta commits, too"
