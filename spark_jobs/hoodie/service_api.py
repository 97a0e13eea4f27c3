"""Python API of the table services: on Spark where a session is passed in, else on the local engine."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hoodie.backend.choice import backend_of
from hoodie.engine import Engine
from hoodie.progress import ProgressCallback, silent
from hoodie.services.cancel.service import CancelRequest
from hoodie.services.downgrade.service import DowngradeRequest
from hoodie.services.index.service import IndexRequest
from hoodie.services.request import PlannedRequest, Request, RewriteRequest, ServicesRequest
from hoodie.services.restore.service import RestoreRequest
from hoodie.services.rollback.service import RollbackRequest
from hoodie.services.savepoint.service import SavepointRequest
from hoodie.services.sync.service import SyncRequest
from hoodie.services.upgrade.service import VersionRequest
from hoodie.timeline.time import InstantTime

if TYPE_CHECKING:
    from hoodie.callbacks.delivery import ResendResult
    from hoodie.services.archive.run import ArchiveResult
    from hoodie.services.clean.run import CleanResult
    from hoodie.services.clustering.run import ClusteringResult
    from hoodie.services.compaction.run import CompactionResult
    from hoodie.services.index.run import IndexResult
    from hoodie.services.planner.run import ServicesPlan, ServicesResult
    from hoodie.services.restore.run import RestoreResult
    from hoodie.services.rollback.run import CancelResult, RollbackResult
    from hoodie.services.savepoint.run import SavepointResult
    from hoodie.services.sync.run import SyncResult
    from hoodie.services.ttl.result import TtlResult
    from hoodie.services.upgrade.run import VersionResult


_GIVEN = ("table", "mode", "instant", "options", "extra_metadata", "dry_run", "progress")


def _rewrite(spark: Any, *given: Any) -> RewriteRequest:
    """The fields `_GIVEN` in their order; what is None is left to the request's default."""
    known = {name: value for name, value in zip(_GIVEN, given, strict=True) if value is not None}
    return RewriteRequest(**{"table": None, **known}, engine=backend_of(spark).engine)


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
    first, or that of `instant`; `run` does both. With `dry_run` the result says what would be merged, and
    nothing is written. Nothing to do is a result that says why. Writers may go on while a plan is executed,
    not while one is scheduled. Raises HoodieError; what was completed before stays.
    """
    from hoodie.services.compaction.run import compact

    return compact(_rewrite(spark, path, mode, instant, options, extra_metadata, dry_run, progress))


def log_compact_table(
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
    """Merge the logs of each file slice of a merge-on-read table of version 8 or 9 into one log, on `spark`
    or on the local engine. Parameters and errors: `compact_table`.
    """
    from hoodie.services.log_compaction.run import compact_logs

    return compact_logs(_rewrite(spark, path, mode, instant, options, extra_metadata, dry_run, progress))


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
    result says what would be rewritten, and nothing is written. Nothing to do is a result that says why.
    While a plan is pending writers may add rows, and change those of other files; none may be at work while
    one is scheduled. Raises HoodieError; what was completed before stays.
    """
    from hoodie.services.clustering.run import cluster

    return cluster(_rewrite(spark, path, mode, instant, options, extra_metadata, dry_run, progress))


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

    return clean(
        PlannedRequest(
            table=path, mode=mode, options=options or {}, dry_run=dry_run, progress=progress or silent
        )
    )


