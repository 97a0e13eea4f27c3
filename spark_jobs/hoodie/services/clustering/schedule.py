"""A clustering plan, made from a view of the table; it is scheduled while no writer is at work.

From then on the plan's file groups stay as they are: updates of them are refused until it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial

from hoodie.config.key import Config
from hoodie.read.verify import check_undamaged
from hoodie.services.clustering import resize, strategy
from hoodie.services.clustering.order import Order, check_not_repeated
from hoodie.services.clustering.settings import (
    BUILD_METHOD,
    EXECUTION_CLASS,
    LAYOUT,
    MAX_GROUP_BYTES,
    MAX_GROUPS,
    RESIZE_CLASS,
    SMALL_FILE_LIMIT,
    SORT_COLUMNS,
    TARGET_BYTES,
    Layout,
)
from hoodie.services.planned import DuePlan
from hoodie.services.rewrite_slices import rewrite_context
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.bootstrap import with_source, with_source_size
from hoodie.table.committed_files import CommittedFiles
from hoodie.table.hash_ring import Rings
from hoodie.table.listing import StorageListing
from hoodie.table.pending import BusyGroups, busy_groups
from hoodie.table.view import FileSlice, Listing, TimelineView, file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clustering import ClusteringGroup, ClusteringPlan
from hoodie.timeline.time import NO_TIME, InstantTime

_LISTERS = 8
#: whether rewriting slices into so many files would change nothing
Settled = Callable[[Sequence[FileSlice], int], bool]


def plan(
    snapshot: TimelineView,
    listing: Listing,
    partitions: Sequence[str],
    busy: BusyGroups,
    config: Config,
    settled: Settled,
    sized: Callable[[FileSlice], FileSlice] = lambda item: item,
) -> DuePlan[ClusteringPlan]:
    """Small slices, as the strategy chooses and groups them; `busy` file groups are left out. `sized` returns
    a slice with the sizes that count.
    """
    wanted = strategy.candidates(partitions, config)
    if not wanted:
        return DuePlan(None, f"the settings choose none of the {len(partitions)} partitions")

    def look(partition: str) -> list[FileSlice]:
        latest = (sized(group[0]) for group in file_slices(snapshot, listing, partition).values())
        return [item for item in latest if strategy.eligible(item, config)]

    with ThreadPoolExecutor(_LISTERS) as pool:
        small = list(pool.map(look, wanted))
    count = sum(map(len, small))
    if not count:
        limit = config[SMALL_FILE_LIMIT]
        return DuePlan(None, f"no file is smaller than {limit} bytes ({SMALL_FILE_LIMIT.name})")
    free = [[item for item in items if (item.partition, item.file_id) not in busy] for items in small]
    if not any(free):
        return DuePlan(None, f"all {count} small file slices are in pending plans already")
    chosen = [group for items in free for group in strategy.groups(items, config, settled)]
    if not chosen:
        return DuePlan(None, f"rewriting the {sum(map(len, free))} small file slices would change nothing")
    groups = tuple(chosen[: config[MAX_GROUPS]])
    return DuePlan(ClusteringPlan(groups, EXECUTION_CLASS, params(config)))


def resized(
    rings: Rings,
    listing: Listing,
    partitions: Sequence[str],
    busy: BusyGroups,
    config: Config,
    settled: Settled,
) -> DuePlan[ClusteringPlan]:
    """Buckets of consistent hashing to split and to merge. Partitions with a pending clustering wait for it:
    rings change one clustering at a time.
    """
    wanted = strategy.candidates(partitions, config)
    pending = {group[0] for group, instant in busy.items() if instant.replaces}
    rings.load(wanted)

    def look(partition: str) -> list[ClusteringGroup]:
        ring = rings.of(partition)
        if ring is None or partition in pending:
            return []
        latest = (group[0] for group in file_slices(rings.snapshot, listing, partition).values())
        free = [item for item in latest if (partition, item.file_id) not in busy and (item.base or item.logs)]
        return resize.groups(ring, free, config, settled)

    with ThreadPoolExecutor(_LISTERS) as pool:
        chosen = [group for groups in pool.map(look, wanted) for group in groups]
    if not chosen:
        return DuePlan(None, f"no bucket of the {len(wanted)} partitions is to be split or merged")
    return DuePlan(ClusteringPlan(tuple(chosen[: config[MAX_GROUPS]]), RESIZE_CLASS, params(config)))


def params(config: Config) -> dict[str, str]:
    """Strategy parameters of a plan: how it is to be executed. Apache Hudi reads the sort columns from them,
    and the rest from its own settings.
    """
    sizes = {key.name: str(config[key]) for key in (TARGET_BYTES, MAX_GROUP_BYTES)}
    sorted_by = config[SORT_COLUMNS]
    if not sorted_by:
        return sizes
    columns = {SORT_COLUMNS.name: ",".join(sorted_by)}
    if config[LAYOUT] is not Layout.LINEAR:
        columns |= {LAYOUT.name: config[LAYOUT].value, BUILD_METHOD.name: config[BUILD_METHOD].value}
    return {**columns, **sizes}


def plan_now(target: ServiceTable, timeline: Timeline) -> DuePlan[ClusteringPlan]:
    """What a clustering scheduled now would do, if one is due. TableError where its slices lack files."""
    storage, base_path, config = target.storage, target.base_path, target.config
    due = strategy.due(timeline, storage, config)
    if not due.due:
        return DuePlan(None, f"no clustering is due: {due.reason}")
    check_not_repeated(config[SORT_COLUMNS])
    snapshot, committed = target.table.view_of(timeline), CommittedFiles.of(target.table)
    order = Order.of(params(config), config)
    if order is not None:
        order.check(rewrite_context(target, NO_TIME, "cluster").file_schema)
    listing = StorageListing(storage, base_path)
    settled = _settled(timeline, storage, config)
    if resize.ringed(target, timeline):
        rings, busy = Rings(target.table.ref, snapshot), busy_groups(timeline, storage)
        planned = resized(rings, listing.files, listing.partitions(), busy, config, settled)
        if planned.plan is not None:
            taken = [item.group for item in planned.plan.slices]
            check_undamaged(committed, snapshot, listing.files, taken)
        return planned
    planned = plan(
        snapshot,
        listing.files,
        listing.partitions(),
        {**busy_groups(timeline, storage), **target.changing_groups(timeline)},
        config,
        settled,
        partial(with_source_size, storage),
    )
    if planned.plan is None:
        return planned
    taken = [item.group for item in planned.plan.slices]
    check_undamaged(committed, snapshot, listing.files, taken)
    named = partial(with_source, storage, base_path)
    groups = (replace(group, slices=tuple(map(named, group.slices))) for group in planned.plan.groups)
    return replace(planned, plan=replace(planned.plan, groups=tuple(groups)))


def _settled(timeline: Timeline, storage: Storage, config: Config) -> Settled:
    """Slices without logs that one clustering made with the same parameters; where no order is wanted, also
    those that would become as many files as they are.
    """
    wanted = params(config)

    @cache
    def made_so(instant: InstantTime) -> bool:
        found = Instant(instant, Action.REPLACECOMMIT, State.COMPLETED)
        if found not in timeline.instants:
            return False
        record = timeline.clustering_plan(found, storage)
        return record is not None and dict(ClusteringPlan.from_record(record).params) == wanted

    def settled(slices: Sequence[FileSlice], outputs: int) -> bool:
        if any(item.logs or item.base is None for item in slices):
            return False
        if not config[SORT_COLUMNS] and len(slices) <= outputs:
            return True
        instants = {item.instant for item in slices}
        return len(instants) == 1 and made_so(instants.pop())

    return settled
