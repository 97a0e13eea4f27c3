"""MERGE INTO of ours that logs changed columns, beside Apache Hudi 1.2.0: it reads the rows of a model,
merges, writes and compacts on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.support.hudi_client import HudiServer
from tests.support.partial_updates import COLUMNS, EVENT, INDEXED, Twins, options_of, rows_of

pytestmark = [pytest.mark.interop, pytest.mark.full]


def local(text: str, path: str, source: pa.Table, options: Mapping[str, str]) -> Any:
    return hoodie.sql(text, tables={"t": path, "s": source}, options=options)


@dataclass(kw_only=True)
class Turns(Twins):
    """Hudi writes some of the steps. Its late rows would fill what blocks of changed columns lack."""

    server: HudiServer

    def actions(self) -> list[Callable[[], None]]:
        return [*super().actions(), self.hudi_merge, self.hudi_merge, self.hudi_upsert, self.hudi_compact]

    @property
    def name(self) -> str:
        return f"t_{self.folder.name}".replace("-", "_").replace("[", "").replace("]", "")

    def hudi_merge(self) -> None:
        """Of changed columns, too; without inserts, beside which it damages rows."""
        keys = self.chance.sample(sorted(self.rows), min(4, len(self.rows)))
        sets = [*self.chance.sample(["a", "b", "c"], self.chance.choice([1, 2])), "ts"]
        rows = [{**self.row(int(key[1:]), self.number)} for key in keys]
        values = ", ".join(
            f"('{row['id']}', '{row['day']}', {row['ts']}L, {literal(row['a'], 'bigint')}, "
            f"{literal(row['b'], 'string')}, {literal(row['c'], 'double')})"
            for row in rows
        )
        self.server.sql(f"create table {self.name} using hudi location '{self.paths[0]}'")
        try:
            self.server.sql(
                f"merge into {self.name} t using (select * from values {values} as "
                "s(id, day, ts, a, b, c)) s on t.id = s.id and t.day = s.day when matched then update set "
                + ", ".join(f"t.{name} = s.{name}" for name in sets)
            )
        finally:
            self.server.sql(f"drop table if exists {self.name}")
        for row in rows:
            self.put({**self.rows[row["id"]], **{name: row[name] for name in sets}})
        self.remember(f"hudi merge {sets} {keys} {self.number}")

    def hudi_upsert(self, **more: str) -> None:
        rows = [self.row(number, self.number) for number in self.chance.sample(range(24), 4)]
        made = {**self.options, "hoodie.table.name": "changed", **more}
        self.server.write(self.paths[0], rows_of(rows), made)
        for row in rows:
            self.put(row)
        self.remember(f"hudi upsert {[row['id'] for row in rows]} {more}")

    def hudi_compact(self) -> None:
        self.hudi_upsert(**{"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"})

    def check(self) -> None:
        super().check()
        metadata = self.chance.choice([True, False])
        self.agree(self.server.read(self.paths[0], metadata=metadata), self.expected(), "Hudi")
        some = ["id", *self.chance.sample(list(COLUMNS)[1:], 2)]
        found = self.server.read(self.paths[0], columns=some)
        self.agree(found, self.expected().select(some), f"Hudi {some}")


def literal(value: Any, kind: str) -> str:
    text = "null" if value is None else f"'{value}'"
    return f"cast({text} as {kind})"


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("seed", [1, 2])
def test_turns(hudi_12: HudiServer, tmp_path: Path, seed: int, version: int) -> None:
    options, mode = options_of(version, EVENT, INDEXED if seed == 1 else None), EVENT
    hudi_12.sql(f"set hoodie.write.table.version={version}")
    hudi_12.sql("set hoodie.clean.automatic=false")
    try:
        turns = Turns(
            tmp_path, f"{seed} {version} {mode}", mode, options, local, names=("changed",), server=hudi_12
        )
        turns.check()
        for _ in range(12):
            turns.step()
            turns.check()
    finally:
        hudi_12.sql("set hoodie.write.table.version=6")
        hudi_12.sql("reset hoodie.clean.automatic")
    assert turns.partial
