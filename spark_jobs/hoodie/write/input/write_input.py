"""The rows of a write between its two passes: counted by file group, not written yet."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from hoodie.engine import Engine, Frame
from hoodie.engine.task import BatchFunction
from hoodie.errors import JobError
from hoodie.index import PlacingIndex
from hoodie.progress import ProgressCallback
from hoodie.table.handle import Table
from hoodie.timeline.commit import WriteStat, stats_by_partition
from hoodie.timeline.store import check_size
from hoodie.timeline.time import InstantTime
from hoodie.write.assign.bulk_insert import bulk_assignment
from hoodie.write.assign.inserts import PlaceRows, PlaceTagged, place_groups
from hoodie.write.assign.workload import Assignment, Parallelism, WorkloadProfile, assign
from hoodie.write.blobs import (
    BLOB_ID,
    BLOB_SCHEMA,
    KEYS,
    ROWS,
    STAGED_SCHEMA,
    SUMMARY,
    answers,
    raise_errors,
)
from hoodie.write.files.write_task import WriteFileGroups
from hoodie.write.input.key_staging import (
    Answers,
    RescanBucketed,
    RescanTagged,
    StageKeys,
    by_block,
    keys_of_frame,
    sent_bytes,
)
from hoodie.write.input.row_group_insert import RowGroupInsertPlan
from hoodie.write.input.staged_input import StagedInput, StagedRows, first_pass
from hoodie.write.input.streaming_insert import StreamingInsertPlan, Way, WriteRows
from hoodie.write.plan import WritePlan
from hoodie.write.tagging.tag import FEW_BYTES, Tags, list_slices, tagged

#: what a commit says of a file takes so many at least
LEAST_BYTES = 700


@dataclass(frozen=True, kw_only=True)
class WriteInput(ABC):
    """Rows that the first pass counted; `profile` is what it found, amended until they are written.

    An instance is used within `prepared` only.
    """

    engine: Engine
    plan: WritePlan
    profile: WorkloadProfile = field(default_factory=WorkloadProfile)

    @property
    @abstractmethod
    def assignment(self) -> Assignment:
        """Where every row goes, by the profile of now; new file groups get new ids each time."""

    def staged(self) -> list[dict[str, Any]]:
        """Summaries, and keys, of the first pass; nothing where the index is asked about none."""
        return []

    def write(self, instant: InstantTime, progress: ProgressCallback) -> dict[str, list[WriteStat]]:
        """Write all rows under the instant; the statistics of the files, by partition.

        Raises JobError where other rows arrive than were counted, as a source has changed between the passes.
        """
        with self._batches():
            found = answers(self.engine, self._tasks(instant, progress))
        received = sum(answer["rows"] for answer in found)
        self.profile.missing += sum(answer["missing"] for answer in found)
        if not 0 <= received - self.profile.rows <= self.profile.copies:
            raise JobError(
                f"{self.profile.rows} rows were staged but {received} reached the write tasks: the input "
                "changed while it was read again; write it to a file first",
                staged=self.profile.rows,
                received=received,
            )
        return stats_by_partition(value for answer in found for value in answer["stats"])

    def _batches(self) -> AbstractContextManager[None]:
        return self.engine.batches(blobs=True)

    @abstractmethod
    def _tasks(self, instant: InstantTime, progress: ProgressCallback) -> Frame:
        """The answers of the write tasks, not yet computed."""

    @property
    def _parallelism(self) -> Parallelism:
        return self.plan.write_parallelism(self.profile.input_partitions, self.engine.parallelism)


@dataclass(frozen=True, kw_only=True)
class _Staged(WriteInput):
    """Blobs of rows, persisted; None for no rows at all. Without `tags` each is of one partition, all new, or
    of one file group that the index numbers.
    """

    blobs: Frame | None = None
    tags: Tags | None = None

    @property
    def assignment(self) -> Assignment:
        plan = self.plan
        context = plan.context
        if context.operation.fills_new_groups and not self.profile.file_ids:
            return bulk_assignment(
                self.profile,
                plan.config,
                self._parallelism,
                streamed=context.streams,
                task_memory=context.merge_budget,
            )
        appends = context.logs is not None
        size = plan.record_size if self.profile.inserts else 1
        return assign(self.profile, plan.config, size, self._parallelism, appends)

    def staged(self) -> list[dict[str, Any]]:
        if self.blobs is None or self.tags is None:
            return []
        return self.engine.collect(self.engine.filter(self.blobs, "kind", (SUMMARY, KEYS)))

    def _tasks(self, instant: InstantTime, progress: ProgressCallback) -> Frame:
        engine, assignment = self.engine, self.assignment
        check_size(instant, len(assignment.writes) * LEAST_BYTES)
        progress("write", f"instant {instant}: {len(assignment.writes)} file groups")
        placed = self._placed(assignment)
        shuffled = engine.shuffle(placed, "reducer", assignment.reducer_count, "write")
        task = WriteFileGroups(self.plan.context, instant, assignment.writes)
        return engine.map_batches(shuffled, task, BLOB_SCHEMA)

    def _placed(self, assignment: Assignment) -> Frame:
        """The rows in blobs, each with its write."""
        engine, context = self.engine, self.plan.context
        rows = engine.filter(self.blobs, "kind", (ROWS,))
        if self.tags is not None:
            if self.tags.frame is not None:
                rows = engine.attach(rows, self.tags.frame, BLOB_ID, "payload", "hits", self.tags.few)
            return engine.map_batches(rows, PlaceTagged.of(context, assignment, self.tags), BLOB_SCHEMA)
        if self.profile.file_ids:
            return engine.left_join(rows, assignment.table_of(self.profile.file_ids), ("partition", "group"))
        if assignment.cuts:
            return engine.map_batches(rows, PlaceRows(assignment, context.travel_schema), BLOB_SCHEMA)
        return engine.left_join(rows, assignment.table, ("partition",))


@dataclass(frozen=True, kw_only=True)
class _KeysFirst(_Staged):
    """Rows whose keys alone are staged."""

    rows: Frame
    answers: Answers | None = None

    def _batches(self) -> AbstractContextManager[None]:
        return self.engine.batches(rows=self.engine.files(self.rows) is None, blobs=True)

    def _placed(self, assignment: Assignment) -> Frame:
        return self.engine.map_batches(self.rows, self._place(assignment), BLOB_SCHEMA)

    def _place(self, assignment: Assignment) -> BatchFunction:
        context = self.plan.context
        if self.tags is None:
            return RescanBucketed(context, assignment.targets(self.profile.file_ids))
        return RescanTagged(PlaceTagged.of(context, assignment, self.tags), self.answers)


class _Streamed(WriteInput):
    """Rows that go from where they are to new files."""

    @property
    def assignment(self) -> Assignment:
        return bulk_assignment(self.profile, self.plan.config, self._parallelism, streamed=True)


@dataclass(frozen=True, kw_only=True)
class _InFiles(_Streamed):
    """Row groups of source files that the write tasks read themselves."""

    direct: RowGroupInsertPlan

    def _tasks(self, instant: InstantTime, progress: ProgressCallback) -> Frame:
        task = self.direct.write(self.plan.context, self.assignment, instant)
        check_size(instant, len(task.writes) * LEAST_BYTES)
        progress(
            "write", f"instant {instant}: {len(task.writes)} file groups, straight from the source files"
        )
        return self.engine.map_batches(self.engine.tasks(len(task.tasks)), task, BLOB_SCHEMA)


@dataclass(frozen=True, kw_only=True)
class _Counted(_Streamed):
    """Rows that the engine computes while they are written."""

    counted: StreamingInsertPlan

    def _batches(self) -> AbstractContextManager[None]:
        return self.engine.batches(rows=True)

    def _tasks(self, instant: InstantTime, progress: ProgressCallback) -> Frame:
        counted, context = self.counted, self.plan.context
        source = "DataFrame" if self.engine.files(counted.rows) is None else "files"
        progress("write", f"instant {instant}: rows {counted.way.value}, straight from the {source}")
        task = WriteRows(context, instant, frozenset(self.profile.partitions))
        return self.engine.map_batches(counted.rows, task, BLOB_SCHEMA)


@contextlib.contextmanager
def prepared(first: StagedInput, plan: WritePlan, table: Table) -> Iterator[WriteInput]:
    """The first pass over the rows of a write, or what an earlier attempt at it has left of that. Writes
    nothing.

    What it holds, in memory within the limits of the settings, is freed at its end, staged rows at that of
    `first`. Raises what a task finds wrong with a row.
    """
    engine, plan = first.limited(plan)
    frame = first.frame
    if frame is None:
        yield _Staged(engine=engine, plan=plan)
        return
    if not first.has_staged:
        frame = engine.scanned(frame)
        if (unstaged := _streamed(engine, frame, plan, table)) is not None:
            yield unstaged
            return
    if not plan.context.operation.brings_rows:
        frame = engine.select(frame, plan.context.keys.key_columns)
    if not first.has_staged and (unstaged := _keys_first(engine, frame, plan, table)) is not None:
        yield unstaged
        return
    with contextlib.ExitStack() as held:
        yield _staged(engine, first.staged(engine, frame, plan), plan, table, held)


def _streamed(engine: Engine, frame: Frame, plan: WritePlan, table: Table) -> WriteInput | None:
    """Rows that are counted without being held; None where they have to be looked at."""
    files = engine.files(frame)
    if files is not None and (direct := RowGroupInsertPlan.of(files, plan.context, table)) is not None:
        return _InFiles(engine=engine, plan=plan, profile=direct.profile, direct=direct)
    counted = StreamingInsertPlan.of(engine, frame, plan)
    if counted is None:
        return None
    profile = counted.profile
    list_slices(table, plan.context, profile)
    if counted.way is Way.GATHERED:
        return _KeysFirst(engine=engine, plan=plan, profile=profile, tags=Tags(), rows=frame)
    return _Counted(engine=engine, plan=plan, profile=profile, counted=counted)


def _keys_first(engine: Engine, frame: Frame, plan: WritePlan, table: Table) -> WriteInput | None:
    """None where the rows have to be staged."""
    context, columns = plan.context, keys_of_frame(engine, frame, plan)
    if columns is None:
        return None
    with contextlib.ExitStack() as held:
        step = StageKeys.of(plan, engine.files(frame))
        keys, rows = first_pass(engine, columns, step, STAGED_SCHEMA, held)
        profile = WorkloadProfile.of(raise_errors(rows))
        list_slices(table, context, profile)
        if isinstance(context.index, PlacingIndex):
            place_groups(table, plan, context.index, profile)
            return _KeysFirst(engine=engine, plan=plan, profile=profile, rows=frame)
        if context.looks_up and any(profile.slices.values()) and sent_bytes(profile.rows) > FEW_BYTES:
            return None
        found, hits = Tags(), None
        if context.index is not None:
            with engine.batches(blobs=True):
                found = held.enter_context(tagged(engine, keys, rows, context, profile))
                hits = found.collected(engine) if found.searched else None
    return _KeysFirst(
        engine=engine,
        plan=plan,
        profile=profile,
        tags=Tags(found.slices),
        rows=frame,
        answers=None if hits is None else by_block(hits),
    )


def _staged(
    engine: Engine, staged: StagedRows, plan: WritePlan, table: Table, held: contextlib.ExitStack
) -> WriteInput:
    """`held` frees the tags."""
    context, profile = plan.context, staged.profile()
    list_slices(table, context, profile)
    tags = None
    if isinstance(context.index, PlacingIndex):
        place_groups(table, plan, context.index, profile)
    elif context.index is not None:
        with engine.batches(blobs=True):
            tags = held.enter_context(tagged(engine, staged.blobs, staged.known, context, profile))
    return _Staged(engine=engine, plan=plan, profile=profile, blobs=staged.blobs, tags=tags)
