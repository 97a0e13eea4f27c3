"""Rows that are in no files yet, as one Parquet file that both engines read.

They come from a caller (a DataFrame, a list of dictionaries) or, a batch at a time, from a query
(hoodie.source.query). Memory: what the caller holds, or one batch.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.errors import InputError
from hoodie.source.rows import arrow_form, fits, plain_categories
from hoodie.source.target import target_schema


def rows_of(given: Any) -> pa.Table | None:
    """Rows as Arrow, with a stream of them read to its end; None for what is no form of rows.

    An empty list has no columns. Raises InputError that names the column.
    """
    if isinstance(given, (list, tuple)) and not given:
        return pa.table({})
    found = plain_categories(given) if isinstance(given, pa.Table) else arrow_form(given)
    return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


def digest(rows: pa.Table) -> str:
    """A hash of columns, types and values, by which a run knows whether rows are those of the run before."""
    sink = _Hashed()
    whole = rows.replace_schema_metadata(None).unify_dictionaries().combine_chunks()
    with pa.PythonFile(sink, mode="w") as file, pa.ipc.new_stream(file, whole.schema) as stream:
        stream.write_table(whole)
    return sink.sum.hexdigest()[:32]


def spool(rows: pa.Table, path: str, table: str, options: Mapping[str, Any]) -> None:
    """Write rows into a new Parquet file at a path of this machine. Columns that the table has take its types
    where their values fit these; rows without columns get the table's.

    `options`: the settings that open the table. Raises InputError, for rows without columns where there is no
    table; TableError and others of the table.
    """
    known = target_schema(table, options)
    if not rows.schema.names:
        if known is None:
            raise InputError(
                "the source is an empty list, which has no columns, and there is no table yet that has them; "
                "return an empty DataFrame with columns and types, or skip the task"
            )
        rows = known.empty_table()
    schema = pa.schema([_fitting(field, rows[field.name], known) for field in rows.schema])
    write_file(path, schema, rows.to_batches())


def write_file(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write batches, cast to this schema, into a new Parquet file. Raises InputError that names the column
    whose values it does not hold.
    """
    stored = pa.schema([field.with_type(_stored(field.type)) for field in schema])
    with pq.ParquetWriter(path, stored) as writer:
        for batch in batches:
            columns = [_cast(batch.column(at), field) for at, field in enumerate(stored)]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=stored))


def _holds(values: Any, kind: pa.DataType) -> bool:
    """Can all values be cast to the type without a loss?"""
    try:
        _as(values, kind)
    except (pa.ArrowException, ValueError):
        return False
    return True


def _as(values: Any, kind: pa.DataType) -> Any:
    """Values cast to a type; Arrow casts whole numbers to decimals of 19 and more digits alone."""
    if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
        values = values.cast(pa.decimal128(min(38, 20 + kind.scale), kind.scale))
    return values if values.type == kind else values.cast(kind)


def _fitting(field: Any, values: Any, known: pa.Schema | None) -> Any:
    """The column with the table's type, where its values fit that, else as it is: the writer says what it
    does with another type, or that it can't.
    """
    target = known.field(field.name).type if known is not None and field.name in known.names else None
    if target is None or not fits(field.type, target) or not _holds(values, target):
        return field
    return field.with_type(target)


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type that Parquet has for one: Spark reads no nanoseconds."""
    if isinstance(kind, pa.BaseExtensionType):
        return _stored(kind.storage_type)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", kind.tz)
    return kind


def _cast(values: Any, field: Any) -> Any:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    try:
        return _as(values, field.type)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(
            f"column {field.name!r} of the source has a value that {field.type} does not hold: "
            f"{str(error).splitlines()[0]}",
            column=field.name,
        ) from None


class _Hashed(io.RawIOBase):
    """A file whose content is only hashed."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = hashlib.sha256()

    def write(self, data: Any) -> int:
        self.sum.update(data)
        return len(data)

    def writable(self) -> bool:
        return True
