"""Rollback of an instant (format.md 13.6): plan, execution, and the order that survives a kill.

1. Create `X.rollback.requested` with the plan. 2. Create `X.rollback.inflight`. 3. Delete the files of the
plan, and write its command blocks (table.log_undo). 4. Create `X.rollback`. 5. Delete the own files of the
failed instant. 6. Delete its markers, and those of the rollback. A kill before 4 leaves a pending rollback,
which the next run resumes. A kill after 4 leaves the failed instant pending, and it is rolled back again.

A completed instant is unpublished between 2 and 3: all its own files are deleted (`unpublish`). The same
holds for a service whose plan is to be removed. From then on only the rollback's plan contains the work that
is left. Then the participants undo what they prepared for the instant. They prepare for the rollback before
4, which follows the order of hoodie.write.commit.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hoodie.concurrency.gate import attempt as tried
from hoodie.errors import TableError
from hoodie.format.names import BaseFileName, LogFileName, join
from hoodie.storage import Storage
from hoodie.table.handle import Table
from hoodie.table.log_undo import Sizes, Suspects, here, log_undo
from hoodie.table.markers import MarkerType, delete_markers, read_markers
from hoodie.table.pending import whole_plan
from hoodie.timeline import token_store
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.commit import CommitMetadata
from hoodie.timeline.instant import (
    BOOTSTRAPS,
    WRITE_ACTIONS,
    Action,
    Instant,
    Kind,
    State,
)
from hoodie.timeline.models.restore import RestorePlan
from hoodie.timeline.models.rollback import (
    InstantInfo,
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
)
from hoodie.timeline.rolled_back_commit import RolledBackCommit
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import InstantTime
from hoodie.write.commit import Commits
from hoodie.write.rollback.unreported_files import files_of

#: actions whose plan outlives a rollback
_PLANNED = frozenset({Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING})


@dataclass(frozen=True)
class PendingRollback:
    """A rollback to run: of `target`, at `instant`; `plan` is set when an earlier run had written it.

    The plan of a pending compaction or clustering stays and is executed later, except with `forget`.
    """

    target: Instant
    instant: Instant
    plan: RollbackPlan | None
    forget: bool = False

    @classmethod
    def new(cls, timeline: Timeline, target: Instant, utc: bool, forget: bool = False) -> PendingRollback:
        """A rollback at an instant of its own."""
        time_ = new_instant_time(timeline.last_time, utc)
        return cls(target, Instant(time_, Action.ROLLBACK, State.REQUESTED), None, forget)


def due(
    timeline: Timeline, storage: Storage, live: frozenset[str], utc: bool, remove: bool = True
) -> list[PendingRollback]:
    """Failed writes of dead writers, oldest first, each with a fresh or its already planned instant.

    Pending clusterings and compactions are no failed writes: their service executes them. `live` are the
    instants that processes work on. `remove` deletes torn plans; without it nothing is written. Raises
    TableError for what can't be rolled back here.
    """
    check_no_restore(timeline, storage, remove)
    planned = {time: item for time, item in begun(timeline, storage, remove).items() if time not in live}
    found = list(planned.values())
    for instant in timeline.filter(WRITE_ACTIONS, completed=False):
        if instant.time in planned or instant.time in live:
            continue
        if _is_clustering(timeline, storage, instant):
            continue
        found.append(PendingRollback.new(timeline, instant, utc))
    return sorted(found, key=lambda item: item.target.requested_order)


def planned_for(timeline: Timeline, storage: Storage, target: InstantTime) -> bool:
    """Is a rollback of this instant under way?"""
    return target in begun(timeline, storage)


def begun(timeline: Timeline, storage: Storage, remove: bool = True) -> dict[str, PendingRollback]:
    """Rollbacks that an earlier run began, by the time of their target. `remove`: see `due`."""
    planned: dict[str, PendingRollback] = {}
    for instant in timeline.filter([Action.ROLLBACK], completed=False):
        path = timeline.path(instant.with_state(State.REQUESTED))
        plan = whole_plan(timeline, storage, instant, RollbackPlan, remove)
        if plan is None:
            continue
        if plan.instant is None:
            raise TableError(
                f"rollback plan {path} names no instant; delete the file and run again", path=path
            )
        target = Instant(plan.instant.time, plan.instant.known_action, State.INFLIGHT)
        planned[target.time] = PendingRollback(target, instant, plan)
    return planned


def plan(table: Table, target: Instant, forget: bool = False) -> RollbackPlan:
    """Which files an instant wrote: those that its markers and its metadata name, and what a listing shows.

    Listed are the partitions of the markers and of the metadata, or the workload profile in the inflight file
    (a marker file of the timeline server may have been cut while it was rewritten); all partitions when none
    names one, and where the profile was lost. With the plan of a service that it is to `forget`, and with
    what a completed instant wrote, the logs go that were begun on top of it: there must be no later commit.
    """
    if target.time in BOOTSTRAPS:
        raise TableError(
            f"{target.time} is the bootstrap of {table.base_path}, which is not rolled back here: its index "
            "has to go with it; roll it back with Apache Hudi",
            instant=target.time,
        )
    markers = read_markers(table, target.time)
    files = {
        marker.file for marker in markers if marker.type is not MarkerType.APPEND or _is_changes(marker.file)
    }
    partitions = {marker.file.rpartition("/")[0] for marker in markers}
    groups: set[tuple[str, str]] = set()
    committed: dict[tuple[str, str], frozenset[str]] = {}
    unknown = False
    if forget or target.state is not State.REQUESTED:
        wrote = _wrote(table, target)
        unknown = wrote is None
        if wrote is not None:
            partitions.update(wrote.partition_to_write_stats)
            files.update(_named(wrote, target.time))
            committed = _committed_logs(table, wrote) if target.completed else {}
            groups.update(group for group in wrote.file_groups if group not in committed)
        # markers may have been lost as well
        lost = unknown and target.action in WRITE_ACTIONS
        if lost or not partitions or (forget and not target.completed):
            partitions = set(table.listing().partitions())
        files.update(files_of(table, target.time, sorted(partitions)))
    requests = []
    for file in sorted(files):
        partition, _, name = file.rpartition("/")
        parsed = BaseFileName.parse(name) or LogFileName.parse(name)
        requests.append(
            RollbackRequest(
                partition_path=partition,
                file_id=parsed.file_id if parsed else "",
                latest_base_instant=target.time,
                files_to_delete=(join(table.base_path, file),),
            )
        )
    whole = target.completed or forget
    if target.action is Action.DELTACOMMIT or whole:
        appends = target.comparable_action is Action.DELTACOMMIT
        suspects = replace(
            Suspects.of(markers, groups if appends else (), partitions),
            committed=frozenset().union(*committed.values()) if appends else frozenset(),
            planned=frozenset(files),
        )
        every = unknown and appends
        requests += log_undo(table).plan(table, target.time, suspects, every_group=every, whole=whole)
    return RollbackPlan(InstantInfo.of(target), tuple(requests))


def put_plan(table: Table, pending: PendingRollback) -> RollbackPlan:
    """Put a rollback's plan on the timeline, unless it is there; from here on the rollback will be run."""
    if pending.plan is not None:
        return pending.plan
    work = plan(table, pending.target, pending.forget)
    requested = pending.instant.with_state(State.REQUESTED)
    begin_instant(table.store, requested, work.to_bytes())
    return work


