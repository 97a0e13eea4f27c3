"""A restore job: which instants it rolls back and what forbids it (format.md 13.7), the order that survives
a kill, the result, and restores that were begun, as the planner finishes them.

1. `X.restore.requested` with the plan.
2. `X.restore.inflight`.
3. For each instant of the plan a rollback at an instant of its own (write.rollback), which removes it from
   the timeline.
4. `X.restore`.
5. The deletes of the rollbacks' own files, also of those of earlier rollbacks after the point, as Apache
   Hudi does.

A kill before 4 leaves a pending restore. Writers then refuse the table, and the next restore to the same
point, of this package or of Apache Hudi, continues it. A kill after 4 leaves completed rollbacks, which
change nothing.

The metadata table is deleted before 1 and rebuilt after 5 (hoodie.write.participants.metadata_table). Apache
Hudi restores it if its files are old enough, and then lists the folders. After a rebuild all of its indexes
are right, whatever cleans and compactions came between, and no kill leaves it and the table apart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hoodie.errors import AlreadyExists, CommitConflict, ConfigError, TableError
from hoodie.progress import ProgressCallback
from hoodie.services.archive.policy import archived_commits
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import Request
from hoodie.services.restore.service import RestoreRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.rollback.eligibility import check_no_savepoints, check_nothing_lost, lost_slices
from hoodie.services.rollback.run import RollbackReport, merged
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, check_features
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import COMMIT_ACTIONS, COMPLETES_AS, Action, Instant, Kind, State
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata, RollbackPlan
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime
from hoodie.write.rollback import executor
from hoodie.write.rollback.executor import PendingRollback
from hoodie.write.transaction import Transaction

_SHOWN = 5
#: what a restore takes back; cleans, savepoints and rollbacks are no part of it
_WRITES = frozenset({*COMMIT_ACTIONS, *COMPLETES_AS})


@dataclass(frozen=True)
class Begun:
    """A restore that was begun and not finished; `point` is None where its plan does not contain it."""

    instant: Instant
    plan: RestorePlan
    point: InstantTime | None


def begun(timeline: Timeline, target: ServiceTable) -> Begun | None:
    """The restore to finish, of this package or of Apache Hudi. One whose plan was cut while it was written
    does not count.

    Raises TableError for a plan that was begun and can't be read.
    """
    for instant in reversed(timeline.filter([Action.RESTORE], completed=False)):
        path = target.table.store.path(instant.with_state(State.REQUESTED))
        try:
            plan = RestorePlan.from_bytes(target.storage.read(path))
        except (FileNotFoundError, TableError) as error:
            if instant.state is State.REQUESTED:
                continue
            raise TableError(
                f"restore {instant.time} was begun and its plan can't be read ({error}); restore {path}",
                instant=instant.time,
            ) from None
        return Begun(instant, plan, plan.point or _savepoint_before(timeline, plan))
    return None


@dataclass(frozen=True)
class Last:
    """The newest completed restore; `point` is "" where its plan does not contain it."""

    time: InstantTime
    point: InstantTime
    partitions: tuple[str, ...]


def last(timeline: Timeline, target: ServiceTable) -> Last | None:
    """The newest completed restore on the active timeline; None without one whose files can be read."""
    done = timeline.filter([Action.RESTORE], completed=True)
    if not done:
        return None
    try:
        plan = RestorePlan.from_bytes(target.table.store.read(done[-1].with_state(State.REQUESTED)))
        metadata = RestoreMetadata.from_bytes(timeline.read(done[-1], target.storage))
    except (FileNotFoundError, TableError):
        return None
    rollbacks = [rollback for group in metadata.rollbacks.values() for rollback in group]
    partitions = sorted({partition for rollback in rollbacks for partition in rollback.partitions})
    return Last(done[-1].time, plan.point or NO_TIME, tuple(partitions))


def make(target: ServiceTable, timeline: Timeline, point: InstantTime) -> RestorePlan:
    """All later writes, newest first, and before them pending clusterings, as Apache Hudi has it.

    An empty plan where there is none. Raises ConfigError where there is no such commit, and TableError where
    the table can't go back to it.
    """
    commits = [instant.time for instant in timeline.commits()]
    if point not in commits:
        raise _no_commit(target, timeline, point, commits)
    later = timeline.after(point, reversed(timeline.filter(_WRITES)))
    check_no_savepoints(timeline, [item.time for item in later], "taken back")
    times = (instant.time for instant in archived_commits(target) if instant.is_after(point))
    archived = sorted(times, key=REQUESTED.key)
    if archived:
        raise TableError(
            f"the table can't go back to {point}: later commits are archived already ({_listed(archived)}). "
            f"Take {archived[-1]} or a later commit",
            instant=point,
        )
    lost = lost_slices(target.table, timeline, point, later)
    check_nothing_lost(lost, f"going back to {point}")
    clusterings = [item for item in later if _is_pending_clustering(timeline, target, item)]
    ordered = [*clusterings, *(item for item in later if item not in clusterings)]
    return RestorePlan(tuple(InstantInfo.of(item) for item in ordered), point)


def _is_pending_clustering(timeline: Timeline, target: ServiceTable, instant: Instant) -> bool:
    return not instant.completed and timeline.kind(instant, target.storage) is Kind.CLUSTERING


def _savepoint_before(timeline: Timeline, plan: RestorePlan) -> InstantTime | None:
    """The savepoint that a plan of version 1 goes back to: the newest one before all that it takes back."""
    first = REQUESTED.first(info.time for info in plan.instants)
    saved = [item.time for item in timeline.filter([Action.SAVEPOINT]) if item.is_before(first)]
    return saved[-1] if saved else None


def _no_commit(
    target: ServiceTable, timeline: Timeline, point: InstantTime, commits: list[InstantTime]
) -> ConfigError:
    if any(instant.time == point for instant in archived_commits(target)):
        why = f"commit {point} of {target.base_path} is archived"
    else:
        why = f"{point} is no completed commit on the timeline of {target.base_path}"
    saved = [item.time for item in timeline.filter([Action.SAVEPOINT], completed=True)]
    savepoints = f"there are savepoints {_listed(saved[::-1])}; " if saved else ""
    return ConfigError(
        f"{why}; {savepoints}the newest commits are {_listed(commits[::-1]) or 'none'}", instant=point
    )


def _listed(times: list[InstantTime]) -> str:
    more = f", and {len(times) - _SHOWN} more" if len(times) > _SHOWN else ""
    return ", ".join(times[:_SHOWN]) + more


@dataclass(frozen=True, kw_only=True, repr=False)
class RestoreResult(ServiceResult):
    """What a restore job did, or, with dry_run, would do.

    status: `restored`, `planned` (a dry run), or `skipped`, for `reason`. instant: that of the restore, of a
    skipped one that of the earlier restore to the same commit, whose `partitions` it has, "" for none;
    restored_to: the commit that is the newest now. undone: the instants that were taken back, in their order,
    with their actions; files: what goes, paths in the table, of `bytes`; voided: log files of which some
    blocks don't count any more. resumed: an earlier restore was finished, and files are those that were left
    to it. rolled_back: failed writes that were rolled back first.
    """

    restored_to: InstantTime
    undone: list[dict[str, str]]
    resumed: bool
    partitions: list[str]
    num_files: int
    bytes: int
    files: list[str]
    voided: list[str]
    action: str = "restore"
    operation: str = "restore"


@dataclass
class _Done:
    plan: RestorePlan = field(default_factory=RestorePlan)
    work: RollbackReport = field(default_factory=RollbackReport)
    instant: str = ""
    resumed: bool = False


def restore(request: RestoreRequest) -> RestoreResult:
    """Take back everything after the completed commit that the request names.

    A restore to that commit that was begun is finished. No other process may work on the table meanwhile:
    writers and services at work are a ConflictError. Raises HoodieError with nothing changed: ConfigError
    where there is no such commit, TableError with the reason why the table can't go back to it. An error once
    it has begun leaves a pending restore.
    """
    started = time.monotonic()
    point, dry_run = InstantTime(request.instant), request.dry_run
    target = ServiceTable.open(request.table, request.options)
    check_features(target.props, "restore", "restored", Feature.OTHER_BASE_FILES)
    timeline = target.timeline()
    found = _begun(target, timeline, point)
    done = _Done(found.plan if found else make(target, timeline, point), resumed=found is not None)
    reason = "" if found or done.plan.instants else f"{point} is the newest commit already"
    if dry_run and not reason:
        done.work = RollbackReport.of(target.table, _planned(target, timeline, done.plan.instants))
    elif not reason:
        _run(target, point, request.progress, done)
    if reason:
        past = last(timeline, target)
        past = past if past is not None and past.point == point else None
        return skipped(target, point, past, dry_run, reason, time.monotonic() - started)
    status = "planned" if dry_run else "restored"
    return _result(target, point, status, dry_run, done, time.monotonic() - started)


def skipped(
    target: ServiceTable, point: InstantTime, past: Last | None, dry_run: bool, reason: str, seconds: float
) -> RestoreResult:
    """The result without work; `past` is the restore that made it needless."""
    return RestoreResult(
        status="skipped",
        instant=past.time if past else "",
        restored_to=point,
        undone=[],
        resumed=False,
        reason=reason,
        partitions=list(past.partitions) if past else [],
        num_files=0,
        bytes=0,
        files=[],
        voided=[],
        **about(target, dry_run, seconds),
    )


def _begun(target: ServiceTable, timeline: Timeline, point: InstantTime) -> Begun | None:
    """The restore to continue. Raises ConfigError where that restores another commit."""
    found = begun(timeline, target)
    if found is not None and found.point not in (None, point):
        raise ConfigError(
            f"restore {found.instant.time} of {target.base_path} to {found.point} was not finished; finish "
            f"it first: hoodie restore --table {target.base_path} --instant {found.point}",
            instant=found.instant.time,
            point=found.point,
        )
    return found


def _run(target: ServiceTable, point: InstantTime, progress: ProgressCallback, done: _Done) -> None:
    started = time.monotonic()
    with target.transaction(progress) as transaction:
        transaction.claim(alone=True, restoring=done.resumed)
        transaction.detach_metadata_table()
        with transaction.publishing():
            instant = _instant(target, point, done)
        done.instant = instant.time
        requested = instant.with_state(State.REQUESTED)
        if instant.state is State.REQUESTED:
            begin_instant(target.table.store, requested.with_state(State.INFLIGHT))
        _take_back(target, instant.time, transaction, progress, done)
        transaction.check_claim()
        rollbacks = _rollbacks(target, instant.time, done.plan.instants)
        duration = int((time.monotonic() - started) * 1000)
        metadata = RestoreMetadata(instant.time, duration, done.plan.instants, rollbacks)
        with transaction.publishing():
            try:
                transaction.complete(requested, metadata)
            except AlreadyExists:
                raise CommitConflict(
                    f"restore {instant.time} was completed by another process", instant=instant.time
                ) from None
            _forget_rollbacks(target, point, done.plan.instants)
        transaction.reattach_metadata_table()


def _instant(target: ServiceTable, point: InstantTime, done: _Done) -> Instant:
    """The restore, with its plan on the timeline: the one that was begun, or a new one."""
    timeline = target.timeline()
    found = _begun(target, timeline, point)
    if found is not None:
        done.plan, done.resumed = found.plan, True
        return found.instant
    done.plan = make(target, timeline, point)
    time_ = new_instant_time(timeline.last_time, target.props.timeline_utc)
    made = Instant(time_, Action.RESTORE, State.REQUESTED)
    begin_instant(target.table.store, made, done.plan.to_bytes())
    try:  # savepoints are made beside services: of two at once the second sees the other
        check_no_savepoints(target.timeline(), [info.time for info in done.plan.instants], "taken back")
    except BaseException:
        target.table.store.delete(made)
        raise
    return made


def _take_back(
    target: ServiceTable,
    restore_time: InstantTime,
    transaction: Transaction,
    progress: ProgressCallback,
    done: _Done,
) -> None:
    """Roll back every instant of the plan that is left; rollbacks of them that were begun come first."""
    utc = target.props.timeline_utc
    wanted = {info.time for info in done.plan.instants}
    works: list[RollbackReport] = []

    def run(pending: PendingRollback) -> None:
        transaction.check_claim()
        with transaction.publishing():
            plan = executor.put_plan(target.table, pending)
            works.append(RollbackReport.of(target.table, [plan]))
            transaction.roll_back(replace(pending, plan=plan))

    every = executor.begun(target.timeline(), target.storage)
    for time_, begun in sorted(every.items(), key=lambda item: REQUESTED.key(item[0]), reverse=True):
        if time_ in wanted:
            run(replace(begun, forget=True))
    for info in done.plan.instants:
        timeline = target.timeline()
        instant = _on_timeline(timeline, info)
        if instant is not None:
            progress("restore", f"{restore_time}: roll back {instant}")
            run(PendingRollback.new(timeline, instant, utc, forget=True))
    done.work = merged(works)


def _on_timeline(timeline: Timeline, info: InstantInfo) -> Instant | None:
    wanted = Instant(info.time, info.known_action, State.REQUESTED).comparable_action
    return next(
        (item for item in timeline if (item.time, item.comparable_action) == (info.time, wanted)), None
    )


def _planned(target: ServiceTable, timeline: Timeline, instants: Sequence[InstantInfo]) -> list[RollbackPlan]:
    begun = executor.begun(timeline, target.storage, remove=False)
    found: list[RollbackPlan] = []
    for info in instants:
        instant, pending = _on_timeline(timeline, info), begun.get(info.time)
        if pending is not None and pending.plan is not None:
            found.append(pending.plan)
        elif instant is not None:
            found.append(executor.plan(target.table, instant, forget=True))
    return found


def _rollbacks(
    target: ServiceTable, restore_time: InstantTime, instants: Sequence[InstantInfo]
) -> dict[str, tuple[RollbackMetadata, ...]]:
    """What the rollbacks of a restore did, in its plan's order; those of a killed run, too."""
    timeline = target.timeline()
    found: dict[str, list[RollbackMetadata]] = {info.time: [] for info in instants}
    for instant in timeline.filter([Action.ROLLBACK], completed=True):
        if instant.is_after(restore_time):
            metadata = RollbackMetadata.from_bytes(timeline.read(instant, target.storage))
            for time_ in metadata.commits:
                if time_ in found:
                    found[time_].append(metadata)
    return {time_: tuple(group) for time_, group in found.items() if group}


