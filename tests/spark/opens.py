"""Upserts of Spark's engine from inputs of several partitions, with the session to test (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.engine.session import spark_context
from hoodie.write.input import stage
from hoodie.write.tagging import tag
from tests.support.opened import OPTIONS as NOTED
from tests.support.opened import opened


def answer(spark: Any, file: str, table: str, options: dict[str, Any], counts: list[int]) -> dict[str, Any]:
    """What upserts from inputs of so many partitions opened and did: one whose keys the driver has, two whose
    keys tasks look for, with answers sent to every task and rows shuffled to their answers. A delete of fifty
    of the rows follows.
    """
    frame, options, found = spark.read.parquet(file), {**options, **NOTED}, []
    was = stage.DRIVER_KEY_BYTES, tag.FEW_BYTES
    try:
        for count, (driver_bytes, few_bytes) in zip(counts, (was, (0, was[1]), (0, 0)), strict=True):
            stage.DRIVER_KEY_BYTES, tag.FEW_BYTES = driver_bytes, few_bytes
            rows: Any = frame if count == 1 else frame.repartition(count)
            before = jobs(spark)
            done = hoodie.write_table(rows, table, spark=spark, options=options)
            found.append([opened(table), done.num_updates, done.num_inserts, jobs(spark) - before])
        gone = hoodie.write_table(
            frame.limit(50).repartition(4), table, spark=spark, operation="delete", options=options
        )
    finally:
        stage.DRIVER_KEY_BYTES, tag.FEW_BYTES = was
    return {"found": found, "deleted": gone.num_deletes}


def jobs(spark: Any) -> int:
    """How many jobs there were; 0 with Spark Connect. Spark forgets the first ones, not their numbers."""
    context = spark_context(spark)
    return max(context.statusTracker().getJobIdsForGroup(), default=-1) + 1 if context is not None else 0
