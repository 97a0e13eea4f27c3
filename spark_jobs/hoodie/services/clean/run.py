"""The modes of a clean job, and what it reports."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hoodie.errors import CommitConflict, ConflictError
from hoodie.progress import ProgressCallback, silent
from hoodie.services.clean.execute import ExecutedPlan, execute, read_plan
from hoodie.services.clean.plan import DuePlan, View, make, savepointed_files, why_not_due, why_nothing
from hoodie.services.clean.policy import Retention
from hoodie.services.planned import check_mode
from hoodie.services.results import ServiceResult, about
from hoodie.services.retention import check_retention
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, refuse
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline, delete_states
from hoodie.timeline.clean_plan import CleanPlan
from hoodie.timeline.instant import Action, Instant
from hoodie.write.transaction import Transaction


@dataclass(frozen=True, kw_only=True)
class CleanResult(ServiceResult):
    """What a clean job did, or, with dry_run, would do.

    status: `cleaned`, `scheduled` (a plan was made, nothing deleted), `planned` (a dry run), or `skipped`,
    for `reason`. scheduled: the instant of the plan that was made, "" for none. cleaned: instants of the
    plans carried out. pending: those that are left. instant: the last one done, "" for none. earliest: the
    instant from which on every state of the table can be read after the newest of these plans, "" where
    they do not tell. files: what goes, paths in the table by instant; "" stands for the plan of a dry run.
    failed: files that could not be deleted; the next clean tries again. bytes: of the files deleted, or
    planned.
    """

    mode: str
    policy: str
    scheduled: str
    cleaned: list[str]
    pending: list[str]
    earliest: str
    partitions: list[str]
    deleted_partitions: list[str]
    num_files: int
    bytes: int
    files: dict[str, list[str]]
    failed: list[str]
    action: str = "clean"
    operation: str = "clean"


@dataclass
class _Done:
    """What was done so far. `plans` are by instant; "" is that of a dry run."""

    plans: dict[str, CleanPlan] = field(default_factory=dict)
    executed: list[ExecutedPlan] = field(default_factory=list)
    scheduled: str = ""
    planned_bytes: int = 0
    reason: str = ""
    rolled_back: list[str] = field(default_factory=list)
    metadata_table_removed: bool = False


def clean(
    place: str | Table,
    mode: str = "run",
    options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    progress: ProgressCallback = silent,
) -> CleanResult:
    """Plan, carry out or both; `dry_run` writes and deletes nothing. Pending plans are finished first.

    Writers may go on while files are deleted, not while a plan is made. Raises HoodieError; cleans that were
    completed before stay completed.
    """
    started = time.monotonic()
    check_mode(mode)
    target = ServiceTable.open(place, options or {})
    check_retention(target.config)
    refuse(target.props, "clean", "cleaned", Feature.OTHER_BASE_FILES)
    done = _Done()
    if dry_run:
        _plan_only(target, mode, done)
    else:
        _run(target, mode, progress, done)
    return _result(target, mode, dry_run, done, time.monotonic() - started)


def pending(timeline: Timeline) -> list[Instant]:
    """Cleans to finish, oldest first."""
    return timeline.filter([Action.CLEAN], completed=False)


def plan_now(target: ServiceTable, timeline: Timeline) -> DuePlan:
    """What a clean of the table would do now, if one is due."""
    retention = Retention.of(target.config, int(time.time() * 1000), target.props.timeline_utc)
    reason = why_nothing(timeline, retention)
    if reason:
        return DuePlan(None, reason)
    view = View.of(timeline, target.storage, bool(target.props.partition_fields))
    reason = why_not_due(view, target.config)
    return DuePlan(None, reason) if reason else make(view, retention, target.config)


def _run(target: ServiceTable, mode: str, progress: ProgressCallback, done: _Done) -> None:
    if mode != "schedule":
        done.reason = "no clean is pending"
        if found := pending(target.table.timeline):
            _finish(target, found, progress, done)
            target.table.refresh()
    if mode != "execute":
        instant = _schedule(target, progress, done)
        if instant is not None and mode == "run":
            _finish(target, [instant], progress, done)


def _plan_only(target: ServiceTable, mode: str, done: _Done) -> None:
    timeline = target.timeline()
    if mode != "schedule":
        for instant in pending(timeline):
            plan = read_plan(target, instant, remove=False)
            if plan is not None:
                done.plans[instant.time] = plan
    done.reason = "no clean is pending"
    if mode != "execute":
        planned = plan_now(target, timeline)
        done.reason, done.planned_bytes = planned.reason, planned.bytes
        if planned.plan is not None:
            done.plans[""] = planned.plan


def _schedule(target: ServiceTable, progress: ProgressCallback, done: _Done) -> Instant | None:
    """Put a plan on the timeline if one is due, by its last listing; nothing is written when there is nothing
    to do.

    The plan that was made beside writers is taken over when nothing has happened meanwhile.
    """
    before = target.table.timeline
    planned = plan_now(target, before)
    done.reason = planned.reason
    if planned.plan is None:
        return None

    def content(timeline: Timeline, now: str) -> bytes | None:
        nonlocal planned
        if timeline.instants != before.instants:
            planned = plan_now(target, timeline)
        return planned.plan.to_bytes() if planned.plan else None

    utc = target.props.timeline_utc
    with Transaction(target.table, target.config, utc, progress=progress) as transaction:
        instant = transaction.schedule(Action.CLEAN, content)
        if instant is not None and planned.plan is not None:
            _refuse_new_savepoint(target, instant, planned.plan)
        done.rolled_back += transaction.rolled_back
        done.metadata_table_removed |= transaction.metadata_table_removed
    done.reason = planned.reason
    if instant is not None and planned.plan is not None:
        done.scheduled, done.planned_bytes = instant.time, planned.bytes
        done.plans[instant.time] = planned.plan
    return instant


def _refuse_new_savepoint(target: ServiceTable, made: Instant, plan: CleanPlan) -> None:
    """Savepoints are made beside services: of two at once the second sees the other, and gives up."""
    kept = frozenset(savepointed_files(target.timeline(), target.storage))
    if any(file.name in kept for _, file in plan):
        delete_states(target.storage, target.base_path, [made])
        raise CommitConflict(
            f"a savepoint was made while clean {made.time} of {target.base_path} was planned, and keeps "
            "files that it was going to delete; run it again",
            instant=made.time,
        )


def _finish(target: ServiceTable, instants: list[Instant], progress: ProgressCallback, done: _Done) -> None:
    """Carry out these plans. One that somebody else completes is no error."""
    for instant in instants:
        try:
            executed = execute(target, instant, progress)
        except ConflictError:
            if all(item.time != instant.time for item in target.timeline().filter([Action.CLEAN], True)):
                raise
            done.reason = f"clean {instant.time} was completed by another process"
            done.plans.pop(instant.time, None)
            continue
        if executed is not None:
            done.executed.append(executed)
            done.plans[instant.time] = executed.plan


def _result(target: ServiceTable, mode: str, dry_run: bool, done: _Done, seconds: float) -> CleanResult:
    executed = done.executed
    if executed or done.scheduled:
        target.table.refresh()
    cleaned = [each.instant for each in executed]
    deleted = sum(len(item.deleted) for each in executed for item in each.metadata.partitions.values())
    plans = done.plans
    last = next(reversed(plans.values()), None)
    status = "cleaned" if cleaned else "scheduled" if done.scheduled else "skipped"
    if dry_run:
        status = "planned" if plans else "skipped"
    return CleanResult(
        status=status,
        mode=mode,
        policy=last.policy if last else Retention.of(target.config, 0, True).policy.value,
        instant=cleaned[-1] if cleaned else done.scheduled,
        scheduled=done.scheduled,
        cleaned=cleaned,
        pending=[item.time for item in pending(target.table.timeline)],
        reason="" if plans else done.reason,
        earliest=last.earliest.time if last and last.earliest else "",
        partitions=sorted({partition for plan in plans.values() for partition in plan.files}),
        deleted_partitions=sorted(
            {partition for each in executed for partition in each.deleted_partitions}
            if executed
            else {partition for plan in plans.values() for partition in plan.delete_partitions}
        ),
        num_files=deleted if executed else sum(plan.num_files for plan in plans.values()),
        bytes=sum(each.bytes for each in executed) if executed else done.planned_bytes,
        files={instant: _paths(plan) for instant, plan in plans.items()},
        failed=[path for each in executed for path in each.failed],
        **about(target, dry_run, seconds),
        rolled_back=done.rolled_back + [time for each in executed for time in each.rolled_back],
        metadata_table_removed=done.metadata_table_removed
        or any(each.metadata_table_removed for each in executed),
    )


def _paths(plan: CleanPlan) -> list[str]:
    return [f"{partition}/{file.name}" if partition else file.name for partition, file in plan]
