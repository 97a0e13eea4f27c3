"""THE order of a write. Read this first.

token     a write whose token has a commit of the same source is done already
resolve   settings, the table's properties, the schema the rows must have: all errors before any write
stage     one pass over the input: keys, tags, rows cut into blobs by file group (kept, so read only once);
          and which file groups the write replaces
begin     refuse or wait for another writer, roll back failed writes, take the instant
assign    count → file-group writes: files with updates, small files, new files
write     shuffle by file group; a task writes its files, marker first
validate  queries of the settings about the state after the write, which they may withdraw
commit    delete what no task reported, then the completed instant, which alone shows the data
services  what the settings ask for inline; the commit stays, whatever becomes of them

What an operation asks of these steps its properties tell (write.operation): a delete tags and brings no rows,
an overwrite fills new file groups and replaces the visible ones, a delete of partitions only replaces.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine import Engine, Frame
from hoodie.errors import CommitConflict, HoodieError, TableNotFound
from hoodie.progress import ProgressCallback, silent
from hoodie.read.settings import VERIFY_WRITTEN
from hoodie.read.verify import refuse_gaps
from hoodie.services.clustering.strategy import rolls_back
from hoodie.services.clustering.trigger import check as check_clustering
from hoodie.services.inline import after_write
from hoodie.services.retention import check_retention
from hoodie.storage import Storage
from hoodie.table.bootstrap import check_sources
from hoodie.table.buckets import refuse_numbered
from hoodie.table.handle import Table, TableRef
from hoodie.table.partition import ensure_partition
from hoodie.table.pending import busy_groups, clusterings_of, refuse_updates
from hoodie.table.settings import WAIT_MS
from hoodie.timeline import tokens
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import DROPPED_KEY, MISSING_KEY, CommitMetadata
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.tokens import TokenCommit
from hoodie.write.log_keys import refuse_hidden_keys
from hoodie.write.operation import WriteRequest, WriteResult
from hoodie.write.out_of_order import refuse_out_of_order
from hoodie.write.plan import WritePlan, resolve
from hoodie.write.prepared import Prepared, prepared
from hoodie.write.preview import planned_partitions
from hoodie.write.replace import find_replaced, refuse_busy
from hoodie.write.transaction import Transaction
from hoodie.write.validators import gate, rehearse
from hoodie.write.workload import WorkloadProfile

_ATTEMPTS = 3


class PlanOutdated(Exception):
    """Another writer's commit came between the plan of a write and its begin: plan anew."""


def write(
    engine: Engine, frame: Frame, request: WriteRequest, progress: ProgressCallback = silent
) -> WriteResult:
    """Write the rows of `frame`; returns when the commit is visible.

    Raises HoodieError of the fitting kind; rows are visible all or not at all. An empty frame makes a commit
    without files, so that what waits for this interval's commit goes on; no frame is needed where partitions
    are deleted. What inline services fail at are warnings of the result, or a ServiceError, as the settings
    ask: the commit stays. A dry run writes nothing.
    """
    if request.dry_run:
        return _preview(engine, frame, request, progress)
    result, config, table = _committed(engine, frame, request, progress)
    if config is None:
        return result
    warnings = after_write(engine, table, result.instant, config, progress)
    return replace(result, warnings=[*result.warnings, *warnings])


def _committed(
    engine: Engine, frame: Frame, request: WriteRequest, progress: ProgressCallback
) -> tuple[WriteResult, Config | None, Table]:
    """The write up to its commit, its settings (None: it was done before), and its table.

    Rows are staged beside another writer only in a first attempt that would not wait for it: its commit makes
    them stale. Afterwards, or where it may have to be waited for, the table is taken first, so that only who
    doesn't announce itself can come between.
    """
    started = time.monotonic()
    table = Table(TableRef.of(request.path, Config.of(request.options)))
    schema = _schema(engine, frame)
    repaired: list[Transaction] = []
    for first in (True, *[False] * (_ATTEMPTS - 1)):
        earlier, plan = _resolved(table, request, schema)
        if done := _done_before(table, request, earlier, progress):
            return done, None, table
        assert plan is not None
        check_retention(plan.config)
        check_clustering(plan.config)
        rehearse(engine, table, plan)
        with Transaction(table, plan.config, plan.timeline_utc, plan.action, progress) as transaction:
            if plan.new_properties is None and (plan.config[WAIT_MS] or not first):
                transaction.take()
                earlier = _earlier(table, request)
                if done := _done_before(table, request, earlier, progress):
                    return done, None, table
                if plan.outdated(table):
                    table.read_properties()
                    plan = resolve(table, request, schema)
            try:
                metadata, profile = _attempt(engine, frame, plan, transaction, progress)
            except PlanOutdated:
                repaired.append(transaction)
            else:
                seconds = time.monotonic() - started
                result = _result(plan, [*repaired, transaction], metadata, seconds)
                warnings = _remember(transaction, plan, metadata, earlier)
                warnings = [*result.warnings, *profile.warnings, *warnings]
                return replace(result, warnings=warnings), plan.config, table
        table.reopen()
    raise CommitConflict(
        f"writers that do not announce themselves committed to {table.base_path} during {_ATTEMPTS} "
        "attempts; run this write alone",
        path=table.base_path,
    )


