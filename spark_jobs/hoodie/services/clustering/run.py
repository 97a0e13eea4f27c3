"""A clustering job, and what it reports."""

from __future__ import annotations

from dataclasses import dataclass

from hoodie.errors import HoodieError
from hoodie.format.names import join
from hoodie.services.clustering.execute import OutdatedPlan, check, execute, pending, read_plan
from hoodie.services.clustering.schedule import plan_now
from hoodie.services.planned import DuePlan, RewriteResult, RewriteService, RewrittenPlan
from hoodie.services.request import RewriteRequest
from hoodie.services.rollback.run import cancel
from hoodie.services.service_table import ServiceTable
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clustering import OPERATION, ClusteringPlan, RequestedReplace, SliceInfo
from hoodie.timeline.time import InstantTime


@dataclass(frozen=True, kw_only=True)
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
    requested_as = Action.REPLACECOMMIT
    completes_as = Action.REPLACECOMMIT

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
            try:
                cancel(self.target, instant.time, self.progress)
            except HoodieError as why:
                by = f"hoodie cancel --instant {instant.time}"
                advice = f"cancel it ({by}), which failed here ({why.message})"
            else:
                advice = "it was cancelled, and a new one can be scheduled"
            raise OutdatedPlan(f"{error.message}: {advice}", **error.values) from None


def cluster(request: RewriteRequest) -> ClusteringResult:
    """Schedule, execute or both; returns when all commits are visible. See PlannedService.run.

    Raises ConfigError, too, for sort columns that can't be used; nothing is changed then.
    """
    target = ServiceTable.open(request.table, request.options, request.extra_metadata)
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
