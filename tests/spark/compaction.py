"""Run with the session to be tested: compacts or clusters tables, prints one JSON line.

Arguments: mode (classic or connect), JSON list of [table path, arguments of compact_table, or of the function
of hoodie that is named there as "service"].
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
            service = getattr(hoodie, arguments.pop("service", "compact_table"))
            results.append(service(path, spark=spark, **arguments).to_dict())
        except HoodieError as error:
            results.append(error.to_dict())
    print("ANSWER " + json.dumps({"version": spark.version, "results": results}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
