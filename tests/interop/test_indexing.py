"""Indexes that Apache Hudi's indexer plans and builds, and ours: each goes on where the other one is."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest

import hoodie
from hoodie.errors import TableBusy
from hoodie.storage.local import LocalStorage
from hoodie.table import properties
from hoodie.table.doctor import check_table
from hoodie.timeline.instant import Action
from tests.interop.test_metadata_indexes import base_files
from tests.support.faults import Faults, InjectedFault, Phase, injected
from tests.support.hudi_client import ENABLED, HudiServer
from tests.support.indexing import wound_back
from tests.support.metadata import KEPT, disagreements, misled
from tests.support.record_index import indexed, stored
from tests.support.shared_table import FEW, OFF, TYPES, Table
from tests.support.tables import SMALL_SCHEMA

pytestmark = [pytest.mark.interop, pytest.mark.full]

STORAGE = LocalStorage()
PLAIN = {**OFF, **KEPT}
SERVED = {**FEW, **KEPT}
STATS, BLOOM, RECORDS = "column_stats", "bloom_filters", "record_index"
COLUMNS = ["_hoodie_record_key", *SMALL_SCHEMA.names]


def names(table: Table) -> set[str]:
    return set(properties.load(STORAGE, str(table.path)).metadata_partitions)


def pending(table: Table) -> list[str]:
    found = table.timeline().filter([Action.INDEXING], completed=False)
    return [str(item).split(" ", 1)[1] for item in found]


def made(tmp_path: Path, kind: str, server: HudiServer) -> Table:
    table = Table(tmp_path / f"t_{kind.lower()}", kind)
    table.theirs(server, 0, PLAIN)
    table.ours(1, PLAIN)
    return table


def asked(*indexes: str) -> dict[str, str]:
    return {f"hoodie.metadata.{ENABLED[name]}.enable": "true" for name in indexes}


def agrees(table: Table, server: HudiServer, what: str) -> None:
    """Our reader, our comparison with the files, and Apache Hudi's look at every file."""
    table.check(what, [server])
    gone = "of a file that is not there"  # Apache Hudi's clean cuts the names of files in partitions
    assert [item for item in disagreements(table.path) if gone not in item] == [], what
    if {STATS, BLOOM} <= names(table):
        assert server.index_differences(table.path, base_files(table.path), COLUMNS) == [], what
    if RECORDS in names(table):
        assert indexed(table.path) == stored(table.path), what


