"""Rollback of failed writes (format.md 13.6): plan, execute, and the order that survives a kill.

1. `X.rollback.requested` with the plan, 2. `X.rollback.inflight`, 3. delete the files of the plan and write
its command blocks (rollback_logs), 4. `X.rollback`, 5. the failed instant's own files, 6. its markers, and
those of the rollback. A kill before 4 leaves a pending rollback that the next run resumes; a kill after 4
leaves the failed instant pending, and it is rolled back again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from hoodie.errors import TableError
from hoodie.format.names import BaseFileName, join
from hoodie.storage import Storage
from hoodie.table.markers import MarkerType, delete_markers, read_markers
from hoodie.table.partition import list_partitions
from hoodie.table.pending import clustering_plan
from hoodie.timeline.active import Timeline, create_instant, delete_instant, instant_path
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import WRITE_ACTIONS, Action, Instant, State
from hoodie.timeline.plans import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
)
from hoodie.write.leftovers import base_files_of
from hoodie.write.rollback_logs import Suspects, plan_logs, void_blocks

#: actions whose plan outlives a rollback
_PLANNED = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


@dataclass(frozen=True)
class PendingRollback:
    """A rollback to run: of `target`, at `instant`; `plan` is set when an earlier run had written it."""

    target: Instant
    instant: Instant
    plan: RollbackPlan | None


def due(timeline: Timeline, storage: Storage, live: frozenset[str], utc: bool) -> list[PendingRollback]:
    """Failed writes of dead writers, oldest first, each with a fresh or its already planned instant.

    Pending clusterings and compactions are no failed writes: who planned them executes them. `live` are the
    instants that are being worked on. Raises TableError for what can't be rolled back here.
    """
    _refuse_restore(timeline)
    planned = {time: item for time, item in _planned(timeline, storage).items() if time not in live}
    found = list(planned.values())
    for instant in timeline.filter(WRITE_ACTIONS, completed=False):
        if instant.time in planned or instant.time in live:
            continue
        if _is_clustering(timeline, storage, instant):
            continue
        time_ = new_instant_time(timeline.last_time, utc)
        found.append(PendingRollback(instant, Instant(time_, Action.ROLLBACK, State.REQUESTED), None))
    return sorted(found, key=lambda item: item.target.time)


def planned_for(timeline: Timeline, storage: Storage, target: str) -> bool:
    """Is a rollback of this instant under way?"""
    return target in _planned(timeline, storage)


def _planned(timeline: Timeline, storage: Storage) -> dict[str, PendingRollback]:
    """Rollbacks that an earlier run began, by the time of their target."""
    planned: dict[str, PendingRollback] = {}
    for instant in timeline.filter([Action.ROLLBACK], completed=False):
        path = instant_path(timeline.base_path, instant.with_state(State.REQUESTED))
        plan = _read_plan(storage, path, instant)
        if plan is None:
            continue
        if plan.instant is None:
            raise TableError(
                f"rollback plan {path} names no instant; delete the file and run again", path=path
            )
        target = Instant(plan.instant.time, plan.instant.known_action, State.INFLIGHT)
        if not _is_clustering(timeline, storage, target):
            planned[target.time] = PendingRollback(target, instant, plan)
    return planned


def _read_plan(storage: Storage, path: str, instant: Instant) -> RollbackPlan | None:
    """None for a plan cut while it was written; it is removed, as in Hudi: nothing was done by it yet."""
    try:
        return RollbackPlan.from_bytes(storage.read(path))
    except TableError:
        if instant.state is not State.REQUESTED:
            raise
        storage.delete(path)
        return None


def plan(storage: Storage, base_path: str, target: Instant) -> RollbackPlan:
    """Which files the failed instant wrote: those its markers name, and what a listing shows.

    Listed are the partitions of the markers and of the workload profile in its inflight file (a marker file
    of the timeline server may have been cut while it was rewritten); all partitions when neither names one.
    """
    markers = read_markers(storage, base_path, target.time)
    files = {marker.file for marker in markers if marker.type is not MarkerType.APPEND}
    partitions = {marker.file.rpartition("/")[0] for marker in markers}
    groups: set[tuple[str, str]] = set()
    unknown = False
    if target.state is not State.REQUESTED:
        profile = _profile(storage, base_path, target)
        unknown = profile is None
        if profile is not None:
            partitions.update(profile.partitions)
            groups.update(profile.file_groups)
        partitions = partitions or set(list_partitions(storage, base_path))
        files.update(base_files_of(storage, base_path, target.time, sorted(partitions)))
    requests = []
    for file in sorted(files):
        partition, _, name = file.rpartition("/")
        parsed = BaseFileName.parse(name)
        requests.append(
            RollbackRequest(
                partition_path=partition,
                file_id=parsed.file_id if parsed else "",
                latest_base_instant=target.time,
                files_to_delete=(join(base_path, file),),
            )
        )
    if target.action is Action.DELTACOMMIT:
        suspects = Suspects.of(markers, groups, partitions)
        requests += plan_logs(storage, base_path, target.time, suspects, every_group=unknown)
    return RollbackPlan(InstantInfo.of(target), tuple(requests))


def execute(storage: Storage, base_path: str, pending: PendingRollback) -> None:
    """Run one rollback to its end; safe to run again after a kill anywhere inside."""
    started = time.time()
    requested = pending.instant.with_state(State.REQUESTED)
    work = pending.plan
    if work is None:
        work = plan(storage, base_path, pending.target)
        create_instant(storage, base_path, requested, work.to_bytes())
    if pending.instant.state is State.REQUESTED:
        create_instant(storage, base_path, requested.with_state(State.INFLIGHT))
    done: dict[str, RollbackPartition] = {}
    for request in work.requests:
        partition = request.partition_path
        before = done.get(partition, RollbackPartition(partition))
        done[partition] = _undo(storage, base_path, pending, request, before)
    for partition in done:
        storage.sweep_partial(join(base_path, partition))
    metadata = RollbackMetadata.of(
        start_time=requested.time,
        duration_ms=int((time.time() - started) * 1000),
        target=InstantInfo.of(pending.target),
        partitions=done,
    )
    create_instant(storage, base_path, requested.with_state(State.COMPLETED), metadata.to_bytes())
    finish(storage, base_path, pending.target)
    delete_markers(storage, base_path, requested.time)


def _undo(
    storage: Storage,
    base_path: str,
    pending: PendingRollback,
    request: RollbackRequest,
    before: RollbackPartition,
) -> RollbackPartition:
    """One request of the plan carried out; what it did, added to what was done in the partition `before`."""
    for path in request.files_to_delete:
        storage.delete(_here(base_path, request.partition_path, path))
    after = replace(before, deleted=(*before.deleted, *request.files_to_delete))
    if not request.log_blocks_to_delete:
        return after
    path, size = void_blocks(storage, base_path, pending.instant.time, pending.target.time, request)
    return replace(
        after,
        rollback_log_files={**(before.rollback_log_files or {}), path: size},
        failed_commit_log_files={**(before.failed_commit_log_files or {}), **request.log_blocks_to_delete},
    )


def finish(storage: Storage, base_path: str, target: Instant) -> None:
    """Remove the instant; of a compaction the plan stays, so that it can be executed again."""
    if target.action in _PLANNED:
        storage.delete(instant_path(base_path, target.with_state(State.INFLIGHT)))
    else:
        delete_instant(storage, base_path, target)
    delete_markers(storage, base_path, target.time)


def _profile(storage: Storage, base_path: str, target: Instant) -> CommitMetadata | None:
    """What the inflight file announces; None where it is empty or torn."""
    try:
        data = storage.read(instant_path(base_path, target.with_state(State.INFLIGHT)))
        return CommitMetadata.parse(data) if data.strip() else None
    except (FileNotFoundError, TableError):
        return None


def _here(base_path: str, partition: str, path: str) -> str:
    """The plan's file in this table: plans hold absolute paths, and a copied table is elsewhere."""
    return join(base_path, partition, path.rpartition("/")[2])


def _is_clustering(timeline: Timeline, storage: Storage, instant: Instant) -> bool:
    if instant.action is not Action.REPLACECOMMIT:
        return False
    return clustering_plan(storage, timeline.base_path, instant) is not None


def _refuse_restore(timeline: Timeline) -> None:
    for instant in timeline.filter([Action.RESTORE], completed=False):
        raise TableError(
            f"restore {instant.time} of {timeline.base_path} was not finished, so the table is between two "
            "states; run the restore again with Apache Hudi, then write",
            instant=instant.time,
        )
