"""An Avro object container of one record, taken apart within bounds (Avro 1.11 specification, "Object
Container Files"), and schemas under which few bytes can stand for many values.

Plans come with a table, so they are untrusted: a container may declare 2^40 records without bytes, or hold a
megabyte that deflates to gigabytes. Stdlib only.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from hoodie.config.limits import MAX_READ_BYTES

MAGIC = b"Obj\x01"
SYNC = 16
_MAX_DEPTH = 64
_PRIMITIVE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def one_datum(data: bytes) -> tuple[str, bytes]:
    """The writer's schema, as text, and the bytes of the one record.

    Raises ValueError for what is no container, is torn, has not one record, has another codec than null and
    deflate, or inflates to more than MAX_READ_BYTES.
    """
    meta, at = header(data)
    at += SYNC
    found: list[bytes] = []
    while at < len(data):
        records, at = _long(data, at)
        size, at = _long(data, at)
        if records < 0 or size < 0 or at + size + SYNC > len(data):
            raise ValueError("the last block is cut")
        if records > 1:
            raise ValueError(f"{records} records, where there is one")
        found += [data[at : at + size]] * records
        at += size + SYNC
    if len(found) != 1:
        raise ValueError(f"{len(found)} records, where there is one")
    schema = meta.get("avro.schema", b"").decode()
    return schema, _inflated(found[0], meta.get("avro.codec", b"null").decode())


def header_text(data: bytes, key: str) -> str | None:
    """A text of a container's own metadata; None where it has none. Raises ValueError as `one_datum`."""
    meta, _ = header(data)
    return meta[key].decode() if key in meta else None


def header(data: bytes) -> tuple[Mapping[str, bytes], int]:
    """A container's own metadata, and where they end. Raises ValueError as `one_datum`."""
    if not data.startswith(MAGIC):
        raise ValueError("no Avro container")
    return _metadata(data, len(MAGIC))


def check_schema(schema: Any) -> None:
    """Raises ValueError for an Avro schema (JSON values) that contains itself, is nested without end, or has
    arrays of values that take no bytes.
    """
    _least_bytes(schema, {}, 0)


def _metadata(data: bytes, at: int) -> tuple[Mapping[str, bytes], int]:
    meta: dict[str, bytes] = {}
    while True:
        entries, at = _long(data, at)
        if entries == 0:
            return meta, at
        if entries < 0:  # then the block's size follows
            entries, (_, at) = -entries, _long(data, at)
        if entries > len(data):
            raise ValueError("the header is damaged")
        for _ in range(entries):
            key, at = _bytes(data, at)
            meta[key.decode()], at = _bytes(data, at)


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("the header is cut")
    return data[at : at + size], at + size


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def _inflated(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise ValueError(f"codec {codec[:40]!r}, where Apache Hudi uses none")
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        out = unpacker.decompress(block, MAX_READ_BYTES)
    except (zlib.error, MemoryError) as error:
        raise ValueError(f"deflate: {error}") from None
    if unpacker.unconsumed_tail:
        raise ValueError(f"a block of {len(block)} bytes inflates to more than {MAX_READ_BYTES}")
    return out


def _least_bytes(schema: Any, named: dict[str, int | None], depth: int) -> int:
    """The fewest bytes of a value; `named`: those of the named types so far, None while one is looked at."""
    if depth > _MAX_DEPTH:
        raise ValueError("a schema of too many levels")
    if isinstance(schema, str):
        return _of_name(schema, named)
    if isinstance(schema, list):
        return 1 + min((_least_bytes(branch, named, depth + 1) for branch in schema), default=0)
    if not isinstance(schema, dict):
        raise ValueError("a schema that is none")
    kind = schema.get("type")
    if kind in ("record", "error"):
        name = _full_name(schema)
        named[name] = None
        fields = schema.get("fields") or []
        least = sum(_least_bytes(field.get("type"), named, depth + 1) for field in fields)
        named[name] = least
        return least
    if kind == "array":
        if not _least_bytes(schema.get("items"), named, depth + 1):
            raise ValueError("an array of values that take no bytes")
        return 1
    if kind == "map":
        _least_bytes(schema.get("values"), named, depth + 1)
        return 1
    if kind == "fixed":
        size = schema.get("size")
        return named.setdefault(_full_name(schema), size if isinstance(size, int) else 0) or 0
    if kind == "enum":
        return named.setdefault(_full_name(schema), 1) or 1
    return _least_bytes(kind, named, depth + 1)


def _of_name(name: str, named: Mapping[str, int | None]) -> int:
    if name in _PRIMITIVE:
        return 0 if name == "null" else 1
    least = named.get(name.rpartition(".")[2], 0)
    if least is None:
        raise ValueError(f"type {name[:80]!r} contains itself")
    return least


def _full_name(schema: Mapping[str, Any]) -> str:
    return str(schema.get("name", "")).rpartition(".")[2]


def parsed_schema(text: str) -> Any:
    """The schema's JSON values, checked. Raises ValueError."""
    try:
        schema = json.loads(text)
    except RecursionError:
        raise ValueError("a schema of too many levels") from None
    check_schema(schema)
    return schema
