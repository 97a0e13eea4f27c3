"""Queries and change data as Spark DataFrames. Written against a session that the caller made; no pyspark
import.

- Spark's own Parquet reader reads files, with its filter push-down.
- Python tasks read slices with logs, skeletons, files of other column names, and change data, file group by
  file group.
- The values of partition columns of files that Spark reads are Spark SQL, computed from the row's
  `_hoodie_partition_path`. A path for which that differs from `PathColumns`, or which has no value, is named
  in the expression with its own value.
- Names and values are written in hexadecimal, so that the name of a partition is no SQL.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine.memory import keep_freed_memory
from hoodie.engine.packing import packed, spread
from hoodie.engine.required import loosened
from hoodie.engine.session import (
    conf_set,
    lacks_file_system,
    no_file_system,
    parallelism,
    to_spark_schema,
    unseen,
)
from hoodie.format.meta_fields import COMMIT_TIME, PARTITION_PATH
from hoodie.format.names import DEFAULT_PARTITION
from hoodie.read import spark_predicate
from hoodie.read.among import Among, SliceRows
from hoodie.read.binding import Where
from hoodie.read.change_rows import change_tables
from hoodie.read.changes import SCHEMA, Change, ChangeView, asks_changes
from hoodie.read.partition_values import PathColumns, is_moment, is_plain
from hoodie.read.query import Query
from hoodie.read.settings import READER, Reader
from hoodie.read.table_view import TableView, file_schemas
from hoodie.storage import Storage
from hoodie.table.handle import Table, TableRef
from hoodie.table.partition import partition_texts
from hoodie.table.view import BaseFile, FileSlice

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def value_expressions(
    path_columns: PathColumns, partitions: Collection[str], types: Mapping[str, str]
) -> dict[str, str]:
    """SQL of each column in `types` (names -> Spark types) that is in paths, for rows of these partitions."""
    values = {partition: path_columns.values(partition) for partition in partitions}
    out: dict[str, str] = {}
    for name, kind in types.items():
        if name not in path_columns.types:
            continue
        known = [found[name] for found in values.values() if name in found]
        if len(known) == len(values) and len(set(known)) == 1:
            out[name] = _literal(known[0], kind)
            continue
        own = [
            partition
            for partition in values
            if not _computes(path_columns, partition, name, values[partition])
        ]
        text = _text_of(path_columns, name)
        if is_moment(path_columns.types[name]):
            text = f"timestamp_micros(CAST({text} AS bigint))"
        text = f"CAST({text} AS {kind})"
        for partition in own:
            found = values[partition]
            value = _literal(found[name], kind) if name in found else _quoted(name)
            text = f"IF(`{PARTITION_PATH}` = {_literal(partition, 'string')}, {value}, {text})"
        out[name] = text
    return out


def _computes(path_columns: PathColumns, partition: str, name: str, found: Mapping[str, Any]) -> bool:
    """Does `_text_of`, cast to the column's type, give the path's value?"""
    if name not in found or (path_columns.props.url_encode and _BROKEN_ESCAPE.search(partition)):
        return False
    text = partition_texts(path_columns.props, partition)[name]
    return text is None or is_plain(path_columns.types[name])


def _text_of(path_columns: PathColumns, name: str) -> str:
    fields = path_columns.props.partition_fields
    part = f"`{PARTITION_PATH}`"
    if len(fields) > 1:
        part = f"get(split({part}, '/'), {fields.index(name)})"
    prefix = _literal(f"{name}=", "string")
    part = f"IF(startswith({part}, {prefix}), substring({part}, {len(name) + 2}), {part})"
    if path_columns.props.url_encode:
        part = f"url_decode(replace({part}, '+', '%2B'))"
    return f"nullif({part}, {_literal(DEFAULT_PARTITION, 'string')})"


def _literal(value: Any, kind: str) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"CAST(CAST(X'{text.encode().hex()}' AS string) AS {kind})"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class ChangeScan:
    """Reads changes in tasks. Picklable; `view` has none of its own."""

    view: ChangeView
    names: tuple[str, ...]

    def batches(self, changes: Sequence[Change]) -> Iterator[pa.RecordBatch]:
        """The rows of these changes, one change after the other."""
        keep_freed_memory()
        storage = self.view.ref.storage()
        for change in changes:
            for rows in change_tables(self.view, storage, change):
                yield from rows.select(list(self.names)).to_batches()


def change_scan(view: ChangeView, names: Sequence[str]) -> tuple[ChangeScan, tuple[tuple[Change, ...], ...]]:
    """What tasks need, and the changes of each."""
    return ChangeScan(replace(view, changes=()), tuple(names)), packed(view.changes, lambda each: each.size)


@dataclass(frozen=True)
class _ChangeTask:
    """Runs on executors: numbers of groups of changes in, their rows out."""

    scan: ChangeScan
    changes: tuple[tuple[Change, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy():
                yield from self.scan.batches(self.changes[number])


def change_frame(spark: Any, view: ChangeView) -> Any:
    """DataFrame of all changes of a view, in no order."""
    scan, tasks = change_scan(view, SCHEMA.names)
    schema = to_spark_schema(SCHEMA)
    if not tasks:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_ChangeTask(scan, tasks), schema)


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
    among: Among | None = None,
) -> Any:
    """DataFrame of these columns of a view; rows outside its span are not left out yet, those that are not
    `among` some are.

    Spark itself reads those columns of base files that a query needs, where it has their file system; Python
    tasks read what lies elsewhere or is merged, and rows among some: they convert all columns but `unread`,
    which has the error for a row where one is needed.
    """
    target = to_spark_schema(loosened(pa.schema([view.schema.field(name) for name in names])))
    merged: Sequence[FileSlice] = view.merged
    frames = None if among is not None else _plain(spark, storage, view, names, target, reader)
    if frames is None:
        frames, merged = [], view.slices
    if merged:
        frames.append(_merged(spark, view, merged, names, target, unread or {}, among))
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
    rows: SliceRows
    names: tuple[str, ...]
    among: Among | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        storage = self.table.storage()
        for batch in batches:
            for number in batch.column(0).to_numpy():
                for file_slice in self.slices[number]:
                    for rows in self.rows.tables(storage, file_slice, self.names, self.among):
                        yield from rows.to_batches()


def _merged(
    spark: Any,
    view: TableView,
    merged: Sequence[FileSlice],
    names: Sequence[str],
    target: Any,
    unread: Mapping[str, str],
    among: Among | None,
) -> Any:
    """Rows of slices that Python tasks read."""
    slices = spread(merged, slice_weight, parallelism(spark))
    read = [name for name in names if name not in unread] or list(names[:1])
    rows_of = SliceRows(view.context, view.path_columns)
    task = _MergeTask(view.ref, slices, rows_of, tuple(read), among)
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
