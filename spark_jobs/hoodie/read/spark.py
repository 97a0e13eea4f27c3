"""Snapshot as a Spark DataFrame: Spark's own Parquet reader does the work, with its filter push-down.

Written against a session that is passed in: pyspark is imported by whoever made the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hoodie.errors import ConfigError
from hoodie.read.snapshot import SnapshotView, file_schemas
from hoodie.storage import normalize, storage_for
from hoodie.table.view import BaseFile


def read_frame(
    spark: Any,
    path: str,
    to_spark_schema: Any,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
) -> Any:
    """DataFrame of the snapshot; `where` is a Spark SQL predicate, applied before columns are chosen."""
    storage = storage_for(normalize(path))
    view = SnapshotView.load(path, storage)
    if view.from_path:
        raise ConfigError(
            f"{path} keeps {', '.join(view.from_path)} in partition paths only; read it without `spark`",
            path=path,
        )
    names = view.columns(columns, meta)
    target = to_spark_schema(view.schema)
    if not view.files:
        frame = spark.createDataFrame([], target)
    else:
        frame = _union(
            [
                _cast(
                    spark.read.schema(to_spark_schema(schema)).parquet(*[file.path for file in files]), target
                )
                for schema, files in _by_types(view, storage)
            ]
        )
    if where is not None:
        frame = frame.where(where)
    return frame.select(*[f"`{name}`" for name in names])


def _by_types(view: SnapshotView, storage: Any) -> list[tuple[pa.Schema, list[BaseFile]]]:
    """Files grouped by the types they store; a column that a file lacks reads as null in the table's type."""
    groups: list[tuple[pa.Schema, list[BaseFile]]] = []
    for file, stored in file_schemas(view, storage).items():
        fields = [stored.field(field.name) if field.name in stored.names else field for field in view.schema]
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
