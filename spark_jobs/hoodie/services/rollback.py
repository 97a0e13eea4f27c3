"""Rollback of failed writes (format.md 13.6): plan, execute, and the order that survives a kill.

1. `X.rollback.requested` with the plan, 2. `X.rollback.inflight`, 3. delete the files of the plan,
4. `X.rollback`, 5. the failed instant's own files, 6. its markers. A kill before 4 leaves a pending rollback
that the next run resumes; a kill after 4 leaves the failed instant pending, and it is rolled back again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from hoodie.errors import TableError
from hoodie.format.names import BaseFileName, join
from hoodie.storage import Storage
from hoodie.table.markers import MarkerType, delete_markers, has_markers, read_markers
from hoodie.table.partition import list_partitions
from hoodie.timeline.active import Timeline, create_instant, delete_instant, instant_path
from hoodie.timeline.clock import new_instant_time
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
    """Failed writes of dead writers, oldest first, each with a fresh or its already planned instant."""
    planned: dict[str, PendingRollback] = {}
    for instant in timeline.filter([Action.ROLLBACK], completed=False):
        path = instant_path(timeline.base_path, instant.with_state(State.REQUESTED))
        plan = RollbackPlan.from_bytes(storage.read(path))
        if plan.instant is None:
            raise TableError(f"rollback plan {path} names no instant; delete the file and run again", path=path)
        target = Instant(plan.instant.time, plan.instant.known_action, State.INFLIGHT)
        planned[target.time] = PendingRollback(target, instant, plan)
    found = list(planned.values())
    for instant in timeline.filter(WRITE_ACTIONS, completed=False):
        if instant.time in planned or instant.time in live:
            continue
        if instant.action is Action.DELTACOMMIT:
            raise TableError(
                f"{instant} failed on a merge-on-read table; roll it back with Apache Hudi first",
                instant=str(instant),
            )
        if instant.action is Action.REPLACECOMMIT and _is_clustering(timeline, storage, instant):
            continue
        time_ = new_instant_time(timeline.last_time, utc)
        found.append(PendingRollback(instant, Instant(time_, Action.ROLLBACK, State.REQUESTED), None))
    return sorted(found, key=lambda item: item.target.time)


def plan(storage: Storage, base_path: str, target: Instant) -> RollbackPlan:
    """Which files the failed instant wrote: from its markers, or from a listing when it has none."""
    if has_markers(storage, base_path, target.time):
        files = [marker.file for marker in read_markers(storage, base_path, target.time) if _is_base(marker.type)]
    elif target.state is State.REQUESTED:
        files = []
    else:
        files = list(_listed(storage, base_path, target.time))
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
    metadata = RollbackMetadata.of(
        start_time=requested.time,
        duration_ms=int((time.time() - started) * 1000),
        target=InstantInfo.of(pending.target),
        partitions={
            partition: RollbackPartition(partition, deleted=tuple(files)) for partition, files in deleted.items()
        },
    )
    create_instant(storage, base_path, requested.with_state(State.COMPLETED), metadata.to_bytes())
    finish(storage, base_path, pending.target)


def finish(storage: Storage, base_path: str, target: Instant) -> None:
    delete_instant(storage, base_path, target)
    delete_markers(storage, base_path, target.time)


def _is_base(kind: MarkerType) -> bool:
    return kind is not MarkerType.APPEND


def _listed(storage: Storage, base_path: str, instant: str) -> Iterable[str]:
    for partition in list_partitions(storage, base_path):
        for item in storage.list(join(base_path, partition)):
            name = BaseFileName.parse(item.name)
            if name is not None and name.instant == instant:
                yield join(partition, item.name)


def _here(base_path: str, partition: str, path: str) -> str:
    """The plan's file in this table: plans hold absolute paths, and a copied table is elsewhere."""
    return join(base_path, partition, path.rpartition("/")[2])


def _is_clustering(timeline: Timeline, storage: Storage, instant: Instant) -> bool:
    """A pending clustering has an empty inflight file or a plan; an overwrite's inflight is JSON."""
    if instant.state is State.REQUESTED:
        return len(timeline.read(instant, storage)) > 0 and b"SparkSortAndSize" in timeline.read(instant, storage)
    return timeline.read(instant, storage) == b""
