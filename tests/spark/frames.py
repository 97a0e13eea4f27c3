"""Bulk inserts of DataFrames, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F

import hoodie
from hoodie.engine.spark import SparkEngine
from hoodie.errors import HoodieError
from tests.spark.opens import jobs


def answer(spark: Any, apart: str, mixed: str, table: str, options: dict[str, Any]) -> dict[str, Any]:
    """Folders of Parquet files, of one partition each or of all, written as DataFrames of several kinds, each
    to a table of its own: what the writes said, did, and how many jobs they had; and errors. Spark alone
    computes a remainder and capitals.
    """
    read = spark.read.parquet
    frames: dict[str, Any] = {
        "plain": read(apart),
        "apart": read(apart).where("ts >= 0"),
        "mixed": spark.sql(f"select * from parquet.`{mixed}` where ts % 2 >= 0"),
        "one": read(f"{mixed}/0.parquet").withColumn("more", F.lower(F.lit("X"))),
        "computed": read(mixed).repartition(2),
    }
    found: dict[str, Any] = {}
    for name, frame in frames.items():
        steps: list[str] = []
        before = jobs(spark)
        done = hoodie.write_table(
            frame,
            f"{table}_{name}",
            operation="bulk_insert",
            options=options,
            progress=lambda step, text, steps=steps: steps.append(f"{step}: {text}"),  # type: ignore[misc]
        )
        found[name] = [steps, done.num_inserts, done.num_files, jobs(spark) - before]
    _check_names(spark, mixed)
    return {"found": found, "errors": _errors(spark, mixed, f"{table}_bad", options)}


def _check_names(spark: Any, mixed: str) -> None:
    """Names with dots and backticks, fields of structs; names that differ in case only are ambiguous."""
    engine = SparkEngine(spark)
    rows = spark.read.parquet(mixed).select(
        F.col("id").alias("a`b.c"), F.struct(F.col("region").alias("r")).alias("s"), "ts"
    )
    found = engine.repeatable(rows, ("a`b.c", "s"))
    assert found is not None
    ordered = found.ordered(("a`b.c", "s.r"))
    assert ordered is not None
    assert ordered.columns == rows.columns
    assert ordered.count() == rows.count()
    assert engine.repeatable(rows.withColumn("more", F.lit(1)).toDF("ID", "s", "id", "more"), ("s",)) is None


def _errors(spark: Any, mixed: str, table: str, options: dict[str, Any]) -> list[Any]:
    errors = []
    for column, value in (("id", "cast(null as string)"), ("region", "'..'")):
        frame = spark.read.parquet(mixed).withColumn(column, F.expr(f"if(val % 7 = 0, {value}, {column})"))
        try:
            hoodie.write_table(frame, table, operation="bulk_insert", options=options)
        except HoodieError as error:
            errors.append(error.to_dict())
    return errors
