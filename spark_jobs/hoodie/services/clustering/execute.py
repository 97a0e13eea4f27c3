"""The execution of pending clustering plans, of this package and of Apache Hudi, while writers add to other
file groups.
"""

from __future__ import annotations

from functools import partial

from hoodie.engine import Engine
from hoodie.engine.task import BatchFunction
from hoodie.errors import CommitConflict, ConfigError, TableError
from hoodie.index.hashed_values import hash_fields
from hoodie.progress import ProgressCallback
from hoodie.services.clustering.order import Order
from hoodie.services.clustering.resize import ringed
from hoodie.services.clustering.resize_task import ResizeBuckets, Resized
from hoodie.services.clustering.settings import STRATEGY, TARGET_BYTES, Strategy, executes
from hoodie.services.clustering.split import planned, shares_of
from hoodie.services.clustering.task import ClusterShares
from hoodie.services.planned import RewrittenPlan
from hoodie.services.rewrite_slices import RewriteContext, rewrite_context, run_tasks
from hoodie.services.service_table import ServiceTable
from hoodie.table.buckets import refuse_buckets, refuse_rings
from hoodie.table.features import ROWS, refuse
from hoodie.table.hash_ring import Ring, Rings
from hoodie.table.listing import StorageListing
from hoodie.table.view import TimelineView, file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import stats_by_partition
from hoodie.timeline.instant import Action, Instant, Kind, State
from hoodie.timeline.models.clustering import OPERATION, ClusteringGroup, ClusteringPlan, RequestedReplace
from hoodie.write.hash_rings import RingChange, clustered_rings, ring_changes


def check(target: ServiceTable) -> None:
    """Raises ConfigError for a table that can't be clustered here."""
    refuse(target.props, "cluster", "clustered", *ROWS)
    storage, timeline, config = target.storage, target.timeline(), target.config
    resizes = config[STRATEGY] is Strategy.CONSISTENT_HASHING
    if ringed(target, timeline):
        refuse_rings(storage, timeline, ringed=True)
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
    newest = (timeline.commit(i, storage) for i in reversed(timeline.commits()))
    refuse_buckets(storage, target.props, timeline, TimelineView.of(timeline, storage), newest)


def pending(timeline: Timeline, target: ServiceTable) -> list[Instant]:
    """Clusterings to execute, oldest first. Pending replacecommits of other kinds are writes."""
    return [
        instant
        for instant in timeline.filter([Action.REPLACECOMMIT], completed=False)
        if timeline.kind(instant, target.storage) is Kind.CLUSTERING
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
        _refuse_changed(target, instant, plan)
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
        transaction.confirming(partial(_refuse_changed, target, instant, plan))
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
        task = ResizeBuckets(context, resized, hash_fields(target.config), order, preserve)
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


class OutdatedPlan(CommitConflict):
    """File groups of the plan were changed after it was made. It can never be executed."""


def read_plan(target: ServiceTable, instant: Instant) -> tuple[RequestedReplace, ClusteringPlan]:
    """Raises TableError for a plan that is torn or gone, or that only Apache Hudi can execute."""
    path = target.table.timeline.path(instant.with_state(State.REQUESTED))
    try:
        requested = RequestedReplace.from_bytes(target.storage.read(path))
    except FileNotFoundError:
        raise TableError(
            f"clustering {instant.time} has no plan: {path} is missing; restore it, or roll the clustering "
            "back",
            path=path,
        ) from None
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


def _refuse_changed(target: ServiceTable, instant: Instant, plan: ClusteringPlan) -> None:
    """Raises ConflictError when a file group has other files than the plan names: what was added would be
    lost. Writers of this package leave the groups alone; those of Apache Hudi may be set to update them. An
    earlier attempt at the plan that published late is dealt with by the publishing.
    """
    timeline = target.timeline()
    if any(item.time == instant.time for item in timeline.filter([Action.REPLACECOMMIT], completed=True)):
        return
    snapshot = TimelineView.of(timeline, target.storage)
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
