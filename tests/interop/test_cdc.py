"""Change data that we write, as Apache Hudi 0.15.0's queries of changes read them, in turns with its own."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie.timeline.active import Timeline
from tests.support.change_logs import CDC, MODE, MODES, rows_by_key
from tests.support.faults import die_at
from tests.support.hudi_client import HudiServer
from tests.support.shared_table import KEYS, OFF, PAYLOAD, TYPE, TYPES
from tests.support.tables import SMALL_SCHEMA, as_table, key, small_rows, without

pytestmark = [pytest.mark.interop, pytest.mark.full]

#: rows that Apache Hudi writes lack the flag of deletes, so ours do, but for those that a delete names
SCHEMA = without(SMALL_SCHEMA, "_hoodie_is_deleted")
Change = tuple[str, dict[str, Any] | None, dict[str, Any] | None]


class Table:
    """Both write it. `changes` has those of each commit, which `states` differ by."""

    def __init__(self, path: Path, kind: str, mode: str) -> None:
        self.path = path
        self.options: dict[str, Any] = {**KEYS, **OFF, **CDC, MODE: mode, TYPE: kind}
        self.state: dict[str, dict[str, Any]] = {}
        self.changes: dict[str, list[Change]] = {}
        self.replacing: set[str] = set()

    def ours(self, rows: list[dict[str, Any]], operation: str = "upsert") -> None:
        self.write(rows, operation)
        self._note({row["region"] for row in rows} if operation == "insert_overwrite" else frozenset())

    def write(self, rows: list[dict[str, Any]], operation: str = "upsert") -> None:
        table = as_table(rows, SCHEMA)
        hoodie.write_table(table, str(self.path), operation=operation, options=self.options)

    def theirs(self, server: HudiServer, rows: list[dict[str, Any]], operation: str = "upsert") -> None:
        settings = {
            **self.options,
            "hoodie.table.name": self.path.name,
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            "hoodie.datasource.write.payload.class": PAYLOAD,
            "hoodie.compact.inline": "false",
        }
        texts = {name: str(value) for name, value in settings.items()}
        server.write(self.path, as_table(rows, SCHEMA), texts, operation=operation)
        self._note()

    def _note(self, replaced: Collection[str] = ()) -> None:
        """The changes of the newest commit; all rows of partitions that it `replaced` are gone, and new."""
        commits = Timeline.load(str(self.path)).commits()
        instant = max((item.time for item in commits), key=str)
        before, self.state = self.state, rows_by_key(self.path, SCHEMA)
        assert instant not in self.changes
        self.changes[instant] = []
        if replaced:
            self.replacing.add(instant)
        for name in before.keys() | self.state.keys():
            old, new = before.get(name), self.state.get(name)
            pairs = [(old, new)]
            if (old or new or {})["region"] in replaced:
                pairs = [(old, None), (None, new)]
            for was, is_ in pairs:
                if was != is_:
                    op = "i" if was is None else "d" if is_ is None else "u"
                    self.changes[instant].append((op, was, is_))

    def check(self, server: HudiServer) -> None:
        begin = "000"
        for instant, wanted in self.changes.items():
            found = read_changes(server, self.path, begin, instant)
            if instant in self.replacing:
                found, wanted = without_deleted(found), without_deleted(wanted)
            assert ordered(found) == ordered(wanted), instant
            begin = instant


def read_changes(server: HudiServer, path: Path, begin: str, end: str) -> list[Change]:
    """Collected: Hudi 0.15.0 skips rows where Spark asks twice for the next one, as its writes do."""
    rows = server.sql(f"select * from hudi_table_changes('{path}', 'cdc', '{begin}', '{end}')")
    return [(row["op"], image(row["before"]), image(row["after"])) for row in rows]


def image(text: str | None) -> dict[str, Any] | None:
    """A row of Hudi's JSON, which lacks nulls and may have meta columns; no row may be the text null."""
    found: Mapping[str, Any] | None = json.loads(text or "null")
    return None if found is None else {name: found.get(name) for name in SCHEMA.names}


def without_deleted(changes: list[Change]) -> list[Change]:
    """Of replaced file groups 0.15.0 answers the last row as often as there are rows."""
    return [(op, None, None) if op == "d" else (op, old, new) for op, old, new in changes]


def ordered(changes: list[Change]) -> list[Change]:
    return sorted(changes, key=repr)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", MODES)
def test_hudi_reads_our_changes(tmp_path: Path, hudi_015: HudiServer, kind: str, mode: str) -> None:
    """Ours, then its own, then ours on top of them: updates, late ones, new rows, deletes."""
    table = Table(tmp_path / f"changes_{kind[:1].lower()}_{mode.lower()}", kind, mode)
    table.ours(small_rows(range(30), 1))
    table.ours([*small_rows(range(20, 40), 2), *small_rows(range(5), 2, ts=1)])
    table.ours(small_rows(range(5), 2, ts=1))
    table.ours(small_rows(range(10, 15), 3), "delete")
    table.theirs(hudi_015, small_rows(range(25, 50), 4))
    table.theirs(hudi_015, small_rows(range(30, 33), 5), "delete")
    table.ours([*small_rows(range(12, 28), 6), *small_rows(range(60, 66), 6)])
    table.ours(small_rows(range(45, 62), 7), "delete")
    table.check(hudi_015)


def test_hudi_reads_what_empties_files_and_partitions(tmp_path: Path, hudi_015: HudiServer) -> None:
    table = Table(tmp_path / "emptied", TYPES[0], MODES[2])
    rows = small_rows(range(12), 1)
    table.ours(rows)
    table.ours([row for row in rows if row["region"] == "eu"], "delete")
    table.ours(small_rows(range(20, 26), 2))
    table.ours([row for row in small_rows(range(26), 3) if row["region"] == "us"], "insert_overwrite")
    table.check(hudi_015)


def test_hudi_takes_back_a_write_that_died_in_a_change_log(tmp_path: Path, hudi_015: HudiServer) -> None:
    table = Table(tmp_path / "died", TYPES[0], MODES[2])
    table.ours(small_rows(range(30), 1))
    die_at(
        table.path,
        lambda _: table.write(small_rows(range(30), 2)),
        lambda change: change.name == "close_output" and change.path.endswith(".cdc"),
        nth=2,
    )
    table.theirs(hudi_015, small_rows(range(20, 40), 3))
    table.ours(small_rows(range(10, 25), 4))
    table.check(hudi_015)
    assert table.state.keys() == {key(number) for number in range(40)}
