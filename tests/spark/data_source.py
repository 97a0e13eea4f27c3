"""Reads and writes of the data source, with the session to be tested (see server.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F

import hoodie
import hoodie.spark

PUSH = "spark.sql.python.filterPushdown.enabled"


def answer(spark: Any, steps: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """What each step answers; the text of its error instead, where it fails."""
    spark.dataSource.register(hoodie.spark.HoodieDataSource)
    found: list[Any] = []
    for name, arguments in steps:
        try:
            found.append(_STEPS[name](spark, **arguments))
        except Exception as error:  # noqa: BLE001  the test that asked knows which it is to be
            found.append(str(error))
    return {"found": found}


def _read(
    spark: Any,
    path: str,
    out: str,
    options: dict[str, str] | None = None,
    where: str = "",
    columns: str = "",
    push: bool = False,
) -> None:
    """The rows, in a file."""
    spark.conf.set(PUSH, str(push).lower())
    reader = spark.read.format("hoodie").options(**(options or {}))
    frame = (reader.schema(columns) if columns else reader).load(path)
    frame = frame.where(where) if where else frame
    pq.write_table(frame.toArrow(), out)


def _frame(spark: Any, path: str, out: str, arguments: dict[str, Any]) -> None:
    """The rows of read_table, in a file."""
    pq.write_table(hoodie.read_table(path, spark=spark, **arguments).toArrow(), out)


def _schema(spark: Any, path: str) -> bool:
    """Is it the one of read_table."""
    same: bool = spark.read.format("hoodie").load(path).schema == hoodie.read_table(path, spark=spark).schema
    return same


def _view(spark: Any, path: str, text: str, out: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING hoodie OPTIONS (path '{path}')")
    pq.write_table(spark.sql(text).toArrow(), out)
    spark.catalog.dropTempView("orders")


def _sql(spark: Any, text: str) -> None:
    spark.sql(text).collect()


def _write(
    spark: Any,
    rows: str,
    path: str,
    options: dict[str, str],
    mode: str = "append",
    where: str = "true",
    n: str = "",
) -> None:
    """The rows of a Parquet file that fulfil `where`, in three tasks, which compute the column n."""
    frame = spark.read.parquet(rows).where(where).repartition(3)
    frame = frame.withColumn("n", F.expr(n)) if n else frame
    frame.write.format("hoodie").options(**options).mode(mode).save(path)


_STEPS: dict[str, Callable[..., Any]] = {
    "read": _read,
    "frame": _frame,
    "schema": _schema,
    "view": _view,
    "sql": _sql,
    "write": _write,
}
