"""Compaction: its job, its entry of the planner, its plan.

A plan says which file slices are compacted, and in which order (Apache Hudi 0.15.0's strategies). It is made
from a view of the table while no writer is at work, when it is due (ScheduleCompactionActionExecutor). From
then on writers append to logs of the plan's instant, so the plan holds every log file before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, ClassVar

from hoodie.config.key import Config
from hoodie.errors import ConfigError
from hoodie.format.names import join
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.read.verify import check_undamaged
from hoodie.services.compaction.execute import check, execute, read_plan
from hoodie.services.compaction.settings import (
    MAX_DELTA_COMMITS,
    MAX_DELTA_SECONDS,
    NUM_THRESHOLD,
    SIZE_THRESHOLD,
    STRATEGY,
    TARGET_IO,
    TARGET_PARTITIONS,
    TRIGGER,
    Strategy,
    Trigger,
)
from hoodie.services.planned import DuePlan, RewriteResult, RewriteService, RewrittenPlan
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import RewriteRequest
from hoodie.services.service_table import ServiceTable
from hoodie.table.bootstrap import with_source
from hoodie.table.committed_files import CommittedFiles
from hoodie.table.compaction_operation import compaction_operation
from hoodie.table.listing import StorageListing
from hoodie.table.pending import BusyGroups, busy_groups, without_log_compactions
from hoodie.table.properties import TableType
from hoodie.table.view import FileSlice, Listing, TimelineView, file_slices
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import parse_instant
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.compaction import (
    TOTAL_IO_MB,
    TOTAL_LOG_FILES_SIZE,
    CompactionOperation,
    CompactionPlan,
)
from hoodie.timeline.time import REQUESTED, InstantTime

_MEGABYTE = 1 << 20
#: 2024/05/31, 2024-05-31, 20240531, and each with field=value parts
_DAY = re.compile(r"(\d{4})([/-]?)(\d{1,2})\2(\d{1,2})(?!\d)")


def candidates(partitions: Sequence[str], config: Config) -> list[str]:
    """The partitions that have to be listed.

    Raises ConfigError for day_based when no partition is a day; those that are none count as the oldest.
    """
    if config[STRATEGY] is not Strategy.DAY_BASED:
        return list(partitions)
    days = {partition: _day(partition) for partition in partitions}
    if partitions and not any(days.values()):
        raise ConfigError(
            f"{STRATEGY.name}={Strategy.DAY_BASED.value} needs partitions that are days, such as 2024/05/31 "
            f"or day=2024-05-31; this table has {partitions[0]!r}. Use another strategy",
            partition=partitions[0],
        )
    newest = sorted(partitions, key=lambda partition: days[partition] or date.min, reverse=True)
    return newest[: config[TARGET_PARTITIONS]]


def choose(operations: Sequence[CompactionOperation], config: Config) -> tuple[CompactionOperation, ...]:
    """The operations of a plan, out of those of all slices with logs in `candidates`."""
    strategy: Strategy = config[STRATEGY]
    chosen = list(operations)
    if strategy is Strategy.LOG_FILE_SIZE:
        threshold = config[SIZE_THRESHOLD]
        chosen = [item for item in chosen if item.metric(TOTAL_LOG_FILES_SIZE) >= threshold]
        chosen.sort(key=lambda item: -item.metric(TOTAL_LOG_FILES_SIZE))
    elif strategy is Strategy.LOG_FILE_NUM:
        chosen = [item for item in chosen if len(item.log_files) >= config[NUM_THRESHOLD]]
        chosen.sort(key=lambda item: -len(item.log_files))
    if strategy in (Strategy.UNBOUNDED, Strategy.DAY_BASED):
        return tuple(chosen)
    return _within(chosen, config[TARGET_IO])


def _within(operations: Sequence[CompactionOperation], target: int) -> tuple[CompactionOperation, ...]:
    """The first operations, up to and with the one that uses the target up."""
    left = target
    for number, item in enumerate(operations, 1):
        left -= int(item.metric(TOTAL_IO_MB))
        if left <= 0:
            return tuple(operations[:number])
    return tuple(operations)


def _day(partition: str) -> date | None:
    plain = re.sub(r"[^/]*=", "", partition)
    match = _DAY.match(plain)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[3]), int(match[4]))
    except ValueError:
        return None


@dataclass(frozen=True)
class Due:
    """Whether a compaction is due, and the numbers behind the answer, for people."""

    due: bool
    reason: str


@dataclass(frozen=True)
class Since:
    """What happened since the last compaction. `instant` is that one, or the first delta commit."""

    commits: int
    instant: InstantTime

    @classmethod
    def last_compaction(cls, timeline: Timeline, or_request: bool = False) -> Since | None:
        """None for a table without commits. Completed commits of a merge-on-read table are compactions."""
        deltas = timeline.filter([Action.DELTACOMMIT])
        compactions = timeline.filter([Action.COMMIT], completed=True)
        requested = timeline.filter([Action.COMPACTION], completed=False) if or_request else []
        last: list[Instant] = requested or compactions
        if last:
            start = last[-1].time
            return cls(len(deltas_since(timeline, start, deltas)), start)
        return cls(len(deltas), deltas[0].time) if deltas else None


def deltas_since(timeline: Timeline, start: InstantTime, deltas: list[Instant]) -> list[Instant]:
    """The delta commits whose log files that compaction does not have: those of writers that began earlier
    and completed later are among them where slices are found by times of completion.
    """
    if not timeline.layout.has_completion_time:
        return timeline.after(start, deltas)
    return [
        item for item in deltas if item.is_after(start) or REQUESTED.after(item.completion or start, start)
    ]


def due(timeline: Timeline, config: Config, now: InstantTime) -> Due:
    """Whether a compaction is due at the instant `now`."""
    trigger: Trigger = config[TRIGGER]
    since = Since.last_compaction(timeline, trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST)
    if since is None:
        return Due(False, "the table has no delta commits")
    wanted, seconds = config[MAX_DELTA_COMMITS], config[MAX_DELTA_SECONDS]
    elapsed = int(parse_instant(now).timestamp()) - int(parse_instant(since.instant).timestamp())
    enough, late = since.commits >= wanted, elapsed >= seconds
    commits = f"{since.commits} of {wanted} delta commits since {since.instant} ({MAX_DELTA_COMMITS.name})"
    time = f"{elapsed} of {seconds} s since {since.instant} ({MAX_DELTA_SECONDS.name})"
    if trigger is Trigger.TIME_ELAPSED:
        return Due(late, time)
    if trigger is Trigger.NUM_AND_TIME:
        return Due(enough and late, f"{commits} and {time}")
    if trigger is Trigger.NUM_OR_TIME:
        return Due(enough or late, f"{commits} or {time}")
    return Due(enough, commits)


_LISTERS = 8


def plan(
    snapshot: TimelineView, listing: Listing, partitions: Sequence[str], busy: BusyGroups, config: Config
) -> DuePlan[CompactionPlan]:
    """The latest slices that have logs, as the strategy chooses; `busy` groups are left out."""
    slices = slices_with_logs(snapshot, listing, candidates(sorted(partitions), config))
    if not slices:
        return DuePlan(None, f"no file slice has log files{' that are in no pending plan' if busy else ''}")
    free = [item for item in slices if (item.partition, item.file_id) not in busy]
    if not free:
        return DuePlan(None, f"all {len(slices)} file slices with logs are in pending plans already")
    chosen = choose([compaction_operation(item, config[MAX_FILE_SIZE]) for item in free], config)
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
    answer = due(timeline, target.config, now or target.next_time(timeline))
    if not answer.due:
        return DuePlan(None, f"no compaction is due: {answer.reason}")
    storage, base_path = target.storage, target.base_path
    # where log files belong to slices by times of completion, live writers are not in the way
    changing = {} if timeline.layout.has_completion_time else target.changing_groups(timeline)
    snapshot, listing = target.table.view_of(timeline), StorageListing(storage, base_path)
    planned = plan(
        snapshot,
        listing.files,
        listing.partitions(),
        # log compactions copy log blocks, and leave out what is compacted meanwhile
        {**busy_groups(without_log_compactions(timeline), storage), **changing},
        target.config,
    )
    if planned.plan is None:
        return planned
    groups = [item.group for item in planned.plan.operations]
    check_undamaged(CommittedFiles.of(target.table), snapshot, listing.files, groups)
    operations = (with_source(storage, base_path, item) for item in planned.plan.operations)
    return replace(planned, plan=replace(planned.plan, operations=tuple(operations)))


def slices_with_logs(snapshot: TimelineView, listing: Listing, partitions: Sequence[str]) -> list[FileSlice]:
    """The latest slices of these partitions that have logs, in their order."""
    with ThreadPoolExecutor(_LISTERS) as pool:
        found = pool.map(lambda partition: _with_logs(snapshot, listing, partition), partitions)
        return [item for group in found for item in group]


def _with_logs(snapshot: TimelineView, listing: Listing, partition: str) -> list[FileSlice]:
    latest = (group[0] for group in file_slices(snapshot, listing, partition).values())
    return [item for item in latest if item.logs]


@dataclass(frozen=True, kw_only=True, repr=False)
class CompactionResult(RewriteResult):
    """What a compaction job did, or, with dry_run, would do.

    status: `compacted`, `scheduled` (a plan was made, nothing executed), `planned` (a dry run), or `skipped`,
    for `reason`. scheduled: the instant of the plan that was made, "" for none. compacted: instants of the
    plans executed. pending: those that are left. instant: the last one done, "" for none. Slices, log files
    and bytes of logs are those merged, or, when nothing was executed, those planned; num_writes counts rows
    written. files: the log files, paths in the table by instant of the plan; "" stands for the plan of a dry
    run.
    """

    compacted: list[str]
    num_slices: int
    num_log_files: int
    log_bytes: int
    action: str = "compaction"
    operation: str = "compact"


class Compaction(RewriteService[CompactionPlan]):
    """Compactions of one table. Completed commits of a merge-on-read table are compactions."""

    name: ClassVar[str] = "compaction"
    executed_as = "compacted"
    requested_as: ClassVar[Action] = Action.COMPACTION
    completes_as: ClassVar[Action] = Action.COMMIT

    def read_plan(self, instant: Instant) -> CompactionPlan:
        return read_plan(self.target, instant)

    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[CompactionPlan]:
        return plan_now(self.target, timeline, now)

    def content(self, plan: CompactionPlan) -> bytes:
        return replace(plan, extra_metadata=self.target.extra or None).to_bytes()

    def execute(self, instant: Instant) -> RewrittenPlan[CompactionPlan] | None:
        return execute(self.started(), self.target, instant, self.progress)


def compact(request: RewriteRequest) -> CompactionResult:
    """Schedule, execute or both; returns when all commits are visible. See PlannedService.run."""
    target = ServiceTable.open(
        request.table, request.options, request.extra_metadata, dry_run=request.dry_run
    )
    check(target)
    return CompactionResult(**outcome(Compaction(target, request.engine, request.progress), request))


def outcome(service: Compaction, request: RewriteRequest) -> dict[str, Any]:
    """Carry the request out; the fields of its CompactionResult."""
    done = service.run(
        request.mode, InstantTime(request.instant) if request.instant else None, request.dry_run
    )
    operations = [item for plan in done.plans.values() for item in plan.operations]
    return {
        **service.report(done, request.mode, request.dry_run),
        "partitions": sorted({item.partition_path for item in operations}),
        "num_slices": len(operations),
        "num_log_files": sum(len(item.log_files) for item in operations),
        "log_bytes": int(sum(item.metric(TOTAL_LOG_FILES_SIZE) for item in operations)),
        "files": {time: _logs(plan.operations) for time, plan in done.plans.items()},
    }


def _logs(operations: Sequence[CompactionOperation]) -> list[str]:
    return [join(item.partition_path, name) for item in operations for name in item.log_names]


class CompactionEntry(PlannerEntry):
    actions = frozenset({Action.COMPACTION})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        logs, slices = result["num_log_files"], result["num_slices"]
        text = f"merge {plural(logs, 'log file')} of {plural(slices, 'file slice')}" if slices else ""
        return Work(text, logs, result["log_bytes"], [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return due(timeline, target.config, target.next_time(timeline)).reason

    def not_applicable(self, target: ServiceTable) -> str:
        if target.props.table_type is TableType.MERGE_ON_READ:
            return ""
        return f"a {target.props.table_type.value} table has no logs"
