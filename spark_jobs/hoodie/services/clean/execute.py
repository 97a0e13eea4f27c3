"""The execution of clean plans, of this package and of Apache Hudi, while writers may work (format.md 13.3).

1. `T.clean.requested` with the plan, 2. `T.clean.inflight`, a copy, 3. the files, 4. the folders of
partitions in which nothing is left, 5. `T.clean`. A kill before 5 leaves a plan that the next run finishes:
a file that is gone already counts as deleted. A file that can't be deleted is recorded, and the next plan
has it again.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from hoodie.errors import AlreadyExists, CommitConflict, StorageError, TableError
from hoodie.format.names import join
from hoodie.progress import ProgressCallback
from hoodie.services.clean.slices import is_side_file
from hoodie.services.planned import ExecutedPlan
from hoodie.services.service_table import ServiceTable
from hoodie.table.handle import Table
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.models.clean import CleanedPartition, CleanFile, CleanMetadata, CleanPlan
from hoodie.timeline.store import again, begin_instant

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
        _refuse_bootstrap(plan, path)
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
        transaction.settle_metadata_table()
        with contextlib.suppress(AlreadyExists):
            inflight = instant.with_state(State.INFLIGHT)
            again(partial(begin_instant, target.table.store, inflight, plan.to_bytes()))
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


def _refuse_bootstrap(plan: CleanPlan, path: str) -> None:
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
