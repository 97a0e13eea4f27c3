"""Deletes and overwrites of Spark's engine, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.spark import read


def answer(spark: Any, asked: list[tuple[str, str, str, dict[str, Any]]]) -> dict[str, Any]:
    """Each is a table's path, operation, Parquet file and options. An error is a result, too.

    A file is read by the executors, or, where its name holds "frame", given as a DataFrame. All but upserts
    of DataFrames are run dry first.
    """
    results: list[Any] = []
    for path, operation, file, options in asked:
        rows: Any = spark.read.parquet(file) if "frame" in file else read(Source.of(file), spark)
        for dry_run in (True, False) if operation != "upsert" or "frame" not in file else (False,):
            try:
                found = hoodie.explain(rows, path, spark=spark, operation=operation, options=options)
                done = hoodie.write_table(
                    rows, path, spark=spark, operation=operation, options=options, dry_run=dry_run
                )
                results.append({**done.to_dict(), "explained": found.to_dict()})
            except HoodieError as error:
                results.append({"operation": operation, **error.to_dict()})
    return {"results": results}
