"""Statements at random that change a table, in words that Spark and DuckDB share, and DuckDB's own tables to
judge by.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import hoodie

DAYS = ["2024-01-01", "2024-01-02", "2024-01-03"]
COLUMNS = ["id", "day", "amount", "price", "note", "updated"]
KEY = {"hoodie.datasource.write.recordkey.field": "id"}
DAY = {"hoodie.datasource.write.partitionpath.field": "day"}
ORDERED = {"hoodie.datasource.write.precombine.field": "updated"}
LOGS = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
#: kinds of tables, by what they are called
KINDS: dict[str, dict[str, str]] = {
    "plain": KEY,
    "days": {**KEY, **DAY, **ORDERED},
    "logs": {**KEY, **ORDERED, **LOGS},
    "day logs": {**KEY, **DAY, **LOGS},
    "bloom": {**KEY, **DAY, **ORDERED, "hoodie.index.type": "GLOBAL_BLOOM"},
}
_CONDITIONS = [
    "{t}amount > 3",
    "{t}note = 'x' OR {t}amount IS NULL",
    "NOT ({t}amount < 5)",
    "{t}note IS NULL",
    "{t}amount + {t}price > 6",
    "{t}day = '2024-01-02' AND {t}amount <= 4",
    "{t}note IN ('x', NULL)",
    "{t}amount NOT IN (1, NULL)",
    "{t}amount <> 2 AND {t}note LIKE 'x%'",
    "coalesce({t}note, 'x') = 'x'",
]
_AMOUNTS = ["{t}amount + 1", "NULL", "CASE WHEN {t}price > 2 THEN {t}amount END", "7", "{t}price"]
_PRICES = ["{t}price / 2", "{t}amount", "NULL", "abs({t}price - 3)"]
_NOTES = [
    "upper({t}note)",
    "'v'",
    "CASE WHEN {t}note IS NULL THEN 'none' ELSE {t}note END",
    "substring({t}note, 1, 1)",
]


def rows(pick: random.Random, ids: list[int]) -> pa.Table:
    """Rows of these ids; the day of one follows from it."""
    return pa.table(
        {
            "id": [f"k{number:02}" for number in ids],
            "day": [DAYS[number % 3] for number in ids],
            "amount": pa.array([pick.choice([None, *range(8)]) for _ in ids], pa.int64()),
            "price": pa.array([pick.choice([None, 0.5, 1.25, 3.5, 7.0]) for _ in ids], pa.float64()),
            "note": pa.array([pick.choice([None, "x", "xy", "", "b"]) for _ in ids], pa.string()),
            "updated": pa.array([1] * len(ids), pa.int64()),
        }
    )


def statements(pick: random.Random, count: int) -> list[tuple[str, str]]:
    """(the statement, the same for DuckDB) over the tables t and s."""
    return [pick.choice([_delete, _update, _merge, _merge])(pick) for _ in range(count)]


def _condition(pick: random.Random, prefix: str = "") -> str:
    return pick.choice(_CONDITIONS).format(t=prefix)


def _sets(pick: random.Random, prefix: str = "") -> str:
    values = {"amount": _AMOUNTS, "price": _PRICES, "note": _NOTES}
    named = pick.sample(list(values), pick.randint(1, 3))
    return ", ".join(f"{name} = {pick.choice(values[name]).format(t=prefix)}" for name in named)


def _delete(pick: random.Random) -> tuple[str, str]:
    more = pick.choice(
        ["", " AND id IN (SELECT id FROM s WHERE amount > 2)", " OR id = (SELECT max(id) FROM s)"]
    )
    text = f"DELETE FROM t WHERE ({_condition(pick)}){more}"
    return text, text


def _update(pick: random.Random) -> tuple[str, str]:
    text = f"UPDATE t SET {_sets(pick)} WHERE {_condition(pick)}"
    return text, _truncated(text)


def _merge(pick: random.Random) -> tuple[str, str]:
    on = pick.choice(["t.id = s.id", "s.id = t.id AND t.day = s.day"])
    matched = [
        f"WHEN MATCHED AND ({_condition(pick, 's.')}) THEN DELETE",
        f"WHEN MATCHED AND ({_condition(pick, 't.')}) THEN UPDATE SET {_sets(pick, 's.')}",
        "WHEN MATCHED THEN UPDATE SET *",
    ]
    chosen = sorted(pick.sample(range(3), pick.randint(1, 3)))
    inserted = [
        f"WHEN NOT MATCHED AND ({_condition(pick, 's.')}) THEN INSERT (id, day, note, updated)"
        " VALUES (s.id, s.day, lower(s.note), s.updated)",
        "WHEN NOT MATCHED THEN INSERT *",
    ]
    clauses = [*(matched[number] for number in chosen), *inserted[pick.randint(0, 2) :]]
    return _with_plain(f"MERGE INTO t USING s ON {on} {' '.join(clauses)}")


def _with_plain(text: str) -> tuple[str, str]:
    every = ", ".join(f"{name} = s.{name}" for name in COLUMNS[2:])
    listed, values = ", ".join(COLUMNS), ", ".join(f"s.{name}" for name in COLUMNS)
    plain = text.replace("UPDATE SET *", f"UPDATE SET {every}")
    return text, _truncated(plain.replace("INSERT *", f"INSERT ({listed}) VALUES ({values})"))


def searching() -> list[tuple[str, str]]:
    """Merges with subqueries in conditions, and with functions in ON."""
    texts = [
        "MERGE INTO t USING s ON t.id = lower(upper(s.id))"
        " WHEN MATCHED AND s.amount > (SELECT min(amount) FROM s)"
        " THEN UPDATE SET amount = s.amount, note = 'found'"
        " WHEN NOT MATCHED AND s.amount IN (SELECT o.amount + 1 FROM s AS o)"
        " THEN INSERT (id, day, note, updated) VALUES (lower(upper(s.id)), s.day, s.note, s.updated)",
        "MERGE INTO t USING (SELECT id AS named, day, price FROM s) AS n ON t.id = concat(n.named, '')"
        " WHEN MATCHED AND NOT EXISTS (SELECT 1 FROM s AS o WHERE o.id = t.id AND o.amount > 3) THEN DELETE"
        " WHEN MATCHED AND n.named NOT IN (SELECT id FROM s WHERE price > 2) THEN UPDATE SET price = n.price",
        "MERGE INTO t USING s ON t.id = s.id AND t.day = s.day"
        " WHEN MATCHED AND t.amount < (SELECT max(amount) FROM s) THEN UPDATE SET *"
        " WHEN NOT MATCHED AND EXISTS (SELECT 1 FROM s AS o WHERE o.amount < s.amount) THEN INSERT *",
    ]
    return [_with_plain(text) for text in texts]


def _truncated(text: str) -> str:
    """Spark's assignment of a fraction to a whole number, which DuckDB rounds."""
    for prefix in ("t.", "s.", ""):
        text = text.replace(f"amount = {prefix}price", f"amount = trunc({prefix}price)")
    return text


