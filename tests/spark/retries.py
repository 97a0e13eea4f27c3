"""An upsert that loses to another one, with the session to be tested (see server.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

import hoodie
from hoodie.engine.spark import SparkEngine
from hoodie.errors import CommitConflict

RETRIES = "hoodie.write.num.retries.on.conflict.failures"


def answer(spark: Any, reads: str, table: str, options: dict[str, Any]) -> dict[str, Any]:
    """Keys 0 to 9 with random values upserted while another writer commits some, twice; once with retries
    enough and once with too few: how often tasks read the rows, which leave a file in `reads` each, and how
    many frames were still persisted at the end.
    """
    note = partial(noted, reads)
    numbers = spark.range(10, numPartitions=2).select(F.col("id").cast("string").alias("id"), "id")
    rows = numbers.toDF("id", "ts").mapInArrow(note, "id string, ts bigint")
    rows = rows.withColumn("ts", F.lit(9).cast("bigint")).withColumn("val", F.expr("uuid()"))
    persist, unpersist, held = SparkEngine.persist, SparkEngine.unpersist, list[Any]()

    def keep(engine: SparkEngine, frame: Any) -> Any:
        held.append(persist(engine, frame))
        return held[-1]

    def free(engine: SparkEngine, frame: Any) -> None:
        held[:] = [other for other in held if other is not frame]
        unpersist(engine, frame)

    SparkEngine.persist, SparkEngine.unpersist = keep, free  # type: ignore[assignment, method-assign]
    found = []
    try:
        for retries in (2, 1):
            others = [pa.table({"id": [str(n)], "ts": [n], "val": ["x"]}) for n in (1, 2)]

            def progress(stage: str, text: str, others: list[pa.Table] = others) -> None:
                if stage == "commit" and others:
                    hoodie.write_table(others.pop(), table, options=options)

            try:
                given = {**options, RETRIES: retries}
                hoodie.write_table(rows, table, spark=spark, options=given, progress=progress)
                lost = False
            except CommitConflict:
                lost = True
            found.append([lost, len(others), len(os.listdir(reads)), len(held)])
    finally:
        SparkEngine.persist, SparkEngine.unpersist = persist, unpersist  # type: ignore[method-assign]
    return {"found": found}


def noted(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with open(os.path.join(folder, os.urandom(8).hex()), "x"):
        pass
    yield from batches
