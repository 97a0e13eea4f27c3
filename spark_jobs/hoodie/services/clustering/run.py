"""A clustering job, its result, and its entry for the planner.

The job executes pending plans, of this package and of Apache Hudi, while writers add to other file groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from hoodie.engine import Engine
from hoodie.engine.task import BatchFunction
from hoodie.errors import ConfigError, TableError
from hoodie.format.names import join
from hoodie.index.hashed_values import Hashing, hash_fields
from hoodie.progress import ProgressCallback
from hoodie.services.clustering import strategy
from hoodie.services.clustering.order import Order
from hoodie.services.clustering.resize import ResizeBuckets, Resized, ringed
from hoodie.services.clustering.schedule import plan_now
from hoodie.services.clustering.settings import (
    ASYNC,
    INLINE,
    SCHEDULE_INLINE,
    STRATEGY,
    TARGET_BYTES,
    Strategy,
    executes,
)
from hoodie.services.clustering.split import planned, shares_of
from hoodie.services.clustering.task import ClusterShares
from hoodie.services.planned import DuePlan, OutdatedPlan, RewriteResult, RewriteService, RewrittenPlan
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import RewriteRequest
from hoodie.services.rewrite_slices import RewriteContext, rewrite_context, run_tasks
from hoodie.services.rollback.run import cancel_outdated
from hoodie.services.service_table import ServiceTable
from hoodie.table.buckets import check_no_buckets, check_no_hash_rings
from hoodie.table.features import ROWS, check_features
from hoodie.table.hash_ring import Ring, Rings
from hoodie.table.listing import StorageListing
from hoodie.table.view import file_slices
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import stats_by_partition
from hoodie.timeline.instant import Action, Instant, Kind, State
from hoodie.timeline.models.clustering import (
    OPERATION,
    ClusteringGroup,
    ClusteringPlan,
    RequestedReplace,
    SliceInfo,
)
from hoodie.timeline.time import InstantTime
from hoodie.write.participants.hash_rings import RingChange, clustered_rings, ring_changes


def check(target: ServiceTable) -> None:
    """Raises ConfigError for a table that can't be clustered here."""
    check_features(target.props, "cluster", "clustered", *ROWS)
    storage, timeline, config = target.storage, target.timeline(), target.config
    resizes = config[STRATEGY] is Strategy.CONSISTENT_HASHING
    if ringed(target, timeline):
        check_no_hash_rings(storage, timeline, ringed=True)
        if config.given(STRATEGY) and not resizes:
            raise ConfigError(
                f"{target.base_path} is a table of consistent hashing, whose buckets are split and merged: "
                f"{STRATEGY.name}={config.text(STRATEGY.name)} would put rows where they are not looked for. "
                "Leave it out",
                path=target.base_path,
            )
        return
    if resizes:
        raise ConfigError(
            f"{STRATEGY.name}={config.text(STRATEGY.name)} is for tables of hoodie.index.bucket.engine="
            f"CONSISTENT_HASHING, and {target.base_path} is none; leave it out",
            path=target.base_path,
        )
    check_no_buckets(storage, target.props, timeline, target.table.view_of(timeline))


def pending(timeline: Timeline, target: ServiceTable) -> list[Instant]:
    """Clusterings to execute, oldest first. Pending replacecommits of other kinds are writes."""
    return [
        instant
        for instant in timeline.pending()
        if instant.replaces and timeline.kind(instant, target.storage) is Kind.CLUSTERING
    ]


def execute(
    engine: Engine, target: ServiceTable, instant: Instant, progress: ProgressCallback
) -> RewrittenPlan[ClusteringPlan]:
    """Run a pending clustering to its commit, from the beginning where an earlier run failed.

    Raises ConflictError while another process executes it, when it has been completed or rolled back, or when
    the plan's file groups were changed since; an error leaves the plan pending and no new file.
    """
    requested, plan = read_plan(target, instant)
    with target.transaction() as transaction:
        transaction.resume(instant, plan.partitions)
        context = rewrite_context(target, instant.time, "cluster", engine)
        _check_unchanged(target, instant, plan)
        order = Order.of(plan.params, target.config)
        if order is not None:
            order.check(context.file_schema)
        task, count = _task(engine, target, context, plan, order)
        progress(
            "cluster",
            f"instant {instant.time}: {len(plan.slices)} file slices in {len(plan.groups)} groups, "
            f"{count} tasks",
        )
        answers = run_tasks(engine, task, count, "parts were to be clustered")
        stats = stats_by_partition(value for answer in answers for value in answer["stats"])
        progress("commit", f"instant {instant.time}")
        transaction.confirming(partial(_check_unchanged, target, instant, plan))
        extra = {**(requested.extra_metadata or {}), **target.extra, **context.schema_metadata}
        metadata = transaction.commit(stats, OPERATION, extra, replaced_by(plan))
        return RewrittenPlan(
            instant=instant.time,
            plan=plan,
            metadata=metadata,
        )


