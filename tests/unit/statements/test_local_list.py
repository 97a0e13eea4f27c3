"""Statements of the local engine mean what they mean in Spark, or are refused by name."""

from __future__ import annotations

import datetime as dt
import math
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.errors import ConfigError, HoodieError, InputError
from hoodie.statements.local import page
from scripts.environment import ROOT
from tests.support.statements import KEY, LOGS, ORDERED

_FIELDS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "updated": pa.int64(),
    "s": pa.string(),
    "d": pa.float64(),
    "dec": pa.decimal128(10, 2),
    "day": pa.date32(),
    "n": pa.int32(),
    "l": pa.int64(),
    "o": pa.string(),
    "tags": pa.list_(pa.string()),
    "at": pa.timestamp("us", "UTC"),
}
_AT = dt.datetime(2024, 1, 28, 12, tzinfo=dt.UTC)
_ROWS = [
    ("a", 1, "a_b", 2.7, Decimal("3.75"), dt.date(2024, 1, 28), 0, 0, None, ["x"], _AT),
    ("b", 2, "axb", -2.7, Decimal("-3.75"), dt.date(2024, 1, 29), 1, 0, None, [], _AT),
    ("c", 3, "abc", 0.5, Decimal("0.50"), dt.date(2024, 1, 30), 2, 0, None, None, _AT),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("made") / "t")
    rows = [dict(zip(_FIELDS, row, strict=True)) for row in _ROWS]
    hoodie.write_table(pa.Table.from_pylist(rows, pa.schema(_FIELDS)), folder, options={**KEY, **ORDERED})
    return folder


@pytest.fixture
def table(made: str, tmp_path: Path) -> str:
    return str(shutil.copytree(made, tmp_path / "t"))


def values(path: str, column: str) -> list[Any]:
    found = hoodie.read_table(path, meta=False).sort_by("id")
    return list(found[column].to_pylist())


@pytest.mark.parametrize(
    ("where", "deleted"),
    [
        (r"s LIKE 'a\\_b'", "a"),
        ("dayofweek(day) = 1", "a"),
        ("weekday(day) = 0", "b"),
        ("CAST(d AS INT) = 2", "a"),
        ("substring(s, 0, 2) = 'a_'", "a"),
        ("at < '2024-01-28 12:00:01' AND day > '2024-01-29'", "c"),
    ],
)
def test_the_rows_that_spark_deletes_are_deleted(table: str, where: str, deleted: str) -> None:
    hoodie.sql(f"DELETE FROM t WHERE {where}", tables={"t": table})
    assert values(table, "id") == sorted({"a", "b", "c"} - {deleted})


@pytest.mark.parametrize(
    ("column", "expression", "stored"),
    [
        ("n", "CAST(d AS INT)", [2, -2, 0]),
        ("n", "int(d)", [2, -2, 0]),
        ("n", "d", [2, -2, 0]),
        ("l", "CAST(dec AS BIGINT)", [3, -3, 0]),
        ("o", "substring(s, 0, 2)", ["a_", "ax", "ab"]),
        ("o", "date_add(day, 1)", ["2024-01-29", "2024-01-30", "2024-01-31"]),
        ("o", "CAST(CAST(day AS TIMESTAMP) AS STRING)", [f"2024-01-{day} 00:00:00" for day in (28, 29, 30)]),
        ("o", "'it''s'", ["it's"] * 3),
        ("o", "concat(dec * 0 + 0.05, 0.05)", ["0.050.05"] * 3),
        ("dec", "dec * 1.1", [Decimal("4.13"), Decimal("-4.13"), Decimal("0.55")]),
        ("tags", "NULL", [None] * 3),
        ("day", "'2024-02-29'", [dt.date(2024, 2, 29)] * 3),
        ("day", "current_date", None),
    ],
)
def test_the_values_that_spark_stores_are_stored(
    table: str, column: str, expression: str, stored: list[Any] | None
) -> None:
    hoodie.sql(f"UPDATE t SET {column} = {expression}", tables={"t": table})
    found = values(table, column)
    if stored is None:
        today = dt.datetime.now(dt.UTC).date()
        assert set(found) <= {today, today - dt.timedelta(days=1)}
    else:
        assert found == stored


