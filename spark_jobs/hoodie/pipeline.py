"""THE order of a write. Read this first.

token     a write whose token has a commit of the same source is done already
resolve   settings, the table's properties, the schema the rows must have: all errors before any write
stage     one pass over the input: keys, tags, rows cut into blobs by file group (kept, so read only once)
begin     refuse a second writer, roll back failed writes, take the instant
assign    count → buckets: files with updates, small files, new files
write     shuffle by bucket; a task writes its files, marker first
commit    delete what no task reported, then the completed instant, which alone shows the data
services  what the settings ask for inline; the commit stays, whatever becomes of them
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hoodie.config.key import Config
from hoodie.engine import BatchFunction, Engine, Frame
from hoodie.engine.files import FileFrame, OverFiles
from hoodie.errors import HoodieError, JobError, TableNotFound
from hoodie.services.inline import after_write
from hoodie.services.retention import check_retention
from hoodie.storage import Storage, normalize, storage_for
from hoodie.table import properties
from hoodie.table.pending import busy_groups, refuse_updates
from hoodie.table.view import storage_listing
from hoodie.timeline import tokens
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.timeline.instant import Instant, State
from hoodie.timeline.tokens import TokenCommit
from hoodie.write.assign import Assign
from hoodie.write.bulk import bulk_assignment
from hoodie.write.direct import DirectPlan
from hoodie.write.log_keys import refuse_hidden_keys
from hoodie.write.operation import Operation, WriteRequest, WriteResult
from hoodie.write.resolve import Plan, resolve
from hoodie.write.stage import Stage
from hoodie.write.staged import ERROR, STAGED_SCHEMA, SUMMARY, raise_errors
from hoodie.write.task import WriteBuckets
from hoodie.write.transaction import Transaction
from hoodie.write.workload import Assignment, Profile, assign

Progress = Callable[[str, str], None]
_RESTAGES = 3


def write(
    engine: Engine, frame: Frame, request: WriteRequest, progress: Progress = lambda step, text: None
) -> WriteResult:
    """Write the rows of `frame`; returns when the commit is visible.

    Raises HoodieError of the fitting kind; rows are visible all or not at all. An empty frame makes a commit
    without files, so that what waits for this interval's commit goes on. What inline services fail at are
    warnings of the result.
    """
    result, config = _committed(engine, frame, request, progress)
    if config is None:
        return result
    warnings = after_write(engine, result.base_path, config, progress)
    return replace(result, warnings=[*result.warnings, *warnings])


def _committed(
    engine: Engine, frame: Frame, request: WriteRequest, progress: Progress
) -> tuple[WriteResult, Config | None]:
    """The write up to its commit, and its settings; None for those of a write that was done before."""
    started = time.monotonic()
    path = normalize(request.path)
    storage = storage_for(path)
    for _ in range(_RESTAGES):
        # again after another writer's commit: it may have been this very one
        earlier = _earlier(storage, path, request)
        if earlier is not None and not request.force and earlier.is_of(request.fingerprint):
            progress("token", f"{request.token} was committed at {earlier.instant}")
            name = properties.load(storage, path).name
            return WriteResult(**earlier.result(name, path)), None
        plan = resolve(storage, path, request, _schema(engine, frame))
        check_retention(plan.config)
        progress("stage", f"{request.operation.value} into {path}")
        with _prepared(engine, frame, plan, storage) as (staged, profile):
            progress("stage", f"{profile.rows} rows in {len(profile.partitions)} partitions")
            _spare_pending(profile, plan, storage)
            plan.create_table(storage)
            with Transaction(storage, path, plan.config, plan.timeline_utc, plan.action) as transaction:
                transaction.begin()
                if plan.outdated(storage):
                    continue
                metadata = _write(engine, staged, profile, plan, transaction, progress)
                seconds = time.monotonic() - started
                result = _result(request, plan, transaction, metadata, seconds)
                warnings = _remember(storage, path, transaction.instant, plan, metadata, earlier)
                return replace(result, warnings=[*result.warnings, *warnings]), plan.config
    raise JobError(
        f"other writers committed to {path} during {_RESTAGES} attempts; run this write alone", path=path
    )


def _earlier(storage: Storage, path: str, request: WriteRequest) -> TokenCommit | None:
    if not request.token:
        return None
    try:
        return tokens.find(Timeline.load(path, storage), storage, request.token)
    except TableNotFound:
        return None


def _remember(
    storage: Storage,
    path: str,
    instant: str,
    plan: Plan,
    metadata: CommitMetadata,
    earlier: TokenCommit | None,
) -> list[str]:
    """Keep the token; the commit itself tells it too, so a failure here is no error. Gives warnings."""
    commit = TokenCommit.of(Instant(instant, plan.action, State.COMPLETED), metadata)
    if commit is not None:
        with contextlib.suppress(OSError, HoodieError):
            tokens.remember(storage, path, commit)
    if earlier is None:
        return []
    why = (
        "asked for by force" if earlier.is_of(commit.fingerprint if commit else "") else "its source changed"
    )
    return [f"{earlier.token} was committed at {earlier.instant} before; written again, {why}"]


def _schema(engine: Engine, frame: Frame | FileFrame) -> pa.Schema:
    return frame.schema if isinstance(frame, FileFrame) else engine.schema(frame)


@contextlib.contextmanager
def _prepared(
    engine: Engine, frame: Frame | FileFrame, plan: Plan, storage: Storage
) -> Iterator[tuple[Frame | DirectPlan, Profile]]:
    """The rows in pieces that know their file group, and how many there are of each."""
    if isinstance(frame, FileFrame):
        direct = DirectPlan.of(frame, plan.context, plan.config, storage)
        if direct is not None:
            yield direct, direct.profile
            return
    with _staged(engine, frame, plan) as staged:
        yield staged


@contextlib.contextmanager
def _staged(engine: Engine, frame: Frame | FileFrame, plan: Plan) -> Iterator[tuple[Frame, Profile]]:
    stage: BatchFunction = Stage(plan.context, plan.sample_keys)
    if isinstance(frame, FileFrame):
        tasks = frame.tasks(engine.parallelism)
        frame, stage = engine.tasks(len(tasks)), OverFiles(frame.scan, tasks, stage)
    with engine.batches(blobs=False):
        staged = engine.keep(engine.map_batches(frame, stage, STAGED_SCHEMA))
        try:
            summaries = raise_errors(engine.collect(staged, (SUMMARY, ERROR)))
            profile = Profile.of(plan.context.base_path, summaries)
        except BaseException:
            engine.release(staged)
            raise
    try:
        yield staged, profile
    finally:
        engine.release(staged)


def _write(
    engine: Engine,
    staged: Frame | DirectPlan,
    profile: Profile,
    plan: Plan,
    transaction: Transaction,
    progress: Progress,
) -> CommitMetadata:
    operation = plan.context.operation
    if transaction.repaired:
        profile.relist(plan.context.snapshot, storage_listing(transaction.storage, transaction.base_path))
    _spare_pending(profile, plan, transaction.storage)
    transaction.inflight(profile.inflight(operation.metadata_name))
    stats: dict[str, list[WriteStat]] = {}
    if profile.rows:
        with engine.batches(blobs=True):
            written = _tasks(engine, staged, profile, plan, transaction.instant, progress)
            answers = raise_errors(engine.collect(written, (SUMMARY, ERROR)))
        _check_counts(profile, answers)
        for answer in answers:
            for value in answer["stats"]:
                stat = WriteStat.from_dict(value)
                stats.setdefault(stat.partition_path or "", []).append(stat)
    progress("commit", f"instant {transaction.instant}")
    return transaction.commit(stats, operation.metadata_name, plan.extra_metadata)


def _tasks(
    engine: Engine,
    staged: Frame | DirectPlan,
    profile: Profile,
    plan: Plan,
    instant: str,
    progress: Progress,
) -> Frame:
    """The write tasks' answers, not yet computed."""
    parallelism = plan.write_parallelism(profile.input_partitions, engine.parallelism)
    if isinstance(staged, DirectPlan):
        task = staged.write(plan.context, plan.config, parallelism, instant)
        progress(
            "write", f"instant {instant}: {len(task.buckets)} file groups, straight from the source files"
        )
        return engine.map_batches(engine.tasks(len(task.tasks)), task, STAGED_SCHEMA)
    if plan.context.operation is Operation.BULK_INSERT:
        assignment = bulk_assignment(profile, plan.config, parallelism)
    else:
        logs = plan.context.logs is not None
        assignment = assign(profile, plan.config, plan.record_size, parallelism, logs)
    progress("write", f"instant {instant}: {len(assignment.buckets)} file groups")
    placed = _place(engine, staged, assignment, plan)
    shuffled = engine.shuffle(placed, "reducer", assignment.reducer_count, "bucket")
    return engine.map_batches(
        shuffled, WriteBuckets(plan.context, instant, assignment.buckets), STAGED_SCHEMA
    )


