"""Sessions of Spark, and the differences between their kinds (classic, Connect) and versions of pyspark.

Spark reads by Hadoop's file systems. This module names what a session without one needs.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from hoodie.errors import ConfigError, StorageError
from hoodie.mask import masked

if TYPE_CHECKING:
    import pyarrow as pa

#: how the texts of Spark's masters begin
_MASTERS = re.compile(r"local(\[.+\])?$|local-cluster\[|yarn$|(spark|k8s|mesos)://.")
#: set where neither spark-submit nor spark-defaults.conf nor the session's maker says something
SESSION_DEFAULTS = {"spark.sql.session.timeZone": "UTC"}

#: a variable of the environment that all of Databricks' runtimes have
_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
_PANDAS = "PySpark does not yet fully support pandas"


@contextlib.contextmanager
def spark_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A Spark session, stopped at the end: the one spark-submit describes, or one for `master`. On Databricks
    it is the cluster's, which other jobs use, and is not stopped.

    Settings without a value get SESSION_DEFAULTS. With `master` other than `local[...]` executors are sent
    this package; spark-submit does that by --py-files. Raises ConfigError for a text that is no master.
    """
    if master and not _MASTERS.match(master):
        raise ConfigError(
            f"{master!r} is no Spark master; use local[2], spark://HOST:7077, yarn or k8s://https://HOST:PORT",
            master=master,
        )
    # pyspark 4.2 beside pandas 3: it is given Arrow, never pandas
    warnings.filterwarnings("ignore", _PANDAS, FutureWarning)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for setting, value in (settings or {}).items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    try:
        for setting, value in SESSION_DEFAULTS.items():
            if not _is_set(spark, setting):
                spark.conf.set(setting, value)
        if master and not master.startswith("local"):
            _ship(spark)
        yield spark
    finally:
        if _DATABRICKS not in os.environ:
            with contextlib.suppress(Exception):  # after a signal the JVM may be gone already
                spark.stop()


def spark_context(spark: Any) -> Any | None:
    """The session's SparkContext; None with Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except Exception:  # noqa: BLE001  Connect says so in its own ways
        return None


def sees_files(spark: Any) -> bool:
    """Are paths without a scheme those of this process's machine? With Connect they are the server's, and
    elsewhere those of Hadoop's default file system.
    """
    context = spark_context(spark)
    if context is None:
        return False
    return str(context._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///")).startswith("file:")


def parallelism(spark: Any) -> int:
    """Tasks that run at once."""
    context = spark_context(spark)
    if context is not None:
        return int(context.defaultParallelism)
    for name in ("spark.default.parallelism", "spark.sql.leafNodeDefaultParallelism"):
        value = spark.conf.get(name, None)
        if value:
            return int(value)
    return 4


def setting(spark: Any, name: str) -> str | None:
    """The value of a setting, which may be its default; None where this Spark has no such setting."""
    try:
        return str(spark.conf.get(name))
    except Exception:  # noqa: BLE001  classic and Connect have errors of their own
        return None


@contextlib.contextmanager
def conf_set(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Sets the session's settings for a block, then sets their values from before again."""
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


#: of persisted frames: partitions of a shuffle are joined if they are small
JOINS_CACHED = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"


def few_cached_partitions(spark: Any) -> AbstractContextManager[None]:
    """For frames that are persisted in a block: Spark takes a copy of the setting for each."""
    return conf_set(spark, {JOINS_CACHED: "true"} if setting(spark, JOINS_CACHED) is not None else {})


def plan_text(frame: Any, kind: str = "simple") -> str:
    """The physical plan of a DataFrame as Spark explains it; "extended": the logical ones before it; "cost":
    before it the optimized one with what its optimizer estimates; "" where Spark does not say.

    What is cached of it stays, which an EXPLAIN in SQL would drop with the name that it gives the DataFrame.
    """
    try:
        if spark_context(frame.sparkSession) is None:  # Connect
            return str(frame._explain_string(mode=kind))
        modes = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
        return str(jvm_query(frame).explainString(modes.fromString(kind)))
    except Exception:  # noqa: BLE001  the caller knows nothing of the frame then, and goes on
        return ""


