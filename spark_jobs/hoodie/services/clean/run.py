"""A clean job, and what it reports."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hoodie.errors import CommitConflict, HoodieError
from hoodie.services.clean.examined import Examined
from hoodie.services.clean.execute import CleanedPlan, execute, read_plan
from hoodie.services.clean.plan import (
    View,
    examined,
    make,
    savepointed_files,
    why_not_due,
    why_nothing,
)
from hoodie.services.clean.policy import Retention
from hoodie.services.planned import DuePlan, PlannedService, ScheduledPlan
from hoodie.services.request import PlannedRequest
from hoodie.services.results import ServiceResult
from hoodie.services.retention import check_retention
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, refuse
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant
from hoodie.timeline.models.clean import CleanPlan
from hoodie.timeline.time import NO_TIME, InstantTime


@dataclass(frozen=True, kw_only=True)
class CleanResult(ServiceResult):
    """What a clean job did, or, with dry_run, would do.

    status: `cleaned`, `scheduled` (a plan was made, nothing deleted), `planned` (a dry run), or `skipped`,
    for `reason`. scheduled: the instant of the plan that was made, "" for none. cleaned: instants of the
    plans carried out. pending: those that are left. instant: the last one done, "" for none. earliest: the
    instant from which on every state of the table can be read after the newest of these plans, "" where
    they do not say it. files: what goes, paths in the table by instant; "" stands for the plan of a dry run.
    failed: files that could not be deleted; the next clean tries again. bytes: of the files deleted, or
    planned.
    """

    mode: str
    policy: str
    scheduled: str
    cleaned: list[str]
    pending: list[str]
    earliest: InstantTime
    partitions: list[str]
    deleted_partitions: list[str]
    num_files: int
    bytes: int
    files: dict[str, list[str]]
    failed: list[str]
    action: str = "clean"
    operation: str = "clean"


class Cleaning(PlannedService[CleanPlan, CleanedPlan]):
    """Cleans of one table. Writers may go on while files are deleted, not while a plan is made."""

    name = "clean"
    executed_as = "cleaned"
    requested_as = Action.CLEAN
    completes_as = Action.CLEAN
    _examined: Examined | None = None

    def read_plan(self, instant: Instant) -> CleanPlan | None:
        return read_plan(self.target, instant, remove=False)

    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[CleanPlan]:
        target = self.target
        retention = Retention.of(target.config, int(time.time() * 1000), target.props.timeline_utc)
        reason = why_nothing(timeline, retention)
        if reason:
            return DuePlan(None, reason)
        view = View.of(target.table, timeline, bool(target.props.partition_fields))
        reason = why_not_due(view, target.config)
        if reason:
            return DuePlan(None, reason)
        due = make(view, retention, target.config)
        self._examined = examined(view, retention, target.config) if due.plan is None else None
        return due

    def schedule(self) -> ScheduledPlan[CleanPlan]:
        """As of all planned services; also notes how far nothing was found, as far as that can be written."""
        done = super().schedule()
        if done.due.plan is None and self._examined is not None:
            with contextlib.suppress(OSError, HoodieError):
                self._examined.save(self.target.storage, self.target.base_path)
        return done

    def content(self, plan: CleanPlan) -> bytes:
        return plan.to_bytes()

    def check_scheduled(self, instant: Instant, plan: CleanPlan) -> None:
        """Savepoints are made while services work: of two at once the second finds the other, and fails."""
        target = self.target
        kept = frozenset(savepointed_files(target.timeline(), target.storage))
        if any(file.name in kept for _, file in plan):
            target.table.store.delete_states([instant])
            raise CommitConflict(
                f"a savepoint was made while clean {instant.time} of {target.base_path} was planned, and "
                "keeps files that it was going to delete; run it again",
                instant=instant.time,
            )

    def execute(self, instant: Instant) -> CleanedPlan | None:
        return execute(self.target, instant, self.progress)


def clean(request: PlannedRequest) -> CleanResult:
    """Plan, carry out or both; see PlannedService.run. Raises HoodieError."""
    target = ServiceTable.open(request.table, request.options)
    check_retention(target.config)
    refuse(target.props, "clean", "cleaned", Feature.OTHER_BASE_FILES)
    service = Cleaning(target, request.progress)
    done = service.run(request.mode, dry_run=request.dry_run)
    plans = list(done.plans.values())
    last = plans[-1] if plans else None
    return CleanResult(
        **service.report(done, request.mode, request.dry_run),
        policy=last.policy if last else Retention.of(target.config, 0, True).policy.value,
        earliest=last.earliest.time if last and last.earliest else NO_TIME,
        partitions=sorted({partition for plan in plans for partition in plan.files}),
        deleted_partitions=_deleted_partitions(done.executed, plans),
        num_files=_num_files(done.executed, plans),
        bytes=sum(each.bytes for each in done.executed) if done.executed else done.scheduled.due.bytes,
        files={instant: _paths(plan) for instant, plan in done.plans.items()},
        failed=[path for each in done.executed for path in each.failed],
    )


def _deleted_partitions(executed: Sequence[CleanedPlan], plans: Sequence[CleanPlan]) -> list[str]:
    """The partitions that were deleted, or, where no plan was executed, are planned to be."""
    if executed:
        return sorted({partition for each in executed for partition in each.deleted_partitions})
    return sorted({partition for plan in plans for partition in plan.delete_partitions})


def _num_files(executed: Sequence[CleanedPlan], plans: Sequence[CleanPlan]) -> int:
    """Files deleted, or, where no plan was executed, planned."""
    if executed:
        done = (item for each in executed for item in each.metadata.partitions.values())
        return sum(len(item.deleted) for item in done)
    return sum(plan.num_files for plan in plans)


def _paths(plan: CleanPlan) -> list[str]:
    return [f"{partition}/{file.name}" if partition else file.name for partition, file in plan]
