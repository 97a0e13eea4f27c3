"""Queries as Spark DataFrames: files through Spark's own Parquet reader, with its filter push-down.

Slices with logs, skeletons, and files of other column names are read by Python tasks. Written against a
session that is passed in: pyspark is imported by the caller that made the session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine.hadoop import lacks_file_system, no_file_system, unseen
from hoodie.engine.memory import keep_freed_memory
from hoodie.engine.packing import packed
from hoodie.engine.required import loosened
from hoodie.engine.session import conf_set, to_spark_schema
from hoodie.format.meta_fields import COMMIT_TIME, PARTITION_PATH
from hoodie.read import spark_predicate
from hoodie.read.binding import Where
from hoodie.read.changes import ChangeView, asks_changes
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.read.partition_values import PathColumns
from hoodie.read.query import Query
from hoodie.read.settings import READER, Reader
from hoodie.read.spark_changes import change_frame
from hoodie.read.spark_values import value_expressions
from hoodie.read.table_view import TableView, file_schemas
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef
from hoodie.table.view import BaseFile, FileSlice

#: Spark looks at each named file by itself; beyond 32 of them it would run a job with a task for each
_LIST_ON_DRIVER = {"spark.sql.sources.parallelPartitionDiscovery.threshold": "10000"}
_ALONE = 1 << 30
_OTHERWISE = 'read with reader="arrow" (hoodie.read.spark.reader=ARROW), which needs no jars'
#: before the number of a column that is not read
_FAILS = "_hoodie_not_read_"
#: of Hadoop's globs, which Spark's sources take paths for; a backslash escapes them
_PATTERN_CHARACTERS = re.compile(r"([\\\[\]{}*?])")


def read_frame(
    spark: Any,
    path: str,
    *,
    query: Query | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """DataFrame of the answer; `where` is one Spark SQL predicate (`spark_predicate` says what it may not
    have), applied before columns are chosen.

    Which files are read is decided now; that logs can be merged shows when the DataFrame is used.
    """
    predicate = None if where is None else spark_predicate.parsed(where, spark)
    config = Config.of(options or {})
    table = Table(TableRef.of(path, config))
    if asks_changes(query, config):
        changes = ChangeView.load(table, query or Query(), config)
        names, frame = changes.columns(columns), change_frame(spark, changes)
        return (frame if where is None else frame.where(where)).select(*names)
    view = TableView.load(table, query, config, predicate)
    names = view.columns(columns, meta)
    wanted = view.referenced([*names, *_computed_from(view, names, predicate)], predicate)
    frame = view_frame(spark, table.storage, view, wanted, reader=config[READER])
    if view.span is not None:
        frame = frame.where(view.span.predicate())
    if where is not None:
        frame = frame.where(where)
    return frame.select(*[f"`{name}`" for name in names])


def view_frame(
    spark: Any,
    storage: Storage,
    view: TableView,
    names: Sequence[str],
    unread: Mapping[str, str] | None = None,
    reader: Reader = Reader.AUTO,
) -> Any:
    """DataFrame of these columns of a view; rows outside its span are not left out yet.

    Spark itself reads those columns of base files that a query needs, where it has their file system; Python
    tasks read what lies elsewhere or is merged: they convert all columns but `unread`, which has the error
    for a row where one is needed.
    """
    target = to_spark_schema(loosened(pa.schema([view.schema.field(name) for name in names])))
    merged: Sequence[FileSlice] = view.merged
    if (frames := _plain(spark, storage, view, names, target, reader)) is None:
        frames, merged = [], view.slices
    if merged:
        frames.append(_merged(spark, view, merged, names, target, unread or {}))
    return _union(frames) if frames else spark.createDataFrame([], target)


def _plain(
    spark: Any, storage: Storage, view: TableView, names: Sequence[str], target: Any, reader: Reader
) -> list[Any] | None:
    """DataFrames of the files that Spark reads itself; None where it has no file system for them.

    Raises ConfigError where it was to read them nevertheless.
    """
    if not storage.local and (reader is Reader.ARROW or len(view.merged) == len(view.slices)):
        return None
    frames = []
    with conf_set(spark, _LIST_ON_DRIVER if storage.local else {}):
        for schema, files, partitions in _by_types(view, storage, names):
            paths = [spark_path(storage, file.path) for file in files]
            try:
                stored = spark.read.schema(to_spark_schema(schema)).parquet(*paths)
                frames.append(_with_values(_cast(stored, target), view.path_columns, partitions))
            except Exception as error:
                if storage.local:
                    raise
                if not lacks_file_system(error):
                    raise unseen(paths[0], error, _OTHERWISE) from error
                if reader is Reader.SPARK:
                    raise no_file_system(paths[0], _OTHERWISE) from None
                return None
    return frames


def spark_path(storage: Storage, path: str) -> str:
    """A path as Spark's sources take it for itself, and not for a pattern."""
    return _PATTERN_CHARACTERS.sub(r"\\\1", storage.spark_path(path) or path)


