"""A task of a distributed step, and the functions that tasks run on batches of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


Written = Callable[[int, int], None]


@dataclass(frozen=True)
class Task:
    """One attempt at a task. `token` is unique to it, so that the names of files that it writes are, too."""

    partition: int
    stage: int
    attempt: int
    #: is called with the files and the rows that the task has written since the last call; None: nobody asks
    written: Written | None = None

    @property
    def token(self) -> str:
        return f"{self.partition}-{self.stage}-{self.attempt}"


BatchFunction = Callable[[Iterator["pa.RecordBatch"], Task], Iterator["pa.RecordBatch"]]


def task_numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    """The numbers in a partition of the frame that `Engine.tasks` gives."""
    for batch in batches:
        yield from map(int, batch.column(0).to_numpy())
