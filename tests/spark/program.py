"""Run by `test_spark_engine.py` with the interpreter and session to be tested; prints one JSON line.

Arguments: mode (classic or connect), folder with batch-*.parquet, table path, JSON options.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.spark import read


def session(mode: str) -> SparkSession:
    builder = SparkSession.builder.config("spark.ui.enabled", "false").config(
        "spark.sql.session.timeZone", "UTC"
    )
    builder = builder.config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "2")
    if mode == "connect":
        return builder.remote("local[2]").getOrCreate()
    return builder.master("local[2]").getOrCreate()


def main() -> None:
    mode, folder, table, options = sys.argv[1], Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
    spark = session(mode)
    results = []
    for number, batch in enumerate(sorted(folder.glob("batch-*.parquet"))):
        files = number % 2 == 0  # executors read the files, or get the rows from Spark
        rows = read(Source.of(str(batch)), spark) if files else spark.read.parquet(str(batch)).repartition(3)
        operation = "bulk_insert" if number == 0 else "upsert"
        written = hoodie.write_table(rows, table, spark=spark, operation=operation, options=options)
        results.append(written.to_dict())
    errors = []
    for query in (
        "SELECT CAST(NULL AS STRING) id, 1L ts, 'eu' region",
        "SELECT 'a' id, 1L ts, 'eu' region, INTERVAL 1 DAY x",
    ):
        try:
            hoodie.write_table(spark.sql(query), table + "_bad", options=options)
        except HoodieError as error:
            errors.append(error.to_dict())
    out = folder / "read.parquet"
    hoodie.read_table(table, spark=spark, meta=False).coalesce(1).write.parquet(str(out))
    few = hoodie.read_table(table, spark=spark, columns=["id"], where="ts >= 3000", meta=False)
    answer = {
        "results": results,
        "errors": errors,
        "few": few.count(),
        "columns": few.columns,
        "version": spark.version,
    }
    print("ANSWER " + json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