def for_kind(text: str, kind: str) -> str:
    """A statement for a table of a kind: ON compares columns of the partition path only."""
    return text if DAY.items() <= KINDS[kind].items() else text.replace(" AND t.day = s.day", "")


class Judge:
    """DuckDB's own tables t and s, with the same rows."""

    def __init__(self, target: pa.Table, source: pa.Table) -> None:
        self._made = duckdb.connect()
        for name, given in (("t", target), ("s", source)):
            self._made.register("given", given)
            self._made.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self._made.unregister("given")

    def run(self, text: str) -> None:
        self._made.execute(text)

    def rows(self) -> list[tuple[Any, ...]]:
        return self._made.execute("SELECT * FROM t ORDER BY id").fetchall()


def stored(path: str) -> list[tuple[Any, ...]]:
    """The rows of a table of ours, by id."""
    found = hoodie.read_table(path, meta=False).select(COLUMNS).sort_by("id")
    return [tuple(row.values()) for row in found.to_pylist()]


def write_tables(
    folder: Path, kinds: list[str], pick: random.Random
) -> tuple[dict[str, str], pa.Table, pa.Table]:
    """A table of each kind with the same rows; the rows, and those of a source."""
    target, source = rows(pick, list(range(24))), rows(pick, pick.sample(range(40), 14))
    paths = {kind: str(folder / kind.replace(" ", "_")) for kind in kinds}
    for kind, path in paths.items():
        hoodie.write_table(target, path, options=KINDS[kind])
    return paths, target, source
