"""Plain Spark, the floor: write the rows as Parquet, no keys, no index, no table."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import PARTITION

from .contestant import SparkWorker, dump


class Floor(SparkWorker):
    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        self.read(source).repartition(PARTITION).write.partitionBy(PARTITION).parquet(table)
        return {}

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Only writes the incoming rows."""
        self.read(source).write.parquet(table)
        return {}

    def rows(self, table: str, out: str) -> list[str]:
        return dump(self.spark.read.parquet(table), out)


def create(session: dict[str, str], options: dict[str, str], engine: str) -> Floor:
    # The day is a string; Spark would read the folder names back as dates.
    return Floor(session | {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}, options)
