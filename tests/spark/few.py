"""Writes of few rows by the session to be tested (see server.py): the driver does their steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hoodie
from hoodie.backend.choice import backend_of
from hoodie.source import Source
from tests.spark.opens import jobs


def answer(spark: Any, given: str, table: str, options: dict[str, Any]) -> dict[str, Any]:
    """Writes rows.csv, rows.parquet and frames into the table; by source, the rows that were inserted and
    updated, and the jobs of Spark that it took (0 with Spark Connect).
    """
    folder = Path(given)
    backend = backend_of(spark)
    frame = spark.read.schema("id string, region string, ts long").csv(str(folder / "rows.csv"), header=True)
    frame.createOrReplaceTempView("rows")
    sources: dict[str, Any] = {
        "csv": backend.read_source(Source.of(str(folder / "rows.csv")), None),
        "parquet": backend.read_source(Source.of(str(folder / "rows.parquet")), None),
        "frame": frame,
        "constants": spark.sql("select 'k001' id, 'r1' region, 5L ts union all select 'new', 'r9', 5L"),
        "aggregate": spark.sql("select id, min(region) region, max(ts) + 6 ts from rows group by id"),
    }
    told: dict[str, Any] = {}
    for name, rows in sources.items():
        began = jobs(spark)
        done = hoodie.write_table(rows, table, spark=backend, options=options)
        told[name] = [done.num_inserts, done.num_updates, jobs(spark) - began]
    return {"told": told}