def _forget_rollbacks(target: ServiceTable, point: InstantTime, instants: Sequence[InstantInfo]) -> None:
    """Remove rollbacks after the point, the completed file last: none ever looks as if it were pending.

    Pending rollbacks of other instants stay, for the next write or rollback to finish.
    """
    wanted = {info.time for info in instants}
    timeline = target.timeline()
    begun = executor.begun(timeline, target.storage)
    others = {item.instant.time for time_, item in begun.items() if time_ not in wanted}
    for instant in timeline.filter([Action.ROLLBACK]):
        if instant.is_after(point) and instant.time not in others:
            target.table.store.delete_states(map(instant.with_state, State))


def _result(
    target: ServiceTable, point: InstantTime, status: str, dry_run: bool, done: _Done, seconds: float
) -> RestoreResult:
    work = done.work
    return RestoreResult(
        status=status,
        instant=done.instant,
        restored_to=point,
        undone=[{"instant": info.time, "action": info.action} for info in done.plan.instants],
        resumed=done.resumed,
        reason="",
        partitions=list(work.partitions),
        num_files=len(work.files),
        bytes=work.bytes,
        files=list(work.files),
        voided=list(work.voided),
        **about(target, dry_run, seconds),
    )


class RestoreEntry(PlannerEntry):
    actions = frozenset({Action.RESTORE})

    @property
    def request(self) -> type[Request]:
        return Request

    def run(self, request: Request) -> ServiceResult:
        return finish_restore(request)

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        undone = [item["instant"] for item in result["undone"]]
        text = f"take the table back to {result['restored_to']}, {plural(len(undone), 'instant')}"
        return Work(text, result["num_files"], result["bytes"], undone)


def finish_restore(request: Request) -> ServiceResult:
    """Finish a restore that was begun; without one the result names the last restore.

    Raises TableError where its plan has no commit to go to.
    """
    started = time.monotonic()
    target = ServiceTable.open(request.table, request.options, dry_run=request.dry_run)
    timeline = target.timeline()
    found = begun(timeline, target)
    if found is None:
        past, seconds = last(timeline, target), time.monotonic() - started
        point = past.point if past else NO_TIME
        return skipped(target, point, past, request.dry_run, "no restore is pending", seconds)
    if found.point is None:
        raise TableError(
            f"the plan of restore {found.instant.time} does not name the commit that it goes to; finish it "
            "with Apache Hudi",
            instant=found.instant.time,
        )
    return restore(
        RestoreRequest(
            table=request.table,
            instant=found.point,
            options=request.options,
            dry_run=request.dry_run,
            progress=request.progress,
        )
    )
