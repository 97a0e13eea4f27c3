"""Blocks of HFiles, version 3: a header, the content, and its checksums (format.md 9.2).

    kind 8 bytes | stored int32 | size int32 | previous int64 | checksum 1 byte | chunk int32 | end int32
    | content | a checksum of every `chunk` bytes from the kind on, int32 each

All numbers are big-endian. `size` is the content's as it is read, `stored` counts the compressed content and
the checksums, `end` the header and the compressed content. `previous` is the place of the last block of the
kind, or -1. Gzip has a checksum of the content of its own: of data blocks that begin as Java's gzip does that
alone is computed.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from hoodie.codec.crc32c import crc32c_of_chunks

HEADER = struct.Struct(">8siiqBii")
#: bytes that each checksum is made of, as all writers have it
_CHUNK = 1 << 14
_LEAST_CHUNK = 512
#: deflate makes at most about so many bytes of one
_MOST_EXPANSION = 1100
#: of gzip: blocks are a little larger than at Apache Hudi's, 6, in three fifths of the time
LEVEL = 4
#: as Java writes it
_GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
#: what is the same of all releases of Java
_PLAIN_HEAD = _GZIP_HEAD[:-1]


class Kind(bytes, enum.Enum):
    DATA = b"DATABLK*"
    META = b"METABLKc"
    LEAF_INDEX = b"IDXLEAF2"
    INTERMEDIATE_INDEX = b"IDXINTE2"
    ROOT_INDEX = b"IDXROOT2"
    FILE_INFO = b"FILEINF2"


class Compression(enum.IntEnum):
    """Of all blocks of a file, as its trailer numbers them; those of others are refused."""

    GZIP = 1
    NONE = 2


class Checksum(enum.IntEnum):
    #: there are checksums' bytes, which nobody looks at: Apache Hudi 1.x has no other
    UNCHECKED = 0
    CRC32 = 1
    #: what HBase writes
    CRC32C = 2


def _crc32(data: bytes, chunk: int) -> list[int]:
    return [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]


#: the checksums of the chunks of some bytes
_SUMS: dict[int, Callable[[bytes, int], list[int]]] = {
    Checksum.CRC32: _crc32,
    Checksum.CRC32C: crc32c_of_chunks,
}


class Damage(Exception):
    """What is wrong with the bytes of a file."""


class Block(NamedTuple):
    """`stored`: bytes in the file, with header and checksums."""

    content: bytes
    stored: int


def decode_block(
    data: memoryview, place: int, kind: Kind, compression: Compression, most: int, exact: bool = True
) -> Block:
    """The block that `data` begins with, and, where `exact`, is; of at most `most` bytes of content.

    `place` is where it lies in its file, for errors. Raises Damage.
    """
    if len(data) < HEADER.size:
        raise Damage(f"no block fits at {place}")
    found, stored, size, _, checksum, chunk, end = HEADER.unpack_from(data)
    if found != kind:
        raise Damage(f"the block at {place} is {found!r}, not {kind.value!r}")
    whole = HEADER.size + stored
    if not HEADER.size <= end <= whole <= len(data) or (exact and whole != len(data)):
        raise Damage(f"the block at {place} has impossible sizes")
    if not 0 <= size <= most:
        raise Damage(f"the block at {place} has impossible sizes: {size:,} bytes, at most {most:,} are read")
    if chunk < _LEAST_CHUNK or whole - end != 4 * -(-end // chunk):
        raise Damage(f"the block at {place} lacks checksums, or has bytes behind them")
    packed, zipped = data[HEADER.size : end], compression is Compression.GZIP
    if checksum in _SUMS:
        told_by_gzip = zipped and kind is Kind.DATA and packed[: len(_PLAIN_HEAD)] == _PLAIN_HEAD
        if not told_by_gzip and _packed(_SUMS[checksum](bytes(data[:end]), chunk)) != data[end:whole]:
            raise Damage(f"the checksum of the block at {place} is wrong")
    elif checksum != Checksum.UNCHECKED:
        raise Damage(f"the block at {place} has checksums of kind {checksum}, known are 0, 1 and 2")
    content = _unzipped(packed, size, place) if zipped else bytes(packed)
    if len(content) != size:
        raise Damage(f"the block at {place} has {len(content)} bytes, its header says {size}")
    return Block(content, whole)


def encode_block(
    kind: Kind,
    content: bytes,
    previous: int,
    compression: Compression,
    checksum: Checksum,
    level: int = LEVEL,
) -> bytes:
    packed = _zipped(content, level) if compression is Compression.GZIP else content
    end = HEADER.size + len(packed)
    sums = 4 * -(-end // _CHUNK)
    data = HEADER.pack(kind, len(packed) + sums, len(content), previous, checksum, _CHUNK, end) + packed
    if checksum is Checksum.UNCHECKED:
        return data + bytes(sums)
    return data + _packed(_SUMS[checksum](data, _CHUNK))


def _packed(sums: list[int]) -> bytes:
    return struct.pack(f">{len(sums)}I", *sums)


def _zipped(content: bytes, level: int) -> bytes:
    deflate = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    packed = deflate.compress(content) + deflate.flush()
    return _GZIP_HEAD + packed + struct.pack("<II", zlib.crc32(content), len(content))


def _unzipped(data: memoryview, size: int, place: int) -> bytes:
    """At most one byte more than `size`."""
    if size > _MOST_EXPANSION * max(1, len(data)):
        raise Damage(f"the block at {place}: {len(data)} bytes can't become {size}")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        content = inflate.decompress(data, size + 1)
    except zlib.error as error:
        raise Damage(f"the block at {place} can't be decompressed ({error})") from None
    if not inflate.eof or inflate.unused_data:
        raise Damage(f"the block at {place} is cut, or longer than its header says")
    return content
