"""Tables, and SQL over them that DuckDB and Spark both take."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import hoodie
from tests.support.arrow import pc
from tests.support.predicates import predicate, rows

KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "updated",
}
DAYS = ["2024-01-01", "2024-01-02", "2024-01-03"]
#: joins, a table twice, subqueries, names of columns in texts, names that hide tables, no columns at all
QUERIES = [
    "SELECT * FROM orders",
    "SELECT count(*) AS n FROM orders",
    "SELECT id, amount FROM orders WHERE note = 'status' AND day >= '2024-01-02'",
    "SELECT o.id, o.amount, i.price FROM orders o JOIN items i ON o.id = i.id WHERE i.kind = 'a'",
    "SELECT o.id, i.price FROM orders o LEFT JOIN items i ON o.id = i.id AND o.day = i.day",
    "SELECT a.id, b.amount FROM orders a JOIN orders b ON a.id = b.id"
    " WHERE a.day = '2024-01-01' AND b.amount > 1",
    "SELECT day, sum(amount) AS s, min(note) AS m FROM orders GROUP BY day HAVING count(note) > 1",
    "SELECT id FROM orders WHERE amount > (SELECT avg(price) FROM items WHERE day = '2024-01-01')",
    "SELECT id FROM items WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = items.id AND o.status = 'open')",
    "SELECT id FROM orders WHERE id NOT IN (SELECT id FROM items WHERE kind = 'b')",
    "WITH big AS (SELECT * FROM orders WHERE amount >= 5) SELECT b.id, i.kind FROM big b, items i"
    " WHERE b.id = i.id",
    "SELECT id, day FROM orders WHERE day = '2024-01-01' UNION ALL SELECT id, day FROM items"
    " WHERE day = '2024-01-03'",
    "SELECT id, rank() OVER (PARTITION BY day ORDER BY amount, id) AS r FROM orders",
    "SELECT DISTINCT status FROM orders WHERE note IS NULL OR note <> 'x'",
    "SELECT * FROM (SELECT id, amount, note FROM orders) t WHERE t.amount BETWEEN 2 AND 7",
    "SELECT id FROM orders WHERE day = '2024-01-01' AND day = '2024-01-02'",
    "SELECT id FROM orders WHERE false",
    "SELECT CASE WHEN amount > 4 THEN note END AS x, id FROM orders;",
    "SELECT id FROM orders WHERE note = 'a), EqualTo(day,2024-01-03' OR note IN ('x, y', 'z')",
    "SELECT id FROM orders WHERE day = '2024-01-01' AND note = 'a), EqualTo(day,2024-01-03'",
    "SELECT _hoodie_record_key AS k, _hoodie_partition_path AS p FROM orders WHERE updated = 2",
]


def write_orders(folder: Path) -> dict[str, Any]:
    """`orders` merge-on-read, with logs on all slices but those of the last day; `items` copy-on-write."""
    pick = random.Random(3)
    notes = [None, "x", "status", "day = '2024-01-01'", "a), EqualTo(day,2024-01-03", "x, y"]
    given = pa.table(
        {
            "id": [f"k{number}" for number in range(24)],
            "day": [DAYS[number % 3] for number in range(24)],
            "amount": [pick.randrange(10) for _ in range(24)],
            "status": [pick.choice(["open", "paid", None]) for _ in range(24)],
            "note": [pick.choice(notes) for _ in range(24)],
            "updated": [1] * 24,
            "unused": [[number] for number in range(24)],
        }
    )
    orders, items = str(folder / "orders"), str(folder / "items")
    hoodie.write_table(given, orders, options={**KEYS, "hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    some = given.filter(pc.less(given["day"], DAYS[2])).slice(2)
    some = some.set_column(2, "amount", pa.array([pick.randrange(10) for _ in range(len(some))]))
    some = some.set_column(5, "updated", pa.array([2] * len(some)))
    hoodie.write_table(some, orders)
    things = pa.table(
        {
            "id": [f"k{number}" for number in range(0, 36, 2)],
            "day": [DAYS[number % 3] for number in range(18)],
            "kind": [pick.choice("abc") for _ in range(18)],
            "price": [pick.random() * 10 for _ in range(18)],
            "updated": [1] * 18,
        }
    )
    hoodie.write_table(things, items, options=KEYS)
    return {"orders": orders, "items": items}


def write_random(folder: Path) -> dict[str, Any]:
    """Partitions by a date and a number, with logs and without; values of every type."""
    found = {}
    for number, name in enumerate(("p", "q")):
        made = rows(random.Random(number), 40)
        made = made.add_column(0, "id", pa.array([str(row % 30) for row in range(40)]))
        options = {
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "d,i",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        }
        path = str(folder / name)
        hoodie.write_table(made.slice(0, 25), path, options=options)
        hoodie.write_table(made.slice(25), path, options=options)
        found[name] = path
    return found


def queries(pick: random.Random, count: int) -> list[str]:
    """Over tables `p` and `q` with the columns of random predicates and an `id`."""
    found = []
    for _ in range(count):
        # `p WHERE (f)` is an alias with a column to Spark
        one, other = f"true AND ({predicate(pick, 2)})", f"true AND ({predicate(pick, 1)})"
        found.append(
            pick.choice(
                [
                    f"SELECT id, {pick.choice('tundc')} AS v FROM p WHERE {one}",
                    f"SELECT d, count(*) AS n, max(u) AS m, min(n) AS s FROM p WHERE {one} GROUP BY d",
                    f"SELECT a.id, b.t FROM (SELECT * FROM p WHERE {one}) a"
                    f" JOIN (SELECT * FROM q WHERE {other}) b ON a.id = b.id",
                    f"SELECT id FROM p WHERE {one} AND id IN (SELECT id FROM q WHERE {other})",
                    f"SELECT id, d, i FROM p WHERE {one} UNION ALL SELECT id, d, i FROM q WHERE {other}",
                    f"SELECT count(*) AS n FROM p WHERE {one} AND n > (SELECT min(n) FROM q WHERE {other})",
                ]
            )
        )
    return found


class Oracle:
    """DuckDB on all rows of tables, which are read once."""

    def __init__(self, tables: dict[str, Any]) -> None:
        self.tables = tables
        self._rows = {name: hoodie.read_table(path) for name, path in tables.items()}

    def answer(self, text: str) -> pa.Table:
        with duckdb.connect() as connection:
            for setting in ("TimeZone = 'UTC'", "default_null_order = 'nulls_first_on_asc_last_on_desc'"):
                connection.execute(f"SET {setting}")
            for name, rows in self._rows.items():
                connection.register(name, rows)
            found = connection.sql(text.rstrip(";")).to_arrow_table()
        whole = [
            pa.int64() if str(field.type) == "decimal128(38, 0)" else field.type for field in found.schema
        ]
        fields = [field.with_type(kind) for field, kind in zip(found.schema, whole, strict=True)]
        answer: pa.Table = found.cast(pa.schema(fields))
        return answer
