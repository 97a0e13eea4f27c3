"""Values whose statistics are easily wrong: queries that leave files out by them lose no row."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import hoodie
from tests.support.arrow import arrow_schema
from tests.support.metadata import INDEXED, disagreements
from tests.support.tiers import full_but
from tests.unit.services.undo_support import COPY_ON_WRITE, MERGE_ON_READ

_UTC = dt.timezone.utc
_LONG = "a" * 1024
VALUES: dict[str, list[Any]] = {
    "x": [math.nan, -0.0, 0.0, -1.5, 7.0, math.inf, -math.inf],
    "y": [math.nan, -0.0, 0.0, 0.5],
    "c": [Decimal(10**14), Decimal(-(10**14)), Decimal("0.00000000000000000000001"), Decimal(0)],
    "huge": [Decimal(10**37 + 1), Decimal(10**37), Decimal(-(10**37)), Decimal(7)],
    "m": [
        dt.datetime(1700, 1, 1, tzinfo=_UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=_UTC),
        dt.datetime(1970, 1, 1, tzinfo=_UTC),
        dt.datetime(2024, 2, 29, 12, tzinfo=_UTC),
    ],
    "d": [dt.date(1, 1, 1), dt.date(1582, 10, 14), dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    "t": [_LONG, f"{_LONG}b", f"{_LONG}\U0001f600", "a" * 5000, "\U0010ffff" * 1100, "\ue000", "b", ""],
    "s": [None, {"a": None, "b": None}, {"a": -1, "b": {"c": None}}, {"a": 2, "b": {"c": f"{_LONG}z"}}],
}
SCHEMA = arrow_schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("x", pa.float64()),
        ("y", pa.float32()),
        ("c", pa.decimal128(38, 23)),
        ("huge", pa.decimal128(38, 0)),
        ("m", pa.timestamp("us", tz="UTC")),
        ("d", pa.date32()),
        ("t", pa.string()),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))])),
    ]
)
_PARTS = {"s.a": ["-1", "2", "3"], "s.b.c": [f"'{_LONG}z'", f"'{_LONG}'", "'b'"]}
#: a file has no statistics where a decimal has more digits than records hold: with that column, and without
_SOME = "id,x,y,c,m,d,t,s.a,s.b.c"


def rows(pick: random.Random, ids: range, ts: int) -> pa.Table:
    """Each file has few different values, and nulls."""
    columns: dict[str, list[Any]] = {"id": [f"k{number:03d}" for number in ids], "ts": [ts] * len(ids)}
    for name, values in VALUES.items():
        chosen = [None, *pick.sample(values, 2)]
        columns[name] = [pick.choice(chosen) for _ in ids]
    return pa.table(columns, schema=SCHEMA)


def literal(value: Any, scale: int) -> str:
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS DECIMAL(38, {scale}))"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, dt.date) else f"'{value}'"


def predicate(pick: random.Random) -> str:
    column = pick.choice([name for name in (*VALUES, *_PARTS) if name != "s"])
    literals = _PARTS.get(column) or [
        literal(value, 0 if column == "huge" else 23) for value in VALUES[column]
    ]
    negated = pick.choice(["", "NOT "])
    one, other = pick.choice(literals), pick.choice(literals)
    return pick.choice(
        [
            *(f"{column} {sign} {one}" for sign in ("=", "<>", "<", "<=", ">", ">=")),
            f"{column} IS {negated}NULL",
            f"{column} {negated}IN ({one}, {other})",
            f"NOT ({column} BETWEEN {one} AND {other})",
            f"t {negated}LIKE '{_LONG}%' AND {column} >= {one}",
        ]
    )


@pytest.mark.full
@pytest.mark.table_version(6)
@pytest.mark.parametrize("columns", full_but({_SOME}, (_SOME, "")))
@pytest.mark.parametrize("kind", full_but({MERGE_ON_READ}, (COPY_ON_WRITE, MERGE_ON_READ)))
@pytest.mark.parametrize("seed", full_but({1}, range(1, 4)))
def test_no_row_that_matches_is_left_out(tmp_path: Path, columns: str, kind: str, seed: int) -> None:
    """DuckDB says which rows match."""
    path, pick = str(tmp_path / "t"), random.Random(seed)
    options = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.table.services.enabled": "false",
        **INDEXED,
        **({"hoodie.metadata.index.column.stats.column.list": columns} if columns else {}),
    }
    truth: dict[str, dict[str, Any]] = {}
    for number in range(6):
        ids = range(number * 5, number * 5 + 5) if number < 4 else range(number % 4, 20, 7)
        given = rows(pick, ids, number)
        truth.update({row["id"]: row for row in given.to_pylist()})
        hoodie.write_table(given, path, operation="insert" if number < 4 else "upsert", options=options)
    assert columns or disagreements(path) == []
    left_out = 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", pa.Table.from_pylist(list(truth.values()), SCHEMA))
        for _ in range(12 if seed == 1 else 40):
            where = predicate(pick)
            expected = connection.execute(f"SELECT id FROM given WHERE {where} ORDER BY id").fetchall()
            found = hoodie.read_table(path, where=where, columns=["id"])["id"].to_pylist()
            assert sorted(found) == [id_ for (id_,) in expected], where
            steps = hoodie.explain_read(path, where=where).steps
            left_out += sum(step.files for step in steps if step.step == "column stats")
    assert left_out or not columns or kind == MERGE_ON_READ  # whose slices have values of several files