def _task(
    engine: Engine,
    target: ServiceTable,
    context: RewriteContext,
    plan: ClusteringPlan,
    order: Order | None,
) -> tuple[BatchFunction, int]:
    """What the tasks run, and how many there are. Raises TableError when a file of the plan is missing."""
    preserve = plan.preserve_metadata is not False
    if ringed(target, target.table.timeline) or ring_changes(plan):
        resized = _resized(target, context, plan)
        hashing = Hashing.of(target.props.texts)
        task = ResizeBuckets(context, resized, hash_fields(target.config), hashing, order, preserve)
        return task, len(resized)
    shares = shares_of(engine, target.storage, context, plan, order)
    return ClusterShares(context, shares, _target_bytes(target, plan), preserve), len(shares)


def _resized(target: ServiceTable, context: RewriteContext, plan: ClusteringPlan) -> tuple[Resized, ...]:
    rings = Rings(target.table.ref, context.slices.snapshot)
    after = {ring.partition: ring for ring in clustered_rings(rings, plan, context.instant)}
    found = []
    for group in plan.groups:
        change = RingChange.of(group.extra_metadata)
        before = rings.of(change.partition) if change else None
        if change is None or before is None or not _known(before, group):
            raise TableError(
                f"clustering {context.instant} has file groups that are not in the hash ring of their "
                "partition; roll that clustering back (hoodie cancel) and schedule a new one",
                instant=context.instant,
            )
        slices = tuple(planned(info).found(target.storage, target.base_path) for info in group.slices)
        found.append(Resized(slices, before, after[change.partition]))
    return tuple(found)


def _known(ring: Ring, group: ClusteringGroup) -> bool:
    return all(
        item.partition_path == ring.partition and ring.number(item.file_id) is not None
        for item in group.slices
    )


def _target_bytes(target: ServiceTable, plan: ClusteringPlan) -> int:
    """The value of the settings, else of the plan, else the default."""
    text = plan.params.get(TARGET_BYTES.name)
    return (
        target.config[TARGET_BYTES]
        if text is None or target.config.given(TARGET_BYTES)
        else TARGET_BYTES.read(text)
    )


def replaced_by(plan: ClusteringPlan) -> dict[str, list[str]]:
    """Ids of the plan's file groups by partition."""
    out: dict[str, list[str]] = {}
    for item in plan.slices:
        out.setdefault(item.partition_path, []).append(item.file_id)
    return out


def read_plan(target: ServiceTable, instant: Instant) -> tuple[RequestedReplace, ClusteringPlan]:
    """Raises TableError for a plan that is torn or lost, or that only Apache Hudi can execute, ConflictError
    for one that is gone meanwhile.
    """
    path = target.table.timeline.path(instant.with_state(State.REQUESTED))
    requested = RequestedReplace.from_bytes(target.planned(instant, "clustering"))
    if requested.clustering_plan is None:
        raise TableError(f"{path} is no clustering; it belongs to a write", path=path)
    plan = ClusteringPlan.from_record(requested.clustering_plan)
    if not executes(plan.strategy_class, resizes=bool(ring_changes(plan))):
        raise TableError(
            f"clustering {instant.time} is to be executed by {plan.strategy_class}, which is not here; "
            f"execute it with Apache Hudi, or cancel it: hoodie cancel --instant {instant.time}",
            path=path,
        )
    return requested, plan


