"""A session of Spark: the one that spark-submit describes, or one for a master."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from hoodie.bundle import bundle_zip

#: set where neither spark-submit nor spark-defaults.conf nor the session's maker says something
SESSION_DEFAULTS = {"spark.sql.session.timeZone": "UTC"}


@contextlib.contextmanager
def spark_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """A Spark session, stopped at the end: the one spark-submit describes, or one for `master`.

    Settings that nobody made get SESSION_DEFAULTS. With `master` other than `local[...]` executors are sent
    this package; spark-submit does that by --py-files.
    """
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
        with contextlib.suppress(Exception):  # after a signal the JVM may be gone already
            spark.stop()


def _is_set(spark: Any, name: str) -> bool:
    try:
        return bool(spark.sparkContext.getConf().contains(name))
    except Exception:  # noqa: BLE001  Spark Connect has no context; its server's setting stays
        return True


def _ship(spark: Any) -> None:
    bundle = str(bundle_zip())
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001  Spark Connect has no context
        spark.addArtifacts(bundle, pyfile=True)
    else:
        context.addPyFile(bundle)
