"""Writes of rows of every type and queries, with the session to be tested (see server.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.spark import read


def answer(spark: Any, given: str, table: str, options: dict[str, Any], refused: bool) -> dict[str, Any]:
    """Writes a folder's batch-*.parquet to a table and reads it into read.parquet there. With `refused`, the
    errors of three writes that are, and what is read of required fields below nulls.
    """
    folder = Path(given)
    results = []
    for number, batch in enumerate(sorted(folder.glob("batch-*.parquet"))):
        files = number % 2 == 0  # executors read the files, or get the rows from Spark
        rows = read(Source.of(str(batch)), spark) if files else spark.read.parquet(str(batch)).repartition(3)
        operation = "bulk_insert" if number == 0 else "upsert"
        written = hoodie.write_table(rows, table, spark=spark, operation=operation, options=options)
        results.append(written.to_dict())
    errors = []
    queries = (
        "SELECT CAST(NULL AS STRING) id, 1L ts, 'eu' region",
        "SELECT 'a' id, 1L ts, 'eu' region, INTERVAL 1 DAY x",
    )
    frames = [spark.sql(query) for query in queries]
    good = spark.sql("SELECT CAST(id AS STRING) id, 1L ts, 'eu' region FROM range(4)")
    for frame in [*frames, good.mapInArrow(_fails, good.schema)] if refused else ():
        try:
            hoodie.write_table(frame, table + "_bad", options=options)
        except HoodieError as error:
            errors.append(error.to_dict())
    out = folder / "read.parquet"
    hoodie.read_table(table, spark=spark, meta=False).coalesce(1).write.parquet(str(out))
    few = hoodie.read_table(table, spark=spark, columns=["id"], where="ts >= 2000", meta=False)
    return {
        "results": results,
        "errors": errors,
        "few": few.count(),
        "columns": few.columns,
        "below": _below(spark, good, f"{table}_below", options) if refused else None,
    }


def _fails(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        pa.array([1], pa.int64()).cast(pa.string()).cast(pa.date32())
        yield batch


def _below(spark: Any, rows: Any, table: str, options: dict[str, Any]) -> list[Any]:
    """Structs with a required field, of which some are null, are written and written again."""
    odd = rows.selectExpr("*", "IF(id % 2 = 1, named_struct('a', 7), NULL) AS s")
    for _ in range(2):
        hoodie.write_table(odd, table, spark=spark, options=options)
    found = hoodie.read_table(table, spark=spark, meta=False).orderBy("id").collect()
    return [None if row["s"] is None else row["s"]["a"] for row in found]