def execute(commits: Commits, pending: PendingRollback) -> RollbackMetadata:
    """Run one rollback to its end; safe to run again after a kill anywhere inside."""
    with commits.gate.publishing():
        return _execute(commits, pending)


def _execute(commits: Commits, pending: PendingRollback) -> RollbackMetadata:
    table, storage, base_path = commits.table, commits.table.storage, commits.table.base_path
    started = time.time()
    requested = pending.instant.with_state(State.REQUESTED)
    work = put_plan(table, pending)
    if pending.instant.state is State.REQUESTED:
        begin_instant(table.store, requested.with_state(State.INFLIGHT))
    completed = table.store.exists(pending.target.with_state(State.COMPLETED))
    if completed and pending.target.action in _PLANNED and not pending.forget:
        raise TableError(
            f"rollback {requested.time} is of an attempt at {pending.target.action.value} "
            f"{pending.target.time}, which was completed since; remove {requested.time}.rollback.* from "
            f"{base_path}/.hoodie",
            instant=requested.time,
        )
    service = pending.target.action not in _PLANNED and _service(table, pending.target)
    lost = _lost(table, pending.target.with_state(State.COMPLETED) if completed else pending.target)
    if completed or service or pending.forget:
        unpublish(table, pending.target)
    commits.undo(pending.target)
    done: dict[str, RollbackPartition] = {}
    for request in work.requests:
        partition = request.partition_path
        before = done.get(partition, RollbackPartition(partition))
        done[partition] = _undo(table, pending, request, before)
    for partition in done:
        storage.sweep_partial(join(base_path, partition))
        storage.sync(join(base_path, partition))
    metadata = RollbackMetadata.of(
        start_time=requested.time,
        duration_ms=int((time.time() - started) * 1000),
        target=InstantInfo.of(pending.target),
        partitions=done,
        lost=lost,
    )
    commits.complete(requested.with_state(State.COMPLETED), metadata)
    # it is done: what is left, the next writer sweeps, as after a kill
    tried(lambda: finish(table, pending.target))
    tried(lambda: delete_markers(table, requested.time))
    return metadata


