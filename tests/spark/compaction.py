"""Run by `test_spark_compaction.py` with the session to be tested: compacts tables, prints one JSON line.

Arguments: mode (classic or connect), JSON list of [table path, arguments of compact_table].
"""

from __future__ import annotations

import json
import sys
from typing import Any

import hoodie
from hoodie.errors import HoodieError
from tests.spark.program import session


def main() -> None:
    spark = session(sys.argv[1])
    results: list[Any] = []
    for path, arguments in json.loads(sys.argv[2]):
        try:
            results.append(hoodie.compact_table(path, spark=spark, **arguments).to_dict())
        except HoodieError as error:
            results.append(error.to_dict())
    print("ANSWER " + json.dumps({"version": spark.version, "results": results}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
