"""What a query of the data source reads: planned on the driver, read by tasks as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hoodie.engine.memory import keep_freed_memory
from hoodie.engine.packing import packed
from hoodie.engine.required import loosened
from hoodie.engine.session import arrow_schema, to_spark_schema
from hoodie.errors import SchemaError
from hoodie.format.evolution import read_as
from hoodie.read.arrow import rows_of_slices
from hoodie.read.binding import Predicate
from hoodie.read.changes import SCHEMA, ChangeView, asks_changes, check_keeps_changes
from hoodie.read.settings import INCREMENTAL_FORMAT, IncrementalFormat
from hoodie.read.spark import ChangeScan, change_scan, slice_weight
from hoodie.read.table_view import TableView, query_schema
from hoodie.spark.options import Reading
from hoodie.table.view import FileSlice
from hoodie.timeline.active import Timeline


@dataclass(frozen=True)
class Scan:
    """Reads slices in tasks. Picklable; `view` has no slices of its own. `schema` is what Spark awaits."""

    view: TableView
    names: tuple[str, ...]
    schema: pa.Schema

    def batches(self, slices: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
        """The rows of the slices, one slice after the other."""
        keep_freed_memory()
        for rows in rows_of_slices(self.view, self.view.ref.storage(), slices, self.names):
            yield from read_as(rows, self.schema).to_batches()


@dataclass(frozen=True)
class Planned:
    """`tasks`: the slices, or the changes, of each."""

    scan: Scan | ChangeScan
    tasks: tuple[tuple[Any, ...], ...]


def spark_schema(reading: Reading) -> Any:
    """The StructType of a query's rows; every column may be null, as Spark has it of files."""
    if reading.config[INCREMENTAL_FORMAT] is IncrementalFormat.CDC:
        check_keeps_changes(reading.table().properties)
        return to_spark_schema(SCHEMA)
    found = query_schema(reading.table(), reading.query, reading.config)
    return to_spark_schema(loosened(found))


def planned(reading: Reading, asked: Any, where: Predicate | None) -> Planned:
    """What is to be read for the columns of a StructType, in the state of the table that there is now.

    Raises ConfigError for a column that the table lacks, SchemaError for one of another type, and as
    TableView.load.
    """
    if asks_changes(reading.query, reading.config):
        changes = ChangeView.load(reading.table(), reading.query, reading.config)
        names = changes.columns([field.name for field in asked])
        _check_types(asked, pa.schema([SCHEMA.field(name) for name in names]), changes.ref.uri)
        return Planned(*change_scan(changes, names))
    view = TableView.load(reading.table(), reading.query, reading.config, where)
    names = view.columns([field.name for field in asked], meta=True)
    _check_types(asked, pa.schema([view.schema.field(name) for name in names]), view.base_path)
    # a task needs neither what others read nor what was left out
    travels = replace(view, slices=(), steps=(), timeline=Timeline(view.base_path, (), {}))
    scan = Scan(travels, tuple(names), arrow_schema(asked))
    return Planned(scan, packed(view.slices, slice_weight))


def _check_types(asked: Any, there: pa.Schema, base_path: str) -> None:
    """Raises SchemaError for a field of a StructType that is of another type than the column."""
    for field, known in zip(asked, to_spark_schema(there), strict=True):
        given, stored = field.dataType.simpleString(), known.dataType.simpleString()
        if given != stored:
            raise SchemaError(
                f"column {field.name} of {base_path} is {stored}, and not {given}; load the table again, "
                "without a schema, and cast the column",
                column=field.name,
            )