@pytest.mark.parametrize("kind", TYPES)
def test_what_apache_hudi_plans_hinders_nobody(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """Writes, services, a rollback and a restore, and at last its own indexer."""
    table = made(tmp_path, kind, hudi_015)
    path = str(table.path)
    assert hudi_015.indexing(path, "schedule", [STATS]) is not None
    for turn in range(2, 7):
        table.ours(turn, SERVED)
        agrees(table, hudi_015, f"turn {turn}")
    hoodie.run_services(path, options={"hoodie.compact.inline.max.delta.commits": 1})
    agrees(table, hudi_015, "services")
    taken_back(table)
    agrees(table, hudi_015, "rollback")
    hoodie.savepoint_table(path, user="me")
    before, saved = copy.deepcopy(table.model), table.timeline().commits()[-1].time
    table.ours(9, PLAIN)
    hoodie.restore_table(path, saved)
    table.model = before
    agrees(table, hudi_015, "restore")
    assert pending(table) == ["indexing requested"]
    notes = [item.text for item in check_table(path) if item.check == "pending"]
    assert len(notes) == 1
    assert "indexing requested" in notes[0]
    [planned] = table.timeline().filter([Action.INDEXING])
    hudi_015.indexing(path, "run", [STATS], planned.time)
    assert (pending(table), names(table)) == ([], {"files", STATS})
    table.check("Apache Hudi's index", [hudi_015])
    hoodie.index_table(path, "rebuild", STATS)
    table.ours(10, PLAIN)
    table.theirs(hudi_015, 11, {**PLAIN, **asked(STATS)})
    agrees(table, hudi_015, "at last")


@pytest.mark.parametrize("kind", TYPES)
def test_writes_while_apache_hudi_builds(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    """Its indexer has made file groups, and filled none yet: writers put what they write into them."""
    table = made(tmp_path, kind, hudi_015)
    path = str(table.path)
    indexes = [STATS] if kind == "MERGE_ON_READ" else [RECORDS]
    time = hudi_015.indexing(path, "schedule", indexes)
    assert time is not None
    hudi_015.indexing(path, "run", indexes, time)
    put_back = wound_back(table.path, time, indexes[0])
    table.ours(2, PLAIN)
    table.ours(3, SERVED)
    taken_back(table)
    table.theirs(hudi_015, 4, {**PLAIN, **asked(*indexes), "hoodie.metadata.index.async": "true"})
    assert (pending(table), names(table)) == (["indexing inflight"], {"files"})
    with pytest.raises(TableBusy, match="Apache Hudi's indexer has begun"):
        hoodie.index_table(path, "create", indexes)
    put_back()
    assert (pending(table), names(table)) == ([], {"files", *indexes})
    meanwhile(table, hudi_015, time)
    table.ours(5, PLAIN)
    meanwhile(table, hudi_015, time)


def test_what_a_killed_indexer_of_apache_hudi_left_is_dropped(tmp_path: Path, hudi_015: HudiServer) -> None:
    table = made(tmp_path, "MERGE_ON_READ", hudi_015)
    path = str(table.path)
    time = hudi_015.indexing(path, "schedule", [STATS])
    assert time is not None
    hudi_015.indexing(path, "run", [STATS], time)
    wound_back(table.path, time, STATS)
    table.ours(2, PLAIN)
    assert hoodie.index_table(path, "drop", STATS).dropped == [STATS]
    assert (pending(table), names(table)) == ([], {"files"})
    table.theirs(hudi_015, 3, PLAIN)
    table.ours(4, {**PLAIN, **asked(STATS, BLOOM)})
    table.theirs(hudi_015, 5, {**PLAIN, **asked(STATS, BLOOM)})
    assert names(table) == {"files", STATS, BLOOM}
    agrees(table, hudi_015, "made anew")


@pytest.mark.parametrize("kind", TYPES)
def test_each_executes_what_the_other_plans(tmp_path: Path, kind: str, hudi_015: HudiServer) -> None:
    table = made(tmp_path, kind, hudi_015)
    path = str(table.path)
    [ours] = hoodie.index_table(path, "schedule", STATS).instants
    hudi_015.indexing(path, "run", [STATS], ours)
    assert names(table) == {"files", STATS}
    table.theirs(hudi_015, 2, {**PLAIN, **asked(STATS)})
    assert hudi_015.indexing(path, "schedule", [BLOOM, RECORDS], options=asked(STATS)) is not None

    def progress(stage: str, text: str, *more: object) -> None:
        if "meanwhile" in text:
            table.ours(3, PLAIN)
            table.theirs(hudi_015, 4, {**PLAIN, **asked(STATS), "hoodie.metadata.index.async": "true"})

    done = hoodie.index_table(path, "execute", progress=progress)
    assert (done.made, pending(table)) == ([BLOOM, RECORDS], [])
    hoodie.index_table(path, "rebuild", STATS)  # its indexer leaves out files that were there
    agrees(table, hudi_015, "all indexes")
    table.theirs(hudi_015, 5, {**PLAIN, **asked(STATS, BLOOM, RECORDS), "hoodie.index.type": "RECORD_INDEX"})
    table.ours(6, {**PLAIN, "hoodie.index.type": "RECORD_INDEX"})
    agrees(table, hudi_015, "both write on")


@pytest.mark.parametrize("file", ["hoodie.properties", ".indexing"])
def test_apache_hudi_goes_on_after_our_indexer_was_killed(
    tmp_path: Path, hudi_015: HudiServer, file: str
) -> None:
    """At the end, when the index is there: before it is named, and before the instant is completed."""
    table = made(tmp_path, "MERGE_ON_READ", hudi_015)
    path, asking = str(table.path), {**PLAIN, **asked(STATS)}
    hoodie.index_table(path, "schedule", STATS)
    killed = tmp_path / "killed"
    shutil.copytree(path, killed)
    faults = Faults()
    with injected(faults):
        hoodie.index_table(str(killed), "execute")
    at = max(n for n, change in enumerate(faults.log, 1) if change.path.endswith(file))
    with injected(Faults(at=at, phase=Phase.BEFORE)), pytest.raises(InjectedFault):
        hoodie.index_table(path, "execute")
    assert pending(table) == ["indexing inflight"]
    table.ours(2, PLAIN)
    table.theirs(hudi_015, 3, asking if STATS in names(table) else PLAIN)
    table.ours(4, SERVED)
    assert hoodie.index_table(path, "execute").made == [STATS]
    table.theirs(hudi_015, 5, asking)
    assert (pending(table), names(table)) == ([], {"files", STATS})
    agrees(table, hudi_015, "finished")


def meanwhile(table: Table, server: HudiServer, time: str) -> None:
    """What was written since the plan is in the index; its indexer leaves out files that were there."""
    table.check("the indexer is done", [server])
    assert misled(table.path) == []
    if RECORDS in names(table):
        assert indexed(table.path) == stored(table.path)
    else:
        since = [file for file in base_files(table.path) if file[1].rpartition("_")[2] > time]
        found = server.index_differences(table.path, since, COLUMNS)
        assert [item for item in found if item["what"] != "bloom filter"] == []


def taken_back(table: Table) -> None:
    """A write, and its rollback."""
    before = copy.deepcopy(table.model)
    table.ours(8, PLAIN)
    hoodie.rollback_table(str(table.path), table.timeline().commits()[-1].time)
    table.model = before