def _attempt(
    engine: Engine,
    frame: Frame,
    plan: WritePlan,
    transaction: Transaction,
    progress: ProgressCallback,
) -> tuple[CommitMetadata, WorkloadProfile]:
    """Stage, begin, write and commit. Raises PlanOutdated, with nothing begun, where the plan is outdated
    once the table is this write's alone.
    """
    table = transaction.table
    progress("stage", f"{plan.request.operation.value} into {table.base_path}")
    with prepared(engine, frame, plan, table) as rows:
        profile = rows.profile
        if frame is not None:
            progress("stage", f"{profile.rows} rows in {len(profile.partitions)} partitions")
        find_replaced(table.listing(), plan.context.snapshot, plan.request, plan.config, profile)
        _refuse_slices(table, plan, profile)
        _refuse_out_of_order(table, plan, profile)
        hindrances = _spare_pending(profile, plan, table.storage, plan.timeline, first=True)
        plan.create_table(table)
        transaction.take()
        if plan.outdated(table):
            raise PlanOutdated
        if table.timeline.pending() != plan.timeline.pending():
            hindrances = _spare_pending(profile, plan, table.storage, table.timeline, first=True)
        transaction.forget(hindrances)
        transaction.begin()
        return _write(rows, transaction, progress), profile


def _preview(engine: Engine, frame: Frame, request: WriteRequest, progress: ProgressCallback) -> WriteResult:
    """What the write would do, as far as its first pass tells."""
    started = time.monotonic()
    table = Table(TableRef.of(request.path, Config.of(request.options)))
    if done := _done_before(table, request, _earlier(table, request), progress):
        return replace(done, dry_run=True)
    plan = resolve(table, request, _schema(engine, frame))
    check_retention(plan.config)
    check_clustering(plan.config)
    rehearse(engine, table, plan)
    with prepared(engine, frame, plan, table) as rows:
        profile = rows.profile
        find_replaced(table.listing(), plan.context.snapshot, plan.request, plan.config, profile)
        _refuse_slices(table, plan, profile)
        _refuse_out_of_order(table, plan, profile)
        _spare_pending(profile, plan, table.storage, plan.timeline, first=True)
        partitions = planned_partitions(table.storage, request.operation, profile, rows.assignment.writes)
    return WriteResult(
        status="planned",
        table=plan.table_name,
        base_path=table.base_path,
        action=plan.action.value,
        instant="",
        operation=plan.request.operation.value,
        partitions=[item.partition for item in partitions],
        num_inserts=sum(item.inserts for item in partitions),
        num_updates=sum(item.updates for item in partitions),
        num_deletes=sum(item.deletes for item in partitions),
        num_writes=0,
        num_files=sum(item.files for item in partitions),
        bytes_written=sum(item.bytes for item in partitions),
        duration_s=round(time.monotonic() - started, 3),
        warnings=[*plan.config.warnings, *profile.warnings],
        rolled_back=[],
        metadata_table_removed=False,
        num_missing=profile.missing,
        num_replaced=sum(item.replaced_groups for item in partitions),
        num_dropped=profile.dropped,
        dry_run=True,
        planned=partitions,
    )


def _resolved(
    table: Table, request: WriteRequest, schema: pa.Schema
) -> tuple[TokenCommit | None, WritePlan | None]:
    """The commit of the token, and the plan, None where the write is done: both by one listing, so that no
    commit of the token comes between. Other processes may archive a commit after the listing.
    """
    for left in reversed(range(_ATTEMPTS + 1)):
        earlier = _earlier(table, request)
        if _is_done(request, earlier):
            return earlier, None
        try:
            return earlier, resolve(table, request, schema)
        except FileNotFoundError:
            if not left:
                raise
            table.reopen()
    raise AssertionError("unreachable")


def _earlier(table: Table, request: WriteRequest) -> TokenCommit | None:
    if not request.token:
        return None
    try:
        return tokens.find(table.timeline, table.storage, request.token)
    except TableNotFound:
        return None


def _is_done(request: WriteRequest, earlier: TokenCommit | None) -> bool:
    return earlier is not None and not request.force and earlier.is_of(request.fingerprint)


def _done_before(
    table: Table, request: WriteRequest, earlier: TokenCommit | None, progress: ProgressCallback
) -> WriteResult | None:
    """What the write would do, if a commit of its token did it already; that may be who was waited for."""
    if earlier is None or not _is_done(request, earlier):
        return None
    progress("token", f"{request.token} was committed at {earlier.instant}")
    return WriteResult(**earlier.result(table.properties.name, table.base_path))


def _remember(
    transaction: Transaction, plan: WritePlan, metadata: CommitMetadata, earlier: TokenCommit | None
) -> list[str]:
    """Keep the token; the commit itself tells it too, so a failure here is no error. Gives warnings."""
    commit = TokenCommit.of(Instant(transaction.instant, plan.action, State.COMPLETED), metadata)
    if commit is not None:
        with contextlib.suppress(OSError, HoodieError):
            tokens.record(transaction.storage, transaction.base_path, commit)
    if earlier is None:
        return []
    why = (
        "asked for by force" if earlier.is_of(commit.fingerprint if commit else "") else "its source changed"
    )
    return [f"{earlier.token} was committed at {earlier.instant} before; written again, {why}"]


