"""The table object, with the session to be tested (see server.py)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds

import hoodie
from hoodie.errors import HoodieError

#: the stubs refuse plain values where expressions take them
pc: Any = pyarrow.compute

AT = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)


def answer(spark: Any, path: str, files: str) -> dict[str, Any]:
    """What each step gives. `files`: Parquet files with more rows."""
    table = hoodie.Table(path, engine=spark)
    frame = spark.sql(
        "SELECT CAST(id AS STRING) id, id % 2 AS part, id AS ts, "
        "IF(id = 3, 'it''s', concat('t\\\\', id)) AS text, "
        "CAST(id AS DECIMAL(9, 2)) AS m, TIMESTAMP'2024-01-01 12:00:00Z' AS at FROM range(6)"
    )
    said: dict[str, Any] = {
        "words": table.upsert(frame, keys="id", partition_by="part", ordering="ts").status
    }
    said["files"] = table.upsert(ds.dataset(files)).num_inserts
    said["local"] = table.upsert(table.read(where="id = '1'").to_pandas()).num_updates
    rows = table.read(["id"], "id < '3'").to_spark()
    said["frame"] = sorted(row.id for row in rows.collect())
    arrow = hasattr(rows, "toArrow")
    said["arrow"] = _arrow(table) if arrow else _error(table.read().to_arrow)
    conditions = [
        pc.field("text") == "it's",
        pc.field("text") == "t\\4",
        ~pc.field("id").isin(["0", "1", "2", None])
        & (pc.field("m") <= pa.scalar(Decimal(4), pa.decimal128(9, 2))),
        (pc.field("at") == AT) & (pc.field("ts") > 4.5) & (pc.field("ts") < 6),
    ]
    said["conditions"] = [
        sorted(row.id for row in table.read(["id"], condition).to_spark().collect())
        for condition in conditions
    ]
    merged = (
        table.merge(spark.sql("SELECT '1' AS id, 'merged' AS text UNION ALL SELECT '99', 'new'"))
        .when_matched_update({"text": "source.text"})
        .execute()
    )
    said["merged"] = [merged.num_updates, merged.num_inserts]
    local = table.merge([{"id": "2", "text": "local"}]).when_matched_update({"text": "source.text"})
    said["local_merge"] = local.execute().num_updates
    first = table.history()[0]
    said["past"] = table.read(as_of=first).to_spark().count()
    said["changed"] = sorted(row.id for row in table.changes(first, columns=["id"]).to_spark().collect())
    said["html"] = "the first 10 rows" in table.read()._repr_html_()
    said["plan"] = table.explain("part = 1").read_partitions
    said["cluster"] = table.cluster(dry_run=True).dry_run
    return said


def _arrow(table: hoodie.Table) -> list[int]:
    answer = table.read(["id"])
    return [answer.to_arrow().num_rows, answer.batches().read_all().num_rows, len(answer.to_pandas())]


def _error(call: Any) -> str:
    try:
        call()
    except HoodieError as error:
        return error.message
    return "no error"
