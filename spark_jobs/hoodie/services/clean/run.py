"""A clean job, its result, and its entry for the planner. Writers may work at the same time (format.md
13.3).

The job executes plans of this package and of Apache Hudi in these steps:

1. `T.clean.requested` with the plan.
2. `T.clean.inflight`, a copy.
3. The files are deleted.
4. The folders of partitions in which nothing remains are deleted.
5. `T.clean`.

A kill before 5 leaves a plan that the next run finishes: a file that is already gone counts as deleted. A
file that cannot be deleted is recorded, and the next plan has it again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from hoodie.errors import AlreadyExists, CommitConflict, HoodieError, StorageError, TableError
from hoodie.format.names import join
from hoodie.progress import ProgressCallback
from hoodie.services.clean.plan import (
    View,
    examined,
    is_side_file,
    make,
    savepointed_files,
    why_not_due,
    why_nothing,
)
from hoodie.services.clean.policy import Examined, Retention
from hoodie.services.planned import DuePlan, ExecutedPlan, PlannedService, ScheduledPlan
from hoodie.services.planner.entry import PlannerEntry, Work
from hoodie.services.request import PlannedRequest
from hoodie.services.results import ServiceResult
from hoodie.services.service_table import ServiceTable, check_retention
from hoodie.table.features import Feature, check_features
from hoodie.table.handle import Table
from hoodie.text import plural
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.clean import CleanedPartition, CleanFile, CleanMetadata, CleanPlan
from hoodie.timeline.store import again, begin_instant
from hoodie.timeline.time import NO_TIME, InstantTime

_THREADS = 8


@dataclass(frozen=True, kw_only=True)
class CleanedPlan(ExecutedPlan[CleanPlan]):
    """One clean that was completed; `bytes` are those of the files deleted now, `failed` paths in the
    table.
    """

    metadata: CleanMetadata
    bytes: int
    failed: list[str]
    deleted_partitions: list[str]


@dataclass(frozen=True)
class _Deleted:
    partition: str
    name: str
    gone: bool
    bytes: int


def read_plan(target: ServiceTable, instant: Instant, remove: bool = True) -> CleanPlan | None:
    """The plan of a pending clean; None for one that was cut while it was written; with `remove` that is
    deleted, as Apache Hudi does.

    Raises TableError for a plan that was begun and can't be read, or that can't be carried out here.
    """
    storage = target.storage
    states = [State.REQUESTED] if instant.state is State.REQUESTED else [State.REQUESTED, State.INFLIGHT]
    paths = [target.table.store.path(instant.with_state(state)) for state in states]
    torn: TableError | None = None
    for path in paths:
        data = storage.read(path) if storage.exists(path) else b""
        if not data:
            continue
        try:
            plan = CleanPlan.from_bytes(data)
        except TableError as error:
            torn = error
            continue
        _check_no_bootstrap(plan, path)
        return plan
    if torn is not None and instant.state is State.INFLIGHT:
        raise TableError(
            f"clean {instant.time} was begun and its plan can't be read ({torn}); restore {paths[0]}",
            instant=instant.time,
        )
    for path in reversed(paths) if remove else ():
        storage.delete(path)
    return None


def execute(target: ServiceTable, instant: Instant, progress: ProgressCallback) -> CleanedPlan | None:
    """Carry out a pending clean; None where there was no whole plan, which is removed then.

    Raises ConflictError when another process has completed it. An error leaves the plan to the next run.
    """
    started = time.monotonic()
    plan = read_plan(target, instant)
    if plan is None:
        return None
    progress("clean", f"instant {instant.time}: {plan.num_files} files in {len(plan.files)} partitions")
    with target.transaction() as transaction:
        transaction.prepare_metadata_table()
        with contextlib.suppress(AlreadyExists):
            inflight = instant.with_state(State.INFLIGHT)
            store = target.table.store
            data = store.layout.inflight_clean(plan.to_bytes())
            again(partial(begin_instant, store, inflight, data))
        done = _delete_files(target.table, plan)
        folders = _delete_folders(target, plan)
        partitions = {
            partition: _cleaned(partition, plan.policy, group, partition in folders)
            for partition, group in _by_partition(done).items()
        }
        duration = int((time.monotonic() - started) * 1000)
        metadata = CleanMetadata.of(instant.time, duration, plan, partitions)
        try:
            transaction.complete(instant, metadata, beside=True)
        except AlreadyExists:
            raise CommitConflict(
                f"clean {instant.time} was completed by another process", instant=instant.time
            ) from None
        return CleanedPlan(
            instant=instant.time,
            plan=plan,
            metadata=metadata,
            bytes=sum(item.bytes for item in done if item.gone),
            failed=[join(item.partition, item.name) for item in done if not item.gone],
            deleted_partitions=folders,
        )


def _check_no_bootstrap(plan: CleanPlan, path: str) -> None:
    if any(file.bootstrap for _, file in plan):
        raise TableError(
            f"{path} deletes files from which the table was bootstrapped, which are not the table's own; run "
            "this clean with Apache Hudi",
            path=path,
        )


def _delete_files(table: Table, plan: CleanPlan) -> list[_Deleted]:
    """Each file of the plan, in this table: plans hold absolute paths, and a copied table is elsewhere."""
    storage, base_path = table.storage, table.base_path

    def one(item: tuple[str, CleanFile]) -> _Deleted:
        partition, file = item
        path = join(base_path, partition, file.name)
        size = 0
        try:
            info = storage.info(path)
            size = info.size if info else 0
            storage.delete(path)
        except (OSError, StorageError):
            return _Deleted(partition, file.name, not storage.exists(path), size)
        return _Deleted(partition, file.name, True, size)

    with ThreadPoolExecutor(_THREADS) as pool:
        done = list(pool.map(one, plan))
        list(pool.map(storage.sync, {join(base_path, item.partition): None for item in done}))
    return done


def _delete_folders(target: ServiceTable, plan: CleanPlan) -> list[str]:
    """Folders in which nothing is left but side files; writers, which could begin to fill one, are kept away.

    Raises ConflictError while one is at work.
    """
    storage, base_path = target.storage, target.base_path

    def empty(partition: str) -> bool:
        items = target.table.listing().files(partition)
        return bool(items) and all(is_side_file(item.name) and not item.is_dir for item in items)

    wanted = [partition for partition in plan.delete_partitions if partition]
    if not any(map(empty, wanted)):
        return []
    deleted = []
    with target.transaction() as transaction:
        transaction.claim(repair=False)
        for partition in filter(empty, wanted):
            transaction.check_claim()
            try:
                storage.delete_tree(join(base_path, partition))
            except (OSError, StorageError):
                continue  # it is empty for every reader; the plan's files are what counts
            deleted.append(partition)
    return deleted


def _by_partition(done: Sequence[_Deleted]) -> dict[str, list[_Deleted]]:
    groups: dict[str, list[_Deleted]] = {}
    for item in done:
        groups.setdefault(item.partition, []).append(item)
    return groups


def _cleaned(partition: str, policy: str, done: Sequence[_Deleted], folder: bool) -> CleanedPartition:
    return CleanedPartition(
        partition,
        policy,
        tuple(item.name for item in done),
        tuple(item.name for item in done if item.gone),
        tuple(item.name for item in done if not item.gone),
        folder,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class CleanResult(ServiceResult):
    """What a clean job did, or, with dry_run, would do.

    status: `cleaned`, `scheduled` (a plan was made, nothing deleted), `planned` (a dry run), or `skipped`,
    for `reason`. scheduled: the instant of the plan that was made, "" for none. cleaned: instants of the
    plans carried out. pending: those that are left. instant: the last one done, "" for none. earliest: the
    instant from which on every state of the table can be read after the newest of these plans, "" where
    they do not say it. files: what goes, paths in the table by instant; "" stands for the plan of a dry run.
    failed: files that could not be deleted; the next clean tries again. bytes: of the files deleted, or
    planned.
    """

    mode: str
    policy: str
    scheduled: str
    cleaned: list[str]
    pending: list[str]
    earliest: InstantTime
    partitions: list[str]
    deleted_partitions: list[str]
    num_files: int
    bytes: int
    files: dict[str, list[str]]
    failed: list[str]
    action: str = "clean"
    operation: str = "clean"


class Cleaning(PlannedService[CleanPlan, CleanedPlan]):
    """Cleans of one table. Writers may go on while files are deleted, not while a plan is made."""

    name = "clean"
    executed_as = "cleaned"
    requested_as = Action.CLEAN
    completes_as = Action.CLEAN
    _examined: Examined | None = None

    def read_plan(self, instant: Instant) -> CleanPlan | None:
        return read_plan(self.target, instant, remove=False)

    def plan_now(self, timeline: Timeline, now: InstantTime | None) -> DuePlan[CleanPlan]:
        target = self.target
        retention = Retention.of(target.config, int(time.time() * 1000), target.props.timeline_utc)
        reason = why_nothing(timeline, retention)
        if reason:
            return DuePlan(None, reason)
        view = View.of(target.table, timeline, bool(target.props.partition_fields))
        reason = why_not_due(view, target.config)
        if reason:
            return DuePlan(None, reason)
        due = make(view, retention, target.config)
        self._examined = examined(view, retention, target.config) if due.plan is None else None
        return due

    def schedule(self) -> ScheduledPlan[CleanPlan]:
        """As of all planned services; also notes how far nothing was found, as far as that can be written."""
        done = super().schedule()
        if done.due.plan is None and self._examined is not None:
            with contextlib.suppress(OSError, HoodieError):
                self._examined.save(self.target.storage, self.target.base_path)
        return done

    def content(self, plan: CleanPlan) -> bytes:
        return plan.to_bytes()

    def check_scheduled(self, instant: Instant, plan: CleanPlan) -> None:
        """Savepoints are made while services work: of two at once the second finds the other, and fails."""
        target = self.target
        kept = frozenset(savepointed_files(target.timeline(), target.storage))
        if any(file.name in kept for _, file in plan):
            target.table.store.delete_states([instant])
            raise CommitConflict(
                f"a savepoint was made while clean {instant.time} of {target.base_path} was planned, and "
                "keeps files that it was going to delete; run it again",
                instant=instant.time,
            )

    def execute(self, instant: Instant) -> CleanedPlan | None:
        return execute(self.target, instant, self.progress)


def clean(request: PlannedRequest) -> CleanResult:
    """Plan, carry out or both; see PlannedService.run. Raises HoodieError."""
    target = ServiceTable.open(request.table, request.options, dry_run=request.dry_run)
    check_retention(target.config)
    check_features(target.props, "clean", "cleaned", Feature.OTHER_BASE_FILES)
    service = Cleaning(target, request.progress)
    done = service.run(request.mode, dry_run=request.dry_run)
    plans = list(done.plans.values())
    last = plans[-1] if plans else None
    return CleanResult(
        **service.report(done, request.mode, request.dry_run),
        policy=last.policy if last else Retention.of(target.config, 0, True).policy.value,
        earliest=last.earliest.time if last and last.earliest else NO_TIME,
        partitions=sorted({partition for plan in plans for partition in plan.files}),
        deleted_partitions=_deleted_partitions(done.executed, plans),
        num_files=_num_files(done.executed, plans),
        bytes=sum(each.bytes for each in done.executed) if done.executed else done.scheduled.due.bytes,
        files={instant: _paths(plan) for instant, plan in done.plans.items()},
        failed=[path for each in done.executed for path in each.failed],
    )


def _deleted_partitions(executed: Sequence[CleanedPlan], plans: Sequence[CleanPlan]) -> list[str]:
    """The partitions that were deleted, or, where no plan was executed, are planned to be."""
    if executed:
        return sorted({partition for each in executed for partition in each.deleted_partitions})
    return sorted({partition for plan in plans for partition in plan.delete_partitions})


def _num_files(executed: Sequence[CleanedPlan], plans: Sequence[CleanPlan]) -> int:
    """Files deleted, or, where no plan was executed, planned."""
    if executed:
        done = (item for each in executed for item in each.metadata.partitions.values())
        return sum(len(item.deleted) for item in done)
    return sum(plan.num_files for plan in plans)


def _paths(plan: CleanPlan) -> list[str]:
    return [f"{partition}/{file.name}" if partition else file.name for partition, file in plan]


class CleanEntry(PlannerEntry):
    actions = frozenset({Action.CLEAN})

    def work(self, target: ServiceTable, result: Mapping[str, Any]) -> Work:
        files, partitions = result["num_files"], len(result["partitions"])
        text = f"delete {plural(files, 'file')} in {plural(partitions, 'partition')}" if files else ""
        return Work(text, files, result["bytes"], [instant for instant in result["files"] if instant])

    def why(self, target: ServiceTable, timeline: Timeline) -> str:
        return Retention.of(target.config, 0, target.props.timeline_utc).text
