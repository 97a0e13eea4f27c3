"""Options of `spark.read` and `df.write`, by Apache Hudi's names, as arguments of a query or a write.

Spark hands option names over in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hoodie.config.key import Config, hudi_settings, keys
from hoodie.errors import ConfigError
from hoodie.read.query import EARLIEST, Query, QueryType, point
from hoodie.table.handle import Table, TableRef
from hoodie.timeline.time import NO_TIME, InstantTime
from hoodie.write.operation import Operation

QUERY_TYPE = "hoodie.datasource.query.type"
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"
AS_OF = "as.of.instant"
OPERATION = "hoodie.datasource.write.operation"
START = "hoodie.datasource.streaming.startOffset"
#: of a batch of a stream; Apache Hudi has no such limit
MAX_COMMITS = "hoodie.streaming.max.commits.per.trigger"
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
CHECKPOINT = "checkpointLocation"
_PATH = "path"
#: what the mode overwrite of Apache Hudi replaces the table by, whatever the operation is called
_OVERWRITTEN = (
    Operation.UPSERT,
    Operation.INSERT,
    Operation.BULK_INSERT,
    Operation.INSERT_OVERWRITE_TABLE,
)


@dataclass(frozen=True)
class Reading:
    """One query, as often as Spark plans it. Picklable."""

    ref: TableRef
    query: Query
    config: Config

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Raises ConfigError for a missing path, and for options that are unknown, wrong, or contradict each
        other.
        """
        texts = _texts(options)
        path = _path(texts)
        kind, as_of = texts.pop(QUERY_TYPE, None), texts.pop(AS_OF, None)
        begin, end = texts.pop(BEGIN, None), texts.pop(END, None)
        if as_of is not None and kind is not None and kind.strip().lower() == QueryType.SNAPSHOT.value:
            kind = None  # a snapshot as of an instant is what Apache Hudi calls time travel
        try:
            query = Query.of(kind, begin, end, as_of)
        except ConfigError as error:
            raise ConfigError(
                f"{error.message}; the options are {QUERY_TYPE} (query), {BEGIN} (begin), {END} (end) and "
                f"{AS_OF} (as_of)",
                **error.values,
            ) from None
        config = Config.of(texts)
        return cls(TableRef.of(path, config), query, config)

    def table(self) -> Table:
        """Opened anew: it is as it is now."""
        return Table(self.ref)


@dataclass(frozen=True)
class Writing:
    """One write. Picklable."""

    ref: TableRef
    operation: Operation
    config: Config

    @classmethod
    def of(cls, options: Mapping[str, str], overwrite: bool) -> Writing:
        """Without an operation the mode append is an upsert, and overwrite insert_overwrite_table. Raises
        ConfigError as `Reading.of`, and for an operation that the mode contradicts.
        """
        texts = _texts(options)
        path, given = _path(texts), texts.pop(OPERATION, None)
        operation = _operation(given or Operation.UPSERT.value)
        if operation is Operation.DELETE_PARTITION or (overwrite and operation not in _OVERWRITTEN):
            raise ConfigError(
                f"{OPERATION}={given!r} can't be written in the mode "
                f"{'overwrite' if overwrite else 'append'}: "
                "overwrite replaces all rows of the table; append takes upsert, insert, bulk_insert, delete, "
                "insert_overwrite (the partitions of the rows) and insert_overwrite_table. Partitions are "
                "deleted by hoodie.delete_partitions",
                value=given,
            )
        config = Config.of(texts)
        return cls(
            TableRef.of(path, config), Operation.INSERT_OVERWRITE_TABLE if overwrite else operation, config
        )


@dataclass(frozen=True)
class StreamReading:
    """A stream of a table. start: exclusive, "" is the beginning, None the newest commit. Picklable."""

    reading: Reading
    start: InstantTime | None = NO_TIME
    max_commits: int | None = None

    @classmethod
    def asked(cls, options: Mapping[str, str]) -> bool:
        """Has an option that only streams take."""
        return not {START.lower(), MAX_COMMITS}.isdisjoint(name.lower() for name in options)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamReading:
        """Raises ConfigError as `Reading.of`, and for options of queries that are no streams."""
        texts = _texts(options)
        given = [name for name in (QUERY_TYPE, BEGIN, END, AS_OF) if name in texts]
        if given:
            raise ConfigError(
                f"{', '.join(given)}: a stream takes no such option; {START} says where it begins: "
                "earliest, latest or an instant",
                option=", ".join(given),
            )
        start, most = texts.pop(START, EARLIEST).strip(), texts.pop(MAX_COMMITS, None)
        if most is not None and not (most.strip().isdecimal() and int(most) > 0):
            raise ConfigError(f"{MAX_COMMITS}={most!r} is no number of commits from 1 on", value=most)
        begin = None if start.lower() == "latest" else _start(start)
        return cls(Reading.of(texts), begin, None if most is None else int(most))


def _start(text: str) -> InstantTime:
    return NO_TIME if text.lower() in (EARLIEST, "0", "000") else point(START, text, "000")


@dataclass(frozen=True)
class StreamWriting:
    """The batches of a stream, of one operation; `identifier` or `checkpoint` names the query. Picklable."""

    writing: Writing
    identifier: str | None
    checkpoint: str | None

    @classmethod
    def of(cls, options: Mapping[str, str], overwrite: bool) -> StreamWriting:
        """Raises ConfigError as `Writing.of`, for the output mode complete, and a query without a name."""
        texts = _texts(options)
        identifier, checkpoint = texts.pop(IDENTIFIER, None), texts.pop(CHECKPOINT.lower(), None)
        if overwrite:
            raise ConfigError(
                "a stream is written to a table in the output mode append; for another mode, call "
                "hoodie.write_table(rows, path, operation='insert_overwrite_table') in foreachBatch"
            )
        if not (identifier or checkpoint):
            raise ConfigError(
                f"a stream needs the option {CHECKPOINT}, or {IDENTIFIER} with a name that no other stream "
                "into the table has: batches that were committed are known by it"
            )
        return cls(Writing.of(texts, overwrite), identifier or None, checkpoint)


def _operation(text: str) -> Operation:
    try:
        return Operation(text.strip().lower())
    except ValueError:
        names = ", ".join(item.value for item in Operation)
        raise ConfigError(f"unknown {OPERATION}={text!r}; use one of {names}", value=text) from None


def _texts(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the names that settings have."""
    spelled = {name.lower(): name for name in [*hudi_settings(), *keys()]}
    return {spelled.get(name.lower(), name.lower()): text for name, text in options.items()}


def _path(texts: dict[str, str]) -> str:
    if "paths" in texts:
        raise ConfigError(
            f"the source hoodie takes one path, not {texts['paths']}; load each table by itself"
        )
    path = texts.pop(_PATH, "")
    if not path or "provider" in texts:
        raise ConfigError(
            "the source hoodie needs a path, as .load(path) and .save(path) give it. Of a table in Spark's "
            "catalog (CREATE TABLE ... USING hoodie) Spark tells a Python data source no path: use CREATE "
            "TEMPORARY VIEW name USING hoodie OPTIONS (path '...')"
        )
    return path
