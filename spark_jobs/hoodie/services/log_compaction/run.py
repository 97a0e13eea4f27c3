"""Log compaction: its job, its entry of the planner, its plan (Apache Hudi 1.2.0:
HoodieLogCompactionPlanGenerator, ScheduleCompactionActionExecutor.needLogCompact).

A plan takes the logs of the latest slices that have enough log blocks. Readers put what is made of them in
the place of the newest one. So of the logs in the order of reading it takes those before the oldest write
that is not completed, as Apache Hudi, whose plans skip that log, does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any

from hoodie.errors import ConfigError
from hoodie.format.settings import MAX_FILE_SIZE
from hoodie.read.verify import check_undamaged
from hoodie.services.compaction import execute as compaction
from hoodie.services.compaction.run import (
    Compaction,
    CompactionEntry,
    CompactionResult,
    Since,
    deltas_since,
    outcome,
    slices_with_logs,
)
from hoodie.services.compaction.settings import LOG_BLOCKS, LOG_ENABLED, LOG_INLINE
from hoodie.services.log_compaction.execute import SERVICE, execute
from hoodie.services.planned import DuePlan, OutdatedPlan, RewrittenPlan
from hoodie.services.planner.entry import Work
from hoodie.services.request import RewriteRequest
from hoodie.services.rollback.run import cancel_outdated
from hoodie.services.service_table import ServiceTable
from hoodie.storage import Storage
from hoodie.table.bootstrap import with_source
from hoodie.table.committed_files import CommittedFiles
from hoodie.table.compaction_operation import compaction_operation
from hoodie.table.listing import StorageListing
from hoodie.table.log_scan import scan_slice
from hoodie.table.pending import busy_groups, earlier_write
from hoodie.table.view import FileSlice, TimelineView
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, Kind
from hoodie.timeline.models.compaction import CompactionPlan, PlannedStrategy
from hoodie.timeline.time import InstantTime

#: the executor that Apache Hudi's plans name
_EXECUTOR = PlannedStrategy(
    compactor_class="org.apache.hudi.table.action.compact.LogCompactionExecutionHelper", params={}
)


def check(target: ServiceTable) -> None:
    """Raises ConfigError for a table whose logs can't be compacted into logs, or not here."""
    compaction.check(target)
    if why := _too_old(target):
        raise ConfigError(f"table {target.props.name!r} is {why}", table=target.props.name)


def _too_old(target: ServiceTable) -> str:
    """Why the table's version has no log compaction; "" where it has."""
    if target.table.timeline.layout.has_completion_time:
        return ""
    return (
        f"of version {target.props.version}, in which readers of Apache Hudi 0.15.0 take what a log "
        "compaction makes for new updates, unless hoodie.metadata.optimized.log.blocks.scan.enable is set: "
        "compact it (hoodie compact), or upgrade it (hoodie upgrade)"
    )


def due(timeline: Timeline, target: ServiceTable) -> tuple[bool, str]:
    """(is a log compaction due, the numbers behind the answer, for people)"""
    pending = timeline.filter([Action.LOGCOMPACTION], completed=False)
    if pending:
        return False, f"log compaction {pending[-1].time} is pending"
    since = Since.last_compaction(timeline)
    if since is None:
        return False, "the table has no delta commits"
    count, start, wanted = since.commits, since.instant, target.config[LOG_BLOCKS]
    deltas = timeline.filter([Action.DELTACOMMIT], completed=True)
    last = [item for item in deltas if timeline.kind_from_listing(item) is Kind.LOG_COMPACTION]
    if last and (later := len(deltas_since(timeline, last[-1].time, deltas))) < count:
        count, start = later, last[-1].time
    return count >= wanted, f"{count} of {wanted} delta commits since {start} ({LOG_BLOCKS.name})"


