"""Apache Hudi through its Spark data source; every setting that is not named here is Hudi's default."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.workload import KEY, MERGE, ORDERING, PARTITION

from .contestant import SparkWorker, dump

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SESSION = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
TABLE = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.precombine.field": ORDERING,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.bulkinsert.sort.mode": "PARTITION_PATH_REPARTITION",
}


class Hudi(SparkWorker):
    def versions(self) -> dict[str, str]:
        return super().versions() | {"jars": Path(self.spark.conf.get("spark.jars") or "").name}

    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return self._write("bulk_insert", source, table, options)

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return self._write("upsert", source, table, options)

    def _write(self, operation: str, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        settings = TABLE | self.options | options | {"hoodie.datasource.write.operation": operation}
        self.read(source).write.format("hudi").options(**settings).mode("append").save(table)
        return {}

    def merge(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        for name, value in (self.options | options).items():
            self.spark.conf.set(name, value)
        self.spark.sql("drop table if exists bench")
        self.spark.sql(f"create table bench using hudi location '{table}'")
        self.spark.sql(MERGE.format(table="bench", rows=f"(SELECT * FROM parquet.`{source}`)"))
        return {}

    def compact(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        settings = ",".join(f"{name}={value}" for name, value in (self.options | options).items())
        plan = f"call run_compaction(op => 'scheduleAndExecute', path => '{table}', options => '{settings}')"
        found = self.spark.sql(plan).collect()
        if not found:
            raise RuntimeError("Hudi compacted nothing")
        return {}

    def cluster(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        settings = self.options | options
        # the procedure's options are cut at commas
        order = settings.pop("hoodie.clustering.plan.strategy.sort.columns")
        curve = settings.pop("hoodie.layout.optimize.strategy", "linear")
        texts = ",".join(f"{name}={value}" for name, value in settings.items())
        plan = (
            f"call run_clustering(path => '{table}', order => '{order}', order_strategy => '{curve}', "
            f"options => '{texts}')"
        )
        if not self.spark.sql(plan).collect():
            raise RuntimeError("Hudi clustered nothing")
        return {}

    def frame(
        self, table: str, query: str, columns: tuple[str, ...] | None = None, where: str | None = None
    ) -> DataFrame:
        options = {name: value for name, value in self.options.items() if name.startswith("hoodie.metadata.")}
        options |= {"hoodie.datasource.query.type": query, "hoodie.enable.data.skipping": "true"}
        found = self.spark.read.format("hudi").options(**options).load(table)
        if where is not None:
            found = found.where(where)
        return found if columns is None else found.select(*columns)

    def rows(self, table: str, out: str) -> list[str]:
        return dump(self.spark.read.format("hudi").load(table), out)


def create(session: dict[str, str], options: dict[str, str], engine: str) -> Hudi:
    return Hudi(session | SESSION, options)
