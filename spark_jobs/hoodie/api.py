"""Python API: write a DataFrame or Arrow rows, query a table as either.

The engine follows from what is passed in: a Spark DataFrame (classic or Connect) is written by Spark,
Arrow rows by the local engine.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie.engine import Engine
from hoodie.errors import InputError
from hoodie.progress import ProgressCallback, silent
from hoodie.write.operation import Operation, WriteRequest, WriteResult, partition_names

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.services.archive.run import ArchiveResult
    from hoodie.services.clean.run import CleanResult
    from hoodie.services.clustering.run import ClusteringResult
    from hoodie.services.compaction.run import CompactionResult
    from hoodie.services.planner.plan import ServicesPlan
    from hoodie.services.planner.run import ServicesResult
    from hoodie.services.restore.run import RestoreResult
    from hoodie.services.rollback.run import CancelResult, RollbackResult
    from hoodie.services.savepoint import SavepointResult


def write_table(
    rows: Any,
    path: str,
    *,
    spark: Any = None,
    operation: str | Operation = Operation.UPSERT,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> WriteResult:
    """Write `rows` (Spark DataFrame, pa.Table, pa.RecordBatch, RecordBatchReader or pyarrow Dataset).

    With `spark`, a Dataset of Parquet files is read and written by that session's executors, which is faster
    than a DataFrame of the same files: no row passes through the JVM.
    operation: `upsert`, `insert`, `bulk_insert`; `delete`, whose rows need the columns of record key and
    partition path only, and whose keys may be missing in the table; `insert_overwrite`, which replaces the
    partitions that there are rows for, and `insert_overwrite_table`, which replaces all of the table: without
    rows the one changes nothing, the other empties the table.
    A text `airflow.token` in the extra metadata makes the write idempotent: where a commit has that token
    nothing is written, and that commit is the result, unless `airflow.fingerprint` differs from its, or
    `force`. With `dry_run` nothing is written, and the result tells what would be, by partition. Returns
    when the commit is visible. Raises HoodieError; nothing is visible then.
    """
    from hoodie.pipeline import write

    engine, frame = _engine(rows, spark)
    asked = _operation(operation)
    if asked is Operation.DELETE_PARTITION:
        raise InputError("delete_partition takes partition paths, not rows; call hoodie.delete_partitions")
    request = WriteRequest(path, asked, options or {}, extra_metadata or {}, force, dry_run)
    return write(engine, frame, request, progress or silent)


def delete_partitions(
    path: str,
    partitions: str | Sequence[str] = (),
    *,
    missing_ok: bool = False,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> WriteResult:
    """Delete whole partitions, without reading a row; needs no Spark.

    `partitions` are paths as in the table, such as 2024-01-31 or country=de; `*` stands for any text. One
    that has no rows in the table is an InputError that names the nearest ones, or, with `missing_ok`, a
    warning. The rows are gone at once, their files when the cleaner takes them. Token, `force` and `dry_run`
    as in `write_table`.
    """
    from hoodie.engine.local import LocalEngine
    from hoodie.pipeline import write

    request = WriteRequest(
        path,
        Operation.DELETE_PARTITION,
        options or {},
        extra_metadata or {},
        force,
        dry_run,
        partition_names(partitions),
        missing_ok,
    )
    return write(LocalEngine(), None, request, progress or silent)


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
    if spark is None:
        return read_batches(
            path,
            query=query,
            begin=begin,
            end=end,
            as_of=as_of,
            columns=columns,
            where=where,
            meta=meta,
            options=options,
        ).read_all()
    from hoodie.engine.spark import to_spark_schema
    from hoodie.read.query import Query
    from hoodie.read.spark import read_frame

    return read_frame(
        spark,
        path,
        to_spark_schema,
        query=Query.of(query, begin, end, as_of),
        columns=columns,
        where=where,
        meta=meta,
        options=options or {},
    )


def read_batches(
    path: str,
    *,
    query: str | None = None,
    begin: str | None = None,
    end: str | None = None,
    as_of: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    meta: bool = True,
    options: Mapping[str, Any] | None = None,
) -> pa.RecordBatchReader:
    """The rows of `read_table`, in its order, while they are read: for tables larger than the memory.

    Which files are read is decided now; a writer's commit after it changes nothing, a cleaner may take the
    files of a reading that lasts longer than they are retained. Memory: for each core, and one more, a file
    slice's merge (hoodie.memory.merge.max.size) and 32 MiB of rows.
    """
    from hoodie.read.arrow import read_batches as read_arrow
    from hoodie.read.query import Query

    asked = Query.of(query, begin, end, as_of)
    return read_arrow(path, query=asked, columns=columns, where=where, meta=meta, options=options or {})


def compact_table(
    path: str,
    *,
    mode: str = "run",
    instant: str | None = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    spark: Any = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> CompactionResult:
    """Compact a merge-on-read table, on `spark` or on the local engine.

    mode: `schedule` puts a plan on the timeline if one is due; `execute` runs the pending plans, oldest
    first, or that of `instant`; `run` does both. With `dry_run` the result tells what would be merged, and
    nothing is written. Nothing to do is a result that says why. Writers may go on while a plan is executed,
    not while one is scheduled. Raises HoodieError; what was completed before stays.
    """
    from hoodie.services.compaction.run import compact

    engine = _service_engine(spark)
    return compact(engine, path, mode, instant, options or {}, progress or silent, extra_metadata, dry_run)


def cluster_table(
    path: str,
    *,
    mode: str = "run",
    instant: str | None = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    spark: Any = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> ClusteringResult:
    """Rewrite small files of a table into larger ones, sorted as the settings say, on `spark` or locally.

    mode: `schedule` puts a plan on the timeline if there is something to do; `execute` runs the pending
    plans, ours and Apache Hudi's, oldest first, or that of `instant`; `run` does both. With `dry_run` the
    result tells what would be rewritten, and nothing is written. Nothing to do is a result that says why.
    While a plan is pending writers may add rows, and change those of other files; none may be at work while
    one is scheduled. Raises HoodieError; what was completed before stays.
    """
    from hoodie.services.clustering.run import cluster

    engine = _service_engine(spark)
    return cluster(engine, path, mode, instant, options or {}, progress or silent, extra_metadata, dry_run)


def clean_table(
    path: str,
    *,
    mode: str = "run",
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> CleanResult:
    """Delete file slices that are older than what the cleaner's settings keep; needs no Spark.

    mode: `schedule` puts a plan on the timeline if one is due; `execute` carries out the pending plans, ours
    and Apache Hudi's, oldest first; `run` does both. With `dry_run` the result holds the plan, and nothing is
    written or deleted. Nothing to do is a result that says why. Raises HoodieError; what was completed before
    stays.
    """
    from hoodie.services.clean.run import clean

    return clean(path, mode, options or {}, dry_run, progress or silent)


def archive_table(
    path: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> ArchiveResult:
    """Move old instants from the active into the archived timeline; needs no Spark.

    With `dry_run` the result tells what would go, and nothing is written or deleted. Nothing to do is a
    result that says why, and what holds instants back. Raises HoodieError, ConflictError while a writer is
    at work.
    """
    from hoodie.services.archive.run import archive

    return archive(path, options or {}, dry_run, progress or silent)


def rollback_table(
    path: str,
    instant: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RollbackResult:
    """Roll one instant back; needs no Spark.

    A failed write; an attempt at a compaction, whose plan stays; a pending clustering or log compaction,
    whose plan goes, too; or the newest completed commit, unless a savepoint or a later plan needs it. With
    `dry_run` the result tells what would go, and nothing is changed. One that was rolled back before is a
    result that says so. Raises HoodieError, ConflictError while somebody is at work.
    """
    from hoodie.services.rollback.run import rollback_instant

    return rollback_instant(path, instant, options or {}, dry_run, progress or silent)


def cancel_plan(
    path: str,
    instant: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> CancelResult:
    """Take a pending compaction, log compaction or clustering off the timeline; needs no Spark.

    What a failed attempt at it wrote goes, too, and writers may change its file groups again. With `dry_run`
    nothing is changed. One that was cancelled before is a result that says so. Raises HoodieError: TableError
    for a compaction that rows were written on top of, which has to be carried out; ConflictError while
    somebody executes the plan, or writes.
    """
    from hoodie.services.rollback.run import cancel_plan as cancel

    return cancel(path, instant, options or {}, dry_run, progress or silent)


def savepoint_table(
    path: str,
    instant: str | None = None,
    *,
    user: str = "",
    comments: str = "",
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> SavepointResult:
    """Keep the files of a completed commit, the newest by default, from the cleaner; needs no Spark.

    The table can go back to it with `restore_table`. Writers may go on. With `dry_run` nothing is written. A
    savepoint that is there already is a result that says so. Raises HoodieError.
    """
    from hoodie.services.savepoint import create_savepoint

    return create_savepoint(path, instant, user, comments, options or {}, dry_run, progress or silent)


def delete_savepoint(
    path: str,
    instant: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> SavepointResult:
    """Leave the files of a savepoint to the cleaner again. Without one the result says so."""
    from hoodie.services.savepoint import delete_savepoint

    return delete_savepoint(path, instant, options or {}, dry_run, progress or silent)


def restore_table(
    path: str,
    instant: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> RestoreResult:
    """Take the table back to a savepoint, or another commit whose files are still there; needs no Spark.

    Every later write, compaction and clustering is rolled back, newest first, pending ones included. Nobody
    else may work on the table meanwhile. With `dry_run` the result tells what would go, and nothing is
    changed. A restore that was killed is finished by the next call. Raises HoodieError.
    """
    from hoodie.services.restore.run import restore

    return restore(path, instant, options or {}, dry_run, progress or silent)


def plan_services(
    path: str, *, only: Sequence[str] | None = None, options: Mapping[str, Any] | None = None
) -> ServicesPlan:
    """Which services a table needs now, what each would do and why, or why nothing; reads only.

    The services are those of hoodie.services.planner.registry, in the order in which they run; `only` names
    some of them. Pending plans that nobody works on any more are told with the service that finishes them.
    Raises HoodieError; what a single service fails at is told in its place.
    """
    from hoodie.services.planner.plan import plan

    return plan(path, options or {}, only)


def run_services(
    path: str,
    *,
    only: Sequence[str] | None = None,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    spark: Any = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> ServicesResult:
    """Roll back what has failed, finish what is stuck, and run every service that is due, in that order.

    `spark` is a session, or a function that gives one, which is called once, when there is work for it;
    without it the local engine does the work. A service that fails does not keep the next ones from running:
    its error is in the result, whose status is `failed` then. Raises HoodieError for what concerns all
    services.
    """
    from hoodie.services.planner.run import run

    @functools.cache
    def engine() -> Engine:
        return _service_engine(spark() if callable(spark) else spark)

    return run(path, options or {}, only, dry_run, engine, progress or silent, extra_metadata)


def _service_engine(spark: Any) -> Engine:
    if spark is not None:
        from hoodie.engine.spark import SparkEngine

        return SparkEngine(spark)
    from hoodie.engine.local import LocalEngine

    return LocalEngine()


def instants(path: str, *, archived: bool = False) -> list[dict[str, Any]]:
    """Instants, oldest first: time, action, state, what commits wrote, and of which instants a rollback, a
    restore or a savepoint is. Raises TableError.

    Those of the active timeline, or, with `archived`, those that were moved out of it.
    """
    from hoodie.table.handle import Table
    from hoodie.table.instants import active_instants, archived_instants

    return (archived_instants if archived else active_instants)(Table.open(path))


def file_groups(path: str, *, options: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """File groups with their committed base files, newest first. Raises TableError for no table of ours."""
    from hoodie.config.key import Config
    from hoodie.table.handle import Table
    from hoodie.table.view import TimelineView, slices

    table = Table.open(path, Config.of(options or {}))
    snapshot, listing = TimelineView.of(table.timeline, table.storage), table.listing()
    return [
        {
            "partition": partition,
            "file_id": file_id,
            "slices": [{"instant": file.instant, "name": file.name, "bytes": file.size} for file in group],
        }
        for partition in listing.partitions()
        for file_id, group in slices(snapshot, listing.files, partition).items()
    ]


def _operation(operation: str | Operation) -> Operation:
    if isinstance(operation, Operation):
        return operation
    try:
        return Operation(operation.lower().replace("-", "_"))
    except (ValueError, AttributeError):
        names = ", ".join(item.value for item in Operation)
        raise InputError(
            f"unknown operation {operation!r}; use one of {names}", operation=str(operation)
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
