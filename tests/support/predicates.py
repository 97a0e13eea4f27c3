"""Random predicates in SQL that DuckDB and Spark both take, and rows to ask them of."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.support.arrow import arrow_schema

SCHEMA = arrow_schema(
    [
        ("t", pa.string()),
        ("u", pa.string()),
        ("i", pa.int32()),
        ("n", pa.int64()),
        ("d", pa.date32()),
        ("m", pa.timestamp("us", tz="UTC")),
        ("f", pa.bool_()),
        ("c", pa.decimal128(10, 2)),
        ("x", pa.float64()),
        ("y", pa.float32()),
    ]
)
_DAYS = [
    dt.date(1969, 12, 31),
    dt.date(2023, 12, 31),
    *(dt.date(2024, month, 1) for month in (1, 2, 3)),
    dt.date(2024, 2, 29),
]
_TIMES = [dt.time(0), dt.time(10, 30), dt.time(23, 59, 59, 999999)]
_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "a%",
    "a_c",
    "b",
    "B",
    "é",
    "aé",
    "\U0001f600",
    "\ue000",
    " a",
    "7",
    "07",
    "-0",
]
_TEXTS += ["2024-01-01", "2024-1-1", "2024", "2024-02-29", "2024-01-01 10:30:00", "x\ny"]
_MOMENTS = [dt.datetime.combine(day, time, dt.timezone.utc) for day in _DAYS for time in _TIMES]
VALUES: Mapping[str, list[Any]] = {
    "t": _TEXTS,
    "u": [day.isoformat() for day in _DAYS],
    "i": [-(2**31), -7, 0, 7, 8, 20, 2**31 - 1],
    "n": [-(2**63), -1, 0, 7, 2**40, 2**53 + 1, 2**63 - 1],
    "d": _DAYS,
    "m": _MOMENTS,
    "f": [True, False],
    "c": [Decimal(text) for text in ("-1.50", "0.00", "1.50", "1.51", "7.00", "99999999.99")],
    "x": [-1.5, -0.0, 0.0, 0.1, 7.0, 1e300, math.inf, -math.inf, math.nan],
    "y": [-1.5, -0.0, 0.0, 0.5, 7.0, math.inf, math.nan],
}
_SIGNS = ("=", "<>", "!=", "<", "<=", ">", ">=")
_NUMBERS = (
    "0",
    "7",
    "-7",
    "7.0",
    "1.5",
    "1.505",
    "0.1",
    "0.5",
    "20",
    "4294967296",
    "9007199254740993",
    "1e0",
)


def rows(pick: random.Random, count: int) -> pa.Table:
    """Rows with nulls; few different values, so that predicates find some."""
    columns = []
    for field in SCHEMA:
        values = pick.sample(VALUES[field.name], min(3, len(VALUES[field.name])))
        columns.append(pa.array([pick.choice([*values, values[0], None]) for _ in range(count)], field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def quoted(text: str) -> str:
    return "'" + text + "'"


def predicate(pick: random.Random, depth: int = 3) -> str:
    """Of the columns of SCHEMA."""
    kind = pick.randrange(8) if depth else 9
    if kind < 3:
        word = pick.choice([" AND ", " OR ", " and "])
        terms = word.join(predicate(pick, depth - 1) for _ in range(pick.randint(2, 3)))
        return f"({terms})" if pick.random() < 0.8 else terms
    if kind == 3:
        return f"NOT ({predicate(pick, depth - 1)})"
    if kind == 4:
        which = pick.choice(["TRUE", "FALSE", "NULL"])
        return f"(({predicate(pick, depth - 1)}) IS {pick.choice(['', 'NOT '])}{which})"
    return _leaf(pick)


def _leaf(pick: random.Random) -> str:
    column = pick.choice(SCHEMA.names)
    negated = pick.choice(["", "", "NOT "])
    kind = pick.randrange(10)
    if kind == 0:
        return f"{column} IS {negated}NULL"
    if kind == 1:
        return _other(pick)
    value, literal = _pair(pick, column)
    if kind == 2:
        same = pick.choice(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return f"{value} {same} {literal()}"
    if kind == 3:
        return f"{value} {negated}BETWEEN {literal()} AND {literal()}"
    if kind == 4:
        values = [literal() for _ in range(pick.randint(1, 3))] + ["NULL"] * (pick.random() < 0.2)
        return f"{value} {negated}IN ({', '.join(values)})"
    if kind == 5 and column in "tu":
        pattern = pick.choice(["a%", "2024-%", "%", "", "a_", "_%b%", "2024-0_-01", "é%", "%1"])
        return f"{column} {negated}LIKE {quoted(pattern)}"
    if kind == 6:
        return f"{literal()} {pick.choice(_SIGNS)} {value}"
    return f"{value} {pick.choice(_SIGNS)} {literal()}"


def _other(pick: random.Random) -> str:
    """What a tree does not know, or knows without a literal."""
    return pick.choice(
        [
            *("f", "NOT f", "f = true", "f <> false", "f IS TRUE", "f IS NOT FALSE", "TRUE", "false"),
            *("i = n", "t = u", "i < n", "t <= u", "x = x", "i = NULL", "n = i + 1", "length(t) > 1"),
            *("CASE WHEN f AND i = 7 THEN t = 'a' ELSE d IS NULL END", "coalesce(f, i = 7)", "t || u = 'a'"),
            *(
                "i % 2 = 0 AND f",
                "i - 1 = 6",
                "-i = 7",
                "(i = 7) = f",
                "d > DATE '2024-01-01' - INTERVAL 1 DAY",
            ),
        ]
    )


def _pair(pick: random.Random, column: str) -> tuple[str, Callable[[], str]]:
    """An expression of a column, and literals of what it is compared with."""
    days = [quoted(day.isoformat()) for day in _DAYS]
    dates = [*days, *(f"DATE {day}" for day in days), *(f"CAST({day} AS DATE)" for day in days)]
    moments = [quoted(moment.strftime("%Y-%m-%d %H:%M:%S.%f")) for moment in _MOMENTS]
    texts = [quoted(text) for text in _TEXTS]
    numbers = ["1", "2", "3", "4", "2023", "2024", "29"]
    of: dict[str, list[tuple[str, Sequence[str]]]] = {
        "t": [(value, texts) for value in ("t", "left(t, 1)", "lower(t)", "upper(t)", "substring(t, 1, 2)")],
        "u": [
            ("u", days),
            ("substring(u, 6, 2)", ["'01'", "'02'"]),
            ("CAST(u AS DATE)", dates),
            ("substring(u, 1, 7)", ["'2024-01'", "'2023-12'"]),
        ],
        "i": [("i", _NUMBERS), ("i", ["'7'", "'20'"]), ("CAST(i AS BIGINT)", _NUMBERS)],
        "n": [("n", _NUMBERS)],
        "d": [("d", dates), ("d", [f"TIMESTAMP {moment}" for moment in moments])],
        "m": [("m", [*days, *moments, *(f"TIMESTAMP {moment}" for moment in moments)]), ("m", dates)],
        "f": [("f", ["true", "false"])],
        "c": [("c", _NUMBERS)],
        "x": [("x", _NUMBERS)],
        "y": [("y", _NUMBERS)],
    }
    for name in "dm":
        of[name] += [(f"{part}({name})", numbers) for part in ("year", "month", "quarter", "day")]
        of[name] += [(f"date_trunc('{unit}', {name})", days) for unit in ("year", "month", "week", "quarter")]
        of[name] += [(f"CAST({name} AS DATE)", dates), (f"extract(YEAR FROM {name})", numbers)]
    value, literals = pick.choice(of[column])
    return value, lambda: pick.choice(literals)
