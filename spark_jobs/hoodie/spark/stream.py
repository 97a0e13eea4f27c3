"""Streams of the data source `hoodie`, as pyspark 4.2 calls them: offsets, plans and commits in processes
beside the driver, reading and staging in tasks.

A commit of a batch runs in a process that did not make the tasks' writer, so that messages carry the stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from hoodie.errors import JobError
from hoodie.spark.offsets import batch, initial, latest, token
from hoodie.spark.options import StreamReading, StreamWriting
from hoodie.spark.scan import planned
from hoodie.spark.staging import Stage, StagedFile, write_staged
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.timeline.tokens import TOKEN_KEY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_INSTANT = "instant"


class HoodieStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are instants of commits: {"instant": text}, "" before the first. A batch has the rows of the
    incremental query between two of them.
    """

    def __init__(self, reading: StreamReading, schema: StructType) -> None:
        self._reading, self._schema = reading, schema
        self._target: InstantTime | None = None

    def initialOffset(self) -> dict[str, str]:
        return {_INSTANT: initial(self._reading)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark has no limit by commits; that of files comes nearest, and is taken as commits."""
        most = self._reading.max_commits
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = latest(self._reading, NO_TIME, None)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:
        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return {_INSTANT: latest(self._reading, InstantTime(start[_INSTANT]), most, self._target)}

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[InputPartition]:
        if start == end:
            return []
        reading = batch(self._reading, InstantTime(start[_INSTANT]), InstantTime(end[_INSTANT]))
        plan = planned(reading, self._schema, None)
        return [InputPartition((plan.scan, slices)) for slices in plan.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        scan, slices = partition.value
        return scan.batches(slices)  # type: ignore[no-any-return]


@dataclass
class StagedBatch(WriterCommitMessage):
    """Of one task."""

    stage: Stage
    files: tuple[StagedFile, ...]


class HoodieStreamWriter(DataSourceStreamArrowWriter):
    """Tasks stage the rows of a batch; its commit has the token of query and batch, and is made once."""

    def __init__(self, writing: StreamWriting, schema: pa.Schema) -> None:
        self._writing, self._stage = writing, Stage.new(writing.writing.ref, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:  # type: ignore[override]
        return StagedBatch(self._stage, self._stage.keep(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """A batch without rows commits nothing."""
        try:
            staged = [_batch(message) for message in messages]
            files = [file for message in staged for file in message.files]
            if not files:
                return
            extra_metadata = {TOKEN_KEY: token(self._writing, batchId)}
            write_staged(staged[0].stage.rows(files), self._writing.writing, extra_metadata)
        finally:
            self.abort(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        for stage in {message.stage.name: message.stage for message in messages if message}.values():
            stage.delete()


def _batch(message: WriterCommitMessage | None) -> StagedBatch:
    if not isinstance(message, StagedBatch):
        raise JobError("a task did not say what it staged, and nothing was committed; restart the query")
    return message
