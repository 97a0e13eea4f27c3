"""The metadata table that we keep, beside Apache Hudi: it reads by it, writes on, and we go on."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.time import InstantTime
from tests.support.hudi_client import HudiServer
from tests.support.metadata import KEPT, disagreements, has_metadata_table
from tests.support.readers import read_daft
from tests.support.rows import assert_same_rows
from tests.support.shared_table import FEW, OFF, TYPES, Table
from tests.support.tables import SMALL_SCHEMA

pytestmark = pytest.mark.interop

#: services inside of writes
SERVED: Mapping[str, Any] = {
    **FEW,
    **KEPT,
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": 2,
}
PLAIN: Mapping[str, Any] = {**OFF, **KEPT}
#: nothing said of a metadata table, by either
DEFAULT: Mapping[str, Any] = {**OFF, "hoodie.metadata.enable": None}
CLUSTER = {"hoodie.clustering.plan.strategy.sort.columns": "ts", **KEPT}
COMPACT = {"hoodie.compact.inline.max.delta.commits": 1, **KEPT}


def agrees(table: Table, what: str, servers: tuple[HudiServer, ...]) -> None:
    """Rows by the metadata table and without it, and the files that it lists."""
    assert has_metadata_table(table.path), what
    assert disagreements(table.path) == [], what
    table.check(what, servers)
    for server in servers[:1]:
        name = table.known_as(server)
        assert server.call("validate_metadata_table_files", table=name, verbose=False) == [], what


@pytest.mark.full
@pytest.mark.real_defaults
@pytest.mark.parametrize("kind", TYPES)
def test_in_turns_by_the_defaults_of_both(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """The table that a first write of ours makes is Apache Hudi's to go on with, and back."""
    table = Table(tmp_path / f"default_{kind.lower()}", kind)
    for version in range(1, 4):
        table.ours(version, DEFAULT)
    agrees(table, "by us", (hudi_015, hudi_12))
    if kind == "COPY_ON_WRITE":
        assert_same_rows(read_daft(table.path), table.model.table(SMALL_SCHEMA), what="Daft")
    for version in range(4, 6):
        table.theirs(hudi_015, version, DEFAULT)
    agrees(table, "by Apache Hudi", (hudi_015,))
    table.ours(6, DEFAULT)
    agrees(table, "by us again", (hudi_015, hudi_12))
    followed = Timeline.load(f"{table.path}/.hoodie/metadata").filter((Action.DELTACOMMIT,), completed=True)
    assert table.commits() <= {instant.time for instant in followed}


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_in_turns(tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """We write, Apache Hudi writes on, we compact or cluster, clean and archive, and so on."""
    table = Table(tmp_path / f"turns_{kind.lower()}", kind)
    path = str(table.path)
    for version in range(1, 4):
        table.ours(version, PLAIN)
    agrees(table, "by us", (hudi_015, hudi_12))
    for version in range(4, 6):
        table.theirs(hudi_015, version, PLAIN)
    agrees(table, "by Apache Hudi", (hudi_015,))
    if kind == "MERGE_ON_READ":
        assert hoodie.compact_table(path, options=COMPACT).compacted
    else:
        assert hoodie.cluster_table(path, options=CLUSTER).clustered
    table.ours(6, PLAIN)
    agrees(table, "rewritten by us", (hudi_015, hudi_12))
    table.theirs(hudi_015, 7, SERVED)
    for version in range(8, 11):
        table.ours(version, SERVED)
    agrees(table, "serviced by both", (hudi_015, hudi_12))
    before = copy.deepcopy(table.model)
    table.ours(11, PLAIN)
    hoodie.rollback_table(path, max(table.commits()), options=KEPT)
    table.model = before
    agrees(table, "rolled back", (hudi_015,))
    table.theirs(hudi_015, 12, PLAIN)
    table.ours(13, PLAIN)
    agrees(table, "written on", (hudi_015, hudi_12))
    assert table.timeline().pending() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_twenty_turns(tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """With cleans, archiving, and compactions of both tables by both."""
    table = Table(tmp_path / f"twenty_{kind.lower()}", kind)
    for turn in range(20):
        options = SERVED if turn > 2 else PLAIN
        if turn % 2:
            table.theirs(hudi_015, turn, options)
        else:
            table.ours(turn, options)
        agrees(table, f"turn {turn}", (hudi_015,))
    agrees(table, "in the end", (hudi_015, hudi_12))
    actions = {item.action for item in Timeline.load(f"{table.path}/.hoodie/metadata")}
    assert Action.COMMIT in actions, "compactions"


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_a_table_of_apache_hudi(tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer) -> None:
    """Its metadata table stays; it takes back what we wrote, and we what it wrote."""
    table = Table(tmp_path / f"theirs_{kind.lower()}", kind)
    for version in range(1, 4):
        table.theirs(hudi_015, version, PLAIN)
    before = copy.deepcopy(table.model)
    table.ours(4, PLAIN)
    agrees(table, "ours on theirs", (hudi_015, hudi_12))
    name = table.known_as(hudi_015)
    hudi_015.call("rollback_to_instant", table=name, instant_time=max(table.commits()))
    table.model = copy.deepcopy(before)
    agrees(table, "ours rolled back by Apache Hudi", (hudi_015,))
    table.theirs(hudi_015, 5, PLAIN)
    hoodie.rollback_table(str(table.path), max(table.commits()), options=KEPT)
    table.model = before
    agrees(table, "theirs rolled back by us", (hudi_015,))
    table.ours(6, PLAIN)
    table.theirs(hudi_015, 7, SERVED)
    agrees(table, "written on", (hudi_015, hudi_12))


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_without_a_setting_and_over_a_restore(
    tmp_path: Path, kind: str, hudi_015: HudiServer, hudi_12: HudiServer
) -> None:
    """It is kept since it is there; our restore makes it anew, and Apache Hudi goes on with that."""
    table = Table(tmp_path / f"there_{kind.lower()}", kind)
    for version in range(1, 3):
        table.theirs(hudi_015, version, PLAIN)
    table.ours(3, OFF)
    agrees(table, "ours without a setting", (hudi_015, hudi_12))
    before, point = copy.deepcopy(table.model), max(table.commits())
    table.theirs(hudi_015, 4, PLAIN)
    table.ours(5, OFF)
    result = hoodie.restore_table(str(table.path), InstantTime(point))
    assert (result.status, result.warnings) == ("restored", [])
    table.model = before
    agrees(table, "restored", (hudi_015, hudi_12))
    table.theirs(hudi_015, 6, PLAIN)
    table.ours(7, OFF)
    assert hoodie.index_table(str(table.path), "rebuild").status == "rebuilt"
    agrees(table, "rebuilt", (hudi_015, hudi_12))
    table.theirs(hudi_015, 8, PLAIN)
    agrees(table, "written on", (hudi_015, hudi_12))


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [
        "mdt_full_cow",
        "mdt_compacted",
        "idx_rli_mor",
        "mor_clustered",
        "mor_logcompaction",
        "cow_savepoint_restore",
    ],
)
def test_golden_tables(golden_tables: Path, tmp_path: Path, name: str, hudi_015: HudiServer) -> None:
    """Without other indexes than files; Apache Hudi goes on with it."""
    path = tmp_path / name
    shutil.copytree(golden_tables / "0.15.0-v6" / name / "table", path)
    rows = hoodie.read_table(str(path), meta=False)
    hoodie.write_table(rows.slice(0, 7), str(path), options=KEPT)
    assert disagreements(path) == []
    on, off = (hudi_015.read(path, metadata=metadata) for metadata in (True, False))
    assert sorted(map(str, on.to_pylist())) == sorted(map(str, off.to_pylist()))
    assert on.num_rows == rows.num_rows
