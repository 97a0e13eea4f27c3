"""Statements that change a table, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie
from hoodie.errors import HoodieError


def answer(
    spark: Any, table: str, source: str, texts: list[str], options: dict[str, str] | None = None
) -> dict[str, Any]:
    """What each statement wrote, or the message of its error, with a source of Parquet files; what it said
    of its reading.
    """
    said, tables = [], {"t": table, "s": {"source": source}}
    steps: list[tuple[str, str]] = []
    for text in texts:
        try:
            result = hoodie.sql(
                text,
                tables=tables,
                spark=spark,
                options=options,
                progress=lambda step, text: steps.append((step, text)),
            )
            said.append(result.to_dict()["operation"])
        except HoodieError as error:
            said.append(error.message)
    frame = hoodie.sql("SELECT count(*) AS n FROM s", tables={"s": spark.read.parquet(source)}, spark=spark)
    views = spark.catalog.listTables(pattern="hoodie_*")
    read = [text for step, text in steps if step == "read"]
    return {"said": said, "rows": frame.collect()[0].n, "views": len(views), "read": read}
