"""THE order of a write. Read this first.

resolve   settings, the table's properties, the schema the rows must have: all errors before any write
stage     one pass over the input: keys, tags, rows cut into blobs by file group (kept, so read only once)
begin     refuse a second writer, roll back failed writes, take the instant
assign    count → buckets: files with updates, small files, new files
write     shuffle by bucket; a task writes its files, marker first
commit    delete what no task reported, then the completed instant, which alone shows the data
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from hoodie.engine import BatchFunction, Engine, Frame
from hoodie.engine.files import FileFrame, OverFiles
from hoodie.errors import JobError
from hoodie.storage import Storage, normalize, storage_for
from hoodie.table.pending import busy_groups, refuse_updates
from hoodie.timeline.active import Timeline
from hoodie.timeline.commit import CommitMetadata, WriteStat
from hoodie.write.assign import Assign
from hoodie.write.bulk import bulk_assignment
from hoodie.write.direct import DirectPlan
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
    without files, so that what waits for this interval's commit goes on.
    """
    started = time.monotonic()
    path = normalize(request.path)
    storage = storage_for(path)
    for _ in range(_RESTAGES):
        plan = resolve(storage, path, request, _schema(engine, frame))
        progress("stage", f"{request.operation.value} into {path}")
        with _prepared(engine, frame, plan, storage) as (staged, profile):
            progress("stage", f"{profile.rows} rows in {len(profile.partitions)} partitions")
            _spare_pending(profile, storage, path)
            plan.create_table(storage)
            with Transaction(storage, path, plan.config, plan.timeline_utc) as transaction:
                transaction.begin()
                if plan.outdated(storage):
                    continue
                metadata = _write(engine, staged, profile, plan, transaction, progress)
                return _result(request, plan, transaction, metadata, time.monotonic() - started)
    raise JobError(
        f"other writers committed to {path} during {_RESTAGES} attempts; run this write alone", path=path
    )


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
    _spare_pending(profile, transaction.storage, transaction.base_path)
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
        assignment = assign(profile, plan.config, plan.record_size, parallelism)
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


def _spare_pending(profile: Profile, storage: Storage, path: str) -> None:
    """Refuse updates of file groups that a pending clustering is going to replace, and pack nothing there.

    Called before anything is written, and again once the table is this writer's alone.
    """
    if not any(profile.files.values()):
        return
    busy = busy_groups(Timeline.load(path, storage), storage)
    refuse_updates(busy, profile.groups)
    for partition, files in profile.files.items():
        profile.files[partition] = [file for file in files if (partition, file.file_id) not in busy]


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
        action="commit",
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
