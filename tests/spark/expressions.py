"""Expressions and queries on Spark, over the Parquet files of tables v and u (see server.py)."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq

_AT_ONCE = 80


def answer(
    spark: Any, folder: str, asked: list[tuple[str, list[int] | None]], texts: list[str]
) -> dict[str, Any]:
    """`asked`: expressions, and the rows of v that they are about, None for all. Answers are Parquet files of
    the folder; of expressions and texts that failed there are the errors, and of expressions the types.
    """
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for name in ("v", "u"):
        spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(name)
    failed: dict[str, str] = {}
    types: dict[str, str] = {}
    columns: dict[str, Any] = {}
    places = list(enumerate(asked))
    parts = [places[start : start + _AT_ONCE] for start in range(0, len(places), _AT_ONCE)]
    while parts:
        part = parts.pop()
        text = ", ".join(f"{_guarded(expression, rows)} AS e{place}" for place, (expression, rows) in part)
        try:
            frame = spark.sql(f"SELECT id, {text} FROM v ORDER BY id")
            found = frame.toArrow()
        except Exception as error:  # noqa: BLE001 - the test judges it
            if len(part) > 1:
                half = len(part) // 2
                parts += [part[:half], part[half:]]
            else:
                failed[part[0][1][0]] = str(error)[:300]
            continue
        for place, (expression, _) in part:
            types[expression] = frame.schema[f"e{place}"].dataType.simpleString()
            columns[expression] = found[f"e{place}"]
    for place, expression in enumerate(columns):
        pq.write_table(_one(columns[expression]), f"{folder}/e{place}.parquet")
    for place, text in enumerate(texts):
        try:
            found = spark.sql(text).toArrow()
            pq.write_table(
                found.rename_columns([f"c{n}" for n in range(found.num_columns)]),
                f"{folder}/q{place}.parquet",
            )
        except Exception as error:  # noqa: BLE001 - the test judges it
            failed[text] = str(error)[:300]
    return {"failed": failed, "types": types, "order": list(columns)}


def _guarded(expression: str, rows: list[int] | None) -> str:
    if rows is None:
        return f"({expression})"
    listed = ", ".join(map(str, rows)) or "-1"
    return f"CASE WHEN id IN ({listed}) THEN ({expression}) END"


def _one(column: Any) -> Any:
    import pyarrow as pa

    return pa.table({"e": column})
