"""Queries as Arrow tables; DuckDB evaluates predicates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import COMMIT_TIME
from hoodie.read.file_slice import read_slice
from hoodie.read.partition_values import partition_columns
from hoodie.read.query import Query
from hoodie.read.table_view import TableView, file_schemas
from hoodie.storage import Storage, normalize, storage_for
from hoodie.table.view import BaseFile, FileSlice

#: the stubs refuse plain values where the kernels take them
pc: Any = pyarrow.compute


def read_table(
    path: str,
    *,
    query: Query | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> pa.Table:
    """The answer as an Arrow table; `where` is a SQL predicate (DuckDB evaluates it)."""
    storage = storage_for(normalize(path))
    view = TableView.load(path, query, Config.of(options or {}), storage, where)
    names = view.columns(columns, meta)
    if where is None:
        rows = _concat(view, storage, view.slices, names if view.span is None else _with_time(view, names))
        return _within(view, rows).select(names)
    return _filtered(view, storage, names, where)


def slice_tables(
    view: TableView, storage: Storage, file_slice: FileSlice, names: Sequence[str]
) -> Iterator[pa.Table]:
    """Rows of one slice, with the columns that are in its path only."""
    absent = partition_columns(view.props, view.schema, file_slice.partition, view.from_path)
    for rows in read_slice(storage, file_slice, view.context, names):
        for name, scalar in absent.items():
            if name in names:
                value: Any = scalar
                column: Any = pa.repeat(value, rows.num_rows)
                rows = rows.set_column(rows.schema.get_field_index(name), view.schema.field(name), column)
        yield rows


def _with_time(view: TableView, names: Sequence[str]) -> list[str]:
    return [name for name in view.schema.names if name == COMMIT_TIME or name in names]


def _within(view: TableView, rows: pa.Table) -> pa.Table:
    """The rows of the span."""
    if view.span is None:
        return rows
    times = rows.column(COMMIT_TIME)
    return rows.filter(pc.and_(pc.greater(times, view.span.begin), pc.less_equal(times, view.span.end)))


def _concat(view: TableView, storage: Storage, slices: Sequence[FileSlice], names: Sequence[str]) -> pa.Table:
    """Rows of slices, those outside the span left out."""
    schema = pa.schema([view.schema.field(name) for name in names])

    def read(file_slice: FileSlice) -> pa.Table:
        pieces = [_within(view, rows) for rows in slice_tables(view, storage, file_slice, names)]
        return pa.concat_tables(pieces) if pieces else schema.empty_table()

    if not slices:
        return schema.empty_table()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return pa.concat_tables(pool.map(read, slices))


def _filtered(view: TableView, storage: Storage, names: list[str], where: str) -> pa.Table:
    import duckdb

    wanted = view.referenced([*names, COMMIT_TIME] if view.span else names, where)
    if not view.slices:
        wanted = list(view.schema.names)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    connection = duckdb.connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        sources = []
        for name, rows in _sources(view, storage, wanted):
            connection.register(name, rows)
            sources.append(f"SELECT * FROM {name}" + (f" WHERE {view.span.predicate()}" if view.span else ""))
        text = f"SELECT {quoted} FROM ({' UNION ALL '.join(sources)}) AS snapshot WHERE {where}"
        found: pa.Table = connection.sql(text).to_arrow_table()
    except duckdb.Error as error:
        raise ConfigError(
            f"--where {where!r} can't be evaluated: {str(error).splitlines()[0]}; columns are "
            f"{', '.join(view.schema.names)}",
            where=where,
        ) from None
    finally:
        connection.close()
    return read_as(found, pa.schema([view.schema.field(name) for name in names]))


def _sources(view: TableView, storage: Storage, names: list[str]) -> Iterator[tuple[str, Any]]:
    """What holds the rows, by name: one of files, one of slices that are merged while they are read."""
    schema = pa.schema([view.schema.field(name) for name in names])
    plain = [item for item in view.slices if not item.logs]
    if plain or not view.slices:
        yield "stored", _stored(view, storage, plain, names)
    if view.merged:
        batches = (
            batch
            for item in view.merged
            for rows in slice_tables(view, storage, item, names)
            for batch in rows.to_batches()
        )
        yield "merged", pa.RecordBatchReader.from_batches(schema, batches)


def _stored(view: TableView, storage: Storage, plain: list[FileSlice], names: list[str]) -> Any:
    """A pyarrow dataset, into which the predicate is pushed, when the files' types are the table's."""
    import pyarrow.dataset as ds

    target = pa.schema([view.schema.field(name) for name in names])
    if view.files and not view.from_path and not any(True for _ in _changed(view, storage)):
        return ds.dataset([file.path for file in view.files], schema=target, format="parquet")
    return _concat(view, storage, plain, names)


def _changed(view: TableView, storage: Storage) -> Iterator[BaseFile]:
    """Files with a column of another type than the table's."""
    for file, schema in file_schemas(view, storage).items():
        for field in schema:
            index = view.schema.get_field_index(field.name)
            if index >= 0 and not view.schema.field(index).type.equals(field.type):
                yield file
                break
