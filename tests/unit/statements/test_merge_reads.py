"""What MERGE INTO writes where it reads of its target the rows with keys of the source: the same as with all
of its rows, on DuckDB.
"""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import hoodie
from hoodie.config.key import Config
from hoodie.read.among import Among, SliceRows
from hoodie.read.query import Query
from hoodie.read.sql_tables import SqlTable
from hoodie.read.table_view import TableView
from hoodie.statements.local import queries
from hoodie.statements.merge import merge_plan
from hoodie.statements.parser import Merge, parsed
from hoodie.statements.plan import SOURCE, TARGET, Plan, tables_of, target_of
from hoodie.table.handle import Table, TableRef

ID, DAY = "hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.partitionpath.field"
GENERATOR = "hoodie.datasource.write.keygenerator.class"
ORDERED = {"hoodie.datasource.write.precombine.field": "ts"}
#: (settings of the keys, conditions that ON takes)
KEYS: dict[str, tuple[dict[str, str], list[str]]] = {
    "one": ({ID: "id"}, ["t.id = s.id", "s.ID = T.Id"]),
    "days": (
        {ID: "id", DAY: "day"},
        [
            "t.id = s.id",
            "t.id = s.id AND s.day = t.day",
            "s.`Day` = t.day AND t.id = s.id",
            "t.id = s.id AND t.day = lower(s.day)",
        ],
    ),
    "two": (
        {ID: "id,number", DAY: "date", "hoodie.datasource.write.hive_style_partitioning": "true"},
        ["t.id = s.id AND t.number = s.number", "t.number = s.number AND t.date = s.date AND t.id = s.id"],
    ),
    "numbers": (
        {ID: "wide", DAY: "day,number"},
        ["t.wide = s.wide", "t.wide = s.wide AND t.day = s.day AND t.number = s.number"],
    ),
    "hours": (
        {
            ID: "id",
            DAY: "moment",
            GENERATOR: "timestamp",
            "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
            "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
        },
        ["t.id = s.id", "t.id = s.id AND t.moment = s.moment"],
    ),
}
MOST = "s.amount = (SELECT max(amount) FROM s AS o)"
#: those of the fast tier
FAST = {("days", "MERGE_ON_READ", "9"), ("two", "COPY_ON_WRITE", "6")}


def rows_of(pick: random.Random, count: int, nulls: bool = False) -> pa.Table:
    """Rows of different keys; the columns of the partition path follow from them, but in some of a source."""
    numbers = pick.sample(range(100), count)
    moved = [number + (nulls and pick.random() < 0.2) for number in numbers]

    def column(values: list[Any], kind: pa.DataType) -> pa.Array[Any]:
        return pa.array([None if nulls and pick.random() < 0.05 else value for value in values], kind)

    return pa.table(
        {
            "id": column(
                [f"k{number // 5:02}" if number % 2 else f"key {number}" for number in numbers], pa.string()
            ),
            "number": column([number % 5 - 2 for number in numbers], pa.int32()),
            "wide": column([(number - 50) * 10**12 for number in numbers], pa.int64()),
            "day": column([f"2024-01-0{number % 4 + 1}" for number in moved], pa.string()),
            "date": column([dt.date(2024, 1, number % 4 + 1) for number in moved], pa.date32()),
            "moment": column([1_704_067_200_000 + number % 4 * 43_200_000 for number in moved], pa.int64()),
            "ts": pa.array([pick.choice([1, 2, 3]) for _ in numbers], pa.int64()),
            "amount": pa.array([pick.choice([None, 1, 2, 3, 4]) for _ in numbers], pa.int64()),
            "note": pa.array([pick.choice([None, "x", "y", "z" * 40]) for _ in numbers], pa.string()),
        }
    )


def one_a_key(rows: pa.Table, columns: list[str]) -> pa.Table:
    seen: dict[tuple[Any, ...], int] = {}
    for at, key in enumerate(zip(*(rows.column(name).to_pylist() for name in columns), strict=True)):
        seen.setdefault(key, at)
    return rows.take(pa.array(list(seen.values()), pa.int64()))


def statement(pick: random.Random, on: str) -> str:
    matched = [
        f"WHEN MATCHED AND {pick.choice(['s.amount = 1', 't.amount > 3', MOST])} THEN DELETE",
        f"WHEN MATCHED AND {pick.choice(['t.ts <= s.ts', 's.note = t.note', 't.amount IS NULL'])}"
        f" THEN UPDATE SET note = {pick.choice(['s.note', 't.note', 'NULL'])}, ts = s.ts",
        f"WHEN MATCHED THEN UPDATE SET amount = {pick.choice(['s.amount', 't.amount + s.amount', '7'])}",
    ]
    inserted = ["WHEN NOT MATCHED AND s.amount > 1 THEN INSERT *", "WHEN NOT MATCHED THEN INSERT *"]
    clauses = [clause for clause in matched if pick.random() < 0.6] or matched[2:]
    source = pick.choice(
        ["s", "s", "(SELECT * FROM s WHERE amount IS NOT NULL)", "(SELECT * FROM s WHERE amount = 9)"]
    )
    if pick.random() < 0.5 and "lower" not in on:
        clauses.append(pick.choice(inserted))
    return f"MERGE INTO t AS t USING {source} AS s ON {on} {' '.join(clauses)}"


