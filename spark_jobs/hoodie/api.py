"""Python API: write a DataFrame or Arrow rows, read a snapshot as either.

The engine follows from what is passed in: a Spark DataFrame (classic or Connect) is written by Spark,
Arrow rows by the local engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie.engine import Engine
from hoodie.errors import InputError
from hoodie.storage import normalize, storage_for
from hoodie.write.operation import Operation, WriteRequest, WriteResult

if TYPE_CHECKING:
    from hoodie.pipeline import Progress


def write_table(
    rows: Any,
    path: str,
    *,
    spark: Any = None,
    operation: str | Operation = Operation.UPSERT,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> WriteResult:
    """Write `rows` (Spark DataFrame, pa.Table, pa.RecordBatch, RecordBatchReader or pyarrow Dataset).

    With `spark`, a Dataset of Parquet files is read and written by that session's executors, which is faster
    than a DataFrame of the same files: no row passes through the JVM.
    Returns when the commit is visible. Raises HoodieError; nothing is visible then.
    """
    from hoodie.pipeline import write

    engine, frame = _engine(rows, spark)
    request = WriteRequest(path, _operation(operation), options or {}, extra_metadata or {})
    return write(engine, frame, request, progress or (lambda step, text: None))


def read_table(
    path: str,
    *,
    spark: Any = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
) -> Any:
    """Snapshot of a table: a DataFrame of `spark`, or a pa.Table without it."""
    if spark is None:
        from hoodie.read.snapshot import read_table as read_arrow

        return read_arrow(path, columns=columns, where=where, meta=meta)
    from hoodie.engine.spark import to_spark_schema
    from hoodie.read.spark import read_frame

    return read_frame(spark, path, to_spark_schema, columns=columns, where=where, meta=meta)


def instants(path: str) -> list[dict[str, Any]]:
    """Instants, oldest first: time, action, state, and what commits wrote. Raises TableError."""
    from hoodie.table import properties
    from hoodie.timeline.active import Timeline
    from hoodie.timeline.commit import CommitMetadata
    from hoodie.timeline.instant import COMMIT_ACTIONS

    base_path = normalize(path)
    storage = storage_for(base_path)
    properties.load(storage, base_path)
    loaded = Timeline.load(base_path, storage)
    out: list[dict[str, Any]] = []
    for instant in loaded:
        entry: dict[str, Any] = {
            "instant": instant.time,
            "action": instant.action.value,
            "state": instant.state.name.lower(),
            "changed_ms": loaded.mtimes.get(instant.file_name),
        }
        if instant.completed and instant.action in COMMIT_ACTIONS:
            commit = CommitMetadata.parse(loaded.read(instant, storage))
            entry |= {
                "operation": commit.operation_type,
                "partitions": commit.partitions,
                "inserts": commit.num_inserts,
                "updates": commit.num_updates,
                "deletes": commit.num_deletes,
                "files": commit.num_files,
                "bytes": commit.bytes_written,
            }
        out.append(entry)
    return out


def file_groups(path: str) -> list[dict[str, Any]]:
    """File groups with their committed base files, newest first. Raises TableError for no table of ours."""
    from hoodie.table import properties
    from hoodie.table.partition import list_partitions
    from hoodie.table.view import Snapshot, slices, storage_listing
    from hoodie.timeline.active import Timeline

    base_path = normalize(path)
    storage = storage_for(base_path)
    properties.load(storage, base_path)
    snapshot = Snapshot.of(Timeline.load(base_path, storage), storage)
    listing = storage_listing(storage, base_path)
    return [
        {
            "partition": partition,
            "file_id": file_id,
            "slices": [{"instant": file.instant, "name": file.name, "bytes": file.size} for file in group],
        }
        for partition in list_partitions(storage, base_path)
        for file_id, group in slices(snapshot, listing, partition).items()
    ]


def _operation(operation: str | Operation) -> Operation:
    if isinstance(operation, Operation):
        return operation
    try:
        return Operation(operation.lower().replace("-", "_"))
    except ValueError:
        names = ", ".join(item.value for item in Operation)
        raise InputError(
            f"unknown operation {operation!r}; use one of {names}", operation=operation
        ) from None


def _engine(rows: Any, spark: Any) -> tuple[Engine, Any]:
    if hasattr(rows, "sparkSession"):
        from hoodie.engine.spark import SparkEngine

        return SparkEngine(rows.sparkSession), rows
    import pyarrow as pa
    import pyarrow.dataset as ds

    from hoodie.engine.files import FileFrame
    from hoodie.engine.local import LocalEngine

    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if not isinstance(rows, (pa.Table, pa.RecordBatchReader, ds.Dataset)):
        raise InputError(
            f"can't write a {type(rows).__name__}; pass a Spark DataFrame, a pyarrow Table, "
            "RecordBatchReader or Dataset",
            type=type(rows).__name__,
        )
    files = FileFrame.of(rows) if isinstance(rows, ds.FileSystemDataset | ds.UnionDataset) else None
    if spark is not None:
        from hoodie.engine.spark import SparkEngine

        if files is None:
            raise InputError(
                "with spark, pass a DataFrame or an unfiltered pyarrow Dataset of Parquet files, not a "
                f"{type(rows).__name__}",
                type=type(rows).__name__,
            )
        return SparkEngine(spark), files
    engine = LocalEngine()
    return engine, files or engine.frame(rows)
