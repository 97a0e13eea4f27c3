"""A table on HDFS, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.source import Source
from hoodie.source.spark import read


def answer(
    spark: Any, path: str, files: list[str], options: dict[str, Any], storage: dict[str, str]
) -> dict[str, Any]:
    """Bulk-inserts the first file, upserts the others, from files on HDFS and DataFrames in turn, compacts,
    and reads by each reader.
    """
    folder = f"{path}-in"
    updates = []
    for number, file in enumerate(files):
        frame = spark.read.parquet(file)
        frame.write.parquet(f"{folder}/{number}")
        rows = frame if number % 2 else read(Source.of(f"{folder}/{number}", storage), spark)
        operation = "upsert" if number else "bulk_insert"
        done = hoodie.write_table(
            rows, path, spark=spark, operation=operation, options={**options, **storage}
        )
        updates.append(done.num_updates)
    found: dict[str, Any] = {"updates": updates}
    if options.get("hoodie.datasource.write.table.type") == "MERGE_ON_READ":
        eager = {"hoodie.compact.inline.max.delta.commits": "1", **storage}
        found["compaction"] = hoodie.compact_table(path, spark=spark, options=eager).status
    for reader in ("spark", "arrow", "auto"):
        rows = hoodie.read_table(path, spark=spark, columns=["id", "ts"], reader=reader, options=storage)
        found[reader] = sorted([row.id, row.ts] for row in rows.collect())
    counted = hoodie.sql(
        "SELECT count(*) AS n FROM t WHERE ts >= 2", tables={"t": path}, spark=spark, options=storage
    )
    return {**found, "sql": counted.collect()[0].n}
