"""Cleans of a metadata table: file slices that no reader needs any more are deleted (format.md 10.7, 13.3).

1. the plan as requested file, 2. the same as inflight file, 3. the files go, 4. the completed file. A kill
leaves the pending clean, and the next `finish_cleans` deletes the rest.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from hoodie.format.names import HFILE, BaseFileName, LogFileName, join
from hoodie.metadata.instants import Own
from hoodie.metadata.written_table import MaintenancePolicy, WrittenTable
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import ActionInstant, CleanedPartition, CleanFile, CleanMetadata, CleanPlan

_POLICY = "KEEP_LATEST_COMMITS"
#: instants after a compaction before the slices before it are cleaned: readers that began earlier read them
_GRACE = 3


def clean(table: WrittenTable, upkeep: MaintenancePolicy) -> None:
    """Clean if there is something that may go."""
    timeline = table.timeline
    commits = timeline.commits()
    compacted = table.last_compaction
    if compacted is None or len(commits) <= upkeep.keep_commits:
        return
    done = [instant for instant in timeline if instant.completed]
    at = Own.CLEAN.time(timeline.filter((Action.DELTACOMMIT,), completed=True)[-1].time)
    if len(timeline.after(compacted, done)) < _GRACE or any(instant.time == at for instant in timeline):
        return
    earliest = commits[-upkeep.keep_commits]
    files = _superseded(table, earliest) if _may_find(timeline, commits, earliest, upkeep) else {}
    if not files:
        return
    plan = CleanPlan(
        policy=_POLICY,
        files=files,
        earliest=ActionInstant.of(earliest),
        last_completed=commits[-1].time,
    )
    requested = Instant(at, Action.CLEAN, State.REQUESTED)
    table.begin(requested, plan.to_bytes())
    _execute(table, requested, plan)


def _may_find(
    timeline: Timeline, commits: list[Instant], earliest: Instant, upkeep: MaintenancePolicy
) -> bool:
    """Did a compaction begin slices before the earliest commit that is kept, since the last clean's."""
    cleans = timeline.filter((Action.CLEAN,), completed=True)
    before = timeline.before(cleans[-1].time, commits) if cleans else []
    since = before[-upkeep.keep_commits] if len(before) >= upkeep.keep_commits else None
    compactions = (item for item in timeline.before(earliest.time, commits) if item.action is Action.COMMIT)
    return any(since is None or not item.is_before(since.time) for item in compactions)


def finish_cleans(table: WrittenTable) -> None:
    """Execute those that are pending. Raises TableError for a plan that is damaged."""
    for instant in table.timeline.filter((Action.CLEAN,), completed=False):
        plan = table.plan(instant, CleanPlan)
        if plan is not None:
            _execute(table, instant, plan)


def _superseded(table: WrittenTable, earliest: Instant) -> Mapping[str, tuple[CleanFile, ...]]:
    """Files of the slices before the one that was the newest at the earliest commit that is kept."""
    view, listing = table.view(), table.listing()
    found: dict[str, tuple[CleanFile, ...]] = {}
    for partition in table.partitions:
        files: list[CleanFile] = []
        for newest, *older in table.groups(partition, view, listing):
            rest = [item for item in older if earliest.is_after(item.instant)]
            kept = 0 if earliest.is_after(newest.instant) else 1
            for item in rest[kept:]:
                files += [CleanFile(path) for path in _paths(item)]
        if files:
            found[partition.value] = tuple(files)
    return found


def _paths(item: FileSlice) -> list[str]:
    logs = [log.path for log in item.logs]
    return logs if item.base is None else [item.base.path, *logs]


def _execute(table: WrittenTable, instant: Instant, plan: CleanPlan) -> None:
    started = time.monotonic()
    inflight = instant.with_state(State.INFLIGHT)
    table.resume_instant(inflight, plan.to_bytes())
    cleaned: dict[str, CleanedPartition] = {}
    for partition, files in plan.files.items():
        names = tuple(file.name for file in files if _is_data(file.name))
        table.storage.delete_many(join(table.base_path, partition, name) for name in names)
        cleaned[partition] = CleanedPartition(partition, plan.policy, names, names, (), False)
    took = int((time.monotonic() - started) * 1000)
    table.complete(inflight, CleanMetadata.of(instant.time, took, plan, cleaned))
    table.refresh()


def _is_data(name: str) -> bool:
    return BaseFileName.parse(name, HFILE) is not None or LogFileName.parse(name) is not None
