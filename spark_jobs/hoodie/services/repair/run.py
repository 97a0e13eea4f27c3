"""Rolls back failed writes and sweeps leftovers, on request; its entry for the planner.

A write does the same before it begins (write.transaction). The repair reports what that will be.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hoodie.format.names import join
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.planner.run import Activity
from hoodie.services.request import Request
from hoodie.services.results import ServiceResult, about
from hoodie.services.service_table import ServiceTable
from hoodie.table.handle import Table
from hoodie.table.markers import marker_instants
from hoodie.text import plural
from hoodie.timeline.models.rollback import RollbackPlan
from hoodie.write.rollback import executor
from hoodie.write.rollback.executor import PendingRollback


@dataclass(frozen=True, kw_only=True, repr=False)
class RepairResult(ServiceResult):
    """What a repair did, or, with dry_run, would do.

    status: `repaired`, `planned` (a dry run), or `skipped`, for `reason`. failed: failed writes with their
    instant, action, state, files and bytes that go with them, and the rollback that was begun before, "" for
    none. markers: instants of finished writes whose markers are left; what late tasks wrote goes with them.
    heartbeats: of dead processes. num_files, bytes: data files of failed writes. rolled_back: instants that
    were rolled back.
    """

    failed: list[dict[str, Any]]
    markers: list[str]
    heartbeats: list[str]
    num_files: int
    bytes: int
    mode: str = "run"
    action: str = "rollback"
    operation: str = "repair"


@dataclass(frozen=True)
class _Found:
    failed: list[dict[str, Any]]
    markers: list[str]
    heartbeats: list[str]

    @property
    def nothing(self) -> bool:
        return not (self.failed or self.markers or self.heartbeats)


def repair(request: Request) -> RepairResult:
    """Roll back failed writes and sweep leftovers; nothing is written where there are none.

    Raises HoodieError, ConflictError while a writer is at work.
    """
    started = time.monotonic()
    dry_run = request.dry_run
    target = ServiceTable.open(request.table, request.options, dry_run=dry_run)
    found = _look(target)
    if not dry_run and not found.nothing:
        request.progress("repair", f"{len(found.failed)} failed writes of {target.base_path}")
        with target.transaction() as transaction:
            transaction.claim()
    status = "skipped" if found.nothing else "planned" if dry_run else "repaired"
    return RepairResult(
        status=status,
        **asdict(found),
        num_files=sum(item["num_files"] for item in found.failed),
        bytes=sum(item["bytes"] for item in found.failed),
        reason="no write has failed, and nothing is left over" if found.nothing else "",
        **about(target, dry_run, time.monotonic() - started),
    )


def _look(target: ServiceTable) -> _Found:
    """Reads only. Raises TableError for what can't be rolled back."""
    activity = Activity.of(target)
    timeline, live = activity.timeline, frozenset(activity.live)
    failed = executor.due(timeline, target.storage, live, target.props.timeline_utc, remove=False)
    pending = {instant.time for instant in timeline.pending()}
    return _Found(
        [_described(target.table, item) for item in failed],
        [time for time in marker_instants(target.table) if time not in pending],
        # those of plans are their next run's to remove
        [instant for instant in activity.dead if instant not in activity.plans],
    )


def _described(table: Table, item: PendingRollback) -> dict[str, Any]:
    plan = item.plan or executor.plan(table, item.target)
    paths = (join(table.base_path, file) for file in _files(plan))
    sizes = [info.size for info in map(table.storage.info, paths) if info]
    return {
        "instant": item.target.time,
        "action": item.target.action.value,
        "state": item.target.state.name.lower(),
        "rollback": item.instant.time if item.plan else "",
        "num_files": len(sizes),
        "bytes": sum(sizes),
    }


def _files(plan: RollbackPlan) -> list[str]:
    """Paths in the table of the files to delete."""
    return [
        join(request.partition_path, path.rpartition("/")[2])
        for request in plan.requests
        for path in request.files_to_delete
    ]


class RepairEntry(PlannerEntry):
    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        failed = [item["instant"] for item in result["failed"]]
        parts = [f"roll back {plural(len(failed), 'failed write')}"] if failed else []
        left = [plural(len(result[name]), name[:-1]) for name in ("markers", "heartbeats") if result[name]]
        parts += [f"sweep what is left of {' and '.join(left)}"] if left else []
        return Work(", ".join(parts), result["num_files"], result["bytes"], failed)
