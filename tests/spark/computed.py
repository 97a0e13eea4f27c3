"""DataFrames that filter Parquet files and compute columns of them, with the session to be tested (see
server.py): what the engine computes itself, beside what Spark does.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from hoodie.engine.session import conf_set
from hoodie.engine.spark import SparkEngine
from hoodie.errors import HoodieError

ROWS = 3000
#: what is computed here, of columns that every mode has a value for
COLUMNS = r"""
i
abs(i)
-i
i + 1
i - l
l * 3
i * l
f + d
d * 1.0D
d - f
-d
abs(f)
f * f
d / 4
i / 8
l / 1e2D
CAST(NULL AS STRING)
'text'
DATE'2024-02-29'
1.50BD
true
CAST(i AS BIGINT)
CAST(l AS DOUBLE)
CAST(l AS FLOAT)
CAST(i AS STRING)
CAST(b AS STRING)
CAST(f AS DOUBLE)
CAST(t AS DATE)
to_date(t)
CAST(u AS DATE)
CAST(c AS DECIMAL(20,4))
concat(s, '-', r)
concat(CAST(i AS STRING), s)
coalesce(s, r, 'none')
nvl(i, 0)
if(d > f, s, r)
CASE WHEN i > 0 THEN 'up' WHEN i < 0 THEN 'down' END
CASE WHEN b THEN d ELSE f END
i = x
d = f
d <=> f
d < f
d <= 0.5
d > f
d >= f
d != 0
f > 0.25
d = CAST('NaN' AS DOUBLE)
s = r
s < r
s <=> r
s >= 'b'
s IN ('a', 'é', '')
i IN (1, 2, NULL)
day IN (DATE'2024-02-29', DATE'1969-12-31')
b IN (true)
s IS NULL
isnotnull(d)
NOT b
b AND d > 0
b OR d > 0
b = (i > 0)
day >= '2024-01-01'
day < DATE'2024-02-29'
t >= '2024-02-29 10:30:00.5'
t < TIMESTAMP'1970-01-01 00:00:00' OR t IS NULL
t = u
u = u
c > 1.5
c = 2
c < i
c <= CAST(c AS DECIMAL(20,4))
s LIKE 'a%' OR i > 0
startswith(s, 'a')
endswith(s, 'b')
contains(s, '')
i BETWEEN -5 AND 5
NOT (i BETWEEN -5 AND 5)
d IS NULL OR d * 2 > 1
i > 1L
i > 1.5
l = 7
x = 2147483647
CAST(w AS DOUBLE)
CAST(w AS FLOAT)
CAST(w AS STRING)
w > d
w <= f
b < (i > 0)
isnull(x) OR x > 0
""".strip().splitlines()
#: what is always left to Spark
NEVER = r"""
rand()
uuid()
current_timestamp()
current_date()
monotonically_increasing_id()
spark_partition_id()
input_file_name()
upper(s)
CAST(d AS STRING)
CAST(s AS INT)
CAST(l AS INT)
CAST(day AS STRING)
CAST(day AS TIMESTAMP)
date_format(t, 'yyyy-MM-dd')
try_add(i, 1)
c * 2
d % 2
s || current_user()
named_struct('i', i)
_metadata.file_name
d IN (0D, 1D)
CAST(i AS STRING) = s
s LIKE '%a_b'
""".strip().splitlines()
#: old dates and points in time as they are, which 3.5 refuses without
AS_THEY_ARE = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
#: errors with ANSI mode, values without
FAILING = ("abs(x)", "-x", "x + 1", "x - 1", "x * 2", "d / (d * 0)")


def answer(spark: Any, folder: str) -> dict[str, Any]:
    """Which expressions differ, which are computed here, and which of NEVER are not left to Spark."""
    path = f"{folder}/rows.parquet"
    pq.write_table(_rows(), path, row_group_size=700)
    out: dict[str, Any] = {"differ": [], "left": [], "never": [], "failing": []}
    read = spark.read.parquet(path)
    for ansi in ("false", "true"):
        with conf_set(spark, {"spark.sql.ansi.enabled": ansi, **AS_THEY_ARE}):
            texts = [text for text in COLUMNS if _here(spark, read.selectExpr(f"{text} AS v")) is not None]
            out["left"] += [text for text in COLUMNS if text not in texts]
            many = read.selectExpr("n", *(f"{text} AS v{place}" for place, text in enumerate(texts)))
            out["differ"] += _differences(spark, many, Path(folder, f"all-{ansi}"), ["n", *texts])
            for number, text in enumerate(_conditions(texts)):
                rows = read.where(text).withColumn("i", F.col("i") + 1).drop("s")
                found = _differences(spark, rows, Path(folder, f"{number}-{ansi}"), rows.columns)
                out["differ"] += [f"{text}: {name}" for name in found]
            out["never"] += [
                text for text in NEVER if _here(spark, read.selectExpr(f"{text} AS v")) is not None
            ]
            out["failing"].append([_fails(spark, read.selectExpr(f"{text} AS v")) for text in FAILING])
    with conf_set(spark, AS_THEY_ARE):
        out["plans"] = _plans(spark, read, folder)
    return out


def _conditions(texts: list[str]) -> list[str]:
    """Some of those that are predicates, and pairs of them."""
    wanted = ("d < f", "d != 0", "i IN (1, 2, NULL)", "NOT b", "s IS NULL", "b OR d > 0")
    assert set(wanted) <= set(texts)
    return [*wanted[:3], " AND ".join(wanted[1:2] + wanted[5:]), f"({wanted[3]}) OR ({wanted[4]})"]


def _here(spark: Any, frame: Any) -> Any:
    engine = SparkEngine(spark)
    return engine.files(engine.scanned(frame))


def _differences(spark: Any, frame: Any, out: Path, names: list[str]) -> list[str]:
    files = _here(spark, frame)
    if files is None:
        return ["left to Spark"]
    batches = files.scan.batches(files.pieces)
    ours = pa.Table.from_batches(batches, schema=files.schema).sort_by("n")
    frame.coalesce(1).write.parquet(str(out))
    theirs = pq.read_table(out).sort_by("n")
    if ours.num_rows != theirs.num_rows or not 0 < ours.num_rows <= ROWS:
        return [f"{ours.num_rows} rows, not {theirs.num_rows}"]
    columns = zip(names, ours.columns, theirs.columns, strict=True)
    return [name for name, mine, other in columns if not _equal(mine, other)]


def _equal(mine: Any, other: Any) -> bool:
    mine, other = mine.combine_chunks(), other.combine_chunks()
    if mine.type != other.type:
        return False
    if not pa.types.is_floating(mine.type):
        return bool(mine.equals(other))
    if not mine.is_null().equals(other.is_null()):
        return False
    left, right = (np.asarray(values.fill_null(0)) for values in (mine, other))
    signs = (np.signbit(left) == np.signbit(right)) | np.isnan(left)
    return bool(np.array_equal(left, right, equal_nan=True) and signs.all())


def _fails(spark: Any, frame: Any) -> str:
    """What is said of values beyond the type: of Spark's and of ours."""
    said = ""
    files = _here(spark, frame)
    assert files is not None
    try:
        list(files.scan.batches(files.pieces))
        said += "value"
    except HoodieError as error:
        said += error.code
    try:
        frame.write.format("noop").mode("overwrite").save()
        return f"{said}, value"
    except Exception:  # noqa: BLE001  of Spark
        return f"{said}, error"


