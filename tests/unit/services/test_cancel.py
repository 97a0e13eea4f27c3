"""Pending plans of compactions and clusterings, cancelled: what goes, what stays, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.errors import ConfigError, ConflictError, TableError
from hoodie.services.clustering import schedule
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.write.transaction import Transaction
from tests.support.cli import said
from tests.support.faults import die_at
from tests.support.storages import Delegating, wrapped
from tests.support.tables import as_table, small_rows
from tests.unit.services.clustering_support import SORT, states, timeline
from tests.unit.services.undo_support import COMPACT, COPY_ON_WRITE, MERGE_ON_READ, History
from tests.unit.write.support import Templates, listing

STORAGE = LocalStorage()


def changed(path: Path, kind: str, options: dict[str, str]) -> History:
    history = History(path, kind, options)
    history.change(0)
    history.change(2)
    return history


@pytest.fixture
def mor(tmp_path: Path, templates: Templates) -> History:
    """A base file and a log in each partition."""
    return templates.copy(tmp_path / "mor", changed, MERGE_ON_READ, {})


@pytest.fixture
def cow(tmp_path: Path, templates: Templates) -> History:
    return templates.copy(tmp_path / "cow", changed, COPY_ON_WRITE, {SORT: "val"})


def schedule_clustering(history: History, columns: str = "val") -> str:
    return hoodie.cluster_table(str(history.path), mode="schedule", options={SORT: columns}).scheduled


def dies(history: History, suffix: str, act: Callable[[str], Any]) -> None:
    """The storage is gone just before the completed file of this action is made."""
    die_at(history.path, act, lambda change: change.path.endswith(suffix))


def test_a_compaction_that_nobody_began(mor: History) -> None:
    before, files = mor.actions(), listing(mor.path)
    plan = mor.compact("schedule")
    told = hoodie.cancel_plan(str(mor.path), plan, dry_run=True)
    assert (told.status, told.target, told.target_action) == ("planned", plan, "compaction")
    assert told.num_files == 0
    assert mor.actions() == [*before, "compaction requested"]
    done = hoodie.cancel_plan(str(mor.path), plan)
    assert (done.status, done.operation, done.target_state) == ("cancelled", "cancel", "requested")
    assert mor.actions() == [*before, "rollback completed"]
    data = {name: text for name, text in listing(mor.path).items() if ".hoodie" not in name}
    assert data == {name: text for name, text in files.items() if ".hoodie" not in name}
    mor.check("cancelled")
    mor.check_hudi_rs("cancelled")
    again = hoodie.cancel_plan(str(mor.path), plan)
    assert (again.status, again.reason) == ("skipped", f"{plan} was cancelled by {done.instant} already")
    mor.change(4)
    mor.compact()
    mor.check_hudi_rs("compacted")


@pytest.mark.parametrize("kind", ["compaction", "clustering"])
def test_what_a_failed_attempt_left_goes(mor: History, cow: History, kind: str) -> None:
    """As a kill leaves it: an inflight plan, base files under its instant, markers."""
    history = mor if kind == "compaction" else cow
    path = str(history.path)
    plan = history.compact("schedule") if history is mor else schedule_clustering(history)
    before = {str(file) for file in history.path.glob("*/*.parquet")}

    execute = hoodie.compact_table if history is mor else hoodie.cluster_table
    suffix = ".commit" if history is mor else ".replacecommit"
    dies(history, suffix, lambda table: execute(table, mode="execute"))
    assert list(history.path.glob(f"*/*_{plan}.parquet"))
    done = hoodie.cancel_plan(path, plan)
    assert (done.status, done.target_state) == ("cancelled", "inflight")
    assert {str(file) for file in history.path.glob("*/*.parquet")} == before
    assert not list(history.path.glob(".hoodie/.temp/*"))
    assert all(plan not in item.time for item in timeline(history.path))
    history.check("cancelled")
    history.check_hudi_rs("cancelled")
    history.change(4)
    history.check_hudi_rs("written on")


def test_a_clustering_no_longer_refuses_updates(cow: History) -> None:
    plan = schedule_clustering(cow)
    with pytest.raises(ConflictError, match=f"hoodie cancel --instant {plan}"):
        cow.change(4)
    assert hoodie.cancel_plan(str(cow.path), plan).status == "cancelled"
    cow.change(4)
    assert "replacecommit requested" not in states(cow.path)
    schedule_clustering(cow)
    assert hoodie.cluster_table(str(cow.path), mode="execute").status == "clustered"
    cow.check_hudi_rs("clustered")


@pytest.mark.table_version(6)
def test_rows_on_top_of_a_compaction_are_not_lost(mor: History) -> None:
    plan = mor.compact("schedule")
    mor.change(4)
    before = listing(mor.path)
    for dry_run in (True, False):
        with pytest.raises(TableError, match="were written on top of it and would be lost") as error:
            hoodie.cancel_plan(str(mor.path), plan, dry_run=dry_run)
        assert f"hoodie compact --mode execute --instant {plan}" in str(error.value)
        assert f"hoodie restore --instant {mor.commits()[-2]}" in str(error.value)
    assert listing(mor.path) == before
    assert hoodie.compact_table(str(mor.path), mode="execute", instant=plan).status == "compacted"
    mor.check("compacted")


@pytest.mark.table_version(6)
def test_logs_of_a_failed_write_on_top_are_no_rows(mor: History) -> None:
    plan = mor.compact("schedule")
    rows = as_table(small_rows(range(20), 7), mor.schema)
    dies(mor, ".deltacommit", lambda table: hoodie.write_table(rows, table, options=mor.options))
    assert list(mor.path.glob(f"*/.*_{plan}.log.*"))
    assert hoodie.cancel_plan(str(mor.path), plan).status == "cancelled"
    assert not list(mor.path.glob(f"*/.*_{plan}.log.*"))
    mor.check("cancelled")
    mor.change(4)


@pytest.mark.parametrize("kind", ["compaction", "clustering"])
def test_a_plan_that_is_being_executed_stays(mor: History, cow: History, kind: str) -> None:
    history = mor if kind == "compaction" else cow
    plan = history.compact("schedule") if history is mor else schedule_clustering(history)
    [instant] = timeline(history.path).pending()
    config = Config.of({"hoodie.write.wait.for.writer.ms": "0"})
    with Transaction(Table(TableRef(str(history.path)), STORAGE), config, True) as executor:
        executor.resume(instant, ["eu"])
        with pytest.raises(ConflictError):
            hoodie.cancel_plan(str(history.path), plan, options={"hoodie.write.wait.for.writer.ms": "0"})
        assert any(item.time == plan for item in timeline(history.path).pending())
    assert hoodie.cancel_plan(str(history.path), plan).status == "cancelled"


@pytest.mark.table_version(6)
@pytest.mark.parametrize("kind", ["compaction", "clustering"])
def test_a_plan_that_is_cancelled_before_it_is_read_is_no_lost_one(
    mor: History, cow: History, kind: str
) -> None:
    """Another process cancels it after this one has listed the timeline."""
    history = mor if kind == "compaction" else cow
    path = str(history.path)
    plan = mor.compact("schedule") if kind == "compaction" else schedule_clustering(cow)
    name = f"{plan}.compaction.requested" if kind == "compaction" else f"{plan}.replacecommit.requested"
    reads = iter(range(9))
    last = 0 if kind == "compaction" else 1  # the first read is to see that it is a clustering

    class Cancelling(Delegating):
        def read(self, path_: str) -> bytes:
            if path_.endswith(name) and next(reads) == last:
                hoodie.cancel_plan(path, plan)
            return super().read(path_)

    run = hoodie.compact_table if kind == "compaction" else hoodie.cluster_table
    refused = pytest.raises(ConflictError, match=f"{kind} {plan} was completed or rolled back")
    with wrapped(Cancelling), refused:
        run(path, mode="execute")
    history.check()


def test_what_is_no_pending_plan(mor: History) -> None:
    commit = mor.commits()[-1]
    plan = mor.compact("schedule")
    for time, text in (
        (commit, f"{commit} deltacommit completed, no pending plan; hoodie rollback is for failed writes"),
        ("20200101000000000", f"no instant of the timeline. Pending are compaction {plan}"),
    ):
        with pytest.raises(ConfigError, match=text):
            hoodie.cancel_plan(str(mor.path), time)
    hoodie.compact_table(str(mor.path), mode="execute", options=COMPACT)
    with pytest.raises(ConfigError, match=f"{plan} commit completed, no pending plan.*Pending are none"):
        hoodie.cancel_plan(str(mor.path), plan)


def test_a_plan_that_names_a_column_twice_can_be_executed(cow: History, monkeypatch: Any) -> None:
    """Apache Hudi plans it, and fails to execute it; so did we."""
    monkeypatch.setattr(schedule, "check_not_repeated", lambda columns: None)
    schedule_clustering(cow, "val,val")
    assert hoodie.cluster_table(str(cow.path), mode="execute").status == "clustered"
    cow.check("clustered")


def test_the_command(mor: History, capsys: pytest.CaptureFixture[str]) -> None:
    plan, table = mor.compact("schedule"), str(mor.path)
    code, out, _ = said(capsys, ["cancel", "--table", table, "--instant", plan, "--dry-run"])
    what = f"requested compaction {plan} of mor"
    assert (code, out) == (0, f"To cancel {what} would delete its plan and 0 files of 0 B\n")
    code, out, _ = said(capsys, ["cancel", "--table", table, "--instant", plan])
    assert code == 0
    assert out.startswith(f"Cancelled {what} by 2")
    code, out, _ = said(capsys, ["cancel", "--table", table, "--instant", plan])
    assert (code, out.startswith(f"Nothing to do for mor: {plan} was cancelled by")) == (0, True)
    code, _, err = said(capsys, ["cancel", "--table", table, "--instant", "1"])
    assert (code, "1 is no instant of the timeline" in err) == (1, True)
    mor.write(small_rows(range(3), 9))
