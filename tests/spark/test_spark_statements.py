"""Statements that change a table, on Spark: the rows that DuckDB has after them, or the local engine."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from tests.spark.answers import Servers, interpreter
from tests.support.partial_updates import EVENT, Twins, options_of
from tests.support.statements import Judge, for_kind, searching, statements, stored, write_tables

pytestmark = pytest.mark.spark
#: the statements of the last part, and what is said of them
REFUSED = {
    "UPDATE t SET updated = 0": "ordering column updated smaller",
    "MERGE INTO t USING (SELECT id, amount FROM s UNION ALL SELECT id, price FROM s) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET amount = s.amount": "several rows of s have one key",
    "MERGE INTO t USING (SELECT id, 'x' AS day FROM s) s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET day = s.day": ("move a row to another partition"),
    "DELETE FROM t WHERE nothing > 1": "nothing",
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "mode", "kind", "count"),
    [("4", "classic", "days", 6), ("4", "classic", "day logs", 6), ("4", "connect", "days", 4)],
)
def test_rows_are_those_of_duckdb(
    servers: Servers, tmp_path: Path, version: str, mode: str, kind: str, count: int
) -> None:
    pick = random.Random(f"{mode} {kind}")
    paths, target, source = write_tables(tmp_path, [kind], pick)
    judge, path = Judge(target, source), str(tmp_path / "s.parquet")
    pq.write_table(source, path)
    for text, plain in [*statements(pick, count), *searching()]:
        judge.run(plain)
        said = servers.ask(
            "statements", mode, paths[kind], path, [for_kind(text, kind)], python=interpreter(version)
        )
        assert said["said"] in (["upsert"], ["delete"]), said
        assert stored(paths[kind]) == judge.rows(), text
    insert = "INSERT INTO t SELECT id || 'new', day, price, amount, NULL, updated FROM s"
    judge.run(insert.replace("price, amount", "trunc(price), amount"))
    call = "CALL clean(table => 't', dry_run => true)"
    said = servers.ask("statements", mode, paths[kind], path, [insert, call], python=interpreter(version))
    assert said["said"] == ["insert", "clean"]
    assert said["rows"] == source.num_rows
    assert bool(said["views"]) == (mode == "connect")
    assert stored(paths[kind]) == judge.rows()
    if kind == "days" and mode == "classic":
        said = servers.ask("statements", mode, paths[kind], path, list(REFUSED), python=interpreter(version))
        for expected, message in zip(REFUSED.values(), said["said"], strict=True):
            assert expected in message
        assert stored(paths[kind]) == judge.rows()


@pytest.mark.full
@pytest.mark.parametrize("version", [8, 9])
def test_merges_of_changed_columns(servers: Servers, tmp_path: Path, version: int) -> None:
    """Rows are those of whole rows, and of a model; compactions and upserts between them are local."""
    path = tmp_path / "s.parquet"

    def ask(text: str, table: str, source: pa.Table, options: Mapping[str, str]) -> Any:
        pq.write_table(source, path)
        said = servers.ask("statements", "classic", table, str(path), [text], dict(options))
        assert said["said"] in (["upsert"], ["delete"]), said

    twins = Twins(tmp_path, f"spark {version}", EVENT, options_of(version, EVENT), ask)
    for _ in range(8):
        twins.step()
        twins.check()
    assert twins.partial


MATCHES = "t.id = s.id AND t.number = s.number"
UPDATES = "WHEN MATCHED AND s.amount = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET note = s.note"
INSERTS = "WHEN NOT MATCHED AND s.amount <> 2 THEN INSERT *"
#: what a merge looks for in the target: values of several columns, of other types, computed ones, none
MERGES = [
    f"MERGE INTO t USING s ON {MATCHES} {UPDATES} {INSERTS}",
    f"MERGE INTO t USING s ON {MATCHES} AND t.{{place}} = s.{{place}} {UPDATES} {INSERTS}",
    f"MERGE INTO t USING s ON {MATCHES} AND t.{{place}} = s.{{place}} {UPDATES}",
    f"MERGE INTO t USING (SELECT *, CAST(number AS bigint) AS wide FROM s WHERE id IS NOT NULL) s"
    f" ON t.id = s.id AND s.wide = t.number {UPDATES}",
    f"MERGE INTO t USING (SELECT * FROM s WHERE id IS NOT NULL) s"
    f" ON t.id = coalesce(s.id, s.note) AND t.number = s.number {UPDATES}",
    "MERGE INTO t USING (SELECT id, number, amount FROM s WHERE id > 'x') s ON t.id = s.id"
    " AND t.number = s.number WHEN MATCHED THEN DELETE",
    "MERGE INTO t AS one USING (SELECT two.*, two.amount + 1 AS more FROM t AS two JOIN s ON two.id = s.id"
    " AND two.number = s.number) s ON one.id = s.id AND one.number = s.number AND one.{place} = s.{place}"
    " WHEN MATCHED AND one.amount > 1 THEN UPDATE SET amount = s.more"
    " WHEN MATCHED THEN UPDATE SET note = 'other'",
]


def _orders(pick: random.Random, count: int, nulls: bool = False) -> pa.Table:
    """Rows with different keys, some of which have nulls in a source."""
    keys = pick.sample([(number // 6, number % 6) for number in range(90)], count)
    hour = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    return pa.table(
        {
            "id": pa.array([None if nulls and number == 5 else f"k{id_}" for id_, number in keys]),
            "number": pa.array([number for _, number in keys], pa.int32()),
            "day": pa.array([dt.date(2024, 1, 1 + number % 2) for _, number in keys]),
            "moment": pa.array([hour + dt.timedelta(hours=number % 3) for _, number in keys]),
            "amount": pa.array([pick.choice([None, 1, 2, 3, 4]) for _ in keys], pa.int64()),
            "note": pa.array([pick.choice([None, "x", "y"]) for _ in keys]),
        }
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "place", "kind", "version"),
    [
        ("classic", "day", "COPY_ON_WRITE", "6"),
        ("classic", "moment", "MERGE_ON_READ", "9"),
        ("classic", "day", "MERGE_ON_READ", "6"),
        ("connect", "day", "COPY_ON_WRITE", "9"),
    ],
)
def test_merges_are_those_of_the_local_engine(
    servers: Servers, tmp_path: Path, mode: str, place: str, kind: str, version: str
) -> None:
    """The target is read as far as it has values of the source."""
    pick = random.Random(f"{mode} {place}")
    ours, theirs = str(tmp_path / "local"), str(tmp_path / "spark")
    options = {
        "hoodie.datasource.write.recordkey.field": "id,number",
        "hoodie.datasource.write.partitionpath.field": place,
        "hoodie.datasource.write.table.type": kind,
        "hoodie.write.table.version": version,
    }
    hoodie.write_table(_orders(pick, 60), ours, options=options)
    shutil.copytree(ours, theirs)
    for text in MERGES:
        statement = text.format(place=place)
        source, path = _orders(pick, 25, nulls="INSERT" not in text), str(tmp_path / "s.parquet")
        pq.write_table(source, path)
        hoodie.sql(statement, tables={"t": ours, "s": source})
        said = servers.ask("statements", mode, theirs, path, [statement])
        assert said["said"] in (["upsert"], ["delete"]), said
        assert said["read"] == ["t: the rows with keys of the source"]
        found, expected = (
            sorted(map(repr, hoodie.read_table(table, meta=False).to_pylist())) for table in (theirs, ours)
        )
        assert found == expected, statement


COMPLETED = "t: the rows that are found, as they are written"
AFTER_ALL = "t: joined after all, for rows that can't be looked for"
KEYED = "MERGE INTO t USING {source} ON t.id = s.id AND t.number = s.number AND t.day = s.day WHEN MATCHED"
SET = "THEN UPDATE SET t.note = s.note, t.amount = s.amount"
#: what a merge that sets columns to those of the source says of its reading, by the source
COMPLETING = {
    "s": [COMPLETED],
    "(SELECT id, number, day, note, amount FROM s WHERE number < 4) s": [COMPLETED],
    "(SELECT id, number, day, max(note) note, max(amount) amount FROM s GROUP BY 1, 2, 3) s": [COMPLETED],
    "(SELECT id, CAST(number AS bigint) AS number, day, note, amount FROM s) s": [],
    "(SELECT id, number, day, note, CAST(amount AS int) AS amount FROM s) s": [],
}


@pytest.mark.full
@pytest.mark.parametrize("mode", ["classic", "connect"])
def test_merges_that_set_columns_join_nothing(servers: Servers, tmp_path: Path, mode: str) -> None:
    """Rows are those of the statement with a condition, which joins; of a bad row that is not found, too."""
    pick = random.Random(mode)
    ours, theirs, path = (str(tmp_path / name) for name in ("local", "spark", "s.parquet"))
    options = {
        "hoodie.datasource.write.recordkey.field": "id,number",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.datasource.write.precombine.field": "amount",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.table.version": "9",
    }
    first = _orders(pick, 60)
    first = first.set_column(4, "amount", pa.array([1] * 60, pa.int64()))
    hoodie.write_table(first, ours, options=options)
    shutil.copytree(ours, theirs)
    for number, (source, reads) in enumerate([*COMPLETING.items(), ("s", [COMPLETED, AFTER_ALL])]):
        rows = _orders(pick, 40).set_column(4, "amount", pa.array([number + 2] * 40, pa.int64()))
        if AFTER_ALL in reads:
            new = {**rows.slice(0, 1).to_pylist()[0], "id": "new", "amount": None}
            rows = pa.concat_tables([rows, pa.Table.from_pylist([new], rows.schema)])
        pq.write_table(rows, path)
        merge, plain = KEYED.format(source=source), KEYED.format(source="s")
        narrow = " AND s.number < 4" if "number < 4" in source else " AND true"
        hoodie.sql(f"{plain}{narrow} {SET}", tables={"t": ours, "s": rows})
        said = servers.ask("statements", mode, theirs, path, [f"{merge} {SET}"])
        assert said["said"] == ["upsert"]
        assert said["read"][: len(reads)] == reads
        assert (COMPLETED in said["read"]) == bool(reads)
        found, expected = (
            sorted(map(repr, hoodie.read_table(table, meta=False).to_pylist())) for table in (theirs, ours)
        )
        assert found == expected, source
