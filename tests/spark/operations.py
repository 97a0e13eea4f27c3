"""Run by `test_spark_operations.py`: deletes and overwrites of Spark's engine; prints one JSON line.

Arguments: mode (classic or connect), JSON list of [table path, operation, Parquet file, options]; a file is
read by the executors, or, where its name holds "frame", given as a DataFrame. All but upserts are run dry
first. An error is a result, too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import hoodie
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.spark import read
from tests.spark.program import session


def main() -> None:
    spark = session(sys.argv[1])
    results: list[Any] = []
    for path, operation, file, options in json.loads(sys.argv[2]):
        rows: Any = spark.read.parquet(file) if "frame" in file else read(Source.of(file), spark)
        for dry_run in (True, False) if operation != "upsert" else (False,):
            try:
                done = hoodie.write_table(
                    rows, path, spark=spark, operation=operation, options=options, dry_run=dry_run
                )
                results.append(done.to_dict())
            except HoodieError as error:
                results.append({"operation": operation, **error.to_dict()})
    print("ANSWER " + json.dumps({"version": spark.version, "results": results}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