def jvm_query(frame: Any) -> Any:
    """The JVM's QueryExecution of a classic DataFrame: a new one, as that of the frame may be older than what
    is cached of it. Raises pyspark's errors with Connect.
    """
    return frame.select("*")._jdf.queryExecution()


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema of a StructType, times in UTC. Raises pyspark's errors for other types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    convert: Any = to_arrow_schema
    # 4.2 wants the zone of timestamps; before, it was UTC
    zone = {"timezone": "UTC"} if "timezone" in inspect.signature(convert).parameters else {}
    found: pa.Schema = convert(schema, **zone)
    return found


def arrow_rows(frame: Any) -> pa.Table:
    """All rows of a DataFrame in its Arrow schema, by one job of the JVM alone. Raises pyspark's errors, and
    AttributeError with Connect before 4.0.
    """
    import pyarrow as pa

    schema = arrow_schema(frame.schema)
    if hasattr(frame, "toArrow"):
        found: pa.Table = frame.toArrow()
    else:
        batches = frame._collect_as_arrow()
        found = pa.Table.from_batches(batches, None if batches else schema)
    return pa.table(found.columns, names=schema.names).cast(schema)


def scanned_schema(text: str) -> pa.Schema | None:
    """The Arrow schema of a StructType as JSON; None where Spark knows more of a column, such as a collation
    or the length of texts, and for types that Arrow has not.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    fields = json.loads(text)
    if any(name.startswith("__") for field in fields["fields"] for name in field["metadata"]):
        return None
    try:
        return arrow_schema(StructType.fromJson(fields))
    except (PySparkException, TypeError, ValueError):
        return None


def to_spark_schema(schema: pa.Schema) -> Any:
    """Spark's StructType of an Arrow schema; timestamps without zone become TimestampNTZ."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _is_set(spark: Any, name: str) -> bool:
    """Did the maker of the session say something? With Connect its server's setting stays."""
    context = spark_context(spark)
    return context is None or bool(context.getConf().contains(name))


def _ship(spark: Any) -> None:
    from hoodie.bundle import bundle_zip

    bundle, context = str(bundle_zip()), spark_context(spark)
    if context is None:
        spark.addArtifacts(bundle, pyfile=True)
    else:
        context.addPyFile(bundle)


_LACKS = re.compile(r"No FileSystem for scheme|Class \S*FileSystem\S* not found")
_NEEDED = {
    "s3a": (
        "org.apache.hadoop:hadoop-aws in the version of Spark's Hadoop, with its AWS SDK",
        "spark.hadoop.fs.s3a.access.key, .secret.key and .endpoint, where the environment or the machine's "
        "role does not say them",
    ),
    "gs": (
        "com.google.cloud.bigdataoss:gcs-connector (the shaded jar)",
        "spark.hadoop.fs.gs.impl=com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    ),
    "abfss": (
        "org.apache.hadoop:hadoop-azure in the version of Spark's Hadoop",
        "spark.hadoop.fs.azure.account.key.ACCOUNT.dfs.core.windows.net",
    ),
}


def lacks_file_system(error: Exception) -> bool:
    """Is it Spark's error for a path of which its session has no file system."""
    return _LACKS.search(str(error)) is not None


def unseen(path: str, error: Exception, otherwise: str) -> StorageError:
    """The error for a path whose file system is there and refuses it."""
    scheme = path.partition("://")[0]
    lines = [line.strip() for line in masked(str(error)).splitlines() if line.strip()]
    causes = [line.partition(":")[2].strip() for line in lines if line.startswith("Caused by:")]
    why = (causes[-1:] or lines or [type(error).__name__])[0]
    return StorageError(
        f"Spark can't read {path[:500]} ({why[:300]}): check the session's settings "
        f"spark.hadoop.fs.{scheme}.*, such as credentials and endpoint; or {otherwise}",
        path=path,
    )


def no_file_system(path: str, otherwise: str) -> ConfigError:
    """The error for such a path; `otherwise` is what does without."""
    scheme = path.partition("://")[0]
    jars, settings = _NEEDED.get(scheme, ("the jars of its file system", f"spark.hadoop.fs.{scheme}.impl"))
    return ConfigError(
        f"Spark's session has no file system for {scheme}://, so that it can't read {path[:500]}: start it "
        f"with {jars} (spark.jars.packages or --packages), and set {settings}; or {otherwise}",
        path=path,
        cause="no_file_system",
    )
