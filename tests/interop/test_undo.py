"""Rollbacks, savepoints and restores between us and Apache Hudi: each takes back what the other wrote."""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.layouts.one import ONE
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.time import InstantTime
from tests.support.faults import die_at
from tests.support.hudi_client import HudiServer
from tests.support.metadata import disagreements
from tests.support.oracle import Model
from tests.support.rows import assert_same_rows
from tests.support.shared_table import OFF, TYPES, Table

pytestmark = pytest.mark.interop

MERGE_ON_READ = "MERGE_ON_READ"
COMPACT = {"hoodie.compact.inline.max.delta.commits": 1}


class History:
    """A table with the model of each of its commits."""

    def __init__(self, path: Path, kind: str) -> None:
        self.table = Table(path, kind)
        self.states: dict[str, Model] = {}

    def ours(self, version: int) -> str:
        self.table.ours(version, OFF)
        return self._keep()

    def theirs(self, server: HudiServer, version: int) -> str:
        self.table.theirs(server, version, OFF)
        return self._keep()

    def compact(self, mode: str = "run") -> None:
        if self.table.kind == MERGE_ON_READ:
            hoodie.compact_table(str(self.table.path), mode=mode, options=COMPACT)
            self._keep()

    def back_to(self, instant: str) -> None:
        self.table.model = copy.deepcopy(self.states[instant])

    def _keep(self) -> str:
        newest = max(self.table.commits())
        self.states[newest] = copy.deepcopy(self.table.model)
        return newest


