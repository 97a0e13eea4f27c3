"""Apache Hudi's HiveSyncTool, then all tables of two databases read by Spark: address, jar, {name: path},
settings of the tool, columns to read, the databases: first the one of others, then the tool's.

For the environment of real Hudi. Prints one JSON document: rows by database and table.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

SYNC = "hoodie.datasource.hive_sync."


def main(uri: str, jar: str, tables: str, given: str, columns: str, databases: str) -> None:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", jar)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.hadoop.hive.metastore.uris", uri)
        .enableHiveSupport()
        .getOrCreate()
    )
    context: Any = session.sparkContext
    jvm = context._jvm
    for name, path in json.loads(tables).items():
        settings = jvm.java.util.Properties()
        settings.setProperty("hoodie.datasource.meta.sync.base.path", path)
        own = {"database": databases.split(",")[1], "table": name, "mode": "hms", "metastore.uris": uri}
        for key, text in {**own, **json.loads(given)}.items():
            settings.setProperty(SYNC + key, text)
        jvm.org.apache.hudi.hive.HiveSyncTool(settings, context._jsc.hadoopConfiguration()).syncHoodieTable()
    found: dict[str, dict[str, list[str]]] = {}
    for database in databases.split(","):
        names = [row.tableName for row in session.sql(f"show tables in {database}").collect()]
        found[database] = {
            name: sorted(map(str, session.sql(f"select {columns} from {database}.{name}").collect()))
            for name in names
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:7])
