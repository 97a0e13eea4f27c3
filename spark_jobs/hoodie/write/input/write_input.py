"""The rows of a write between its two passes: counted by file group, not written yet.

Rows of new file groups are not staged where Parquet statistics say which partition each row group belongs to,
as in sources that are laid out by day or by folder: every write task reads its row groups and writes their
files in one pass. All other sources are staged.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.engine.files import FileFrame, FileScan, Piece
from hoodie.engine.origin import noting
from hoodie.engine.task import BatchFunction, Task, task_numbers
from hoodie.errors import HoodieError, InputError, JobError
from hoodie.index import PlacingIndex
from hoodie.progress import ProgressCallback, ProgressMeter, silent
from hoodie.table.handle import Table
from hoodie.timeline.commit import WriteStat, stats_by_partition
from hoodie.timeline.store import check_size
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.assign.bulk_insert import bulk_assignment
from hoodie.write.assign.inserts import PlaceRows, PlaceTagged, place_groups
from hoodie.write.assign.workload import Assignment, FileGroupWrite, Parallelism, WorkloadProfile, assign
from hoodie.write.blobs import (
    BLOB_ID,
    BLOB_SCHEMA,
    KEYS,
    ROWS,
    STAGED_SCHEMA,
    SUMMARY,
    answers,
    error_message,
    raise_errors,
)
from hoodie.write.context import WriteContext
from hoodie.write.files.rehearsal import GroupCount, group_counts, handles_of, new_group
from hoodie.write.files.write_task import WriteFileGroups, mark_first_files, write_new
from hoodie.write.input.incoming import key_columns, keyed_rows, unstored
from hoodie.write.input.key_staging import (
    Answers,
    RescanBucketed,
    RescanTagged,
    StageKeys,
    by_block,
    keys_of_frame,
    transferred_bytes,
)
from hoodie.write.input.stage import check_apart, check_partition
from hoodie.write.input.staged_input import StagedInput, StagedRows, persist_blobs
from hoodie.write.input.streaming_insert import StreamingInsertPlan, Way, WriteRows
from hoodie.write.plan import WritePlan
from hoodie.write.tagging.tag import FEW_BYTES, Tags, list_slices, tagged


@dataclass(frozen=True)
class RowGroupWrite:
    """The function given to `map_batches` on a frame of task numbers; `tasks` are numbers of `writes`."""

    context: WriteContext
    instant: InstantTime
    scan: FileScan
    writes: tuple[FileGroupWrite, ...]
    pieces: tuple[tuple[Piece, ...], ...]
    tasks: tuple[tuple[int, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        with noting():
            yield from self._written(batches, task)

    def _written(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        storage = self.context.table.storage()
        try:
            with handles_of(self.context, storage, self.instant, task) as handles:
                for number in (number for mine in task_numbers(batches) for number in self.tasks[mine]):
                    write = self.writes[number]
                    yield write_new(handles, write.partition, write.file_id, self._rows(write))
        except HoodieError as error:
            yield error_message(error)

    def _rows(self, write: FileGroupWrite) -> Iterator[pa.Table]:
        for batch in self.scan.batches(self.pieces[write.number]):
            if batch.num_rows == 0:
                continue
            keys, paths, rows = keyed_rows(self.context, pa.Table.from_batches([batch]))
            found = paths.dictionary.to_pylist()
            if found != [write.partition]:
                raise JobError(
                    f"the statistics of a source file promise partition {write.partition!r}, its rows are "
                    f"of {found!r}; write the file anew, or load the source as a DataFrame",
                    partition=write.partition,
                )
            yield unstored(keys, rows)


@dataclass(frozen=True)
class RowGroupInsertPlan:
    """Which row groups go into which partition; `profile` is what staging would have found."""

    scan: FileScan
    profile: WorkloadProfile
    pieces: dict[str, tuple[Piece, ...]]

    @classmethod
    def of(cls, frame: FileFrame, context: WriteContext, table: Table) -> RowGroupInsertPlan | None:
        """None where the rows have to be looked at first."""
        if not context.streams or not frame.pieces or not isinstance(frame.scan, FileScan):
            return None
        paths = _partition_paths(frame, context)
        if paths is None:
            return None
        pieces: dict[str, list[Piece]] = {}
        for path, piece in zip(paths, frame.pieces, strict=True):
            if piece.rows:
                pieces.setdefault(path, []).append(piece)
        groups = {
            (path, ""): [sum(piece.rows for piece in mine), sum(piece.memory for piece in mine)]
            for path, mine in pieces.items()
        }
        _check_partitions(table, context, sorted(pieces))
        profile = WorkloadProfile(groups=groups, input_partitions=len(frame.pieces))
        return cls(frame.scan, profile, {path: tuple(mine) for path, mine in pieces.items()})

    def write(self, context: WriteContext, assignment: Assignment, instant: InstantTime) -> RowGroupWrite:
        """The function of the write tasks."""
        pieces: list[tuple[Piece, ...]] = [()] * len(assignment.writes)
        for path, mine in self.pieces.items():
            shares = assignment.inserts[path]
            for (number, _), part in zip(shares, _cut(mine, len(shares)), strict=True):
                pieces[number] = part
        tasks: list[list[int]] = [[] for _ in range(assignment.reducer_count)]
        for number, reducer in enumerate(assignment.reducers):
            if pieces[number]:
                tasks[reducer].append(number)
        return RowGroupWrite(
            context,
            instant,
            self.scan,
            assignment.writes,
            tuple(pieces),
            tuple(tuple(mine) for mine in tasks if mine),
        )


def _partition_paths(frame: FileFrame, context: WriteContext) -> list[str] | None:
    """The partition path of every piece, or None when a key may be null or a path varies in a piece."""
    keys = context.keys
    if any(name not in frame.schema.names for name in keys.key_columns):
        return None
    records = [name for name in keys.key_columns if name not in keys.partition_fields]
    if not all(frame.complete(piece, name) for piece in frame.pieces for name in records):
        return None
    columns: dict[str, pa.Array[Any]] = {}
    for name in keys.partition_fields:
        if name not in frame.schema.names:
            return None
        values = [frame.constant(piece, name) for piece in frame.pieces]
        if any(value is None for value in values):
            return None
        columns[name] = pa.array(
            [value.as_py() for value in values if value is not None], frame.schema.field(name).type
        )
    if not columns:
        return [""] * len(frame.pieces)
    try:
        codes = context.keys.partition_codes(key_columns(context, pa.table(columns)))
    except InputError:
        return None  # staging names the row
    paths: Any = codes
    return [str(path) for path in paths.to_pylist()]


def _check_partitions(table: Table, context: WriteContext, paths: Sequence[str]) -> None:
    listing = table.listing()
    fields = context.keys.partition_fields
    for path in paths:
        if path:
            check_partition(table, path, fields, listing.files(path))
    check_apart(paths)


def _cut(pieces: Sequence[Piece], count: int) -> list[tuple[Piece, ...]]:
    """`count` runs of neighbours of about equal rows; the last ones may be empty."""
    total = sum(piece.rows for piece in pieces)
    parts: list[list[Piece]] = [[] for _ in range(count)]
    seen = 0
    for piece in pieces:
        parts[min(count - 1, seen * count // max(1, total))].append(piece)
        seen += piece.rows
    return [tuple(part) for part in parts]


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
        found = self._answers(instant, progress)
        self.profile.missing += sum(answer["missing"] for answer in found)
        return stats_by_partition(value for answer in found for value in answer["stats"])

    def rehearse(self) -> tuple[list[GroupCount], int]:
        """What the write of a dry run would do to each file group, and how many more keys to delete are not
        there. The rows are read again, and of stored ones what decides; but for rows that can only be
        inserts, which the first pass has counted. Raises as `write`.
        """
        context = self.plan.context
        if self.profile.rows == 0:
            return [], 0
        if context.streams and _only_inserts(context):
            writes = self.assignment.writes
            return [new_group(write.partition, write.file_id, write.rows) for write in writes], 0
        found = self._answers(NO_TIME, silent)
        return group_counts(found), sum(answer["missing"] for answer in found)

    def _answers(self, instant: InstantTime, progress: ProgressCallback) -> list[dict[str, Any]]:
        watched: WriteInput = self
        if isinstance(progress, ProgressMeter):
            watched = replace(self, engine=self.engine.watched(progress.advance))
        with self._batches():
            found = answers(self.engine, watched._tasks(instant, progress))
        received = sum(answer["rows"] for answer in found)
        if not 0 <= received - self.profile.rows <= self.profile.copies:
            raise JobError(
                f"{self.profile.rows} rows were staged but {received} reached the write tasks: the input "
                "changed while it was read again; write it to a file first",
                staged=self.profile.rows,
                received=received,
            )
        return found

    def _expect(self, writes: Sequence[FileGroupWrite], progress: ProgressCallback) -> None:
        if isinstance(progress, ProgressMeter):
            counted = all(write.base is None or write.append for write in writes)
            progress.expect(len(writes), self.profile.rows if counted else None)

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
        log_only = context.log_only
        return assign(self.profile, plan.config, size, self._parallelism, appends, log_only)

    def staged(self) -> list[dict[str, Any]]:
        if self.blobs is None or self.tags is None:
            return []
        return self.engine.collect(self.engine.filter(self.blobs, "kind", (SUMMARY, KEYS)))

    def _tasks(self, instant: InstantTime, progress: ProgressCallback) -> Frame:
        engine, assignment = self.engine, self.assignment
        check_size(instant, len(assignment.writes) * LEAST_BYTES)
        progress("write", f"instant {instant}: {len(assignment.writes)} file groups")
        self._expect(assignment.writes, progress)
        mark_first_files(self.plan.context, instant, assignment.writes)
        placed = engine.spread(self._placed(assignment), assignment.work)
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
class _KeyStaged(_Staged):
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
        self._expect(task.writes, progress)
        begun = [task.writes[number] for mine in task.tasks for number in mine]
        mark_first_files(self.plan.context, instant, begun)
        return self.engine.map_batches(self.engine.tasks(len(task.tasks)), task, BLOB_SCHEMA)


@dataclass(frozen=True, kw_only=True)
class _StreamedInsert(_Streamed):
    """Rows that the engine computes while they are written."""

    counted: StreamingInsertPlan

    def _batches(self) -> AbstractContextManager[None]:
        return self.engine.batches(rows=True)

    def _tasks(self, instant: InstantTime, progress: ProgressCallback) -> Frame:
        counted, context = self.counted, self.plan.context
        source = "DataFrame" if self.engine.files(counted.rows) is None else "files"
        progress("write", f"instant {instant}: rows {counted.way.value}, straight from the {source}")
        self._expect((), progress)
        task = WriteRows(context, instant, frozenset(self.profile.partitions))
        return self.engine.map_batches(counted.rows, task, BLOB_SCHEMA)


def _only_inserts(context: WriteContext) -> bool:
    """Can no column mark a row as a delete."""
    merger = context.merger
    names = merger.deciding_columns(context.schema)
    ordering = {path.partition(".")[0] for path in (merger.ordering or "", *merger.delete_ordering)}
    return names is not None and not context.flagged and {*names} <= ordering


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
    if not first.has_staged and (unstaged := _stages_keys(engine, frame, plan, table)) is not None:
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
        return _KeyStaged(engine=engine, plan=plan, profile=profile, tags=Tags(), rows=frame)
    return _StreamedInsert(engine=engine, plan=plan, profile=profile, counted=counted)


def _stages_keys(engine: Engine, frame: Frame, plan: WritePlan, table: Table) -> WriteInput | None:
    """None where the rows have to be staged."""
    context, columns = plan.context, keys_of_frame(engine, frame, plan)
    if columns is None:
        return None
    with contextlib.ExitStack() as held:
        step = StageKeys.of(plan, engine.files(frame))
        keys, rows = persist_blobs(engine, columns, step, STAGED_SCHEMA, held)
        profile = WorkloadProfile.of(raise_errors(rows))
        list_slices(table, context, profile)
        if isinstance(context.index, PlacingIndex):
            place_groups(table, plan, context.index, profile)
            return _KeyStaged(engine=engine, plan=plan, profile=profile, rows=frame)
        if context.looks_up and any(profile.slices.values()) and transferred_bytes(profile.rows) > FEW_BYTES:
            return None
        found, hits = Tags(), None
        if context.index is not None:
            with engine.batches(blobs=True):
                found = held.enter_context(tagged(engine, keys, rows, context, profile))
                hits = found.collected(engine) if found.searched else None
    return _KeyStaged(
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
