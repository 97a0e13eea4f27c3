"""A rollback job: one instant that the user chose, its result, and the files that it changes, by its plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from hoodie.errors import HoodieError
from hoodie.format.names import join
from hoodie.progress import ProgressCallback
from hoodie.services.cancel.service import CancelRequest
from hoodie.services.planned import OutdatedPlan
from hoodie.services.results import ServiceResult, about
from hoodie.services.rollback.eligibility import (
    Chosen,
    check_no_savepoints,
    choose,
    choose_plan,
    rolled_back_by,
)
from hoodie.services.rollback.service import RollbackRequest
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, check_features
from hoodie.table.handle import Table
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Instant
from hoodie.timeline.models.rollback import RollbackMetadata, RollbackPlan
from hoodie.timeline.time import InstantTime
from hoodie.write.rollback import executor
from hoodie.write.rollback.executor import PendingRollback
from hoodie.write.transaction import Transaction


@dataclass(frozen=True)
class RollbackReport:
    """`files` to delete, and log files of which command blocks void some blocks: paths in the table.

    `bytes` is the size of the files that are there.
    """

    partitions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    voided: tuple[str, ...] = ()
    bytes: int = 0

    @classmethod
    def of(cls, table: Table, plans: Iterable[RollbackPlan]) -> RollbackReport:
        files: set[str] = set()
        voided: set[str] = set()
        partitions: set[str] = set()
        for request in (request for plan in plans for request in plan.requests):
            partition = request.partition_path
            files.update(join(partition, _name(path)) for path in request.files_to_delete)
            voided.update(join(partition, _name(path)) for path in request.log_blocks_to_delete or ())
            partitions.add(partition)
        found = (table.storage.info(join(table.base_path, path)) for path in files)
        size = sum(item.size for item in found if item is not None)
        return cls(tuple(sorted(partitions)), tuple(sorted(files)), tuple(sorted(voided - files)), size)


def merged(works: Iterable[RollbackReport]) -> RollbackReport:
    """Of several rollbacks, each as of its own time."""
    every = list(works)
    files = {name for work in every for name in work.files}
    return RollbackReport(
        tuple(sorted({name for work in every for name in work.partitions})),
        tuple(sorted(files)),
        tuple(sorted({name for work in every for name in work.voided} - files)),
        sum(work.bytes for work in every),
    )


def _name(path: str) -> str:
    return path.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True, repr=False)
class RollbackResult(ServiceResult):
    """What a rollback job did, or, with dry_run, would do.

    status: `rolled_back`, `planned` (a dry run), or `skipped`, for `reason`. instant: that of the rollback,
    "" for none; target, target_action, target_state: what was rolled back, and how far it was. files: what
    goes, paths in the table, of `bytes`; voided: log files of which some blocks don't count any more.
    rolled_back: other failed writes that were rolled back first.
    """

    target: str
    target_action: str
    target_state: str
    partitions: list[str]
    num_files: int
    bytes: int
    files: list[str]
    voided: list[str]
    action: str = "rollback"
    operation: str = "rollback"


@dataclass(frozen=True, kw_only=True, repr=False)
class CancelResult(RollbackResult):
    """As of a rollback, of a pending compaction, log compaction or clustering with its plan; status:
    `cancelled`, `planned` or `skipped`.
    """

    operation: str = "cancel"


@dataclass
class _Done:
    chosen: Chosen
    choose: Callable[[ServiceTable, Timeline, InstantTime], Chosen] = choose
    work: RollbackReport = field(default_factory=RollbackReport)
    instant: str = ""


def rollback_instant(request: RollbackRequest) -> RollbackResult:
    """Roll one instant back, and other failed writes with it.

    A failed write, an attempt at a compaction (its plan stays), a pending clustering or log compaction (with
    its plan), or the newest completed commit. Raises HoodieError, with nothing changed: TableError names what
    stands in the way, ConflictError the process at work.
    """
    started = time.monotonic()
    target = ServiceTable.open(request.table, request.options)
    done = _work(target, request, choose)
    return RollbackResult(**_fields(target, request, done, time.monotonic() - started))


def cancel_plan(request: CancelRequest) -> CancelResult:
    """Take a pending plan off the timeline, with what an attempt at it left.

    A rollback instant records it. Raises HoodieError, with nothing changed: TableError for a compaction that
    rows were written on top of, ConflictError while another process executes it, or writes.
    """
    started = time.monotonic()
    target = ServiceTable.open(request.table, request.options)
    done = _work(target, request, choose_plan)
    fields = _fields(target, request, done, time.monotonic() - started)
    status = "cancelled" if fields["status"] == "rolled_back" else fields["status"]
    return CancelResult(**{**fields, "status": status})


def cancel(target: ServiceTable, time_: InstantTime, progress: ProgressCallback) -> None:
    """Takes a pending plan off the timeline, unless it is gone. Raises HoodieError as `cancel_plan`."""
    done = _Done(choose_plan(target, target.timeline(), time_), choose_plan)
    if done.chosen.instant is not None:
        _run(target, time_, progress, done)


def cancel_outdated(
    target: ServiceTable, time_: InstantTime, error: OutdatedPlan, progress: ProgressCallback
) -> None:
    """Takes a plan off the timeline that would fail each time. Raises it with advice where that fails."""
    try:
        cancel(target, time_, progress)
    except HoodieError as why:
        by = f"hoodie cancel --instant {time_}"
        advice = f"cancel it ({by}), which failed here ({why.message})"
        raise OutdatedPlan(f"{error.message}: {advice}", **error.values) from None


def _work(
    target: ServiceTable,
    request: RollbackRequest | CancelRequest,
    choose_: Callable[[ServiceTable, Timeline, InstantTime], Chosen],
) -> _Done:
    check_features(target.props, "change", "rolled back", Feature.OTHER_BASE_FILES)
    timeline = target.timeline()
    done = _Done(choose_(target, timeline, InstantTime(request.instant)), choose_)
    if done.chosen.instant is not None and (request.dry_run or done.chosen.failed):
        done.work = _planned(target, timeline, done.chosen)
    if done.chosen.instant is not None and not request.dry_run:
        _run(target, InstantTime(request.instant), request.progress, done)
    return done


def _planned(target: ServiceTable, timeline: Timeline, chosen: Chosen) -> RollbackReport:
    assert chosen.instant is not None
    begun = executor.begun(timeline, target.storage, remove=False).get(chosen.instant.time)
    plan = begun.plan if begun else None
    if plan is None:
        plan = executor.plan(target.table, chosen.instant, chosen.forget)
    return RollbackReport.of(target.table, [plan])


def _run(target: ServiceTable, time_: InstantTime, progress: ProgressCallback, done: _Done) -> None:
    """No other process may work on the table meanwhile. Taking the table rolls failed writes back, also this
    one.
    """
    first = done.chosen
    with target.transaction(progress) as transaction:
        transaction.claim(alone=True)
        timeline = target.timeline()
        metadata = rolled_back_by(timeline, target, time_) if time_ in transaction.rolled_back else None
        done.chosen = done.choose(target, timeline, time_)
        if done.chosen.instant is not None:
            progress("rollback", f"{done.chosen.instant}")
            transaction.check_claim()
            with transaction.publishing():
                metadata = _roll_back(target, timeline, transaction, done)
        elif metadata is not None:
            done.chosen = first
        if metadata is not None:
            done.instant = metadata.start_time


def _roll_back(
    target: ServiceTable, timeline: Timeline, transaction: Transaction, done: _Done
) -> RollbackMetadata:
    chosen = done.chosen
    assert chosen.instant is not None
    pending = PendingRollback.new(timeline, chosen.instant, target.props.timeline_utc, chosen.forget)
    plan = executor.put_plan(target.table, pending)
    done.work = RollbackReport.of(target.table, [plan])
    _check_no_new_savepoint(target, pending.instant, chosen.instant)
    return transaction.roll_back(replace(pending, plan=plan))


def _check_no_new_savepoint(target: ServiceTable, made: Instant, instant: Instant) -> None:
    """Savepoints are made while services work: of two at once the second one finds the other, and fails."""
    try:
        check_no_savepoints(target.timeline(), [instant.time], "rolled back")
    except BaseException:
        target.table.store.delete(made)
        raise


def _fields(
    target: ServiceTable, request: RollbackRequest | CancelRequest, done: _Done, seconds: float
) -> dict[str, Any]:
    """The fields of the result."""
    chosen, work = done.chosen, done.work
    common = about(target, request.dry_run, seconds)
    common["rolled_back"] = [time for time in common["rolled_back"] if time != request.instant]
    status = "skipped" if chosen.instant is None else "planned" if request.dry_run else "rolled_back"
    return dict(
        status=status,
        instant=done.instant,
        target=request.instant,
        target_action=chosen.instant.action.value if chosen.instant else "",
        target_state=chosen.instant.state.name.lower() if chosen.instant else "",
        reason=chosen.reason,
        partitions=list(work.partitions),
        num_files=len(work.files),
        bytes=work.bytes,
        files=list(work.files),
        voided=list(work.voided),
        **common,
    )
