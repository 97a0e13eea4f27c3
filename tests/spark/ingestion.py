"""Ingestions of Spark's engine, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.errors import HoodieError


def answer(spark: Any, asked: list[tuple[Any, str, dict[str, Any]]]) -> dict[str, Any]:
    """Each is a source, a table's path and further arguments. An error is a result, too."""
    results: list[Any] = []
    for source, path, given in asked:
        try:
            results.append(hoodie.ingest(source, path, spark=spark, **given).to_dict())
        except HoodieError as error:
            results.append(error.to_dict())
    return {"results": results}
