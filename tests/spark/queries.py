"""Asks the session to be tested queries and saves what it answers (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.errors import HoodieError


def answer(spark: Any, asked: list[tuple[str, dict[str, Any], str]]) -> dict[str, Any]:
    """Each is a table's path, arguments of read_table and a file for the rows ("": it is to be refused)."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    columns: list[Any] = []
    refused: list[str] = []
    for path, arguments, out in asked:
        if not out:
            try:
                hoodie.read_table(path, spark=spark, **arguments)
            except HoodieError as error:
                refused.append(error.message)
            continue
        frame = hoodie.read_table(path, spark=spark, **arguments)
        frame.coalesce(1).write.parquet(out)
        columns.append(frame.columns)
    even = frame.where("ts % 2 = 0").count()
    return {"columns": columns, "even": even, "refused": refused}
