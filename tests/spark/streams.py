"""Streams of the data source, with the session to be tested (see server.py)."""

from __future__ import annotations

from typing import Any

import hoodie.spark


def answer(
    spark: Any, path: str, to: str, checkpoint: str, options: dict[str, str], mode: str, keys: dict[str, str]
) -> dict[str, Any]:
    """What there is, from one table to the other; how many batches that were, or the error's text."""
    spark.dataSource.register(hoodie.spark.HoodieDataSource)
    query = None
    try:
        frame = spark.readStream.format("hoodie").options(**options).load(path)
        frame = frame.drop(*[name for name in frame.columns if name.startswith("_hoodie_")])
        frame = frame.groupBy("region").count() if mode != "append" else frame
        writer = frame.writeStream.format("hoodie").options(**keys).outputMode(mode)
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query = writer.start(to)
        query.awaitTermination()
        batches = [item for item in query.recentProgress if item.numInputRows]
        return {"found": len(batches)}
    except Exception as error:  # noqa: BLE001  the test that asked knows which it is to be
        return {"found": str(error)}
    finally:
        if query is not None:
            query.stop()
