"""A table on an object store, with the session to be tested (see server.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hoodie
from hoodie.errors import ConfigError
from hoodie.source import Source
from hoodie.source.spark import read


def answer(
    spark: Any, path: str, files: list[str], options: dict[str, Any], storage: dict[str, str]
) -> dict[str, Any]:
    """Bulk-inserts the first file, upserts the others, from files and DataFrames in turn, and compacts."""
    results = []
    for number, file in enumerate(files):
        rows = spark.read.parquet(file) if number % 2 else read(Source.of(file), spark)
        operation = "upsert" if number else "bulk_insert"
        done = hoodie.write_table(
            rows, path, spark=spark, operation=operation, options={**options, **storage}
        )
        results.append(done.to_dict())
    found: dict[str, Any] = {"results": results, "before": answers(spark, path, storage)}
    if options.get("hoodie.datasource.write.table.type") == "MERGE_ON_READ":
        eager = {"hoodie.compact.inline.max.delta.commits": "1", **storage}
        found["compaction"] = hoodie.compact_table(path, spark=spark, options=eager).status
    tables = {"t": path}
    uses: dict[str, Callable[[], Any]] = {
        "sql": lambda: hoodie.sql("SELECT count(*) FROM t", tables=tables, spark=spark, options=storage),
        "own": lambda: hoodie.read_table(path, spark=spark, reader="spark", options=storage),
        "csv": lambda: read(Source.of("s3://lake/in/rows.csv", storage), spark),
    }
    for name, use in uses.items():
        try:
            use()
        except ConfigError as error:
            found[name] = error.message
    found["source"] = read(Source.of("s3a://lake/in/1.parquet", storage), spark).count_rows()
    return {**found, "after": answers(spark, path, storage)}


def answers(spark: Any, path: str, storage: dict[str, str]) -> list[Any]:
    rows = hoodie.read_table(path, spark=spark, meta=False, options=storage)
    few = hoodie.read_table(path, spark=spark, columns=["id"], where="ts >= 2", meta=False, options=storage)
    return [sorted([row.id, row.ts] for row in rows.collect()), few.count()]
