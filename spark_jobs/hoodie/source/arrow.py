"""Sources for the local engine: Parquet as a lazy dataset, large CSV and JSON files and tables as streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hoodie.config.key import Config
from hoodie.engine.spark_files import spark_dataset
from hoodie.engine.streams import Stream, widened
from hoodie.errors import InputError
from hoodie.format.meta_fields import without_meta
from hoodie.source import Format, Source, local_files
from hoodie.source.text import csv_rows, json_rows
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef

if TYPE_CHECKING:
    from hoodie.read.table_view import TableView


def read(source: Source, known: pa.Schema | None = None) -> pa.Table | ds.Dataset | Stream:
    """Rows of a source. `known` is the target table's schema, whose types CSV and JSON columns take.

    Raises InputError (no such source, unreadable files), ConfigError (an option this engine lacks).
    """
    source.refuse_table()
    readers: dict[Format, Callable[[], pa.Table | ds.Dataset | Stream]] = {
        Format.PARQUET: lambda: _parquet(source),
        Format.CSV: lambda: csv_rows(source, known),
        Format.JSON: lambda: json_rows(source, known),
        Format.TABLE: lambda: _table(source),
    }
    if (problem := source.local_problem()) is not None:
        raise problem
    try:
        return readers[source.format]()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise source.unreadable(error) from error


def _parquet(source: Source) -> ds.Dataset:
    found: list[tuple[list[str], Any]] = [
        (paths, {"partitioning": "hive", "partition_base_dir": folder} if folder else {})
        for folder, paths in local_files(source).items()
    ]
    parts = [ds.dataset(paths, format="parquet", **layout) for paths, layout in found]
    footers = [pq.read_schema(path).remove_metadata() for paths, _ in found for path in paths]
    schema = pa.unify_schemas([*footers, *(part.schema for part in parts)], promote_options="permissive")
    united: Any = [ds.dataset(paths, schema=schema, format="parquet", **layout) for paths, layout in found]
    return cast(ds.Dataset, ds.dataset(united))


def parquet_dataset(source: Source) -> ds.Dataset | None:
    """The files as a Dataset when Spark would read the same rows and types from them, else None.

    Left to Spark are paths that are not on this machine or that only its globs understand, options, partition
    columns in folder names, files whose types differ, and types or old calendars that it converts on its own.
    """
    odd_path = any(("://" in path and not path.startswith("file:")) or "{" in path for path in source.paths)
    if odd_path or set(source.options) - {"mergeSchema"}:
        return None
    try:
        found = local_files(source)
        paths = [path for group in found.values() for path in group]
        if any(
            "=" in os.path.relpath(path, folder)
            for folder, group in found.items()
            if folder
            for path in group
        ):
            return None
        return spark_dataset(paths)
    except (InputError, pa.ArrowException, OSError, ValueError):
        return None  # Spark's own message is the one that its users know


def _table(source: Source) -> Stream:
    """The rows that tables have now, read from their files wherever they are used."""
    from hoodie.read.arrow import view_batches
    from hoodie.read.table_view import TableView

    tables = [Table(TableRef.of(path, Config())) for path in source.paths]
    views = [TableView.load(table) for table in tables]
    schema = pa.unify_schemas([without_meta(view.schema) for view in views], promote_options="permissive")

    def rows(view: TableView, storage: Storage) -> Iterator[pa.RecordBatch]:
        for batch in view_batches(view, storage, meta=False):
            yield from widened(pa.Table.from_batches([batch]), schema).to_batches()

    parts = (partial(rows, view, table.storage) for view, table in zip(views, tables, strict=True))
    return Stream(schema, tuple(parts))