def answer(query: Any, tables: dict[str, pa.Table]) -> list[str]:
    """The rows, or the error, of a query; tables by names in lower case."""
    wanted = tables_of(query)
    found = {name: rows for name, rows in tables.items() if name in wanted}
    database = duckdb.connect()
    for name, rows in found.items():
        database.register(name, rows)
    try:
        text = queries.text(query, {name: rows.schema for name, rows in found.items()})
        return sorted(map(repr, database.execute(text).fetchall()))
    except duckdb.Error as error:
        return [f"{type(error).__name__} {error}"[:100]]


def read_rows(table: Table, among: Among) -> tuple[pa.Table, int]:
    """The rows that a merge reads, and the files that it looks at."""
    view = TableView.load(table, None, Config(), among)
    reader = SliceRows(view.context, view.path_columns)
    names = view.schema.names
    parts = [part for item in view.slices for part in reader.tables(table.storage, item, names, among)]
    return pa.concat_tables([view.schema.empty_table(), *parts]), len(view.slices)


def written(path: str, pick: random.Random, options: dict[str, str], keys: list[str]) -> None:
    """A table with several file groups a partition; some slices have logs of updates and deletes."""
    every = {**options, "hoodie.parquet.small.file.limit": "0", "hoodie.parquet.block.size": "4096"}
    rows = one_a_key(rows_of(pick, 60), keys)
    hoodie.write_table(rows.slice(0, 40), path, operation="bulk_insert", options=every)
    hoodie.write_table(rows.slice(40), path, operation="insert", options=every)
    again = rows.take(pa.array(pick.sample(range(30), 8), pa.int64()))
    hoodie.write_table(again.set_column(7, "amount", pa.array([9] * 8, pa.int64())), path, options=every)
    hoodie.write_table(rows.slice(2, 3), path, operation="delete", options=every)


@pytest.mark.parametrize(
    ("keys", "kind", "version"),
    [
        pytest.param(keys, kind, version, marks=() if (keys, kind, version) in FAST else pytest.mark.full)
        for keys in KEYS
        for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
        for version in ("6", "8", "9")
    ],
)
def test_merges_with_rows_that_are_read_by_keys(tmp_path: Path, keys: str, kind: str, version: str) -> None:
    settings, conditions = KEYS[keys]
    pick, path = random.Random(f"{keys} {kind} {version}"), str(tmp_path / "t")
    named = settings[ID].split(",")
    options = {**settings, "hoodie.datasource.write.table.type": kind, "hoodie.write.table.version": version}
    ordered = pick.random() < 0.7
    written(path, pick, {**options, **(ORDERED if ordered else {})}, named)
    table, every = Table(TableRef.of(path, Config())), hoodie.read_table(path)
    target = target_of("t", SqlTable(table.ref, Query(), Config(), table))
    found, less = 0, 0
    for _ in range(12):
        source = rows_of(pick, pick.choice([0, 3, 40]), nulls=True)
        source = source if pick.random() < 0.2 else one_a_key(source, named)
        text = statement(pick, pick.choice(conditions))
        merge = parsed(text)
        assert isinstance(merge, Merge)
        plan: Plan = merge_plan(merge, target, source.column_names)
        assert plan.join is not None, text
        values = source.select(plan.join.compared.names).drop_null()
        theirs = {theirs: name for name, theirs in plan.join.columns.items()}
        among = Among.of(values.rename_columns([theirs[name] for name in values.column_names]))
        read, _ = read_rows(table, among)
        first = answer(plan.query, {"t": every, "s": source})
        again = answer(plan.join.query, {TARGET: read, SOURCE: answer_rows(plan, source), "s": source})
        assert again == first, text
        found += len(first)
        less += every.num_rows - read.num_rows
    assert found
    assert less


def answer_rows(plan: Plan, source: pa.Table) -> pa.Table:
    """The rows of the source's own query."""
    assert plan.join is not None
    database = duckdb.connect()
    database.register("s", source)
    text = queries.text(plan.join.source, {"s": source.schema})
    found: pa.Table = database.sql(text).to_arrow_table()
    return found