def _check_unchanged(target: ServiceTable, instant: Instant, plan: ClusteringPlan) -> None:
    """Raises ConflictError when a file group has other files than the plan names: what was added would be
    lost. Writers of this package leave the groups alone; those of Apache Hudi may be set to update them. An
    earlier attempt at the plan that published late is dealt with by the publishing.
    """
    timeline = target.timeline()
    if any(item.time == instant.time for item in timeline.filter([Action.REPLACECOMMIT], completed=True)):
        return
    snapshot = target.table.view
    listing = StorageListing(target.storage, target.base_path).files
    found = {partition: file_slices(snapshot, listing, partition) for partition in plan.partitions}
    for item in plan.slices:
        latest = found[item.partition_path].get(item.file_id)
        now = latest[0] if latest else None
        base = now.base.name if now and now.base else None
        logs = {log.name for log in now.logs} if now else set()
        if now is None or base != item.base_name or not logs <= set(item.log_names):
            raise OutdatedPlan(
                f"file group {item.file_id} of partition {item.partition_path!r} was changed since "
                f"clustering {instant.time} was scheduled, and the change would be lost",
                instant=instant.time,
                partition=item.partition_path,
                file_id=item.file_id,
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class ClusteringResult(RewriteResult):
    """What a clustering job did, or, with dry_run, would do.

    status: `clustered`, `scheduled` (a plan was made, nothing executed), `planned` (a dry run), or `skipped`,
    for `reason`. scheduled: the instant of the plan that was made, "" for none. clustered: instants of the
    plans executed. pending: those that are left. instant: the last one done, "" for none. num_replaced
    counts the file groups rewritten, or, when nothing was executed, planned; num_outputs the files they are
    planned to become; num_files, num_writes and bytes_written those that were made, their rows and sizes.
    files: base and log files that are rewritten, paths in the table by instant of the plan; "" stands for
    the plan of a dry run.
    """

    clustered: list[str]
    num_groups: int
    num_replaced: int
    num_outputs: int
    action: str = "replacecommit"
    operation: str = "cluster"


class Clustering(RewriteService[ClusteringPlan]):
    """Clusterings of one table."""

    name = "clustering"
    executed_as = "clustered"
    completes_as = Action.REPLACECOMMIT

    @property
    def requested_as(self) -> Action:
        return self.target.table.layout.clustering

    def pending(self, timeline: Timeline) -> list[Instant]:
        return pending(timeline, self.target)

    def read_plan(self, instant: Instant) -> ClusteringPlan:
        return read_plan(self.target, instant)[1]

    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[ClusteringPlan]:
        return plan_now(self.target, timeline)

    def content(self, plan: ClusteringPlan) -> bytes:
        return RequestedReplace(OPERATION, plan.to_record(), dict(self.target.extra), 1).to_bytes()

    def execute(self, instant: Instant) -> RewrittenPlan[ClusteringPlan]:
        """Cancels an outdated plan, which would fail each time and keep writers away from its file groups."""
        try:
            return execute(self.started(), self.target, instant, self.progress)
        except OutdatedPlan as error:
            cancel_outdated(self.target, instant.time, error, self.progress)
            advice = "it was cancelled, and a new one can be scheduled"
            raise OutdatedPlan(f"{error.message}: {advice}", **error.values) from None


def cluster(request: RewriteRequest) -> ClusteringResult:
    """Schedule, execute or both; returns when all commits are visible. See PlannedService.run.

    Raises ConfigError, too, for sort columns that can't be used; nothing is changed then.
    """
    target = ServiceTable.open(
        request.table, request.options, request.extra_metadata, dry_run=request.dry_run
    )
    check(target)
    service = Clustering(target, request.engine, request.progress)
    done = service.run(
        request.mode, InstantTime(request.instant) if request.instant else None, request.dry_run
    )
    groups = [group for plan in done.plans.values() for group in plan.groups]
    return ClusteringResult(
        **service.report(done, request.mode, request.dry_run),
        partitions=sorted({item.partition_path for group in groups for item in group.slices}),
        num_groups=len(groups),
        num_replaced=sum(len(group.slices) for group in groups),
        num_outputs=sum(group.outputs for group in groups),
        files={time: _files(plan.slices) for time, plan in done.plans.items()},
    )


def _files(slices: list[SliceInfo]) -> list[str]:
    return [
        join(item.partition_path, name)
        for item in slices
        for name in (*([item.base_name] if item.base_name else ()), *item.log_names)
    ]


class ClusteringEntry(PlannerEntry):
    actions = frozenset({Action.REPLACECOMMIT, Action.CLUSTERING})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        text = f"rewrite {plural(result['num_replaced'], 'file group')} as {result['num_outputs']}"
        storage, base_path = target.storage, target.base_path
        files = [join(base_path, file) for group in result["files"].values() for file in group]
        read = sum(info.size for info in map(storage.info, files) if info)
        return Work(text, len(files), read, [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return strategy.due(timeline, target.storage, target.config).reason

    def skipped_by_default(self, target: ServiceTable) -> str:
        """A clustering rewrites a whole table, which not every table wants."""
        if any(target.config[switch] for switch in (INLINE, SCHEDULE_INLINE, ASYNC)):
            return ""
        return f"no setting asks for it: name the service, or set {ASYNC.name}"
