"""A table's columns by id (format.md 3.10; Apache Hudi 0.15.0 InternalSchema, SerDeHelper), and rows of
older files in the names of the present schema.

- Schema-on-read evolution gives every column, struct field, array element, map key and map value an id. The
  id stays the same after a rename, move or widening, and is never used again.
- A table has a history of schemas. A file has the names and types of the newest schema that is no newer than
  the file.
- The columns of a file and of the table are matched by id. A column of the table without an id in the file's
  schema is read by its name, as files may have columns that are in no schema. If the file's schema gives the
  name to another column, it is null. A column whose id the table has lost is not returned.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from hoodie.engine.required import Rows
from hoodie.errors import TableError
from hoodie.format.base_file import BaseFileReader
from hoodie.format.evolution import read_as, read_changed
from hoodie.format.instant_time import InstantTime
from hoodie.format.meta_fields import META_COLUMNS
from hoodie.format.schema import is_list


@dataclass(frozen=True)
class Field:
    """`doc` is None where there is none; Apache Hudi gives meta columns an empty one."""

    id: int
    name: str
    optional: bool
    type: Type
    doc: str | None = None


@dataclass(frozen=True)
class Record:
    fields: tuple[Field, ...]

    def named(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)

    def with_id(self, number: int) -> Field | None:
        return next((field for field in self.fields if field.id == number), None)


@dataclass(frozen=True)
class Array:
    element_id: int
    element: Type
    optional: bool


@dataclass(frozen=True)
class Map:
    key_id: int
    key: Type
    value_id: int
    value: Type
    optional: bool


#: a text is a type without parts: boolean, int, long, float, double, date, time, timestamp, string, uuid,
#: binary, fixed[n], decimal(p, s)
Type: TypeAlias = str | Record | Array | Map


@dataclass(frozen=True)
class InternalSchema:
    """`version` is the instant that made it, 0 for that from before the first change."""

    version: int
    max_id: int
    record: Record

    @classmethod
    def parse(cls, text: str) -> InternalSchema:
        """Raises TableError for text that is no such schema."""
        try:
            return _schema(json.loads(text))
        except _TORN as error:
            raise _torn(text, error) from None

    @classmethod
    def of(cls, schema: pa.Schema, version: int = 0) -> InternalSchema:
        """A schema with ids as Apache Hudi gives them: a record's fields first, then what they contain."""
        numbers = itertools.count()
        record = _numbered(schema, numbers)
        return cls(version, next(numbers) - 1, record)

    def to_json(self) -> str:
        """The text that Apache Hudi writes, byte for byte."""
        return _text(self.to_document())

    def to_document(self) -> dict[str, Any]:
        head = {"max_column_id": self.max_id, "version_id": self.version}
        return {**head, **_json(self.record)}

    def extended(self, schema: pa.Schema) -> InternalSchema:
        """The columns of `schema`, which are matched by name: known ones keep their ids, new ones get new
        ones. This very schema when nothing is different; else the result has its `version` still.
        """
        numbers = itertools.count(self.max_id + 1)
        record = _extended_record(self.record, list(schema), numbers)
        if record == self.record:
            return self
        return replace(self, record=record, max_id=next(numbers) - 1)


def parse_history(text: str) -> tuple[InternalSchema, ...]:
    """The schemas of a schemacommit, oldest first. Raises TableError for text that is none."""
    try:
        found = [_schema(value) for value in json.loads(text)["schemas"]]
    except _TORN as error:
        raise _torn(text, error) from None
    if not found:
        raise _torn(text, ValueError("no schemas"))
    return tuple(sorted(found, key=lambda schema: schema.version))


def inherited(newest: InternalSchema, history: str) -> str:
    """The text of a schemacommit with one more schema; `history` is that of another one, or empty."""
    older = json.loads(history)["schemas"] if history else []
    return _text({"schemas": [newest.to_document(), *older]})


def schema_at(history: Sequence[InternalSchema], instant: InstantTime) -> InternalSchema:
    """The schema of what was written at an instant; the oldest where the history begins later."""
    time = int(instant) if instant.isdecimal() else 0
    return next((schema for schema in reversed(history) if schema.version <= time), history[0])


# --- JSON ----------------------------------------------------------------------------------------------

_TORN = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError)


def _torn(text: str, error: Exception) -> TableError:
    return TableError(
        f"a schema of the table's columns by id can't be read ({type(error).__name__}: {error}): "
        f"{text[:80]!r}…; restore the commit's file, or that in .hoodie/.schema"
    )


def _schema(value: Mapping[str, Any]) -> InternalSchema:
    record = _record(value)
    known = value.get("max_column_id")
    return InternalSchema(
        int(value.get("version_id") or 0), max(_ids(record)) if known is None else int(known), record
    )


def _record(value: Mapping[str, Any]) -> Record:
    return Record(
        tuple(
            Field(int(item["id"]), item["name"], bool(item["optional"]), _type(item["type"]), item.get("doc"))
            for item in value["fields"]
        )
    )


def _type(value: Any) -> Type:
    if isinstance(value, str):
        return value
    if value["type"] == "record":
        return _record(value)
    if value["type"] == "array":
        return Array(int(value["element_id"]), _type(value["element"]), bool(value["element_optional"]))
    if value["type"] != "map":
        raise ValueError(f"no type {value['type']!r}")
    key, item = _type(value["key"]), _type(value["value"])
    return Map(int(value["key_id"]), key, int(value["value_id"]), item, bool(value["value_optional"]))