def _plans(spark: Any, read: Any, folder: str) -> dict[str, bool]:
    """Is a plan read as files."""
    read.createOrReplaceTempView("test_rows")
    sql = f"select n, i + 1 as i from parquet.`{folder}/rows.parquet` where d > 0"
    read.write.mode("overwrite").saveAsTable("test_table", path=f"{folder}/table")
    cached = read.where("i > 2").cache()
    frames = {
        "chain": read.where("i > 0")
        .withColumn("d", F.col("d") * 2)
        .where("d < 9")
        .withColumnRenamed("d", "e"),
        "sql": spark.sql(sql),
        "view": spark.sql("select * from test_rows where i > 0"),
        "alias": read.alias("k").where(F.col("k.i") > 0).select("k.*"),
        "cached": cached,
        "sample": read.sample(0.5),
        "limit": read.limit(5),
        "sorted": read.sort("i"),
        "union": read.union(read).where("i > 0"),
        "distinct": read.where("i > 0").distinct(),
        "joined": read.where("i > 0").join(read.select("n"), "n"),
        "table": spark.table("test_table").where("i > 0"),
        "two paths": spark.read.parquet(f"{folder}/rows.parquet", f"{folder}/rows.parquet").where("i > 0"),
        "other types": spark.read.schema("n bigint, i bigint")
        .parquet(f"{folder}/rows.parquet")
        .where("n > 0"),
        "unlike names": spark.read.schema("N bigint").parquet(f"{folder}/rows.parquet").where("N > 0"),
        "function": read.withColumn("i", F.udf(lambda value: value, "int")("i")),
    }
    found = {name: _here(spark, frame) is not None for name, frame in frames.items()}
    cached.unpersist()
    spark.sql("DROP TABLE test_table")
    spark.catalog.dropTempView("test_rows")
    with conf_set(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        found["old calendar"] = _here(spark, read.where("i > 0")) is not None
        found["plain, old calendar"] = _here(spark, read) is not None
    of_reader = spark.read.option("datetimeRebaseMode", "LEGACY").parquet(f"{folder}/rows.parquet")
    found["old calendar of the reader"] = _here(spark, of_reader.where("i > 0")) is not None
    with conf_set(spark, {"spark.sql.session.timeZone": "Asia/Kathmandu"}):
        found["another zone"] = _here(spark, read.selectExpr("to_date(t) AS v")) is not None
        found["another zone, without times"] = _here(spark, read.where("i > 0")) is not None
    return found


def _rows() -> pa.Table:
    """Random ones: nulls, not a number, both zeros, limits of types, old dates."""
    chance = random.Random(5)

    def column(values: list[Any], kind: Any, often: Any = None) -> Any:
        made = [
            chance.choice(values) if often is None or chance.random() < 0.3 else often() for _ in range(ROWS)
        ]
        return pa.array(made, kind)

    reals = [None, float("nan"), 0.0, -0.0, float("inf"), -float("inf"), 0.5, 0.25, 5e-324, 1.7e308, -1.5]
    texts = [None, "", "a", "b", "ab", "Ab", "é", "z\U0001f600", "a%", "\uffff"]
    zone = dt.timezone.utc
    moments = [
        None,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999, zone),
        dt.datetime(1970, 1, 1, tzinfo=zone),
        dt.datetime(1900, 3, 1, 12, tzinfo=zone),
        dt.datetime(1, 1, 1, tzinfo=zone),
        dt.datetime(2024, 2, 29, 10, 30, 0, 500000, zone),
        dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=zone),
    ]
    days = [None, dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1600, 1, 1)]
    decimals = [None, Decimal("0.00"), Decimal("1.50"), Decimal("-2.00"), Decimal("99999999.99")]
    few = (1 << 40) - 1
    return pa.table(
        {
            "n": pa.array(range(ROWS), pa.int64()),
            "i": column([None, 0, 1, 2, -7], pa.int32(), lambda: chance.randint(-10_000, 10_000)),
            "x": column([None, 0, 2**31 - 1, -(2**31)], pa.int32()),
            "l": column([None, 0, 7, few, -few], pa.int64(), lambda: chance.randint(-few, few)),
            "w": column([None, 2**63 - 1, -(2**63)], pa.int64(), lambda: chance.getrandbits(63) - (1 << 62)),
            "f": column(reals, pa.float32()).cast(pa.float32()),
            "d": column(reals, pa.float64(), lambda: chance.gauss(0, 10)),
            "s": column(texts, pa.string()),
            "r": column(texts, pa.string()),
            "b": column([None, True, False], pa.bool_()),
            "day": column(days, pa.date32()),
            "t": column(moments, pa.timestamp("us", "UTC")),
            "u": column([m and m.replace(tzinfo=None) for m in moments], pa.timestamp("us")),
            "c": column(decimals, pa.decimal128(10, 2)),
        }
    )
