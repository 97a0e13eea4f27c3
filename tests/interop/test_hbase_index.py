"""The HBASE index beside Apache Hudi's, in one table of a real HBase: each finds what the other entered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hoodie
from tests.conftest import require
from tests.interop.test_operations import KEY_SCHEMA, Operated
from tests.support.faults import Change, die_at
from tests.support.hbase.server import HBase
from tests.support.hudi_client import HudiServer, missing
from tests.support.shared_table import KEYS, OFF, TYPE, TYPES
from tests.support.tables import SMALL_SCHEMA, Row, as_table, small_rows

pytestmark = [pytest.mark.interop, pytest.mark.full]

MOVES = {"hoodie.hbase.index.update.partition.path": "true"}
SYNC = {"hoodie.index.hbase.rollback.sync": "true"}


#: Hudi's bundle has classes of HBase under names of its own, and would tell the server to load one of them;
#: a value that is an empty element counts as none
PLAIN_CELLS = """<configuration>
<property name="hbase.client.rpc.codec" value=""/>
<property name="hbase.client.default.rpc.codec" value=""/>
</configuration>
"""


@pytest.fixture(scope="module")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiServer]:
    """Apache Hudi 0.15.0 with these settings of its HBase client."""
    lacking = missing("0.15.0")
    require(lacking is None, str(lacking))
    folder = tmp_path_factory.mktemp("conf")
    (folder / "core-site.xml").write_text(PLAIN_CELLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(folder))
        with HudiServer("0.15.0") as server:
            yield server


class Indexed(Operated):
    def __init__(self, path: Path, kind: str, hbase: HBase, **more: str) -> None:
        super().__init__(path, kind)
        self.hbase = hbase
        self.index = {**hbase.new_table(versions=5), **more}
        rates = {f"hoodie.index.hbase.{name}.batch.size": "100000" for name in ("get", "put")}
        zookeeper = {"zkquorum": "127.0.0.1", "zkport": str(hbase.zookeeper)}
        self.theirs_too = {
            **self.index,
            **rates,
            **{f"hoodie.index.hbase.{name}": value for name, value in zookeeper.items()},
        }

    def we(self, operation: str, rows: list[Row]) -> Any:
        result = self._write(str(self.path), operation, rows)
        getattr(self.model, operation)(rows)
        return result

    def die(self, operation: str, rows: list[Row]) -> None:
        """A write of ours that ends before its commit is published."""

        def published(change: Change) -> bool:
            return change.name == "create" and change.path.endswith((".commit", ".deltacommit"))

        die_at(self.path, lambda path: self._write(path, operation, rows), published)

    def they_index(self, server: HudiServer, operation: str, rows: list[Row]) -> None:
        self.they(server, operation, rows, **self.theirs_too)

    def _write(self, path: str, operation: str, rows: list[Row]) -> Any:
        schema = KEY_SCHEMA if operation == "delete" else SMALL_SCHEMA
        options = {**KEYS, **OFF, TYPE: self.kind, **self.index}
        return hoodie.write_table(as_table(rows, schema), path, operation=operation, options=options)

    def entered(self) -> set[str]:
        connection = self.hbase.connect()
        table = connection.table(self.index["hoodie.index.hbase.table"])
        found = {key.decode() for key, cells in table.scan() if b"_s:commit_ts" in cells}
        connection.close()
        return found

    def shown(self) -> set[str]:
        return set(hoodie.read_table(str(self.path), columns=["id"]).column("id").to_pylist())


@pytest.mark.parametrize("kind", TYPES)
def test_turns(tmp_path: Path, kind: str, hudi: HudiServer, hbase: HBase) -> None:
    """Where they begin, merge-on-read tables have log files alone."""
    table = Indexed(tmp_path / f"turns_{kind.lower()}", kind, hbase, **MOVES, **SYNC)
    table.they_index(hudi, "upsert", small_rows(range(60), 5))
    table.we("upsert", small_rows(range(30, 90), 6))
    assert table.entered() == table.shown()
    table.check("we continued", (hudi,))
    for turn in range(3):
        table.they_index(hudi, "upsert", small_rows(range(turn, 110, 3), 7 + 2 * turn))
        table.we("upsert", small_rows(range(turn, 120, 2), 8 + 2 * turn))
    table.check("turns", (hudi,))
    table.they_index(hudi, "delete", small_rows(range(0, 40, 4), 20))
    table.we("delete", small_rows(range(1, 40, 4), 20))
    table.they_index(hudi, "upsert", small_rows(range(0, 40, 2), 21))
    table.we("upsert", small_rows(range(1, 40, 2), 22))
    table.check("deleted and back", (hudi,))
    assert table.entered() >= table.shown()
    table.die("upsert", small_rows(range(20, 150), 23))
    table.they_index(hudi, "upsert", small_rows(range(100, 160), 24))
    table.we("upsert", small_rows(range(90, 165), 25))
    table.check("they rolled a write of ours back", (hudi,))
    assert table.entered() >= table.shown()


@pytest.mark.parametrize("kind", TYPES)
def test_records_move(tmp_path: Path, kind: str, hudi: HudiServer, hbase: HBase) -> None:
    """A key is moved by the one, and then by the other."""
    table = Indexed(tmp_path / f"moves_{kind.lower()}", kind, hbase, **MOVES, **SYNC)
    table.model = type(table.model)(["id"], [], "ts")
    regions = ["eu", "us", "apac"]
    rows = small_rows(range(40), 5)
    table.we("upsert", rows)
    for turn in range(1, 5):
        moved = [
            {**row, "region": regions[(number + turn) % 3]}
            for number, row in enumerate(small_rows(range(turn, 40, 2), 5 + turn))
        ]
        if turn % 2:
            table.they_index(hudi, "upsert", moved)
        else:
            table.we("upsert", moved)
        table.check(f"turn {turn}", (hudi,))
    assert table.entered() == table.shown()