def _json(value: Type) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Array):
        return {
            "type": "array",
            "element_id": value.element_id,
            "element": _json(value.element),
            "element_optional": value.optional,
        }
    if isinstance(value, Map):
        return {
            "type": "map",
            "key_id": value.key_id,
            "key": _json(value.key),
            "value_id": value.value_id,
            "value": _json(value.value),
            "value_optional": value.optional,
        }
    fields = []
    for field in value.fields:
        head = {"id": field.id, "name": field.name, "optional": field.optional, "type": _json(field.type)}
        fields.append(head if field.doc is None else {**head, "doc": field.doc})
    return {"type": "record", "fields": fields}


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _ids(value: Type) -> Iterator[int]:
    if isinstance(value, Record):
        for field in value.fields:
            yield field.id
            yield from _ids(field.type)
    elif isinstance(value, Array):
        yield value.element_id
        yield from _ids(value.element)
    elif isinstance(value, Map):
        yield from (value.key_id, value.value_id)
        yield from _ids(value.value)


# --- from Arrow ----------------------------------------------------------------------------------------

_PRIMITIVES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.string(): "string",
    pa.binary(): "binary",
}
#: what else is stored as the same Arrow type
_ALIASES = {"string": {"uuid"}, "long": {"timestamp", "time"}, "timestamp": {"long"}}


def _numbered(fields: Any, numbers: Iterator[int]) -> Record:
    ids = [next(numbers) for _ in fields]
    return Record(
        tuple(
            Field(number, item.name, item.nullable, _new(item.type, numbers), _doc(item.name))
            for number, item in zip(ids, fields, strict=True)
        )
    )


def _doc(name: str) -> str | None:
    return "" if name in META_COLUMNS else None


def _new(dtype: pa.DataType, numbers: Iterator[int]) -> Type:
    if isinstance(dtype, pa.StructType):
        return _numbered(list(dtype), numbers)
    if is_list(dtype):
        number = next(numbers)
        return Array(number, _new(dtype.value_type, numbers), dtype.value_field.nullable)
    if isinstance(dtype, pa.MapType):
        key, value = next(numbers), next(numbers)
        return Map(key, "string", value, _new(dtype.item_type, numbers), dtype.item_field.nullable)
    return _primitive(dtype)


def _primitive(dtype: pa.DataType) -> str:
    """As Apache Hudi makes it of the Avro type: a timestamp without zone is a long there."""
    if dtype in _PRIMITIVES:
        return _PRIMITIVES[dtype]
    if isinstance(dtype, pa.TimestampType):
        return "timestamp" if dtype.tz else "long"
    if pa.types.is_time(dtype):
        return "time"
    if isinstance(dtype, pa.Decimal128Type):
        return f"decimal({dtype.precision}, {dtype.scale})"
    if isinstance(dtype, pa.FixedSizeBinaryType):
        return f"fixed[{dtype.byte_width}]"
    raise TableError(f"type {dtype} can't be a column of a table of schema-on-read evolution")


def _extended_record(known: Record, fields: list[Any], numbers: Iterator[int]) -> Record:
    # the fields of one record get their ids before what they contain, as in a new schema
    ids = [next(numbers) if known.named(item.name) is None else -1 for item in fields]
    out = []
    for number, item in zip(ids, fields, strict=True):
        old = known.named(item.name)
        if old is None:
            out.append(Field(number, item.name, item.nullable, _new(item.type, numbers), _doc(item.name)))
        else:
            out.append(replace(old, optional=item.nullable, type=_extended(old.type, item.type, numbers)))
    return Record(tuple(out))


def _extended(known: Type, dtype: pa.DataType, numbers: Iterator[int]) -> Type:
    if isinstance(known, Record) and isinstance(dtype, pa.StructType):
        return _extended_record(known, list(dtype), numbers)
    if isinstance(known, Array) and is_list(dtype):
        element = _extended(known.element, dtype.value_type, numbers)
        return Array(known.element_id, element, dtype.value_field.nullable)
    if isinstance(known, Map) and isinstance(dtype, pa.MapType):
        value = _extended(known.value, dtype.item_type, numbers)
        return replace(known, value=value, optional=dtype.item_field.nullable)
    now = _new(dtype, numbers)
    same = isinstance(known, str) and isinstance(now, str) and known in _ALIASES.get(now, ())
    return known if same or (isinstance(known, str) and known.startswith("fixed[")) else now


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
            name, dtype = new.name, _renamed_type(dtype, old.type, new.type)
        elif old is not None or (new is not None and stored.with_id(new.id) is not None):
            name = _LOST + name
        out.append(pa.field(name, dtype, item.nullable))
    return out


def _renamed_type(dtype: Any, stored: Type, table: Type) -> Any:
    """The file's type with the table's names of struct fields."""
    if isinstance(dtype, pa.StructType) and isinstance(stored, Record) and isinstance(table, Record):
        return pa.struct(_renamed(list(dtype), stored, table))
    if is_list(dtype) and isinstance(stored, Array) and isinstance(table, Array):
        inner = _renamed_type(dtype.value_type, stored.element, table.element)
        field = dtype.value_field.with_type(inner)
        return pa.large_list(field) if isinstance(dtype, pa.LargeListType) else pa.list_(field)
    if isinstance(dtype, pa.MapType) and isinstance(stored, Map) and isinstance(table, Map):
        return pa.map_(
            dtype.key_type,
            dtype.item_field.with_type(_renamed_type(dtype.item_type, stored.value, table.value)),
        )
    return dtype
