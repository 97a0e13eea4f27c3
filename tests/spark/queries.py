"""Run by `test_spark_queries.py` with the session to be tested: asks it queries, saves what it answers.

Arguments: mode (classic or connect), JSON list of [table path, arguments of read_table, file for the rows; ""
where the query is to be refused].
"""

from __future__ import annotations

import json
import sys
from typing import Any

import hoodie
from hoodie.errors import TableError
from tests.spark.program import session


def main() -> None:
    spark = session(sys.argv[1])
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    columns: list[Any] = []
    refused: list[str] = []
    for path, arguments, out in json.loads(sys.argv[2]):
        if not out:
            try:
                hoodie.read_table(path, spark=spark, **arguments)
            except TableError as error:
                refused.append(error.message)
            continue
        frame = hoodie.read_table(path, spark=spark, **arguments)
        frame.coalesce(1).write.parquet(out)
        columns.append(frame.columns)
    even = frame.where("ts % 2 = 0").count()
    answer = {"version": spark.version, "columns": columns, "even": even, "refused": refused}
    print("ANSWER " + json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
