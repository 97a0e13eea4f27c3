"""The modes of a compaction job, and what it reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hoodie.engine import Engine
from hoodie.errors import ConfigError, ConflictError
from hoodie.services.compaction.execute import Executed, check, execute, pending
from hoodie.services.compaction.schedule import Scheduled, schedule
from hoodie.services.target import Target
from hoodie.timeline.compaction_plan import TOTAL_LOG_FILES_SIZE
from hoodie.timeline.instant import Action

Progress = Callable[[str, str], None]
MODES = ("schedule", "execute", "run")


@dataclass(frozen=True)
class CompactionResult:
    """What a compaction job did.

    status: `compacted`, `scheduled` (a plan was made, nothing executed), or `skipped`, for `reason`.
    scheduled: the instant of the plan that was made, "" for none. compacted: instants of the plans executed.
    pending: those that are left. instant: the last one done, "" for none. Slices, log files and bytes of logs
    are those merged, or, when nothing was executed, those in the new plan; num_writes counts rows written.
    """

    status: str
    table: str
    base_path: str
    mode: str
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
    """What was done so far."""

    scheduled: Scheduled = field(default_factory=Scheduled)
    executed: list[Executed] = field(default_factory=list)
    reason: str = ""


def compact(
    engine: Engine,
    path: str,
    mode: str,
    instant: str | None,
    options: Mapping[str, Any],
    progress: Progress,
    extra_metadata: Mapping[str, str] | None = None,
) -> CompactionResult:
    """Schedule, execute or both; returns when all commits are visible.

    `run` executes what is pending first, as Apache Hudi does, so that the new plan begins with what it made.
    Raises HoodieError; plans that were completed before stay completed.
    """
    started = time.monotonic()
    _check_mode(mode, instant)
    target = Target.open(path, options, extra_metadata or {})
    check(target)
    done = _Done()
    if mode != "schedule":
        _execute_pending(engine, target, instant, progress, done)
    if mode != "execute":
        progress("schedule", f"compaction of {target.base_path}")
        done.scheduled = schedule(target)
        done.reason = done.scheduled.reason
    if mode == "run" and done.scheduled.instant:
        _execute_pending(engine, target, done.scheduled.instant, progress, done)
    return _result(target, mode, done, time.monotonic() - started)


def _check_mode(mode: str, instant: str | None) -> None:
    if mode not in MODES:
        raise ConfigError(f"mode is {mode!r}; use one of {', '.join(MODES)}", mode=mode)
    if instant and mode != "execute":
        raise ConfigError(
            f"instant {instant} is for mode execute, which runs that plan only; leave it out for {mode}",
            instant=instant,
        )


def _execute_pending(
    engine: Engine, target: Target, instant: str | None, progress: Progress, done: _Done
) -> None:
    """The pending plans, oldest first, or that of `instant`. One that somebody else completes is no error."""
    found = pending(target.timeline())
    if instant:
        found = [item for item in found if item.time == instant]
        if not found:
            done.reason = _not_pending(target, instant)
            return
    elif not found:
        done.reason = "no compaction is pending"
    for item in found:
        try:
            done.executed.append(execute(engine, target, item, progress))
        except ConflictError:
            if not _completed(target, item.time):
                raise
            done.reason = f"compaction {item.time} was completed by another process"


def _not_pending(target: Target, instant: str) -> str:
    """Why the instant can't be executed: it is done. Raises ConfigError when there is no such plan."""
    if _completed(target, instant):
        return f"compaction {instant} is completed already"
    times = [item.time for item in pending(target.timeline())]
    raise ConfigError(
        f"no compaction {instant} is pending on {target.base_path}; "
        + (f"pending are {', '.join(times)}" if times else "none is, schedule one first"),
        instant=instant,
    )


def _completed(target: Target, instant: str) -> bool:
    """Completed commits of a merge-on-read table are compactions."""
    return any(item.time == instant for item in target.timeline().filter([Action.COMMIT], completed=True))


def _result(target: Target, mode: str, done: _Done, seconds: float) -> CompactionResult:
    scheduled, executed = done.scheduled, done.executed
    merged = [item for each in executed for item in each.plan.operations]
    operations = merged or list(scheduled.plan.operations if scheduled.plan else ())
    compacted = [each.instant for each in executed]
    return CompactionResult(
        status="compacted" if compacted else "scheduled" if scheduled.instant else "skipped",
        table=target.props.name,
        base_path=target.base_path,
        mode=mode,
        instant=compacted[-1] if compacted else scheduled.instant,
        scheduled=scheduled.instant,
        compacted=compacted,
        pending=[item.time for item in pending(target.timeline())],
        reason="" if compacted or scheduled.instant else done.reason,
        partitions=sorted({item.partition_path for item in operations}),
        num_slices=len(operations),
        num_log_files=sum(len(item.log_files) for item in operations),
        log_bytes=int(sum(item.metric(TOTAL_LOG_FILES_SIZE) for item in operations)),
        num_files=sum(each.metadata.num_files for each in executed),
        num_writes=sum(each.metadata.num_writes for each in executed),
        bytes_written=sum(each.metadata.bytes_written for each in executed),
        duration_s=round(seconds, 3),
        warnings=list(target.config.warnings),
        rolled_back=[*scheduled.rolled_back, *(time for each in executed for time in each.rolled_back)],
        metadata_table_removed=scheduled.metadata_table_removed
        or any(each.metadata_table_removed for each in executed),
    )
