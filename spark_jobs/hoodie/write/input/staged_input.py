"""What the attempts at a write have in common: its rows, read once.

Kept between attempts: the rows in blobs and their keys, as the first pass staged them, one row a key where
the index needs that; what the driver counted; the engine with its limits. Each attempt has its own plan,
listing, tags, file ids, instant, heartbeat, markers, conflict check and participants (metadata table,
indexes outside): these depend on what the table has then. Rows that are not staged, as they are cheap to
compute again (hoodie.write.input.write_input), are computed again.

The end frees all. A process that is killed leaves nothing of it in the table or beside it: the local engine
spills to files without names, Spark's blocks end with its session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.engine.task import BatchFunction, Task
from hoodie.read.settings import MERGE_BUDGET
from hoodie.read.spill import spill_error
from hoodie.write.assign.workload import WorkloadProfile
from hoodie.write.blobs import ERROR, KEYS, ROWS, SUMMARY, decoded, raise_errors
from hoodie.write.context import LEADING, WriteContext
from hoodie.write.input.combine_keys import combined, may_repeat
from hoodie.write.input.stage import StageRows
from hoodie.write.plan import WritePlan
from hoodie.write.settings import DRIVER_BYTES


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """`blobs`: rows and keys, persisted. `known`: what the driver has of them, summaries and keys.
    `partitions`: how many the rows came in.
    """

    step: StageRows
    blobs: Frame
    known: list[dict[str, Any]]
    partitions: int

    def profile(self) -> WorkloadProfile:
        """A new one, of rows that are not tagged."""
        profile = WorkloadProfile.of(raise_errors(self.known))
        profile.input_partitions = self.partitions
        return profile

    def fit(self, step: StageRows) -> bool:
        """Are they as this step stages them, also where their places depend on the table's files."""
        by_files = any(summary["by_files"] for summary in raise_errors(self.known))
        return step.stages_as(self.step) and (
            not by_files or step.context.snapshot == self.step.context.snapshot
        )


class StagedInput:
    """A context manager. `frame` has the rows of a write; None where it brings none."""

    def __init__(self, engine: Engine, frame: Frame | None) -> None:
        self.engine = engine
        self.frame = frame
        self._limited: Engine | None = None
        self._staged: StagedRows | None = None
        self._held = contextlib.ExitStack()

    def __enter__(self) -> StagedInput:
        return self

    def __exit__(self, *error: object) -> None:
        self._staged = None
        self._held.close()

    @property
    def has_staged(self) -> bool:
        """Has an attempt staged the rows."""
        return self._staged is not None

    def limited(self, plan: WritePlan) -> tuple[Engine, WritePlan]:
        """Both within the memory that the settings allow, which all attempts share."""
        memory, context = plan.config[MERGE_BUDGET], plan.context
        if self._limited is None:
            if self.frame is not None:
                self.engine, self.frame = self.engine.gathered(self.frame, plan.config[DRIVER_BYTES])
            engine = self.engine.for_storage(local=context.table.storage().local)
            self._limited = engine.limited(memory, context.spill_path, spill_error)
        context = replace(context, merge_budget=self._limited.task_memory(memory))
        return self._limited, replace(plan, context=context)

    def staged(self, engine: Engine, frame: Frame, plan: WritePlan) -> StagedRows:
        """The rows of `frame` as the plan stages them: those that are there, if an earlier plan would stage
        the same; staged anew from them where the table's schema or its buckets have changed since, or where
        keys that have two buckets may lie by now; else read. Raises what is wrong with a row.
        """
        step, before = StageRows.of(plan.context, plan.sample_keys), self._staged
        if before is not None and before.fit(step):
            return before
        with contextlib.ExitStack() as held:
            if before is not None and step.can_restage(before.step):
                rows = engine.filter(before.blobs, "kind", (ROWS,))
                again = Restage(before.step.context, step)
                staged = _staged(engine, rows, again, step, held, blobs=True)
            else:
                staged = _staged(engine, frame, step, step, held)
            self._held.close()
            self._staged = staged
            self._held = held.pop_all()
        return staged


@dataclass(frozen=True)
class Restage:
    """The function given to `map_batches` on blobs of rows that were staged for `before`."""

    before: WriteContext
    step: StageRows

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        before = self.before
        schema = before.staged_schema if before.looks_up else before.travel_schema
        rows = (rows.select(rows.schema.names[LEADING:]) for _, rows in decoded(batches, schema))
        yield from self.step(rows, task)


def _staged(
    engine: Engine,
    frame: Frame,
    function: BatchFunction,
    step: StageRows,
    held: contextlib.ExitStack,
    blobs: bool = False,
) -> StagedRows:
    """What the function, which does the step, makes of the rows, until `held` frees it."""
    staged, known = persist_blobs(engine, frame, function, step.schema, held, blobs)
    partitions = len(raise_errors(known))
    if may_repeat(step.context, known):
        staged, known = combined(engine, staged, known, step, held)
        raise_errors(known)
    return StagedRows(step=step, blobs=staged, known=known, partitions=partitions)


def persist_blobs(
    engine: Engine,
    frame: Frame,
    step: BatchFunction,
    schema: pa.Schema,
    held: contextlib.ExitStack,
    blobs: bool = False,
) -> tuple[Frame, list[dict[str, Any]]]:
    """What the step makes of the rows, or `blobs` of them, until `held` frees it, and what the driver has of
    that.
    """
    with engine.batches(rows=not blobs, blobs=blobs):
        staged = engine.persist(engine.map_batches(frame, step, schema))
        held.callback(engine.unpersist, staged)
        return staged, engine.collect(engine.filter(staged, "kind", (SUMMARY, ERROR, KEYS)))
