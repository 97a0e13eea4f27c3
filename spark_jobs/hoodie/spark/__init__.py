"""Hudi tables as a data source of Spark 4: `spark.dataSource.register(hoodie.spark.HoodieDataSource)`.

This package alone has data sources of pyspark; nothing else of hoodie imports it. Raises ConfigError where
pyspark is missing or older.
"""

from __future__ import annotations

import importlib.util

from hoodie.errors import ConfigError
from hoodie.text import install

if importlib.util.find_spec("pyspark") is None:
    raise ConfigError("hoodie.spark needs pyspark 4.0 or later, which is not here: " + install("spark"))
if importlib.util.find_spec("pyspark.sql.datasource") is None:
    from importlib.metadata import version

    raise ConfigError(
        f"hoodie.spark needs pyspark 4.0 or later, and this is {version('pyspark')}, which has no data "
        "sources in Python; use hoodie.read_table(path, spark=spark) and hoodie.write_table(rows, path)",
        version=version("pyspark"),
    )

from hoodie.spark.data_source import HoodieDataSource

__all__ = ["HoodieDataSource"]
