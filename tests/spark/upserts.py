"""Upserts of DataFrames, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

import hoodie
from hoodie.backend.spark import SparkBackend
from hoodie.engine.spark import SparkEngine
from hoodie.source import Source
from hoodie.write.input import write_input
from tests.spark.opens import jobs


def answer(spark: Any, file: str, table: str, options: dict[str, Any]) -> dict[str, Any]:
    """Rows of a file upserted, each time with a greater ordering value, as files and as DataFrames of several
    kinds: inserts, updates, whether files were read, whether rows were staged, and jobs; whether what was
    cached still is; then a delete of 50.
    """
    module: Any = write_input
    read, real, staged = spark.read.parquet(file), module._staged, []

    def noted(*arguments: Any) -> Any:
        staged.append(True)
        return real(*arguments)

    def scanned(engine: SparkEngine, frame: Any) -> Any:
        found = scan(engine, frame)
        plain.append(found is not frame)
        return found

    scan, plain = SparkEngine.scanned, list[bool]()
    frames: dict[str, Any] = {
        "files": SparkBackend(spark).read_source(Source.of(file), None),
        "plain": read,
        "columns": read.select("id", "ts", "region", "val", "name", "_hoodie_is_deleted"),
        "again": spark.sql(f"select * from parquet.`{file}`"),
        "frame": read.where("val is not null").withColumn("ts", F.col("ts") + 1),
        "query": spark.sql(f"select * from parquet.`{file}` where ts >= 0").withColumn("ts", F.col("ts") + 2),
        "cached": read.withColumn("ts", F.col("ts") + 3).cache(),
        "joined": read.join(read.groupBy("id").count(), "id").drop("count").withColumn("ts", F.col("ts") + 4),
    }
    found = {}
    module._staged = noted
    SparkEngine.scanned = scanned  # type: ignore[assignment, method-assign]
    try:
        for name, rows in frames.items():
            before = jobs(spark)
            done = hoodie.write_table(rows, table, spark=spark, operation="upsert", options=options)
            found[name] = [
                done.num_inserts,
                done.num_updates,
                plain.pop(),
                bool(staged),
                jobs(spark) - before,
            ]
            staged.clear()
        kept = frames["cached"].storageLevel.useMemory
        gone = hoodie.write_table(read.limit(50), table, spark=spark, operation="delete", options=options)
    finally:
        module._staged = real
        SparkEngine.scanned = scan  # type: ignore[method-assign]
        frames["cached"].unpersist()
    return {"found": found, "deleted": gone.num_deletes, "kept": kept}
