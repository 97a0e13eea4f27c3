"""The modes of a compaction job, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoodie.engine import Engine
from hoodie.format.names import join
from hoodie.progress import ProgressCallback
from hoodie.services.compaction.execute import check, execute, pending, read_plan
from hoodie.services.compaction.schedule import plan_now, schedule
from hoodie.services.planned import PlannedResult, PlannedService, check_mode
from hoodie.services.service_table import ServiceTable
from hoodie.table.handle import Table
from hoodie.timeline.compaction_plan import TOTAL_LOG_FILES_SIZE, CompactionOperation
from hoodie.timeline.instant import Action


@dataclass(frozen=True, kw_only=True)
class CompactionResult(PlannedResult):
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


def compact(
    engine: Engine,
    place: str | Table,
    mode: str,
    instant: str | None,
    options: Mapping[str, Any],
    progress: ProgressCallback,
    extra_metadata: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> CompactionResult:
    """Schedule, execute or both; returns when all commits are visible. `dry_run` writes nothing.

    `run` executes what is pending first, as Apache Hudi does, so that the new plan begins with what it made.
    Raises HoodieError; plans that were completed before stay completed.
    """
    check_mode(mode, instant)
    target = ServiceTable.open(place, options, extra_metadata or {})
    check(target)
    # completed commits of a merge-on-read table are compactions
    service = PlannedService(
        "compaction",
        target,
        Action.COMMIT,
        pending,
        lambda item: read_plan(target, item),
        lambda: plan_now(target, target.timeline()),
        lambda: schedule(target),
        lambda item: execute(engine, target, item, progress),
    )
    done = service.work(mode, instant, dry_run, progress)
    operations = [item for plan in done.plans.values() for item in plan.operations]
    return CompactionResult(
        **done.report(target, mode, "compacted"),
        partitions=sorted({item.partition_path for item in operations}),
        num_slices=len(operations),
        num_log_files=sum(len(item.log_files) for item in operations),
        log_bytes=int(sum(item.metric(TOTAL_LOG_FILES_SIZE) for item in operations)),
        files={time: _logs(plan.operations) for time, plan in done.plans.items()},
    )


def _logs(operations: Sequence[CompactionOperation]) -> list[str]:
    return [join(item.partition_path, name) for item in operations for name in item.log_names]
