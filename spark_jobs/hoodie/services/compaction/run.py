"""A compaction job, and what it reports.

Compaction, as the planner knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hoodie.format.names import join
from hoodie.services.compaction import schedule
from hoodie.services.compaction.execute import check, execute, read_plan
from hoodie.services.compaction.schedule import plan_now
from hoodie.services.planned import DuePlan, RewriteResult, RewriteService, RewrittenPlan
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import RewriteRequest
from hoodie.services.service_table import ServiceTable
from hoodie.table.properties import TableType
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.compaction import TOTAL_LOG_FILES_SIZE, CompactionOperation, CompactionPlan
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True, kw_only=True)
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

    name = "compaction"
    executed_as = "compacted"
    requested_as = Action.COMPACTION
    completes_as = Action.COMMIT

    def read_plan(self, instant: Instant) -> CompactionPlan:
        return read_plan(self.target, instant)

    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[CompactionPlan]:
        return plan_now(self.target, timeline, now)

    def content(self, plan: CompactionPlan) -> bytes:
        return replace(plan, extra_metadata=self.target.extra or None).to_bytes()

    def execute(self, instant: Instant) -> RewrittenPlan[CompactionPlan]:
        return execute(self.started(), self.target, instant, self.progress)


def compact(request: RewriteRequest) -> CompactionResult:
    """Schedule, execute or both; returns when all commits are visible. See PlannedService.run."""
    target = ServiceTable.open(request.table, request.options, request.extra_metadata)
    check(target)
    service = Compaction(target, request.engine, request.progress)
    done = service.run(
        request.mode, InstantTime(request.instant) if request.instant else None, request.dry_run
    )
    operations = [item for plan in done.plans.values() for item in plan.operations]
    return CompactionResult(
        **service.report(done, request.mode, request.dry_run),
        partitions=sorted({item.partition_path for item in operations}),
        num_slices=len(operations),
        num_log_files=sum(len(item.log_files) for item in operations),
        log_bytes=int(sum(item.metric(TOTAL_LOG_FILES_SIZE) for item in operations)),
        files={time: _logs(plan.operations) for time, plan in done.plans.items()},
    )


def _logs(operations: Sequence[CompactionOperation]) -> list[str]:
    return [join(item.partition_path, name) for item in operations for name in item.log_names]


class CompactionEntry(PlannerEntry):
    actions = frozenset({Action.COMPACTION})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        logs, slices = result["num_log_files"], result["num_slices"]
        text = f"merge {plural(logs, 'log file')} of {plural(slices, 'file slice')}" if slices else ""
        return Work(text, logs, result["log_bytes"], [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return schedule.due(timeline, target.config, target.next_time(timeline)).reason

    def not_applicable(self, target: ServiceTable) -> str:
        if target.props.table_type is TableType.MERGE_ON_READ:
            return ""
        return f"a {target.props.table_type.value} table has no logs"
