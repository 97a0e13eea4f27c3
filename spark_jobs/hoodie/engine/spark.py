"""Engine on Spark DataFrames only (mapInArrow, repartition, persist), so that Spark Connect works too.

Spark cuts batches by the number of rows. In one plan some batches have thousands of small rows, and others
have blobs of which some tens fill the memory. So this engine adds rows without a value after a blob: a blob
then counts as many rows as its bytes need.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
from pyspark import __version__, cloudpickle
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from hoodie.engine import Engine, Repeatable
from hoodie.engine.analysed import AnalysedPlan
from hoodie.engine.files import FileFrame
from hoodie.engine.frame_plan import computation
from hoodie.engine.gather import FEW_BYTES, FEW_ROWS, FewRows, few_rows
from hoodie.engine.local import LocalEngine
from hoodie.engine.memory import keep_freed_memory
from hoodie.engine.mixed import MixedEngine
from hoodie.engine.repeatable import is_cheap, is_in_order, is_plain
from hoodie.engine.session import (
    JOINS_CACHED,
    arrow_schema,
    conf_set,
    parallelism,
    plan_text,
    scanned_schema,
    setting,
)
from hoodie.engine.spark_files import local_path, spark_dataset
from hoodie.engine.task import BatchFunction, Task
from hoodie.errors import ConfigError, HoodieError, InputError, JobError, TransformError

#: the column that says which rows were added
PAD = "_hoodie_pad"
#: rows of a batch, and bytes that a row is taken for: together 64 MiB
BATCH_ROWS = 8192
_ROW_BYTES = 8 << 10

#: the stubs refuse plain values where the kernels take them
_pc: Any = pyarrow.compute


def padded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, each followed by as many rows as its binary values are long."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_binary(column.type):
            sizes += _pc.fill_null(_pc.binary_length(column), 0).to_numpy()
    copies = 1 + sizes // _ROW_BYTES
    rows = np.repeat(np.arange(batch.num_rows), copies)
    pads = np.ones(len(rows), dtype=np.bool_)
    pads[np.cumsum(copies) - copies] = False
    if pads.any():
        every: Any = pa.array(rows)
        own: Any = pa.array(rows, mask=pads)
        columns = [column.take(own if pa.types.is_binary(column.type) else every) for column in batch.columns]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    return batch.append_column(pa.field(PAD, pa.int32()), pa.array(pads.astype(np.int32)))


def unpadded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that `padded` was given."""
    pads, batch = batch.column(PAD), batch.drop_columns([PAD])
    return batch.filter(_pc.equal(pads, 0)) if _pc.any(_pc.equal(pads, 1)).as_py() else batch


@dataclass(frozen=True)
class Padding:
    """A batch function whose rows are padded, and those that it is given, too, if `both`."""

    function: BatchFunction
    both: bool

    def __call__(self, batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
        yield from map(padded, self.function(map(unpadded, batches) if self.both else batches, task))


#: rows per Arrow batch of the input, and of blobs (each blob holds thousands of rows)
_INPUT_ROWS = 131072
_BLOB_ROWS = 8
_BATCH_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
_CALENDAR_CONF = "spark.sql.parquet.datetimeRebaseModeInRead"
#: of persisted frames: Spark serializes a hundred of its batches at once where memory is short, so a batch is
#: one blob; partitions of a shuffle are joined if they are small
_CACHED = {"spark.sql.inMemoryColumnarStorage.batchSize": "1", JOINS_CACHED: "true"}
#: rows are ordered by the hash of their values in this column
_ORDER = "_hoodie_order"

#: the stubs lack its types
_cloudpickle: Any = cloudpickle

_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}


