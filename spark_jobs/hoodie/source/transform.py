"""SQL over the rows of a source, before they are written: by DuckDB here, by Spark there; or a function
(hoodie.source.called).

The text sees one table, `source`, and reaches nothing else in DuckDB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hoodie.config.functions import Function, is_function_name
from hoodie.engine.streams import Stream
from hoodie.errors import ConfigError, HoodieError, InputError
from hoodie.read import duckdb_predicate
from hoodie.read.duckdb_sql import READING, answered
from hoodie.read.sql_tables import query_text
from hoodie.source.called import called, spark_called

#: the name of the rows in the text
SOURCE = "source"


def transformed(
    rows: pa.Table | pa.RecordBatchReader | ds.Dataset | Stream, text: str | Function
) -> pa.RecordBatchReader:
    """The answer of one SELECT of DuckDB, or of a function, while it is read.

    Raises ConfigError for a text that is no SELECT, or that DuckDB refuses, at once where it is the text
    alone, else while rows are read; InputError where they can't be read.
    """
    if not isinstance(text, str) or is_function_name(text):
        return called(rows, text)
    query = query_text(text)
    names = ", ".join(rows.schema.names)
    failed: list[HoodieError] = []

    def wrong(error: Exception) -> Exception:
        if failed:
            return failed[0]
        why = str(error).splitlines()[0]
        if not duckdb_predicate.of_text(error) and (isinstance(error, OSError) or READING in why):
            return InputError(f"the source can't be read for the transform: {why}")
        return refused(query, f"{why}; columns of {SOURCE} are {names}")

    given = _reader(rows, failed) if isinstance(rows, Stream) else rows
    return answered(query, {SOURCE: given}, wrong)


def refused(query: str, why: str) -> ConfigError:
    return ConfigError(f"the transform can't be evaluated: {why}", transform=query)


def spark_transformed(spark: Any, frame: Any, text: str | Function) -> Any:
    """DataFrame of one query of Spark SQL, or of a function, over a DataFrame. Raises ConfigError for what
    Spark can't plan.
    """
    if not isinstance(text, str) or is_function_name(text):
        return spark_called(frame, text)
    from hoodie.read.spark_sql import frame_of

    try:
        return frame_of(spark, text, {SOURCE: frame})
    except ConfigError as error:
        names = ", ".join(frame.columns)
        raise refused(query_text(text), f"{error.message}; columns of {SOURCE} are {names}") from None


def _reader(rows: Stream, failed: list[HoodieError]) -> pa.RecordBatchReader:
    """`failed` gets the error that ends it, of which DuckDB tells the text only."""

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for part in rows.parts:
                yield from part()
        except HoodieError as error:
            failed.append(error)
            raise

    return pa.RecordBatchReader.from_batches(rows.schema, batches())
