"""A restore job: the order that survives a kill, and what it reports.

1. `X.restore.requested` with the plan, 2. `X.restore.inflight`, 3. for each instant of the plan a rollback at
an instant of its own (write.rollback), which takes it off the timeline, 4. `X.restore`, 5. the rollbacks' own
files, also those of earlier rollbacks after the point, as Apache Hudi does. A kill before 4 leaves a pending
restore: writers refuse the table, and the next restore to the same point, ours or Apache Hudi's, goes on with
it. A kill after 4 leaves completed rollbacks, which change nothing any more.

The metadata table goes before 1, and is made again after 5 (hoodie.write.remaking): Apache Hudi restores it,
too, where it has files that are old enough, and then lists the folders; made anew all of its indexes are
right, whatever cleans and compactions came between, and no kill leaves it and the table apart.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hoodie.errors import AlreadyExists, CommitConflict, ConfigError
from hoodie.progress import ProgressCallback
from hoodie.services.restore import plan as plans
from hoodie.services.restore.plan import Begun, Last
from hoodie.services.restore.service import RestoreRequest
from hoodie.services.results import ServiceResult, about
from hoodie.services.rollback.eligibility import refuse_savepoints
from hoodie.services.rollback.report import RollbackReport, merged
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, refuse
from hoodie.timeline.active import Timeline
from hoodie.timeline.clock import new_instant_time
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.restore import RestoreMetadata, RestorePlan
from hoodie.timeline.models.rollback import InstantInfo, RollbackMetadata, RollbackPlan
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.write import rollback
from hoodie.write.rollback import PendingRollback
from hoodie.write.transaction import Transaction


@dataclass(frozen=True, kw_only=True)
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
    refuse(target.props, "restore", "restored", Feature.OTHER_BASE_FILES)
    timeline = target.timeline()
    found = _begun(target, timeline, point)
    done = _Done(found.plan if found else plans.make(target, timeline, point), resumed=found is not None)
    reason = "" if found or done.plan.instants else f"{point} is the newest commit already"
    if dry_run and not reason:
        done.work = RollbackReport.of(target.table, _planned(target, timeline, done.plan.instants))
    elif not reason:
        _run(target, point, request.progress, done)
    if reason:
        past = plans.last(timeline, target)
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
    found = plans.begun(timeline, target)
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
        transaction.suspend_metadata_table()
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
        transaction.resume_metadata_table()


def _instant(target: ServiceTable, point: InstantTime, done: _Done) -> Instant:
    """The restore, with its plan on the timeline: the one that was begun, or a new one."""
    timeline = target.timeline()
    found = _begun(target, timeline, point)
    if found is not None:
        done.plan, done.resumed = found.plan, True
        return found.instant
    done.plan = plans.make(target, timeline, point)
    time_ = new_instant_time(timeline.last_time, target.props.timeline_utc)
    made = Instant(time_, Action.RESTORE, State.REQUESTED)
    begin_instant(target.table.store, made, done.plan.to_bytes())
    try:  # savepoints are made beside services: of two at once the second sees the other
        refuse_savepoints(target.timeline(), [info.time for info in done.plan.instants], "taken back")
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
            plan = rollback.put_plan(target.table, pending)
            works.append(RollbackReport.of(target.table, [plan]))
            transaction.roll_back(replace(pending, plan=plan))

    every = rollback.begun(target.timeline(), target.storage)
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
    begun = rollback.begun(timeline, target.storage, remove=False)
    found: list[RollbackPlan] = []
    for info in instants:
        instant, pending = _on_timeline(timeline, info), begun.get(info.time)
        if pending is not None and pending.plan is not None:
            found.append(pending.plan)
        elif instant is not None:
            found.append(rollback.plan(target.table, instant, forget=True))
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
    begun = rollback.begun(timeline, target.storage)
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