class SparkEngine(Engine):
    name = "spark"

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        #: are batches of both rows and blobs
        self._pads = False

    @property
    def parallelism(self) -> int:
        return parallelism(self.spark)

    def _schema(self, frame: Any) -> pa.Schema:
        if isinstance(frame, FewRows):
            return frame.rows.schema
        try:
            return arrow_schema(frame.schema)
        except HoodieError:
            raise
        except Exception as error:
            raise ConfigError(
                f"a column of the DataFrame has no Arrow type: {error}; cast it first"
            ) from error

    def repeatable(self, frame: Any, names: Sequence[str]) -> Repeatable | None:
        if (files := self.files(frame)) is not None:
            return Repeatable(self.scan(files.only(names)))
        if not _distinct(*frame.columns, _ORDER):
            return None
        columns = self.select(frame, names)
        return _Repeatable(columns, frame) if is_cheap(plan_text(columns)) else None

    def select(self, frame: Any, names: Sequence[str]) -> Any:
        if self.files(frame) is not None or not _distinct(*frame.columns):
            return super().select(frame, names)
        return frame.select(*(_column(frame, name) for name in names))

    def scanned(self, frame: Any) -> Any:
        if self.files(frame) is not None or not _distinct(*frame.columns):
            return frame
        if setting(self.spark, _CALENDAR_CONF) == "LEGACY":
            return frame
        files = self._plain(frame) or self._computed(frame)
        return frame if files is None else self.scan(files)

    def gathered(self, frame: Any, most: int) -> tuple[Engine, Any]:
        if not most:
            return self, frame.frame() if isinstance(frame, FewRows) else frame
        rows = self._few(frame)
        if rows is None:
            return self, frame
        near = LocalEngine()
        return MixedEngine(self, near, most, self._frame_of), near.frame(rows)

    def _few(self, frame: Any) -> pa.Table | None:
        if isinstance(frame, FewRows):
            return frame.rows
        if (files := self.files(frame)) is not None:
            return files.few(FEW_BYTES, FEW_ROWS)
        return few_rows(frame) if _distinct(*frame.columns) else None

    def _frame_of(self, rows: pa.Table) -> Any:
        ddl = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in rows.schema)
        given: Any = rows  # before 4.0 a list, which processes of Python give to the JVM
        if int(__version__.partition(".")[0]) < 4:
            given = [tuple(row.values()) for row in rows.to_pylist()]
        return self.spark.createDataFrame(given, ddl)

    def _plain(self, frame: Any) -> FileFrame | None:
        """The files of a frame that is nothing but columns of them."""
        files = _files(frame, self.schema(frame)) if is_plain(plan_text(frame)) else None
        return None if files is None else files.only(frame.columns)

    def _computed(self, frame: Any) -> FileFrame | None:
        """The files of a frame whose filters and columns are computed here as Spark does."""
        plan = AnalysedPlan.of(frame)
        stored = None if plan is None else scanned_schema(plan.columns)
        if plan is None or stored is None:
            return None
        types = {field.name: field.type for field in stored}
        found = computation(plan.json(), types, self.schema(frame), plan.mode)
        files = None if found is None else _files(frame, stored)
        return None if found is None or files is None else files.computed(found)

    def apart(self, frame: Any, names: Sequence[str]) -> Any | None:
        if (files := self.files(frame)) is not None:
            return self.scan(files.only(names))
        if not _distinct(*frame.columns):
            return None
        return self.select(frame, names) if is_in_order(plan_text(frame, "extended")) else None

    def tasks(self, count: int) -> Any:
        return self.spark.range(0, count, 1, count)

    def _map_batches(self, frame: Any, function: BatchFunction, schema: pa.Schema) -> Any:
        if self._pads:
            function = Padding(function, PAD in frame.columns)
            schema = schema.append(pa.field(PAD, pa.int32()))
        ddl = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in schema)
        return frame.mapInArrow(_with_task(function), ddl)

    def filter(self, frame: Any, column: str, values: Sequence[int]) -> Any:
        return frame.where(F.col(column).isin(list(values)))

    def left_join(self, frame: Any, table: pa.Table, on: Sequence[str]) -> Any:
        """In the JVM, and without a job of its own: the table is a constant of the plan."""
        keys = table.select(on).to_pydict().values()
        rows = {_joined_text(texts): row for row, texts in enumerate(zip(*keys, strict=True))}
        parts = [part for name in on for part in (F.length(name).cast("string"), F.lit(":"), F.col(name))]
        row = F.try_element_at(_constant(rows, "map<string,int>"), F.concat_ws("", *parts))
        for name in table.column_names:
            if name not in on:
                values = table.column(name)
                kind = f"array<{_TYPES[values.type]}>"
                column = F.try_element_at(_constant(values.to_pylist(), kind), row + 1)
                frame = frame.withColumn(name, column)
        return frame

    def attach(self, frame: Any, other: Any, on: Sequence[str], column: str, name: str, few: bool) -> Any:
        chosen = other.select(*on, F.col(column).alias(name))
        return frame.join(F.broadcast(chosen) if few else chosen, list(on), "left")

    def shuffle(self, frame: Any, by: str, partitions: int, sort: str) -> Any:
        label = _at(partition_labels(partitions), by)
        return frame.repartition(partitions, label).sortWithinPartitions(sort)

    def persist(self, frame: Any) -> Any:
        known = {name: text for name, text in _CACHED.items() if setting(self.spark, name) is not None}
        with conf_set(self.spark, known):  # of which Spark takes a copy for this frame
            return frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)

    def unpersist(self, frame: Any) -> None:
        frame.unpersist()

    def collect(self, frame: Any) -> list[dict[str, Any]]:
        if self._pads and PAD in frame.columns:
            frame = frame.where(F.col(PAD) == 0).drop(PAD)
        try:
            rows = frame.collect()
        except Exception as error:
            raise of_task(error) from error
        return [row.asDict() for row in rows]

    @contextlib.contextmanager
    def batches(self, *, rows: bool = False, blobs: bool = False) -> Iterator[None]:
        self._pads = rows and blobs
        count = BATCH_ROWS if self._pads else _INPUT_ROWS if rows else _BLOB_ROWS
        try:
            with conf_set(self.spark, {_BATCH_CONF: str(count)}):
                yield
        finally:
            self._pads = False


