"""The distinct rows of some columns, which the driver gets where they are few."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hoodie.engine.local import LocalEngine
from hoodie.engine.values import distinct_rows

ROWS = pa.table(
    {
        "a.b": ["x", "y", None, "x", "x"],
        "n": pa.array([1, 2, 3, 1, None], pa.int32()),
        "other": [None, None, None, None, None],
    }
)
FIELDS: list[pa.Field[Any]] = [pa.field("n", pa.int32()), pa.field("a.b", pa.string())]
COLUMNS = pa.schema(FIELDS)


def test_rows_are_there_once_and_without_nulls() -> None:
    engine = LocalEngine()
    found = distinct_rows(engine, engine.frame(ROWS), COLUMNS, 1 << 20)
    assert found is not None
    assert found.schema == COLUMNS
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [(1, "x"), (2, "y")]
    none = distinct_rows(engine, engine.frame(ROWS.slice(2, 1)), COLUMNS, 1 << 20)
    assert none == COLUMNS.empty_table()


def test_rows_that_take_more_than_they_may_are_none() -> None:
    engine = LocalEngine()
    many = pa.table({"n": pa.array(range(10_000), pa.int32()), "a.b": ["x"] * 10_000})
    assert distinct_rows(engine, engine.frame(many), COLUMNS, 1_000) is None
    again = pa.concat_tables([many.slice(0, 10)] * 1_000)
    assert distinct_rows(engine, engine.frame(again), COLUMNS, 1_000) is not None
