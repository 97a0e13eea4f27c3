"""SQL over tables with the session to be tested (see server.py)."""

from __future__ import annotations

import contextlib
import io
import json
import re
from typing import Any

import hoodie
from hoodie.errors import HoodieError

_MERGES = re.compile(r"\) MapInArrow.*?\nArguments: [^\[]*\[([^\]]*)\]", re.DOTALL)


def answer(spark: Any, tables: dict[str, Any], texts: list[str]) -> dict[str, Any]:
    """Rows as texts in any order, and the columns that tasks which merge slices convert, by step of the plan.

    A text that is refused has the error's message.
    """
    found: list[Any] = []
    for text in texts:
        try:
            frame = hoodie.sql(text, tables=tables, spark=spark)
        except HoodieError as error:
            found.append(error.message)
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            frame.explain("formatted")
        merges = [re.sub(r"#\w+", "", columns) for columns in _MERGES.findall(said.getvalue())]
        try:
            rows = sorted(json.dumps(list(row), default=str) for row in frame.collect())
        except Exception as error:  # noqa: BLE001  a number that is too large; the test counts these
            found.append({"failed": str(error)})
            continue
        found.append([rows, merges])
    views = spark.catalog.listTables(pattern="hoodie_*")
    return {"found": found, "views": len(views)}
