"""Avro containers and single records; the only importer of fastavro.

- Containers of one record are the form of Hudi's plans and metadata (format.md 2.3, 3.4). The archived
  timeline has single records without a container (format.md 11).
- Containers of any number of records are read block by block (Avro 1.11 specification, "Object Container
  Files"). Files are untrusted: a block may declare more records than it has bytes, or inflate to gigabytes.
- The schemas are those of Apache Hudi 0.15.0, and of 1.2.0 where the name ends with V8: data files next to
  this module. They are read on first use, also out of a zip. `java_strings` adds what Hudi's build adds to
  them. Full names are `org.apache.hudi.avro.model.<name>`.
- Arrow is imported only for codecs that Python's library lacks.
"""

from __future__ import annotations

import bz2
import functools
import importlib.resources
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from hoodie.codec.avro_container import MAGIC, SYNC, header, one_datum, parsed_schema
from hoodie.codec.protobuf import varint
from hoodie.config.limits import MAX_READ_BYTES
from hoodie.errors import NotInstalled, TableError

#: bytes that are read at once
_READ = 1 << 20


class Block(NamedTuple):
    records: int
    data: bytes


class AvroFile:
    """A container that is read from its start, once. Raises ValueError for what is none or is damaged."""

    def __init__(self, source: Any) -> None:
        """`source` has `read`, of a number of bytes."""
        self._source = source
        self._left = b""
        while True:
            more = source.read(_READ)
            self._left += more
            if not self._left.startswith(MAGIC[: len(self._left)]) or not self._left:
                raise ValueError("it does not begin as an Avro file does")
            try:
                meta, at = header(self._left)
                if at + SYNC > len(self._left):
                    raise ValueError("the header is cut")
                break
            except ValueError:
                if not more or len(self._left) > MAX_READ_BYTES:
                    raise
        self.schema = meta.get("avro.schema", b"").decode()
        self._codec = meta.get("avro.codec", b"null").decode("utf-8", "replace")
        self._sync = self._left[at : at + SYNC]
        self._left = self._left[at + SYNC :]

    def blocks(self) -> Iterator[Block]:
        number = 0
        while self._left or self._more():
            count, size = self._long(), self._long()
            if not count >= 0 or not 0 <= size <= MAX_READ_BYTES:
                raise ValueError(f"block {number} has {count} records in {size} bytes")
            data = inflated(self._take(size), self._codec)
            if self._take(SYNC) != self._sync:
                raise ValueError(f"block {number} is damaged")
            if count > len(data):
                raise ValueError(f"block {number} has {count} records in {len(data)} bytes")
            yield Block(count, data)
            number += 1

    def _more(self) -> bool:
        more: bytes = self._source.read(_READ)
        self._left += more
        return bool(more)

    def _take(self, size: int) -> bytes:
        if len(self._left) < size:
            self._left += self._source.read(size - len(self._left) + _READ)
        if len(self._left) < size:
            raise ValueError("the last block is cut")
        taken, self._left = self._left[:size], self._left[size:]
        return taken

    def _long(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise ValueError("a number is cut")


def inflated(data: bytes, codec: str) -> bytes:
    """The bytes of a block. Raises ValueError for a codec that Avro does not have, and for damage."""
    try:
        if codec == "null":
            return data
        if codec == "deflate":
            return _bounded(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, MAX_READ_BYTES + 1))
        if codec == "bzip2":
            return _bounded(bz2.BZ2Decompressor().decompress(data, MAX_READ_BYTES + 1))
        if codec == "xz":
            return _bounded(lzma.LZMADecompressor().decompress(data, MAX_READ_BYTES + 1))
        if codec == "zstandard":
            import pyarrow as pa

            with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                return _bounded(stream.read(MAX_READ_BYTES + 1))
        if codec == "snappy":
            return _snappy(data)
    except (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:  # Arrow's are of these
        raise ValueError(f"{codec}: {error}") from None
    raise ValueError(f"its codec is {codec[:40]!r}")


def _snappy(data: bytes) -> bytes:
    """The length, the text, and a checksum of four bytes of the text."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MAX_READ_BYTES:
        raise ValueError(f"a block of {len(data)} bytes inflates to {size}")
    import pyarrow as pa

    found: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(data[-4:], "big"):
        raise ValueError("a block's checksum is wrong")
    return found


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_READ_BYTES:
        raise ValueError(f"a block inflates to more than {MAX_READ_BYTES} bytes")
    return data


def one_block(schema: str, block: Block) -> io.BytesIO:
    """A container of this block alone, without a codec."""
    mark = bytes(SYNC)
    out = io.BytesIO()
    out.write(MAGIC + b"\x02")
    for text in (b"avro.schema", schema.encode()):
        out.write(_long(len(text)) + text)
    out.write(b"\x00" + mark + _long(block.records) + _long(len(block.data)) + block.data + mark)
    out.seek(0)
    return out


def _long(count: int) -> bytes:
    """A count as Avro's long, whose lowest bit is the sign."""
    return varint(count << 1)


NAMESPACE = "org.apache.hudi.avro.model"
#: property of texts and maps in a writer's schema; without it Java takes them for another class than String
JAVA_STRING = "avro.java.string"


@functools.cache
def schema_json(name: str) -> dict[str, Any]:
    """The Avro schema of a Hudi model by its short name, e.g. "HoodieRollbackPlan"; don't change the result.

    Raises KeyError for a name that Hudi does not have.
    """
    file = importlib.resources.files("hoodie.codec") / "schemas" / f"{name}.avsc"
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
    try:
        record = _read(io.BytesIO(data), lambda: _parsed_text(writer_schema), _parsed(name))
    except ValueError as error:
        raise _torn(name, str(error)) from None
    if not isinstance(record, dict):
        raise _torn(name, "no record")
    return record


def read_value(source: io.BytesIO, writer_schema: str, reader_schema: str) -> Any:
    """The value that begins where the source is, which may go on behind it. Raises ValueError for what is
    none of the schema.
    """
    return _read(source, lambda: _parsed_text(writer_schema), _parsed_text(reader_schema))


def _read(source: io.BytesIO, written: Callable[[], Any], wanted: Any) -> Any:
    fastavro = _fastavro()
    torn: tuple[type[Exception], ...]
    torn = (ValueError, EOFError, LookupError, TypeError, ArithmeticError, AttributeError, MemoryError)
    torn = (*torn, RecursionError, *_errors(fastavro))
    try:
        return fastavro.schemaless_reader(source, written(), wanted)
    except torn as error:
        raise ValueError(f"{type(error).__name__}: {error}"[:300]) from None


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
        raise NotInstalled(
            "fastavro is not installed; commits of table versions 8 and 9, and plans and results of table "
            "services, are Avro files: pip install fastavro, or put it on the cluster",
            package="fastavro",
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
