"""HoodieMetadataRecord: the records of a metadata table (format.md 10.3)."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

import pyarrow as pa

from hoodie.codec.arrow_avro import decode_values
from hoodie.codec.avro import schema_json
from hoodie.codec.avro_types import array_of, map_of, parse_text
from hoodie.engine.required import loosened
from hoodie.errors import TableError
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import META_COLUMNS

_MODEL = "HoodieMetadataRecord"
#: how the names of the branches of a union end
_BRANCH = "Wrapper"


@functools.cache
def commit_schema() -> str:
    """The Avro schema as commits have it: without meta columns."""
    return json.dumps(schema_json(_MODEL), separators=(",", ":"))


@functools.cache
def record_schema() -> str:
    """The Avro schema of HFiles and log blocks: with the meta columns, which are null."""
    meta = [{"name": name, "type": ["null", "string"], "default": None} for name in META_COLUMNS]
    record = schema_json(_MODEL)
    return json.dumps({**record, "fields": [*meta, *record["fields"]]}, separators=(",", ":"))


def is_current(schema_text: str) -> bool:
    """Do values of this schema have the bytes that those of `record_schema` have."""
    return parse_text(schema_text) == parse_text(record_schema())


def check_columns(rows: pa.Table, columns: Iterable[str]) -> None:
    """Raises TableError for columns of other types than those of `record_schema`. Other releases may have
    more fields in them.
    """
    for name in columns:
        found = rows.schema.field(name).type
        if not _fits(found, column_type(name)):
            raise TableError(
                f"records of the metadata table have a column {name} of type {str(found)[:200]}; delete the "
                "metadata table, and write with it again",
                column=name,
            )


def _fits(found: Any, wanted: Any) -> bool:
    if pa.types.is_map(wanted):
        return pa.types.is_map(found) and _fits(found.item_type, wanted.item_type)
    if not pa.types.is_struct(wanted):
        return bool(found == wanted)
    if not pa.types.is_struct(found):
        return False
    if all(field.name.endswith(_BRANCH) for field in wanted):
        return True  # a value of one of several types
    there = {field.name: field.type for field in found}
    return all(field.name in there and _fits(there[field.name], field.type) for field in wanted)


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Records that several releases wrote: those of one may have more types of values, and more fields."""
    first, *rest = (part.schema for part in parts)
    if all(schema.equals(first) for schema in rest):
        return pa.concat_tables(parts)
    fields = [functools.reduce(_united, same) for same in zip(*(part.schema for part in parts), strict=True)]
    schema = loosened(pa.schema(fields))
    return pa.concat_tables([read_as(part, schema) for part in parts])


def _united(one: pa.Field[Any], other: pa.Field[Any]) -> pa.Field[Any]:
    """The field with all that either has below it."""
    return pa.field(one.name, _united_type(one.type, other.type))


def _united_type(one: Any, other: Any) -> pa.DataType:
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        known, more = {field.name: field for field in one}, {field.name: field for field in other}
        same = [_united(field, more.get(name, field)) for name, field in known.items()]
        return pa.struct([*same, *(field for name, field in more.items() if name not in known)])
    if pa.types.is_map(one) and pa.types.is_map(other):
        return map_of(_united_type(one.item_type, other.item_type))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return array_of(_united_type(one.value_type, other.value_type))
    return cast(pa.DataType, one)


def whole_records(rows: pa.Table) -> pa.Table:
    """The rows with all columns of `record_schema`; those that they lack are null."""
    nothing: Any = pa.nulls(rows.num_rows)
    names = [field.name for field in parse_text(record_schema()).fields]
    there = frozenset(rows.schema.names)
    return pa.table({name: rows.column(name) if name in there else nothing for name in names})


@functools.cache
def column_type(name: str) -> pa.DataType:
    """The Arrow type of a column of `record_schema`, a union of several types as `decode_values` reads it."""
    nothing: Any = pa.array([], pa.binary())
    found: pa.DataType = decode_values(nothing, record_schema(), [name]).schema.field(name).type
    return found