def test_a_merge_cuts_fractions_off(table: str) -> None:
    news = pa.table({"id": ["a", "b"], "d": [2.7, -2.7]})
    text = "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET n = CAST(u.d AS INT)"
    hoodie.sql(text, tables={"t": table, "u": news})
    assert values(table, "n") == [2, -2, 2]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("format_string('%s!', s)", "the function format_string"),
        ("hash(s)", "the function hash"),
        ("date_format(day, 'E')", "the function date_format"),
        ("regexp_replace(s, 'a', 'b')", "the function regexp_replace"),
        ("initcap(s)", "the function initcap"),
        ("try_cast(s AS INT)", "the function try_cast"),
        ("decode(s, 'a', 'b')", "the function decode"),
        ("CAST(d * 1e20D AS STRING)", "CAST from double to string"),
        ("string(d)", "CAST from double to string"),
        ("concat(s, d)", "CAST from double to string"),
        ("d", "CAST from double to string"),
        ("round(d, 1)", "the function round of double"),
        ("CASE WHEN s RLIKE 'a' THEN 'x' END", "s RLIKE 'a'"),
        ("CASE WHEN s ILIKE 'a' THEN 'x' END", "s ILIKE 'a'"),
        ("CASE WHEN s LIKE o THEN 'x' END", "LIKE of string and string"),
        ("CASE WHEN s = 1 THEN 'x' END", "= of string and int"),
        ("CASE WHEN n = 1 = true THEN 'x' END", "the condition n = 1"),
        ("CAST(day + INTERVAL 1 MONTH AS STRING)", "INTERVAL '1' MONTH"),
        ("CAST(n & 1 AS STRING)", "n & 1"),
        ("CAST(dec / 3 AS STRING)", "/ of decimal(10,2) and int"),
        ("substring(s, -2)", "the function substring with a place or length below 0"),
        ("tags[0]", "tags[0]"),
        ("CAST(id IN (SELECT s FROM t) AS STRING)", "IN (SELECT …)"),
        ("(SELECT max(s) FROM t WHERE NOT (id IN (SELECT s FROM t) OR n > 1))", "IN (SELECT …)"),
        ("CASE WHEN d = -0.0D THEN 'x' END", "a literal -0.0 of double"),
        ("upper()", "the function upper with 0 arguments"),
        ("(SELECT avg(d) FROM t)", "the function avg"),
        ("(SELECT sum(d) FROM t)", "the function sum of double"),
        ("(SELECT max(s) FROM t GROUP BY d)", "GROUP BY of double"),
        ("(SELECT max(s) FROM t TABLESAMPLE (5 ROWS))", "TABLESAMPLE"),
        ("(SELECT lag(s) OVER (ORDER BY id) FROM t)", "the function lag with OVER"),
    ],
)
def test_what_is_not_on_the_list_is_refused_by_name(made: str, expression: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hoodie.sql(f"UPDATE t SET o = {expression}", tables={"t": made})
    assert said in caught.value.message
    assert "docs/sql-functions.md" in caught.value.message
    assert 'engine="spark"' in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "UPDATE t SET l = s",
            "s is string and column l is bigint: Spark assigns no string to bigint; write CAST(s",
        ),
        ("UPDATE t SET day = n", "n is int and column day is date"),
        ("INSERT INTO t (id, l) SELECT id, s FROM t", "`value 2` is string and column l is bigint"),
        (
            "MERGE INTO t USING (SELECT id, s FROM t) u ON t.id = u.id WHEN MATCHED THEN UPDATE SET l = u.s",
            "u.s is string and column l is bigint",
        ),
    ],
)
def test_values_that_spark_does_not_assign_are_refused(made: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        hoodie.sql(text, tables={"t": made})
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("CAST(s AS BIGINT)", "takes digits with or without a sign on the local engine"),
        ("l / n", "division by zero"),
        ("CAST(upper('ß') AS BIGINT)", "upper takes texts of Latin letters"),
    ],
)
def test_values_that_the_engines_read_differently_fail(made: str, expression: str, said: str) -> None:
    before = hoodie.instants(made)
    with pytest.raises(InputError) as caught:
        hoodie.sql(f"UPDATE t SET l = {expression}", tables={"t": made})
    assert said in caught.value.message
    assert hoodie.instants(made) == before


