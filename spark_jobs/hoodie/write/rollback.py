"""Rollback of failed writes (format.md 13.6): plan, execute, and the order that survives a kill.

1. `X.rollback.requested` with the plan, 2. `X.rollback.inflight`, 3. delete the files of the plan,
4. `X.rollback`, 5. the failed instant's own files, 6. its markers. A kill before 4 leaves a pending rollback
that the next run resumes; a kill after 4 leaves the failed instant pending, and it is rolled back again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True)
class PendingRollback:
    """A rollback to run: of `target`, at `instant`; `plan` is set when an earlier run had written it."""

    target: Instant
    instant: Instant
    plan: RollbackPlan | None


def due(timeline: Timeline, storage: Storage, live: frozenset[str], utc: bool) -> list[PendingRollback]:
    """Failed writes of dead writers, oldest first, each with a fresh or its already planned instant.

    Pending clusterings and compactions are no failed writes: who planned them executes them. Raises
    TableError for what can't be rolled back here.
    """
    _refuse_restore(timeline)
    planned = _planned(timeline, storage)
    found = list(planned.values())
    for instant in timeline.filter(WRITE_ACTIONS, completed=False):
        if instant.time in planned or instant.time in live:
            continue
        if instant.action is Action.DELTACOMMIT:
            raise TableError(
                f"{instant} failed on a merge-on-read table; roll it back with Apache Hudi first",
                instant=str(instant),
            )
        if _is_clustering(timeline, storage, instant):
            continue
        time_ = new_instant_time(timeline.last_time, utc)
        found.append(PendingRollback(instant, Instant(time_, Action.ROLLBACK, State.REQUESTED), None))
    return sorted(found, key=lambda item: item.target.time)


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
        if any(request.log_blocks_to_delete for request in plan.requests):
            raise TableError(
                f"rollback {instant.time} of {plan.instant.time} has to void log blocks of a "
                "merge-on-read table; finish it with Apache Hudi first",
                instant=instant.time,
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
    markers = [marker for marker in read_markers(storage, base_path, target.time) if _is_base(marker.type)]
    files = {marker.file for marker in markers}
    partitions = {file.rpartition("/")[0] for file in files}
    if target.state is not State.REQUESTED:
        partitions |= _profiled(storage, base_path, target)
        partitions = partitions or set(list_partitions(storage, base_path))
        files.update(files_of(storage, base_path, target.time, sorted(partitions)))
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
    deleted: dict[str, list[str]] = {}
    for request in work.requests:
        files = deleted.setdefault(request.partition_path, [])
        for path in request.files_to_delete:
            storage.delete(_here(base_path, request.partition_path, path))
            files.append(path)
    for partition in deleted:
        storage.sweep_partial(join(base_path, partition))
    metadata = RollbackMetadata.of(
        start_time=requested.time,
        duration_ms=int((time.time() - started) * 1000),
        target=InstantInfo.of(pending.target),
        partitions={
            partition: RollbackPartition(partition, deleted=tuple(files))
            for partition, files in deleted.items()
        },
    )
    create_instant(storage, base_path, requested.with_state(State.COMPLETED), metadata.to_bytes())
    finish(storage, base_path, pending.target)


def finish(storage: Storage, base_path: str, target: Instant) -> None:
    delete_instant(storage, base_path, target)
    delete_markers(storage, base_path, target.time)


def files_of(storage: Storage, base_path: str, instant: str, partitions: Iterable[str]) -> Iterator[str]:
    """Base files of one instant in these partitions, relative to the table."""
    for partition in partitions:
        for item in storage.list(join(base_path, partition)):
            name = BaseFileName.parse(item.name)
            if name is not None and name.instant == instant:
                yield join(partition, item.name)


def _is_base(kind: MarkerType) -> bool:
    return kind is not MarkerType.APPEND


def _profiled(storage: Storage, base_path: str, target: Instant) -> set[str]:
    """Partitions that the inflight file announces; none where it is empty or torn."""
    try:
        data = storage.read(instant_path(base_path, target.with_state(State.INFLIGHT)))
        return set(CommitMetadata.parse(data).partitions)
    except (FileNotFoundError, TableError):
        return set()


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
