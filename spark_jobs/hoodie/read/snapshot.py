"""Snapshot queries of copy-on-write tables: the latest committed base file of every live file group."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.errors import ConfigError, TableError
from hoodie.format.base_file import BaseFileReader
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import with_meta, without_meta
from hoodie.format.schema import from_avro
from hoodie.read.partition_values import partition_columns
from hoodie.storage import Storage, normalize, storage_for
from hoodie.table import properties
from hoodie.table.partition import list_partitions
from hoodie.table.properties import TableProperties, TableType
from hoodie.table.table_schema import schema_text
from hoodie.table.view import BaseFile, Snapshot, latest_base_files, log_files, storage_listing
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata


@dataclass(frozen=True)
class SnapshotView:
    """A table as of its newest commit. `schema` has the meta columns first, where the table fills them.

    `from_path` names columns that are not stored in files but in partition paths
    (`hoodie.datasource.write.drop.partition.columns`).
    """

    base_path: str
    props: TableProperties
    timeline: Timeline
    schema: pa.Schema
    files: tuple[BaseFile, ...]
    from_path: tuple[str, ...]

    @classmethod
    def load(cls, path: str, storage: Storage | None = None) -> SnapshotView:
        """Raises TableNotFound, TornProperties, UnsupportedVersion, or TableError for logs to be merged."""
        base_path = normalize(path)
        storage = storage or storage_for(base_path)
        props = properties.load(storage, base_path)
        timeline = Timeline.load(base_path, storage)
        snapshot = Snapshot.of(timeline, storage)
        listing = storage_listing(storage, base_path)
        partitions = list_partitions(storage, base_path)
        if props.table_type is TableType.MERGE_ON_READ:
            _refuse_logs(
                base_path, [log for partition in partitions for log in log_files(listing, partition)]
            )
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda partition: latest_base_files(snapshot, listing, partition), partitions)
            files = tuple(file for group in found for file in group)
        text = schema_text(timeline, storage, props)
        if text:
            schema = with_meta(from_avro(text))
        elif files:
            with BaseFileReader(storage, files[0].path) as reader:
                schema = with_meta(reader.schema)
        else:
            schema = with_meta(pa.schema([]))
        if not props.populate_meta_fields:
            schema = without_meta(schema)
        dropped = props.partition_fields if props.drop_partition_columns else ()
        absent = [pa.field(name, pa.string()) for name in dropped if name not in schema.names]
        return cls(base_path, props, timeline, pa.schema([*schema, *absent]), files, tuple(dropped))

    def columns(self, columns: Sequence[str] | None, meta: bool) -> list[str]:
        """Names to return, in the order asked for; one text is one name.

        Raises ConfigError for unknown columns, the same one twice, or none at all.
        """
        if columns is None:
            return list(self.schema.names if meta else without_meta(self.schema).names)
        if isinstance(columns, str):
            columns = [columns]
        if not columns or len(set(columns)) < len(columns):
            raise ConfigError(
                f"columns {list(columns)}: name each column once, or leave columns out for all of them"
            )
        unknown = [name for name in columns if name not in self.schema.names]
        if unknown:
            raise ConfigError(
                f"no column {', '.join(unknown)} in {self.base_path}; it has {', '.join(self.schema.names)}",
                columns=", ".join(unknown),
            )
        return list(columns)


def read_table(
    path: str, *, columns: Sequence[str] | None = None, where: str | None = None, meta: bool = True
) -> pa.Table:
    """The snapshot as an Arrow table; `where` is a SQL predicate (DuckDB evaluates it)."""
    storage = storage_for(normalize(path))
    view = SnapshotView.load(path, storage)
    names = view.columns(columns, meta)
    if where is None:
        return _concat(view, storage, names)
    return _filtered(view, storage, names, where)


def _concat(view: SnapshotView, storage: Storage, names: list[str]) -> pa.Table:
    schema = pa.schema([view.schema.field(name) for name in names])
    if not view.files:
        return schema.empty_table()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return pa.concat_tables(pool.map(lambda file: _read_file(view, storage, file, names), view.files))


def _read_file(view: SnapshotView, storage: Storage, file: BaseFile, names: list[str]) -> pa.Table:
    with BaseFileReader(storage, file.path) as reader:
        stored = set(reader.schema.names)
        rows = reader.read([name for name in names if name in stored and name not in view.from_path])
    for name, column in partition_columns(view.props, view.schema, file.partition, view.from_path).items():
        if name in names:
            values: Any = column
            rows = rows.append_column(name, pa.repeat(values, rows.num_rows))
    target = pa.schema([view.schema.field(name) for name in names])
    return read_as(rows, target)


def _filtered(view: SnapshotView, storage: Storage, names: list[str], where: str) -> pa.Table:
    import duckdb

    if names == list(view.schema.names) or not view.files:
        wanted = list(view.schema.names)
    else:
        wanted = _referenced(view, names, where)
    rows = _source(view, storage, wanted)
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    connection = duckdb.connect()
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("snapshot", rows)
        found: pa.Table = connection.sql(f"SELECT {quoted} FROM snapshot WHERE {where}").to_arrow_table()
    except duckdb.Error as error:
        raise ConfigError(
            f"--where {where!r} can't be evaluated: {str(error).splitlines()[0]}; columns are "
            f"{', '.join(view.schema.names)}",
            where=where,
        ) from None
    finally:
        connection.close()
    return read_as(found, pa.schema([view.schema.field(name) for name in names]))


def _referenced(view: SnapshotView, names: list[str], where: str) -> list[str]:
    """Columns to read: those asked for and those whose name occurs in the predicate."""
    text = where.lower()
    return [name for name in view.schema.names if name in names or name.lower() in text]


def _source(view: SnapshotView, storage: Storage, names: list[str]) -> Any:
    """A pyarrow dataset, into which the predicate is pushed, when the files' types are the table's."""
    import pyarrow.dataset as ds

    target = pa.schema([view.schema.field(name) for name in names])
    if view.files and not view.from_path and not any(True for _ in _changed(view, storage)):
        return ds.dataset([file.path for file in view.files], schema=target, format="parquet")
    return _concat(view, storage, names)


def _changed(view: SnapshotView, storage: Storage) -> Iterator[BaseFile]:
    """Files with a column of another type than the table's."""
    for file, schema in file_schemas(view, storage).items():
        for field in schema:
            index = view.schema.get_field_index(field.name)
            if index >= 0 and not view.schema.field(index).type.equals(field.type):
                yield file
                break


def file_schemas(view: SnapshotView, storage: Storage) -> Mapping[BaseFile, pa.Schema]:
    """Schema of each file's data columns: its commit's, or its footer's when the commit is archived."""
    by_instant: dict[str, pa.Schema] = {}
    for instant in view.timeline.commits():
        text = CommitMetadata.parse(view.timeline.read(instant, storage)).schema_text()
        if text:
            by_instant[instant.time] = without_meta(from_avro(text))
    out: dict[BaseFile, pa.Schema] = {}
    for file in view.files:
        if file.instant in by_instant:
            out[file] = by_instant[file.instant]
            continue
        with BaseFileReader(storage, file.path) as reader:
            out[file] = without_meta(reader.schema)
    return out


def _refuse_logs(path: str, logs: Sequence[object]) -> None:
    if logs:
        raise TableError(
            f"{path} is a merge-on-read table with {len(logs)} log files; reading those is not supported "
            "yet. Compact it with Apache Hudi first",
            path=path,
        )
