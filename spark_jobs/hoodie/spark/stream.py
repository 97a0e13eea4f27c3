"""Streams of the data source `hoodie`, as pyspark 4.2 calls them: reading and staging in tasks; offsets,
plans and commits in separate processes on the driver's machine.

- Offsets are instants of commits. A batch that a stream writes has a token.
- A commit of a batch runs in a process that did not make the tasks' writer, so messages have the stage in
  them.
"""

from __future__ import annotations

import json
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

from hoodie.config.versions import LayoutVersion
from hoodie.errors import ConfigError, JobError, StateUnavailable, TableError
from hoodie.read.query import Query, QueryType
from hoodie.read.readable_range import check_begin, completions, last_before_pending, was_completed
from hoodie.read.settings import HOLES_POLICY, Holes
from hoodie.spark.options import CHECKPOINT, IDENTIFIER, START, Reading, StreamReading, StreamWriting
from hoodie.spark.scan import planned
from hoodie.spark.staging import Stage, StagedFile, write_staged
from hoodie.storage import storage_for
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime
from hoodie.timeline.tokens import TOKEN_KEY


def initial(stream: StreamReading) -> InstantTime:
    """The instant after which a new stream begins: "" is the beginning of the table."""
    return latest(stream, NO_TIME, None) if stream.start is None else stream.start


def latest(
    stream: StreamReading, start: InstantTime, most: int | None, target: InstantTime | None = None
) -> InstantTime:
    """The newest commit that can be read, `most` commits after `start` at the farthest, and not later than
    `target`; `start` where there is none. A write in flight holds back the commits that began after it,
    unless the options say that it is an error. Of tables of versions 8 and 9 the times are those of
    completion.
    """
    table = stream.reading.table()
    if table.layout.version is not LayoutVersion.ONE:  # a write in flight will be completed later than all
        done = completions(table.timeline, start)
        done = [at for at in done if target is None or REQUESTED.until(at, target)]
        return done[: most or None][-1] if done else start
    newest = table.timeline.last_commit
    config = stream.reading.config
    policy = config[HOLES_POLICY] if HOLES_POLICY.name in config.texts else Holes.BLOCK
    end = last_before_pending(table, policy, newest.time) if newest else NO_TIME
    end = end if target is None else min(end, target, key=REQUESTED.key)
    if REQUESTED.until(end, start):
        return start
    after = table.timeline.between(start, end, table.timeline.commits())
    return after[: most or None][-1].time if after else start


def batch(stream: StreamReading, start: InstantTime, end: InstantTime) -> Reading:
    """The incremental query of the rows after `start` up to `end`. Raises StateUnavailable where commits
    between them are archived, TableError where the commit `end` is gone.
    """
    table = stream.reading.table()
    by_completion = table.layout.version is not LayoutVersion.ONE
    try:
        if not by_completion:  # where they are archived, they are in the archive
            check_begin(table, start)
    except StateUnavailable as error:
        raise StateUnavailable(
            f"{error.message}. A stream begins anew with another checkpointLocation and the option {START}",
            **error.values,
        ) from None
    there = was_completed(table, end) if by_completion else table.timeline.is_committed(end)
    if not there:
        raise TableError(
            f"the commit {end}, up to which the stream reads, is not in {stream.reading.ref.uri} any "
            f"more: it was rolled back. Begin anew with another checkpointLocation and the option {START}",
            instant=end,
        )
    return Reading(
        stream.reading.ref, Query(QueryType.INCREMENTAL, begin=start, end=end), stream.reading.config
    )


def token(stream: StreamWriting, batch_id: int) -> str:
    """Of one batch of a query: its identifier, and its id, which a new checkpoint changes, if they are given.

    Raises ConfigError for a checkpoint that can't be read.
    """
    names = [stream.identifier] if stream.identifier else []
    if stream.checkpoint:
        names.append(_query_id(stream, stream.checkpoint))
    return "/".join(["spark-stream", *names, str(batch_id)])


def _query_id(stream: StreamWriting, checkpoint: str) -> str:
    path = f"{checkpoint.rstrip('/')}/metadata"
    try:
        storage = storage_for(path, stream.writing.ref.storage_options)
        return str(json.loads(storage.read(path))["id"])
    except (OSError, ValueError, KeyError, ConfigError) as error:
        raise ConfigError(
            f"the id of the query can't be read from {path} ({error}); give a {CHECKPOINT} that the driver "
            f"can read, or set it for the session and name the query by the option {IDENTIFIER}",
            path=path,
        ) from None


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
