"""Offsets of streams: instants of commits, and the token of a batch that a stream writes."""

from __future__ import annotations

import json

from hoodie.errors import ConfigError, NotRetained, TableError
from hoodie.read.query import Query, QueryType
from hoodie.read.retained import check_begin, last_before_hole
from hoodie.read.settings import HOLES_POLICY, Holes
from hoodie.spark.options import CHECKPOINT, IDENTIFIER, START, Reading, StreamReading, StreamWriting
from hoodie.storage import storage_for
from hoodie.timeline.time import NO_TIME, REQUESTED, InstantTime


def initial(stream: StreamReading) -> InstantTime:
    """The instant after which a new stream begins: "" is the beginning of the table."""
    return latest(stream, NO_TIME, None) if stream.start is None else stream.start


def latest(
    stream: StreamReading, start: InstantTime, most: int | None, target: InstantTime | None = None
) -> InstantTime:
    """The newest commit that can be read, `most` commits after `start` at the farthest, and not later than
    `target`; `start` where there is none. A write in flight holds back the commits that began after it,
    unless the options say that it is an error.
    """
    table = stream.reading.table()
    newest = table.timeline.last_commit
    config = stream.reading.config
    policy = config[HOLES_POLICY] if HOLES_POLICY.name in config.texts else Holes.BLOCK
    end = last_before_hole(table, policy, newest.time) if newest else NO_TIME
    end = end if target is None else min(end, target, key=REQUESTED.key)
    if REQUESTED.until(end, start):
        return start
    after = table.timeline.between(start, end, table.timeline.commits())
    return after[: most or None][-1].time if after else start


def batch(stream: StreamReading, start: InstantTime, end: InstantTime) -> Reading:
    """The incremental query of the rows after `start` up to `end`. Raises NotRetained where commits between
    them are archived, TableError where the commit `end` is gone.
    """
    table = stream.reading.table()
    try:
        check_begin(table, start)
    except NotRetained as error:
        raise NotRetained(
            f"{error.message}. A stream begins anew with another checkpointLocation and the option {START}",
            **error.values,
        ) from None
    if not table.timeline.is_committed(end):
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
