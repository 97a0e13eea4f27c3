"""Writes of rows of every type and queries, with the session to be tested (see server.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.spark import read


def answer(spark: Any, given: str, table: str, options: dict[str, Any], refused: bool) -> dict[str, Any]:
    """Writes a folder's batch-*.parquet to a table and reads it into read.parquet there. With `refused`, the
    errors of two writes that are.
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
    for query in queries if refused else ():
        try:
            hoodie.write_table(spark.sql(query), table + "_bad", options=options)
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
    }
