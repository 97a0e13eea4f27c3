"""Engine: the distributed steps of writes and services, in a few verbs that know nothing of either.

A frame is an engine's own handle of rows in partitions, or a `Scan` of files.
`engine.spark` does the verbs with DataFrames only (Spark Connect works too), `engine.local` with Arrow
tables and threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hoodie.engine.task import BatchFunction, Written

if TYPE_CHECKING:
    import pyarrow as pa

    from hoodie.engine.files import FileFrame
    from hoodie.engine.spool import Refusal

Frame = Any


@dataclass(frozen=True)
class Scan:
    """The frame of all rows of Parquet files: tasks read them, so that no row passes through the JVM."""

    files: FileFrame


@dataclass(frozen=True)
class Repeatable:
    """A frame of which `columns`, a frame of some of its columns, are cheap to compute beforehand."""

    columns: Frame

    def ordered(self, fields: Sequence[str]) -> Frame | None:
        """Each partition has rows with the same values of the fields (dotted: nested) one after the other;
        None where tasks don't order them.
        """
        return None


class Engine(ABC):
    """Verbs are lazy, except `collect`; `persist` may be. Functions and items are pickled to executors."""

    name: str
    #: the session of Spark, whose SQL there is then; None for an engine without
    spark: Any = None
    #: do tasks run in this process, each of them once
    in_process = False

    @property
    @abstractmethod
    def parallelism(self) -> int:
        """How many tasks can run at once, as far as the engine knows."""

    def scan(self, files: FileFrame) -> Frame:
        """A frame of all rows of the files, for `schema`, `map_batches` and `files` only."""
        return Scan(files)

    def files(self, frame: Frame) -> FileFrame | None:
        """The files whose rows are the frame; None for a frame that `scan` did not make."""
        return frame.files if isinstance(frame, Scan) else None

    def schema(self, frame: Frame) -> pa.Schema:
        """Arrow schema of the frame's rows. Raises ConfigError for a column that has no Arrow type."""
        files = self.files(frame)
        return self._schema(frame) if files is None else files.schema

    def repeatable(self, frame: Frame, names: Sequence[str]) -> Repeatable | None:
        """The frame, if its columns of these names are cheap to compute apart and the same each time; None
        where the rows had better be computed once, or where the engine can't tell.
        """
        return None

    def scanned(self, frame: Frame) -> Frame:
        """A scan of files whose rows are the frame, or which tasks compute the frame's rows of; the frame
        itself where there is none.
        """
        return frame

    def gathered(self, frame: Frame, most: int) -> tuple[Engine, Frame]:
        """An engine of the same frames, and a frame of the same rows. Where an engine finds out that these
        are few, it computes them, and this process does their steps, which read at most so many bytes of
        files; 0: none.
        """
        return self, frame

    def spread(self, frame: Frame, size: int | None = None) -> Frame:
        """The frame, whose steps from here on read so many bytes of files; None: more than one process
        should. An engine that has other processes gives them a frame of this one then.
        """
        return frame

    def select(self, frame: Frame, names: Sequence[str]) -> Frame:
        """The frame with these columns at least; others may not be computed."""
        files = self.files(frame)
        return frame if files is None else self.scan(files.only(names))

    def apart(self, frame: Frame, names: Sequence[str]) -> Frame | None:
        """The columns of these names of the frame's rows, in the same partitions and order, if they are cheap
        to compute beforehand and a step of the frame's rows may be followed by steps of blobs; else None.
        """
        return None

    @abstractmethod
    def tasks(self, count: int) -> Frame:
        """A frame of `count` partitions, each with one row: its number from 0 on, in the column `id`."""

    def map_batches(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> Frame:
        """The rows that `function` makes of each partition, in one call for it; no shuffle."""
        if (files := self.files(frame)) is not None:
            tasks = files.tasks(self.parallelism)
            frame, function = self.tasks(len(tasks)), files.reader(tasks, function)
        return self._map_batches(frame, function, schema)

    @abstractmethod
    def filter(self, frame: Frame, column: str, values: Sequence[int]) -> Frame:
        """The rows whose int column is one of the values."""

    @abstractmethod
    def left_join(self, frame: Frame, table: pa.Table, on: Sequence[str]) -> Frame:
        """Every row with the columns of the table's row that has the same texts in the columns `on`.

        The table has a few rows and is sent along; no two of them have the same texts. Its other columns take
        the place of the frame's of the same names; they are null where no row matches.
        """

    @abstractmethod
    def attach(
        self, frame: Frame, other: Frame, on: Sequence[str], column: str, name: str, few: bool
    ) -> Frame:
        """Every row of `frame` with one more column, `name`: the `column` of the row of `other` with the same
        values in the columns `on`; null where there is none. No two rows of `other` have the same values.

        `few`: the rows of `other` are few enough to be sent to every task, so that those of `frame` stay
        where they are.
        """

    @abstractmethod
    def shuffle(self, frame: Frame, by: str, partitions: int, sort: str) -> Frame:
        """Rows whose int column `by` is p go to partition p; each partition ordered by the column `sort`."""

    @abstractmethod
    def persist(self, frame: Frame) -> Frame:
        """The frame, computed at most once; it is held in memory, and on disk when memory is short."""

    @abstractmethod
    def unpersist(self, frame: Frame) -> None:
        """Free what a persisted frame holds; the frame is not used any more."""

    @abstractmethod
    def collect(self, frame: Frame) -> list[dict[str, Any]]:
        """The rows, as dicts on the driver. Raises JobError where the engine fails at them."""

    def batches(self, *, rows: bool = False, blobs: bool = False) -> AbstractContextManager[None]:
        """Arrow batches of many rows while rows are computed, of few while they are blobs of thousands.

        With both, steps have either: they begin with a frame that `apart` takes.
        """
        return nullcontext()

    def limited(self, memory: int, folder: str, refusal: Refusal) -> Engine:
        """An engine of the same frames that holds at most so many bytes of rows: what steps leave for one
        another, and what its tasks hold, each `task_memory`. The rest goes to files in the folder, "" for
        the system's folder for temporary files; `refusal` makes the error where it can't. An engine whose
        tasks are processes elsewhere has limits of its own, and is returned as it is.
        """
        return self

    def watched(self, written: Written) -> Engine:
        """An engine of the same frames, whose tasks have `written` (Task). One whose tasks are processes
        elsewhere is returned as it is.
        """
        return self

    def for_storage(self, *, local: bool) -> Engine:
        """An engine of the same frames for tasks that read and write files of a storage. One that is not
        local lets them wait most of the time: where they share a process, more of them run at once.
        """
        return self

    def task_memory(self, memory: int) -> int:
        """What each task may hold where tasks are allowed so many bytes: of all of them together where they
        share a process.
        """
        return memory

    @abstractmethod
    def _schema(self, frame: Frame) -> pa.Schema:
        """`schema`, of a frame that `scan` did not make."""

    @abstractmethod
    def _map_batches(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> Frame:
        """`map_batches`, of a frame that `scan` did not make."""