@contextlib.contextmanager
def without_metadata_table(server: HudiServer) -> Iterator[None]:
    """Procedures have no option for it, and Apache Hudi can't restore beyond one that it has just made."""
    server.sql("set hoodie.metadata.enable=false")
    try:
        yield
    finally:
        server.sql("reset hoodie.metadata.enable")


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_reads_and_goes_on_with_what_we_took_back(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """Its procedures show our rollbacks and savepoints; it writes after each, and reads what it should."""
    history = History(tmp_path / f"undone_{kind.lower()}", kind)
    table, path = history.table, str(history.table.path)
    history.ours(1)
    saved = history.ours(2)
    hoodie.savepoint_table(path, user="me", comments="before the backfill")
    kept = history.ours(3)
    history.compact()
    gone = history.ours(4)
    rolled_back = hoodie.rollback_table(path, gone)
    history.back_to(kept)
    table.check("rolled back", (hudi_015, hudi_12))
    name = table.known_as(hudi_015)
    (shown,) = hudi_015.call("show_savepoints", table=name)
    assert list(shown.values()) == [saved]
    (shown,) = hudi_015.call("show_rollbacks", table=name)
    assert shown["instant"] == rolled_back.instant
    assert shown["rollback_instant"] == gone
    assert shown["total_files_deleted"] == rolled_back.num_files
    (shown,) = hudi_12.call("show_savepoints", table=table.known_as(hudi_12))
    assert saved in shown.values()
    history.theirs(hudi_015, 5)
    table.check("written on", (hudi_015,))
    history.compact("schedule")
    history.theirs(hudi_015, 6)  # which hudi-rs can't read beside a pending compaction
    restored = hoodie.restore_table(path, InstantTime(saved))
    assert len(restored.undone) == (5 if kind == MERGE_ON_READ else 3)
    history.back_to(saved)
    table.check("restored", (hudi_015, hudi_12))
    history.theirs(hudi_015, 7)
    history.ours(8)
    history.compact()
    history.theirs(hudi_015, 9)
    table.check("written on again", (hudi_015, hudi_12))
    assert table.timeline().pending() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_goes_on_after_a_plan_was_cancelled(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """Ours and its own plans: it reads, updates the groups, plans anew, and carries that out.

    Every third version writes the same keys, so that there are logs.
    """
    history = History(tmp_path / f"cancelled_{kind.lower()}", kind)
    table, path = history.table, str(history.table.path)
    history.ours(1)
    history.ours(4)
    if kind == MERGE_ON_READ:
        plan = hoodie.compact_table(path, mode="schedule", options=COMPACT).scheduled
    else:
        sort = {"hoodie.clustering.plan.strategy.sort.columns": "ts"}
        plan = hoodie.cluster_table(path, mode="schedule", options=sort).scheduled
    assert hoodie.cancel_plan(path, plan).status == "cancelled"
    table.check("ours cancelled", (hudi_015, hudi_12))
    history.theirs(hudi_015, 7)
    table.check("written on", (hudi_015, hudi_12))
    name = table.known_as(hudi_015)
    procedure = "run_compaction" if kind == MERGE_ON_READ else "run_clustering"
    with without_metadata_table(hudi_015):
        due = "hoodie.compact.inline.max.delta.commits=1"
        hudi_015.call(procedure, op="schedule", table=name, options=due)
    [pending] = table.timeline().pending()
    assert hoodie.cancel_plan(path, pending.time).target_action == pending.action.value
    table.check("theirs cancelled", (hudi_015, hudi_12))
    history.theirs(hudi_015, 10)
    history.ours(13)
    history.compact()
    history.theirs(hudi_015, 16)
    table.check("written on again", (hudi_015, hudi_12))
    assert table.timeline().pending() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_takes_back_what_we_wrote(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """It rolls back our commit and restores to our savepoint; its restore metadata is as ours."""
    history = History(tmp_path / f"theirs_{kind.lower()}", kind)
    table, path = history.table, str(history.table.path)
    history.ours(1)
    saved = history.ours(2)
    hoodie.savepoint_table(path)
    kept = history.ours(3)
    gone = history.ours(4)
    name = table.known_as(hudi_015)
    with without_metadata_table(hudi_015):
        hudi_015.call("rollback_to_instant", table=name, instant_time=gone)
        history.back_to(kept)
        table.check("rolled back", (hudi_015,))
        ours = table.path.with_name(f"ours_{kind.lower()}")
        shutil.copytree(path, ours)
        hudi_015.call("rollback_to_savepoint", table=name, instant_time=saved)
    hoodie.restore_table(str(ours), InstantTime(saved))
    theirs_plan, theirs = _restore(table.path)
    our_plan, our = _restore(ours)
    assert our_plan == theirs_plan
    assert set(our.rollbacks) == set(theirs.rollbacks)
    assert (our.instants, our.version) == (theirs.instants, theirs.version)
    assert {ONE.name(item).partition(".")[2] for item in Timeline.load(str(ours))} == {
        ONE.name(item).partition(".")[2] for item in table.timeline()
    }
    history.back_to(saved)
    table.check("restored", (hudi_015, hudi_12))
    history.ours(5)
    history.compact()
    history.theirs(hudi_015, 6)
    table.check("written on", (hudi_015, hudi_12))


def _restore(path: Path) -> tuple[RestorePlan, RestoreMetadata]:
    (done,) = path.glob(".hoodie/*.restore")
    plan = RestorePlan.from_bytes(Path(f"{done}.requested").read_bytes())
    return plan, RestoreMetadata.from_bytes(done.read_bytes())


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_finishes_our_restore(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    history = History(tmp_path / f"killed_{kind.lower()}", kind)
    table, path = history.table, str(history.table.path)
    saved = history.ours(1)
    hoodie.savepoint_table(path)
    for version in (2, 3):
        history.ours(version)
    # each rollback deletes the files of its commit from the timeline, and at its end what may be left of them
    die_at(
        table.path,
        lambda path: hoodie.restore_table(path, InstantTime(saved)),
        lambda change: change.name == "delete" and change.path.endswith("commit.requested"),
        nth=3,
    )
    begun = [item.time for item in table.timeline().filter([Action.RESTORE], completed=False)]
    assert len(begun) == 1
    with without_metadata_table(hudi_015):
        hudi_015.call("rollback_to_savepoint", table=table.known_as(hudi_015), instant_time=saved)
    timeline = table.timeline()
    assert [item.time for item in timeline.filter([Action.RESTORE], completed=True)] == begun
    assert timeline.filter([Action.ROLLBACK]) == []
    history.back_to(saved)
    table.check("finished", (hudi_015,))
    history.ours(4)
    table.check("written on", (hudi_015,))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "saved"),
    [("cow_savepoint", "20261121000947747"), ("all_instants", "20261121005919604")],
)
def test_golden_tables_restored_by_us_and_by_apache_hudi_are_the_same(
    golden_tables: Path, tmp_path: Path, name: str, saved: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """Also with a pending clustering and a failed delta commit after the savepoint, and a clean."""
    ours, theirs = tmp_path / f"{name}_ours", tmp_path / f"{name}_theirs"
    for path in (ours, theirs):
        shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", path)
    hudi_015.sql(f"drop table if exists {name}")
    hudi_015.sql(f"create table {name} using hudi location '{theirs}'")
    with without_metadata_table(hudi_015):
        hudi_015.call("rollback_to_savepoint", table=name, instant_time=saved)
    expected = hudi_015.read(theirs, metadata=False)
    result = hoodie.restore_table(str(ours), InstantTime(saved))
    assert not result.metadata_table_removed
    assert disagreements(ours) == []
    for server in (hudi_015, hudi_12):
        for metadata in (True, False):
            rows = server.read(ours, metadata=metadata)
            assert_same_rows(rows, expected, what=f"Hudi {server.version}, {metadata}")
    assert_same_rows(hoodie.read_table(str(ours)), expected)
    left = [
        {(item.time, item.action) for item in Timeline.load(str(path)) if item.action is not Action.RESTORE}
        for path in (ours, theirs)
    ]
    assert left[0] == left[1]