def archive_table(
    path: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> ArchiveResult:
    """Move old instants from the active into the archived timeline; needs no Spark.

    With `dry_run` the result says what would go, and nothing is written or deleted. Nothing to do is a
    result that says why, and what holds instants back. Raises HoodieError, ConflictError while a writer is
    at work.
    """
    from hoodie.services.archive.run import archive

    return archive(Request(table=path, options=options or {}, dry_run=dry_run, progress=progress or silent))


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
    `dry_run` the result says what would go, and nothing is changed. One that was rolled back before is a
    result that says so. Raises HoodieError, ConflictError while another process is at work.
    """
    from hoodie.services.rollback.run import rollback_instant

    return rollback_instant(
        RollbackRequest(
            table=path,
            instant=instant,
            options=options or {},
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


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
    another process executes the plan, or writes.
    """
    from hoodie.services.rollback.run import cancel_plan as cancel

    return cancel(
        CancelRequest(
            table=path,
            instant=instant,
            options=options or {},
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


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
    from hoodie.services.savepoint.run import savepoint

    return savepoint(
        SavepointRequest(
            table=path,
            instant=instant,
            user=user,
            comments=comments,
            options=options or {},
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


def delete_savepoint(
    path: str,
    instant: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> SavepointResult:
    """Leave the files of a savepoint to the cleaner again. Without one the result says so."""
    from hoodie.services.savepoint.run import delete_savepoint

    request = SavepointRequest(
        table=path,
        instant=instant,
        delete=True,
        options=options or {},
        dry_run=dry_run,
        progress=progress or silent,
    )
    return delete_savepoint(request, InstantTime(instant))


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
    else may work on the table meanwhile. With `dry_run` the result says what would go, and nothing is
    changed. A restore that was killed is finished by the next call. Raises HoodieError.
    """
    from hoodie.services.restore.run import restore

    return restore(
        RestoreRequest(
            table=path,
            instant=instant,
            options=options or {},
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


def expire_partitions(
    path: str,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> TtlResult:
    """Delete the partitions that are older than `hoodie.partition.ttl.strategy.days.retain`; needs no Spark.

    By one commit, as `delete_partitions` makes it; without such a partition there is none. With `dry_run` the
    result says which ones would go, and nothing is changed. Raises HoodieError.
    """
    from hoodie.expiry import expire

    return expire(Request(table=path, options=options or {}, dry_run=dry_run, progress=progress or silent))


def index_table(
    path: str,
    mode: str,
    indexes: str | Sequence[str] | None = None,
    *,
    column: str | None = None,
    using: str | None = None,
    expression: str | None = None,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> IndexResult:
    """Show, make, drop or rebuild indexes of the table's metadata table; needs no Spark.

    mode: `show` reads only; `create` makes `indexes`, with the list of files if there is none; `drop` removes
    them, with `files` the whole metadata table; `rebuild` makes them anew where they disagree with the table.
    indexes: files, column_stats, bloom_filters, record_index, of versions 8 and 9 partition_stats; None: all
    that the table has. No other process may work on the table meanwhile, and no plan may wait; queries go on.
    With `dry_run` nothing is changed.
    Raises HoodieError.
    """
    from hoodie.services.index.run import index

    return index(
        IndexRequest(
            table=path,
            mode=mode,
            indexes=indexes if indexes is None or isinstance(indexes, str) else ",".join(indexes),
            column=column,
            using=using,
            expression=expression,
            options=options or {},
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


def sync_table(
    path: str,
    metastore: str | None = None,
    database: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> SyncResult:
    """Enter a table in Hive's metastore or AWS Glue, or mend its entries; needs no Spark, changes no table.

    metastore: its address, `thrift://host:9083`, or `glue`. database: of the entries. Both, and all else, can
    be said by settings (docs/hive-sync.md). With `dry_run` the result says what would change. Nothing to do
    is a result that says why. Raises HoodieError: StorageError where the metastore does not answer in time,
    TableMismatch for an entry that is of another table, SchemaError for a column that can't change so.
    """
    from hoodie.services.sync.run import sync_service

    return sync_service(
        SyncRequest(
            table=path,
            metastore=metastore,
            database=database,
            options=options or {},
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


def resend_callbacks(
    path: str, *, options: Mapping[str, Any] | None = None, dry_run: bool = False
) -> ResendResult:
    """Deliver the messages of commits that a commit callback could not deliver, oldest first.

    `options` name the callback, as those of a write do (`hoodie.write.commit.callback.*`). The first message
    that fails ends it, and the result says why. With `dry_run` the result says what would be sent. Raises
    HoodieError for wrong settings, and for what is no table.
    """
    from hoodie.callbacks.delivery import resend

    return resend(path, options or {}, dry_run)


def upgrade_table(
    path: str,
    to: str,
    *,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    spark: Any = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> VersionResult:
    """Change the table version to a later one, `6`, `8` or `9`; on `spark`, or on the local engine.

    Pending compactions and cleans are carried out first, other plans are taken off the timeline, and logs of
    a merge-on-read table are merged. The metadata table is dropped, and the next write makes it again. Nobody
    else may work on the table meanwhile; queries go on. With `dry_run` nothing is changed. An upgrade that
    was killed is finished by the next call. Raises HoodieError.
    """
    from hoodie.services.upgrade.run import upgrade

    return upgrade(
        VersionRequest(
            table=path,
            to=to,
            options=options or {},
            extra_metadata=extra_metadata or {},
            engine=backend_of(spark).engine,
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


def downgrade_table(
    path: str,
    to: str,
    *,
    options: Mapping[str, Any] | None = None,
    extra_metadata: Mapping[str, str] | None = None,
    spark: Any = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> VersionResult:
    """Change the table version to an earlier one, `8` or `6`; otherwise as `upgrade_table`.

    A clean deletes older slices of a merge-on-read table on the way to version 6, and states before it can't
    be read afterwards.
    """
    from hoodie.services.upgrade.run import downgrade

    return downgrade(
        DowngradeRequest(
            table=path,
            to=to,
            options=options or {},
            extra_metadata=extra_metadata or {},
            engine=backend_of(spark).engine,
            dry_run=dry_run,
            progress=progress or silent,
        )
    )


def plan_services(
    path: str, *, only: Sequence[str] | None = None, options: Mapping[str, Any] | None = None
) -> ServicesPlan:
    """Which services a table needs now, what each would do and why, or why nothing; reads only.

    The services are those of hoodie.services with a turn in the planner, in that order; `only` names
    some of them. Pending plans that no process works on are listed with the service that finishes them.
    Raises HoodieError; the error of a single service is in its place.
    """
    from hoodie.services.planner.run import plan

    return plan(ServicesRequest(table=path, only=only, options=options or {}))


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
        return backend_of(spark() if callable(spark) else spark).engine()

    return run(
        ServicesRequest(
            table=path,
            only=only,
            options=options or {},
            extra_metadata=extra_metadata or {},
            engine=engine,
            dry_run=dry_run,
            progress=progress or silent,
        )
    )
