"""A transformation of the rows of a source, before they are written: SQL or a Python function.

SQL is DuckDB's on the local engine, and Spark's on Spark. The text reads one table, `source`. In DuckDB it
reaches nothing else. A function runs batch by batch on both engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from hoodie.config.failures import of_function
from hoodie.config.functions import Function, is_function_name, loaded, shown
from hoodie.engine.files import bad_file
from hoodie.engine.streams import Stream
from hoodie.errors import ConfigError, HoodieError, InputError, TransformError
from hoodie.read import duckdb_predicate
from hoodie.read.duckdb_sql import READING, answered
from hoodie.read.sql_tables import query_text

#: rows of a batch of the local engine, at most
BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Call:
    """A function, and what messages call it. Picklable where the function is."""

    function: Function
    name: str

    @classmethod
    def of(cls, transform: str | Function) -> Call:
        """Raises ConfigError for a name that can't be imported."""
        name = shown(transform)
        return cls(loaded(transform) if isinstance(transform, str) else transform, name)

    def answer(self, batch: pa.RecordBatch) -> pa.Table | None:
        """Raises TransformError for what the function raises, and for an answer that is none."""
        try:
            found: Any = self.function(batch)
        except HoodieError:
            raise
        except Exception as error:
            raise of_function(self.name, error) from error
        if found is None:
            return None
        if not isinstance(found, (pa.RecordBatch, pa.Table)):
            raise self.wrong(
                f"returned a {type(found).__name__}; return a pyarrow RecordBatch or Table, or None"
            )
        names = found.schema.names
        if not names or len(set(names)) < len(names):
            raise self.wrong(f"returned the columns {', '.join(names) or '(none)'}; name each once")
        return found if isinstance(found, pa.Table) else pa.Table.from_batches([found])

    def answers(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None = None
    ) -> Iterator[pa.Table]:
        """Of all batches, in one schema, by default that of the first answer."""
        for batch in batches:
            found = self.answer(batch)
            if found is not None:
                schema = schema or found.schema
                yield self._conformed(found, schema)

    def wrong(self, why: str) -> TransformError:
        return TransformError(f"the transform {self.name} {why}", transform=self.name)

    def _conformed(self, found: pa.Table, schema: pa.Schema) -> pa.Table:
        if found.schema == schema:
            return found
        if found.schema.names != schema.names:
            raise self.wrong(
                f"returned the columns {', '.join(found.schema.names)} after {', '.join(schema.names)}; "
                "return the same for every batch"
            )
        try:
            return found.cast(schema)
        except (pa.ArrowException, ValueError) as error:
            differ = [
                f"{one.name}: {one.type} after {other.type}"
                for one, other in zip(found.schema, schema, strict=True)
                if one.type != other.type
            ]
            raise self.wrong(
                f"returned other types than before ({'; '.join(differ) or error}); return the same for every "
                "batch"
            ) from error


def transform_rows(
    rows: pa.Table | pa.RecordBatchReader | ds.Dataset | Stream, transform: str | Function
) -> pa.RecordBatchReader:
    """The answers of the function, while they are read: it is called once for each batch.

    Raises ConfigError for what is no function, at once, and TransformError for what it does wrong: of the
    first batch at once, of others while they are read.
    """
    call = Call.of(transform)
    answers = call.answers(_batches(rows))
    first = next(answers, None)
    if first is None:
        first = call.answer(_none_of(rows.schema))
    if first is None:
        first = rows.schema.empty_table()
    every = (batch for table in chain([first], answers) for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(first.schema, every)


def transform_frame(frame: Any, transform: str | Function) -> Any:
    """DataFrame of the function's answers. Its columns are those that it answers to a batch without rows, and
    where it answers none, to the first rows.
    """
    from hoodie.engine.session import arrow_schema
    from hoodie.source.ddl import ddl

    call = Call.of(transform)
    schema = _shape(call, frame, arrow_schema(frame.schema))
    described = ", ".join(f"`{item.name.replace('`', '``')}` {ddl(item.type)}" for item in schema)
    target = arrow_schema(frame.mapInArrow(_Answers(call), described).schema)
    return frame.mapInArrow(_Answers(call, target), described)


@dataclass(frozen=True)
class _Answers:
    call: Call
    schema: pa.Schema | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in self.call.answers(batches, self.schema):
            yield from table.to_batches()


@dataclass(frozen=True)
class _Shapes:
    call: Call

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in self.call.answers(batches):
            yield pa.RecordBatch.from_pydict({"shape": [table.schema.serialize().to_pybytes()]})


def _shape(call: Call, frame: Any, schema: pa.Schema) -> pa.Schema:
    """The columns that the function answers with."""
    try:
        answer = call.answer(_none_of(schema))
    except TransformError:
        answer = None  # it may need rows: what it says of them is what its author knows
    if answer is not None:
        return answer.schema
    try:
        found = frame.limit(100).mapInArrow(_Shapes(call), "shape binary").take(1)
    except Exception as error:
        from hoodie.engine.spark import of_task

        raise of_task(error) from error
    return pa.ipc.read_schema(pa.py_buffer(bytes(found[0]["shape"]))) if found else schema


def _none_of(schema: pa.Schema) -> pa.RecordBatch:
    columns: list[Any] = [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _batches(rows: pa.Table | pa.RecordBatchReader | ds.Dataset | Stream) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, Stream):
        for part in rows.parts:
            yield from part()
    elif isinstance(rows, pa.Table):
        yield from rows.to_batches(max_chunksize=BATCH_ROWS)
    elif isinstance(rows, ds.Dataset):
        try:
            yield from rows.scanner(
                batch_size=BATCH_ROWS, batch_readahead=1, fragment_readahead=1
            ).to_batches()
        except (pa.ArrowException, OSError) as error:
            raise bad_file(rows) or error from None
    else:
        yield from rows


#: the name of the rows in the text
SOURCE = "source"


def transformed(
    rows: pa.Table | pa.RecordBatchReader | ds.Dataset | Stream, text: str | Function
) -> pa.RecordBatchReader:
    """The answer of one SELECT of DuckDB, or of a function, while it is read.

    Raises ConfigError for a text that is no SELECT, or that DuckDB refuses, at once where it is the text
    alone, else while rows are read; TransformError as `transform_rows`; InputError where rows can't be read.
    """
    if not isinstance(text, str) or is_function_name(text):
        return transform_rows(rows, text)
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
        return transform_frame(frame, text)
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