@dataclass(frozen=True)
class _MergeTask:
    """Runs on executors: numbers of groups of slices in, their rows out."""

    table: TableRef
    slices: tuple[tuple[FileSlice, ...], ...]
    context: SliceContext
    names: tuple[str, ...]
    path_columns: PathColumns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        storage = self.table.storage()
        schema = pa.schema([self.context.schema.field(name) for name in self.names])
        for batch in batches:
            for number in batch.column(0).to_numpy():
                for file_slice in self.slices[number]:
                    columns, place = self.path_columns, file_slice.partition
                    for rows in read_slice(
                        storage, file_slice, self.context, columns.stored(place, self.names)
                    ):
                        yield from columns.put(rows, place, schema).to_batches()


def _merged(
    spark: Any,
    view: TableView,
    merged: Sequence[FileSlice],
    names: Sequence[str],
    target: Any,
    unread: Mapping[str, str],
) -> Any:
    """Rows of slices that Python tasks read."""
    slices = packed(merged, slice_weight)
    read = [name for name in names if name not in unread] or list(names[:1])
    task = _MergeTask(view.ref, slices, view.context, tuple(read), view.path_columns)
    kinds = to_spark_schema(loosened(pa.schema([view.schema.field(name) for name in read])))
    rows = spark.range(0, len(slices), 1, len(slices)).mapInArrow(task, kinds)
    if len(read) == len(names):
        return rows
    failing = [f"raise_error('{unread.get(name, '')}') AS `{_FAILS}{at}`" for at, name in enumerate(names)]
    rows, there = rows.selectExpr("*", *failing), frozenset(read)
    return rows.select(
        *[
            rows[f"`{field.name}`"]
            if field.name in there
            else rows[f"{_FAILS}{at}"].cast(field.dataType).alias(field.name)
            for at, field in enumerate(target)
        ]
    )


def slice_weight(item: FileSlice) -> int:
    """Bytes to read; a skeleton, whose source's size is not known here, has a task of its own."""
    return _ALONE if item.base and item.base.skeleton else item.size


def _computed_from(view: TableView, names: Sequence[str], where: Where | None) -> list[str]:
    """Columns that an answer is computed from, in addition to those that it has."""
    found = [COMMIT_TIME] if view.span else []
    if any(name in view.path_columns.types for name in view.referenced(names, where)):
        found += [name for name in (PARTITION_PATH,) if name in view.schema.names]
    return found


def _by_types(
    view: TableView, storage: Any, names: Sequence[str]
) -> list[tuple[pa.Schema, list[BaseFile], list[str]]]:
    """Files grouped by the types they store, with their partitions; a column that a file lacks reads as null
    in the table's type. Where rows do not say their partition, each is a group of its own.
    """
    apart = bool(view.path_columns.types) and PARTITION_PATH not in names
    place = {item.base: item.partition for item in view.slices if item.base is not None}
    groups: list[tuple[pa.Schema, list[BaseFile], list[str]]] = []
    for file, stored in file_schemas(view, storage).items():
        fields = [stored.field(name) if name in stored.names else view.schema.field(name) for name in names]
        schema = pa.schema(fields)
        for known, files, partitions in groups:
            if known.equals(schema) and (not apart or partitions == [place[file]]):
                files.append(file)
                if partitions[-1] != place[file]:
                    partitions.append(place[file])
                break
        else:
            groups.append((schema, [file], [place[file]]))
    return groups


def _with_values(frame: Any, path_columns: PathColumns, partitions: Sequence[str]) -> Any:
    """Rows of these partitions with the values that their paths contain."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    computed = value_expressions(path_columns, frozenset(partitions), types)
    if not computed:
        return frame
    columns = [f"`{name}`" if name not in computed else f"{computed[name]} AS `{name}`" for name in types]
    return frame.selectExpr(*columns)


def _cast(frame: Any, target: Any) -> Any:
    if frame.schema == target:
        return frame
    return frame.select(
        *[frame[f"`{field.name}`"].cast(field.dataType).alias(field.name) for field in target]
    )


def _union(frames: list[Any]) -> Any:
    out = frames[0]
    for frame in frames[1:]:
        out = out.unionByName(frame)
    return out