def _place(engine: Engine, staged: Frame, assignment: Assignment, plan: Plan) -> Frame:
    if assignment.cuts:
        return engine.map_batches(staged, Assign(assignment, plan.context.travel_schema), STAGED_SCHEMA)
    return engine.place(staged, assignment.places, assignment.reducers)


def _spare_pending(profile: Profile, plan: Plan, storage: Storage) -> None:
    """Refuse updates of file groups that a pending clustering is going to replace, and of keys that the index
    can't see; pack nothing into groups with pending plans.

    Called before anything is written, and again once the table is this writer's alone.
    """
    if not any(profile.slices.values()):
        return
    timeline = Timeline.load(plan.context.base_path, storage)
    busy = busy_groups(timeline, storage)
    refuse_updates(busy, profile.groups)
    profile.busy = frozenset(busy)
    if plan.context.index is not None:
        refuse_hidden_keys(storage, timeline, plan.context.snapshot, profile.slices)


def _check_counts(profile: Profile, answers: list[dict[str, Any]]) -> None:
    received = sum(answer["rows"] for answer in answers)
    if received != profile.rows:
        raise JobError(
            f"{profile.rows} rows were staged but {received} reached the write tasks: the input changed "
            "while it was read again; write it to a file first",
            staged=profile.rows,
            received=received,
        )


def _result(
    request: WriteRequest, plan: Plan, transaction: Transaction, metadata: CommitMetadata, seconds: float
) -> WriteResult:
    return WriteResult(
        status="committed",
        table=plan.table_name,
        base_path=plan.context.base_path,
        action=plan.action.value,
        instant=transaction.instant,
        operation=request.operation.value,
        partitions=metadata.partitions,
        num_inserts=metadata.num_inserts,
        num_updates=metadata.num_updates,
        num_deletes=metadata.num_deletes,
        num_writes=metadata.num_writes,
        num_files=metadata.num_files,
        bytes_written=metadata.bytes_written,
        duration_s=round(seconds, 3),
        warnings=list(plan.config.warnings),
        rolled_back=list(transaction.rolled_back),
        metadata_table_removed=transaction.metadata_table_removed,
    )
