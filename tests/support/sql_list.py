"""Expressions and queries of the list of SQL that means the same on both engines, and edge values."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from hoodie.errors import ConfigError
from hoodie.read import duckdb_predicate, duckdb_sql
from hoodie.statements.local import queries
from hoodie.statements.local.functions import FUNCTIONS
from hoodie.statements.local.operators import CASTS
from hoodie.statements.local.types import of_arrow
from hoodie.statements.parser import Written

_UTC = dt.UTC
_DAYS = [
    None,
    *(dt.date(*day) for day in [(2024, 1, 28), (2024, 2, 29), (1969, 12, 31), (1, 1, 1), (9999, 12, 31)]),
    *(dt.date(*day) for day in [(1582, 10, 4), (2023, 12, 31), (1900, 2, 28), (2021, 1, 3)]),
]
_TIMES = [
    None,
    dt.datetime(2024, 1, 28, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
    dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 1, 2, 3),
    dt.datetime(1582, 10, 10, 4, 5, 6, 7000),
    dt.datetime(1970, 1, 1),
    dt.datetime(2024, 3, 31, 2, 30),
]
_TEXTS = [None, "", "a", "a_b", "axb", "a%b", r"a\b", "  x ", "ÄÖü", "日本😀", "B\n", "z" * 20, "é", "\t y"]
_WORDS = [
    None, "12", "-7", "2147483648", "1.5", "-0.0", "2.345", "1e3", "2024-02-29", "true", "FALSE", "x", "",
    " 5 ", "9223372036854775807", "1.005", "2024-02-29 12:30:00.5", "NaN", "+3", "2024-1-5", "128",
]  # fmt: skip
_DOUBLES = [None, 0.0, -0.0, 1.0, 2.5, -2.7, 0.1, 1e300, -1e-300, float("nan"), float("inf"), 3e9, 123456.785]
_INTS = [None, 0, 1, -1, 7, -3, 2**31 - 1, -(2**31)]
#: columns by name: Arrow's type and edge values
_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "y": (pa.int8(), [None, 0, 1, -1, 5, 127, -128]),
    "h": (pa.int16(), [None, 0, 3, -2, 32767, -32768]),
    "i": (pa.int32(), _INTS),
    "i2": (pa.int32(), _INTS),
    "l": (pa.int64(), [None, 0, 2, -5, 2**53 + 1, 2**63 - 1, -(2**63)]),
    "f": (pa.float32(), [None, 0.0, -0.0, 1.5, -2.5, 0.1, 1e38, float("nan"), float("-inf")]),
    "d": (pa.float64(), _DOUBLES),
    "d2": (pa.float64(), _DOUBLES),
    "c": (
        pa.decimal128(10, 2),
        [None, *(Decimal(text) for text in ("0.00", "0.05", "-0.05", "2.50", "-3.75", "99999999.99"))],
    ),
    "w": (
        pa.decimal128(24, 6),
        [None, *(Decimal(text) for text in ("0", "1.000005", "-2.500000", "123456789012345678.654321"))],
    ),
    "q": (pa.decimal128(20, 10), [None, Decimal("1E-10"), Decimal("0E-10"), Decimal("-12.5")]),
    "r": (pa.decimal128(2, 2), [None, Decimal("0.05"), Decimal("-0.99"), Decimal("0.00")]),
    "b": (pa.bool_(), [None, True, False]),
    "s": (pa.string(), _TEXTS),
    "s2": (pa.string(), [None, "", "a", "b", "x", "_", "日", "  x "]),
    "j": (pa.string(), _WORDS),
    "t": (pa.date32(), _DAYS),
    "t2": (pa.date32(), [_DAYS[1], None, _DAYS[4], _DAYS[2]]),
    "z": (pa.timestamp("us", "UTC"), [item and item.replace(tzinfo=_UTC) for item in _TIMES]),
    "x": (pa.timestamp("us"), _TIMES),
}
ROWS = 104
_FEW = ("i", "i2", "l", "f", "d", "c", "w", "b", "s", "s2", "t", "t2", "z")
_NUMBERS = ("y", "h", "i", "l", "f", "d", "c", "w")
#: written by hand: what has literals, or more than two arguments
_MORE = r"""
coalesce(d, -0.0) | concat(0.05, r) | string(q) | q * r | d * -0.0 | CASE WHEN b THEN 0 ELSE d END
1 | -5 | 3000000000 | -9223372036854775808 | 99999999999999999999 | 1L | 5S | 7Y | 1.50 | 0.05 | .5 | 0.0
-1.5 | 1e3 | 1.5D | 1.5F | -0.0 | 'text' | "text" | 'it''s' | 'a\nb\t\\' | '\u00e9'
'\a\b\Z\%\_\101\200\777\u12\'\"\r\\' | "it\"s'" | r'a\b' | 'a' 'b' | true | false | DATE '2024-01-28'
TIMESTAMP '2024-01-28 12:00:00+01:00' | TIMESTAMP '2024-01-28' | TIMESTAMP '2024-01-28 12:00:00.5'
TIMESTAMP_NTZ '2024-01-28 12:00:00.25' | t = '2024-01-28' | z < '2024-01-28 12:00:00' | x >= '1970-01-01'
s LIKE 'a\\_b' | s LIKE 'a_b' | s LIKE 'a\_b' | s LIKE 'a%' | s LIKE 'a/_b' ESCAPE '/' | s LIKE 'a\\\\b'
NOT s LIKE '%b' | s LIKE '_' | s LIKE '' | s LIKE 'a\\%b' | s LIKE '%\n' | NOT s LIKE '__'
i IN (1, 7, NULL) | i NOT IN (1, 7) | l IN (1, 2.5) | s IN ('a', '') | d IN (0.0, 1) | d NOT IN (1.5D)
i BETWEEN -1 AND 7 | t BETWEEN '1970-01-01' AND DATE '2024-12-31' | d NOT BETWEEN 0 AND 1e9
s BETWEEN 'a' AND 'b' | i IS NULL | s IS NOT NULL | b IS TRUE | b IS NOT FALSE | i IS DISTINCT FROM i2
d IS NOT DISTINCT FROM d2 | CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'n' END
CASE i WHEN 1 THEN c WHEN 7 THEN i2 ELSE l END | CASE WHEN b THEN 1 ELSE 2.5 END
CASE s WHEN 'a' THEN 1 ELSE NULL END | CASE WHEN b THEN d ELSE i END | IF(b, s, s2) | if(i > 1, 1, 2.50)
IF(b, f, 1) | i + 1 | l * 2 | c * 1.1 | c + 1 | i * 1.5 | d * 1.1 | f + 1 | c - 0.005 | d * 1e20D | l + 1.5
i % 3 | d % 0.7D | i DIV 2 | -c | - -i | -(i) | i / 2 | c / 2D | l / 3 | i * 3000000000 - 2999999999 | t + 1
t - 30 | 1 = 1.0 | i = 1.0 | c = 2.5 | c > 1 | l = 9223372036854775807 | coalesce(i, l, 0) | coalesce(c, 0)
coalesce(c, w, 1.5) | coalesce(NULL, s, 'x') | coalesce(t, '2024-01-01') | nvl(f, 1) | ifnull(i, 1.5)
nullif(i, 1) | nullif(s, 'a') | nullif(c, 2.5) | nvl2(s, i, 0) | nvl2(i, c, 1) | greatest(i, l, 3)
least(c, w, 1) | greatest(s, 'b') | least(t, t2) | substring(s, 0, 2) | substring(s, 1) | substring(s, 2, 3)
substr(s, 3, 0) | substring(s FROM 2 FOR 1) | left(s, 2) | left(s, 0) | right(s, 2) | lpad(s, 5, '*')
rpad(s, 3, 'ab') | lpad(s, 0, 'x') | replace(s, 'a', 'bb') | replace(s, '', 'x') | replace(s, 'b')
replace(s, s2, 'q') | concat(s, s2, 'x') | concat(s, i) | concat(t, '!') | concat(s) | concat_ws('-', s, s2)
concat_ws(s2, s, 'k') | concat_ws('', s, NULL, 'q') | sha2(s, 256) | round(c, 1) | round(w, 2) | round(w, 9)
round(c) | round(i) | round(i, 2) | round(2.5) | round(-2.5) | floor(-1.5) | ceil(1.2) | date_add(t, 1)
date_sub(t, 400) | date_add(t, -1) | datediff(t, t2) | date_diff(t2, t) | mod(i, 3) | mod(d, 2D)
upper('ÀÉÎõüÿŁŽж') | lower('ÀÉÎÕÜŸŁŽЖ') | trim('  a\t ') | to_date(j) | int(d) | string(c) | decimal(j)
i::bigint | (i + 1) * 2 | CAST(c AS DECIMAL(6, 1)) | CAST(w AS DECIMAL(30, 2)) | CAST(j AS DECIMAL(5, 1))
CAST('2.345' AS DOUBLE) | CAST(NULL AS INT) | CAST('12' AS INT) | CAST(2.7 AS INT) | CAST(-2.7D AS BIGINT)
CAST('2024-01-28' AS DATE) | CAST(1.005 AS DECIMAL(3,2)) | i + 1 * 2 | i2 - 1 - 2 | -h % 3 | h % 3 * 2 DIV 2
NOT i = 1 | NOT i > 1 AND b | b OR b AND i = 1 | s || 'x' = 'ax' | ! i = 1 | i = 1 OR NOT b | i IN (1) OR b
i BETWEEN 0 AND 5 AND b | NOT i BETWEEN 0 AND 5 | NOT i IN (1) | - h + 1 | -h * -1 | h - -1 | i <=> i2 OR b
NOT s IS NULL | i::bigint + 1 | -h::bigint | i + i2::bigint | 2 * c + 1 | CASE WHEN b THEN 1 END + 1
i IS NULL OR b | b AND i = 1 OR i = 2 | s LIKE 'a%' AND b | s LIKE 'a' OR b | (y + 1 > 2) = b | h / 2 * 3
h * 3 / 2 | 7 - h % 3 | l DIV 2 % 2 | '"' | "it's" | "a""b" | (i > 0) = (i2 > 0) | NOT (b AND i > 1)
b OR i = 1 | NOT b | b AND NOT b | !b | i <=> i2 | i == i2 | i != i2 | isnull(s) | isnotnull(i)
"""
#: whole queries over v; their rows in any order
QUERIES = """
SELECT count(*), count(i), count(DISTINCT s), sum(h), sum(c), min(t), max(z), min(s), max(c) FROM v
SELECT min(b), sum(y), max(b), min(x) FROM v
SELECT i, count(*) AS n, sum(c), min(s), max(t) FROM v GROUP BY i
SELECT i + 1, count(*) FROM v WHERE i < 100 GROUP BY i + 1 HAVING count(*) > 2
SELECT s, sum(h) FROM v GROUP BY s HAVING sum(h) > 0 OR s IS NULL
SELECT DISTINCT s, b FROM v
SELECT DISTINCT c, w FROM v
SELECT id, i FROM v ORDER BY i, id LIMIT 20
SELECT id, s FROM v ORDER BY s DESC, id DESC LIMIT 20
SELECT id, t FROM v ORDER BY t DESC NULLS FIRST, id LIMIT 9
SELECT id, t FROM v ORDER BY t NULLS LAST, id LIMIT 40 OFFSET 5
SELECT id, d FROM v ORDER BY id LIMIT 30
SELECT v.* FROM v WHERE id < 5
SELECT id FROM v WHERE i IN (SELECT i2 FROM v WHERE i2 > 0) OR id IN (SELECT id FROM v WHERE b)
SELECT id FROM v WHERE i NOT IN (SELECT i2 FROM v WHERE i2 > 0)
SELECT id FROM v WHERE i NOT IN (SELECT k FROM u)
SELECT id FROM v WHERE b OR i NOT IN (SELECT k FROM u)
SELECT id FROM v WHERE NOT (i IN (SELECT k FROM u WHERE k > 0)) AND b
SELECT id FROM v WHERE b OR i NOT IN (SELECT k FROM u WHERE k > 0)
SELECT id, CASE WHEN i IN (SELECT k FROM u) THEN 'y' ELSE 'n' END AS c FROM v
SELECT id FROM v WHERE EXISTS (SELECT 1 FROM u WHERE u.k = v.i)
SELECT id FROM v WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = v.i AND u.k > 0)
SELECT id, (SELECT max(k) FROM u) FROM v
SELECT id, (SELECT count(*) FROM u WHERE u.k = v.i) FROM v
SELECT id, u.name FROM v JOIN u ON v.i = u.k
SELECT id, u.name FROM v LEFT JOIN u ON v.i = u.k AND v.b
SELECT id, name FROM v RIGHT JOIN u ON v.i = u.k
SELECT id, name FROM v FULL OUTER JOIN u ON v.i = u.k
SELECT a.id, b.k FROM v a CROSS JOIN u b WHERE a.id < 3
SELECT a.id, b.k FROM v a, u b WHERE a.i = b.k
SELECT a.id, b.id FROM v a JOIN v b ON a.d = b.d2 WHERE a.id < 40 AND b.id < 40
SELECT k, name FROM u UNION ALL SELECT i, s FROM v
SELECT k FROM u UNION SELECT i FROM v
SELECT k FROM u INTERSECT SELECT i FROM v
SELECT i FROM v EXCEPT SELECT k FROM u
SELECT i FROM v EXCEPT ALL SELECT k FROM u
SELECT y FROM v UNION ALL SELECT c FROM v
SELECT * FROM (SELECT k FROM u UNION ALL SELECT id FROM v) q WHERE k < 4
WITH q AS (SELECT id, i FROM v WHERE b), p(m) AS (SELECT max(i) FROM q) SELECT q.id FROM q JOIN p ON q.i = p.m
SELECT q.n, q.m FROM (VALUES (1, 'a'), (2, NULL), (NULL, 'c')) AS q(n, m)
SELECT col1, col2 FROM VALUES (1, 2.5), (3000000000, 1)
SELECT id, row_number() OVER (PARTITION BY i ORDER BY id) AS n, rank() OVER (ORDER BY s) AS r FROM v
SELECT id, dense_rank() OVER (PARTITION BY b ORDER BY t DESC) FROM v
SELECT id, d FROM (SELECT *, row_number() OVER (PARTITION BY i ORDER BY id DESC) AS n FROM v) q WHERE n = 1
SELECT id + 1 AS m, m * 2 AS k FROM v WHERE id < 4
SELECT sum(i) FROM v WHERE false
SELECT count(*) FROM v WHERE i <> i2 AND NOT (s = s2)
"""


def edges() -> pa.Table:
    """Each column goes through its edge values, with those of another one at another pace."""
    columns: dict[str, pa.Array[Any]] = {"id": pa.array(range(ROWS), pa.int32())}
    for place, (name, (kind, values)) in enumerate(_COLUMNS.items()):
        pace = (1, len(_INTS), 3, 5)[place % 4]
        columns[name] = pa.array([values[number // pace % len(values)] for number in range(ROWS)], kind)
    return pa.table(columns)


def others() -> pa.Table:
    return pa.table(
        {"k": pa.array([None, 0, 1, 7, 1, -9], pa.int32()), "name": ["n", None, "one", "seven", "uno", "x"]}
    )


_SCHEMAS = {"v": edges().schema, "u": others().schema}


def queries_of_list() -> list[str]:
    return [line for line in QUERIES.strip().splitlines() if line]


def expressions() -> list[str]:
    """What the list takes of: each function of up to two columns, each cast, each operator of two columns,
    and those by hand.
    """
    return list(
        dict.fromkeys(text for text in _candidates() if bound(f"SELECT {text} AS e FROM v") is not None)
    )


def by_hand() -> list[str]:
    return [
        part.strip()
        for line in _MORE.strip().splitlines()
        for part in line.split(" | ")
        if part.strip() != "x.y"
    ]


def _candidates() -> Iterator[str]:
    yield from by_hand()
    for one, other in CASTS:
        for name, (kind, _) in _COLUMNS.items():
            if str(of_arrow(kind)[0].name) == one:
                yield f"CAST({name} AS {'decimal(12,1)' if other == 'decimal' else other})"
    for symbol in ("+", "-", "*", "/", "%", "DIV"):
        yield from (f"{one} {symbol} {other}" for one, other in itertools.product(_NUMBERS, repeat=2))
    yield from (f"{one} = {other}" for one, other in itertools.combinations(_COLUMNS, 2))
    for symbol in ("<>", "<", "<=", ">", ">=", "<=>"):
        yield from (
            f"{one} {symbol} {other}" for one, other in (("i", "i2"), ("d", "d2"), ("s", "s2"), ("c", "w"))
        )
    yield from ("d = d2", "s || s2", "b AND (i > 0)", "b OR (i > 0)", *(f"-{name}" for name in _NUMBERS))
    known = set[int]()
    for name, function in FUNCTIONS.items():
        yield from (f"{name}({column})" for column in _COLUMNS)
        names = _FEW if id(function.bind) not in known else ("i", "s")
        known.add(id(function.bind))
        yield from (f"{name}({one}, {other})" for one, other in itertools.product(names, repeat=2))


def bound(text: str) -> str | None:
    """DuckDB's text; None for what the list refuses."""
    try:
        return queries.text(parsed(text), _SCHEMAS)
    except (ConfigError, SqlglotError):
        return None


def parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect=Written)


class Local:
    """DuckDB, as statements are evaluated there."""

    def __init__(self) -> None:
        self._made = duckdb_predicate.connection("", *duckdb_sql._SETTINGS)
        # error() is no function that TRY takes
        self._made.execute("CREATE MACRO fails(said) AS CAST(CAST('!' || said AS UUID) AS VARCHAR)")
        for name, table in (("v", edges()), ("u", others())):
            self._made.register(name, table)

    def query(self, text: str) -> pa.Table:
        found = bound(text)
        assert found is not None, text
        answer: pa.Table = self._made.sql(found).to_arrow_table()
        return answer

    def values(self, asked: list[str]) -> dict[str, pa.ChunkedArray[Any]]:
        """By expression, of each row a struct of the value, or null where it is an error."""
        found: dict[str, pa.ChunkedArray[Any]] = {}
        for text in asked:
            one = f'SELECT TRY(struct_pack(e := {_value(text)})) AS e FROM "v" AS r1 ORDER BY r1.id'
            found[text] = self._made.sql(one).to_arrow_table()["e"]
        return found


def _value(expression: str) -> str:
    """DuckDB's text of one expression over v."""
    made = queries.answer(parsed(f"SELECT {expression} AS e FROM v"), _SCHEMAS).text
    return made.removeprefix("SELECT ").rpartition(" AS _hoodie_c")[0].replace("error(", "fails(")


def said(column: pa.ChunkedArray[Any]) -> list[str]:
    """Values for a comparison: the bits of a number count, days and instants may be beyond Python's."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        column = column.cast(pa.int32())
    return [repr(value) for value in column.to_pylist()]
