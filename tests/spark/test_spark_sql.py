"""SQL over tables as DataFrames: the rows that DuckDB gives, and what Python tasks convert for them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import hoodie
from tests.spark.answers import Servers, interpreter
from tests.support.sql import QUERIES, queries, write_orders, write_random

pytestmark = pytest.mark.spark

#: columns that tasks convert for a text, at most; the key is there for rows that are counted only
CONVERTED = {
    "SELECT count(*) AS n FROM orders": {"_hoodie_commit_time"},
    "SELECT id, amount FROM orders WHERE note = 'status' AND day >= '2024-01-02'": {
        *("id", "amount", "note", "day"),
    },
    "SELECT id FROM items WHERE EXISTS"
    " (SELECT 1 FROM orders o WHERE o.id = items.id AND o.status = 'open')": {
        *("id", "status"),
    },
    "SELECT id FROM orders WHERE amount > (SELECT avg(price) FROM items WHERE day = '2024-01-01')": {
        *("id", "amount"),
    },
}
#: what a text may not be, and what the message says
REFUSED = {
    "SELECT nothing FROM orders": "nothing",
    "SELECT id FROM": "can't be planned",
    "DROP TABLE orders": "give one SELECT",
    "": "give one SELECT",
}


def local(text: str, tables: dict[str, Any]) -> list[str]:
    rows = hoodie.sql(text, tables=tables).to_pylist()
    return sorted(json.dumps(list(row.values()), default=str) for row in rows)


@pytest.mark.full
@pytest.mark.parametrize(
    ("version", "mode", "count"), [("4", "classic", 20), ("4", "connect", 10), ("3.5", "classic", 10)]
)
def test_both_engines_answer_the_same(
    servers: Servers, tmp_path: Path, version: str, mode: str, count: int
) -> None:
    python = interpreter(version)
    tables = {**write_orders(tmp_path), **write_random(tmp_path)}
    first = hoodie.instants(tables["orders"])[0]["completion"]
    tables |= {
        "fresh": {"path": tables["orders"], "begin": first},
        "before": {"path": tables["orders"], "as_of": first},
        "bases": {"path": tables["orders"], "query": "read_optimized"},
    }
    texts = [*QUERIES, *queries(random.Random(count), count)]
    texts += [f"SELECT id, amount, note FROM {name}" for name in ("fresh", "before", "bases")]
    said = servers.ask("sql", mode, tables, [*texts, *REFUSED], python=python)
    failed = 0
    for text, found in zip(texts, said["found"], strict=False):
        if isinstance(found, dict) and "OVERFLOW" in found["failed"] and text not in QUERIES:
            failed += 1
            continue
        assert isinstance(found, list), (text, found)
        assert found[0] == local(text, tables), text
        if text in CONVERTED:
            # 3.5 counts rows without a step that names columns
            assert found[1] or version == "3.5", f"no step of the plan converts columns: {text}"
            for columns in found[1]:
                assert set(columns.split(", ")) <= CONVERTED[text], text
    for text, found in zip(REFUSED, said["found"][len(texts) :], strict=True):
        assert REFUSED[text] in found, text
    assert failed < count / 4
    assert bool(said["views"]) == (mode == "connect")