def _files(frame: Any, schema: pa.Schema) -> FileFrame | None:
    """The frame's files on this machine, if they have these columns."""
    paths = [local_path(uri) for uri in sorted(frame.inputFiles())]
    if not all(path and "=" not in path for path in paths):
        return None
    try:
        dataset = spark_dataset([path for path in paths if path])
    except (InputError, pa.ArrowException, OSError, ValueError):
        return None  # Spark says what is wrong
    known = {} if dataset is None else {field.name: field.type for field in dataset.schema}
    if dataset is None or any(known.get(field.name) != field.type for field in schema):
        return None
    return FileFrame.of(dataset)


@dataclass(frozen=True)
class _Repeatable(Repeatable):
    frame: Any

    def ordered(self, fields: Sequence[str]) -> Any:
        by = F.hash(*(_column(self.frame, field) for field in fields))
        return self.frame.withColumn(_ORDER, by).sortWithinPartitions(_ORDER).drop(_ORDER)


def _distinct(*names: str) -> bool:
    """Is no name ambiguous for Spark."""
    return len({name.lower() for name in names}) == len(names)


def _column(frame: Any, path: str) -> Any:
    names = [path] if path in frame.columns else path.split(".")
    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in names))


def _constant(value: Any, kind: str) -> Any:
    """A large literal that Spark folds once, where one expression an element would swamp the optimizer."""
    return F.from_json(F.lit(json.dumps(value)), kind)


def _joined_text(texts: Iterable[str]) -> str:
    """The same text for the same texts only; `left_join` has Spark make it of columns."""
    return "".join(f"{len(text)}:{text}" for text in texts)


def _at(values: Sequence[int], column: str) -> Any:
    """values[column], for a non-negative int column."""
    return F.try_element_at(_constant(list(values), "array<int>"), F.col(column) + 1)


def _with_task(function: BatchFunction) -> Any:
    # Connect pickles a step again for every query of it, and knows a persisted frame by the bytes
    pickled: bytes = _cloudpickle.dumps(function)

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        keep_freed_memory()
        task = Task(context.partitionId(), context.stageId(), int(context.taskAttemptId()))
        step: BatchFunction = pickle.loads(pickled)
        return step(batches, task)

    return call


def partition_labels(partitions: int) -> list[int]:
    """Ints whose Spark hash partition is 0, 1, …: `repartition(n, label)` then places rows as asked.

    Spark's HashPartitioning is pmod(Murmur3_x86_32(int, seed 42), n). Were it to change, only the balance
    would suffer: a task writes whatever buckets reach it.
    """
    labels: npt.NDArray[np.int64] = np.full(partitions, -1, dtype=np.int64)
    start, step = 0, max(64, partitions * 4)
    while (labels < 0).any():
        candidates = np.arange(start, start + step, dtype=np.int64)
        places = _murmur3_int(candidates.astype(np.uint32)).astype(np.int64) % partitions
        for place in np.flatnonzero(labels < 0):
            hits = np.flatnonzero(places == place)
            if len(hits):
                labels[place] = candidates[hits[0]]
        start += step
    return [int(label) for label in labels]


def _murmur3_int(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.int32]:
    def rotate(x: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    k = rotate(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = rotate(np.uint32(42) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.view(np.int32)


#: of a Python traceback, whose frames are indented, the line below them
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(\S.*)")


#: the first of several, of the exception that the others were raised from
_TRACE = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+\S.*")
#: how the errors begin of tasks that refuse their rows, and of functions of the user's own
_OF_TASKS = {f"{kind.__module__}.{kind.__qualname__}: ": kind for kind in (InputError, TransformError)}
#: what Spark says of a file whose rows it can't read
_UNREAD = re.compile(r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+?)\.?\s")


def of_task(error: Exception) -> HoodieError:
    """What a Spark job failed with, by Spark's own error."""
    cause = _cause(error)
    if found := _UNREAD.search(str(error)):
        return InputError(f"{found[1]} can't be read by Spark: {cause}; check the file", file=found[1])
    for prefix, kind in _OF_TASKS.items():
        if cause.startswith(prefix):
            trace = _TRACE.search(str(error)) if kind is TransformError else None
            return kind(cause.removeprefix(prefix), **({"traceback": trace[0][-8000:]} if trace else {}))
    return JobError(f"a Spark job failed: {cause}")


def _cause(error: Exception) -> str:
    """The exception of a Python task, or the last line of a Spark error that names one; the rest is pages of
    stack.
    """
    raised = _RAISED.findall(str(error))
    if raised:
        return str(raised[-1].strip()[:2000])
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line or "Exception" in line]
    return (named or lines or [type(error).__name__])[-1][:2000]
