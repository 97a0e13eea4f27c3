"""Tables and sources that Spark reads itself from an object store (tests/interop/test_object_store.py)."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.spark import read


def answer(spark: Any, path: str, folder: str, storage: dict[str, str]) -> dict[str, Any]:
    """The rows of a table by each reader; sources that Spark writes into the folder. `storage`: settings."""
    found: dict[str, Any] = {"plans": {}}
    for reader in ("spark", "arrow", "auto"):
        frame = hoodie.read_table(path, spark=spark, columns=["id", "ts"], reader=reader, options=storage)
        found[reader], found["plans"][reader] = rows(frame), plan(frame)
    found["s3a"] = rows(hoodie.read_table(path.replace("s3://", "s3a://"), spark=spark, options=storage))
    found["sql"] = rows(hoodie.sql("SELECT id, ts FROM t", tables={"t": path}, spark=spark, options=storage))
    found["sources"] = sources(spark, folder, storage)
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    bucket = path.split("/")[2]
    conf.set(f"fs.s3a.bucket.{bucket}.access.key", "")
    conf.set("fs.s3a.impl.disable.cache", "true")
    found["refused"] = refused(lambda: hoodie.read_table(path, spark=spark, reader="spark", options=storage))
    conf.unset(f"fs.s3a.bucket.{bucket}.access.key")
    conf.unset("fs.s3a.impl.disable.cache")
    lacking = Source(("gs://lake/in.csv",), Source.of("a.csv").format)
    found["lacking"] = refused(lambda: read(lacking, spark))
    return found


def sources(spark: Any, folder: str, storage: dict[str, str]) -> dict[str, int]:
    hadoop = folder.replace("s3://", "s3a://")
    made = spark.range(3).selectExpr("cast(id AS string) AS id", "id AS n")
    made.write.option("header", "true").csv(f"{hadoop}/csv")
    made.write.json(f"{hadoop}/json")
    made.write.parquet(f"{hadoop}/parquet")
    made.write.partitionBy("n").parquet(f"{hadoop}/folders")  # Spark's own reader knows such columns
    found = {}
    for name in ("csv", "json", "parquet", "folders"):
        kind = "parquet" if name == "folders" else name
        got = read(Source.of({"path": f"{folder}/{name}", "format": kind}, storage), spark)
        found[name] = got.count() if hasattr(got, "count") else got.count_rows()
    return found


def rows(frame: Any) -> list[list[Any]]:
    return sorted([row.id, row.ts] for row in frame.collect())


def plan(frame: Any) -> str:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain()
    return text.getvalue()


def refused(use: Any) -> str:
    try:
        use()
    except HoodieError as error:
        return error.message
    return ""
