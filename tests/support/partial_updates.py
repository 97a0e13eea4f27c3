"""Two tables to which the same statements come: the merges of one log changed columns, those of the other
whole rows. A model of rows in Python says what both have to hold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.format.log_data import is_partial
from hoodie.format.log_file import LogFileReader
from hoodie.storage.local import LocalStorage
from hoodie.table.handle import Table
from hoodie.timeline.instant import Instant
from tests.support.rows import difference

EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
PARTIAL = "hoodie.spark.sql.merge.into.partial.updates"
STRUCT = pa.struct([("n", pa.int64()), ("s", pa.string())])
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "day": pa.string(),
    "ts": pa.int64(),
    "a": pa.int64(),
    "b": pa.string(),
    "c": pa.float64(),
    "d": STRUCT,
}
SCHEMA = pa.schema(COLUMNS)
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.parquet.small.file.limit": "0",
}
INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
KEYS = 24
PREDICATES = ("a > 5", "b = 'b1' AND a < 4", "c IS NULL", "a = 3 OR b = 'b2'", "ts >= 30 AND b <> 'b0'")
Row = dict[str, Any]


def options_of(version: int, mode: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    made = {"hoodie.write.table.version": str(version), "hoodie.write.record.merge.mode": mode}
    return {**OPTIONS, **made, **(more or {})}


def rows_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def last_commit(path: str) -> Instant:
    return Table.open(path).timeline.commits()[-1]


def logs(path: str) -> list[Path]:
    """The log files of a table, without the sums that Hadoop lays beside them."""
    return [file for file in Path(path).glob("*/.*.log.*") if file.suffix != ".crc"]


def partial_blocks(path: str) -> int:
    """Blocks of changed columns in the log files of a table."""
    count = 0
    for file in logs(path):
        with LogFileReader(LocalStorage(), str(file)) as reader:
            count += sum(is_partial(block) for block in reader.blocks())
    return count


@dataclass
class Twins:
    """`sql` runs a statement: text, path, source, settings. `states`: the rows, and the last commit of each
    table, after each step.
    """

    folder: Path
    seed: str
    mode: str
    options: Mapping[str, str]
    sql: Callable[[str, str, pa.Table, Mapping[str, str]], Any]
    names: tuple[str, ...] = ("changed", "whole")
    rows: dict[str, Row] = field(default_factory=dict)
    number: int = 0
    partial: int = 0
    steps: list[str] = field(default_factory=list)
    states: list[tuple[dict[str, Row], list[Instant]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.paths = [str(self.folder / name) for name in self.names]
        first = [self.row(number, 0) for number in range(KEYS)]
        self.rows = {row["id"]: row for row in first}
        for path in self.paths:
            hoodie.write_table(rows_of(first), path, options=self.options)
        self.remember("insert")

    # ---- steps

    def step(self) -> None:
        self.number += 10
        self.chance.choice(self.actions())()

    def actions(self) -> list[Callable[[], None]]:
        every = [self.update, self.delete, self.upsert, self.compact, self.roll_back]
        return [*[self.merge] * 4, *every]

    def merge(self) -> None:
        chance = self.chance
        late = self.number + chance.choice([0, 0, -10, -25])
        numbers = chance.sample(range(KEYS + 8), chance.choice([3, 8]))
        source = [{**self.row(number, late)} for number in numbers]
        sets = [self.sets(), self.sets()]
        two, deletes, inserts = (chance.random() < share for share in (0.3, 0.3, 0.5))
        clauses = []
        if deletes:
            clauses.append("WHEN MATCHED AND s.a = 7 THEN DELETE")
        if two:
            clauses.append(f"WHEN MATCHED AND t.a < 4 THEN UPDATE SET {self.text(sets[0])}")
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {self.text(sets[1])}")
        if inserts:
            clauses.append(
                "WHEN NOT MATCHED THEN INSERT (id, day, ts, a, b) "
                f"VALUES (s.id, s.day, {self.number}, s.a, s.b)"
            )
        for row in source:
            old = self.rows.get(row["id"])
            if old is None:
                if inserts:
                    kept = {name: row[name] for name in ("id", "day", "a", "b")}
                    self.rows[row["id"]] = {**kept, "ts": self.number, "c": None, "d": None}
            elif deletes and row["a"] == 7:
                del self.rows[row["id"]]
            else:
                chosen = sets[0] if two and old["a"] is not None and old["a"] < 4 else sets[1]
                self.put({**old, **{name: row[name] for name in chosen}})
        text = f"MERGE INTO t USING s ON t.id = s.id AND t.day = s.day {' '.join(clauses)}"
        self.run(text, rows_of(source))

    def sets(self) -> list[str]:
        names = self.chance.sample(["a", "b", "c", "d"], self.chance.choice([1, 1, 2]))
        return [*names, *(["ts"] if self.chance.random() < 0.4 else [])]

    def text(self, names: list[str]) -> str:
        return ", ".join(f"{name} = s.{name}" for name in names)

    def put(self, row: Row) -> None:
        """A row that comes to a stored one."""
        old = self.rows.get(row["id"])
        if old is None or self.mode == COMMIT or row["ts"] >= old["ts"]:
            self.rows[row["id"]] = row

    def update(self) -> None:
        for row in list(self.rows.values()):
            if row["a"] is not None and row["a"] > 4:
                self.put({**row, "b": "up"})
        self.run("UPDATE t SET b = 'up' WHERE a > 4", rows_of([]))

    def delete(self) -> None:
        self.rows = {key: row for key, row in self.rows.items() if row["b"] != "b1"}
        self.run("DELETE FROM t WHERE b = 'b1'", rows_of([]))

    def upsert(self) -> None:
        """Rows that are not there come on time: a late one may be older than its delete."""
        rows = []
        for number in self.chance.sample(range(KEYS + 8), 6):
            row = self.row(number, self.number)
            if row["id"] in self.rows:
                row["ts"] += self.chance.choice([0, -10, -15, -25])
            rows.append(row)
            self.put(row)
        for path in self.paths:
            hoodie.write_table(rows_of(rows), path, options=self.given)
        self.remember(f"upsert {[(row['id'], row['ts']) for row in rows]}")

    def compact(self) -> None:
        service = hoodie.cluster_table if self.chance.random() < 0.3 else hoodie.compact_table
        for path in self.paths:
            service(path, options={**self.given, "hoodie.clustering.inline.max.commits": "1"})
        self.remember(service.__name__)

    def roll_back(self) -> None:
        """The last commit, where it is of rows."""
        if not self.steps[-1].startswith(("MERGE", "UPDATE", "DELETE", "upsert")):
            return
        for path in self.paths:
            hoodie.rollback_table(path, str(last_commit(path).time), options=self.given)
        self.rows = dict(self.states[-2][0])
        self.states = self.states[:-2]
        self.remember("roll back")

    def run(self, text: str, source: pa.Table) -> None:
        before = partial_blocks(self.paths[0])
        for path in self.paths:
            partial = str(path is self.paths[0]).lower()
            self.sql(text, path, source, {**self.given, PARTIAL: partial})
        self.partial += partial_blocks(self.paths[0]) - before
        assert not any(partial_blocks(path) for path in self.paths[1:])
        self.remember(f"{text} {[(row['id'], row['ts'], row['a']) for row in source.to_pylist()]}")

    @property
    def given(self) -> dict[str, str]:
        """Settings that a table does not persist."""
        return {name: text for name, text in self.options.items() if ".write." not in name}

    def row(self, number: int, ts: int) -> Row:
        pick = self.chance.choice
        a = pick([None, *range(9)])
        return {
            "id": f"k{number:02}",
            "day": f"d{number % 2}",
            "ts": ts,
            "a": a,
            "b": pick([None, "b0", "b1", "b2"]),
            "c": pick([None, 0.5, float(self.number)]),
            "d": pick([None, {"n": a, "s": None}, {"n": None, "s": f"s{self.number}"}]),
        }

    # ---- what both have to hold

    def remember(self, step: str) -> None:
        self.steps.append(step)
        last = [last_commit(path) for path in self.paths]
        self.states.append((dict(self.rows), last))

    def expected(self) -> pa.Table:
        return rows_of(list(self.rows.values()))

    def check(self) -> None:
        """Rows of both tables, of some columns, of the past and of a span."""
        for path in self.paths:
            self.agree(hoodie.read_table(path, meta=False), self.expected(), "rows")
        some = self.chance.sample(list(COLUMNS), 3)
        part = hoodie.read_table(self.paths[0], meta=False, columns=some)
        self.agree(part, self.expected().select(part.column_names), f"columns {some}")
        where = self.chance.choice(PREDICATES)
        found = [hoodie.read_table(path, meta=False, where=where) for path in self.paths]
        self.agree(found[0], found[-1], where)
        rows, last = self.chance.choice(self.states)
        past = hoodie.read_table(self.paths[0], meta=False, as_of=last[0].time)
        self.agree(past, rows_of(list(rows.values())), f"as of {last[0]}")
        found = [
            hoodie.read_table(path, meta=False, begin=item.completion)
            for path, item in zip(self.paths, last, strict=True)
        ]
        self.agree(found[0], found[-1], f"since {last}")

    def agree(self, found: pa.Table, expected: pa.Table, what: str) -> None:
        text = difference(found, expected)
        assert not text, "\n".join([*self.steps, what, str(text)])
