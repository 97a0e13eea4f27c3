"""A compaction plan, made from a view of the table; it is scheduled while no writer is at work.

From then on writers append to logs of the plan's instant, so the plan must hold every log file before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hoodie.config.key import Config
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.read.verify import refuse_damaged
from hoodie.services.compaction import strategy, trigger
from hoodie.services.compaction.settings import STRATEGY
from hoodie.services.planned import DuePlan
from hoodie.services.service_table import ServiceTable
from hoodie.table.bootstrap import source_uri
from hoodie.table.compaction_operation import compaction_operation
from hoodie.table.listing import StorageListing
from hoodie.table.pending import BusyGroups, busy_groups
from hoodie.table.view import FileSlice, Listing, TimelineView, file_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action
from hoodie.timeline.models.compaction import CompactionOperation, CompactionPlan
from hoodie.timeline.time import InstantTime

_LISTERS = 8


def plan(
    snapshot: TimelineView, listing: Listing, partitions: Sequence[str], busy: BusyGroups, config: Config
) -> DuePlan[CompactionPlan]:
    """The latest slices that have logs, as the strategy chooses; `busy` groups are left out."""
    wanted = strategy.candidates(sorted(partitions), config)
    with ThreadPoolExecutor(_LISTERS) as pool:
        found = pool.map(lambda partition: _with_logs(snapshot, listing, partition), wanted)
        slices = [item for group in found for item in group]
    if not slices:
        return DuePlan(None, f"no file slice has log files{' that are in no pending plan' if busy else ''}")
    free = [item for item in slices if (item.partition, item.file_id) not in busy]
    if not free:
        return DuePlan(None, f"all {len(slices)} file slices with logs are in pending plans already")
    chosen = strategy.choose([compaction_operation(item, config[MAX_FILE_SIZE]) for item in free], config)
    if not chosen:
        name = config[STRATEGY].value
        return DuePlan(None, f"the strategy {name} takes none of the {len(free)} file slices with logs")
    return DuePlan(CompactionPlan(chosen))


def plan_now(
    target: ServiceTable, timeline: Timeline, now: InstantTime | None = None
) -> DuePlan[CompactionPlan]:
    """What a compaction scheduled at the instant `now` would do, if one is due. Raises TableError for slices
    of it that lack files.
    """
    due = trigger.due(timeline, target.config, now or target.next_time(timeline))
    if not due.due:
        return DuePlan(None, f"no compaction is due: {due.reason}")
    storage, base_path = target.storage, target.base_path
    snapshot, listing = TimelineView.of(timeline, storage), StorageListing(storage, base_path)
    planned = plan(
        snapshot,
        listing.files,
        listing.partitions(),
        {**busy_groups(_without_log_compactions(timeline), storage), **target.changing_groups(timeline)},
        target.config,
    )
    if planned.plan is None:
        return planned
    groups = [item.group for item in planned.plan.operations]
    refuse_damaged(timeline, storage, target.props, snapshot, listing.files, groups)

    def named(operation: CompactionOperation) -> CompactionOperation:
        uri = source_uri(storage, base_path, operation.partition_path, operation.base_name)
        return replace(operation, bootstrap_file=uri) if uri else operation

    return replace(planned, plan=replace(planned.plan, operations=tuple(map(named, planned.plan.operations))))


def _with_logs(snapshot: TimelineView, listing: Listing, partition: str) -> list[FileSlice]:
    latest = (group[0] for group in file_slices(snapshot, listing, partition).values())
    return [item for item in latest if item.logs]


def _without_log_compactions(timeline: Timeline) -> Timeline:
    """Log compactions don't prevent a compaction: they copy log blocks, and end once there is one."""
    instants = (instant for instant in timeline if instant.action is not Action.LOGCOMPACTION)
    return Timeline(timeline.base_path, tuple(instants), timeline.mtimes)
