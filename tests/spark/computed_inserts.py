"""Bulk inserts of DataFrames that the engine computes, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.engine.spark import SparkEngine

COLUMNS = (
    "concat(id, '-', region) AS id",
    "ts + 1 AS ts",
    "CASE WHEN region = 'us' THEN 'na' ELSE region END AS region",
    "CAST(val AS BIGINT) * 2 AS val",
    "val > 0 AS positive",
    "CAST(val AS DOUBLE) / 3.0D AS third",
    "coalesce(name, 'none') AS name",
)
#: folder, operation and settings
WRITES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "apart": ("apart", "bulk_insert", {}),
    "mixed": ("mixed", "bulk_insert", {}),
    "sorted": ("mixed", "bulk_insert", {"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"}),
    "sorted by partition": ("mixed", "bulk_insert", {"hoodie.bulkinsert.sort.mode": "PARTITION_SORT"}),
    "one row a key": ("mixed", "bulk_insert", {"hoodie.combine.before.insert": "true"}),
    "small files": ("mixed", "bulk_insert", {"hoodie.parquet.max.file.size": 5000}),
    "overwritten": ("mixed", "insert_overwrite", {}),
}


def answer(spark: Any, folders: dict[str, str], table: str, options: dict[str, Any]) -> dict[str, Any]:
    """Of each write, to a table of its own: does the engine compute the rows, its steps, its files. Beside
    the table is what Spark writes of the same DataFrame.
    """
    found, engine = {}, SparkEngine(spark)
    for name, (folder, operation, settings) in WRITES.items():
        frame = spark.read.parquet(folders[folder]).where("val IS NOT NULL AND ts >= 0")
        frame = frame.selectExpr(*COLUMNS)
        steps: list[str] = []
        done = hoodie.write_table(
            frame,
            f"{table}_{name}",
            operation=operation,
            options={**options, **settings},
            progress=lambda step, text, steps=steps: steps.append(f"{step}: {text}"),  # type: ignore[misc]
        )
        frame.write.parquet(f"{table}_{name}_by_spark")
        found[name] = [engine.files(engine.scanned(frame)) is not None, steps, done.num_files]
    return {"found": found}
