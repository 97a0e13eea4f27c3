"""Our writer through its Python API: the only file of the benchmarks that knows it."""

from __future__ import annotations

import platform
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import hoodie
from benchmarks.workload import AMOUNT, KEY, MERGE, ORDERING, PARTITION, WHERE
from hoodie.engine.spark import SparkEngine
from hoodie.source import Source
from hoodie.source.spark import read

from .contestant import SparkWorker, since, totals, version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: behind the name of an engine: without what the plan of a DataFrame saves
STAGED = "staged"
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


def _reading(options: dict[str, str]) -> dict[str, str]:
    """Those of the contestant's options that queries have."""
    return {name: value for name, value in options.items() if name.startswith("hoodie.read.")}


def _cluster(table: str, options: dict[str, str], spark: Any = None) -> dict[str, Any]:
    done = hoodie.cluster_table(table, options=options, spark=spark).to_dict()
    if not done["clustered"]:
        raise RuntimeError(f"nothing was clustered: {done}")
    return {"files": done["num_files"], "replaced": done["num_replaced"]}


def _compact(table: str, options: dict[str, str], spark: Any = None) -> dict[str, Any]:
    done = hoodie.compact_table(table, options=options, spark=spark).to_dict()
    if not done["compacted"]:
        raise RuntimeError(f"nothing was compacted: {done}")
    return {}


def _rows(table: str, out: str) -> list[str]:
    """None where the latest base files hold all rows."""
    if not any(Path(table).rglob(".*.log.*")) and not any(Path(table, ".hoodie").rglob("*.replacecommit")):
        return []
    folder = Path(out)
    folder.mkdir()
    file = str(folder / "all.parquet")
    # in a process of its own: what it takes is no part of the measurement
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(_copy, table, file).result()
    return [file]


def _copy(table: str, file: str) -> None:
    pq.write_table(hoodie.read_table(table, meta=False), file)


class OursOnSpark(SparkWorker):
    """A source of Parquet files as the jobs and the command line read it."""

    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return self._write(source, "bulk_insert", table, options)

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return self._write(source, "upsert", table, options)

    def _write(self, source: str, operation: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        rows = self.incoming(source)
        return _write(rows, operation, table, self.options | options, self.spark)

    def incoming(self, source: str) -> Any:
        return read(Source.of(source), self.spark)

    def merge(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        named = {"bench": table, "incoming": {"source": source}}
        text = MERGE.format(table="bench", rows="incoming")
        hoodie.sql(text, tables=named, spark=self.spark, options=self.options | options)
        return {}

    def compact(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _compact(table, self.options | options, self.spark)

    def cluster(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _cluster(table, self.options | options, self.spark)

    def frame(
        self, table: str, query: str, columns: tuple[str, ...] | None = None, where: str | None = None
    ) -> DataFrame:
        found: DataFrame = hoodie.read_table(
            table,
            spark=self.spark,
            query=query,
            columns=columns,
            where=where,
            options=_reading(self.options),
        )
        return found

    def rows(self, table: str, out: str) -> list[str]:
        return _rows(table, out)


class OursOnFrames(OursOnSpark):
    """A DataFrame as its users write it: rows come through the JVM."""

    def incoming(self, source: str) -> Any:
        return self.read(source)


class OursOnSql(OursOnSpark):
    """A source that is a query."""

    def incoming(self, source: str) -> Any:
        return read(Source.of({"path": f"select * from parquet.`{source}`", "format": "sql"}), self.spark)


class OursOnComputed(OursOnFrames):
    """A DataFrame that filters rows and computes columns as our reader does; none of them changes."""

    computed: ClassVar = {"quantity": "abs(quantity) AS quantity", "price": "price * 1.0D AS price"}

    def incoming(self, source: str) -> Any:
        rows = self.read(source)
        columns = (self.computed.get(name, name) for name in rows.columns)
        return rows.where("quantity >= 0").selectExpr(*columns)


class OursOnFunctions(OursOnComputed):
    """The same with a function that is left to Spark, and with it the DataFrame."""

    computed: ClassVar = OursOnComputed.computed | {"category": "lower(category) AS category"}


class OursOnJoins(OursOnFrames):
    """A DataFrame that costs something: it is computed once."""

    def incoming(self, source: str) -> Any:
        rows = self.read(source)
        categories = rows.select("category").distinct()
        return rows.join(categories, "category", "left_semi").select(rows.columns)


class OursOnUdf(OursOnFrames):
    """A DataFrame with a function in Python, which leaves the values as they are."""

    def incoming(self, source: str) -> Any:
        from pyspark.sql.pandas import functions

        udf: Any = functions.pandas_udf
        lower = udf(lambda texts: texts.str.lower(), "string")
        rows = self.read(source)
        return rows.withColumn("category", lower("category")).select(rows.columns)


def stage_all_frames() -> None:
    """Spark reads every DataFrame of this process, and it is staged: its plan saves nothing."""
    for name, instead in (
        ("scanned", lambda _, frame: frame),
        ("repeatable", lambda *_: None),
        ("apart", lambda *_: None),
    ):
        setattr(SparkEngine, name, instead)


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

    def merge(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError("statements run on Spark")

    def compact(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _compact(table, self.options | options)

    def cluster(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _cluster(table, self.options | options)

    def snapshot(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _discard(hoodie.read_batches(table))

    def recent(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _discard(hoodie.read_batches(table, where=since(options)))

    def aggregate(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        rows = hoodie.read_table(table, columns=[PARTITION, AMOUNT])
        days = rows.group_by(PARTITION).aggregate([([], "count_all"), (AMOUNT, "sum")])
        counts, amounts = days.column("count_all").to_pylist(), days.column(f"{AMOUNT}_sum").to_pylist()
        return totals(list(zip(counts, amounts, strict=True)))

    def read_optimized(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return _discard(hoodie.read_batches(table, query="read_optimized"))

    def selective(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return {
            "rows": hoodie.read_table(table, where=options[WHERE], options=_reading(self.options)).num_rows
        }

    def statements(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError("statements run on Spark")

    def rows(self, table: str, out: str) -> list[str]:
        return _rows(table, out)

    def stop(self) -> None:
        return None


def _discard(batches: pa.RecordBatchReader) -> dict[str, Any]:
    return {"rows": sum(batch.num_rows for batch in batches)}


def create(session: dict[str, str], options: dict[str, str], engine: str) -> OursOnSpark | OursLocal:
    if engine == "local":
        return OursLocal(options)
    kinds = {
        "frame": OursOnFrames,
        "sql": OursOnSql,
        "computed": OursOnComputed,
        "function": OursOnFunctions,
        "joined": OursOnJoins,
        "udf": OursOnUdf,
    }
    kind, _, plans = engine.partition("-")
    if plans == STAGED:
        stage_all_frames()
    return kinds.get(kind, OursOnSpark)(session, options)
