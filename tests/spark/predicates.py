"""Asks the session to be tested random predicates, and trees of them what they allow (see server.py)."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from hoodie.read import spark_predicate
from hoodie.read.bounds import UNKNOWN, Bounds, Lookup, outcomes
from hoodie.read.predicate import FALSE, NULL, TRUE
from tests.support.predicates import SCHEMA, predicate, rows

ANSWERS = {True: TRUE, False: FALSE, None: NULL}
#: IN converts to text what `=` converts from it; words, quotes and signs that Spark reads in its own way
ALWAYS = r"""
date_trunc('month', m) IN ('2024-02-01', NULL)
date_trunc('month', d) NOT IN ('2024-02-01')
m IN ('2024-02-29', '2024-01-01')
d IN ('2024-02-29', '1969-12-31')
i IN ('7', '20')
CAST(m AS DATE) IN ('2024-02-29')
u IN (DATE '2024-02-01')
m = '2024-01-01' OR m = '2024-02-01'
trunc(d, 'MM') = '2024-02-01'
to_date(u) >= '2024-02-01'
date(m) < DATE'2024-02-01'
int(i) = 7
t = 'a' 'b'
t = 'a''b' OR t = 'ab'
t = "ab" OR i = 7
t = r'a'
t LIKE 'a\_c'
`t` == 'ab'
i <=> NULL OR f
NOT i <=> 7
!f
i = 7 == f
d = date '2024-02-29' and (m > timestamp '2024-01-01')
i BETWEEN 0 AND 7 AND NOT i BETWEEN 7 AND 8 OR f
CASE WHEN f THEN i = 7 AND t = 'a' END
f IS UNKNOWN
m >= '2024-02-29 10:30:00' AND m < '2024-03-01'
d < timestamp '2024-02-29 10:30:00'
t rlike 'a'
i = 7L
x = 7D
c = 1.5BD
i = 1e0
i > -7 AND i < .5
NOT NOT f
f = NOT i = 7
t LIKE ALL ('a%')
""".strip().splitlines()
#: predicates that are asked in one query, unless one of them fails
TOGETHER = 20


def answer(spark: Any, folder: str, seed: int, count: int, settings: list[list[str]]) -> dict[str, Any]:
    """`wrong` are predicates with a row whose answer their trees exclude; `one` counts answers that trees
    know alone, `known` all answers.
    """
    for name, value in settings:
        spark.conf.set(name, value)
    pick = random.Random(seed)
    table = rows(pick, 12)
    pa.parquet.write_table(table, f"{folder}/{seed}.parquet")
    frame = spark.read.parquet(f"{folder}/{seed}.parquet").coalesce(1)
    asked = [*ALWAYS, *(predicate(pick) for _ in range(count))]
    wrong, one, known = [], 0, 0
    for where, answers in _answers(frame, asked).items():
        tree = spark_predicate.parsed(where, spark).bound(SCHEMA)
        for row, told in zip(table.to_pylist(), answers, strict=True):
            possible = outcomes(tree, _lookup(row))
            one, known = one + (possible in (TRUE, FALSE, NULL)), known + 1
            if not possible & ANSWERS[told]:
                wrong.append([where, str(row), str(told)])
    for name, _ in settings:
        spark.conf.unset(name)
    return {"wrong": wrong, "one": one, "known": known}


def _lookup(row: dict[str, Any]) -> Lookup:
    exact = {name: Bounds.of(value) for name, value in row.items()}
    return lambda path: exact.get(path[0], UNKNOWN)


def _answers(frame: Any, asked: list[str]) -> dict[str, list[bool | None]]:
    """Of each predicate that does not fail, the answers for the rows in their order."""
    found: dict[str, list[bool | None]] = {}
    for start in range(0, len(asked), TOGETHER):
        some = asked[start : start + TOGETHER]
        try:
            found.update(_asked(frame, some))
        except Exception:  # noqa: BLE001  one of them fails
            for where in some:
                try:
                    found.update(_asked(frame, [where]))
                except Exception:  # noqa: BLE001  no answer at all
                    continue
    return found


def _asked(frame: Any, some: list[str]) -> dict[str, list[bool | None]]:
    named = [f"({where}) AS p{number}" for number, where in enumerate(some)]
    told = frame.selectExpr(*named).collect()
    return {where: [row[number] for row in told] for number, where in enumerate(some)}
