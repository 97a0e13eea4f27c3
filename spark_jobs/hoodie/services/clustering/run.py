"""The modes of a clustering job, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hoodie.engine import Engine
from hoodie.format.names import join
from hoodie.progress import ProgressCallback
from hoodie.services.clustering.execute import check, execute, pending, read_plan
from hoodie.services.clustering.schedule import plan_now, schedule
from hoodie.services.planned import PlannedResult, PlannedService, check_mode
from hoodie.services.service_table import ServiceTable
from hoodie.table.handle import Table
from hoodie.timeline.clustering_plan import SliceInfo
from hoodie.timeline.instant import Action


@dataclass(frozen=True, kw_only=True)
class ClusteringResult(PlannedResult):
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


def cluster(
    engine: Engine,
    place: str | Table,
    mode: str,
    instant: str | None,
    options: Mapping[str, Any],
    progress: ProgressCallback,
    extra_metadata: Mapping[str, str] | None = None,
    dry_run: bool = False,
) -> ClusteringResult:
    """Schedule, execute or both; returns when all commits are visible. `dry_run` writes nothing.

    `run` executes what is pending first, as Apache Hudi does, so that the new plan begins with what it made.
    Raises HoodieError; plans that were completed before stay completed.
    """
    check_mode(mode, instant)
    target = ServiceTable.open(place, options, extra_metadata or {})
    check(target)
    service = PlannedService(
        "clustering",
        target,
        Action.REPLACECOMMIT,
        lambda timeline: pending(timeline, target),
        lambda item: read_plan(target, item)[1],
        lambda: plan_now(target, target.timeline()),
        lambda: schedule(target),
        lambda item: execute(engine, target, item, progress),
    )
    done = service.work(mode, instant, dry_run, progress)
    groups = [group for plan in done.plans.values() for group in plan.groups]
    return ClusteringResult(
        **done.report(target, mode, "clustered"),
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