@pytest.mark.parametrize("kind", [{}, LOGS])
def test_a_negative_zero_keeps_its_sign(tmp_path: Path, kind: dict[str, str]) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a"], "updated": pa.array([1], pa.int64()), "d": [1.5]})
    hoodie.write_table(rows, path, options={**KEY, **ORDERED, **kind})
    tables = {"t": path, "u": pa.table({"id": ["y", "z"], "updated": [9, 9], "d": [-0.0, 0.0]})}
    hoodie.sql(
        "MERGE INTO t USING u ON t.id = u.id"
        " WHEN NOT MATCHED THEN INSERT (id, updated, d) VALUES (u.id, u.updated, u.d)",
        tables=tables,
    )
    ranked = "SELECT *, row_number() OVER (PARTITION BY id ORDER BY updated DESC) AS n FROM u"
    hoodie.sql(
        f"INSERT INTO t SELECT concat(id, '2'), updated, d FROM ({ranked}) q WHERE n = 1", tables=tables
    )
    read = hoodie.sql(f"SELECT id, updated, d FROM ({ranked}) q WHERE n = 1 ORDER BY id", tables=tables)
    signs = [math.copysign(1, value) for value in [*values(path, "d"), *read["d"].to_pylist()]]
    assert signs == [1, -1, -1, 1, 1, -1, 1]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_sources_have_columns_of_any_type_but_no_nanoseconds(tmp_path: Path, zone: str | None) -> None:
    path, kind = str(tmp_path / "t"), pa.timestamp("us", zone)
    struct = pa.array([{"a": 1}], pa.struct([("a", pa.int64())]))
    rows = pa.table({"id": ["a"], "at": pa.array([0], kind), "st": struct, "n": pa.array([0], pa.int64())})
    hoodie.write_table(rows, path, options=KEY)
    for nanoseconds in (5000, 5001):
        source = pa.table(
            {
                "id": ["a"],
                "at": pa.array([nanoseconds], pa.timestamp("ns", zone)),
                "st": pa.nulls(1),
                "n": pa.array([7], pa.uint64()),
            }
        )
        text = "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED AND t.st.A = 1 THEN UPDATE SET *"
        if nanoseconds == 5000:
            hoodie.sql(text, tables={"t": path, "u": source})
        else:
            with pytest.raises(InputError, match="nanoseconds, which no table has"):
                hoodie.sql(text.replace("t.st.A = 1", "true"), tables={"t": path, "u": source})
    found = hoodie.read_table(path, meta=False).to_pylist()[0]
    assert (found["at"].microsecond, found["st"], found["n"]) == (5, None, 7)


def test_the_page_is_fresh() -> None:
    remedy = "run .venv/bin/python -m hoodie.statements.local.page > docs/sql-functions.md"
    assert (ROOT / "docs" / "sql-functions.md").read_text() == page.markdown(), remedy


def test_an_error_of_a_nested_text_is_ours(made: str) -> None:
    nested = "lower(" * 60 + "s" + ")" * 60
    with pytest.raises(HoodieError):
        hoodie.sql(f"UPDATE t SET o = {nested}", tables={"t": made})
