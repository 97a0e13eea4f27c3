"""Our writer through its Python API: the only file of the benchmarks that knows it."""

from __future__ import annotations

import platform
from typing import Any

import pyarrow.dataset as ds

import hoodie
from hoodie.source import Source
from hoodie.source.spark import read
from tests.bench.workload import KEY, ORDERING, PARTITION

from .contestant import SparkWorker, version_of

TABLE = {
    "hoodie.table.name": "bench",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.precombine.field": ORDERING,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.bulkinsert.sort.mode": "PARTITION_PATH_REPARTITION",
}


def _write(
    rows: Any, operation: str, table: str, options: dict[str, str], spark: Any = None
) -> dict[str, Any]:
    result = hoodie.write_table(rows, table, spark=spark, operation=operation, options=TABLE | options)
    return {name: value for name, value in result.to_dict().items() if isinstance(value, (int, float))}


class OursOnSpark(SparkWorker):
    """A source of Parquet files as the jobs and the command line read it."""

    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return self._write(source, "bulk_insert", table, options)

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return self._write(source, "upsert", table, options)

    def _write(self, source: str, operation: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        rows = read(Source.of(source), self.spark)
        return _write(rows, operation, table, self.options | options, self.spark)

    def rows(self, table: str, out: str) -> list[str]:
        return []


class OursLocal:
    """The engine without a JVM, on Arrow datasets."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def versions(self) -> dict[str, str]:
        return {"python": platform.python_version(), "pyarrow": version_of("pyarrow")}

    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _write(ds.dataset(source), "bulk_insert", table, self.options | options)

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _write(ds.dataset(source), "upsert", table, self.options | options)

    def rows(self, table: str, out: str) -> list[str]:
        return []

    def stop(self) -> None:
        return None


def create(session: dict[str, str], options: dict[str, str], engine: str) -> OursOnSpark | OursLocal:
    return OursLocal(options) if engine == "local" else OursOnSpark(session, options)
