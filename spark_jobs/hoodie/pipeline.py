"""THE order of a write. Read this first.

token     return the commit of the same source, if the write's token has one
upgrade   change the table version first, where hoodie.write.auto.upgrade asks for it
resolve   check the settings, the table's properties and the schema of the rows: all errors before any write
stage     read the input once. Rows become blobs, which all attempts use. The index finds the keys, and opens
          each file once. Find the file groups that the write replaces. Two kinds of rows are not staged:
          those of new file groups whose partitions are known or cheap to compute, which are only counted,
          and those that are cheap to compute again, of which only the keys are staged
begin     fail or wait if another writer runs, roll back failed writes, take the instant. Writers at once
          continue, and fail later if another one first commits a change of the same
assign    turn counts of rows into file-group writes: files with updates, small files, new files
write     shuffle the rows by file group; a task writes its files, marker first
validate  run the queries of the settings about the state after the write; they may withdraw it
commit    delete what no task reported, then create the completed instant, which alone makes the data visible
hooks     run inline services and callbacks; the commit stays if they fail

The properties of an operation (write.operation) say which of these steps it needs. A delete tags and has no
new rows. An overwrite fills new file groups and replaces the visible ones. A delete of partitions only
replaces.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine import Engine, Frame
from hoodie.errors import CommitConflict, TableBusy, TableError, TableNotFound, TooCostly
from hoodie.hooks import CommitEvent, HookContext, Hooks
from hoodie.index import PlacingIndex, index_behind, index_participants
from hoodie.progress import ProgressCallback, silent
from hoodie.read.settings import VERIFY_WRITTEN
from hoodie.read.verify import check_no_gaps
from hoodie.services.clustering.strategy import rolls_back
from hoodie.services.inline import check_services
from hoodie.storage import Storage
from hoodie.table.bootstrap import check_sources
from hoodie.table.buckets import check_no_bucket_numbers
from hoodie.table.handle import Table, TableRef
from hoodie.table.markers import keep_markers
from hoodie.table.partition import ensure_partition
from hoodie.table.pending import check_no_updates, clusterings_of, writers_busy_groups
from hoodie.table.settings import INTERVAL_MS, WAIT_MS
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import DROPPED_KEY, MISSING_KEY, CommitMetadata
from hoodie.timeline.instant import Instant
from hoodie.write import result
from hoodie.write.assign.overwrite import check_not_busy, find_replaced
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.conflicts import Attempts, check_optimistic_support, conflict_checker
from hoodie.write.explain.cost import keep_within_limit, planned_partitions
from hoodie.write.input.staged_input import StagedInput
from hoodie.write.input.write_input import WriteInput, prepared
from hoodie.write.operation import WriteRequest, WriteResult
from hoodie.write.plan import WritePlan, resolve
from hoodie.write.settings import AUTO_UPGRADE, TABLE_VERSION
from hoodie.write.tagging.key_encoding import check_one_form
from hoodie.write.tagging.log_only_keys import check_log_only_keys
from hoodie.write.token_guard import TokenGuard, check_order
from hoodie.write.transaction import Transaction
from hoodie.write.validators import gate, rehearse

if TYPE_CHECKING:
    from hoodie.write.explain.explanation import WriteExplanation

_ATTEMPTS = 3


class PlanOutdated(Exception):
    """Another writer's commit came between the plan of a write and its begin, or one is to be taken back:
    plan anew.
    """


def write(
    engine: Engine, frame: Frame, request: WriteRequest, progress: ProgressCallback = silent
) -> WriteResult:
    """Write the rows of `frame`; returns when the commit is visible.

    Raises HoodieError of the fitting kind; rows are visible all or not at all. An empty frame makes a commit
    without files, so that what waits for this interval's commit goes on; no frame is needed where partitions
    are deleted. What hooks fail at are warnings of the result, or, of inline services, a ServiceError, as the
    settings ask: the commit stays. A dry run writes nothing.
    """
    config = Config.of(request.options)
    table, hooks = Table(TableRef.of(request.path, config)), Hooks()
    if request.dry_run:
        return _preview(engine, frame, request, table, progress)
    guard = TokenGuard(table, request, progress)
    upgraded = _upgraded(engine, frame, table, config, guard) if config[AUTO_UPGRADE] else []
    with StagedInput(engine, frame) as staged:
        done = _committed(staged, table, guard, hooks, progress)
    if isinstance(done, WriteResult):
        return done
    warnings = hooks.run(done.events, HookContext(config=done.config, engine=engine, progress=progress))
    return replace(done.result, warnings=[*upgraded, *done.result.warnings, *warnings])


@dataclass(frozen=True, kw_only=True)
class _Committed:
    """A write up to its commit."""

    result: WriteResult
    events: list[CommitEvent]
    config: Config


def _committed(
    staged: StagedInput,
    table: Table,
    guard: TokenGuard,
    hooks: Hooks,
    progress: ProgressCallback,
) -> _Committed | WriteResult:
    """The write up to its commit, or the result of one that was done before.

    Rows are tagged beside another writer only in a first attempt that would not wait for it: its commit makes
    tags stale, and the next attempt tags the same staged rows again. Afterwards, or where it may have to be
    waited for, or the index does not follow the table yet, the table is taken first, so that only a writer
    without a heartbeat can come between. Where writers work at once, they are looked at when the write
    begins, and when it commits.
    """
    started = time.monotonic()
    schema = _schema(staged.engine, staged.frame)
    transactions: list[Transaction] = []
    attempts = Attempts(_ATTEMPTS, progress)
    for first in attempts:
        plan = guard.done_or_plan(schema)
        if isinstance(plan, WriteResult):
            return plan
        _check(staged.engine, table, plan, hooks)
        behind = index_behind(plan.config, table, plan.timeline)
        early = plan.config[WAIT_MS] or behind or not first
        extra = plan.request.extra_metadata
        begun = Transaction(table, plan.config, plan.timeline_utc, plan.action, progress, extra=extra)
        begun.on_publish(hooks.announcer(plan.config))
        transactions.append(begun)
        with (
            attempts.conflicts(plan, table),
            begun as transaction,
            contextlib.suppress(PlanOutdated),
        ):
            if plan.new_properties is None and early and not plan.optimistic:
                _take(transaction, plan)
                if done := guard.done():
                    return done
                if plan.outdated(table) or behind:
                    table.read_properties()
                    plan = resolve(table, guard.request, schema)
            metadata, profile = _attempt(staged, plan, transaction, progress)
            seconds = time.monotonic() - started
            *others, event = (event for each in transactions for event in each.events)
            warnings = [*profile.warnings, *guard.record(event.instant, metadata)]
            if plan.context.index is not None:
                warnings += plan.context.index.committed(table.ref, event.instant.time, metadata)
            return _Committed(
                result=result.committed(plan, transactions, event.instant, metadata, warnings, seconds),
                events=[*others, replace(event, seconds=seconds)],
                config=plan.config,
            )
        table.reopen(moved=True)
    raise CommitConflict(
        f"writers that do not announce themselves committed to {table.base_path} during {_ATTEMPTS} "
        "attempts; run this write alone",
        path=table.base_path,
    )


def _upgraded(engine: Engine, frame: Frame, table: Table, config: Config, guard: TokenGuard) -> list[str]:
    """Upgrade a table of an earlier version than the settings ask for; warnings that say so. A write whose
    token has its commit, or whose settings or schema are wrong, upgrades nothing. Raises as services.upgrade.
    """
    to, request = _upgrades_to(table, config), guard.request
    if to is None or isinstance(guard.done_or_plan(_schema(engine, frame)), WriteResult):
        return []
    from hoodie.services.upgrade.run import upgrade
    from hoodie.services.upgrade.service import VersionRequest

    asked = VersionRequest(
        table=request.path,
        to=str(to),
        options=request.options,
        engine=lambda: engine,
        progress=guard.progress,
    )
    done = upgrade(asked)
    table.reopen(moved=True)
    warnings = [f"the table was upgraded from version {done.from_version} to {to} first", *done.warnings]
    if done.rolled_back:
        warnings.append(f"failed writes were rolled back for that: {', '.join(done.rolled_back)}")
    return warnings


def _upgrades_to(table: Table, config: Config) -> int | None:
    """The version that a write upgrades its table to first; None where it does not."""
    if not config[AUTO_UPGRADE]:
        return None
    with contextlib.suppress(TableNotFound):
        if table.properties.version < config[TABLE_VERSION]:
            return config[TABLE_VERSION]
    return None


def _take(transaction: Transaction, plan: WritePlan) -> None:
    """Raises PlanOutdated where the instants lie in another layout by now, so that the plan is of no use."""
    try:
        transaction.take()
    except CommitConflict:
        if transaction.table.timeline.layout is plan.timeline.layout:
            raise
        raise PlanOutdated from None


def _attempt(
    staged: StagedInput,
    plan: WritePlan,
    transaction: Transaction,
    progress: ProgressCallback,
) -> tuple[CommitMetadata, WorkloadProfile]:
    """Stage, begin, write and commit. Raises PlanOutdated, with nothing begun, where the plan is outdated
    once the table is this write's alone.
    """
    table = transaction.table
    progress("stage", f"{plan.request.operation.value} into {table.base_path}")
    with table.storage.holding(), prepared(staged, plan, table) as rows:
        profile = rows.profile
        if staged.frame is not None:
            progress("stage", f"{profile.rows} rows in {len(profile.partitions)} partitions")
        find_replaced(table.listing(), plan.context.snapshot, plan.request, plan.config, profile)
        try:
            _check_slices(table, plan, profile)
        except (TableBusy, TableError):
            if transaction.rolls_back_late_commit():
                transaction.take()
                raise PlanOutdated from None
            raise
        _check_order(table, plan, profile)
        hindrances = _spare_pending(profile, plan, table.storage, plan.timeline, first=True)
        keep_within_limit(rows)
        plan.create_table(table)
        known = len(transaction.rolled_back)
        _take(transaction, plan)
        undone = len(transaction.rolled_back) > known
        if plan.outdated(table) or (undone and index_participants(plan.config, table)):
            raise PlanOutdated
        if plan.optimistic:
            transaction.check_conflicts(conflict_checker(table, plan, profile))
        if table.timeline.pending() != plan.timeline.pending():
            hindrances = _spare_pending(profile, plan, table.storage, table.timeline, first=True)
        if not transaction.forget(hindrances) and not plan.optimistic:
            raise PlanOutdated  # writers at once lose to what was completed meanwhile (check_conflicts)
        transaction.begin()
        return _write(rows, transaction, progress), profile


def _preview(
    engine: Engine, frame: Frame, request: WriteRequest, table: Table, progress: ProgressCallback
) -> WriteResult:
    """What the write would do: its tasks count, and write nothing."""
    started = time.monotonic()
    if done := TokenGuard(table, request, progress).done():
        return replace(done, dry_run=True)
    with _rehearsed(engine, frame, request, table) as rows:
        plan, profile = rows.plan, rows.profile
        _spare_pending(profile, plan, table.storage, plan.timeline, first=True)
        keep_within_limit(rows)
        groups, missing = rows.rehearse()
        partitions = planned_partitions(table, plan, profile, rows.assignment.writes, groups)
    done = result.planned(plan, profile, partitions, missing, time.monotonic() - started)
    if to := _upgrades_to(table, Config.of(request.options)):
        text = f"the table would be upgraded from version {table.properties.version} to {to} first"
        return replace(done, warnings=[text, *done.warnings])
    return done


def explain(
    engine: Engine, frame: Frame, request: WriteRequest, progress: ProgressCallback = silent
) -> WriteExplanation:
    """What the write of the rows of `frame` would do and cost, and what each index would; writes nothing.

    Raises what the write would raise before it begins, but for a pending service that is in its way, and for
    its cost, which the explanation has.
    """
    from hoodie.write.explain.explanation import conflicts, explanation, index_costs

    started = time.monotonic()
    request = replace(request, dry_run=True)
    table = Table(TableRef.of(request.path, Config.of(request.options)))
    progress("explain", f"{request.operation.value} into {table.base_path}")
    with _rehearsed(engine, frame, request, table) as rows:
        plan, profile = rows.plan, rows.profile
        busy = writers_busy_groups(plan.timeline, table.storage)
        touched = profile.touched(busy)
        hindrances: list[Instant] = []
        refused = ""
        try:
            hindrances = _spare_pending(profile, plan, table.storage, plan.timeline, first=True)
            keep_within_limit(rows)
        except (CommitConflict, TooCostly) as error:
            refused = error.message
            profile.busy = frozenset(busy)
        groups, missing = rows.rehearse()
        return explanation(
            plan,
            rows,
            planned_partitions(table, plan, profile, rows.assignment.writes, groups),
            groups,
            missing,
            index_costs(table, plan, rows),
            conflicts(busy, touched, [instant.time for instant in hindrances]),
            refused,
            time.monotonic() - started,
        )


@contextlib.contextmanager
def _rehearsed(engine: Engine, frame: Frame, request: WriteRequest, table: Table) -> Iterator[WriteInput]:
    """A write up to its begin, of which nothing is written; but for what pending services mean for it."""
    plan = resolve(table, request, _schema(engine, frame))
    plan = replace(plan, context=replace(plan.context, dry_run=True))
    _check(engine, table, plan, Hooks())
    with StagedInput(engine, frame) as staged, prepared(staged, plan, table) as rows:
        profile = rows.profile
        find_replaced(table.listing(), plan.context.snapshot, plan.request, plan.config, profile)
        _check_slices(table, plan, profile)
        _check_order(table, plan, profile)
        yield rows


def _check(engine: Engine, table: Table, plan: WritePlan, hooks: Hooks) -> None:
    """Refuse settings that can't be followed after the commit, before anything is written."""
    check_services(plan.config)
    check_optimistic_support(plan)
    hooks.check(plan.config)
    rehearse(engine, table, plan)


