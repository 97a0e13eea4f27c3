"""Queries as Spark DataFrames: files through Spark's own Parquet reader, with its filter push-down.

Slices with logs, skeletons, and files of other column names are read by Python tasks. Written against a
session that is passed in: pyspark is imported by whoever made the session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine.memory import keep_freed_memory
from hoodie.engine.packing import packed
from hoodie.errors import ConfigError
from hoodie.format.meta_fields import COMMIT_TIME
from hoodie.read import spark_predicate
from hoodie.read.file_slice import read_slice
from hoodie.read.log_merge import SliceContext
from hoodie.read.query import Query
from hoodie.read.table_view import TableView, file_schemas
from hoodie.storage import Storage, normalize, storage_for
from hoodie.table.view import BaseFile, FileSlice

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_DRIVER_LISTS = 10000
_ALONE = 1 << 30


def read_frame(
    spark: Any,
    path: str,
    to_spark_schema: Any,
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
    if where is not None:
        spark_predicate.check(where)
    storage = storage_for(normalize(path))
    view = TableView.load(path, query, Config.of(options or {}), storage, where)
    if view.from_path:
        raise ConfigError(
            f"{path} keeps {', '.join(view.from_path)} in partition paths only; read it without `spark`",
            path=path,
        )
    names = view.columns(columns, meta)
    wanted = view.referenced([*names, COMMIT_TIME] if view.span else names, where)
    frame = view_frame(spark, storage, view, wanted, to_spark_schema)
    if view.span is not None:
        frame = frame.where(view.span.predicate())
    if where is not None:
        frame = frame.where(where)
    return frame.select(*[f"`{name}`" for name in names])


def view_frame(
    spark: Any, storage: Storage, view: TableView, names: Sequence[str], to_spark_schema: Any
) -> Any:
    """DataFrame of these columns of a view; rows outside its span are not left out yet."""
    target = to_spark_schema(pa.schema([view.schema.field(name) for name in names]))
    with _listing_on_the_driver(spark):
        frames = [
            _cast(spark.read.schema(to_spark_schema(schema)).parquet(*[file.path for file in files]), target)
            for schema, files in _by_types(view, storage, names)
        ]
    if view.merged:
        frames.append(_merged(spark, view, names, target))
    return _union(frames) if frames else spark.createDataFrame([], target)


@contextlib.contextmanager
def _listing_on_the_driver(spark: Any) -> Iterator[None]:
    """Spark looks at each named file by itself; beyond 32 of them it would run a job with a task for each."""
    before = spark.conf.get(_LISTING_THRESHOLD)
    spark.conf.set(_LISTING_THRESHOLD, str(_DRIVER_LISTS))
    try:
        yield
    finally:
        spark.conf.set(_LISTING_THRESHOLD, before)


@dataclass(frozen=True)
class _MergeTask:
    """Runs on executors: numbers of groups of slices in, their rows out."""

    base_path: str
    slices: tuple[tuple[FileSlice, ...], ...]
    context: SliceContext
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_freed_memory()
        for batch in batches:
            for number in batch.column(0).to_numpy():
                for file_slice in self.slices[number]:
                    storage = storage_for(self.base_path)
                    for rows in read_slice(storage, file_slice, self.context, self.names):
                        yield from rows.to_batches()


def _merged(spark: Any, view: TableView, names: Sequence[str], target: Any) -> Any:
    """Rows of the slices that are no plain files."""
    slices = packed(view.merged, _weight)
    task = _MergeTask(view.base_path, slices, view.context, tuple(names))
    return spark.range(0, len(slices), 1, len(slices)).mapInArrow(task, target)


def _weight(item: FileSlice) -> int:
    """Bytes to read; a skeleton, whose source's size is not known here, has a task of its own."""
    return _ALONE if item.base and item.base.skeleton else item.size


def _by_types(view: TableView, storage: Any, names: Sequence[str]) -> list[tuple[pa.Schema, list[BaseFile]]]:
    """Files grouped by the types they store; a column that a file lacks reads as null in the table's type."""
    groups: list[tuple[pa.Schema, list[BaseFile]]] = []
    for file, stored in file_schemas(view, storage).items():
        fields = [stored.field(name) if name in stored.names else view.schema.field(name) for name in names]
        schema = pa.schema(fields)
        for known, files in groups:
            if known.equals(schema):
                files.append(file)
                break
        else:
            groups.append((schema, [file]))
    return groups


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
