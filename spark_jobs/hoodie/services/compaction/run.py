"""The modes of a compaction job, and what it reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hoodie.engine import Engine
from hoodie.format.names import join
from hoodie.services.compaction.execute import Executed, check, execute, pending, read_plan
from hoodie.services.compaction.schedule import Scheduled, plan_now, schedule
from hoodie.services.modes import PlannedService, check_mode
from hoodie.services.target import Target
from hoodie.timeline.compaction_plan import TOTAL_LOG_FILES_SIZE, CompactionOperation, CompactionPlan
from hoodie.timeline.instant import Action

Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class CompactionResult:
    """What a compaction job did, or, with dry_run, would do.

    status: `compacted`, `scheduled` (a plan was made, nothing executed), `planned` (a dry run), or `skipped`,
    for `reason`. scheduled: the instant of the plan that was made, "" for none. compacted: instants of the
    plans executed. pending: those that are left. instant: the last one done, "" for none. Slices, log files
    and bytes of logs are those merged, or, when nothing was executed, those planned; num_writes counts rows
    written. files: the log files, paths in the table by instant of the plan; "" stands for the plan of a dry
    run.
    """

    status: str
    table: str
    base_path: str
    mode: str
    dry_run: bool
    instant: str
    scheduled: str
    compacted: list[str]
    pending: list[str]
    reason: str
    partitions: list[str]
    num_slices: int
    num_log_files: int
    log_bytes: int
    num_files: int
    num_writes: int
    bytes_written: int
    files: dict[str, list[str]]
    duration_s: float
    warnings: list[str]
    rolled_back: list[str]
    metadata_table_removed: bool
    action: str = "compaction"
    operation: str = "compact"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Done:
    """What was done so far; of a dry run `planned` only, by instant, "" for the plan that would be made."""

    scheduled: Scheduled = field(default_factory=Scheduled)
    executed: list[Executed] = field(default_factory=list)
    planned: dict[str, CompactionPlan] = field(default_factory=dict)
    reason: str = ""

    @property
    def plans(self) -> dict[str, CompactionPlan]:
        """Those executed, else the one that was made, else those that would be."""
        if self.executed:
            return {each.instant: each.plan for each in self.executed}
        if self.scheduled.instant and self.scheduled.plan:
            return {self.scheduled.instant: self.scheduled.plan}
        return self.planned


def compact(
    engine: Engine,
    path: str,
    mode: str,
    instant: str | None,
    options: Mapping[str, Any],
    progress: Progress,
    extra_metadata: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> CompactionResult:
    """Schedule, execute or both; returns when all commits are visible. `dry_run` writes nothing.

    `run` executes what is pending first, as Apache Hudi does, so that the new plan begins with what it made.
    Raises HoodieError; plans that were completed before stay completed.
    """
    started = time.monotonic()
    check_mode(mode, instant)
    target = Target.open(path, options, extra_metadata or {})
    check(target)
    done = _Done()
    if dry_run:
        _plan_only(target, mode, instant, done)
        return _result(target, mode, True, done, time.monotonic() - started)
    if mode != "schedule":
        _execute_pending(engine, target, instant, progress, done)
    if mode != "execute":
        progress("schedule", f"compaction of {target.base_path}")
        done.scheduled = schedule(target)
        done.reason = done.scheduled.reason
    if mode == "run" and done.scheduled.instant:
        _execute_pending(engine, target, done.scheduled.instant, progress, done)
    return _result(target, mode, False, done, time.monotonic() - started)


def _plan_only(target: Target, mode: str, instant: str | None, done: _Done) -> None:
    """The plans that would be executed, and the one that would be made now."""
    if mode != "schedule":
        found, done.reason = _service(target).wanted(instant)
        done.planned = {item.time: read_plan(target, item) for item in found}
    if mode != "execute":
        made = plan_now(target, target.timeline())
        done.reason = made.reason
        if made.plan is not None:
            done.planned[""] = made.plan


def _service(target: Target) -> PlannedService:
    """Completed commits of a merge-on-read table are compactions."""
    return PlannedService("compaction", target, pending, Action.COMMIT)


def _execute_pending(
    engine: Engine, target: Target, instant: str | None, progress: Progress, done: _Done
) -> None:
    executed, reason = _service(target).run(instant, lambda item: execute(engine, target, item, progress))
    done.executed += executed
    done.reason = reason or done.reason


def _result(target: Target, mode: str, dry_run: bool, done: _Done, seconds: float) -> CompactionResult:
    scheduled, executed, plans = done.scheduled, done.executed, done.plans
    operations = [item for plan in plans.values() for item in plan.operations]
    compacted = [each.instant for each in executed]
    status = "compacted" if compacted else "scheduled" if scheduled.instant else "skipped"
    if dry_run:
        status = "planned" if plans else "skipped"
    return CompactionResult(
        status=status,
        table=target.props.name,
        base_path=target.base_path,
        mode=mode,
        dry_run=dry_run,
        instant=compacted[-1] if compacted else scheduled.instant,
        scheduled=scheduled.instant,
        compacted=compacted,
        pending=_service(target).pending_times,
        reason="" if plans else done.reason,
        partitions=sorted({item.partition_path for item in operations}),
        num_slices=len(operations),
        num_log_files=sum(len(item.log_files) for item in operations),
        log_bytes=int(sum(item.metric(TOTAL_LOG_FILES_SIZE) for item in operations)),
        num_files=sum(each.metadata.num_files for each in executed),
        num_writes=sum(each.metadata.num_writes for each in executed),
        bytes_written=sum(each.metadata.bytes_written for each in executed),
        files={instant: _logs(plan.operations) for instant, plan in plans.items()},
        duration_s=round(seconds, 3),
        warnings=list(target.config.warnings),
        rolled_back=[*scheduled.rolled_back, *(time for each in executed for time in each.rolled_back)],
        metadata_table_removed=scheduled.metadata_table_removed
        or any(each.metadata_table_removed for each in executed),
    )


def _logs(operations: Sequence[CompactionOperation]) -> list[str]:
    return [join(item.partition_path, name) for item in operations for name in item.log_names]
