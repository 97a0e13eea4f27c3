"""Log files in rollbacks of tables of versions 8 and 9 (layout two): Apache Hudi 1.2.0 deletes the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from hoodie.errors import TableError
from hoodie.format.names import LogFileName
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table, TableRef
from hoodie.table.log_undo import DeleteLogs, LogUndo, Suspects, log_undo
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Action
from hoodie.timeline.models.rollback import RollbackPlan, RollbackRequest
from hoodie.timeline.time import InstantTime

STORAGE = LocalStorage()


@dataclass(frozen=True)
class Before:
    """A table with the log files that a rollback has deleted, and Hudi's plan of it."""

    table: Table
    plan: RollbackPlan
    partitions: tuple[str, ...]

    @property
    def target(self) -> InstantTime:
        assert self.plan.instant is not None
        return self.plan.instant.time

    @property
    def deleted(self) -> list[str]:
        """Relative to the table."""
        return [
            f"{request.partition_path}/{path.rpartition('/')[2]}"
            for request in self.plan.requests
            for path in request.files_to_delete
        ]


TABLES = [f"1.2.0-{each}/{name}" for each in ("v8", "v9") for name in ("mor_rollback", "mor_rollback_failed")]


@pytest.fixture(params=TABLES)
def before(later_tables: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Before:
    base = tmp_path / "t"
    shutil.copytree(later_tables / request.param / "table", base)
    table = Table.open(str(base))
    (done,) = table.timeline.filter([Action.ROLLBACK], completed=True)
    known = json.loads((later_tables / "slices.json").read_text())[request.param]["files"]
    plan = RollbackPlan.from_bytes(table.timeline.plan(done, STORAGE))
    made = Before(table, plan, tuple(known))
    there = [f"{partition}/{name}" for partition, names in known.items() for name in names]
    for file in (*there, *made.deleted):
        (base / file).parent.mkdir(exist_ok=True)
        (base / file).write_bytes(b"")
    return made


def test_plan(before: Before) -> None:
    """Log files with the instant in their names, whatever is in them; no command blocks."""
    undo = log_undo(before.table)
    suspects = Suspects(frozenset(), frozenset(), before.partitions)
    found = undo.plan(before.table, before.target, suspects)
    assert len(before.deleted) == 1
    assert [
        (item.partition_path, Path(item.files_to_delete[0]).name, item.log_blocks_to_delete) for item in found
    ] == [(*file.split("/"), {}) for file in before.deleted]
    assert all(item.latest_base_instant == before.target for item in found)
    assert {request.file_id for request in before.plan.requests} <= {"", *(item.file_id for item in found)}
    assert list(undo.logs_of(before.table, before.target, before.partitions, ())) == before.deleted


def test_plan_of_what_a_deltacommit_names(before: Before) -> None:
    """As in metadata tables, which have no markers: Apache Hudi deletes the log files there, too."""
    (file,) = before.deleted
    stat = WriteStat(file_id="a", path=None, num_writes=1)
    written = CommitMetadata({file.partition("/")[0]: (stat,)})
    (found,) = log_undo(before.table, marked=False).plan_written(before.table, before.target, written)
    assert found.files_to_delete == (f"{before.table.base_path}/{file}",)
    assert not found.log_blocks_to_delete


def test_a_metadata_table_has_its_own_layout(before: Before) -> None:
    """It is opened in the storage of its table, with the same settings."""
    meta = Path(before.table.base_path, ".hoodie")
    shutil.rmtree(meta / "metadata", ignore_errors=True)
    shutil.copytree(meta, meta / "metadata/.hoodie")
    ref = TableRef(before.table.base_path, {"endpoint": "there"})
    made = Table(ref, STORAGE).metadata_table
    assert made.ref == TableRef(f"{ref.uri}/.hoodie/metadata", {"endpoint": "there"})
    assert made.storage is STORAGE
    assert made.timeline.instants == before.table.timeline.instants
    assert isinstance(log_undo(made, marked=False), DeleteLogs)


def test_what_a_marker_names_is_planned_once(before: Before) -> None:
    suspects = Suspects(frozenset(), frozenset(), before.partitions, planned=frozenset(before.deleted))
    assert DeleteLogs().plan(before.table, before.target, suspects) == []


def test_log_files_of_others(before: Before) -> None:
    undo: LogUndo = DeleteLogs()
    (file,) = before.deleted
    name = LogFileName.parse(Path(file).name)
    assert name is not None
    assert name.instant == before.target
    assert undo.is_of(STORAGE, f"{before.table.base_path}/{file}", before.target)
    assert not undo.is_of(STORAGE, f"{before.table.base_path}/{file}", InstantTime("20261121000000000"))


def test_a_plan_with_command_blocks_is_refused(before: Before) -> None:
    request = RollbackRequest("eu", "f", before.target, (), {"eu/.f_1.log.1_0-0-0": 1})
    listing = before.table.listing()
    with pytest.raises(TableError, match="asks for command blocks") as raised:
        DeleteLogs().void(before.table, listing, InstantTime("20261121009999999"), before.target, request)
    assert raised.value.values == {"instant": "20261121009999999"}
