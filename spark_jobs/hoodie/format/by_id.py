"""Rows of files of older schemas in the names of the table's present one (schema-on-read evolution).

The columns of a file and of the table are matched by id. A column of the table that has no id in the file's
schema is read by its name, as files may hold columns that are in no schema; where the file's schema gives
the name to another column, it is null. What has an id that the table lost is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hoodie.engine.required import Rows
from hoodie.format.base_file import BaseFileReader
from hoodie.format.evolution import read_as, read_changed
from hoodie.format.instant_time import InstantTime
from hoodie.format.internal_schema import Array, InternalSchema, Map, Record, Type, schema_at
from hoodie.format.schema import is_list

#: precedes names in a file that the table has another column for, or none
_LOST = "\0"


@dataclass(frozen=True)
class FileColumns:
    """How the columns of one file are called in the table. `stored` is the file's schema."""

    stored: Record
    table: Record

    def names(self, wanted: Sequence[str]) -> list[str]:
        """What to read of the file, which may lack it, for these columns of the table."""
        places = [self._place(name) for name in wanted]
        return [name for name in places if name is not None]

    def read(self, rows: Rows, target: pa.Schema) -> Rows:
        """Rows of the file in the columns and types of `target`, whose names are the table's."""
        fields = _renamed(list(rows.schema), self.stored, self.table)
        columns = [_viewed(column, field.type) for column, field in zip(rows.columns, fields, strict=True)]
        renamed: Rows = type(rows).from_arrays(columns, schema=pa.schema(fields))
        return read_changed(renamed, target)

    def _place(self, name: str) -> str | None:
        field = self.table.named(name)
        stored = None if field is None else self.stored.with_id(field.id)
        if stored is not None:
            return stored.name
        return name if self.stored.named(name) is None else None


@dataclass(frozen=True)
class Evolution:
    """The table's columns by id and those of its history, oldest first. Picklable."""

    schema: InternalSchema
    history: tuple[InternalSchema, ...]

    def columns(self, instant: InstantTime) -> FileColumns:
        """Those of a base file or a log block of an instant."""
        return FileColumns(schema_at(self.history, instant).record, self.schema.record)

    def lost(self, name: str) -> bool:
        """Did an earlier schema have a column of this name that has another one now, or is gone."""
        until = self.schema.version
        found = (schema.record.named(name) for schema in self.history if schema.version <= until)
        now = self.schema.record.named(name)
        return any(field is not None and (now is None or field.id != now.id) for field in found)

    def moved(self, instant: InstantTime) -> bool:
        """May a file of this instant know columns by other names or types than the table's present ones."""
        return schema_at(self.history, instant).record != self.schema.record


def stored_batches(
    reader: BaseFileReader, target: pa.Schema, columns: FileColumns | None = None
) -> Iterator[pa.Table]:
    """The rows of a base file in the columns and types of `target`, batch by batch; absent ones are null."""
    known = set(reader.schema.names)
    names = target.names if columns is None else columns.names(target.names)
    for batch in reader.batches([name for name in names if name in known]):
        rows = pa.Table.from_batches([batch])
        yield read_as(rows, target) if columns is None else columns.read(rows, target)


def _viewed(column: Any, dtype: Any) -> Any:
    if column.type == dtype:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([chunk.view(dtype) for chunk in column.chunks], dtype)
    return column.view(dtype)


def _renamed(fields: list[Any], stored: Record, table: Record) -> list[pa.Field[Any]]:
    out = []
    for item in fields:
        name, dtype = item.name, item.type
        old = stored.named(name)
        new = table.named(name) if old is None else table.with_id(old.id)
        if old is not None and new is not None:
            name, dtype = new.name, _type(dtype, old.type, new.type)
        elif old is not None or (new is not None and stored.with_id(new.id) is not None):
            name = _LOST + name
        out.append(pa.field(name, dtype, item.nullable))
    return out


def _type(dtype: Any, stored: Type, table: Type) -> Any:
    """The file's type with the table's names of struct fields."""
    if isinstance(dtype, pa.StructType) and isinstance(stored, Record) and isinstance(table, Record):
        return pa.struct(_renamed(list(dtype), stored, table))
    if is_list(dtype) and isinstance(stored, Array) and isinstance(table, Array):
        inner = _type(dtype.value_type, stored.element, table.element)
        field = dtype.value_field.with_type(inner)
        return pa.large_list(field) if isinstance(dtype, pa.LargeListType) else pa.list_(field)
    if isinstance(dtype, pa.MapType) and isinstance(stored, Map) and isinstance(table, Map):
        return pa.map_(
            dtype.key_type, dtype.item_field.with_type(_type(dtype.item_type, stored.value, table.value))
        )
    return dtype