def _schema(engine: Engine, frame: Frame | None) -> pa.Schema:
    return pa.schema([]) if frame is None else engine.schema(frame)


def _write(rows: WriteInput, transaction: Transaction, progress: ProgressCallback) -> CommitMetadata:
    plan, profile = rows.plan, rows.profile
    operation, table = plan.context.operation, transaction.table
    if transaction.repaired:
        profile.relist(plan.context.snapshot, table.listing().files)
    _spare_pending(profile, plan, table.storage, table.timeline)
    begun = profile.inflight(operation.metadata_name)
    transaction.inflight(replace(begun, extra_metadata=plan.request.task))
    for partition in sorted(profile.unmarked):
        ensure_partition(table.storage, table.base_path, partition, transaction.instant)
    marked: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if rows.engine.in_process and not table.storage.fences:
        interval = plan.config[INTERVAL_MS]
        marked = keep_markers(table, transaction.instant, interval, transaction.announced)
    with marked:
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
    busy = writers_busy_groups(timeline, storage)
    hindrances: list[Instant] = []
    if first and rolls_back(plan.config):
        hindrances = clusterings_of(busy, profile.touched(busy))
        busy = {group: instant for group, instant in busy.items() if instant not in hindrances}
    check_no_updates(busy, sorted(profile.changed))
    check_not_busy(busy, profile.replaced)
    profile.busy = frozenset(busy)
    if first and plan.context.index is not None and not plan.context.index.sees_logs:
        check_log_only_keys(storage, timeline, plan.context.snapshot, profile.slices)
    return hindrances


def _check_slices(table: Table, plan: WritePlan, profile: WorkloadProfile) -> None:
    """File groups that rows can't be written to: of the BUCKET index, with files missing, or whose rows lie
    outside the table where the caller does not allow it.
    """
    every = [item for group in profile.slices.values() for item in group]
    check_sources(table.storage, every)
    if plan.new_properties is None:
        check_one_form(plan.config, table.properties, every, table.storage)
    if plan.new_properties is None and plan.config[VERIFY_WRITTEN]:
        slices = {partition: profile.slices.get(partition, []) for partition in profile.listed}
        check_no_gaps(table, plan.timeline, plan.context.snapshot, slices)
    if plan.context.operation.brings_rows and not isinstance(plan.context.index, PlacingIndex):
        found = [*profile.slices.values(), *profile.replaced.values()]
        ids = [slice_.file_id for group in found for slice_ in group]
        check_no_bucket_numbers(table.listing(), table.base_path, plan.context.snapshot, ids)


def _check_order(table: Table, plan: WritePlan, profile: WorkloadProfile) -> None:
    if plan.new_properties is None:
        partitions = {*profile.partitions, *profile.replaced}
        check_order(table, plan.request, plan.config, plan.context.merger, partitions)
