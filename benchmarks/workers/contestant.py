"""What every worker offers, and the Spark session they share."""

from __future__ import annotations

import importlib.metadata
import platform
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.workload import AMOUNT, COLUMNS, PARTITION, SINCE, STATEMENTS, WHERE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: what is timed
OPERATIONS = (
    "bulk_insert", "upsert", "merge", "compact", "cluster", "snapshot", "recent", "aggregate",
    "read_optimized", "selective", "statements",
)  # fmt: skip


class Worker(Protocol):
    """One contestant.  `source` is a folder of Parquet files with the twelve columns, `table` a path."""

    def versions(self) -> dict[str, str]: ...

    def bulk_insert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Creates the table, one file a partition."""
        ...

    def upsert(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]: ...

    def merge(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Sets some columns of the rows that are there (`MERGE`)."""
        ...

    def compact(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Schedules and executes a compaction of a merge-on-read table; nothing is read from `source`."""
        ...

    def cluster(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Schedules and executes a clustering; nothing is read from `source`."""
        ...

    def snapshot(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Reads all rows and columns, and throws them away."""
        ...

    def recent(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """As `snapshot`, of the days from options[SINCE] on."""
        ...

    def aggregate(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Rows and the sum of their amounts by day; `days`, `rows` and `amount` of all are the result."""
        ...

    def read_optimized(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """As `snapshot`, of the base files alone."""
        ...

    def selective(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """The number of rows for which options[WHERE] is true, all of whose columns are read."""
        ...

    def statements(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        """Runs options[STATEMENTS]."""
        ...

    def rows(self, table: str, out: str) -> list[str]:
        """Parquet files with exactly the table's rows, written to `out` by the contestant's own reader.

        Empty: the table is one of ours and the parent picks the latest base files by name.
        """
        ...

    def stop(self) -> None: ...


class SparkWorker:
    """Base of the contestants that run on Spark."""

    def __init__(self, session: dict[str, str], options: dict[str, str]) -> None:
        self.options = options
        self.spark = start_spark(session)

    def versions(self) -> dict[str, str]:
        return {
            "python": platform.python_version(),
            "pyspark": self.spark.version,
            "pyarrow": version_of("pyarrow"),
        }

    def read(self, source: str) -> DataFrame:
        return self.spark.read.parquet(source)

    def merge(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no statements")

    def compact(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no merge-on-read tables")

    def cluster(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        raise NotImplementedError(f"{type(self).__name__} has no clustering")

    def frame(
        self, table: str, query: str, columns: tuple[str, ...] | None = None, where: str | None = None
    ) -> DataFrame:
        """A query of a merge-on-read table: "snapshot" or "read_optimized"."""
        raise NotImplementedError(f"{type(self).__name__} has no merge-on-read tables")

    def snapshot(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        discard(self.frame(table, "snapshot"))
        return {}

    def recent(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        discard(self.frame(table, "snapshot", where=since(options)))
        return {}

    def aggregate(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        from pyspark.sql import functions as f

        frame = self.frame(table, "snapshot", (PARTITION, AMOUNT))
        days = frame.groupBy(PARTITION).agg(f.count("*").alias("rows"), f.sum(AMOUNT).alias(AMOUNT)).collect()
        return totals([(day["rows"], day[AMOUNT]) for day in days])

    def read_optimized(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        discard(self.frame(table, "read_optimized"))
        return {}

    def selective(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        return {"rows": len(self.frame(table, "snapshot", where=options[WHERE]).collect())}

    def statements(self, source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
        for text in options[STATEMENTS].splitlines():
            self.spark.sql(text.format(table=table)).collect()
        return {}

    def stop(self) -> None:
        self.spark.stop()


def since(options: dict[str, str]) -> str:
    return f"{PARTITION} >= '{options[SINCE]}'"


def start_spark(session: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("hoodie-bench")
    for name, value in session.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def totals(days: list[tuple[int, Decimal]]) -> dict[str, Any]:
    """The result of `aggregate`: rows and amount of each day, added up."""
    rows, amounts = zip(*days, strict=True)
    return {"days": len(days), "rows": sum(rows), "amount": str(sum(amounts))}


def dump(frame: DataFrame, out: str) -> list[str]:
    """Write the twelve columns of `frame` as Parquet and name the files."""
    frame.select(*COLUMNS).write.mode("overwrite").parquet(out)
    return [str(path) for path in sorted(Path(out).glob("*.parquet"))]


def discard(frame: DataFrame) -> None:
    """Compute every row and column of `frame`."""
    frame.write.format("noop").mode("overwrite").save()


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
