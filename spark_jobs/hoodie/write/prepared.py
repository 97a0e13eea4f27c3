"""The rows of a write between its two passes: counted by file group, not written yet."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.engine.task import BatchFunction
from hoodie.errors import JobError
from hoodie.index import PlacingIndex
from hoodie.progress import ProgressCallback
from hoodie.read.settings import MERGE_BUDGET
from hoodie.read.spill import spill_error
from hoodie.table.handle import Table
from hoodie.timeline.active import refuse_too_large
from hoodie.timeline.commit import WriteStat, stats_by_partition
from hoodie.write.blobs import (
    BLOB_ID,
    BLOB_SCHEMA,
    ERROR,
    KEYS,
    ROWS,
    STAGED_SCHEMA,
    SUMMARY,
    answers,
    raise_errors,
)
from hoodie.write.bulk import bulk_assignment
from hoodie.write.combine_keys import combined, may_repeat
from hoodie.write.counted import CountedPlan, WriteRows
from hoodie.write.direct import DirectPlan
from hoodie.write.keys_first import (
    Answers,
    PlaceRowsAgain,
    StageKeys,
    by_block,
    keys_of_frame,
    sent_bytes,
)
from hoodie.write.place_rows import PlaceRows
from hoodie.write.place_tagged import PlaceTagged
from hoodie.write.placed import place_groups
from hoodie.write.plan import WritePlan
from hoodie.write.stage import StageRows
from hoodie.write.tagging import FEW_BYTES, Tags, list_slices, tagged
from hoodie.write.workload import Assignment, Parallelism, WorkloadProfile, assign
from hoodie.write.write_task import WriteFileGroups

#: what a commit says of a file takes so many at least
LEAST_BYTES = 700


@dataclass(frozen=True, kw_only=True)
class Prepared(ABC):
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

    def write(self, instant: str, progress: ProgressCallback) -> dict[str, list[WriteStat]]:
        """Write all rows under the instant; the statistics of the files, by partition.

        Raises JobError where other rows arrive than were counted, as a source has changed between the passes.
        """
        with self._batches():
            found = answers(self.engine, self._tasks(instant, progress))
        received = sum(answer["rows"] for answer in found)
        self.profile.missing += sum(answer["missing"] for answer in found)
        if received != self.profile.rows:
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
    def _tasks(self, instant: str, progress: ProgressCallback) -> Frame:
        """The answers of the write tasks, not yet computed."""

    @property
    def _parallelism(self) -> Parallelism:
        return self.plan.write_parallelism(self.profile.input_partitions, self.engine.parallelism)


@dataclass(frozen=True, kw_only=True)
class _Staged(Prepared):
    """Blobs of rows, persisted; None for no rows at all. Without `tags` each is of one partition, all new, or
    of one file group that the index numbers.
    """

    blobs: Frame | None = None
    tags: Tags | None = None

    @property
    def assignment(self) -> Assignment:
        plan = self.plan
        if plan.context.operation.fills_new_groups and not self.profile.file_ids:
            task_memory = plan.context.merge_budget
            return bulk_assignment(self.profile, plan.config, self._parallelism, task_memory=task_memory)
        appends = plan.context.logs is not None
        size = plan.record_size if self.profile.inserts else 1
        return assign(self.profile, plan.config, size, self._parallelism, appends)

    def staged(self) -> list[dict[str, Any]]:
        if self.blobs is None or self.tags is None:
            return []
        return self.engine.collect(self.engine.filter(self.blobs, "kind", (SUMMARY, KEYS)))

    def _tasks(self, instant: str, progress: ProgressCallback) -> Frame:
        engine, assignment = self.engine, self.assignment
        refuse_too_large(instant, len(assignment.writes) * LEAST_BYTES)
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
    answers: Answers | None

    def _batches(self) -> AbstractContextManager[None]:
        return self.engine.batches(rows=self.engine.files(self.rows) is None, blobs=True)

    def _placed(self, assignment: Assignment) -> Frame:
        assert self.tags is not None
        place = PlaceTagged.of(self.plan.context, assignment, self.tags)
        return self.engine.map_batches(self.rows, PlaceRowsAgain(place, self.answers), BLOB_SCHEMA)


class _Streamed(Prepared):
    """Rows that go from where they are to new files."""

    @property
    def assignment(self) -> Assignment:
        return bulk_assignment(self.profile, self.plan.config, self._parallelism, streamed=True)


@dataclass(frozen=True, kw_only=True)
class _InFiles(_Streamed):
    """Row groups of source files that the write tasks read themselves."""

    direct: DirectPlan

    def _tasks(self, instant: str, progress: ProgressCallback) -> Frame:
        task = self.direct.write(self.plan.context, self.assignment, instant)
        refuse_too_large(instant, len(task.writes) * LEAST_BYTES)
        progress(
            "write", f"instant {instant}: {len(task.writes)} file groups, straight from the source files"
        )
        return self.engine.map_batches(self.engine.tasks(len(task.tasks)), task, BLOB_SCHEMA)


@dataclass(frozen=True, kw_only=True)
class _Counted(_Streamed):
    """Rows that the engine computes while they are written."""

    counted: CountedPlan

    def _batches(self) -> AbstractContextManager[None]:
        return self.engine.batches(rows=True, gathered=self.counted.task_bytes)

    def _tasks(self, instant: str, progress: ProgressCallback) -> Frame:
        counted, context = self.counted, self.plan.context
        progress("write", f"instant {instant}: rows {counted.way.value}, straight from the DataFrame")
        task = WriteRows(context, instant, frozenset(self.profile.partitions))
        return self.engine.map_batches(counted.rows(context.keys.partition_fields), task, BLOB_SCHEMA)


@contextlib.contextmanager
def prepared(engine: Engine, frame: Frame | None, plan: WritePlan, table: Table) -> Iterator[Prepared]:
    """The first pass over the rows of `frame`; None for a write that brings none. Writes nothing.

    What it holds, in memory within the limits of the settings, is freed at the end. Raises what a task finds
    wrong with a row.
    """
    engine, plan = _limited(engine, plan)
    if frame is None:
        yield _Staged(engine=engine, plan=plan)
        return
    if not plan.context.operation.fills_new_groups:
        frame = engine.scanned(frame)
    files = engine.files(frame)
    if files is not None:
        direct = DirectPlan.of(files, plan.context, table)
        if direct is not None:
            yield _InFiles(engine=engine, plan=plan, profile=direct.profile, direct=direct)
            return
    elif (counted := CountedPlan.of(engine, frame, plan)) is not None:
        list_slices(table, plan.context, counted.profile)
        yield _Counted(engine=engine, plan=plan, profile=counted.profile, counted=counted)
        return
    if not plan.context.operation.brings_rows:
        frame = engine.select(frame, plan.context.keys.key_columns)
    with contextlib.ExitStack() as held:
        yield _keys_first(engine, frame, plan, table) or _staged(engine, frame, plan, table, held)


def _limited(engine: Engine, plan: WritePlan) -> tuple[Engine, WritePlan]:
    """Both within the memory that the settings allow."""
    memory, context = plan.config[MERGE_BUDGET], plan.context
    engine = engine.limited(memory, context.spill_path, spill_error)
    context = replace(context, merge_budget=engine.task_memory(memory))
    return engine, replace(plan, context=context)


def _keys_first(engine: Engine, frame: Frame, plan: WritePlan, table: Table) -> Prepared | None:
    """None where the rows have to be staged."""
    context, columns = plan.context, keys_of_frame(engine, frame, plan)
    if columns is None:
        return None
    with contextlib.ExitStack() as held:
        keys, rows = _first_pass(engine, columns, StageKeys.of(plan), STAGED_SCHEMA, held)
        profile = WorkloadProfile.of(raise_errors(rows))
        list_slices(table, context, profile)
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
    engine: Engine, frame: Frame, plan: WritePlan, table: Table, held: contextlib.ExitStack
) -> Prepared:
    """`held` frees the rows."""
    context = plan.context
    step = StageRows.of(context, plan.sample_keys)
    blobs, rows = _first_pass(engine, frame, step, step.schema, held)
    profile = WorkloadProfile.of(raise_errors(rows))
    if may_repeat(context, rows):
        came = profile.input_partitions
        blobs, rows = combined(engine, blobs, rows, step, held)
        profile = WorkloadProfile.of(raise_errors(rows))
        profile.input_partitions = came
    list_slices(table, context, profile)
    tags = None
    if isinstance(context.index, PlacingIndex):
        place_groups(table, plan, context.index, profile)
    elif context.index is not None:
        with engine.batches(blobs=True):
            tags = held.enter_context(tagged(engine, blobs, rows, context, profile))
    return _Staged(engine=engine, plan=plan, profile=profile, blobs=blobs, tags=tags)


def _first_pass(
    engine: Engine, frame: Frame, step: BatchFunction, schema: pa.Schema, held: contextlib.ExitStack
) -> tuple[Frame, list[dict[str, Any]]]:
    """What the step makes of the rows, until `held` frees it, and what the driver has of that."""
    with engine.batches(rows=True):
        staged = engine.persist(engine.map_batches(frame, step, schema))
        held.callback(engine.unpersist, staged)
        return staged, engine.collect(engine.filter(staged, "kind", (SUMMARY, ERROR, KEYS)))