def unpublish(table: Table, target: Instant) -> None:
    """Remove all files of an instant from the timeline, and its token.

    The completed file of a write is deleted last, that of a service first: without its plan it would be taken
    for a write's. A compaction's inflight file may not lie there without its plan, either; a clustering's is
    then a failed write's. The token goes before: later its commit would seem to be archived.
    """
    store = table.store
    with contextlib.suppress(FileNotFoundError, TableError):
        if (made := store.commit(target.with_state(State.COMPLETED))) is not None:
            token_store.remove(table.storage, table.base_path, target.time, made)
    service = _service(table, target)
    if service is not None:
        pending = (Instant(target.time, service, state) for state in (State.INFLIGHT, State.REQUESTED))
        store.delete_states([target.with_state(State.COMPLETED), *pending])
        return
    action = target.comparable_action
    store.delete_states([Instant(target.time, action, state) for state in State])


def _service(table: Table, target: Instant) -> Action | None:
    """The service whose commit, or attempt, this is, by its own files; None for a write's."""
    for action in table.store.layout.plans_of(target.comparable_action):
        for state in (State.REQUESTED, State.INFLIGHT):
            if table.store.exists(Instant(target.time, action, state)):
                return action
    return None


def _undo(
    table: Table, pending: PendingRollback, request: RollbackRequest, before: RollbackPartition
) -> RollbackPartition:
    """One request of the plan carried out; what it did, added to what was done in the partition `before`."""
    logs = request.log_blocks_to_delete or {}
    changes = [path for path in logs if _is_changes(path)]  # Apache Hudi's plans have them among the logs
    request = replace(
        request, log_blocks_to_delete={path: logs[path] for path in logs if path not in changes}
    )
    gone = (*request.files_to_delete, *changes)
    for path in gone:
        table.storage.delete(here(table.base_path, request.partition_path, path))
    after = replace(before, deleted=(*before.deleted, *gone))
    if not request.log_blocks_to_delete:
        return after
    made = log_undo(table).void(table, table.listing(), pending.instant.time, pending.target.time, request)
    return replace(
        after,
        rollback_log_files={**(before.rollback_log_files or {}), **made},
        failed_commit_log_files={**(before.failed_commit_log_files or {}), **_sizes(table, request)},
    )


