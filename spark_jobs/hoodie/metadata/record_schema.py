"""HoodieMetadataRecord: the records of a metadata table (format.md 10.3)."""

from __future__ import annotations

import functools
import json
from typing import Any

import pyarrow as pa

from hoodie.codec.avro import schema_json
from hoodie.codec.avro_types import parse_text
from hoodie.format.meta_fields import META_COLUMNS

_MODEL = "HoodieMetadataRecord"


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


def whole_records(rows: pa.Table) -> pa.Table:
    """The rows with all columns of `record_schema`; those that they lack are null."""
    nothing: Any = pa.nulls(rows.num_rows)
    names = [field.name for field in parse_text(record_schema()).fields]
    there = frozenset(rows.schema.names)
    return pa.table({name: rows.column(name) if name in there else nothing for name in names})
