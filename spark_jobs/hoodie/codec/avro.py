"""One-record Avro container files, the form of Hudi's plans and metadata (format.md 2.3, 3.4), and single
records without a container, as the archived timeline has them (11).

The only importer of fastavro. The schemas are Apache Hudi 0.15.0's, data files next to this module that are
read on first use, also out of a zip; `java_strings` adds what Hudi's build adds to them. Full names are
`org.apache.hudi.avro.model.<name>`.
"""

from __future__ import annotations

import functools
import importlib.resources
import io
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from hoodie.codec.avro_blocks import Block, one_block
from hoodie.codec.avro_container import one_datum, parsed_schema
from hoodie.errors import HoodieError, TableError

NAMESPACE = "org.apache.hudi.avro.model"
#: property of texts and maps in a writer's schema; without it Java takes them for another class than String
JAVA_STRING = "avro.java.string"


@functools.cache
def schema_json(name: str) -> dict[str, Any]:
    """The Avro schema of a Hudi model by its short name, e.g. "HoodieRollbackPlan"; don't change the result.

    Raises KeyError for a name that Hudi 0.15.0 does not have.
    """
    file = importlib.resources.files("hoodie.codec").joinpath("schemas", f"{name}.avsc")
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise KeyError(name) from None
    schema: dict[str, Any] = java_strings(json.loads(text))
    return schema


def java_strings(schema: Any) -> Any:
    """`schema`, an Avro schema as JSON values, with texts and the keys of maps as Java's String.

    Records that were written with the one are read with the other. Apache Hudi's schemas are of this kind,
    and Hudi 1.x fails on texts of another (its LegacyArchivedMetaEntryReader casts).
    """
    if isinstance(schema, list):
        return [java_strings(branch) for branch in schema]
    if not isinstance(schema, dict):
        return {"type": "string", JAVA_STRING: "String"} if schema == "string" else schema
    kind = schema["type"]
    found = dict(schema)
    if kind == "record":
        found["fields"] = [{**item, "type": java_strings(item["type"])} for item in schema["fields"]]
    elif kind == "array":
        found["items"] = java_strings(schema["items"])
    elif kind == "map":
        found["values"] = java_strings(schema["values"])
    elif isinstance(kind, (dict, list)):
        found["type"] = java_strings(kind)
    if kind in ("string", "map"):
        found[JAVA_STRING] = "String"
    return found


def write_record(name: str, record: Mapping[str, Any], header: Mapping[str, str] | None = None) -> bytes:
    """`record` -> an object container (codec null, the schema embedded) of the model `name`.

    Fields that have a default may be left out. `header`: texts of the container's own metadata, which readers
    of records pass over. Raises ValueError when the record does not fit the schema.
    """
    out = io.BytesIO()
    try:
        _fastavro().writer(out, _parsed(name), [dict(record)], codec="null", metadata=dict(header or {}))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"record does not fit {name}: {error}") from error
    return out.getvalue()


def read_record(name: str, data: bytes) -> dict[str, Any]:
    """The one record of an object container, resolved to the model `name`.

    Fields the writer did not know get their defaults, fields unknown here are dropped. Raises TableError
    when `data` is torn, empty or of another model.
    """
    try:
        schema, datum = one_datum(data)
    except ValueError as error:
        raise _torn(name, str(error)[:300]) from None
    return read_datum(name, datum, schema)


def write_datum(name: str, record: Mapping[str, Any]) -> bytes:
    """`record` of the model `name` in Avro binary, without a container; as log blocks hold it.

    Raises ValueError when the record does not fit the schema.
    """
    out = io.BytesIO()
    try:
        _fastavro().schemaless_writer(out, _parsed(name), dict(record))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"record does not fit {name}: {error}") from error
    return out.getvalue()


def read_datum(name: str, data: bytes, writer_schema: str) -> dict[str, Any]:
    """A record in Avro binary that was written with the schema (its text), resolved to the model `name`.

    Raises TableError when `data` is torn or the schema another model's.
    """
    fastavro = _fastavro()
    torn: tuple[type[Exception], ...]
    torn = (ValueError, EOFError, LookupError, TypeError, ArithmeticError, AttributeError, MemoryError)
    torn = (*torn, RecursionError, *_errors(fastavro))
    try:
        record = fastavro.schemaless_reader(io.BytesIO(data), _parsed_text(writer_schema), _parsed(name))
    except torn as error:
        raise _torn(name, f"{type(error).__name__}: {error}"[:300]) from None
    if not isinstance(record, dict):
        raise _torn(name, "no record")
    return record


@functools.lru_cache(maxsize=16)
def _parsed_text(schema: str) -> Any:
    return _fastavro().parse_schema(parsed_schema(schema), named_schemas={})


def block_records(schema: str, block: Block) -> list[dict[str, Any]]:
    """The records of a block of a file with this schema. Raises ValueError for a damaged one."""
    fastavro = _fastavro()
    try:
        records = list(fastavro.reader(one_block(schema, block)))
    except Exception as error:
        raise ValueError(f"a block is damaged ({type(error).__name__}: {error})") from error
    if len(records) != block.records:
        raise ValueError(f"a block has {len(records)} records, where it says {block.records}")
    return records


@functools.cache
def _parsed(name: str) -> Any:
    return _fastavro().parse_schema(schema_json(name), named_schemas={})


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        raise HoodieError(
            "fastavro is not installed; plans and metadata of table services are Avro files: "
            "pip install 'airflow-hoodie[local]' or put fastavro on the cluster"
        ) from None
    return fastavro


def _errors(fastavro: ModuleType) -> tuple[type[Exception], ...]:
    schema = fastavro.schema
    return (fastavro.read.SchemaResolutionError, schema.SchemaParseException, schema.UnknownType)


def _torn(name: str, reason: str) -> TableError:
    return TableError(
        f"a timeline file is no whole {name} ({reason}); restore the file, or remove the unfinished instant",
        model=name,
    )