def _sizes(table: Table, request: RollbackRequest) -> Sizes:
    """Of the log files whose blocks a request voids: plans of Apache Hudi may have stubs instead."""
    found: Sizes = {}
    for log, planned in (request.log_blocks_to_delete or {}).items():
        info = table.storage.info(here(table.base_path, request.partition_path, log))
        found[log] = planned if info is None or info.is_dir else info.size
    return found


def finish(table: Table, target: Instant) -> None:
    """Remove a failed instant; a service's plan stays, so that it can be executed again."""
    if target.action in _PLANNED or _plans_clustering(table, target):
        table.store.delete_states([target.with_state(State.INFLIGHT)])
    else:
        table.store.delete(target)
    delete_markers(table, target.time)


def _wrote(table: Table, target: Instant) -> CommitMetadata | None:
    """The metadata of a commit, or of its inflight file; None where that is empty or torn."""
    try:
        return table.store.commit(_readable(target))
    except (FileNotFoundError, TableError):
        return None


def _lost(table: Table, target: Instant) -> RolledBackCommit | None:
    """What the page and the log say of an instant that is taken back; None where it says nothing itself."""
    wrote = _wrote(table, target)
    return None if wrote is None else RolledBackCommit.of(target, wrote)


def _readable(target: Instant) -> Instant:
    return target if target.completed else target.with_state(State.INFLIGHT)


def _named(metadata: CommitMetadata, instant: InstantTime) -> Iterator[str]:
    """Base files of the instant, and its change logs, that its metadata names; relative to the table."""
    for stat in metadata.write_stats:
        name = BaseFileName.parse(stat.file_name)
        if stat.path and name is not None and name.instant == instant:
            yield stat.path
        yield from stat.cdc_stats or ()


def _is_changes(path: str) -> bool:
    """Is it a change log, which belongs to the instant in its name."""
    name = LogFileName.parse(path.rpartition("/")[2])
    return name is not None and name.cdc


def _committed_logs(table: Table, metadata: CommitMetadata) -> dict[tuple[str, str], frozenset[str]]:
    """File groups of which a commit names all files, and they are there -> the logs among them.

    In these no other log needs to be looked into.
    """
    named: dict[tuple[str, str], set[str | None]] = {}
    for partition, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            named.setdefault((partition, stat.file_id), set()).add(stat.path)
    found: dict[tuple[str, str], frozenset[str]] = {}
    for group, paths in named.items():
        there = [path for path in paths if path and table.storage.exists(join(table.base_path, path))]
        if len(there) == len(paths):
            found[group] = frozenset(path for path in there if LogFileName.parse(path.rpartition("/")[2]))
    return found


def _is_clustering(timeline: Timeline, storage: Storage, instant: Instant) -> bool:
    return timeline.kind(instant, storage) is Kind.CLUSTERING


def _plans_clustering(table: Table, instant: Instant) -> bool:
    if not instant.replaces:
        return False
    return table.store.clustering_plan(instant) is not None


def check_no_restore(timeline: Timeline, storage: Storage, remove: bool = False) -> None:
    """Raises TableError where a restore was begun and not finished.

    One whose plan was cut while it was written has done nothing: `remove` it.
    """
    for instant in timeline.filter([Action.RESTORE], completed=False):
        path = timeline.path(instant.with_state(State.REQUESTED))
        try:
            point = RestorePlan.from_bytes(storage.read(path)).point or "T"
        except (FileNotFoundError, TableError):
            if instant.state is State.REQUESTED:
                if remove:
                    storage.delete(path)
                continue
            point = "T"
        raise TableError(
            f"restore {instant.time} of {timeline.base_path} was not finished, so the table is between two "
            f"states; finish it with `hoodie restore --table {timeline.base_path} --instant {point}`, then "
            "repeat this",
            instant=instant.time,
            point=point,
        )
