"""Tables that we take from version 6 to 8 or 9 and back, in the hands of Apache Hudi at each stop."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import service_api
from hoodie.errors import StateUnavailable
from hoodie.table.handle import Table as Opened
from tests.golden.test_older_upgrade import STATE
from tests.golden.test_older_versions import batch
from tests.interop.test_upgrade import UPGRADE, shown, upgrading, written
from tests.support.hudi_client import HudiServer
from tests.support.rows import assert_same_rows
from tests.support.shared_table import OFF, PAYLOAD, TYPE, TYPES, Table
from tests.support.tables import SMALL_SCHEMA

pytestmark = pytest.mark.interop


def _agree(table: Table, *servers: HudiServer) -> None:
    expected = table.model.table(SMALL_SCHEMA)
    for server in servers:
        assert_same_rows(server.read(table.path), expected, what=f"Hudi {server.version}")


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_apache_hudi_goes_on_in_tables_that_we_upgrade(
    tmp_path: Path, kind: str, hudi_12: HudiServer, hudi_015: HudiServer
) -> None:
    """Of everything that we write to a timeline and archive. It reads and writes at version 9, and so do we
    and Apache Hudi 0.15.0 once the table is of version 6 again.
    """
    table = Table(tmp_path / f"ours_{kind.lower()}", kind)
    written(table)
    path = str(table.path)
    _agree(table, hudi_015)
    service_api.delete_savepoint(path, _savepoint(table))
    assert service_api.upgrade_table(path, "9").status == "upgraded"
    archived = shown(hudi_12, table)
    assert archived
    _agree(table, hudi_12)
    with upgrading(hudi_12):
        table.theirs(hudi_12, 15, {**OFF, **UPGRADE})
        _agree(table, hudi_12)
        assert shown(hudi_12, table) == archived
    assert service_api.downgrade_table(path, "6").status == "downgraded"
    _agree(table, hudi_015)
    table.theirs(hudi_015, 16, OFF)
    table.ours(17, {**OFF, **_payload(kind)})
    _agree(table, hudi_015)


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
def test_a_table_of_apache_hudi_goes_up_and_back(
    tmp_path: Path, kind: str, hudi_12: HudiServer, hudi_015: HudiServer
) -> None:
    """0.15.0 makes it, with its metadata table, and goes on in the end. In version 9 1.2.0 and we write."""
    table = Table(tmp_path / f"theirs_{kind.lower()}", kind)
    path, indexed = str(table.path), {"hoodie.metadata.enable": "true"}
    for version in range(4):
        table.theirs(hudi_015, version, {**OFF, **indexed})
    before = table.commits()
    assert service_api.upgrade_table(path, "9").metadata_partitions == ["files"]
    _all_agree(table, hudi_12)
    with upgrading(hudi_12):
        table.theirs(hudi_12, 4, {**OFF, **UPGRADE, **indexed})
        _all_agree(table, hudi_12)
        table.ours(5, {**OFF, **indexed})
        _all_agree(table, hudi_12)
        table.theirs(hudi_12, 6, {**OFF, **UPGRADE, **indexed})
    assert Opened.open(path).properties.version == 9
    assert service_api.downgrade_table(path, "6").status == "downgraded"
    assert before <= table.commits()
    _all_agree(table, hudi_015, hudi_12)
    table.theirs(hudi_015, 7, {**OFF, **indexed})
    table.ours(8, {**OFF, **indexed, **_payload(kind)})
    table.theirs(hudi_015, 9, {**OFF, **indexed})
    assert Opened.open(path).properties.version == 6
    _all_agree(table, hudi_015, hudi_12)


def _all_agree(table: Table, *servers: HudiServer) -> None:
    """Apache Hudi by its metadata table and without, this package and hudi-rs."""
    table.check(f"version {Opened.open(str(table.path)).properties.version}", servers)


@pytest.mark.full
@pytest.mark.parametrize("name", ["cow1", "mor4", "mor5"])
@pytest.mark.parametrize("to", [6, 9])
def test_older_tables_are_continued(
    older_tables: Path, tmp_path: Path, name: str, to: int, hudi_12: HudiServer, hudi_015: HudiServer
) -> None:
    """Those that 0.15.0 took down to versions 1, 4 and 5. An Apache Hudi of the new version goes on."""
    path = shutil.copytree(older_tables / name, tmp_path / f"{name}_{to}")
    service_api.upgrade_table(str(path), str(to))
    rows = batch(range(6, 12), 3)
    kind = "MERGE_ON_READ" if name.startswith("mor") else "COPY_ON_WRITE"
    server, settings = (hudi_015, {}) if to == 6 else (hudi_12, UPGRADE)
    options = {**_KEYS, **settings, TYPE: kind, "hoodie.table.name": name[:3]}
    with upgrading(hudi_12):
        server.write(path, rows, options)
    found = {row["id"]: (row["ts"], row["v"]) for row in server.read(path).to_pylist()}
    assert found == STATE | {f"k{number}": (3, f"3-{number}") for number in range(6, 12)}
    assert found == {row["id"]: (row["ts"], row["v"]) for row in hoodie.read_table(str(path)).to_pylist()}
    assert Opened.open(str(path)).properties.version == to


_KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.payload.class": PAYLOAD,
}


def _payload(kind: str) -> dict[str, Any]:
    return {"hoodie.datasource.write.payload.class": PAYLOAD} if kind == "MERGE_ON_READ" else {}


def _savepoint(table: Table) -> str:
    timeline = table.timeline()
    return next(str(item.time) for item in timeline if item.action.value == "savepoint")


CHAIN = (8, 9, 8, 6)
ORDINALS = {6: "SIX", 8: "EIGHT", 9: "NINE"}


class Chain:
    """A table and the states that its commits left, by instant."""

    def __init__(self, table: Table, hudi_12: HudiServer, hudi_015: HudiServer) -> None:
        self.table, self.path = table, str(table.path)
        self.hudi_12, self.hudi_015 = hudi_12, hudi_015
        self.states: dict[str, pa.Table] = {}
        #: the newest of them when the table was taken down to version 6
        self.down = ""
        self.number = 0

    @property
    def version(self) -> int:
        return Opened.open(self.path).properties.version

    @property
    def server(self) -> HudiServer:
        return self.hudi_015 if self.version == 6 else self.hudi_12

    def write(self, by: str, version: int) -> None:
        indexed = {**OFF, "hoodie.metadata.enable": "true"}
        if by == "ours":
            self.table.ours(
                self.number, {**indexed, **_payload(self.table.kind)} if version == 6 else indexed
            )
        else:
            server = self.hudi_015 if version == 6 else self.hudi_12
            kept = {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
            self.table.theirs(server, self.number, indexed if version == 6 else {**indexed, **kept})
        self.number += 1
        newest = str(self.table.timeline().commits()[-1].time)
        assert newest not in self.states
        self.states[newest] = self.table.model.table(SMALL_SCHEMA)

    def change(self, by: str, to: int) -> None:
        """The next version, up or down."""
        up = to > self.version
        if by == "ours":
            (service_api.upgrade_table if up else service_api.downgrade_table)(self.path, str(to))
        else:
            with upgrading(self.hudi_12):
                name = self.table.known_as(self.hudi_12)
                call = "upgrade_table" if up else "downgrade_table"
                self.hudi_12.call(call, table=name, to_version=ORDINALS[to])
        assert self.version == to
        self.down = max(self.states) if to == 6 else ""

    def as_of(self, instant: str) -> pa.Table | None:
        """None where the names of logs do not say any more to which slices they belonged."""
        try:
            found: pa.Table = hoodie.read_table(self.path, as_of=instant)
        except StateUnavailable:
            assert self.table.kind == "MERGE_ON_READ"
            assert instant <= self.down
            return None
        return found

    def check(self) -> None:
        """Rows, states of before, and what came since each of them; of some, by Apache Hudi, too."""
        what = f"version {self.version}"
        self.table.check(what, [self.server])
        timeline, rows = self.table.timeline(), hoodie.read_table(self.path)
        ends = {str(item.time): str(timeline.completion_time(item)) for item in timeline.commits()}
        first, *_, last, _ = self.states
        for instant, state in self.states.items():
            begin = instant if self.version == 6 else ends[instant]
            later = pa.array([other for other in self.states if other > instant], pa.string())
            since = rows.filter(pc.is_in(rows["_hoodie_commit_time"], later))
            found = {} if (own := self.as_of(instant)) is None else {"ours as of": own}
            changed = {"ours since": hoodie.read_table(self.path, begin=begin)}
            if instant in (first, last):
                if found:
                    found["Hudi as of"] = self.server.read_as_of(self.path, instant)
                changed["Hudi since"] = self.server.read_incremental(self.path, begin=begin)
            for name, answer in found.items():
                assert_same_rows(answer, state, what=f"{what}: {name} {instant}")
            for name, answer in changed.items():
                assert_same_rows(answer, since, what=f"{what}: {name} {instant}")


@pytest.mark.full
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(("up", "down"), [("ours", "hudi"), ("hudi", "ours")])
def test_up_by_one_and_down_by_the_other(
    tmp_path: Path, up: str, down: str, kind: str, hudi_12: HudiServer, hudi_015: HudiServer
) -> None:
    """From version 6 to 8, 9, 8 and 6. At each stop both write on; 0.15.0 in the end. In version 6 states of
    before are refused where log files of versions 8 and 9 would be needed, never wrong.
    """
    chain = Chain(Table(tmp_path / f"{up}_{down}_{kind[0].lower()}", kind), hudi_12, hudi_015)
    for by in ("hudi", "ours", "hudi"):
        chain.write(by, 6)
    before = 6
    for to in CHAIN:
        chain.change(up if to > before else down, to)
        before = to
        chain.check()
        for by in ("hudi", "ours"):
            chain.write(by, to)
    chain.write("hudi", 6)
    chain.check()
