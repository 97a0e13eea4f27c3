"""Savepoints: commits whose files the cleaner retains, and to which a restore can return (format.md 13.7).

1. Create `T.savepoint.inflight`, empty. 2. Create `T.savepoint` with the files of the table as of T.

Writers and services continue meanwhile. So the timeline is checked again afterwards, and the savepoint is
deleted if a clean or a rollback came between. A deletion removes the inflight file first, so that the
savepoint exists as long as its files may be needed. A kill leaves an inflight file at most, which the next
savepoint of T completes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hoodie.errors import AlreadyExists, CommitConflict, ConfigError, StateUnavailable, TableError
from hoodie.format.names import join
from hoodie.read.readable_range import FileHistory, needs_as_of
from hoodie.services.clean.plan import last_clean
from hoodie.services.clean.policy import pending_files, pending_plans
from hoodie.services.results import ServiceResult, about
from hoodie.services.savepoint.service import SavepointRequest
from hoodie.services.service_table import ServiceTable
from hoodie.table.features import Feature, check_features
from hoodie.table.listing import StorageListing
from hoodie.table.slicing import slicing_of
from hoodie.table.view import TimelineView, merged_slices
from hoodie.timeline.active import Timeline
from hoodie.timeline.instant import Action, Instant, State
from hoodie.timeline.models.savepoint import SavepointMetadata
from hoodie.timeline.store import begin_instant
from hoodie.timeline.time import REQUESTED, InstantTime
from hoodie.write.operation import check_public
from hoodie.write.rollback import executor
from hoodie.write.transaction import Transaction

_SHOWN = 5


@dataclass(frozen=True, kw_only=True, repr=False)
class SavepointResult(ServiceResult):
    """What a savepoint job did, or, with dry_run, would do.

    status: `created`, `deleted`, `planned` (a dry run), or `skipped`, for `reason`. mode: create or delete.
    instant: the commit. files: names of the files that are kept, by partition, of `bytes`; of a deletion
    those that the cleaner may take from now on.
    """

    mode: str
    user: str
    comments: str
    partitions: list[str]
    num_files: int
    bytes: int
    files: dict[str, list[str]]
    action: str = "savepoint"
    operation: str = "savepoint"


def savepoint(request: SavepointRequest) -> SavepointResult:
    """Make a savepoint, or delete one."""
    if not request.delete:
        return create_savepoint(request)
    if not request.instant:
        raise ConfigError(
            "the request has no instant: --delete needs --instant; name that of the savepoint to delete "
            "(hoodie timeline lists the savepoints)"
        )
    return delete_savepoint(request, InstantTime(request.instant))


def create_savepoint(request: SavepointRequest) -> SavepointResult:
    """Keep the files of the table as of a completed commit, the newest by default.

    One that is there already is left as it is. Raises ConfigError where there is no such commit, TableError
    where the cleaner may have taken files of it, ConflictError where a clean or a rollback came between.
    """
    started = time.monotonic()
    user, comments, dry_run = request.user, request.comments, request.dry_run
    for name, text in (("user", user), ("comments", comments)):
        check_public(f"the savepoint's {name}", name, text)
    target = ServiceTable.open(request.table, request.options)
    check_features(target.props, "save", "savepointed", Feature.OTHER_BASE_FILES)
    timeline = target.timeline()
    executor.check_no_restore(timeline, target.storage)
    commit = _commit(target, timeline, InstantTime(request.instant) if request.instant is not None else None)
    saved = savepoint_of(timeline, target, commit)
    if saved is not None:
        by = f" by {saved.user}" if saved.user else ""
        reason = (
            f"commit {commit} has a savepoint already{by}{f': {saved.comments}' if saved.comments else ''}"
        )
        return _result(target, "skipped", "create", dry_run, commit, saved, started, reason)
    _check_not_cleaned(target, timeline, commit)
    files = _files(target, timeline, commit)
    _check_no_pending_clean(target, timeline, commit, files)
    metadata = SavepointMetadata(user, int(time.time() * 1000), comments, files)
    if dry_run:
        return _result(target, "planned", "create", True, commit, metadata, started)
    request.progress("savepoint", f"commit {commit}: {metadata.num_files} files in {len(files)} partitions")
    with target.transaction(request.progress) as transaction, transaction.publishing():
        _write(target, transaction, commit, metadata, timeline)
    return _result(target, "created", "create", False, commit, metadata, started)


def delete_savepoint(request: SavepointRequest, instant: InstantTime) -> SavepointResult:
    """Delete a savepoint: the cleaner and rollbacks may delete the files of its commit again. One that is not
    there is no error.
    """
    started = time.monotonic()
    target, dry_run = ServiceTable.open(request.table, request.options), request.dry_run
    timeline = target.timeline()
    found = [item for item in timeline.filter([Action.SAVEPOINT]) if item.time == instant]
    if not found:
        times = [item.time for item in timeline.filter([Action.SAVEPOINT])]
        there = f"there are {_listed(times)}" if times else "the table has none"
        reason = f"no savepoint of {instant}; {there}"
        return _result(target, "skipped", "delete", dry_run, instant, None, started, reason)
    saved = savepoint_of(timeline, target, instant)
    if not dry_run:
        request.progress("savepoint", f"delete that of {instant}")
        with target.transaction(request.progress) as transaction, transaction.publishing():
            _delete(target, transaction, instant)
    status = "planned" if dry_run else "deleted"
    return _result(target, status, "delete", dry_run, instant, saved, started)


def savepoint_of(timeline: Timeline, target: ServiceTable, commit: InstantTime) -> SavepointMetadata | None:
    """The completed savepoint of a commit."""
    for instant in timeline.filter([Action.SAVEPOINT], completed=True):
        if instant.time == commit:
            return SavepointMetadata.from_bytes(timeline.read(instant, target.storage))
    return None


def _commit(target: ServiceTable, timeline: Timeline, instant: InstantTime | None) -> InstantTime:
    commits = [item.time for item in timeline.commits()]
    if not commits:
        raise ConfigError(f"{target.base_path} has no completed commit yet; write to it first")
    if instant is None:
        return commits[-1]
    if instant not in commits:
        raise ConfigError(
            f"{instant} is no completed commit on the timeline of {target.base_path}; the newest are "
            f"{_listed(commits[::-1])}",
            instant=instant,
        )
    return instant


def _check_not_cleaned(target: ServiceTable, timeline: Timeline, commit: InstantTime) -> None:
    """Apache Hudi's rule: not before what the last clean retains. Nor where files of the commit's state are
    missing: that clean's metadata does not show them where policies have changed. The newest state is always
    complete.
    """
    commits = [item.time for item in timeline.commits()]
    if commit == commits[-1]:
        return
    last = last_clean(timeline, target.storage)
    kept = [last.earliest if last else commits[0]]
    kept += [plan.earliest.time for _, plan in pending_plans(timeline, target.storage) if plan.earliest]
    earliest = max(kept, key=REQUESTED.key)
    if REQUESTED.before(commit, earliest):
        raise TableError(
            f"commit {commit} can't get a savepoint: the cleaner may have taken files of it, and keeps "
            f"everything from {earliest} on. Choose that commit or a later one",
            instant=commit,
            earliest=earliest,
        )
    if not timeline.filter([Action.CLEAN]) or timeline.is_archived(commit):
        return
    needs = needs_as_of(timeline, target.storage, commit)
    past = FileHistory("commit", commit, needs, slicing=slicing_of(timeline))
    try:
        past.check(StorageListing(target.storage, target.base_path).many(past.partitions))
    except StateUnavailable as error:
        raise TableError(f"commit {commit} can't get a savepoint: {error.message}", instant=commit) from None


def _files(target: ServiceTable, timeline: Timeline, commit: InstantTime) -> dict[str, tuple[str, ...]]:
    """The files of the table as of the commit, by partition.

    Of a file group that is to be compacted these are those of the slice that the compaction reads, too: it
    may be cleaned once the compaction is done, and what that makes has no name yet.
    """
    snapshot = TimelineView.of(timeline, target.storage, as_of=commit)
    listing = StorageListing(target.storage, target.base_path)

    def one(partition: str) -> tuple[str, ...]:
        names: list[str] = []
        for item in merged_slices(snapshot, listing.files, partition):
            names += [item.base.name] if item.base else []
            names += [log.name for log in reversed(item.logs)]
        return tuple(names)

    return {partition: one(partition) for partition in listing.partitions()}


def _check_no_pending_clean(
    target: ServiceTable, timeline: Timeline, commit: InstantTime, files: Mapping[str, Sequence[str]]
) -> None:
    for partition, name, clean in pending_files(timeline, target.storage):
        if name in files.get(partition, ()):
            raise TableError(
                f"commit {commit} can't get a savepoint: pending clean {clean} is going to delete "
                f"{join(partition, name)}. Choose a later commit",
                instant=commit,
                clean=clean,
            )


def _write(
    target: ServiceTable,
    transaction: Transaction,
    commit: InstantTime,
    metadata: SavepointMetadata,
    before: Timeline,
) -> None:
    """Make the savepoint, then check that it is complete: of two processes at once the second one finds the
    other.
    """
    inflight = Instant(commit, Action.SAVEPOINT, State.INFLIGHT)
    with contextlib.suppress(AlreadyExists):
        begin_instant(target.table.store, inflight)
    try:
        transaction.complete(inflight, metadata, beside=True)
    except AlreadyExists:
        raise CommitConflict(
            f"another process has just made a savepoint of {commit}; run it again to see it", instant=commit
        ) from None
    try:
        _check_not_rolled_back(target, commit, metadata, before)
    except BaseException:
        _delete(target, transaction, commit)
        raise


def _check_not_rolled_back(
    target: ServiceTable, commit: InstantTime, metadata: SavepointMetadata, before: Timeline
) -> None:
    now = target.timeline()
    undoing = executor.begun(now, target.storage, remove=False)
    if not now.is_committed(commit) or any(REQUESTED.since(time, commit) for time in undoing):
        raise CommitConflict(f"commit {commit} is being rolled back; choose an earlier one", instant=commit)
    executor.check_no_restore(now, target.storage)
    if now.filter([Action.CLEAN]) != before.filter([Action.CLEAN]):
        _check_not_cleaned(target, now, commit)
        _check_files_exist(target, commit, metadata)
    _check_no_pending_clean(target, now, commit, metadata.files)


def _check_files_exist(target: ServiceTable, commit: InstantTime, metadata: SavepointMetadata) -> None:
    for partition, names in metadata.files.items():
        there = set(target.storage.names(join(target.base_path, partition)))
        for name in names:
            if name not in there:
                raise CommitConflict(
                    f"a clean has just deleted {join(partition, name)}, which the savepoint of {commit} "
                    "needs; choose a later commit",
                    instant=commit,
                )


def _delete(target: ServiceTable, transaction: Transaction, commit: InstantTime) -> None:
    saved = [Instant(commit, Action.SAVEPOINT, state) for state in (State.INFLIGHT, State.COMPLETED)]
    target.table.store.delete_states(saved)
    transaction.undo(saved[-1])


def _result(
    target: ServiceTable,
    status: str,
    mode: str,
    dry_run: bool,
    instant: InstantTime,
    saved: SavepointMetadata | None,
    started: float,
    reason: str = "",
) -> SavepointResult:
    files = saved.files if saved else {}
    paths = [join(target.base_path, partition, name) for partition, names in files.items() for name in names]
    found = (target.storage.info(path) for path in paths)
    return SavepointResult(
        status=status,
        mode=mode,
        instant=instant,
        user=saved.user if saved else "",
        comments=saved.comments if saved else "",
        reason=reason,
        partitions=sorted(partition for partition, names in files.items() if names),
        num_files=len(paths),
        bytes=sum(item.size for item in found if item is not None),
        files={partition: list(names) for partition, names in files.items() if names},
        **about(target, dry_run, time.monotonic() - started),
    )


def _listed(times: Sequence[InstantTime]) -> str:
    more = f", and {len(times) - _SHOWN} more" if len(times) > _SHOWN else ""
    return ", ".join(times[:_SHOWN]) + more
