"""Sources as the session to be tested reads them (see server.py)."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.engine.session import arrow_schema
from hoodie.errors import HoodieError
from hoodie.source import Source
from hoodie.source.few import few_rows
from hoodie.source.spark import read
from tests.support.rows import assert_same_rows


def answer(spark: Any, asked: list[tuple[Any, str, str]], part_bytes: str = "128m") -> dict[str, Any]:
    """Each is a source, the schema of the table as base64 ("" for none) and a file for its rows.

    Gives the errors, by name and text; those without one have an empty name. What the driver reads of small
    ones has the same rows and types; of those with errors it reads nothing. Spark reads files in parts of
    at most `part_bytes`.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", part_bytes)
    errors = []
    for source, known, out in asked:
        few = None
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(known))) if known else None
        try:
            found = source_of(source)
            few = few_rows(found, schema, local=True)
            frame = read(found, spark, schema)
            rows = frame.toArrow() if hasattr(frame, "toArrow") else frame.to_table()
            if few is not None:
                assert few.schema.equals(arrow_schema(frame.schema)), f"{few.schema} of {frame.schema}"
                assert_same_rows(few, rows.cast(few.schema), what="those that the driver reads")
            pq.write_table(rows, out)
            errors.append(["", ""])
        except Exception as error:
            text = error.message if isinstance(error, HoodieError) else str(error)
            if few is not None and isinstance(error, HoodieError):
                raise AssertionError(f"the driver reads {source}, but {text}") from error
            errors.append([type(error).__name__, text])
    return {"errors": errors}


def source_of(given: Any) -> Source:
    """A source as a job describes it; a mapping may have its `transform`, and which files are read `only`."""
    if not isinstance(given, dict):
        return Source.of(given)
    own = {name: value for name, value in given.items() if name not in ("transform", "only")}
    return replace(Source.of(own, None, given.get("transform")), only=tuple(given.get("only", ())))
