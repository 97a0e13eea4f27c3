"""Engine protocol: the distributed steps of a write, in a few verbs.

A frame is an engine's own handle of rows in partitions. `engine.spark` does the verbs with DataFrames
only (Spark Connect works too), `engine.local` with Arrow tables and threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

A = TypeVar("A")
B = TypeVar("B")
Frame = Any


@dataclass(frozen=True)
class Task:
    """Who runs: `token` is unique for every attempt and makes file names of retried attempts differ."""

    partition: int
    stage: int
    attempt: int

    @property
    def token(self) -> str:
        return f"{self.partition}-{self.stage}-{self.attempt}"


BatchFunction = Callable[[Iterator["pa.RecordBatch"], Task], Iterator["pa.RecordBatch"]]


class Engine(Protocol):
    """Verbs are lazy except `collect`, `persist` may be. Functions and items are pickled to executors."""

    name: str

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once, as far as the engine knows."""
        ...

    def schema(self, frame: Frame) -> pa.Schema:
        """Arrow schema of the frame's rows."""
        ...

    def tasks(self, count: int) -> Frame:
        """A frame of `count` partitions, each with one row: its number from 0 on, in the column `id`."""
        ...

    def map_batches(self, frame: Frame, function: BatchFunction, schema: pa.Schema) -> Frame:
        """One call of `function` per partition; no shuffle."""
        ...

    def place(self, frame: Frame, buckets: Mapping[tuple[str, str], int], reducers: Sequence[int]) -> Frame:
        """Rows of kind 0, `bucket` looked up by (partition, file_id), `reducer` by bucket."""
        ...

    def shuffle(self, frame: Frame, by: str, partitions: int, sort: str) -> Frame:
        """Rows whose int column `by` is p go to partition p; each partition ordered by the column `sort`."""
        ...

    def persist(self, frame: Frame) -> Frame:
        """Compute the frame at most once, spilling to disk when memory is short."""
        ...

    def unpersist(self, frame: Frame) -> None: ...

    def batches(self, *, blobs: bool) -> AbstractContextManager[None]:
        """Arrow batches of many rows while the input is read, of few while rows are blobs of thousands."""
        ...

    def collect(self, frame: Frame, kinds: Sequence[int]) -> list[dict[str, Any]]:
        """Rows whose int column `kind` is in `kinds`, as dicts on the driver."""
        ...