def plan_now(target: ServiceTable, timeline: Timeline) -> DuePlan[CompactionPlan]:
    """What a log compaction scheduled now would do, if one is due. Raises TableError for slices of it that
    lack files.
    """
    is_due, reason = due(timeline, target)
    if not is_due:
        return DuePlan(None, f"no log compaction is due: {reason}")
    storage, config, snapshot = target.storage, target.config, target.table.view_of(timeline)
    listing, busy = StorageListing(storage, target.base_path), busy_groups(timeline, storage)
    found = slices_with_logs(snapshot, listing.files, sorted(listing.partitions()))
    free = [item for item in found if (item.partition, item.file_id) not in busy]
    settled = [_settled(timeline, item) for item in free]
    written = {item.time for item in timeline.commits() if timeline.kind_from_listing(item) is Kind.WRITE}
    wanted = config[LOG_BLOCKS]
    chosen = [item for item in settled if _has_blocks(storage, item, snapshot, written, wanted)]
    if not chosen:
        slices = plural(len(found), "file slice")
        return DuePlan(
            None, f"none of {slices} with logs has {wanted} log blocks to compact ({LOG_BLOCKS.name})"
        )
    groups = [(item.partition, item.file_id) for item in chosen]
    check_undamaged(CommittedFiles.of(target.table), snapshot, listing.files, groups)
    operations = [compaction_operation(item, config[MAX_FILE_SIZE]) for item in chosen]
    return DuePlan(
        CompactionPlan(
            tuple(with_source(storage, target.base_path, item) for item in operations),
            strategy=_EXECUTOR,
            preserve_metadata=True,
        )
    )


def _settled(timeline: Timeline, item: FileSlice) -> FileSlice:
    """With the logs that no write, once it is completed, adds a log before."""
    logs = tuple(log for log in item.logs if earlier_write(timeline, log.instant) is None)
    return replace(item, logs=logs)


def _has_blocks(
    storage: Storage, item: FileSlice, snapshot: TimelineView, written: Set[InstantTime], wanted: int
) -> bool:
    """Whether so many blocks count; those that were compacted before do not. Each log file has one at least,
    so headers are read only where there are few files, or where not all are of instants that wrote rows.
    """
    if len(item.logs) >= wanted and all(log.instant in written for log in item.logs):
        return True
    return bool(item.logs) and len(scan_slice(storage, item, snapshot).queue) >= wanted


class LogCompaction(Compaction):
    """Log compactions of one table."""

    name = SERVICE
    requested_as = Action.LOGCOMPACTION
    completes_as = Action.DELTACOMMIT

    def read_plan(self, instant: Instant) -> CompactionPlan:
        return compaction.read_plan(self.target, instant, SERVICE)

    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[CompactionPlan]:
        return plan_now(self.target, timeline)

    def execute(self, instant: Instant) -> RewrittenPlan[CompactionPlan] | None:
        """Cancels an outdated plan, which does nothing."""
        try:
            return execute(self.started(), self.target, instant, self.progress)
        except OutdatedPlan as error:
            cancel_outdated(self.target, instant.time, error, self.progress)
            return None


def compact_logs(request: RewriteRequest) -> CompactionResult:
    """Schedule, execute or both; returns when all commits are visible. See PlannedService.run."""
    target = ServiceTable.open(
        request.table, request.options, request.extra_metadata, dry_run=request.dry_run
    )
    check(target)
    service = LogCompaction(target, request.engine, request.progress)
    return CompactionResult(
        **outcome(service, request), action=Action.LOGCOMPACTION.value, operation="log-compact"
    )


class LogCompactionEntry(CompactionEntry):
    actions = frozenset({Action.LOGCOMPACTION})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        work = super().work(target, result)
        return replace(work, text=work.text and f"{work.text} into one log a slice")

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return due(timeline, target)[1]

    def not_applicable(self, target: ServiceTable) -> str:
        why = super().not_applicable(target)
        if why or not (too_old := _too_old(target)):
            return why
        pending = target.table.timeline.filter(self.actions, completed=False)
        text = "; Apache Hudi runs the pending one, hoodie cancel drops it" if pending else ""
        return f"the table is {too_old}{text}"

    def skipped_by_default(self, target: ServiceTable) -> str:
        if target.config[LOG_ENABLED] or target.config[LOG_INLINE]:
            return ""
        return f"{LOG_ENABLED.name} is off"
