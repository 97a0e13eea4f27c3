"""Sources for the local engine: Parquet as a lazy dataset, large CSV and JSON files and tables as streams.

Each file of a source of text comes with the piece that reads its format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from hoodie.config.key import Config
from hoodie.engine.legacy_calendar import VERSION, check_legacy_values
from hoodie.engine.parquet_open import parquet_file, parquet_format
from hoodie.engine.spark_files import spark_dataset
from hoodie.engine.streams import Stream, widened
from hoodie.errors import ConfigError, HoodieError, StorageError
from hoodie.format.meta_fields import without_meta
from hoodie.format.parquet_guard import Footer
from hoodie.source import Format, Source, SourceFile, source_files
from hoodie.source.arrow_files import file_system
from hoodie.source.csv_file import CsvFile
from hoodie.source.folders import check_not_twice, folder_columns, folder_texts, texts_below
from hoodie.source.record_files import record_files, record_rows
from hoodie.source.text import JsonFile, TextFile, text_rows
from hoodie.source.together import union, unreadable
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef


def text_files(source: Source, known: pa.Schema | None) -> list[TextFile]:
    """The files of a CSV or JSON source. Raises InputError, ConfigError."""
    csv = source.format is Format.CSV
    if csv and known is not None and not source.flag("header", True):
        raise ConfigError(
            "a CSV source without header has no column names; add a header line", option="header"
        )
    found = source_files(source)
    folders = folder_columns(texts_below(found), known)
    kind = CsvFile if csv else JsonFile
    lacks = "without even a header" if csv else "so its columns are unknown"
    read: list[TextFile] = []
    for file in (file for files in found.values() for file in files):
        if file.size == 0:
            raise source.no_such(f"{file.path} is empty, {lacks}")
        read.append(kind(source, file.path, file.size, known, folders=folders[file.path]))
    return read


if TYPE_CHECKING:
    from hoodie.read.table_view import TableView

#: footers that are read side by side
_OPENED = 8


def read(
    source: Source, known: pa.Schema | None = None
) -> pa.Table | ds.Dataset | Stream | pa.RecordBatchReader:
    """Rows of a source, after its transform. `known` is the target table's schema, whose types CSV and JSON
    columns take.

    Raises InputError (no such source, unreadable files), ConfigError (an option this engine lacks, a
    transform that can't be evaluated).
    """
    rows = _read(source, known)
    if not source.transform:
        return rows
    from hoodie.source.transform import transformed

    return transformed(rows, source.transform)


def _read(source: Source, known: pa.Schema | None) -> pa.Table | ds.Dataset | Stream:
    source.check_no_table()
    readers: dict[Format, Callable[[], pa.Table | ds.Dataset | Stream]] = {
        Format.PARQUET: lambda: _parquet(source),
        Format.CSV: lambda: text_rows(text_files(source, known)),
        Format.JSON: lambda: text_rows(text_files(source, known)),
        Format.AVRO: lambda: record_rows(record_files(source)),
        Format.ORC: lambda: record_rows(record_files(source)),
        Format.TABLE: lambda: _table(source),
    }
    if (problem := source.local_problem()) is not None:
        raise problem
    try:
        return readers[source.format]()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise source.unreadable(error) from error


def _parquet(source: Source) -> ds.Dataset:
    groups = [_Group.of(source, folder, files) for folder, files in source_files(source).items()]
    with ThreadPoolExecutor(_OPENED) as pool:  # of an object store each is a request
        footers = list(
            pool.map(_Group.footer, *zip(*((g, place) for g in groups for place in g.places), strict=True))
        )
    for group, (name, footer) in zip((g for g in groups for _ in g.places), footers, strict=True):
        below = name[len(group.root) :] if group.root else ""
        check_not_twice(name, footer.names, folder_texts(below))
    schema = union(footers, [("the folders' names", group.in_path()) for group in groups if group.folder])
    united: Any = [group.dataset(schema) for group in groups]
    return cast(ds.Dataset, ds.dataset(united))


@dataclass(frozen=True)
class _Group:
    """Files that were found below a folder ("": none), by their paths in a file system."""

    source: Source
    files: pafs.FileSystem
    folder: str
    paths: list[str]
    #: the folder as it is called
    root: str
    #: (path, what it is called)
    places: list[tuple[str, str]]

    @classmethod
    def of(cls, source: Source, folder: str, found: Sequence[SourceFile]) -> _Group:
        opened = [file_system(source, file.path) for file in found]
        paths = [path for _, path in opened]
        places = [(path, file.path) for path, file in zip(paths, found, strict=True)]
        return cls(source, opened[0][0], folder.partition("://")[2] or folder, paths, folder, places)

    def dataset(self, schema: pa.Schema | None = None) -> ds.Dataset:
        layout: Any = {"partitioning": "hive", "partition_base_dir": self.folder} if self.folder else {}
        return ds.dataset(self.paths, schema=schema, format=parquet_format(), filesystem=self.files, **layout)

    def in_path(self) -> pa.Schema:
        """The columns in the names of folders."""
        dataset: Any = self.dataset()
        return cast(pa.Schema, dataset.partitioning.schema)

    def footer(self, place: tuple[str, str]) -> tuple[str, pa.Schema]:
        path, name = place
        with unreadable(self.source, name), self.files.open_input_file(path) as opened:
            footer = Footer(opened)
            if footer.mentions(VERSION):
                check_legacy_values(footer.metadata(), partial(parquet_file, opened))
            return name, footer.schema()


def parquet_dataset(source: Source) -> ds.Dataset | None:
    """The files as a Dataset when Spark would read the same rows and types from them, else None.

    Left to Spark are paths that this process has no storage for or does not see, or that only Spark's globs
    understand, options, partition columns in folder names, files whose types differ, and types or old
    calendars that it converts on its own. Raises InputError for files with encrypted columns.
    """
    if any("{" in path for path in source.paths) or set(source.options) - {"mergeSchema"}:
        return None
    try:
        groups = [_Group.of(source, folder, files) for folder, files in source_files(source).items()]
        if any("=" in path[len(group.folder) :] for group in groups if group.folder for path in group.paths):
            return None
    except HoodieError:
        return None  # Spark's own message is the one that its users know
    files = groups[0].files
    if any(group.files != files for group in groups):
        return None
    try:
        return spark_dataset([path for group in groups for path in group.paths], files)
    except (StorageError, pa.ArrowException, OSError, ValueError):
        return None


def _table(source: Source) -> Stream:
    """The rows that tables have now, read from their files wherever they are used."""
    from hoodie.read.arrow import view_batches
    from hoodie.read.table_view import TableView

    tables = [Table(TableRef.of(path, Config(source.storage_options))) for path in source.paths]
    views = [TableView.load(table) for table in tables]
    schema = pa.unify_schemas([without_meta(view.schema) for view in views], promote_options="permissive")

    def rows(view: TableView, storage: Storage) -> Iterator[pa.RecordBatch]:
        for batch in view_batches(view, storage, meta=False):
            yield from widened(pa.Table.from_batches([batch]), schema).to_batches()

    parts = (partial(rows, view, table.storage) for view, table in zip(views, tables, strict=True))
    return Stream(schema, tuple(parts))
