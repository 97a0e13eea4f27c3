"""HoodieMetadataRecord: the records of a metadata table, by the timeline's layout (format.md 10.3, 15.12).

Those of layout two have what layout one has, and more.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from hoodie.codec.arrays import whole
from hoodie.codec.arrow_avro import decode_values
from hoodie.codec.avro import schema_json
from hoodie.codec.avro_types import array_of, map_of, parse_text
from hoodie.config.versions import LayoutVersion
from hoodie.engine.required import loosened
from hoodie.errors import TableError
from hoodie.format.evolution import read_as
from hoodie.format.meta_fields import META_COLUMNS

_MODELS = {LayoutVersion.ONE: "HoodieMetadataRecord", LayoutVersion.TWO: "HoodieMetadataRecordV8"}
#: how the names of the branches of a union end
_BRANCH = "Wrapper"


@functools.cache
def commit_schema(version: LayoutVersion = LayoutVersion.ONE) -> str:
    """The Avro schema as commits have it: without meta columns."""
    return json.dumps(schema_json(_MODELS[version]), separators=(",", ":"))


@functools.cache
def record_schema(version: LayoutVersion = LayoutVersion.ONE) -> str:
    """The Avro schema of HFiles and log blocks: with the meta columns, which are null."""
    meta = [{"name": name, "type": ["null", "string"], "default": None} for name in META_COLUMNS]
    record = schema_json(_MODELS[version])
    return json.dumps({**record, "fields": [*meta, *record["fields"]]}, separators=(",", ":"))


def is_current(schema_text: str, wanted: str) -> bool:
    """Do values of this schema have the bytes that those of the `wanted` one have."""
    return parse_text(schema_text) == parse_text(wanted)


def check_columns(rows: pa.Table, columns: Iterable[str]) -> None:
    """Raises TableError for columns of other types than those of `record_schema`. Other releases may have
    more fields in them, and more columns.
    """
    known = frozenset(field.name for field in parse_text(record_schema()).fields)
    for name in known.intersection(columns):
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


def whole_records(rows: pa.Table, schema_text: str) -> pa.Table:
    """The rows with all columns, and all of their fields, of a `record_schema`. What they lack, as of another
    release, has its default, which is null mostly.
    """
    nothing: Any = pa.nulls(rows.num_rows)
    names = [field.name for field in parse_text(schema_text).fields]
    there = frozenset(rows.schema.names)
    for name, defaults in _defaults(schema_text).items():
        if name in there:
            place = rows.schema.get_field_index(name)
            filled = _filled(whole(rows.column(name)), defaults, column_type(name, schema_text))
            rows = rows.set_column(place, name, filled)
    structs = [name for name in names if name in there and pa.types.is_struct(rows.schema.field(name).type)]
    fields = [pa.field(name, column_type(name, schema_text)) for name in structs]
    if any(field.type != rows.schema.field(field.name).type for field in fields):
        read = read_as(rows.select(structs), pa.schema(fields))
        for field in fields:
            place = rows.schema.get_field_index(field.name)
            rows = rows.set_column(place, field, read.column(field.name))
    return pa.table({name: rows.column(name) if name in there else nothing for name in names})


@functools.cache
def _defaults(schema_text: str) -> Mapping[str, Mapping[str, Any]]:
    """The defaults of the fields in a column that have others than null, by column."""
    found = {}
    for column in json.loads(schema_text)["fields"]:
        kinds = column["type"] if isinstance(column["type"], list) else [column["type"]]
        fields = [field for kind in kinds if isinstance(kind, dict) for field in kind.get("fields", ())]
        defaults = {field["name"]: field["default"] for field in fields if field.get("default") is not None}
        if defaults:
            found[column["name"]] = defaults
    return found


def _filled(records: Any, defaults: Mapping[str, Any], wanted: Any) -> Any:
    """Structs that lack some fields of the type `wanted`, with the defaults of those."""
    lacking = [name for name in defaults if records.type.get_field_index(name) < 0]
    if not lacking:
        return records
    same: Any = pa.array([0] * len(records), pa.int8())
    new = [pa.array([defaults[name]], wanted.field(name).type).take(same) for name in lacking]
    parts = [records.field(place) for place in range(records.type.num_fields)]
    fields = [*records.type, *map(wanted.field, lacking)]
    return pa.StructArray.from_arrays([*parts, *new], fields=fields, mask=records.is_null())


@functools.cache
def column_type(name: str, schema_text: str | None = None) -> pa.DataType:
    """The Arrow type of a column of a `record_schema`, by default that of layout one; a union of several
    types as `decode_values` reads it.
    """
    nothing: Any = pa.array([], pa.binary())
    found: pa.DataType = (
        decode_values(nothing, schema_text or record_schema(), [name]).schema.field(name).type
    )
    return found
