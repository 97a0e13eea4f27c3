"""Rollbacks of a metadata table: what a deltacommit wrote to log files is undone by the layout, as in Apache
Hudi.

1. the requested and the inflight file of the rollback, with its plan, 2. the deltacommit's completed file
goes, 3. each file group that it wrote to gets a command block, in a new log file (layout two: the log files
are deleted), 4. the deltacommit's other files go, 5. the rollback is completed. A kill leaves the pending
rollback, and `finish_rollbacks` does the steps from the second one on again: a second command block takes
nothing more. It precedes another write or rollback of the same instant, whose blocks it would take, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from hoodie.errors import AlreadyExists, TableError
from hoodie.format.names import HFILE, BaseFileName, LogFileName, join
from hoodie.metadata.instants import is_indexing, is_making
from hoodie.metadata.written_table import WrittenTable
from hoodie.table.log_undo import Suspects, log_undo
from hoodie.table.pending import whole_plan
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
)
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime


def roll_back(table: WrittenTable, target: Instant, at: InstantTime) -> None:
    """Roll a deltacommit back, completed or not, by the instant `at`. One that wrote nothing just goes."""
    if target.state is State.REQUESTED:
        table.store.delete_states([target])
        table.refresh()
        return
    requests = _requests(table, target)
    plan = RollbackPlan(InstantInfo.of(target), tuple(requests))
    requested = Instant(at, Action.ROLLBACK, State.REQUESTED)
    begin_instant(table.store, requested, plan.to_bytes())
    _execute(table, requested, plan)
    table.refresh()


def _requests(table: WrittenTable, target: Instant) -> list[RollbackRequest]:
    """By what the deltacommit's file names; all logs are looked at where a power failure took its content."""
    undo, written = log_undo(table, marked=False), _written(table, target)
    if written is not None:
        return undo.plan_written(table, target.time, written)
    suspects = Suspects(frozenset(), frozenset(), tuple(table.listing().partitions()))
    return undo.plan(table, target.time, suspects, every_group=True)


def _written(table: WrittenTable, target: Instant) -> CommitMetadata | None:
    """None where an inflight file is empty or torn. Raises TableError for a completed one."""
    data = table.timeline.read(target, table.storage)
    if not (target.completed or data.strip()):
        return None
    try:
        return table.timeline.parse_state(target, data)
    except TableError:
        if target.completed:
            raise
        return None


def finish_rollbacks(table: WrittenTable, of: InstantTime | None = None) -> None:
    """Those that were killed, of this package and of Apache Hudi: all, or those `of` an instant.

    Raises TableError for a damaged plan.
    """
    finished = False
    for instant in table.timeline.filter((Action.ROLLBACK,), completed=False):
        plan = whole_plan(table.timeline, table.storage, instant, RollbackPlan, remove=True)
        if plan is None:
            finished = True
        elif of is None or (plan.instant is not None and plan.instant.time == of):
            _execute(table, instant, plan)
            finished = True
    if finished:
        table.refresh()


def roll_back_pending(table: WrittenTable) -> None:
    """Every deltacommit that is not completed, newest first; not those of Apache Hudi's indexer while an
    indexing instant of the table is pending.
    """
    indexing = bool(table.data.timeline.filter((Action.INDEXING,), completed=False))
    for instant in reversed(table.timeline.filter((Action.DELTACOMMIT,), completed=False)):
        if indexing and is_indexing(instant.time):
            continue
        if is_making(instant.time):  # no reader knows the partition, and `make` empties its folder
            table.store.delete(instant)
            table.refresh()
        else:
            roll_back(table, instant, table.rollback_time(instant.time))


def _execute(table: WrittenTable, rollback: Instant, plan: RollbackPlan) -> None:
    started, target = time.monotonic(), plan.instant
    inflight = rollback.with_state(State.INFLIGHT)
    table.resume_instant(inflight)
    partitions: dict[str, RollbackPartition] = {}
    if target is not None:
        undone = Instant(target.time, target.known_action, State.INFLIGHT)
        planned = undone.action is Action.COMPACTION  # its plan stays, and was not executed
        states = [] if planned else [undone.with_state(State.COMPLETED)]
        table.store.delete_states(states)
        partitions = _undo(table, rollback.time, target.time, plan.requests)
        states = [undone] if planned else [undone, undone.with_state(State.REQUESTED)]
        table.store.delete_states(states)
    info = target or InstantInfo(rollback.time, rollback.action.value)
    took = int((time.monotonic() - started) * 1000)
    with suppress(AlreadyExists):
        table.complete(inflight, RollbackMetadata.of(rollback.time, took, info, partitions))


def _undo(
    table: WrittenTable, at: InstantTime, target: InstantTime, requests: Iterable[RollbackRequest]
) -> dict[str, RollbackPartition]:
    found: dict[str, RollbackPartition] = {}
    undo, listing = log_undo(table, marked=False), table.listing()
    for request in requests:
        partition = request.partition_path
        before = found.get(partition, RollbackPartition(partition))
        deleted, written = list(before.deleted), dict(before.rollback_log_files or {})
        failed = dict(before.failed_commit_log_files or {})
        for path in request.files_to_delete:
            name = path.rpartition("/")[2]
            if BaseFileName.parse(name, HFILE) or LogFileName.parse(name):
                table.storage.delete_many([join(table.base_path, partition, name)])
                deleted.append(path)
        if request.log_blocks_to_delete and request.file_id and request.latest_base_instant:
            written |= undo.void(table, listing, at, target, request)
            failed |= {name: size for name, size in request.log_blocks_to_delete.items() if _is_log(name)}
        found[partition] = RollbackPartition(partition, tuple(deleted), (), written, failed)
    return found


def _is_log(path: str) -> bool:
    return LogFileName.parse(path.rpartition("/")[2]) is not None
