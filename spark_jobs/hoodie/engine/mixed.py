"""Engine of a session of Spark whose few rows this process holds: a job costs more than their steps.

Frames are of either engine, `near` (this process) or `far` (the session). `spread` gives near ones to the
session where what follows is more than this process should do.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from hoodie.engine import Engine, Frame
from hoodie.engine.local import LocalEngine, LocalFrame
from hoodie.engine.spool import Refusal
from hoodie.engine.task import BatchFunction, Written


class MixedEngine(Engine):
    """`most` is how many bytes of files steps may read in this process."""

    def __init__(
        self, far: Engine, near: LocalEngine, most: int, frame_of: Callable[[pa.Table], Frame]
    ) -> None:
        """`frame_of` makes a far frame of rows."""
        self.name, self.spark = far.name, far.spark
        self._far, self._near, self._most, self._frame_of = far, near, most, frame_of

    @property
    def parallelism(self) -> int:
        return self._far.parallelism

    def spread(self, frame: Frame, size: int | None = None) -> Frame:
        """Near rows are computed first."""
        if not isinstance(frame, LocalFrame) or (size is not None and size <= self._most):
            return frame
        batches = [batch for source in frame.partitions for batch in source()]
        return self._frame_of(pa.Table.from_batches(batches, frame.schema))

    def repeatable(self, frame: Frame, names: Sequence[str]) -> Any:
        return self._of(frame).repeatable(frame, names)

    def scanned(self, frame: Frame) -> Frame:
        return self._of(frame).scanned(frame)

    def select(self, frame: Frame, names: Sequence[str]) -> Frame:
        return self._of(frame).select(frame, names)

    def apart(self, frame: Frame, names: Sequence[str]) -> Frame | None:
        return self._of(frame).apart(frame, names)

    def tasks(self, count: int) -> Frame:
        return self._far.tasks(count)

    def filter(self, frame: Frame, column: str, values: Sequence[int]) -> Frame:
        return self._of(frame).filter(frame, column, values)

    def left_join(self, frame: Frame, table: pa.Table, on: Sequence[str]) -> Frame:
        return self._of(frame).left_join(frame, table, on)

    def attach(
        self, frame: Frame, other: Frame, on: Sequence[str], column: str, name: str, few: bool
    ) -> Frame:
        if isinstance(frame, LocalFrame) and isinstance(other, LocalFrame):
            return self._near.attach(frame, other, on, column, name, few)
        return self._far.attach(self.spread(frame), self.spread(other), on, column, name, few)

    def shuffle(self, frame: Frame, by: str, partitions: int, sort: str) -> Frame:
        return self._of(frame).shuffle(frame, by, partitions, sort)

    def persist(self, frame: Frame) -> Frame:
        return self._of(frame).persist(frame)

    def unpersist(self, frame: Frame) -> None:
        self._of(frame).unpersist(frame)

    def collect(self, frame: Frame) -> list[dict[str, Any]]:
        return self._of(frame).collect(frame)

    def batches(self, *, rows: bool = False, blobs: bool = False) -> AbstractContextManager[None]:
        return self._far.batches(rows=rows, blobs=blobs)

    def limited(self, memory: int, folder: str, refusal: Refusal) -> MixedEngine:
        return self._with(self._near.limited(memory, folder, refusal))

    def watched(self, written: Written) -> MixedEngine:
        return self._with(self._near.watched(written))

    def for_storage(self, *, local: bool) -> MixedEngine:
        return self._with(self._near.for_storage(local=local))

    def _schema(self, frame: Frame) -> pa.Schema:
        return self._of(frame).schema(frame)

    def _map_batches(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> Frame:
        return self._of(frame).map_batches(frame, function, schema)

    def _with(self, near: LocalEngine) -> MixedEngine:
        engine = copy.copy(self)
        engine._near = near
        return engine

    def _of(self, frame: Frame) -> Engine:
        return self._near if isinstance(frame, LocalFrame) else self._far
