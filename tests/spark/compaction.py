"""Compacts or clusters tables with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.errors import HoodieError


def answer(spark: Any, asked: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Each is a table's path and arguments of compact_table, or of hoodie's function that "service" names."""
    results: list[Any] = []
    for path, arguments in asked:
        try:
            service = getattr(hoodie, arguments.pop("service", "compact_table"))
            results.append(service(path, spark=spark, **arguments).to_dict())
        except HoodieError as error:
            results.append(error.to_dict())
    return {"results": results}
