"""Delta Lake: MERGE by key and partition, with the same meaning as an upsert with a partitioned index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.workload import KEY, PARTITION

from .contestant import SparkWorker, dump

SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class Delta(SparkWorker):
    def versions(self) -> dict[str, str]:
        return super().versions() | {
            "jars": Path((self.spark.conf.get("spark.jars") or "").split(",")[0]).name
        }

    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        self.read(source).repartition(PARTITION).write.format("delta").partitionBy(PARTITION).save(table)
        return {}

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        self.read(source).createOrReplaceTempView("bench_source")
        self.spark.sql(
            f"MERGE INTO delta.`{table}` t USING bench_source s "
            f"ON t.{KEY} = s.{KEY} AND t.{PARTITION} = s.{PARTITION} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        return {}

    def rows(self, table: str, out: str) -> list[str]:
        return dump(self.spark.read.format("delta").load(table), out)


def create(session: dict[str, str], options: dict[str, str], engine: str) -> Delta:
    return Delta(session | SESSION, options)
