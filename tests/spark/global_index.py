"""Writes of Spark's engine with an index of the whole table, with the session to test (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.write.input import stage
from hoodie.write.tagging import tag


def answer(
    spark: Any, table: str, writes: list[tuple[str, str, int, int]], options: dict[str, Any]
) -> dict[str, Any]:
    """Each is an operation, a Parquet file, and how many bytes of keys the driver takes, and of answers."""
    was = stage.DRIVER_KEY_BYTES, tag.FEW_BYTES
    told = []
    try:
        for operation, file, driver_bytes, few_bytes in writes:
            stage.DRIVER_KEY_BYTES, tag.FEW_BYTES = driver_bytes, few_bytes
            rows = spark.read.parquet(file).repartition(3)
            done = hoodie.write_table(rows, table, spark=spark, operation=operation, options=options)
            told.append([done.num_inserts, done.num_deletes, done.num_missing])
    finally:
        stage.DRIVER_KEY_BYTES, tag.FEW_BYTES = was
    return {"told": told}
