"""Python API: write a DataFrame or Arrow rows, query a table as either.

The engine follows from what is passed in: a Spark DataFrame (classic or Connect) is written by Spark,
Arrow rows by the local engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie.engine import Engine
from hoodie.errors import InputError
from hoodie.storage import Storage, normalize, storage_for
from hoodie.write.operation import Operation, WriteRequest, WriteResult

if TYPE_CHECKING:
    from hoodie.pipeline import Progress
    from hoodie.services.archive.run import ArchiveResult
    from hoodie.services.clean.run import CleanResult
    from hoodie.services.compaction.run import CompactionResult
    from hoodie.table.properties import TableProperties
    from hoodie.timeline.archived import ArchivedEntry
    from hoodie.timeline.commit import CommitMetadata
    from hoodie.timeline.instant import Instant


def write_table(
    rows: Any,
    path: str,
    *,
    spark: Any = None,
    operation: str | Operation = Operation.UPSERT,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> WriteResult:
    """Write `rows` (Spark DataFrame, pa.Table, pa.RecordBatch, RecordBatchReader or pyarrow Dataset).

    With `spark`, a Dataset of Parquet files is read and written by that session's executors, which is faster
    than a DataFrame of the same files: no row passes through the JVM.
    A text `airflow.token` in the extra metadata makes the write idempotent: where a commit has that token
    nothing is written, and that commit is the result, unless `airflow.fingerprint` differs from its, or
    `force`. Returns when the commit is visible. Raises HoodieError; nothing is visible then.
    """
    from hoodie.pipeline import write

    engine, frame = _engine(rows, spark)
    request = WriteRequest(path, _operation(operation), options or {}, extra_metadata or {}, force)
    return write(engine, frame, request, progress or (lambda step, text: None))


def read_table(
    path: str,
    *,
    spark: Any = None,
    query: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    as_of: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Rows of a table: a DataFrame of `spark`, or a pa.Table without it.

    `query` is snapshot (the default), read_optimized (base files only), incremental (rows written after
    `begin`, as of `end`, which it includes; `begin` may be "earliest", `end` is the newest commit by default)
    or time_travel (the table `as_of` an instant). The options tell, where it is left out. Points in time are
    instants, or dates and times as yyyy-MM-dd HH:mm:ss in the time zone of the table's timeline.
    `options` are settings for reading, such as hoodie.memory.merge.max.size.
    """
    from hoodie.read.query import Query

    asked = Query.of(query, begin, end, as_of)
    if spark is None:
        from hoodie.read.arrow import read_table as read_arrow

        return read_arrow(path, query=asked, columns=columns, where=where, meta=meta, options=_known(options))
    from hoodie.engine.spark import to_spark_schema
    from hoodie.read.spark import read_frame

    return read_frame(
        spark,
        path,
        to_spark_schema,
        query=asked,
        columns=columns,
        where=where,
        meta=meta,
        options=_known(options),
    )


def compact_table(
    path: str,
    *,
    mode: str = "run",
    instant: str | None = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    spark: Any = None,
    progress: Progress | None = None,
) -> CompactionResult:
    """Compact a merge-on-read table, on `spark` or on the local engine.

    mode: `schedule` puts a plan on the timeline if one is due; `execute` runs the pending plans, oldest
    first, or that of `instant`; `run` does both. Nothing to do is a result that says why. Writers may go on
    while a plan is executed, not while one is scheduled. Raises HoodieError; what was completed before stays.
    """
    from hoodie.services.compaction.run import compact

    engine = _service_engine(spark)
    return compact(engine, path, mode, instant, _known(options), progress or _silent, extra_metadata)


def clean_table(
    path: str,
    *,
    mode: str = "run",
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> CleanResult:
    """Delete file slices that are older than what the cleaner's settings keep; needs no Spark.

    mode: `schedule` puts a plan on the timeline if one is due; `execute` carries out the pending plans, ours
    and Apache Hudi's, oldest first; `run` does both. With `dry_run` the result holds the plan, and nothing is
    written or deleted. Nothing to do is a result that says why. Raises HoodieError; what was completed before
    stays.
    """
    from hoodie.services.clean.run import clean

    return clean(path, mode, _known(options), dry_run, progress or _silent)


def archive_table(
    path: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ArchiveResult:
    """Move old instants from the active into the archived timeline; needs no Spark.

    With `dry_run` the result tells what would go, and nothing is written or deleted. Nothing to do is a
    result that says why, and what holds instants back. Raises HoodieError, ConflictError while a writer is
    at work.
    """
    from hoodie.services.archive.run import archive

    return archive(path, _known(options), dry_run, progress or _silent)


def _known(options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The options; whatever was imported before, the same names are known."""
    if options:
        from hoodie.config import pages

        pages.settings()
    return options or {}


def _silent(step: str, text: str) -> None:
    pass


def _service_engine(spark: Any) -> Engine:
    if spark is not None:
        from hoodie.engine.spark import SparkEngine

        return SparkEngine(spark)
    from hoodie.engine.local import LocalEngine

    return LocalEngine()


def instants(path: str, *, archived: bool = False) -> list[dict[str, Any]]:
    """Instants, oldest first: time, action, state, and what commits wrote. Raises TableError.

    Those of the active timeline, or, with `archived`, those that were moved out of it.
    """
    from hoodie.table import properties
    from hoodie.timeline.active import Timeline
    from hoodie.timeline.commit import CommitMetadata
    from hoodie.timeline.instant import COMMIT_ACTIONS

    base_path = normalize(path)
    storage = storage_for(base_path)
    props = properties.load(storage, base_path)
    if archived:
        return _archived_instants(storage, base_path, props)
    loaded = Timeline.load(base_path, storage)
    out: list[dict[str, Any]] = []
    for instant in loaded:
        commit = None
        if instant.completed and instant.action in COMMIT_ACTIONS:
            commit = CommitMetadata.parse(loaded.read(instant, storage))
        out.append(_described(instant, loaded.mtimes.get(instant.file_name), commit))
    return out


def _archived_instants(storage: Storage, base_path: str, props: TableProperties) -> list[dict[str, Any]]:
    from hoodie.timeline.archived import archive_folder, read_archived
    from hoodie.timeline.clock import instant_millis

    highest: dict[tuple[str, str], ArchivedEntry] = {}
    for entry in read_archived(storage, archive_folder(base_path, props.archive_folder)):
        key = (entry.instant.time, entry.instant.comparable_action.value)
        if key not in highest or highest[key].instant.state < entry.instant.state:
            highest[key] = entry
    return [
        _described(
            entry.instant,
            instant_millis(entry.changed, props.timeline_utc) if entry.changed else None,
            entry.commit if entry.instant.completed else None,
        )
        for _, entry in sorted(highest.items())
    ]


def _described(instant: Instant, changed_ms: int | None, commit: CommitMetadata | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "instant": instant.time,
        "action": instant.action.value,
        "state": instant.state.name.lower(),
        "changed_ms": changed_ms,
    }
    if commit is not None:
        entry |= {
            "operation": commit.operation_type,
            "partitions": commit.partitions,
            "inserts": commit.num_inserts,
            "updates": commit.num_updates,
            "deletes": commit.num_deletes,
            "files": commit.num_files,
            "bytes": commit.bytes_written,
        }
    return entry


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