def _schema(engine: Engine, frame: Frame | None) -> pa.Schema:
    return pa.schema([]) if frame is None else engine.schema(frame)


def _write(rows: Prepared, transaction: Transaction, progress: ProgressCallback) -> CommitMetadata:
    plan, profile = rows.plan, rows.profile
    operation, table = plan.context.operation, transaction.table
    if transaction.repaired:
        profile.relist(plan.context.snapshot, table.listing().files)
    _spare_pending(profile, plan, table.storage, table.timeline)
    transaction.inflight(profile.inflight(operation.metadata_name))
    for partition in sorted(profile.unmarked):
        ensure_partition(table.storage, table.base_path, partition, transaction.instant)
    stats = rows.write(transaction.instant, progress) if profile.rows else {}
    progress("commit", f"instant {transaction.instant}")
    counts = {MISSING_KEY: profile.missing, DROPPED_KEY: profile.dropped}
    extra = {key: str(count) for key, count in counts.items() if count}
    known = plan.table_schema.save(table, transaction.instant)
    return transaction.commit(
        stats,
        operation.metadata_name,
        {**extra, **plan.extra_metadata, **known},
        profile.replaced_ids,
        gate(rows.engine, table, plan, transaction.instant, progress),
    )


def _spare_pending(
    profile: WorkloadProfile, plan: WritePlan, storage: Storage, timeline: Timeline, first: bool = False
) -> list[Instant]:
    """Refuse updates of file groups that a pending clustering is going to replace, replacing what a pending
    service works on, and updates of keys that the index can't see; pack nothing into groups with plans.

    Called before anything is written, and again once the table is this writer's alone, with the `timeline` of
    then. `first` is the former, repeated where plans have come or gone before the table was taken:
    the keys of the slices, which no commit changes meanwhile, are looked at then, and where the settings say
    that clusterings are not in the way, those come back that have to be rolled back.
    """
    if not any(profile.slices.values()) and not profile.replaced:
        return []
    busy = busy_groups(timeline, storage)
    hindrances: list[Instant] = []
    if first and rolls_back(plan.config):
        touched = [group for group in busy if group in profile.groups or group[0] in profile.replaced]
        hindrances = clusterings_of(busy, touched)
        busy = {group: instant for group, instant in busy.items() if instant not in hindrances}
    refuse_updates(busy, profile.groups)
    refuse_busy(busy, profile.replaced)
    profile.busy = frozenset(busy)
    if first and plan.context.index is not None and not plan.context.index.sees_logs:
        refuse_hidden_keys(storage, timeline, plan.context.snapshot, profile.slices)
    return hindrances


def _refuse_slices(table: Table, plan: WritePlan, profile: WorkloadProfile) -> None:
    """File groups that rows can't be written to: of the BUCKET index, with files missing, or whose rows lie
    outside the table where the caller does not allow it.
    """
    check_sources(table.storage, (item for group in profile.slices.values() for item in group))
    if plan.new_properties is None and plan.config[VERIFY_WRITTEN]:
        slices = {partition: profile.slices.get(partition, []) for partition in profile.listed}
        refuse_gaps(table, plan.timeline, plan.context.snapshot, slices)
    if plan.context.operation.brings_rows:
        found = [*profile.slices.values(), *profile.replaced.values()]
        ids = [slice_.file_id for group in found for slice_ in group]
        refuse_numbered(table.listing(), table.base_path, plan.context.snapshot, ids)


def _refuse_out_of_order(table: Table, plan: WritePlan, profile: WorkloadProfile) -> None:
    if plan.new_properties is None:
        partitions = {*profile.partitions, *profile.replaced}
        refuse_out_of_order(table, plan.request, plan.config, plan.context.merger, partitions)


def _result(
    plan: WritePlan, transactions: list[Transaction], metadata: CommitMetadata, seconds: float
) -> WriteResult:
    """`transactions`: those of the attempts of this write, the one that committed last."""
    return WriteResult(
        status="committed",
        table=plan.table_name,
        base_path=plan.context.base_path,
        action=plan.action.value,
        instant=transactions[-1].instant,
        operation=plan.request.operation.value,
        partitions=metadata.partitions,
        num_inserts=metadata.num_inserts,
        num_updates=metadata.num_updates,
        num_deletes=metadata.num_deletes,
        num_writes=metadata.num_writes,
        num_files=metadata.num_files,
        bytes_written=metadata.bytes_written,
        duration_s=round(seconds, 3),
        warnings=list(plan.config.warnings),
        rolled_back=[time for each in transactions for time in each.rolled_back],
        metadata_table_removed=any(each.metadata_table_removed for each in transactions),
        num_missing=metadata.num_missing,
        num_replaced=metadata.num_replaced,
        num_dropped=metadata.num_dropped,
    )
