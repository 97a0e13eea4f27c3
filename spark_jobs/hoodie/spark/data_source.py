"""The data source `hoodie`, as pyspark calls it: reading and staging in tasks; planning and commits in
separate processes on the driver's machine, which have no session.

Filters that Spark pushes down become a predicate that leaves out partitions, files and row groups. Spark
evaluates all of them on the remaining rows.
"""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from hoodie.engine.frame_plan import COMPARISONS
from hoodie.engine.session import arrow_schema
from hoodie.errors import ConfigError, JobError
from hoodie.format.schema import normalized
from hoodie.read.binding import Dialect, Where
from hoodie.read.predicate import (
    ANY,
    And,
    Column,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Node,
    Not,
    comparison,
    membership,
)
from hoodie.spark.options import Reading, StreamReading, StreamWriting, Writing
from hoodie.spark.scan import Planned, planned, spark_schema
from hoodie.spark.staging import Stage, StagedFile, write_staged

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def where(filters: Iterable[Any]) -> Where:
    """The rows for which all of the filters are true. What is not known of one rules nothing out."""
    terms = tuple(map(_node, filters))
    return Where("", And(terms) if terms else ANY, Dialect(moments_of_text=False), names=frozenset())


def _node(item: Any) -> Node:
    """Of one of the classes of `pyspark.sql.datasource`, which pyspark 4.0 has not."""
    kind = type(item).__name__
    if kind == "Not":
        return Not(_node(item.child))
    column = Column(tuple(item.attribute))
    if kind in ("IsNull", "IsNotNull"):
        return IsNull(column) if kind == "IsNull" else Not(IsNull(column))
    if kind == "In":
        known = [literal for literal in map(_literal, item.value) if literal is not None]
        return membership(column, known) if len(known) == len(item.value) else ANY
    value = _literal(item.value)
    if value is None:
        return ANY
    if kind in COMPARISONS:
        return comparison(COMPARISONS[kind], column, value)
    if kind == "StringStartsWith" and not set("%_\\") & set(str(value.value)):
        return Like(column, f"{value.value}%")
    return ANY


def _literal(value: Any) -> Literal | None:
    """A value of the column's type; None for one that is not compared here."""
    if value is None:
        return Literal(LiteralKind.NULL, None)
    if isinstance(value, bool):
        return Literal(LiteralKind.BOOLEAN, value)
    if isinstance(value, str):
        return Literal(LiteralKind.TEXT, value)
    if isinstance(value, (int, Decimal)):
        return Literal(LiteralKind.NUMBER, value)
    if isinstance(value, float):
        exact = Decimal(repr(value))
        return Literal(LiteralKind.NUMBER, exact) if exact.is_finite() else None
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(dt.timezone.utc).replace(tzinfo=None)
        return Literal(LiteralKind.MOMENT, (moment - _EPOCH) // _MICROSECOND)
    if isinstance(value, dt.date):
        return Literal(LiteralKind.DATE, (value - _EPOCH.date()).days)
    return None


if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from hoodie.read.binding import Predicate

#: is imported where Spark pushes filters. Elsewhere Spark refuses a reader that takes them, unless
#: spark.sql.python.filterPushdown.enabled is set, which is off by default
_PUSHES = "pyspark.sql.worker.data_source_pushdown_filters"


class HoodieDataSource(DataSource):
    """`spark.read.format("hoodie")` and `df.write.format("hoodie")`, with Apache Hudi's option names."""

    @classmethod
    def name(cls) -> str:
        return "hoodie"

    def schema(self) -> StructType:
        """Raises as `hoodie.read_table`."""
        asked = StreamReading.asked(self.options)
        reading = StreamReading.of(self.options).reading if asked else Reading.of(self.options)
        found: StructType = spark_schema(reading)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        made = PushingReader if _PUSHES in sys.modules else HoodieReader
        return made(Reading.of(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        made: DataSourceStreamReader = _streams().HoodieStreamReader(StreamReading.of(self.options), schema)
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Raises as `writer`, and ConfigError for what a stream can't do."""
        rows = arrow_schema(schema)
        normalized(rows)
        writing = StreamWriting.of(self.options, overwrite)
        made: DataSourceStreamWriter = _streams().HoodieStreamWriter(writing, rows)
        return made

    def writer(self, schema: StructType, overwrite: bool) -> HoodieWriter:
        """Raises before a task runs: ConfigError for options, InputError for columns no table can have."""
        rows = arrow_schema(schema)
        normalized(rows)
        return HoodieWriter(Writing.of(self.options, overwrite), rows)


def _streams() -> Any:
    if importlib.util.find_spec("pyspark.sql.streaming.datasource") is None:
        raise ConfigError("streams of the source hoodie need pyspark 4.2 or later; use batch queries")
    return importlib.import_module("hoodie.spark.stream")


class HoodieReader(DataSourceReader):
    """One query of a plan. It is planned once, when Spark has pushed its filters; the plan is what tasks
    get.
    """

    def __init__(self, reading: Reading, schema: StructType) -> None:
        self._reading, self._schema = reading, schema
        self._where: Predicate | None = None
        self._planned: Planned | None = None

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(slices) for slices in self._plan().tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Spark gives None where there are no partitions."""
        return self._plan().scan.batches(partition.value or ())

    def __getstate__(self) -> dict[str, Any]:
        return {"_planned": replace(self._plan(), tasks=())}

    def _plan(self) -> Planned:
        if self._planned is None:
            self._planned = planned(self._reading, self._schema, self._where)
        return self._planned


class PushingReader(HoodieReader):
    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        """They leave out what is not read; Spark evaluates all of them on the rows."""
        self._where = where(filters)
        return filters


@dataclass
class StagedRows(WriterCommitMessage):
    """Of one task."""

    files: tuple[StagedFile, ...]


class HoodieWriter(DataSourceArrowWriter):
    """Tasks stage their rows; the commit is one write of them by the local engine."""

    def __init__(self, writing: Writing, schema: pa.Schema) -> None:
        self._writing, self._stage = writing, Stage.new(writing.ref, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:  # type: ignore[override]
        return StagedRows(self._stage.keep(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        try:
            files = [file for message in messages for file in _files(message)]
            write_staged(self._stage.rows(files), self._writing)
        finally:
            self._stage.delete()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._stage.delete()


def _files(message: WriterCommitMessage | None) -> tuple[StagedFile, ...]:
    if not isinstance(message, StagedRows):
        raise JobError("a task did not say what it staged, and nothing was committed; run the write again")
    return message.files
