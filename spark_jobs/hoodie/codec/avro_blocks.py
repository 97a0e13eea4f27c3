"""Avro object containers of any number of records, block by block (Avro 1.11 specification, "Object Container
Files").

Files are untrusted: a block may declare more records than it has bytes, or inflate to gigabytes. Arrow is
imported for codecs that Python's library lacks only.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from hoodie.codec.avro_container import MAGIC, SYNC, header
from hoodie.codec.protobuf import varint
from hoodie.config.limits import MAX_READ_BYTES

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
